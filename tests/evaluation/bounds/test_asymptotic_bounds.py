"""Asymptotic bounds: corrected for skewness, on the mean of blocks, and the sample sizes that they need."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import stats
from scipy.stats import norm

from drcrm import BanditLog
from drcrm.certificates import policy_certificate, upper_bound
from drcrm.errors import InputError
from drcrm.evaluation.bounds.asymptotic_bounds import (
    BlockTerms,
    bound_blocks,
    corrected_bound,
    rare_charge,
    required_size,
    shrink_difference,
    smallest_difference,
    tail_residual,
    upper_skewness,
)


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
    with pytest.raises(InputError, match="every logged cost is −1, expected costs that vary"):
        policy_certificate(policy, log)
    assert policy_certificate(policy, log, method="betting", low=-2, high=0).bound > -1


def test_large_weights_and_residuals_in_the_same_rows_give_the_skewness_of_their_products():
    weight, residual = np.r_[np.full(4, 10.0), np.full(96, 0.1)], np.r_[np.full(4, 0.5), np.tile([1.0, -1.0], 48)]
    product = weight * residual
    expected = np.mean(np.maximum(product, 0) ** 3) / np.mean(product**2) ** 1.5 / 10
    apart = np.mean(weight**3) * np.mean(np.maximum(residual, 0) ** 3)
    apart /= (np.mean(weight**2) * np.mean(residual**2)) ** 1.5 * 10
    assert upper_skewness(weight, residual, np.ones(100), 100) == pytest.approx(expected)
    assert expected > 1.5 * apart


def test_the_charge_for_rare_rows_is_a_binomial_bound_on_the_share_of_expensive_ones():
    weight, raised = np.r_[30.0, 30.0, np.ones(98)], np.r_[15.0, 15.0, np.zeros(98)]
    share = 1 - 0.05 ** (1 / 2)  # two rows without a largest cost
    assert stats.binom.cdf(0, 2, share) == pytest.approx(0.05)
    assert rare_charge(weight, raised, np.ones(100), 0.95, 100) == pytest.approx(30 / 100 * share)
    assert rare_charge(np.ones(100), raised, np.ones(100), 0.95, 100) == 0  # no few rows dominate the weights
    counted = rare_charge(weight[1:], raised[1:], np.r_[2.0, np.ones(98)], 0.95, 100)
    assert counted == pytest.approx(30 / 100 * share)
    assert rare_charge(weight, raised, np.ones(100), 0.95, 50) == pytest.approx(30 / 100 * 0.95)  # both in one unit


def draw_rare(rng: np.random.Generator, n: int, choices: int = 2) -> BanditLog:
    """Return a log in which the first action has weight 50 and cost 1 in 5 % of the contexts; elsewhere it is good."""
    is_rare = rng.random(n) < 0.05
    first = np.where(is_rare, 0.02, 0.5)
    action = np.where(rng.random(n) < first, 0, rng.integers(1, choices, n))
    propensity = np.where(action == 0, first, (1 - first) / (choices - 1))
    cost = 0.3 + rng.uniform(-0.1, 0.1, n) - 0.05 * ((action == 0) & ~is_rare)
    cost[is_rare & (action == 0)] = 1.0
    return BanditLog(np.c_[np.ones(n), is_rare], action, propensity, cost, n_actions=choices)


@pytest.mark.parametrize("estimate", ["snips", "dr"])
def test_bounds_hold_if_rare_rows_have_large_weights_and_large_costs(estimate):
    truth, low = 0.05 * 0.98 * 0.7 - 0.95 * 0.5 * 0.05, 0
    for seed in range(30):
        log, policy = draw_rare(np.random.default_rng(seed), 400), np.tile([1.0, 0.0], (400, 1))
        options = {"cost_range": (0, 1), "baseline": "logging", "estimate": estimate}
        options["cost_model"] = np.full((400, 2), 0.3) if estimate == "dr" else None
        try:
            low += policy_certificate(policy, log, **options).bound < truth
        except InputError:
            continue
    assert low <= 5  # of 30; 12 and more without the charge for actions whose weights exceed every logged one


def draw_blocks(seed: int, sizes=(40, 60, 80), spreads=(1.0, 3.0, 0.2)) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.normal(0.1, spread, size) for size, spread in zip(sizes, spreads, strict=True)]


def summarise(values: np.ndarray, **parts: float) -> BlockTerms:
    return BlockTerms.of(values, np.ones(len(values)), **parts)


def test_the_bound_is_that_of_the_standardised_terms():
    """A term divided by its block's deviation has variance 1; the mean, in the unit of the weights, is the value."""
    blocks = draw_blocks(0)
    result = bound_blocks([summarise(block) for block in blocks], 0.95)
    standardised = np.concatenate([block / block.std(ddof=1) for block in blocks])
    unit = sum(len(block) / block.std(ddof=1) for block in blocks) / len(standardised)
    quantile = stats.t(len(standardised) - len(blocks)).ppf(0.95)
    assert result.value == pytest.approx(standardised.mean() / unit, rel=1e-12)
    assert result.standard_error == pytest.approx(1 / np.sqrt(len(standardised)) / unit, rel=1e-12)
    assert result.bound == pytest.approx(result.value + quantile * result.standard_error, rel=1e-12)
    assert result.weights == pytest.approx([len(b) / b.std(ddof=1) / unit / len(standardised) for b in blocks])
    again = bound_blocks([summarise(block) for block in blocks], 0.95, result.weights)
    assert (again.value, again.bound) == pytest.approx((result.value, result.bound))


