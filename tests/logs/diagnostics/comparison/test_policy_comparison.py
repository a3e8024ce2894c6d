"""Comparisons with the logging policy, and how wrong propensities and how different environments may be."""

from dataclasses import replace

import numpy as np
import pytest
from fixtures.click_logs import draw_actions
from scipy.special import softmax

from drcrm.arrays.tables import Table
from drcrm.cost_models.base import follow_forecasts
from drcrm.cost_models.ridge_model import CostModel
from drcrm.data.bandit_log import BanditLog
from drcrm.logs.block_policies import RowBlocks
from drcrm.logs.diagnostics.comparison.policy_comparison import compare_with_logging, find_breakeven_shift
from drcrm.logs.diagnostics.comparison.reference import ComparisonSettings, Reference
from drcrm.logs.estimated_propensities import FORECASTS, SECOND

ROWS = 3000


@pytest.fixture(scope="module")
def case() -> tuple[BanditLog, np.ndarray, np.ndarray]:
    """Return a log whose costs and logging policy depend on x·y, the shares of its actions, and a policy.

    All actions have the same cost.
    """
    rng = np.random.default_rng(1)
    X = np.column_stack([rng.normal(size=(ROWS, 2)), np.ones(ROWS)])
    product = X[:, 0] * X[:, 1]
    mean = softmax(np.outer(product, [-1, 0, 0]), axis=1)
    action = draw_actions(mean, rng)
    log = BanditLog(X, action, mean[np.arange(ROWS), action], product + rng.normal(size=ROWS), n_actions=3)
    log = log.replace(imitated_propensities=True, rows=Table(ROWS, {FORECASTS: product[:, None]}))
    return log, np.bincount(action)[action] / ROWS, np.tile([0.8, 0.1, 0.1], (ROWS, 1))


def test_forecasts_remove_the_bias_of_wrong_propensities(case):
    log, shares, policy = case
    model, wrong = CostModel().fit(log), log.replace(propensity=shares)
    followed = compare_with_logging(policy, wrong, cost_model=model)
    plain = compare_with_logging(policy, wrong.replace(rows=None), cost_model=model)
    assert plain.certificate.bound < 0  # a false claim
    assert followed.certificate.bound > 0 > followed.lower_bound
    assert abs(followed.difference) < 0.2 * abs(plain.difference)
    assert followed.difference.standard_error < plain.difference.standard_error
    right = compare_with_logging(policy, log, cost_model=model)
    assert right.difference.low < 0 < right.difference.high


