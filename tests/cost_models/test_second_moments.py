"""Second moments of a log in blocks, and the cost model that is fitted to them."""

import numpy as np
import pytest
from fixtures.action_logs import block_log, use_small_blocks

from drcrm.cost_models import second_moments
from drcrm.cost_models.ridge_model import CostModel
from drcrm.cost_models.second_moments import moments_by_fold


@pytest.mark.parametrize("kind", ["shuffled", "paired", "single"])
@pytest.mark.parametrize("intercept", [False, True])
def test_the_cost_model_by_moments_equals_the_one_by_conjugate_gradients(kind, intercept, monkeypatch):
    log = block_log(kind, 200)
    log = log.replace(X=log.X * [1e3, 1, 1e-3, 1])
    slow = CostModel().fit(log, action_intercepts=intercept)
    use_small_blocks(monkeypatch)
    assert moments_by_fold(log, np.ones(4), np.arange(len(log.Y)) % 4) is not None
    fast = CostModel().fit(log, action_intercepts=intercept)
    assert fast.penalty_ == slow.penalty_
    scale = np.abs(slow.effects(log.X)).max()
    assert fast.effects(log.X) == pytest.approx(slow.effects(log.X), abs=1e-8 * scale)


@pytest.mark.parametrize("limit", ["MAX_ACTIONS", "MAX_BLOCK_COLUMNS", "MAX_NUMBERS"])
def test_moments_are_not_computed_beyond_the_limits(limit, monkeypatch):
    log = block_log("labels")
    use_small_blocks(monkeypatch)
    monkeypatch.setattr(second_moments, limit, 1)
    assert moments_by_fold(log, np.ones(4), np.zeros(len(log.Y), dtype=int)) is None
