"""How often do certificates under shift cover R_κ, and how often is the break-even factor Γ* at most the true one?

A log has a context x, uniform on [−1, 1]², and one of 5 actions from the logging policy softmax(x·β), for the fifth
roots of unity β_a. The policy is softmax(3 x·β). There are three kinds of costs:

normal   The mean −x·β_a and the standard deviation 0.1, 0.2 … 0.5 by action (Kallus, Mao, Wang & Zhou 2022).
clicks   −1 with probability 0.5 + 0.3 x·β_a, otherwise 0.
delays   Lognormal with the median e^(−x·β_a) and σ = 0.7, cut at 6.

The table has a row per kind, number of rows n, estimate and quantity:

cost         The certificate of the policy's R_κ.
difference   The certificate of the policy's R_κ minus the logging policy's, which ``learn`` compares with 0.
breakeven    Γ* of the sensitivity bound. It is right if the policy is still better at Γ* by the true law.

The bounds have confidence 0.95. ``truth`` is the true value. It and the true worst cases at Γ are sums over a grid of
contexts, actions and quantiles of the costs. ``value`` is the mean bound, ``coverage`` the share of the bounds that are
right, among those that are issued, and ``refused`` the share of the others. The cost model of "dr" comes from another
log of 2000 rows, like in ``learn``. Log number s has seed s.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import product

import numpy as np
import pandas as pd
from cells import joined, table_of
from coverage import mean_coverage
from scipy.optimize import brentq, minimize_scalar
from scipy.special import logsumexp, ndtri, softmax
from shift_accuracy import ROOTS, SCALES, add_constant
from synthetic import draw_actions

from drcrm import BanditLog, CostModel
from drcrm.certificates import policy_certificate, sensitivity
from drcrm.errors import InputError

KINDS, SIZES, ESTIMATES = ("normal", "clicks", "delays"), (2000, 10_000), ("snips", "dr")
RADII, CONFIDENCE = (0.1, 0.3), 0.95
TRAINING_SEED, TRAINING_ROWS = 10**6, 2000
NODES = (np.arange(40) + 0.5) / 20 - 1
QUANTILES = (np.arange(600) + 0.5) / 600


def costs_at(kind: str, mean: np.ndarray, scale: np.ndarray, quantile: np.ndarray) -> np.ndarray:
    """Return costs by their quantiles; ``mean`` is x·β_a, and ``scale`` the noise of the action."""
    if kind == "normal":
        return -mean + scale * ndtri(quantile)
    if kind == "clicks":
        return -(quantile < 0.5 + 0.3 * mean).astype(float)
    return np.minimum(np.exp(-mean + 0.7 * ndtri(quantile)), 6)


def probabilities(x: np.ndarray, sharpness: float) -> np.ndarray:
    """Return softmax(sharpness · x·β)."""
    return softmax(sharpness * x @ ROOTS, axis=1)


@dataclass(frozen=True)
class World:
    """The true law of a kind of costs: its atoms are contexts of a grid, actions, and quantiles of the costs."""

    kind: str

    @cached_property
    def x(self) -> np.ndarray:
        return np.stack(np.meshgrid(NODES, NODES), axis=-1).reshape(-1, 2)

    @cached_property
    def cost(self) -> np.ndarray:
        """Costs, (1600 contexts, 5 actions, 600 quantiles)."""
        mean = (self.x @ ROOTS)[:, :, None]
        return costs_at(self.kind, mean, SCALES[None, :, None], QUANTILES[None, None, :])

    @cached_property
    def model(self) -> CostModel:
        """The cost model of another log."""
        return CostModel().fit(self.draw(TRAINING_ROWS, TRAINING_SEED))

    def draw(self, rows: int, seed: int) -> BanditLog:
        """Return a log."""
        rng = np.random.default_rng([seed, KINDS.index(self.kind)])
        x = rng.uniform(-1, 1, (rows, 2))
        logging = probabilities(x, 1)
        action = draw_actions(logging, rng)
        mean = (x @ ROOTS)[np.arange(rows), action]
        cost = costs_at(self.kind, mean, SCALES[action], rng.random(rows))
        return BanditLog(add_constant(x), action, logging[np.arange(rows), action], cost, n_actions=ROOTS.shape[1])

    def robust_cost(self, sharpness: float, radius: float) -> float:
        """Return R_κ of softmax(sharpness · x·β), by its dual."""
        share = probabilities(self.x, sharpness)[:, :, None] / (len(self.x) * len(QUANTILES))

        def dual(log_gamma: float) -> float:
            gamma = np.exp(log_gamma)
            return gamma * (radius + logsumexp(self.cost / gamma, b=share))

        return float(minimize_scalar(dual, bounds=(-4, 4), method="bounded", options={"xatol": 1e-8}).fun)

    def true_breakeven(self, estimate: str) -> float:
        """Return the true Γ*: there, the policy's worst case equals the logging policy's cost."""
        prob, logged = probabilities(self.x, 3), probabilities(self.x, 1)
        modelled = np.zeros_like(prob)
        if estimate == "dr":
            modelled = self.model.effects(add_constant(self.x))
        residual = (self.cost - modelled[:, :, None]).ravel()
        order, average = np.argsort(-residual), (logged * self.cost.mean(axis=2)).sum(axis=1).mean()
        base = (prob * modelled).sum(axis=1).mean() - average

        def gain(gamma: float) -> float:
            # Shares of the logging policy times weights: p π (1 + (1/p − 1)/Γ) and p π (1 + Γ (1/p − 1)).
            low, high = (
                np.repeat(prob * (logged + odds * (1 - logged)), len(QUANTILES)) for odds in (1 / gamma, gamma)
            )
            more, fewer = high[order], low[order]
            mass = more.cumsum() + fewer[::-1].cumsum()[::-1] - fewer
            total = (more * residual[order]).cumsum()
            fewer *= residual[order]
            return base + ((total + fewer[::-1].cumsum()[::-1] - fewer) / mass).max()

        return float(brentq(gain, 1, 50, xtol=1e-6))


def bounds_of(world: World, log: BanditLog, estimate: str, truth: dict[str, float]) -> list[dict]:
    """Return a row for each quantity, with its bound and ``width``, which is at least 0 if the bound is right."""
    policy, rows = probabilities(log.X[:, :2], 3), []
    model = world.model if estimate == "dr" else None
    for name, value in truth.items():
        quantity, _, radius = name.partition(" ")
        try:
            if quantity == "breakeven":
                bound = sensitivity(policy, log, 1.0, estimate, model, CONFIDENCE).breakeven
            else:
                baseline = "logging" if quantity == "difference" else None
                options = {"cost_model": model, "baseline": baseline, "shift": float(radius)}
                bound = policy_certificate(policy, log, estimate, CONFIDENCE, **options).bound
        except InputError:
            bound = np.nan
        width = value - bound if quantity == "breakeven" else bound - value
        rows.append({"quantity": quantity, "radius": float(radius or 0), "value": bound, "width": width})
    return rows


@cache
def world_of(kind: str) -> World:
    return World(kind)


@cache
def true_values(kind: str, estimate: str) -> dict[str, float]:
    """Return the true values by quantity and radius."""
    world = world_of(kind)
    of_policy, of_log = ({radius: world.robust_cost(sharpness, radius) for radius in RADII} for sharpness in (3, 1))
    truth = {f"cost {radius}": value for radius, value in of_policy.items()}
    truth |= {f"difference {radius}": value - of_log[radius] for radius, value in of_policy.items()}
    return truth | {"breakeven": world.true_breakeven(estimate)}


def measure(repetition: int, sizes: Sequence[int] = SIZES, kinds: Sequence[str] = KINDS) -> Iterator[dict]:
    """Yield a row per kind, n, estimate, quantity and radius; ``sizes`` and ``kinds`` are for tests."""
    for kind, estimate, n in product(kinds, ESTIMATES, sizes):
        truth, world = true_values(kind, estimate), world_of(kind)
        measured = bounds_of(world, world.draw(n, repetition), estimate, truth)
        for value, row in zip(truth.values(), measured, strict=True):
            yield {"kind": kind, "n": n, "estimate": estimate, "truth": value} | row


def tabulate(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the coverage by kind, n, estimate, quantity and radius."""
    keys = ["kind", "n", "estimate", "quantity", "radius"]
    table = mean_coverage(rows, keys, ["truth", "value", "coverage", "refused"])
    return table.assign(logs=len(rows) // len(table))


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """Return the coverage at n = 2000 and 10 000."""
    wanted, lines = {"cost": "R_κ", "difference": "difference of R_κ from π0's", "breakeven": "Γ*"}, []
    for (kind, estimate), rows in table.sort_values(["radius", "n"]).groupby(["kind", "estimate"], sort=False):
        cells = (joined(rows.loc[rows["quantity"] == quantity, "coverage"]) for quantity in wanted)
        lines.append((f"{kind}, {estimate}", *cells))
    return table_of(("costs, estimate", *wanted.values()), lines)
