"""Boltzmann means, log-sum-exp and logarithmic smoothing against formulas and series, at extreme values."""

from fractions import Fraction

import numpy as np
import pytest

from drcrm.risks import AdaptiveBoltzmannRisk, BoltzmannRisk, KLBall, LogSmoothingRisk, LogSumExpRisk


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


def draw_costs(seed: int) -> np.ndarray:
    return -np.random.default_rng(seed).exponential(4, 25)


@pytest.mark.parametrize("temperature", [0.05, 1.0, 50.0])
def test_log_sum_exp_is_the_kl_ball_at_a_fixed_multiplier(temperature):
    """γ log mean e^{z/γ} + γε is at least the ball's value. They are equal at the ε whose multiplier is γ."""
    z = draw_costs(26)
    value, worst = LogSumExpRisk(temperature)(z)
    assert value == pytest.approx(temperature * np.log(np.mean(np.exp(z / temperature))), rel=1e-12)
    assert worst == pytest.approx(np.exp(z / temperature) / np.exp(z / temperature).sum(), rel=1e-12)
    radius = worst @ np.log(len(z) * np.maximum(worst, 1e-300))
    assert KLBall(radius)(z)[0] == pytest.approx(value + temperature * radius, rel=1e-9)
    for different in radius * np.array([0.5, 0.9, 1.1, 2.0]):
        assert KLBall(different)(z)[0] < value + temperature * different


@pytest.mark.parametrize("temperature", [1e3, 1e6, 1e12, 1e15, 1e300])
def test_high_temperatures_give_the_mean_plus_half_the_variance(temperature):
    """The series mean + V/(2γ) + third moment/(6γ²), in exact fractions, is accurate to the last digit."""
    z, weights = draw_costs(5), np.random.default_rng(6).integers(1, 5, 25)
    exact, n, gamma = [Fraction(cost) for cost in z], int(weights.sum()), Fraction(temperature)
    counts = [int(weight) for weight in weights]
    mean = sum(count * cost for count, cost in zip(counts, exact, strict=True)) / n
    second, third = (
        sum(count * (cost - mean) ** power for count, cost in zip(counts, exact, strict=True)) / n for power in (2, 3)
    )
    value, gradient = LogSumExpRisk(temperature)(z, weights)
    expected = float(mean + second / (2 * gamma) + third / (6 * gamma**2))
    assert value == pytest.approx(expected, rel=1e-9 if temperature < 1e6 else 1e-14)
    slopes = weights / n * np.array([float(1 + (cost - mean) / gamma) for cost in exact])
    assert gradient == pytest.approx(slopes, rel=1e-3 if temperature < 1e6 else 1e-9)


@pytest.mark.parametrize("smoothing", [1e-6, 0.1, 1.0, 30.0])
def test_value_and_gradient_are_the_formula(smoothing):
    """Also at a positive cost below 1/λ. For costs of at most 0 the risk is at least their mean."""
    z = np.append(-np.random.default_rng(24).exponential(4, 25), 0.9 / smoothing)
    count = np.append(np.random.default_rng(25).integers(0, 4, 25), 1)
    value, gradient = LogSmoothingRisk(smoothing)(z, count)
    assert value == pytest.approx(-(count @ np.log(1 - smoothing * z)) / (smoothing * count.sum()), rel=1e-9)
    assert gradient == pytest.approx(count / count.sum() / (1 - smoothing * z), rel=1e-12)
    assert LogSmoothingRisk(smoothing)(z[:-1])[0] >= z[:-1].mean()