def test_one_block_has_the_bound_of_its_rows():
    [values] = draw_blocks(1, (50,), (2.0,))
    count = np.random.default_rng(2).integers(1, 4, 50)
    for parts in ({"skewness": 0.2}, {"skewness": 0.1, "charge": 3.0}):
        block = BlockTerms.of(values, count, **parts)
        expected = corrected_bound(values, count, 0.9, *parts.values())
        assert bound_blocks([block], 0.9).bound == pytest.approx(expected, rel=1e-12)


def test_the_skewness_is_that_of_the_sum_of_standardised_terms():
    """The third cumulants of independent terms add up: for exponential terms each is 2, in units of the deviation."""
    sizes = np.array([30, 50, 120])
    blocks = [BlockTerms(n, 0.0, sd, skewness=2 / np.sqrt(n)) for n, sd in zip(sizes, (1.0, 5.0, 0.1), strict=True)]
    assert bound_blocks(blocks, 0.95).skewness == pytest.approx(2 / np.sqrt(sizes.sum()), rel=1e-12)


def test_a_block_that_says_nothing_counts_nothing():
    known, unknown = [summarise(block) for block in draw_blocks(4)], BlockTerms(50, np.nan, np.inf)
    result, expected = bound_blocks([*known, unknown], 0.95), bound_blocks(known, 0.95)
    assert (result.value, result.bound, result.skewness) == (expected.value, expected.bound, expected.skewness)
    assert result.weights == pytest.approx([*expected.weights, 0])
    constant = bound_blocks([BlockTerms(50, 0.2, 0.0), unknown], 0.95)
    assert (constant.value, constant.bound, *constant.weights) == (0.2, np.inf, 1, 0)
    for of_unknown in (bound_blocks([unknown], 0.95), bound_blocks([known[0], unknown], 0.95, np.array([0.5, 0.5]))):
        assert np.isnan(of_unknown.value)
        assert of_unknown.bound == np.inf
    assert unknown.interval(0.95) == (-np.inf, np.inf)


def test_a_block_without_spread_counts_nothing():
    varying = [summarise(block) for block in draw_blocks(4, (40, 60), (1.0, 2.0))]
    expected = bound_blocks(varying, 0.95)
    for constant in (np.zeros(30), np.full(30, -5.0), 1e-18 * np.random.default_rng(0).normal(size=30)):
        result = bound_blocks([*varying, summarise(constant)], 0.95)
        assert result.bound == expected.bound
        assert result.weights[-1] == 0
    assert bound_blocks([summarise(np.zeros(30))] * 2, 0.95).bound == np.inf


def test_intervals_of_blocks_are_students():
    [values] = draw_blocks(5, (25,), (2.0,))
    expected = stats.t.interval(0.9, 24, values.mean(), stats.sem(values))
    assert summarise(values).interval(0.9) == pytest.approx(expected, rel=1e-12)


