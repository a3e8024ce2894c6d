"""Importance weights against formulas, finite differences and limits; the clipping constant; effective sample size."""

import numpy as np
import pytest

from drcrm import BanditLog
from drcrm.errors import InputError
from drcrm.weights import (
    Clipped,
    Implicit,
    Likelihood,
    Shrunk,
    Smoothed,
    Subgaussian,
    Switched,
    clipping_constant,
    effective_sample_size,
)

FORMULAS = {
    Clipped(3.0): lambda pi, p: np.minimum(pi / p, 3),
    Switched(3.0): lambda pi, p: np.where(pi / p <= 3, pi / p, 0),
    Implicit(0.2): lambda pi, p: pi / (p + 0.2),
    Smoothed(0.7): lambda pi, p: pi / p**0.7,
    Subgaussian(0.1): lambda pi, p: (pi / p) / (0.9 + 0.1 * (pi / p)),
    Shrunk(5.0): lambda pi, p: 5 * (pi / p) / ((pi / p) ** 2 + 5),
    Likelihood(): lambda pi, p: np.log(pi),
    Implicit(1e-300): lambda pi, p: pi / p,
    Smoothed(1.0): lambda pi, p: pi / p,
    Shrunk(1e200): lambda pi, p: pi / p,
    Clipped(None): lambda pi, p: pi / p,
}


@pytest.fixture
def logs() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(19)
    return -rng.exponential(2, 40), -rng.exponential(2, 40)


@pytest.mark.parametrize("weight", FORMULAS, ids=repr)
def test_values_are_the_formula_and_slopes_finite_differences(weight, logs):
    log_prob, log_propensity = logs
    before, step = log_prob.copy(), 1e-6
    value, slope = weight(log_prob, log_propensity)
    assert np.array_equal(log_prob, before)
    assert value == pytest.approx(FORMULAS[weight](*np.exp(logs)), rel=1e-9)
    ahead, behind = (weight(log_prob + sign * step, log_propensity)[0] for sign in (1, -1))
    assert slope == pytest.approx((ahead - behind) / (2 * step), rel=1e-5, abs=1e-8)


@pytest.mark.parametrize("kind", [Implicit, Smoothed, Shrunk, Clipped])
def test_the_robust_end_of_a_grid_has_the_smaller_weights(kind, logs):
    grid = sorted([1e-3, 0.1, 0.5, 1.0] if kind is not Clipped else [1.0, 2.0, 5.0], reverse=kind.robust_end == "high")
    values = np.array([kind(value)(*logs)[0] for value in grid])
    assert (np.diff(values, axis=0) >= 0).all()
    assert values[0].max() < values[-1].max()


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        (Implicit, 0, "exploration is 0, expected a finite number > 0"),
        (Smoothed, 1.5, "exponent is 1.5, expected at most 1"),
        (Shrunk, -1, "shrinkage is -1, expected a finite number > 0"),
        *(
            (kind, clip, "clip is .*, expected a number ≥ 1, or None")
            for kind in (Clipped, Switched)
            for clip in (-1, 0, 0.99, np.nan, "auto", [2.0])
        ),
    ],
)
def test_parameters_out_of_range_are_refused(kind, value, message):
    with pytest.raises(InputError, match=message):
        kind(value)


@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e300])
def test_effective_sample_size_counts_repeated_rows_in_any_scale(scale):
    rng = np.random.default_rng(9)
    weight, count = rng.exponential(1, 30), rng.integers(0, 4, 30)
    repeated = np.repeat(weight, count)
    assert effective_sample_size(scale * weight, count) == pytest.approx(repeated.sum() ** 2 / (repeated**2).sum())


@pytest.mark.parametrize(("weight", "expected"), [([0.25] * 7, 7), ([0, 0], 0), ([np.inf, 1, np.inf], 2)])
def test_effective_sample_size_of_equal_zero_and_infinite_weights(weight, expected):
    assert effective_sample_size(np.array(weight, dtype=float), np.ones(len(weight))) == pytest.approx(expected)


def log_of(propensity, count=None) -> BanditLog:
    n = len(propensity)
    return BanditLog(np.ones((n, 1)), np.zeros((n, 1)), propensity, np.zeros(n), count=count)


@pytest.mark.parametrize("n", [1, 2, 10, 11, 37, 1001])
def test_the_clipping_constant_is_a_ratio_of_numpy_percentiles(n):
    propensity = np.exp(-np.random.default_rng(n).exponential(3, n))
    high = np.percentile(np.log(propensity), 90, method="lower")
    low = np.percentile(np.log(propensity), 10, method="higher")
    assert clipping_constant(log_of(propensity)) == pytest.approx(np.exp(max(high - low, 1)), rel=1e-12)
    count = np.random.default_rng(n).integers(0, 5, n) + (np.arange(n) == 0)
    assert clipping_constant(log_of(propensity, count)) == clipping_constant(log_of(np.repeat(propensity, count)))
