"""How often are certificates issued, and how often are they false, if costs are rare, large or skewed?

Contexts are normal with a constant, and a softmax draws one of four actions. Costs do not depend on context or action,
so every policy costs their mean, and a difference from the logging policy is 0. A share of the rows has a loss, and
``LAWS`` has this share and the size of a loss. A revenue is a negated loss. The policy `near` moves the scores of the
logging policy a little, `far` three times as much. A cost model is fitted to another log of the same size.
Certificates have confidence 0.95.

The table has a row per law, sign, policy, number of rows and bound: the number of logs, the share with a certificate,
and the share with a false one (its bound is below the truth). Bounds by `dr` have three further columns: the same two
shares without the check of tails (`check_tails=False`), and the share of logs whose 95 % interval covers the truth.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from itertools import product

import numpy as np
import pandas as pd
from cells import means, number, table_of
from synthetic import normal_coefficients, normal_contexts

from drcrm.certificates import policy_certificate
from drcrm.cost_models.ridge_model import CostModel
from drcrm.data.bandit_log import BanditLog
from drcrm.errors import InputError
from drcrm.evaluation.off_policy_value import off_policy_value
from drcrm.policies.exponential import SoftmaxPolicy

SIZES = (250, 1000, 5000)
ACTIONS, FEATURES = 4, 3
ALLOWED = 0.07
Draw = Callable[[np.random.Generator, int], np.ndarray]


def lognormal(sigma: float) -> tuple[Draw, float]:
    """Return draws and mean of lognormal sizes."""
    return lambda rng, n: np.exp(sigma * rng.normal(size=n)), float(np.exp(sigma**2 / 2))


def pareto(shape: float) -> tuple[Draw, float]:
    """Return draws and mean of Pareto sizes of at least 1."""
    return lambda rng, n: 1 + rng.pareto(shape, n), shape / (shape - 1)


ONE: tuple[Draw, float] = (lambda rng, n: np.ones(n), 1.0)
NORMAL: tuple[Draw, float] = (lambda rng, n: 3 + rng.normal(size=n), 3.0)
LAWS = {  # the share of rows with a loss, and its size
    "normal": (1.0, NORMAL),
    "1 in 30 %": (0.3, ONE),
    "1 in 5 %": (0.05, ONE),
    "1 in 1 %": (0.01, ONE),
    "lognormal, σ = 1": (1.0, lognormal(1)),
    "lognormal, σ = 1.5, in 1 %": (0.01, lognormal(1.5)),
    "lognormal, σ = 1.5, in 20 %": (0.2, lognormal(1.5)),
    "lognormal, σ = 2, in 5 %": (0.05, lognormal(2)),
    "Pareto, shape 1.5": (1.0, pareto(1.5)),
    "Pareto, shape 2.5, in 5 %": (0.05, pareto(2.5)),
}
BOUNDS = {
    "dr": {"estimate": "dr"},
    "snips": {"estimate": "snips"},
    "ips": {"estimate": "ips"},
    "difference, dr": {"estimate": "dr", "baseline": "logging"},
    "difference, snips": {"estimate": "snips", "baseline": "logging"},
}


KEYS = ("law", "sign", "n", "policy", "bound")
MEASURED = ("issued", "false", "issued unchecked", "false unchecked", "interval covers")


class World:
    """The logging policy and the policies that are certified."""

    def __init__(self):
        rng = np.random.default_rng(0)
        scores, direction = (normal_coefficients(rng, FEATURES, ACTIONS) for _ in range(2))
        self.logging = SoftmaxPolicy(scores / 2)
        moves = {"near": 0.7, "far": 2.0}
        self.policies = {name: SoftmaxPolicy(scores / 2 + move * direction) for name, move in moves.items()}

    def log(self, law: str, sign: int, n: int, rng: np.random.Generator) -> BanditLog:
        """Return a log of n independent rows."""
        share, (draw, _) = LAWS[law]
        X = normal_contexts(rng, n, FEATURES)
        action = self.logging.sample(X, rng)
        propensity = np.exp(self.logging.log_prob(X, action))
        cost = sign * (rng.random(n) < share) * draw(rng, n)
        return BanditLog(X, action, propensity, cost, n_actions=ACTIONS)


@cache
def only_world() -> World:
    return World()


def certify(law: str, sign: int, n: int, seed: int) -> Iterator[tuple]:
    """Yield the policy, the bound, and a boolean for each share in the table, NaN if it is not measured."""
    world, rng = only_world(), np.random.default_rng([seed, n, list(LAWS).index(law), sign + 1])
    training, log = (world.log(law, sign, n, rng) for _ in range(2))
    model, mean = CostModel().fit(training), sign * LAWS[law][0] * LAWS[law][1][1]
    for (name, policy), (bound, settings) in product(world.policies.items(), BOUNDS.items()):
        truth = 0.0 if "baseline" in settings else mean
        is_dr = settings["estimate"] == "dr"
        checked = outcome(policy, log, truth, cost_model=model, **settings)
        unchecked, covers = (np.nan, np.nan), np.nan
        if is_dr:
            unchecked = outcome(policy, log, truth, cost_model=model, check_tails=False, **settings)
            value = off_policy_value(policy, log, cost_model=model, **settings)
            covers = value.low <= truth <= value.high
        yield name, bound, *checked, *unchecked, covers


def outcome(policy: SoftmaxPolicy, log: BanditLog, truth: float, **settings) -> tuple[bool, bool]:
    """Return whether there is a certificate, and whether it is false."""
    try:
        certificate = policy_certificate(policy, log, **settings)
    except InputError:
        return False, False
    return True, certificate.bound < truth


def measure(
    repetition: int, sizes: tuple[int, ...] = SIZES, laws: tuple[str, ...] = tuple(LAWS)
) -> Iterator[dict[str, object]]:
    """Yield a row per law, sign, policy, n and bound."""
    for law, sign, n in product(laws, (1, -1), sizes):
        kind = "loss" if sign > 0 else "revenue"
        for result in certify(law, sign, n, repetition):
            yield dict(zip([*KEYS, *MEASURED], (law, kind, n, *result), strict=True))


def tabulate(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the shares by law, sign, policy, n and bound."""
    return means(rows, KEYS)


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """Return shares of certificates, of false ones, and of false bounds without the correction; the worst policy."""
    rows = table.query("sign == 'loss' and bound == 'dr'")
    worst = rows.groupby(["law", "n"], sort=False).agg({"issued": "min", "false": "max", "false unchecked": "max"})
    cells = worst.apply(lambda row: f"{number(row.iloc[0], 2)}, {number(row.iloc[1])}; {number(row.iloc[2])}", axis=1)
    wide = cells.unstack("n", sort=False)
    return table_of(("loss", *(f"{n} rows" for n in wide)), wide.reset_index().values)
