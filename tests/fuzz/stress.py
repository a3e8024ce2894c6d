"""Numerical stress: every estimator, weight and estimate, on logs and at hyper-parameters that strain arithmetic."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from random import Random

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

import drcrm
from drcrm import BanditLog, ExponentialPolicy
from drcrm.selection.algorithms import ESTIMATORS
from drcrm.selection.heldout_scores import HeldoutScores
from drcrm.weights import WEIGHTS

from .harness import Kind, expect, in_one_line

ROUNDS = 40  # iterations at most

# Values of the hyper-parameters in the shipped grids, at their ends, and past them.
VALUES = {
    "variance_penalty": [0.0, 1e-6, 1.0, 1e300],
    "temperature": [5e-324, 1e-300, 1e-3, 1.0, 1e4, 1e300],
    "radius": [0.0, 1e-300, 1e-6, 0.1, 1.0, 1e300],
    "alpha": [5e-324, 1e-3, 0.5, 1.0],
    "smoothing": [1e-300, 1e-6, 0.1, 1.0, 1e300],
    "sharpness": [0.0, 1e-2, 1.0, 3.16, 1e300],
    "exploration": [5e-324, 1e-5, 0.1, 1.0, 1e300],
    "exponent": [1e-300, 0.2, 1.0],
    "shrinkage": [5e-324, 1.0, 1e300],
}
CLASSES = {"exploration": drcrm.Implicit, "exponent": drcrm.Smoothed, "shrinkage": drcrm.Shrunk}
KINDS = {"clipped": None, **{name: kind.parameter for name, kind in WEIGHTS.items()}}


def made(n: int = 24, d: int = 3, q: int = 2, seed: int = 0) -> dict[str, object]:
    """A log at random, its last feature constant."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=(n, d - 1)), np.ones(n)])
    Y = rng.integers(2, size=(n, q))
    return {"X": X, "Y": Y, "propensity": rng.uniform(0.05, 1, n), "cost": -rng.uniform(0, q, n)}


def with_label(value: int) -> dict[str, object]:
    log = made()
    log["Y"][:, 0] = value
    return log


def with_zero_columns() -> dict[str, object]:
    log = made(d=5)
    log["X"][:, [0, 2]] = 0
    return {**log, "X": sparse.csr_array(log["X"])}


LOGS: Mapping[str, Callable[[], dict]] = {
    "one label": lambda: made(q=1),
    "forty labels": lambda: made(q=40),
    "one row": lambda: made(n=1),
    "a label always 0": lambda: with_label(0),
    "a label always 1": lambda: with_label(1),
    "fewer rows than features": lambda: made(n=4, d=30),
    "columns of zeros": with_zero_columns,
    "no feature at all": lambda: {**made(), "X": np.zeros((24, 3))},
    "features of 1e150": lambda: {**made(), "X": made()["X"] * 1e150},
    "features of 1e200": lambda: {**made(), "X": made()["X"] * 1e200},
    "features of 1e-150": lambda: {**made(), "X": made()["X"] * 1e-150},
    "propensities of 1e-300": lambda: {**made(), "propensity": np.full(24, 1e-300)},
    "one propensity of 1e-300": lambda: {**made(), "propensity": np.array([1e-300] + [0.5] * 23)},
    "costs all equal": lambda: {**made(), "cost": np.full(24, -1.0)},
    "costs all 0": lambda: {**made(), "cost": np.zeros(24)},
    "costs integer and tied": lambda: {**made(), "cost": -np.arange(24) % 3},
    "costs of both signs": lambda: {**made(), "cost": np.tile([1.0, -1.0], 12)},
    "costs of 1e300": lambda: {**made(), "cost": made()["cost"] * 1e300},
    "costs of 1e-300": lambda: {**made(), "cost": made()["cost"] * 1e-300},
    "weights all clipped": lambda: {**made(), "propensity": np.full(24, 1e-3), "clip": 1.0},
    "weights all 0": lambda: {**made(), "Y": np.ones((24, 2)), "X": np.full((24, 3), 30.0), "coef": -30.0},
    "counts of 1e12": lambda: {**made(), "count": np.full(24, 10**12)},
}


def allowed(name: str) -> Iterator[tuple[str, str]]:
    """The weights and estimates that an estimator has; "dm" has no use for weights."""
    estimator = ESTIMATORS[name]
    for weight in ["clipped"] if estimator.likelihood else KINDS:
        for estimate in estimator.estimates:
            if weight == "clipped" or estimate != "dm":
                yield weight, estimate


@cache
def modelled(name: str) -> drcrm.CostModel | None:
    """A cost model of a log; None where the log was refused, in one line."""
    log = LOGS[name]()
    return in_one_line(drcrm.CostModel().fit, log["X"], log["Y"], cost=log["cost"], count=log.get("count"))[0]


def fitted(name: str, value: float | None, weight: str, weight_value: float | None, estimate: str, log: dict) -> object:
    """Fit, and judge the result; None where the input was refused, in one line."""
    log = dict(log)
    options = {"clip": log.pop("clip", "auto"), "estimate": estimate, "max_iter": ROUNDS}
    if "coef" in log:
        start = np.full((log["X"].shape[1], log["Y"].shape[1]), log.pop("coef"))
        options["start"], log["logging_policy"] = "logging", ExponentialPolicy(start)
    if weight != "clipped":
        options["weight"] = CLASSES[KINDS[weight]](weight_value)
    own = {ESTIMATORS[name].hyper_parameter: value} if ESTIMATORS[name].parameters else {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ConvergenceWarning)
        for said in ("X has no constant column", "no cost is below 0", "columns? .* far from 0"):
            warnings.filterwarnings("ignore", said)
        found, _ = in_one_line(getattr(drcrm, name)(**own, **options).fit, **log)
        if found is None:
            return None
        expect(np.isfinite(found.coef_).all() and math.isfinite(found.objective_), "a fit is not finite")
        expect(0 <= found.n_iter_ <= ROUNDS, f"{found.n_iter_} iterations")
        rows = BanditLog(log["X"], log["Y"], log["propensity"], log["cost"], count=log.get("count"))
        with np.errstate(all="ignore"):
            scores, _ = in_one_line(HeldoutScores(rows, found.clip_), found.coef_)
        expect(scores is None or not np.isinf([*scores.values()]).any(), "a score is infinite")
    return found


def values(name: str) -> list:
    parameter = ESTIMATORS[name].hyper_parameter
    return VALUES[parameter] if parameter else [None]


def make(r: Random) -> tuple:
    """Draw one of the cross product."""
    name = r.choice(list(ESTIMATORS))
    weight, estimate = r.choice([*allowed(name)])
    weight_value = r.choice(VALUES[KINDS[weight]]) if weight != "clipped" else None
    return name, r.choice(values(name)), weight, weight_value, estimate, r.choice(list(LOGS))


def check(case: tuple, folder: Path) -> bool:
    *chosen, log = case
    return fitted(*chosen, LOGS[log]()) is not None


KIND = Kind("stress", 70, make, check)
