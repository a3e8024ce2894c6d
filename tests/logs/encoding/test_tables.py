"""Tables as logs: CSV, Parquet and frames say the same, and what is wrong is said with its row."""

from __future__ import annotations

import bz2
import gzip
import json
import re

import numpy as np
import pandas as pd
import pytest
from log_contexts import read_contexts
from scipy import sparse

import drcrm
from drcrm.data.bandit_log import BanditLog as CoreLog
from drcrm.errors import InputError
from drcrm.logs.encoded_log import log_of
from drcrm.logs.encoding.registry import encoding_of
from drcrm.logs.readers.table_records import records_of_frame
from drcrm.logs.split import held_out


def same(one, other) -> None:
    for name in ("X", "Y", "propensity", "cost", "context", "count"):
        assert np.array_equal(getattr(one, name), getattr(other, name)), name
    assert one.actions.shape == other.actions.shape


def written(frame: pd.DataFrame, folder, name: str):
    path = folder / name
    if "parquet" in name:
        frame.to_parquet(path)
    else:
        pack = {"gz": gzip.compress, "z2": bz2.compress}.get(name[-2:], bytes)
        path.write_bytes(pack(frame.to_csv(index=False).encode()))
    return path


@pytest.mark.parametrize("name", ["log.csv", "log.csv.gz", "log.csv.bz2", "LOG.CSV", "packed_gz", "log.parquet"])
def test_a_file_is_as_its_frame(frame, mapping, tmp_path, name):
    path = written(frame, tmp_path, name)
    if name == "packed_gz":
        path = path.rename(tmp_path / "log.csv")  # packed, whatever its name says
    log = drcrm.read_log(path, mapping)
    same(log, drcrm.BanditLog.from_frame(frame, mapping))
    assert log.encoding == drcrm.BanditLog.from_frame(frame, mapping).encoding


def test_the_arrays_are_those_of_the_frame(frame, mapping):
    """By another route: numpy alone."""
    log = drcrm.BanditLog.from_frame(frame, mapping)
    assert isinstance(log, CoreLog)
    numeric = frame[["age", "price"]].to_numpy(float)
    numeric = (numeric - numeric.mean(axis=0)) / numeric.std(axis=0)
    one_hot = np.stack([frame["city"] == city for city in ("Bern", "Zürich", "東京")], axis=1)
    assert np.allclose(log.X, np.column_stack([numeric, one_hot, np.ones(len(frame))]), rtol=0, atol=1e-12)
    assert [["a", "b", "c"][a] for a in log.Y] == frame["item"].tolist()
    assert log.cost.tolist() == (-frame["click"]).tolist()
    assert log.propensity.tolist() == frame["p"].tolist()
    assert (log.encoding.names, log.imitated_propensities, dict(log.skipped)) == (["a", "b", "c"], False, {})


def test_costs_are_as_they_are_and_rewards_of_zero_have_no_sign(frame, mapping):
    costs = {**mapping, "cost": "click"}
    del costs["reward"]
    assert drcrm.BanditLog.from_frame(frame, costs).cost.tolist() == frame["click"].tolist()
    cost = drcrm.BanditLog.from_frame(frame, mapping).cost
    assert not np.signbit(cost[cost == 0]).any()


def test_label_vectors(frame, mapping):
    frame["l"], frame["k"] = frame["click"] == 1, 1 - frame["click"]
    mapping = {**mapping, "labels": ["l", "k"], "reward": "q"}
    del mapping["action"]
    log = drcrm.BanditLog.from_frame(frame, mapping)
    assert np.array_equal(log.Y, np.stack([frame["click"], 1 - frame["click"]], axis=1))
    assert log.encoding.names == ["l", "k"]
    frame["k"] = frame["k"] * 2
    with pytest.raises(InputError, match=r"label 'k' is 2.0 in row \d+, expected 0 or 1"):
        drcrm.BanditLog.from_frame(frame, mapping)


