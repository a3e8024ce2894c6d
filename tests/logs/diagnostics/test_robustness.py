"""The radius around the environment up to which a policy's worst case is better."""

from dataclasses import replace

import numpy as np
import pytest
from fixtures.click_logs import draw_actions
from scipy.special import softmax

from drcrm import BanditLog
from drcrm.logs.diagnostics.comparison.policy_comparison import ComparisonSettings, compare_with_logging
from drcrm.logs.diagnostics.comparison.reference import Reference
from drcrm.logs.diagnostics.comparison.robustness import find_breakeven_shift

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
