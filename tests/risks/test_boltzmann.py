"""Boltzmann means at extreme temperatures, far from zero and next to outliers."""

import numpy as np
import pytest

from drcrm.risks import AdaptiveBoltzmannRisk, BoltzmannRisk


@pytest.mark.parametrize("z", [[-700.0, -1.0, 0.0], [700.0, 1.0, 0.0], np.linspace(-900, 900, 50)])
def test_low_temperature_gives_the_largest_cost(z):
    value, gradient = BoltzmannRisk(1e-3)(z)
    assert value == pytest.approx(np.max(z), rel=1e-12)
    assert gradient[np.argmax(z)] == pytest.approx(1)


@pytest.mark.parametrize("temperature", [1e-3, 1e-1, 1.0])
def test_costs_far_from_zero_keep_their_digits(temperature):
    z = 2.0**-10 * np.random.default_rng(21).integers(-40, 0, 30)
    value, gradient = BoltzmannRisk(temperature)(z + 2.0**20)
    near, near_gradient = BoltzmannRisk(temperature)(z)
    assert value - 2.0**20 == pytest.approx(near, abs=1e-9)
    assert gradient == pytest.approx(near_gradient, rel=1e-10, abs=1e-12)


def test_weights_may_differ_by_100_orders_of_magnitude():
    value, _ = BoltzmannRisk(1 / 230)([1, 0], [1, 1e100])
    assert value == pytest.approx(1 / (1 + 1e100 * np.exp(-230)), rel=1e-12)


def test_the_adaptive_temperature_is_that_of_lemma_5():
    z, radius = -np.random.default_rng(14).exponential(4, 25), 0.05
    for variance, squares in {"mean": z.var(), "sum": z.var() * len(z)}.items():
        value, _ = AdaptiveBoltzmannRisk(radius, variance)(z)
        assert value == pytest.approx(BoltzmannRisk(np.sqrt(squares / (2 * radius)))(z)[0], rel=1e-12)


@pytest.mark.parametrize(("n", "expected"), [(10**4, -3.9723), (10**5, -3.98898)])
def test_an_outlier_does_not_cost_the_adaptive_risk_its_digits(n, expected):
    """The expected values come from extended precision. The mean is 1e15 away from the risk."""
    z = np.r_[-np.random.default_rng(0).exponential(4, n - 1), -1e20]
    assert AdaptiveBoltzmannRisk(0.1)(z)[0] == pytest.approx(expected, rel=1e-4)
    assert AdaptiveBoltzmannRisk(1000)([-1, -2, -3, -1e30])[0] == pytest.approx(-2, rel=1e-9)
