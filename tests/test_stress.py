"""Every estimator, weight and estimate on logs and hyper-parameters that strain floating-point arithmetic.

A fit must end within its iterations with finite coefficients and a finite objective, or be refused in one line.
"""

import math
import warnings
from functools import cache
from inspect import signature
from itertools import cycle

import numpy as np
import pytest
from fixtures.user_input import result_or_message
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

import drcrm
from drcrm import BanditLog, ExponentialPolicy
from drcrm.selection.algorithms import ESTIMATORS, hyper_parameter
from drcrm.selection.heldout_scores import HeldoutScores
from drcrm.weights import WEIGHTS

MAX_ITER = 15

# Values of the hyper-parameters: the ends of the shipped grids, and beyond them.
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
SMOOTH_WEIGHTS = {
    next(iter(signature(weight).parameters)): weight for weight in (drcrm.Implicit, drcrm.Smoothed, drcrm.Shrunk)
}
PARAMETERS = {"clipped": None, **{name: next(iter(signature(weight).parameters)) for name, weight in WEIGHTS.items()}}


def random_log(n: int = 24, d: int = 3, q: int = 2, **columns) -> dict[str, object]:
    """Return a random log with a constant feature as arguments of ``fit``, some columns replaced."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(n, d - 1)), np.ones(n)])
    Y = rng.integers(2, size=(n, q))
    log = {"X": X, "Y": Y, "propensity": rng.uniform(0.05, 1, n), "cost": -rng.uniform(0, q, n)}
    return log | columns


LOGS = {
    "one label": random_log(q=1),
    "forty labels": random_log(q=40),
    "one row": random_log(n=1),
    "a label always 0": random_log(Y=random_log()["Y"] * [0, 1]),
    "a label always 1": random_log(Y=random_log()["Y"] | [1, 0]),
    "fewer rows than features": random_log(n=4, d=30),
    "columns of zeros": random_log(d=5, X=sparse.csr_array(random_log(d=5)["X"] * [0, 1, 0, 1, 1])),
    "no feature at all": random_log(X=np.zeros((24, 3))),
    "features of 1e150": random_log(X=1e150 * random_log()["X"]),
    "features of 1e200": random_log(X=1e200 * random_log()["X"]),
    "features of 1e-150": random_log(X=1e-150 * random_log()["X"]),
    "propensities of 1e-300": random_log(propensity=np.full(24, 1e-300)),
    "one propensity of 1e-300": random_log(propensity=np.array([1e-300] + [0.5] * 23)),
    "costs all equal": random_log(cost=np.full(24, -1.0)),
    "costs all 0": random_log(cost=np.zeros(24)),
    "costs integer and tied": random_log(cost=-np.arange(24) % 3),
    "costs of both signs": random_log(cost=np.tile([1.0, -1.0], 12)),
    "costs of 1e300": random_log(cost=1e300 * random_log()["cost"]),
    "costs of 1e-300": random_log(cost=1e-300 * random_log()["cost"]),
    "weights all clipped": random_log(propensity=np.full(24, 1e-3), clip=1.0),
    "weights all 0": random_log(Y=np.ones((24, 2)), X=np.full((24, 3), 30.0), coef=-30.0),
    "counts of 1e12": random_log(count=np.full(24, 10**12)),
}


@cache
def cost_model(log_name: str) -> drcrm.CostModel | None:
    """Return the cost model of a log, or None if the log was refused."""
    log = LOGS[log_name]
    return result_or_message(drcrm.CostModel().fit, log["X"], log["Y"], cost=log["cost"], count=log.get("count"))[0]


def fit(name: str, value: float | None, weight: str, weight_value: float | None, estimate: str, log_name: str):
    """Fit an estimator and check the result."""
    log = dict(LOGS[log_name])
    options = {"clip": log.pop("clip", "auto"), "estimate": estimate, "max_iter": MAX_ITER}
    if "coef" in log:
        coef = np.full((log["X"].shape[1], log["Y"].shape[1]), log.pop("coef"))
        options["start"], log["logging_policy"] = "logging", ExponentialPolicy(coef)
    if estimate in ("dr", "dm"):
        log["cost_model"] = cost_model(log_name)
    if weight != "clipped":
        options["weight"] = SMOOTH_WEIGHTS[PARAMETERS[weight]](weight_value)
    if parameter := hyper_parameter(ESTIMATORS[name]):
        options[parameter] = value
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        fitted, _ = result_or_message(getattr(drcrm, name)(**options).fit, **log)
    if fitted is None:
        return
    assert np.isfinite(fitted.coef_).all()
    assert math.isfinite(fitted.objective_)
    assert 0 <= fitted.n_iter_ <= MAX_ITER
    rows = BanditLog(log["X"], log["Y"], log["propensity"], log["cost"], count=log.get("count"))
    with np.errstate(all="ignore"):
        scores, _ = result_or_message(HeldoutScores(rows, fitted.clip_), fitted.policy_)
    assert scores is None or not np.isinf([*scores.values()]).any()


def combinations(name: str) -> list[tuple]:
    """Return value, weight, weight value and estimate: every weight and estimate, hyper-parameters by turns."""
    grid = cycle(VALUES.get(hyper_parameter(ESTIMATORS[name]), [None]))
    weight_grids = {weight: cycle(VALUES.get(parameter, [None])) for weight, parameter in PARAMETERS.items()}
    weights = ["clipped"] if name == "WeightedLikelihood" else PARAMETERS
    return [
        (next(grid), weight, next(weight_grids[weight]), estimate)
        for weight in weights
        for estimate in ESTIMATORS[name].estimates
        if weight == "clipped" or estimate != "dm"  # which uses no weights
    ]


@pytest.mark.parametrize("log_name", LOGS)
def test_a_fit_is_finite_or_refused_in_one_line(log_name):
    """Fit every second estimator; weight, estimate and hyper-parameters vary with the log."""
    turn = [*LOGS].index(log_name)
    for place, name in [*enumerate(ESTIMATORS)][turn % 2 :: 2]:
        of_name = combinations(name)
        fit(name, *of_name[(turn + place) % len(of_name)], log_name)


@pytest.mark.slow
@pytest.mark.parametrize("log_name", LOGS)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_weight_and_estimate_is_finite_or_refused_in_one_line(name, log_name):
    for combination in combinations(name):
        fit(name, *combination, log_name)
