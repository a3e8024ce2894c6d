"""The bound on policies that were learned one after the other: its formula, and its level in exact simulations."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from drcrm.evaluation.bounds.asymptotic_bounds import BlockTerms, bound_blocks, corrected_bound


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


def test_units_of_cost_change_the_bound_and_not_the_weights():
    blocks = draw_blocks(3)
    plain, scaled = (bound_blocks([summarise(unit * block) for block in blocks], 0.95) for unit in (1, 1000.0))
    assert scaled.weights == pytest.approx(plain.weights)
    assert scaled.bound == pytest.approx(1000 * plain.bound)


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
