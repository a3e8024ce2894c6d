"""Cells in which a log lacks an action: their search, their test on other rows, and the charge in certificates."""

import numpy as np
import pytest

from drcrm import BanditLog, CostModel
from drcrm.arrays.tables import Table
from drcrm.certificates import policy_certificate
from drcrm.cost_models.missing_cells import MissingCells, find_missing_cells, lacked_actions, mark_lists, mark_missing
from drcrm.evaluation import ROBUST

pytestmark = pytest.mark.usefixtures("shipped_sizes")
LARGEST = 1.0
EVERYWHERE = MissingCells(np.array([0]), np.full((1, 3), -np.inf), np.full((1, 3), np.inf))


def draw_log(n: int, seed: int, share: float = 0.0, least: float = 1 / 3) -> BanditLog:
    """Return a log of three actions; 0 has the propensity 0 below ``share`` of feature 1, and elsewhere ``least``."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([np.ones(n), rng.random((n, 2))])
    P = np.tile([least, (1 - least) / 2, (1 - least) / 2], (n, 1))
    P[X[:, 1] < share] = [0, 0.5, 0.5]
    action = (P.cumsum(axis=1) < rng.random(n)[:, None]).sum(axis=1)
    cost = 0.3 + 0.1 * rng.uniform(-1, 1, n) - 0.1 * (action == 0)
    return BanditLog(X, action, P[np.arange(n), action], cost, n_actions=3)


def test_a_box_without_an_action_is_found_and_charged():
    train, log = draw_log(3000, 0, share=0.048), draw_log(1000, 1, share=0.048)
    cells = find_missing_cells(train)
    assert len(cells) == 1
    assert cells.action[0] == 0
    np.testing.assert_allclose([cells.high[0, 1], cells.low[0, 1]], [0.048, -np.inf], atol=0.01)
    assert (log.X[:, 1] < 0.048).sum() < 60
    marked, model = mark_missing(log, cells), CostModel().fit(train)
    lacked = lacked_actions(marked)
    inside = log.X[:, 1] <= cells.high[0, 1]
    np.testing.assert_array_equal(lacked, inside[:, None] & np.array([True, False, False]))
    policy = np.tile([0.9, 0.05, 0.05], (1000, 1))
    options = {"estimate": ROBUST, "cost_model": model, "cost_range": (0, LARGEST), "baseline": "logging"}
    charged, plain = (policy_certificate(policy, part, **options) for part in (marked, log))
    # The charge by its definition: the modelled cost of action 0 in the cell becomes the largest cost.
    rise = 0.9 * (LARGEST - model.effects(log.X, log.actions)[:, 0]) @ inside / 1000
    assert charged.missing
    assert charged.value - plain.value == pytest.approx(rise, abs=0.01)
    assert charged.bound > plain.bound + rise / 2


def test_the_lower_side_charges_the_smallest_cost():
    train, log = draw_log(3000, 0, share=0.1), draw_log(1000, 1, share=0.1)
    marked, policy = mark_missing(log, find_missing_cells(train)), np.tile([0.9, 0.05, 0.05], (1000, 1))
    model = CostModel().fit(train)
    effects = -model.effects(log.X, log.actions)
    negated = marked.with_cost(-log.cost)
    options = {"estimate": ROBUST, "cost_model": effects, "cost_range": (-LARGEST, 0.0)}
    lower = -policy_certificate(policy, negated, **options).bound
    assert lower < -policy_certificate(policy, log.with_cost(-log.cost), **options).bound - 0.01


@pytest.mark.parametrize("least", [1 / 3, 0.02])
def test_a_right_log_is_not_charged(least):
    cells = find_missing_cells(draw_log(3000, 0, least=least))
    log = draw_log(1000, 1, least=least)
    assert len(cells) == 0
    for tested in (cells, EVERYWHERE):
        marked = mark_missing(log, tested)
        assert lacked_actions(marked).shape == (1000, 0)
    policy = np.tile([0.9, 0.05, 0.05], (1000, 1))
    assert not policy_certificate(policy, marked, ROBUST, cost_range=(0, LARGEST)).missing


def test_few_rows_without_a_rare_action_are_no_evidence():
    """In 48 rows, no draw is plain at propensity 1/3, but not at 0.02."""
    cell = MissingCells(np.array([0]), np.full((1, 3), -np.inf), np.array([[np.inf, 0.048, np.inf]]))
    for least, is_plain in ((1 / 3, True), (0.02, False)):
        log = draw_log(1000, 3, share=0.048, least=least)
        assert lacked_actions(mark_missing(log, cell)).any() == is_plain


def test_dependent_rows_count_once():
    """The same rows, each 40 times: 25 groups are not enough for a claim."""
    cell = MissingCells(np.array([0]), np.full((1, 3), -np.inf), np.array([[np.inf, 0.1, np.inf]]))
    log = draw_log(1000, 3, share=0.1)
    grouped = log.replace(rows=Table(1000, {"groups": np.arange(1000) % 25}))
    assert lacked_actions(mark_missing(log, cell)).any()
    assert not lacked_actions(mark_missing(grouped, cell)).any()
    assert len(find_missing_cells(grouped)) == 0


def test_other_logs_are_not_marked():
    rng = np.random.default_rng(0)
    labels = BanditLog(rng.random((20, 2)), rng.integers(0, 2, (20, 3)), np.full(20, 0.125), rng.random(20))
    assert len(find_missing_cells(labels)) == 0
    assert lacked_actions(mark_missing(labels, find_missing_cells(labels))) is None


@pytest.mark.parametrize("is_limited", [False, True])
def test_lists_of_the_actions_have_the_same_charges(is_limited):
    """Learned scores list the actions. Where action 1 is not eligible, the others move up by one place."""
    train, log = draw_log(3000, 0, share=0.1), draw_log(1000, 1, share=0.1)
    log = mark_missing(log, find_missing_cells(train))
    eligible = np.ones((1000, 3), dtype=bool)
    eligible[::2, 1] = not is_limited
    eligible[np.arange(1000), log.Y] = True
    limited = BanditLog(log.X, log.Y, log.propensity, log.cost, n_actions=3, eligible=eligible)
    log = limited.replace(rows=log.rows)
    effects = CostModel().fit(train).effects(log.X, train.actions)
    policy = eligible / eligible.sum(axis=1, keepdims=True)
    lists, place = log.actions.as_lists(effects[:, None], log)
    listed = mark_lists(BanditLog(lists, place, log.propensity, log.cost).replace(rows=log.rows), log)
    np.testing.assert_array_equal(lacked_actions(listed), lacked_actions(log)[eligible])
    options = {"estimate": ROBUST, "cost_range": (0, LARGEST), "baseline": "logging"}
    expected = policy_certificate(policy, log, cost_model=effects, **options)
    found = policy_certificate(policy[eligible], listed, cost_model=effects[eligible], **options)
    assert expected.missing
    assert (found.value, found.bound) == pytest.approx((expected.value, expected.bound), abs=1e-12)
    order = np.arange(1000)[::-3]
    np.testing.assert_array_equal(lacked_actions(listed.take(order)), lacked_actions(log.take(order))[eligible[order]])
