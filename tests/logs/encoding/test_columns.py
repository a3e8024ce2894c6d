"""Columns of a table: identifiers and names, and dates and times as features and as the order of the rows."""

import json
from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pandas as pd
import pytest
from fixtures.text_logs import read_contexts
from fixtures.user_input import refusal
from fixtures.user_logs import encoded, read_as

import drcrm
from drcrm.data.folds import held_out
from drcrm.errors import InputError
from drcrm.logs.batches import fit_encoding
from drcrm.logs.diagnostics.diagnosis import diagnose
from drcrm.logs.encoding.columns import order_of
from drcrm.logs.policy_file import encoding_of
from drcrm.logs.read_log import read_raw_log

MAPPING = {"action": "a", "propensity": "p", "reward": "r", "features": {}}
USERS = 2**60 + 300 * np.arange(40)  # floats near 2⁶⁰ are multiples of 256


def part(users) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"user": users, "a": rng.integers(0, 2, len(users)), "p": 0.5})
    return frame.assign(r=rng.integers(0, 2, len(users)))


@pytest.mark.parametrize("kind", ["csv", "parquet", "texts"])
def test_a_user_is_one_group_whatever_the_type_of_the_column_is(kind, tmp_path):
    suffix = "csv" if kind == "csv" else "parquet"
    users = [*map(str, USERS), None] if kind == "texts" else pd.array([*USERS, None], dtype="Int64")
    for number, frame in enumerate((part(USERS), part(users))):
        path = tmp_path / f"{number}.{suffix}"
        frame.to_csv(path, index=False) if suffix == "csv" else frame.to_parquet(path, index=False)
    raw_log = read_raw_log(tmp_path, MAPPING | {"group": "user"})
    groups = raw_log.rows.get("groups")
    assert (groups[:40] == groups[40:80]).all()
    assert (len({*groups[:40]}), groups[80] in groups[:80]) == (40, False)
    is_heldout = held_out(raw_log)
    assert (is_heldout[:40] == is_heldout[40:80]).all()


@pytest.mark.parametrize("key", ["id", "slice", "action", "group"])
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_rounded_identifiers_are_refused(key, suffix, tmp_path):
    frame, path = part(USERS.astype(float)), tmp_path / f"a.{suffix}"
    frame.to_csv(path, index=False) if suffix == "csv" else frame.to_parquet(path, index=False)
    with pytest.raises(InputError, match=r"1\.1529215046068\d*e\+18'? in row 0, expected an integer or a text"):
        read_raw_log(path, MAPPING | {key: "user"})


def test_ids_are_the_same_in_all_formats_and_required(tmp_path):
    users = np.arange(40) - 3
    ids = []
    for number, frame in enumerate((part(users), part(users.astype(float)), part(users.astype(str)))):
        for suffix in ("csv", "parquet"):
            path = tmp_path / f"{number}.{suffix}"
            frame.to_csv(path, index=False) if suffix == "csv" else frame.to_parquet(path, index=False)
            ids.append(read_raw_log(path, MAPPING | {"id": "user"}).rows.get("ids"))
    assert all(np.array_equal(ids[0], other) for other in ids)
    assert len(set(ids[0])) == 40
    part(users).assign(user=["0", None, *map(str, users[2:])]).to_parquet(path)
    with pytest.raises(InputError, match="id 'user' is missing in row 1, expected an id in every row"):
        read_raw_log(path, MAPPING | {"id": "user"})


ZONE = timezone(timedelta(hours=5, minutes=30))
TIMES = [datetime(2024, 2, 27) + timedelta(hours=7 * time, minutes=time) for time in range(40)]
DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]


def timed(mapping: dict) -> dict:
    return {**mapping, "features": {**mapping["features"], "time": ["ts"]}}


def features_of(times) -> np.ndarray:
    """Reference: the standard library."""
    hours, days = sorted({time.hour for time in times}), sorted({DAYS[time.weekday()] for time in times})
    return np.array(
        [[time.hour == hour for hour in hours] + [DAYS[time.weekday()] == day for day in days] for time in times], float
    )


def as_written(kind: str) -> list:
    if kind == "text":
        return [time.isoformat() for time in TIMES]
    if kind == "text with space and zone":
        return [f"{time}{zone}" for time, zone in zip(TIMES, ["Z", "+02:00", "-0330", "", "+00"] * 8, strict=True)]
    if kind == "comma and UTC":
        return [f"{time},123 UTC" for time in TIMES]
    if kind == "day first":
        return [
            f"{time.day}.{time:%m.%Y %H:%M}{end}"
            for time, end in zip(TIMES, ["", ":07", ":07,5 +01", ":59.9"] * 10, strict=True)
        ]
    if kind == "zoned":
        return [time.replace(tzinfo=ZONE) for time in TIMES]
    return TIMES


@pytest.mark.parametrize("kind", ["text", "text with space and zone", "comma and UTC", "day first", "times", "zoned"])
@pytest.mark.parametrize("form", ["frame", "csv", "parquet"])
def test_hours_and_weekdays_are_as_written(frame, mapping, tmp_path, kind, form):
    frame["ts"] = as_written(kind)
    log = read_as(form, frame, timed(mapping), tmp_path)
    if form != "frame":
        assert np.array_equal(read_contexts(tmp_path / f"log.{form}", log.encoding)[0], log.X)
    assert np.array_equal(log.X[:, 5:-1], features_of(TIMES))
    assert encoding_of(json.loads(json.dumps(log.encoding.as_dict()))) == log.encoding


