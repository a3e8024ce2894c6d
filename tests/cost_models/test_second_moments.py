"""Second moments of a log in blocks, and the cost model that is fitted to them."""

import numpy as np
import pytest
from block_logs import block_log, use_small_blocks

from drcrm.cost_models.ridge_model import CostModel
from drcrm.cost_models.solvers import second_moments
from drcrm.cost_models.solvers.second_moments import moments_by_fold


@pytest.mark.parametrize("kind", ["shuffled", "paired", "single"])
@pytest.mark.parametrize("intercept", [False, True])
def test_the_cost_model_by_moments_equals_the_one_by_conjugate_gradients(kind, intercept, monkeypatch):
    log = block_log(kind, 200)
    log = log.replace(X=log.X * [1e3, 1, 1e-3, 1])
    slow = CostModel().fit_log(log, intercept)
    use_small_blocks(monkeypatch)
    assert moments_by_fold(log, np.ones(4), np.arange(len(log.Y)) % 4) is not None
    fast = CostModel().fit_log(log, intercept)
    assert fast.penalty_ == slow.penalty_
    scale = np.abs(slow.effects(log.X)).max()
    assert fast.effects(log.X) == pytest.approx(slow.effects(log.X), abs=1e-8 * scale)


def test_moments_are_sums_of_rows_and_give_squared_errors(monkeypatch):
    log, rng = block_log("labels", 40), np.random.default_rng(3)
    use_small_blocks(monkeypatch)
    fold, scales = rng.integers(0, 3, 40), np.array([1.0, 2.0, 3.0, 4.0])
    moments = moments_by_fold(log, scales, fold[log.context])
    B, intercept = rng.normal(size=(4, 4)), 0.3
    z = np.einsum("ia,ij->ija", np.column_stack([log.Y, np.ones(len(log.Y))]), (log.X / scales)[log.context])
    squared = log.count * (log.cost - (z * B).sum(axis=(1, 2)) - intercept) ** 2
    for number, part in enumerate(moments):
        rows = fold[log.context] == number
        assert part.size == log.count[rows].sum()
        assert part.squared_error(B, intercept) == pytest.approx(squared[rows].sum(), rel=1e-12)
    whole = moments[0] + moments[1] + moments[2]
    assert (whole - moments[1]).sums == pytest.approx((moments[0] + moments[2]).sums)
    [coef] = whole.solve([0.1])
    flat, share = z.reshape(len(z), -1), log.count / log.size
    centred = flat - share @ flat
    gram = (centred * share[:, None]).T @ centred + 0.1 * np.eye(16)
    assert coef.ravel() == pytest.approx(np.linalg.solve(gram, centred.T @ (share * log.cost)), rel=1e-9)


@pytest.mark.parametrize("limit", ["MAX_ACTIONS", "MAX_BLOCK_COLUMNS", "MAX_NUMBERS"])
def test_moments_are_not_computed_beyond_the_limits(limit, monkeypatch):
    log = block_log("labels")
    use_small_blocks(monkeypatch)
    monkeypatch.setattr(second_moments, limit, 1)
    assert moments_by_fold(log, np.ones(4), np.zeros(len(log.Y), dtype=int)) is None