@pytest.mark.parametrize("as_type", [int, float, str, object, "Int64", "category"])
def test_numbers_of_actions_are_the_same_in_every_type(frame, mapping, as_type):
    frame["item"] = np.random.default_rng(1).choice([2, 10, 0], len(frame))
    expected = drcrm.BanditLog.from_frame(frame, mapping)
    assert expected.encoding.names == [0, 2, 10]
    frame["item"] = frame["item"].astype(as_type)
    same(drcrm.BanditLog.from_frame(frame, mapping), expected)


def test_texts_that_look_like_numbers_stay_apart(frame, mapping, tmp_path):
    frame["item"] = ["01", "1"] * 20
    for log in (
        drcrm.BanditLog.from_frame(frame, mapping),
        drcrm.read_log(written(frame, tmp_path, "a.csv"), mapping),
    ):
        assert log.encoding.names == ["01", "1"]


def test_an_encoding_goes_through_json(frame, mapping):
    log = drcrm.BanditLog.from_frame(frame, mapping)
    encoding = encoding_of(json.loads(json.dumps(log.encoding.as_dict())))
    assert encoding == log.encoding
    assert np.array_equal(encoding.contexts(frame), log.X)
    assert encoding.n_features == log.X.shape[1]


@pytest.mark.parametrize("given", [None, 3, {}, {"of": "table"}, {"of": []}, {"of": "table", "scales": 1}])
def test_an_encoding_that_is_cut_off(given):
    with pytest.raises(InputError, match="encoding is "):
        encoding_of(given)


def test_features_are_fitted_to_the_training_rows_alone(frame, mapping):
    frame.loc[30:, "city"] = "Genf"
    records = records_of_frame(frame, mapping)
    encoding = records.fit(np.arange(30))
    same(log_of(records.take(np.arange(30)), encoding), drcrm.BanditLog.from_frame(frame[:30], mapping))
    held = log_of(records.take(np.arange(30, 40)), encoding)
    assert (held.X[:, 2:5] == 0).all()
    assert encoding.unseen(frame) == {"new value of 'city'": 10}
    assert held.encoding.names == ["a", "b", "c"]


def test_constant_columns_are_not_divided_by_nothing(frame, mapping):
    frame["age"] = 0.1
    assert (drcrm.BanditLog.from_frame(frame, mapping).X[:, 0] == 0).all()


def test_one_row(frame, mapping):
    log = drcrm.BanditLog.from_frame(frame[:1], mapping)
    assert log.X.tolist() == [[0, 0, 1, 1]]


def test_no_features_are_a_constant(frame, mapping):
    log = drcrm.BanditLog.from_frame(frame, {**mapping, "features": {}})
    assert log.X.tolist() == [[1]] * len(frame)


def test_a_missing_category_is_one_of_its_own(frame, mapping, tmp_path):
    frame.loc[3, "city"] = None
    frame.loc[4, "city"] = ""
    log = drcrm.BanditLog.from_frame(frame, mapping)
    assert log.encoding.known["city"] == ["", "Bern", "Zürich", "東京"]
    assert log.X[3:5, 2].tolist() == [1, 1]
    for name in ("a.csv", "a.parquet"):
        same(drcrm.read_log(written(frame, tmp_path, name), mapping), log)


def test_many_values_are_hashed(frame, mapping):
    frame = pd.concat([frame] * 10, ignore_index=True)
    frame["city"] = [f"c{i % 150}" for i in range(len(frame))]
    log = drcrm.BanditLog.from_frame(frame, mapping)
    assert sparse.issparse(log.X)
    X = log.X.toarray()
    assert (np.abs(X[:, 2:-1]).sum(axis=1) == 1).all()
    assert np.array_equal(X[0, 2:], X[150, 2:])
    again = encoding_of(json.loads(json.dumps(log.encoding.as_dict())))
    assert np.array_equal(again.contexts(frame).toarray(), X)
    frame.loc[:9, "city"] = [f"new {i}" for i in range(10)]
    assert 8 <= again.unseen(frame)["new value of 'city'"] <= 10