def test_one_look_has_the_textbook_size():
    """One-sided z-test, α = 0.05, power 0.8: n = 6.1826 s²/d² (Cohen 1988)."""
    assert required_size(1.0, 1.0) == pytest.approx(6.182557, abs=1e-6)
    assert required_size(0.5, 3.0) == pytest.approx(36 * 6.182557, rel=1e-6)
    assert required_size(1.0, 1.0, choices=20) == pytest.approx((norm.isf(0.0025) + norm.ppf(0.8)) ** 2, rel=1e-12)
    assert smallest_difference(required_size(0.04, 2.5, 0.9, 300), 2.5, 0.9, 300) == pytest.approx(0.04, rel=1e-12)


def test_shrinking_is_the_posterior_mean():
    assert shrink_difference(-2.0, 1.0) == -2.0 * 0.75
    assert shrink_difference(-1.0, 1.5) == shrink_difference(0.0, 1.0) == 0.0
    assert shrink_difference(0.0, 0.0) == shrink_difference(1.0, np.nan) == 0.0
    assert shrink_difference(3.0, 0.0) == 3.0


def share_better(sizes, means, deviations, confidence: float = 0.95) -> float:
    """Return the share of simulated logs whose bound is below 0, from the summaries of blocks, (logs, J) each."""
    bounds = [
        bound_blocks([BlockTerms(*block) for block in zip(sizes, *of_log, strict=True)], confidence).bound
        for of_log in zip(means, deviations, strict=True)
    ]
    return float((np.array(bounds) < 0).mean())


def limit(level: float, logs: int) -> float:
    return level + 3 * np.sqrt(level * (1 - level) / logs)


def two_arms(rng: np.random.Generator, logs: int, rows: int, blocks: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return sizes, means and deviations of blocks for uniform logging of two equal arms, and the better arm so far.

    The cost of a row is minus its reward, and the weight of the better arm is 2.
    """
    arm, reward = rng.integers(0, 2, (logs, rows)), rng.integers(0, 2, (logs, rows))
    ends = np.linspace(rows // 4, rows, blocks + 1).astype(int)
    parts = []
    for start, end in pairwise(ends):
        totals = [(reward * (arm == number))[:, :start].sum(axis=1) for number in (0, 1)]
        best = (totals[1] > totals[0]).astype(int)[:, None]
        parts.append(-reward[:, start:end] * (2 * (arm[:, start:end] == best) - 1.0))
    means, deviations = (np.stack([f(part) for part in parts], axis=1) for f in (_means, _deviations))
    return np.diff(ends), means, deviations


def _means(values: np.ndarray) -> np.ndarray:
    return values.mean(axis=1)


def _deviations(values: np.ndarray) -> np.ndarray:
    return values.std(axis=1, ddof=1)


@pytest.mark.parametrize("blocks", [3, 7])
def test_two_equal_arms_are_called_better_at_the_level(blocks):
    logs = 3000
    assert share_better(*two_arms(np.random.default_rng(blocks), logs, 400, blocks)) <= limit(0.05, logs)


def stopping_learner(rng: np.random.Generator, logs: int, blocks: int = 6, rows: int = 200):
    """Return sizes, means and deviations of a learner without gain: after a success it stops, else its spread triples.

    A success is a significant mean over the rows so far. A learner that stops has policies close to the reference.
    """
    spread, means, deviations = np.ones(logs), [], []
    for _ in range(blocks):
        values = spread[:, None] * rng.normal(size=(logs, rows))
        means.append(_means(values))
        deviations.append(_deviations(values))
        has_success = np.sum(means, axis=0) < -1.645 * np.sqrt(np.sum(np.square(deviations), axis=0) / rows)
        spread = np.where(has_success, 1e-3, 3 * spread)
    return np.full(blocks, rows), np.stack(means, axis=1), np.stack(deviations, axis=1)


def test_a_learner_that_stops_after_a_success_is_called_better_at_the_level():
    """Weights n_j would call it better far too often."""
    logs = 3000
    sizes, means, deviations = stopping_learner(np.random.default_rng(0), logs)
    plain = (means @ sizes) / np.sqrt(deviations**2 @ sizes)
    assert (plain < -1.645).mean() > 2 * limit(0.05, logs)
    assert share_better(sizes, means, deviations) <= limit(0.05, logs)


@pytest.mark.slow
@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.99])
def test_the_level_is_exact_in_many_logs(confidence):
    logs, rng = 30_000, np.random.default_rng(7)
    allowed = limit(1 - confidence, logs)
    for blocks in (two_arms(rng, logs, 400, 3), stopping_learner(rng, logs)):
        assert abs(share_better(*blocks, confidence) - (1 - confidence)) <= allowed - (1 - confidence)
