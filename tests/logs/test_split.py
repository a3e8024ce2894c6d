"""Held-out rows: whole groups, the last rows by file or time, and limits."""

from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pandas as pd
import pytest
from fixtures.user_logs import write_table

from drcrm.data import folds
from drcrm.data.folds import held_out
from drcrm.errors import InputError
from drcrm.logs.read_log import read_raw_log


def test_groups_are_held_out_as_a_whole(frame, mapping):
    raw_log = read_raw_log(frame, {**mapping, "group": "user"})
    is_heldout = held_out(raw_log)
    assert not set(raw_log.rows.get("groups")[is_heldout]) & set(raw_log.rows.get("groups")[~is_heldout])
    assert len(set(raw_log.rows.get("groups")[is_heldout])) == 3  # of 12
    assert not np.array_equal(is_heldout, held_out(raw_log, seed=1))


def test_the_last_rows_of_the_file_are_held_out(frame, mapping):
    raw_log = read_raw_log(frame, {**mapping, "split": "last 20 %"})
    assert np.flatnonzero(held_out(raw_log)).tolist() == list(range(32, 40))


@pytest.mark.parametrize("kind", ["numbers", "texts", "times", "zones"])
@pytest.mark.parametrize("form", ["frame", "csv"])
def test_the_last_rows_by_time_are_held_out(frame, mapping, tmp_path, kind, form):
    order, start = np.random.default_rng(3).permutation(40), datetime(2024, 3, 30, tzinfo=UTC)
    instants = [start + timedelta(hours=int(hour)) for hour in order]
    frame["ts"] = {
        "numbers": [f"{hour}.5" for hour in order],
        "texts": [instant.isoformat()[:19] for instant in instants],
        "times": pd.DatetimeIndex(instants).tz_localize(None),
        "zones": [
            instant.astimezone(timezone(timedelta(hours=i % 5))).isoformat() for i, instant in enumerate(instants)
        ],
    }[kind]
    mapping = {**mapping, "time": "ts", "split": "last 20 %"}
    path = write_table(frame, tmp_path, "log.csv")
    raw_log = read_raw_log(path, mapping) if form == "csv" else read_raw_log(frame, mapping)
    assert np.flatnonzero(held_out(raw_log)).tolist() == np.flatnonzero(order >= 32).tolist()
    assert raw_log.rows.get("number").tolist() == [*range(40)]


def test_ties_of_time_are_in_file_order_and_groups_begin_with_their_first_row(frame, mapping):
    mapping = {**mapping, "time": "ts", "split": "last 50 %"}
    frame["user"] = np.arange(40) // 10
    for times, changes, expected in (
        ([1, 0] * 20, {}, range(0, 40, 2)),
        (1, {}, range(20, 40)),
        (np.arange(40)[::-1], {"group": "user"}, range(20)),
    ):
        raw_log = read_raw_log(frame.assign(ts=times), mapping | changes)
        assert np.flatnonzero(held_out(raw_log)).tolist() == [*expected]


def test_at_least_one_row_and_not_all_are_held_out(frame, mapping):
    with pytest.raises(InputError, match="the log has a single row, expected at least two"):
        held_out(read_raw_log(frame[:1], mapping))
    assert held_out(read_raw_log(frame[:2], mapping)).sum() == 1


def test_the_number_of_held_out_rows_is_limited(frame, mapping, monkeypatch):
    monkeypatch.setattr(folds, "MOST", 7)
    assert held_out(read_raw_log(frame, mapping)).sum() == 7