@pytest.mark.parametrize("blocks", [None, RowBlocks(1 + np.arange(ROWS) // 1000)])
def test_a_refused_bound_on_the_cost_is_explained(case, blocks):
    """Six large costs are skewed. The difference is not: the policy takes three of them more often."""
    X = case[0].X
    cost = np.where(np.arange(ROWS) % 500 < 1, 10.0, 0.0)
    action = np.where(cost > 0, np.arange(ROWS) // 500, np.arange(ROWS)) % 2
    log = BanditLog(X, action, np.full(ROWS, 0.5), cost, n_actions=2)
    settings = ComparisonSettings(estimate="ips", blocks=blocks)
    comparison = compare_with_logging(np.tile([0.55, 0.45], (ROWS, 1)), log, settings=settings)
    assert (comparison.certificate is None, comparison.cost_certificate) == (False, None)
    assert "the skewness of its mean is" in comparison.refusal
    assert comparison.needs_rows
    equal = compare_with_logging(np.tile([0.55, 0.45], (ROWS, 1)), log.with_cost(np.ones(ROWS)), settings=settings)
    assert (equal.certificate, equal.needs_rows) == (None, False)


def test_rare_rows_in_blocks_need_more_rows(monkeypatch):
    """The bound on all rows is issued, and that on the blocks is refused."""
    rng = np.random.default_rng(0)
    action = rng.integers(0, 2, ROWS)
    cost = np.where((action == 0) & (rng.random(ROWS) < 0.03), 10.0, 0.0)
    log = BanditLog(np.ones((ROWS, 1)), action, np.full(ROWS, 0.5), cost, n_actions=2)
    monkeypatch.setattr("drcrm.logs.block_policies.LARGEST_SKEWNESS", 0.001)
    settings = ComparisonSettings(estimate="ips", blocks=RowBlocks(1 + np.arange(ROWS) // 1000))
    comparison = compare_with_logging(np.tile([0.95, 0.05], (ROWS, 1)), log, settings=settings)
    assert (comparison.certificate, comparison.needs_rows) == (None, True)
    assert comparison.refusal.endswith("needs at most 0.001")


def test_the_bounds_are_the_less_favourable_ones_of_two_estimates(case):
    log, shares, policy = case
    model, wrong = CostModel().fit(log), log.replace(propensity=shares)
    results = [compare_with_logging(policy, part, cost_model=model) for part in (log, wrong)]
    both = log.replace(rows=log.rows.assign(**{SECOND: shares}))
    swapped = wrong.replace(rows=log.rows.assign(**{SECOND: log.propensity}))
    for part in (both, swapped):
        joined = compare_with_logging(policy, part, cost_model=model)
        assert joined.certificate.bound == max(result.certificate.bound for result in results)
        assert joined.lower_bound == min(result.lower_bound for result in results)


def test_costs_that_follow_forecasts_are_a_least_squares_fit(case):
    log, *_ = case
    model = CostModel().fit(log)
    followed, effects = follow_forecasts(model, log, log.column(FORECASTS)), model.effects(log.X, log.actions)
    taken = np.arange(ROWS), log.Y
    residual = log.cost - followed[taken]
    predictors = np.ones(ROWS), log.column(FORECASTS)[:, 0], effects.mean(axis=1), effects[taken]
    assert max(abs(residual @ predictor) for predictor in predictors) < 1e-8
    assert np.diff(followed, axis=1).std() < 0.3 * np.diff(effects, axis=1).std()  # no action has an effect
    assert follow_forecasts(model, log, None) is model
    assert follow_forecasts(None, log, log.column(FORECASTS)) is None


SNIPS = ComparisonSettings("snips")


def draw(kind: str, seed: int = 0, n: int = 3000) -> tuple[BanditLog, np.ndarray]:
    """Return a log of 3 actions and a policy that is better in the mean.

    Costs are clicks, or normal. Of "risky" costs, the policy's action varies more, so that its worst cases are worse.
    """
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=(n, 2)), np.ones(n)])
    logging = softmax(X @ np.random.default_rng(7).normal(size=(3, 3)) / 2, axis=1)
    action = draw_actions(logging, rng)
    best = (X[:, 0] > 0).astype(int)
    mean = np.where(action == best, 0.4, 0.15)
    scale = np.where(action == best, 1.5, 0.1) if kind == "risky" else 0.3
    cost = -(rng.random(n) < mean).astype(float) if kind == "clicks" else scale * rng.normal(size=n) - mean
    policy = np.where(np.arange(3) == best[:, None], 0.9, 0.05)
    return BanditLog(X, action, logging[np.arange(n), action], cost, n_actions=3), policy


@pytest.mark.parametrize("with_baseline", [False, True])
def test_the_bound_crosses_0_just_beyond_the_breakeven(with_baseline):
    log, policy = draw("risky")
    log = log.with_groups(np.arange(len(log.cost)) // 2 if with_baseline else None)
    reference = Reference(policy=np.full_like(policy, 1 / 3)) if with_baseline else Reference()
    breakeven = find_breakeven_shift(compare_with_logging(policy, log, replace(SNIPS, reference=reference)))
    assert breakeven is not None
    assert 0 < breakeven < 1

    def bound(radius: float) -> float:
        settings = replace(SNIPS, reference=replace(reference, radius=radius))
        return compare_with_logging(policy, log, settings).certificate.bound

    assert bound(breakeven) < 0 <= bound(breakeven * (1 + 1 / 32))


def test_there_is_no_bound_beyond_the_largest_cost():
    """Of clicks, the worst case is 0 clicks from the radius −log P(no click) on."""
    log, policy = draw("clicks")
    limit = -np.log(np.mean(log.cost == 0))
    assert limit / (1 + 1 / 32) <= find_breakeven_shift(compare_with_logging(policy, log, SNIPS)) < limit


def test_there_is_no_breakeven_of_a_worse_policy_or_an_estimate_without_worst_cases():
    log, policy = draw("normal")
    ips = ComparisonSettings("ips")
    cases = (np.roll(policy, 1, axis=1), SNIPS), (policy, ips), (np.zeros(len(log.cost)), SNIPS)
    for judged, settings in cases:
        assert find_breakeven_shift(compare_with_logging(judged, log, settings)) is None
