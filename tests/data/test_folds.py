"""Folds: their numbers, the logs that train their models, and their merged values."""

import numpy as np
import pandas as pd
import pytest
from fixtures.action_logs import BLOCK_KINDS, block_log, random_effects

from drcrm import BanditLog
from drcrm.data.folds import calendar_periods, context_folds, merge_folds, number_blocks
from drcrm.errors import InputError
from drcrm.optimization.starts import clone_folds


def test_a_fold_whose_other_contexts_have_no_rows_trains_on_the_whole_log():
    log, fold = block_log("single", 20), np.arange(20) % 2
    log = log.replace(count=log.count * (fold[log.context] == 0))
    [whole] = clone_folds(log, np.zeros(20, dtype=int))
    for policy in clone_folds(log, fold):
        assert policy.coef == pytest.approx(whole.coef, abs=1e-4)


def test_fold_numbers_have_no_gaps_if_units_share_contexts():
    log = BanditLog(np.ones((2, 1)), np.zeros(6), np.ones(6), -np.arange(6.0), np.repeat([0, 1], 3), n_actions=2)
    for folds in range(2, 7):
        assert np.unique(context_folds(log, folds)).tolist() in ([0], [0, 1])


@pytest.mark.parametrize("kind", BLOCK_KINDS)
def test_merged_values_of_no_contexts_have_the_shape_of_values(kind):
    log = block_log(kind)
    actions, _, effects = log.actions.select(np.arange(0), log.X, random_effects(log))
    assert merge_folds(np.arange(0), actions, lambda number: effects).shape == effects.shape


@pytest.mark.parametrize("blocks", [1, 3, 7])
def test_a_quarter_of_the_units_is_the_first_block_and_the_others_share_the_rest(blocks):
    units = np.random.default_rng(0).permutation(np.repeat(np.arange(103), 3))
    block = number_blocks(units, blocks, seed=5)
    of_unit = np.array([block[units == unit].tolist() for unit in range(103)])
    assert (of_unit == of_unit[:, :1]).all()  # a unit is in one block
    sizes = np.bincount(of_unit[:, 0])
    assert len(sizes) == blocks + 1
    assert sizes[0] == 26
    assert np.ptp(sizes[1:]) <= 1
    assert not np.array_equal(block, number_blocks(units, blocks, seed=6))


def test_blocks_are_in_the_order_of_time_and_a_unit_is_in_the_block_of_its_first_row():
    rng = np.random.default_rng(1)
    units, time = rng.integers(0, 40, 300), rng.permutation(300)
    block = number_blocks(units, 3, time)
    first = np.array([time[units == unit].min() for unit in range(40)])
    of_unit = np.array([block[units == unit][0] for unit in range(40)])
    assert (np.diff(of_unit[np.argsort(first)]) >= 0).all()
    assert np.bincount(of_unit).tolist() == [10, 10, 10, 10]


def test_more_blocks_than_units_are_refused():
    with pytest.raises(InputError, match="7 blocks need more units than 8: choose fewer blocks"):
        number_blocks(np.arange(8), 7)


@pytest.mark.parametrize(("days", "hour", "unit"), [(100, 24, "W-SUN"), (20, 6, "D")])
def test_blocks_end_where_weeks_or_days_end(days, hour, unit):
    """An independent route to the calendar: periods of pandas. Blocks stay near equal sizes."""
    time = pd.date_range("2026-03-04 05:00", periods=days * hour, freq=f"{24 // hour}h")
    stamps = time.astype("datetime64[us]").astype(np.int64).to_numpy()
    shuffled = np.random.default_rng(0).permutation(len(stamps))
    block = np.empty(len(stamps), dtype=int)
    block[shuffled] = number_blocks(np.arange(len(stamps)), 3, stamps[shuffled], period=calendar_periods)
    assert (np.diff(block) >= 0).all()
    assert pd.Series(block).groupby(time.to_period(unit)).nunique().max() == 1
    width = {"W-SUN": 7, "D": 1}[unit] * hour
    assert np.abs(np.bincount(block) - len(stamps) / 4).max() <= width


def test_few_days_do_not_move_blocks():
    stamps = np.arange(240) * 3_600_000_000  # ten days
    plain = number_blocks(np.arange(240), 3, stamps)
    assert np.array_equal(number_blocks(np.arange(240), 3, stamps, period=calendar_periods), plain)
    crowded = np.repeat([0, 11 * 86_400_000_000], [230, 10])  # periods without rows: two blocks would be one
    assert np.bincount(number_blocks(np.arange(240), 3, crowded, period=calendar_periods)).tolist() == [60] * 4
