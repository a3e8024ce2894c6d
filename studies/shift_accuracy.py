"""How accurate are estimates of the worst case R_κ around the environment?

The problem is that of Kallus, Mao, Wang & Zhou (2022): x is uniform on [−1, 1]², and action a of 5 has the mean reward
x·β_a, for the fifth roots of unity β_a. The reward is normal with the standard deviation 0.1, 0.2 … 0.5 by
action. The logging policy is softmax(2 x·β). The target of the evaluation is softmax(x·β). Robust rewards −R_κ of known
policies are exact: E e^{c/γ} has a closed form in a, and a quadrature in x.

The table has a row per n, κ, kind of propensities and estimate: mean error (``value``), mean squared error (``square``)
with its standard error, mean squared standard error (``variance``), and the share of certificates at 95 % that are at
least R_κ (``coverage``), among those that are issued; ``refused`` is the share of the others. "estimated" propensities
are a softmax regression on x of the same rows. ``missing`` counts logs without a finite value. Log number s has seed s.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp, softmax
from sklearn.linear_model import LogisticRegression
from synthetic import draw_actions

from drcrm import BanditLog, off_policy_value
from drcrm.certificates import policy_certificate
from drcrm.errors import InputError

ACTIONS, RADII, ESTIMATES = 5, (0.1, 0.2, 0.3), ("snips", "dr")
ROOTS = np.array([np.cos(2 * np.pi * np.arange(ACTIONS) / ACTIONS), np.sin(2 * np.pi * np.arange(ACTIONS) / ACTIONS)])
SCALES = np.arange(1, ACTIONS + 1) / 10
EVALUATION = ((20_000, "known"), (20_000, "estimated"), (1000, "estimated"))
_nodes, _weights = np.polynomial.legendre.leggauss(80)
NODES = np.stack(np.meshgrid(_nodes, _nodes), axis=-1).reshape(-1, 2)
NODE_WEIGHTS = np.outer(_weights, _weights).ravel() / 4


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


def draw_log(rows: int, seed: int, propensities: str = "known") -> BanditLog:
    """Return a log, with a constant as the last feature."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (rows, 2))
    logging = softmax(2 * x @ ROOTS, axis=1)
    action = draw_actions(logging, rng)
    reward = (x @ ROOTS)[np.arange(rows), action] + SCALES[action] * rng.normal(size=rows)
    if propensities == "estimated":
        logging = LogisticRegression(C=1e6, max_iter=1000).fit(x, action).predict_proba(x)
    return BanditLog(add_constant(x), action, logging[np.arange(rows), action], -reward, n_actions=ACTIONS)


def estimate_errors(estimate: str, radius: float, log: BanditLog, truth: float) -> dict[str, float]:
    """Return the error of the estimate of R_κ, its standard error, and whether a certificate is at least R_κ."""
    target = softmax(log.X[:, :2] @ ROOTS, axis=1)
    value = off_policy_value(target, log, estimate, shift=radius)
    try:
        holds = float(policy_certificate(target, log, estimate, shift=radius).bound >= truth)
    except InputError:
        holds = np.nan
    return {"error": value - truth, "standard_error": value.standard_error, "holds": holds}


def table(repetitions: int, cells: tuple[tuple[int, str], ...] = EVALUATION) -> pd.DataFrame:
    """Return the rows of the study; ``cells`` are numbers of rows and kinds of propensities, for tests."""
    truth = {radius: robust_cost(softmax(NODES @ ROOTS, axis=1), radius) for radius in RADII}
    errors = []
    for (n, propensities), seed in product(cells, range(repetitions)):
        log = draw_log(n, seed, propensities)
        for radius, estimate in product(RADII, ESTIMATES):
            kept = {"n": n, "radius": radius, "propensities": propensities, "estimate": estimate}
            errors.append(kept | estimate_errors(estimate, radius, log, truth[radius]))
    rows = []
    for key, part in pd.DataFrame(errors).groupby(["n", "propensities", "radius", "estimate"], sort=False):
        square = part["error"] ** 2
        row = dict(zip(("n", "propensities", "radius", "estimate"), key, strict=True))
        row |= {"logs": len(part), "value": part["error"].mean()}
        row |= {"value_error": part["error"].sem(), "square": square.mean(), "square_error": square.sem()}
        row |= {"variance": (part["standard_error"] ** 2).mean(), "coverage": part["holds"].mean()}
        rows.append(row | {"refused": part["holds"].isna().mean(), "missing": int(part["error"].isna().sum())})
    return pd.DataFrame(rows)


def summary(rows: pd.DataFrame) -> str:
    """Return the mean squared errors × 10⁵ and the coverage, by κ."""
    keys = ["n", "propensities", "estimate"]
    squares = 1e5 * rows.pivot(index=keys, columns="radius", values="square")
    coverage = rows.pivot(index=keys, columns="radius", values="coverage")
    return "\n\n".join(part.to_string(float_format="%.4f") for part in (squares, coverage))