@pytest.mark.parametrize("values", [100, 101])
def test_one_hot_up_to_a_hundred(frame, mapping, values):
    frame = pd.concat([frame] * 10, ignore_index=True)
    frame["city"] = [f"c{i % values}" for i in range(len(frame))]
    known = drcrm.BanditLog.from_frame(frame, mapping).encoding.known["city"]
    assert isinstance(known[0], str) == (values == 100)


def put(column, value, row=17):
    def change(frame):
        frame[column] = frame[column].astype(object)
        frame.loc[row, column] = value
        return frame

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put("p", 1.2), "propensity 'p' is 1.2 in row 17, expected a value in (0, 1]"),
        (put("p", 0), "in row 17, expected a value in (0, 1]"),
        (put("p", -0.5), "propensity 'p' is -0.5 in row 17"),
        (put("p", None), "in row 17, expected a value in (0, 1]"),
        (put("p", "1/3"), "propensity 'p' is '1/3' in row 17, expected a value in (0, 1]"),
        (put("click", "yes"), "reward 'click' is 'yes' in row 17, expected a finite number"),
        (put("click", np.inf), "reward 'click' is "),
        (put("age", np.inf), "in row 17, expected a finite number"),
        (put("click", None), "in row 17, expected a finite number; only features may be missing: remove such rows"),
        (put("p", "NA"), "'NA' in row 17, expected a value in (0, 1]; only features may be missing: remove such rows"),
        (put("age", "1,234"), "age is '1,234' in row 17, expected a finite number without thousands separators"),
        (put("age", "2024-05-01"), "expected a finite number; list dates and times in features: {time: [...]}"),
        (put("age", "old"), "age is 'old' in row 17, expected a finite number"),
        (put("item", None), "action 'item' is missing in row 17, expected an action's name"),
        (put("item", ""), "in row 17, expected an action's name"),
        (lambda frame: frame.drop(columns="click"), "column 'click' is missing, expected one of"),
        (lambda frame: frame[:0], "has no rows, expected at least one"),
    ],
)
@pytest.mark.parametrize("name", ["frame", "log.csv", "log.parquet"])
def test_what_is_wrong_is_said_with_its_row(frame, mapping, tmp_path, change, message, name):
    frame = change(frame)
    if name == "frame":
        with pytest.raises(InputError, match=re.escape(message)):
            drcrm.BanditLog.from_frame(frame, mapping)
        return
    if name == "log.parquet":
        frame = frame.map(lambda value: value if value is None else str(value))  # columns have one type
    path = written(frame, tmp_path, name)
    with pytest.raises(InputError, match=re.escape(message)) as error:
        drcrm.read_log(path, mapping)
    assert "\n" not in str(error.value)
    assert str(error.value).startswith(f"{path}: ")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda frame: frame.assign(age=pd.Timestamp("2020")),
            "expected numbers; list dates and times in features: {time: [...]}",
        ),
        (lambda frame: frame.assign(age=1j), "age is a column of complex128, expected numbers"),
        (lambda frame: frame.assign(age=[[1]] * len(frame)), "age is "),
        (lambda frame: frame.assign(city=[[1]] * len(frame)), "city has values that are lists or maps"),
        (lambda frame: pd.concat([frame, frame["age"]], axis=1), "column 'age' occurs 2 times, expected once"),
        (lambda frame: frame.to_dict(), "frame is of type dict, expected a pandas DataFrame"),
        (lambda frame: frame.assign(age=frame["age"] * 1e300), "age reaches "),
        (
            lambda frame: pd.concat([frame] * 50).assign(item=range(2000)),
            "action 'item' has 2000 values in 2000 rows, expected the names of fewer actions",
        ),
    ],
)
def test_frames_that_are_no_log(frame, mapping, change, message):
    with pytest.raises(InputError, match=re.escape(message)):
        drcrm.BanditLog.from_frame(change(frame), mapping)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"", "is empty, expected a line with the names of the columns"),
        ("a.csv", b"\n\n", "is empty"),
        ("a.csv", b"item,p,click,age,price,city\n", "has no rows"),
        (
            "a.csv",
            b"item;p;click\n1;2;3\n",
            "column 'age' is missing, expected one of the file's columns: item, p, click",
        ),
        ("a.csv", b"item,p,click,age,price\n", "column 'city' is missing"),
        ("a.csv", b"item,p,click,age,price,city\na,.5,1,1,1\n", "has 5 columns in row 0, expected 6"),
        ("a.csv", b"item,p,click,age,price,city\na,.5,1,1,1,x\na,.5,1,1,1,x,9\n", "has 7 columns in row 1, expected 6"),
        ("a.csv", "item,p,click,age,price,city\na,.5,1,1,1,Zürich\n".encode("latin-1"), "is not UTF-8 in row 0"),
        ("a.csv", "item,p,click,age,price,city\na,.5,1,1,1,x".encode("utf-16"), "is UTF-16, expected UTF-8"),
        (
            "a.csv",
            b'item,p,click,age,price,city\na,.5,1,1,1,"x\na,.5,1,1,1,x\n',
            "has a quote without an end in row 0",
        ),
        ("a.csv", b"PK\x03\x04\x00\x00\x00\x00", "is not text, expected CSV"),
        ("a.csv.gz", gzip.compress(b"item,p,click\n" * 999, mtime=0)[:50], "is truncated or damaged"),
        ("a.csv.bz2", bz2.compress(b"item,p,click\n" * 999)[:50], "is truncated or damaged"),
        ("a.parquet", b"PAR1", "is not a readable Parquet file"),
        ("a.parquet", b"", "is not a readable Parquet file"),
        ("a.xlsx", b"", "has no known format, expected a suffix of .csv"),
        ("a", b"", "has no known format"),
    ],
)
def test_files_that_are_no_log(mapping, tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=re.escape(f"{tmp_path / name}: {message}")) as error:
        drcrm.read_log(tmp_path / name, mapping)
    assert "\n" not in str(error.value)


