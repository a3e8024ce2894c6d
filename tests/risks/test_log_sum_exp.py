"""Log-sum-exp against its formula, the KL ball and its series at high temperatures."""

from fractions import Fraction

import numpy as np
import pytest

from drcrm.risks import KLBall, LogSumExpRisk


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
