"""A log as a linear map: backward is the transpose of forward's derivative, whatever the log and the mode."""

from __future__ import annotations

import numpy as np
import pytest
from formulas import backward
from scipy import sparse

from drcrm.data.bandit_log import BanditLog
from drcrm.policies.exponential import ExponentialPolicy
from drcrm.policies.linear_predictor import LinearPredictor, forward_policy, importance_weights


def make_log(dense: bool, rows: int) -> BanditLog:
    """12 contexts, some of them without rows, and rows some of which do not occur."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 4)) * (rng.random((12, 4)) < 0.7)
    given = rng.integers(0, 2, (rows, 3)), rng.uniform(0.05, 1, rows), -rng.exponential(2, rows)
    return BanditLog(X if dense else sparse.csr_array(X), *given, rng.integers(0, 9, rows), rng.integers(0, 3, rows))


@pytest.mark.parametrize("trains", [True, False], ids=["trains", "once"])
@pytest.mark.parametrize("intercept", [True, False], ids=["intercept", "none"])
@pytest.mark.parametrize("dense", [True, False], ids=["dense", "csr"])
@pytest.mark.parametrize("rows", [30, 400], ids=["sparse rows", "tabled rows"])
def test_backward_is_the_transpose_of_the_derivative_of_forward(trains, intercept, dense, rows):
    log, rng = make_log(dense, rows), np.random.default_rng(1)
    design = LinearPredictor(log, rng.normal(size=(12, 4)), intercept, trains)
    coef, direction = rng.normal(size=(2, *design.shape))
    step = 1e-6
    ahead, behind = (design.forward(coef + side * step * direction) for side in (1, -1))
    moved = [(here - there) / (2 * step) for here, there in zip(ahead, behind, strict=True)]
    by_row, by_context = (rng.normal(size=len(each)) for each in moved)
    slope = backward(design, coef, by_row, by_context)
    assert slope @ direction.ravel() == pytest.approx(by_row @ moved[0] + by_context @ moved[1], rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("dense", [True, False], ids=["dense", "csr"])
def test_a_pass_is_what_the_policy_says_of_the_rows_that_occur(dense):
    log, rng = make_log(dense, 60), np.random.default_rng(2)
    policy, effects = ExponentialPolicy(rng.normal(size=(4, 3)), rng.normal(size=3)), rng.normal(size=(12, 4))
    design, log_prob, expected = forward_policy(policy, log, effects)
    present = log.count > 0
    plain = np.exp(policy.log_prob(log.X, log.Y, log.context)) / log.propensity
    assert importance_weights(log_prob, design.log) == pytest.approx(plain[present], rel=1e-12)
    used = np.unique(log.context[present])
    modelled = (policy.marginals(log.X) * effects[:, :-1]).sum(axis=1) + effects[:, -1]
    assert expected == pytest.approx(modelled[used], rel=1e-12)
    by_hand = (log.Y * effects[log.context, :-1]).sum(axis=1) + effects[log.context, -1]
    assert design.modelled_cost == pytest.approx(by_hand[present], rel=1e-12)
