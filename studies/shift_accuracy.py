"""How accurate are estimates of the worst case R_κ around the environment?

The problem is that of Kallus, Mao, Wang & Zhou (2022), ``simulate.KallusMaoWangZhou``, with its logging policy
softmax(2 x·β). The target of the evaluation is softmax(x·β). Robust rewards −R_κ of known policies are exact: E e^{c/γ}
has a closed form in a, and a quadrature in x.

The table has a row per n, κ, kind of propensities and estimate: mean error (``value``), mean squared error (``square``)
with its standard error, mean squared standard error (``variance``), and the share of certificates at 95 % that are at
least R_κ (``coverage``), among those that are issued; ``refused`` is the share of the others. "estimated" propensities
are a softmax regression on x of the same rows. ``missing`` counts logs without a finite value. Log number s has seed s.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import product

import numpy as np
import pandas as pd
from cells import table_of
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp, softmax
from sklearn.linear_model import LogisticRegression

from drcrm import BanditLog, off_policy_value, simulate
from drcrm.certificates import policy_certificate
from drcrm.errors import InputError

RADII, ESTIMATES = (0.1, 0.2, 0.3), ("snips", "dr")
PROBLEM = simulate.KallusMaoWangZhou()
ROOTS, SCALES, NODES, NODE_WEIGHTS = PROBLEM.roots, PROBLEM.noise, PROBLEM.nodes, PROBLEM.weights
EVALUATION = ((20_000, "known"), (20_000, "estimated"), (1000, "estimated"))
# Mean squared errors × 10⁵ at n = 20 000: the smallest possible ones, and those of the source by kind of propensities.
EFFICIENCY_BOUND = (1.48, 2.14, 2.96)
PUBLISHED = {
    "known": {"SNIPS": (3.6, 4.6, 5.7), "LDR": (1.6, 2.2, 3.0)},
    "estimated": {"SNIPS": (91, 105, 117), "LDR": (6.4, 8.2, 9.4)},
}


def add_constant(x: np.ndarray) -> np.ndarray:
    """Return the features of a policy."""
    return np.column_stack([x, np.ones(len(x))])


def robust_cost(policy: np.ndarray, radius: float) -> float:
    """Return R_κ of a policy with the given probabilities at NODES, (6400, 5)."""

    def dual(log_gamma: float) -> float:
        gamma = np.exp(log_gamma)
        log_moment = -(NODES @ ROOTS) / gamma + SCALES**2 / (2 * gamma**2)
        return gamma * (radius + logsumexp(log_moment, b=NODE_WEIGHTS[:, None] * policy))

    return float(minimize_scalar(dual, bounds=(-6, 4), method="bounded", options={"xatol": 1e-10}).fun)


@cache
def true_cost(radius: float) -> float:
    """Return R_κ of the target."""
    return robust_cost(softmax(NODES @ ROOTS, axis=1), radius)


def draw_log(rows: int, seed: int, propensities: str = "known") -> BanditLog:
    """Return a log, with a constant as the last feature."""
    log = PROBLEM.draw(rows, seed=seed).log
    propensity = log.propensity
    if propensities == "estimated":
        regression = LogisticRegression(C=1e6, max_iter=1000).fit(log.X, log.Y)
        propensity = regression.predict_proba(log.X)[np.arange(rows), log.Y]
    return BanditLog(add_constant(log.X), log.Y, propensity, log.cost, n_actions=PROBLEM.actions)


def estimate_errors(estimate: str, radius: float, log: BanditLog, truth: float) -> dict[str, float]:
    """Return the error of the estimate of R_κ, its standard error, and whether a certificate is at least R_κ."""
    target = softmax(log.X[:, :2] @ ROOTS, axis=1)
    value = off_policy_value(target, log, estimate, shift=radius)
    try:
        holds = float(policy_certificate(target, log, estimate, shift=radius).bound >= truth)
    except InputError:
        holds = np.nan
    return {"error": value - truth, "standard_error": value.standard_error, "holds": holds}


def measure(repetition: int, cells: Sequence[Sequence] = EVALUATION) -> Iterator[dict[str, object]]:
    """Yield a row per number of rows, kind of propensities, κ and estimate."""
    for n, propensities in cells:
        log = draw_log(n, repetition, propensities)
        for radius, estimate in product(RADII, ESTIMATES):
            kept = {"n": n, "propensities": propensities, "radius": radius, "estimate": estimate}
            yield kept | estimate_errors(estimate, radius, log, true_cost(radius))


def tabulate(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the mean errors by number of rows, kind of propensities, κ and estimate."""
    is_missing, is_refused = rows["error"].isna(), rows["holds"].isna()
    rows = rows.assign(square=rows["error"] ** 2, variance=rows["standard_error"] ** 2, refused=is_refused)
    groups = rows.assign(missing=is_missing).groupby(["n", "propensities", "radius", "estimate"], sort=False)
    table = groups[["error", "square", "variance", "holds", "refused"]].mean()
    table = table.rename(columns={"error": "value", "holds": "coverage"}).assign(logs=groups.size())
    errors = groups[["error", "square"]].sem().set_axis(["value_error", "square_error"], axis=1)
    return table.join(errors).assign(missing=groups["missing"].sum()).reset_index()


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """Return mean squared errors of estimates of R_κ at n = 20 000, × 10⁵, next to those of the source."""
    rows = table.set_index(["n", "propensities", "estimate", "radius"])
    lines = [("known", "efficiency bound", "–", *map(str, EFFICIENCY_BOUND))]
    for kind, published in PUBLISHED.items():
        lines += [(kind, f"{name}, theirs", "30", *map(str, of)) for name, of in published.items()]
        for estimate in ESTIMATES:
            of = rows.loc[[(20_000, kind, estimate, radius) for radius in RADII]]
            pairs = zip(1e5 * of["square"], 1e5 * of["square_error"], strict=True)
            cells = (f"{value:.1f} ± {error:.1f}" for value, error in pairs)
            lines.append((kind, f"`shift=`, {estimate}", str(of["logs"].iloc[0]), *cells))
    return table_of(("propensities", "estimate", "logs", *(f"κ = {radius}" for radius in RADII)), lines)
