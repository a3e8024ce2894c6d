"""The arguments of ``fit``, from Python."""

from __future__ import annotations

import math
import warnings
from fractions import Fraction
from pathlib import Path
from random import Random

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

import drcrm
from drcrm.estimates import ESTIMATES
from drcrm.optimization.starts import STARTS
from drcrm.selection.algorithms import ESTIMATORS

from .arrays import HOSTILE, TYPES, cast, normal
from .harness import Kind, expect, in_one_line

ODD = [None, "x", "auto", "", b"x", [], [[]], {}, (), object(), math.nan, math.inf, -math.inf, -1, 0, 1, 2, 0.5, 1e-320]
ODD += [
    1e308,
    10**400,
    -(10**400),
    True,
    1j,
    Fraction(1, 3),
    np.float32(2),
    np.array(1.0),
    np.array([1.0, 2.0]),
    np.nan,
]
OWN = ["max_iter", "tol", "clip", "tilt", "estimate", "weight", "start"]


def make(r: Random) -> tuple[object, dict, dict]:
    """Draw an estimator, and the arguments of its fit, with and without what is wrong with them."""
    name = r.choice([*ESTIMATORS, "DoublyRobustDRO"])
    estimator = getattr(drcrm, name)(max_iter=r.choice([5, 20, 50]))
    if r.random() < 0.5:
        estimator.set_params(estimate=r.choice(list(ESTIMATES)), start=r.choice(list(STARTS)))
    if r.random() < 0.3:
        estimator.set_params(weight=r.choice([drcrm.Implicit(0.1), drcrm.Smoothed(0.5), drcrm.Shrunk(2)]))
    if r.random() < 0.2:
        estimator.set_params(clip=r.choice([None, 1, 2.5, 100]), tilt=r.choice([0, 0.5, "auto"]))
    own = [key for key in estimator.get_params() if key not in OWN]
    if own and r.random() < 0.3:
        estimator.set_params(**{own[0]: r.choice([1e-3, 0.1, 1.0, 1e4])})
    if r.random() < 0.2:
        estimator.set_params(**{r.choice(list(estimator.get_params())): r.choice(ODD)})
    good = log(r)
    if r.random() < 0.5:
        d, q = good["X"].shape[1], good["Y"].shape[1]
        good["logging_policy"] = drcrm.ExponentialPolicy(np.full((d, q), r.choice([0.0, -0.5, 40.0])))
    return estimator, good, spoilt(r, good) if r.random() < 0.4 else good


def log(r: Random) -> dict[str, object]:
    n, d, q = r.randint(1, 8), r.randint(1, 3), r.randint(1, 3)
    m = r.randint(1, n) if r.random() < 0.3 else n
    costs = r.choice([[-1.0, -2.0, 0.0], [-1.0], [-0.5, -1.25], [1.0, -1.0], [3.0]])
    found = {
        "X": np.array([[r.choice([0.0, 1.0, normal(r)]) for _ in range(d)] for _ in range(m)]),
        "Y": np.array([[r.randrange(2) for _ in range(q)] for _ in range(n)]),
        "propensity": np.array([r.choice([1.0, 0.5, 0.01, max(0.01, r.random())]) for _ in range(n)]),
        "cost": np.array([r.choice(costs) for _ in range(n)]),
    }
    if m < n:
        found["context"] = np.array([r.randrange(m) for _ in range(n)])
    if r.random() < 0.3:
        found["count"] = np.array([1, *(r.choice([0, 1, 2]) for _ in range(n - 1))])
    return found


def spoilt(r: Random, arguments: dict[str, object]) -> dict[str, object]:
    arguments = dict(arguments)
    for _ in range(r.choice([1, 1, 2])):
        name = r.choice(["X", "Y", "propensity", "cost", "context", "count", "logging_policy", "cost_model"])
        array, change = arguments.get(name), r.randrange(8)
        if change == 0 or not isinstance(array, np.ndarray) or not array.ndim:
            arguments[name] = r.choice(ODD)
        elif change <= 3 and array.size:
            array = cast(array, float)
            array.flat[r.randrange(array.size)] = r.choice(HOSTILE)
            arguments[name] = array
        elif change == 4:
            arguments[name] = r.choice([array[:-1], array[None], array.ravel(), array[:0], np.repeat(array, 2, axis=0)])
        elif change == 5:
            arguments[name] = cast(array, r.choice(TYPES))
        elif change == 6:
            forms = [lambda a: a.tolist(), np.ma.masked_array, lambda a: a.astype(object), lambda a: list(a)]
            arguments[name] = r.choice([*forms, *([sparse.coo_array, sparse.csc_matrix] if array.ndim == 2 else [])])(
                array
            )
        else:
            arguments[name] = [[1], [1, 2]]
    return arguments