@pytest.mark.parametrize("form", ["frame", "csv", "parquet"])
def test_a_date_has_no_hour(frame, mapping, tmp_path, form):
    frame["ts"] = [time.date() for time in TIMES]
    log = read_as(form, frame, timed(mapping), tmp_path)
    assert "ts: hour" not in log.encoding.known
    assert log.X.shape[1] == 2 + 3 + 7 + 1
    assert log.encoding.unseen(log.encoding.read(frame).features) == {}


def test_missing_times_are_a_category_and_counted(frame, mapping):
    frame["ts"] = TIMES
    frame.loc[[3, 4], "ts"] = pd.NaT
    raw_log = read_raw_log(frame, timed(mapping))
    assert raw_log.description.missing == {"ts": 2}
    log = encoded(raw_log)
    assert log.encoding.known["ts: hour"][0] == log.encoding.known["ts: weekday"][0] == ""
    assert log.X[3, 5] == log.X[3, 5 + len(log.encoding.known["ts: hour"])] == 1
    assert fit_encoding(raw_log, np.arange(5, 40)).unseen(raw_log.X)["new value of 'ts: weekday'"] == 2
    with pytest.raises(InputError, match="ts is missing in all training rows"):
        fit_encoding(raw_log, np.array([3, 4]))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("2024-13-01", "ts is '2024-13-01' in row 7, expected a date, or date and time, such as 2024-05-01T13:45"),
        ("01/02/2024", "in row 7, expected a date, or date and time, such as 2024-05-01T13:45+02:00 or 01.05.2024"),
        ("2024-01-01T25:00", "in row 7"),
        ("31.02.2024", "in row 7"),
        ("01.02.24", "in row 7"),
        ("noon", "in row 7"),
        (1700000000, "ts is 1700000000 in row 7"),
        ([1], "in row 7"),
    ],
)
def test_invalid_times_are_rejected_with_their_row(frame, mapping, value, message):
    frame["ts"] = as_written("text")
    frame["ts"] = frame["ts"].astype(object)
    frame.at[7, "ts"] = value
    assert message in refusal(drcrm.BanditLog.from_frame, frame, timed(mapping))


@pytest.mark.parametrize(
    "texts",
    [
        ["03.12.2025 14:05", "4.12.2025 13:00:00", "2025-12-04 13:00:00,250", "04.12.2025, 13:01"],
        ["2025-12-03 14:05+02", "2025-12-03T12:05:00,1Z", "03.12.2025 12:06 UTC", "2025-12-03 14:07:00+0130"],
    ],
)
def test_rows_are_ordered_by_the_instants_of_their_times(texts):
    order, _ = order_of(pd.Series(texts), "ts")
    assert np.array_equal(np.argsort(order), np.arange(4))
    assert order[0] == datetime(2025, 12, 3, 12 if "+02" in texts[0] else 14, 5, tzinfo=UTC).timestamp() * 1e6


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            ["2024-01-01", "2024-01-02Z"],
            "time 'ts' is '2024-01-01' in row 0, expected a time with a time zone, like in other rows",
        ),
        (["2024-01-01", None], "time 'ts' is missing in row 1, expected a number, or a date"),
        (["5", "2024-01-02"], "time 'ts' is '2024-01-02' in row 1, expected a finite number"),
        (["2024-01-02", "5"], "time 'ts' is '5' in row 1, expected a date"),
    ],
)
def test_times_of_several_kinds_are_rejected(values, message):
    assert message in refusal(order_of, pd.Series(values, dtype=object), "ts")


def test_all_files_have_the_same_kind_of_time(frame, mapping, tmp_path):
    (tmp_path / "log").mkdir()
    frame.assign(ts=as_written("text")).to_csv(tmp_path / "log" / "a.csv", index=False)
    frame.assign(ts=range(40)).to_csv(tmp_path / "log" / "b.csv", index=False)
    with pytest.raises(InputError, match=r"b.csv: has numbers in the column for time, expected times in"):
        read_raw_log(tmp_path / "log", {**mapping, "time": "ts"})


def test_drift_compares_halves_by_time(frame, mapping):
    n = 4000
    rng = np.random.default_rng(0)
    time = rng.permutation(n)
    frame = pd.DataFrame({"item": rng.integers(0, 2, n), "p": 0.5, "x": rng.normal(size=n), "ts": time})
    frame["click"] = (rng.random(n) < np.where(time < n // 2, 0.2, 0.5)).astype(int)
    mapping = {**mapping, "features": {"numeric": ["x"]}, "time": "ts"}
    levels = []
    for raw_log in (read_raw_log(frame, mapping), read_raw_log(frame, {**mapping, "time": None})):
        diagnostics = diagnose(encoded(raw_log)).diagnostics
        levels.append({time.name: time.level for time in diagnostics}["drift of costs"])
    assert levels == ["caution", "good"]


def test_integers_beyond_floats_remain_different_groups(tmp_path):
    part(2**60 + np.arange(40)).to_parquet(tmp_path / "a.parquet")
    assert len(set(read_raw_log(tmp_path / "a.parquet", MAPPING | {"group": "user"}).rows.get("groups"))) == 40
