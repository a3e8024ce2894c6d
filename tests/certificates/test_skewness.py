"""The skewness of an estimate's upper tail, and the certificates that it corrects or refuses."""

import numpy as np
import pytest
from scipy import stats

from drcrm import BanditLog
from drcrm.certificates import policy_certificate, upper_bound
from drcrm.certificates.skewness import corrected_bound, tail_residual, upper_skewness
from drcrm.errors import InputError


def rows(seed: int = 0, n: int = 200):
    rng = np.random.default_rng(seed)
    return rng.exponential(size=n), rng.normal(size=n) ** 3, np.ones(n, dtype=int)


def skewness(weight, residual, count, units=None) -> float:
    return upper_skewness(weight, residual, count, int(count.sum()) if units is None else units)


def test_weight_1_and_positive_residuals_give_the_sample_skewness_over_the_root_of_n():
    e = np.random.default_rng(1).exponential(size=100)
    expected = np.mean(e**3) / np.mean(e**2) ** 1.5 / 10
    assert skewness(np.ones(100), e, np.ones(100, dtype=int)) == pytest.approx(expected, rel=1e-12)


def test_both_signs_of_weights_count_for_a_difference():
    weight, residual = np.array([-1.0, 3.0]), np.array([2.0, -1.0])
    third = (27 / 2) * (8 / 2) + (1 / 2) * (1 / 2)
    second = (10 / 2) * (5 / 2)
    assert upper_skewness(weight, residual, np.ones(2), 2) == pytest.approx(third / second**1.5 / 2**0.5)


def test_counts_are_repetitions_and_only_independent_units_count():
    weight, residual, _ = rows(2, 50)
    count = np.random.default_rng(3).integers(1, 4, 50)
    repeated = [np.repeat(values, count) for values in (weight, residual)]
    assert skewness(weight, residual, count) == pytest.approx(skewness(*repeated, np.ones(count.sum())), rel=1e-12)
    four_times = skewness(*(np.tile(values, 4) for values in (weight, residual)), np.ones(200), units=50)
    assert four_times == pytest.approx(skewness(weight, residual, np.ones(50)), rel=1e-12)


def test_without_skewness_the_bound_is_students():
    z = np.random.default_rng(4).normal(size=30)
    assert corrected_bound(z, np.ones(30), 0.95, 0.0) == pytest.approx(upper_bound(z, method="student"), rel=1e-12)
    step = corrected_bound(z, np.ones(30), 0.95, 0.3) - corrected_bound(z, np.ones(30), 0.95, 0.0)
    u = stats.norm.ppf(0.95)
    assert step == pytest.approx(0.3 * (2 * u**2 + 1) / 6 * stats.sem(z), rel=1e-9)


def test_a_model_worse_than_the_mean_does_not_hide_the_tail_of_the_costs():
    rng = np.random.default_rng(6)
    cost, count = (rng.random(300) < 0.03) * 10.0, np.ones(300)
    good, bad = cost - 0.9 * cost, cost - 50 * rng.normal(size=300)
    np.testing.assert_array_equal(tail_residual(good, cost, count), good)
    np.testing.assert_array_equal(tail_residual(bad, cost, count), cost - cost.mean())


def log_of(rng: np.random.Generator, n: int, rate: float, sigma: float) -> BanditLog:
    """Return a log of rare lognormal losses; both actions have the mean cost rate · e^{σ²/2}."""
    cost = (rng.random(n) < rate) * np.exp(sigma * rng.normal(size=n))
    return BanditLog(np.ones((n, 1)), rng.integers(0, 2, n), np.full(n, 0.5), cost, n_actions=2)


def test_a_paired_difference_of_losses_is_refused_and_one_of_revenue_is_not():
    log = log_of(np.random.default_rng(0), 1000, 0.01, 1.5)
    policy = np.where(log.Y == 0, 0.9, 0.1)
    with pytest.raises(InputError, match="rare, large costs dominate the estimate: the skewness of its mean is"):
        policy_certificate(policy, log, "snips")
    clicks = log.with_cost(-(log.cost > 0).astype(float))
    certificate = policy_certificate(policy, clicks, "snips", baseline="logging")
    assert 0 < certificate.skewness <= 0.3
    assert certificate.bound > 0 or certificate.value < 0


def test_equal_costs_are_refused_unless_their_range_is_known():
    log = BanditLog(np.ones((100, 1)), np.arange(100) % 2, np.full(100, 0.5), np.full(100, -1.0), n_actions=2)
    policy = np.full(100, 0.5)
    with pytest.raises(InputError, match="every logged cost is -1, expected costs that vary"):
        policy_certificate(policy, log)
    assert policy_certificate(policy, log, method="betting", low=-2, high=0).bound > -1
