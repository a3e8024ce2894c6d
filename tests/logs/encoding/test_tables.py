"""Features of tables: standardised numbers, categories, missing values, and fits to training rows."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from fixtures.user_logs import assert_same_log, read_as, write_table
from pandas._libs.parsers import STR_NA_VALUES
from scipy import sparse
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import drcrm
from drcrm.errors import InputError
from drcrm.logs.batches import encode, fit_encoding
from drcrm.logs.encoding.columns import MISSING_TEXTS
from drcrm.logs.policy_file import encoding_of
from drcrm.logs.read_log import read_raw_log

NUMBERS = ["age", "price"]


@pytest.fixture
def incomplete(frame) -> pd.DataFrame:
    frame["price"] = frame["price"].astype(float)
    frame.loc[[2, 5, 33], "age"] = np.nan
    frame.loc[[38], "price"] = np.nan
    return frame


def from_json(encoding):
    return encoding_of(json.loads(json.dumps(encoding.as_dict())))


def test_arrays_are_those_of_the_frame(frame, mapping):
    """Reference: numpy."""
    log = drcrm.BanditLog.from_frame(frame, mapping)
    numeric = frame[NUMBERS].to_numpy(float)
    numeric = (numeric - numeric.mean(axis=0)) / numeric.std(axis=0)
    one_hot = np.stack([frame["city"] == city for city in ("Bern", "Zürich", "東京")], axis=1)
    assert np.allclose(log.X, np.column_stack([numeric, one_hot, np.ones(len(frame))]), rtol=0, atol=1e-12)
    assert [["a", "b", "c"][a] for a in log.Y] == frame["item"].tolist()
    assert log.cost.tolist() == (-frame["click"]).tolist()
    assert not np.signbit(log.cost[log.cost == 0]).any()
    assert log.propensity.tolist() == frame["p"].tolist()
    assert (log.encoding.names, log.imitated_propensities, dict(log.skipped)) == (["a", "b", "c"], False, {})
    costs = {"cost": "click", **{key: value for key, value in mapping.items() if key != "reward"}}
    assert drcrm.BanditLog.from_frame(frame, costs).cost.tolist() == frame["click"].tolist()


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


@pytest.mark.parametrize("dtype", [int, float, str, object, "Int64", "category"])
def test_numbered_actions_are_the_same_in_every_type(frame, mapping, dtype):
    frame["item"] = np.random.default_rng(1).choice([2, 10, 0], len(frame))
    expected = drcrm.BanditLog.from_frame(frame, mapping)
    assert expected.encoding.names == [0, 2, 10]
    frame["item"] = frame["item"].astype(dtype)
    assert_same_log(drcrm.BanditLog.from_frame(frame, mapping), expected)
    frame["item"] = frame["item"].astype(float).astype(str)  # "2.0"
    assert_same_log(drcrm.BanditLog.from_frame(frame, mapping), expected)


def test_encodings_of_older_versions_are_read(frame, mapping):
    encoding = drcrm.BanditLog.from_frame(frame, mapping).encoding
    older = {key: value for key, value in encoding.as_dict().items() if key not in ("indicators", "times")}
    assert encoding_of(older) == encoding == from_json(encoding)


def test_features_are_fitted_to_the_training_rows_only(frame, mapping):
    frame.loc[30:, "city"] = "Genf"
    raw_log = read_raw_log(frame, mapping)
    encoding = fit_encoding(raw_log, np.arange(30))
    assert_same_log(encode(raw_log.take(np.arange(30)), encoding), drcrm.BanditLog.from_frame(frame[:30], mapping))
    heldout = encode(raw_log.take(np.arange(30, 40)), encoding)
    assert (heldout.X[:, 2:5] == 0).all()
    assert encoding.unseen(encoding.read(frame).features) == {"new value of 'city'": 10}
    assert heldout.encoding.names == ["a", "b", "c"]


def test_constant_columns_become_zero(frame, mapping):
    frame["age"] = 0.1
    assert (drcrm.BanditLog.from_frame(frame, mapping).X[:, 0] == 0).all()
    assert drcrm.BanditLog.from_frame(frame[:1], mapping).X.tolist() == [[0, 0, 1, 1]]


def test_a_missing_category_is_a_category(frame, mapping, tmp_path):
    frame.loc[3, "city"] = None
    frame.loc[4, "city"] = ""
    log = drcrm.BanditLog.from_frame(frame, mapping)
    assert log.encoding.known["city"] == ["", "Bern", "Zürich", "東京"]
    assert log.X[3:5, 2].tolist() == [1, 1]
    for name in ("a.csv", "a.parquet"):
        assert_same_log(drcrm.read_log(write_table(frame, tmp_path, name), mapping), log)


def test_many_values_are_hashed(frame, mapping):
    frame = pd.concat([frame] * 10, ignore_index=True)
    for n_values in (100, 101, 150):
        frame["city"] = [f"c{i % n_values}" for i in range(len(frame))]
        encoding = drcrm.BanditLog.from_frame(frame, mapping).encoding
        assert isinstance(encoding.known["city"][0], str) == (n_values == 100)
    log = drcrm.BanditLog.from_frame(frame, mapping)
    assert sparse.issparse(log.X)
    X = log.X.toarray()
    assert (np.abs(X[:, 2:-1]).sum(axis=1) == 1).all()
    assert np.array_equal(X[0, 2:], X[150, 2:])
    encoding = from_json(log.encoding)
    assert np.array_equal(encoding.contexts(frame).toarray(), X)
    frame.loc[:9, "city"] = [f"new {i}" for i in range(10)]
    assert 8 <= encoding.unseen(encoding.read(frame).features)["new value of 'city'"] <= 10


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda frame: frame.assign(age=pd.Timestamp("2020")), "expected numbers; list dates and times in features"),
        (lambda frame: frame.assign(age=1j), "age is a column of complex128, expected numbers"),
        (lambda frame: frame.assign(age=[[1]] * len(frame)), "age is "),
        (lambda frame: frame.assign(city=[[1]] * len(frame)), "city has values such as lists or maps"),
        (lambda frame: pd.concat([frame, frame["age"]], axis=1), "column 'age' occurs 2 times, expected once"),
        (lambda frame: frame.to_dict(), "frame is of type dict, expected a pandas DataFrame"),
        (lambda frame: frame.assign(age=frame["age"] * 1e300), "age reaches "),
        (
            lambda frame: pd.concat([frame] * 50).assign(item=range(2000)),
            "action 'item' has 2000 values in 2000 rows, expected fewer different actions",
        ),
    ],
)
def test_invalid_frames_are_rejected(frame, mapping, change, message):
    with pytest.raises(InputError, match=re.escape(message)):
        drcrm.BanditLog.from_frame(change(frame), mapping)


def test_actions_keep_the_places_of_an_encoding(frame, mapping):
    encoding = drcrm.BanditLog.from_frame(frame, mapping).encoding
    fewer = frame[frame["item"] != "a"]
    log = encode(read_raw_log(fewer, mapping), encoding)
    assert [encoding.names[a] for a in log.Y] == fewer["item"].tolist()
    assert log.actions.shape == (3,)
    frame.loc[5, "item"] = "new"
    message = "action 'item' is 'new' in row 5, expected one of 'a', 'b', 'c', the policy's actions; learn again"
    with pytest.raises(InputError, match=message):
        encode(read_raw_log(frame, mapping), encoding)


def test_slices_groups_and_candidates_stay_with_their_rows(frame, mapping):
    mapping = {**mapping, "slice": "place", "group": "user", "candidate": "q"}
    raw_log, part = read_raw_log(frame, mapping).take(np.arange(10, 40, 3)), frame[10:40:3]
    assert raw_log.rows.texts("slice 0").tolist() == part["place"].astype(str).tolist()
    assert raw_log.rows.get("candidate").tolist() == part["q"].tolist()
    assert raw_log.rows.get("number").tolist() == part.index.tolist()
    assert pd.Series(raw_log.rows.get("groups")).groupby(part["user"].to_numpy()).nunique().eq(1).all()
    assert len(set(raw_log.rows.get("groups"))) == part["user"].nunique()


def test_rows_without_a_group_are_groups_and_rows_without_a_slice_are_one_slice(frame, mapping):
    frame["user"] = frame["user"].astype(object)
    frame.loc[[0, 1], "user"] = None
    raw_log = read_raw_log(frame, {**mapping, "group": "user", "slice": "user"})
    assert raw_log.rows.get("groups")[0] != raw_log.rows.get("groups")[1]
    assert set(raw_log.rows.texts("slice 0")[:2]) == {""}


@pytest.mark.parametrize("train", [30, 40])
def test_missing_numbers_are_imputed_like_in_scikit_learn(incomplete, mapping, train):
    raw_log = read_raw_log(incomplete, {**mapping, "features": {"numeric": NUMBERS}})
    encoding = fit_encoding(raw_log, np.arange(train))
    reference = make_pipeline(StandardScaler(), SimpleImputer(add_indicator=True))
    with np.errstate(all="ignore"):
        expected = reference.fit(incomplete[NUMBERS][:train]).transform(incomplete[NUMBERS])
    assert np.allclose(encoding.encode(raw_log.X), np.column_stack([expected, np.ones(40)]), rtol=0, atol=1e-12)
    assert encoding.indicators == (["age"] if train == 30 else ["age", "price"])
    assert encoding.unseen(raw_log.X) == ({"missing value of 'price'": 1} if train == 30 else {})
    assert raw_log.description.missing == {"age": 3, "price": 1}
    assert from_json(encoding) == encoding
    assert np.array_equal(from_json(encoding).contexts(incomplete), encoding.contexts(incomplete))


def test_missing_texts_are_those_of_pandas():
    assert STR_NA_VALUES | {r"\N"} == MISSING_TEXTS


@pytest.mark.parametrize("text", ["", " NA", "nan", "#N/A"])
@pytest.mark.parametrize("form", ["csv", "parquet", "frame"])
def test_missing_texts_are_missing_in_every_format(incomplete, mapping, tmp_path, text, form):
    expected = drcrm.BanditLog.from_frame(incomplete, mapping)
    texts = incomplete.astype({name: str for name in NUMBERS})
    for name in NUMBERS:
        texts.loc[incomplete[name].isna(), name] = text
    assert np.array_equal(read_as(form, texts, mapping, tmp_path).X, expected.X)