def check(case: tuple[object, dict, dict], folder: Path) -> bool:
    estimator, good, arguments = case
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for said in (
            "X has no constant column",
            "no cost is below 0",
            "columns? .* far from 0",
            "DoublyRobustDRO keeps π0",
        ):
            warnings.filterwarnings("ignore", said)
        fitted, _ = in_one_line(estimator.fit, **arguments)
    if fitted is None:
        return False
    d, q = good["X"].shape[1], good["Y"].shape[1]
    expect(np.isfinite(fitted.coef_).all() and math.isfinite(fitted.objective_), "a fit is not finite")
    expect(isinstance(fitted.converged_, bool) and 0 <= fitted.n_iter_ <= fitted.max_iter, "iterations")
    if fitted.coef_.shape == (d, q) and abs(fitted.coef_).max() < 1e100:
        marginals = fitted.predict_proba(good["X"])
        expect(((marginals >= 0) & (marginals <= 1)).all(), "no probabilities")
    if arguments is good:
        agrees(fitted, good)
    return True


def agrees(fitted: object, log: dict) -> None:
    """Compare the objective with its formula, written out row by row, where there is a plain one."""
    parameters = fitted.get_params()
    if parameters["estimate"] != "ips" or parameters["weight"] != "clipped":
        return
    context, n = log.get("context", np.arange(len(log["Y"]))), len(log["Y"])
    count = log.get("count", np.ones(n, dtype=int))
    clip, z = fitted.clip_ or math.inf, []
    for i in range(n):
        u = log["X"][context[i]] @ fitted.coef_ + fitted.intercept_
        log_prob = sum(y * v - np.logaddexp(0, v) for y, v in zip(log["Y"][i], u, strict=True))
        weight = math.exp(min(math.log(clip), log_prob - math.log(log["propensity"][i]), 700))
        z += [log["cost"][i] * weight] * int(count[i])
    z = np.array(z)
    name, mean = type(fitted).__name__, z.mean()
    if name == "CIPS":
        meant = mean
    elif name == "POEM":
        meant = mean + (fitted.variance_penalty * math.sqrt(z.var(ddof=1) / len(z)) if len(z) > 1 else 0)
    elif name == "LogSmoothing":
        meant = -np.log1p(-fitted.smoothing * z).mean() / fitted.smoothing
    elif name in ("KLCRM", "LogSumExp"):
        s = np.exp((z - z.max()) / fitted.temperature)
        meant = s @ z / s.sum() if name == "KLCRM" else z.max() + fitted.temperature * math.log(s.mean())
    elif name == "Chi2DRO":
        worst = mean + math.sqrt(fitted.radius * z.var())
        expect(mean - 1e-9 * (1 + abs(mean)) <= fitted.objective_ <= worst + 1e-9 * (1 + abs(worst)), "no χ² ball")
        return
    elif name == "KLDRO":
        # Weak duality: no temperature gives less than the ball's worst case, and some gives it.
        bounds = [
            g * fitted.radius + z.max() + g * math.log(np.exp((z - z.max()) / g).mean())
            for g in np.logspace(-6, 6, 241)
        ]
        expect(mean - 1e-9 * (1 + abs(mean)) <= fitted.objective_ <= min(bounds) + 1e-9 * (1 + abs(mean)), "no KL ball")
        return
    else:
        return
    expect(
        math.isclose(fitted.objective_, meant, rel_tol=1e-7, abs_tol=1e-9),
        f"objective {fitted.objective_}, not {meant}",
    )


KIND = Kind("fits", 60, make, check)
