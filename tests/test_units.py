"""Fits do not depend on the units of costs and features, nor, for snips and dr, on the zero of the costs."""

import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from fixtures.reference_formulas import predict
from hypothesis import given, settings
from hypothesis import strategies as st

import drcrm
from drcrm import ExponentialPolicy
from drcrm.selection.algorithms import ESTIMATORS

README = (Path(__file__).parents[1] / "README.md").read_text()
# EnvironmentDRO ends at a near-deterministic policy, whose coefficients are not determined to so many digits. The tests
# of its objective change the units of costs.
NAMES = [*sorted(set(ESTIMATORS) & set(drcrm.__all__) - {"EnvironmentDRO"}), "DoublyRobustDRO"]
POWERS = {"temperature": 1, "smoothing": -1, "sharpness": -1}  # of the costs' unit in hyper-parameters
SHIFTED = [name for name in NAMES if name not in ("LogSmoothing", "WeightedLikelihood")]


@cache
def example_log() -> dict:
    """Return the variables of the README's example before the fit."""
    [code] = re.findall(r"```python\n(.*?)policy = ", README, re.S)
    variables: dict = {}
    exec(code, variables)
    return variables


def fit(name: str, unit=1.0, zero=0.0, scales=1.0, **options):
    """Fit an estimator to the example in other units; return Θ in the original units and the estimator."""
    log, estimator = example_log(), getattr(drcrm, name)(**options)
    for parameter, power in POWERS.items():
        if parameter in estimator.get_params():
            estimator.set_params(**{parameter: getattr(estimator, parameter) * unit**power})
    scales = np.broadcast_to(scales, 5)
    logging_policy = ExponentialPolicy(log["logger"].coef / scales[:, None])
    columns = {"propensity": log["p"], "cost": unit * log["c"] + zero, "logging_policy": logging_policy}
    estimator.fit(log["X"] * scales, log["Y"], **columns)
    assert estimator.n_iter_ > 0
    return estimator.coef_ * scales[:, None], estimator


@cache
def original_coef(name: str, estimate: str | None = None) -> np.ndarray:
    return fit(name, **({} if estimate is None else {"estimate": estimate}))[0]


def assert_same(coef: np.ndarray, expected: np.ndarray) -> None:
    assert abs(coef - expected).max() <= 1e-6 * max(abs(expected).max(), 1)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=2)
@given(unit=st.floats(-12, 12).filter(abs), scales=st.lists(st.floats(-6, 6), min_size=5, max_size=5, unique=True))
def test_the_units_of_costs_and_features_do_not_matter(name, unit, scales):
    """The simplest values, which hypothesis tries first, must change something, too."""
    assert_same(fit(name, unit=10**unit, scales=10 ** np.array(scales))[0], original_coef(name))


@pytest.mark.parametrize("name", SHIFTED)
@pytest.mark.parametrize("estimate", ["snips", "dr"])
@settings(max_examples=1)
@given(zero=st.integers(-(10**6), 10**6).filter(abs))
def test_the_zero_of_the_costs_does_not_matter(name, estimate, zero):
    assert_same(fit(name, zero=zero, estimate=estimate)[0], original_coef(name, estimate))


def test_fitted_attributes_are_in_the_users_units():
    _, original = fit("DoublyRobustDRO")
    _, scaled = fit("DoublyRobustDRO", unit=1e3, zero=1e5, scales=1e-2)
    assert scaled.objective_ == pytest.approx(1e3 * original.objective_ + 1e5, rel=1e-9)
    assert scaled.tilt_ == pytest.approx(original.tilt_ / 1e3, rel=1e-9)
    X, Y = example_log()["X"], example_log()["Y"]
    predicted, of_scaled = (
        predict(fitted.cost_model_, features, Y) for fitted, features in ((original, X), (scaled, X * 1e-2))
    )
    assert of_scaled == pytest.approx(1e3 * predicted + 1e5, rel=1e-9)