def test_files_that_cannot_be_opened(mapping, tmp_path):
    (tmp_path / "folder.csv").mkdir()
    for name in ("none.csv", "folder.csv", "none.parquet"):
        with pytest.raises(InputError, match=f"{name}: "):
            drcrm.read_log(tmp_path / name, mapping)


def test_a_parquet_file_that_is_cut_off(frame, mapping, tmp_path):
    path = written(frame, tmp_path, "a.parquet")
    whole = path.read_bytes()
    for length in (10, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(InputError, match="is not a readable Parquet file"):
            drcrm.read_log(path, mapping)


def test_bytes_that_are_not_utf_8_far_into_a_file(mapping, tmp_path):
    rows = [b"item,p,click,age,price,city", *[b"a,.5,1,1,1,x"] * 100_000]
    rows[90_001] = b"a,.5,1,1,1,\xff"
    (tmp_path / "a.csv").write_bytes(b"\n".join(rows))
    with pytest.raises(InputError, match="is not UTF-8 in row 90000, column 'city'"):
        drcrm.read_log(tmp_path / "a.csv", mapping)


def test_columns_that_are_not_needed_are_not_looked_at(frame, mapping, tmp_path):
    frame["<script>"] = ["\u202ea,\n\"'"] * len(frame)
    same(
        drcrm.read_log(written(frame, tmp_path, "a.csv"), mapping),
        drcrm.BanditLog.from_frame(frame, mapping),
    )


@pytest.mark.parametrize("odd", ["<script>", "$x$", " a ", 'b"c', "a,b", "x\ny", "名前"])
def test_names_and_values_may_be_anything(frame, mapping, tmp_path, odd):
    frame = frame.rename(columns={"city": odd})
    frame[odd] = odd + frame[odd]
    mapping = {**mapping, "features": {"numeric": ["age", "price"], "categorical": [odd]}}
    expected = drcrm.BanditLog.from_frame(frame, mapping)
    for name in ("a.csv", "a.parquet"):
        log = drcrm.read_log(written(frame, tmp_path, name), mapping)
        same(log, expected)
        assert log.encoding == expected.encoding


def test_an_action_that_is_new_to_an_encoding(frame, mapping):
    encoding = drcrm.BanditLog.from_frame(frame, mapping).encoding
    frame.loc[5, "item"] = "new"
    with pytest.raises(InputError, match="action 'item' is 'new' in row 5, expected one of 'a', 'b', 'c'"):
        log_of(records_of_frame(frame, mapping), encoding)


def test_fewer_actions_keep_their_places(frame, mapping):
    encoding = drcrm.BanditLog.from_frame(frame, mapping).encoding
    some = frame[frame["item"] != "a"]
    log = log_of(records_of_frame(some, mapping), encoding)
    assert [encoding.names[a] for a in log.Y] == some["item"].tolist()
    assert log.actions.shape == (3,)


def test_slices_groups_and_candidates_stay_with_their_rows(frame, mapping):
    mapping = {**mapping, "slice": "place", "group": "user", "candidate": "q"}
    records = records_of_frame(frame, mapping).take(np.arange(10, 40, 3))
    some = frame[10:40:3]
    assert records.row_slices.tolist() == some["place"].astype(str).tolist()
    assert records.candidate.tolist() == some["q"].tolist()
    assert records.rows.tolist() == some.index.tolist()
    assert pd.Series(records.groups).groupby(some["user"].to_numpy()).nunique().eq(1).all()
    assert len(set(records.groups)) == some["user"].nunique()


def test_contexts_to_choose_for(frame, mapping, tmp_path):
    log = drcrm.BanditLog.from_frame(frame, mapping)
    frame = frame[["city", "price", "age"]]
    frame.loc[2, "city"] = "Genf"
    X, unseen = read_contexts(written(frame, tmp_path, "a.csv"), log.encoding)
    assert np.array_equal(np.delete(X, 2, axis=0), np.delete(log.X, 2, axis=0))
    assert unseen == {"new value of 'city'": 1}
    with pytest.raises(InputError, match=r"b.csv: column 'age' is missing"):
        read_contexts(written(frame.drop(columns="age"), tmp_path, "b.csv"), log.encoding)


@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_contexts_without_features(frame, mapping, tmp_path, name):
    path = written(frame, tmp_path, name)
    log = drcrm.read_log(path, {**mapping, "features": {}})
    assert read_contexts(path, log.encoding)[0].tolist() == [[1]] * len(frame)


def test_groups_are_held_out_whole(frame, mapping):
    records = records_of_frame(frame, {**mapping, "group": "user"})
    held = held_out(records)
    assert not set(records.groups[held]) & set(records.groups[~held])
    assert len(set(records.groups[held])) == 3  # of 12
    assert not np.array_equal(held, held_out(records, seed=1))


def test_the_last_are_held_out(frame, mapping):
    records = records_of_frame(frame, {**mapping, "split": "last 20 %"})
    assert np.flatnonzero(held_out(records)).tolist() == list(range(32, 40))


def test_nothing_can_be_held_out_of_one_row(frame, mapping):
    with pytest.raises(InputError, match="the log has a single context, expected at least two"):
        held_out(records_of_frame(frame[:1], mapping))
    assert held_out(records_of_frame(frame[:2], mapping)).sum() == 1


def test_parquet_without_pyarrow_says_what_to_install(frame, mapping, tmp_path, monkeypatch):
    path = written(frame, tmp_path, "a.parquet")
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(InputError, match=r"pyarrow is not installed, expected: pip install 'drcrm\[logs\]'"):
        drcrm.read_log(path, mapping)
