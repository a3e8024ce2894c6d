"""Estimated propensities are rejected if they hide that the logging policy lacks actions that a policy prefers."""

from functools import cache

import numpy as np
import pytest
from fixtures.click_logs import draw_actions, failed_keys
from scipy.special import softmax

from drcrm.actions.action_lists import ActionLists
from drcrm.arrays.tables import Table
from drcrm.data.bandit_log import BanditLog
from drcrm.logs.diagnostics.diagnosis import diagnose
from drcrm.logs.diagnostics.propensities.audit import cross_fit_propensities
from drcrm.logs.diagnostics.propensities.estimates import NAME, check_balance, check_overlap
from drcrm.logs.estimated_propensities import FORECASTS

pytestmark = pytest.mark.usefixtures("shipped_sizes")
ROWS, ACTIONS = 1500, 4


@cache
def draw_log(lacks_best: bool) -> tuple[BanditLog, np.ndarray, np.ndarray]:
    """Return a log with estimated propensities, a policy that prefers the action of the largest score, and the model.

    If ``lacks_best``, the logging policy never takes that action in contexts with x_0 > 0.
    """
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(ROWS, 3)), np.ones(ROWS)])
    scores = X @ np.random.default_rng(9).normal(size=(4, ACTIONS))
    mean, at = np.full((ROWS, ACTIONS), 1 / ACTIONS), np.arange(ROWS)
    if lacks_best:
        mean[at, scores.argmax(axis=1)] *= X[:, 0] <= 0
        mean /= mean.sum(axis=1, keepdims=True)
    action = draw_actions(mean, rng)
    log = BanditLog(X, action, np.full(ROWS, 1 / ACTIONS), rng.normal(size=ROWS), n_actions=ACTIONS)
    modelled = cross_fit_propensities(log)
    log = log.replace(propensity=modelled[at, action])
    return log, softmax(scores, axis=1), modelled


@pytest.mark.parametrize(("lacks_best", "level"), [(True, "fail"), (False, "good")])
def test_a_lack_of_overlap_is_found_where_the_policy_moves_its_mass(lacks_best, level):
    log, mean, _ = draw_log(lacks_best)
    diagnosis = diagnose(log.replace(imitated_propensities=True), mean)
    check = next(check for check in diagnosis.diagnostics if check.name == NAME)
    assert check.level == level, check
    assert ("estimated_overlap" in failed_keys(diagnosis)) == lacks_best


def test_label_vectors_small_logs_and_logged_propensities_are_not_checked():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(600, 2)), rng.integers(0, 2, (600, 3)).astype(np.uint8)
    labels = BanditLog(X, Y, np.full(600, 1 / 8), rng.normal(size=600))
    small = BanditLog(X[:100], Y[:100, 0].astype(int), np.full(100, 0.5), rng.normal(size=100), n_actions=2)
    for log, reason in ((labels, "label vectors"), (small, "the check needs 400 contexts, got 100")):
        mean = np.full((log.n_contexts, *log.actions.shape), 0.5)
        check, corrected = check_overlap(log, mean, mean)
        assert corrected is None
        assert check.level == "caution"
        assert reason in check.sentence
    assert NAME not in {check.name for check in diagnose(small, mean).diagnostics}


def test_weights_that_move_the_forecast_of_the_cost_are_unbalanced():
    """The logging policy depends on x·y, and so does the forecast. Shares of the actions do not know this."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(2000, 2))
    product = X.prod(axis=1)
    mean = softmax(np.outer(product, [1.5, 0]), axis=1)
    action = draw_actions(mean, rng)
    log = BanditLog(X, action, mean[np.arange(2000), action], product, n_actions=2)
    probability = np.where(action == 0, 0.9, 0.1)
    assert check_balance(log, probability / log.propensity) is None
    log = log.replace(rows=Table(2000, {FORECASTS: product[:, None] + 7}))
    shares = np.bincount(action)[action] / 2000
    for propensity, level in ((log.propensity, "good"), (shares, "fail")):
        check = check_balance(log, probability / propensity)
        assert check.level == level, check
        assert (abs(check.value) > 3) == (level == "fail")


def test_lists_are_checked_like_single_actions():
    log, mean, modelled = draw_log(True)
    starts = ACTIONS * np.arange(ROWS + 1)
    codes = np.tile(np.eye(ACTIONS), (ROWS, 1))
    X = np.column_stack([np.repeat(log.X, ACTIONS, axis=0), codes])
    lists = BanditLog(ActionLists(X, starts), log.Y, log.propensity, log.cost)
    check, corrected = check_overlap(lists, mean.ravel(), modelled.ravel())
    np.testing.assert_allclose(corrected.reshape(ROWS, ACTIONS).sum(axis=1), 1)
    assert (check.level, check.value > 0.05) == ("fail", True)
