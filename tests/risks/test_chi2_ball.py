"""The exact χ² ball: optimality conditions, 60-digit solutions, thresholds and extreme radii."""

from itertools import product

import numpy as np
import pytest

from drcrm.risks import Chi2Ball, VariancePenalizedRisk


def assert_optimal(z: np.ndarray, weights: np.ndarray, radius: float) -> None:
    """Assert that the worst case meets the conditions of optimality: density (slope z + level)₊ at distance ε."""
    share = weights / weights.sum()
    value, worst = Chi2Ball(radius)(z, weights)
    assert worst.min() >= 0
    assert abs(worst.sum() - 1) < 1e-12
    assert abs(value - worst @ z) < 1e-12
    density, is_positive = worst / share, worst > 1e-12
    if np.ptp(z[is_positive]) == 0:
        assert value == pytest.approx(z.max(), abs=1e-12)
        assert radius >= 1 / share[is_positive].sum() - 1 - 1e-9
        return
    slope, level = np.polyfit(z[is_positive], density[is_positive], 1)
    assert slope > 0
    assert density == pytest.approx(np.maximum(slope * z + level, 0), abs=1e-9)
    assert share @ (density - 1) ** 2 == pytest.approx(radius, rel=1e-9)


def test_every_small_log_of_integer_costs():
    """Costs are then often equal to the threshold, where rounding once let a row in and out forever."""
    for counts in product(range(3), repeat=6):
        weights = np.array(counts, dtype=float)
        if np.count_nonzero(weights) > 1:
            for radius in (0.25, 1.0):
                assert_optimal(-np.arange(6.0)[weights > 0], weights[weights > 0], radius)


def test_a_cost_on_the_threshold():
    assert Chi2Ball(0.25)([0, -1, -2], [1, 6, 1])[0] == pytest.approx(-0.75, rel=1e-14)
    assert_optimal(np.array([0.0, -1, -2, -3]), np.array([4.0, 10, 12, 18]), 1.0)


def test_chi2_ball_is_the_variance_penalty_while_weights_are_positive():
    z, penalty = -np.random.default_rng(12).exponential(4, 25), 0.3
    radius = penalty**2 / (len(z) - 1)
    penalised, exact = VariancePenalizedRisk(penalty)(z), Chi2Ball(radius)(z)
    assert exact[1].min() > 0
    assert exact[0] == pytest.approx(penalised[0], rel=1e-12)
    assert exact[1] == pytest.approx(penalised[1], abs=1e-12)
    assert exact[0] == pytest.approx(z.mean() + np.sqrt(radius * z.var()), rel=1e-12)


@pytest.mark.parametrize("radius", [1e-3, 1.0, 1e5])
@pytest.mark.parametrize("n", [10**4, 10**6])
def test_weights_sum_to_one_next_to_a_single_large_cost(radius, n):
    value, worst = Chi2Ball(radius)(np.r_[0, -np.ones(n)])
    assert abs(worst.sum() - 1) < 1e-12
    assert worst[1:].sum() == pytest.approx(-value, rel=1e-9)
