"""Missing numbers: the mean of the training rows and an indicator, as scikit-learn has them."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from pandas._libs.parsers import STR_NA_VALUES
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import drcrm
from drcrm.diagnostics.repeated_rows.row_hashes import hash_numbers, hash_records
from drcrm.errors import InputError
from drcrm.logs.encoded_log import log_of
from drcrm.logs.encoding.columns import MISSING_TEXTS
from drcrm.logs.encoding.registry import encoding_of
from drcrm.logs.readers.log_files import context_batches, read_records
from drcrm.logs.readers.table_records import records_of_frame

NUMBERS = ["age", "price"]


@pytest.fixture
def holes(frame) -> pd.DataFrame:
    frame["price"] = frame["price"].astype(float)
    frame.loc[[2, 5, 33], "age"] = np.nan
    frame.loc[[38], "price"] = np.nan
    return frame


@pytest.mark.parametrize("train", [30, 40])
def test_features_are_those_of_scikit_learn(holes, mapping, train):
    mapping = {**mapping, "features": {"numeric": NUMBERS}}
    records = records_of_frame(holes, mapping)
    encoding = records.fit(np.arange(train))
    oracle = make_pipeline(StandardScaler(), SimpleImputer(add_indicator=True))
    with np.errstate(all="ignore"):
        expected = oracle.fit(holes[NUMBERS][:train]).transform(holes[NUMBERS])
    assert np.allclose(encoding.contexts(records.data), np.column_stack([expected, np.ones(40)]), rtol=0, atol=1e-12)
    assert encoding.indicators == (("age",) if train == 30 else ("age", "price"))
    assert encoding.unseen(records.data) == ({"missing value of 'price'": 1} if train == 30 else {})
    assert records.missing == records.take(np.arange(3)).missing == {"age": 3, "price": 1}
    again = encoding_of(json.loads(json.dumps(encoding.as_dict())))
    assert again == encoding
    assert np.array_equal(again.contexts(holes), encoding.contexts(holes))


def test_indicators_are_sparse_where_features_are(holes, mapping):
    wide = pd.concat([holes] * 10, ignore_index=True)
    wide["city"] = [f"c{i % 90}" for i in range(len(wide))]
    log = drcrm.BanditLog.from_frame(wide, mapping)
    X = log.X.toarray()
    assert np.array_equal(X[:, 2:4], wide[NUMBERS].isna())
    assert (X[:, :2][wide[NUMBERS].isna()] == 0).all()


def test_an_encoding_without_indicators_is_read(frame, mapping):
    encoding = drcrm.BanditLog.from_frame(frame, mapping).encoding
    older = {key: value for key, value in encoding.as_dict().items() if key not in ("indicators", "times")}
    assert encoding_of(older) == encoding


def test_the_texts_are_those_of_pandas():
    assert MISSING_TEXTS == STR_NA_VALUES


@pytest.mark.parametrize("text", ["", " NA", "N/A", "nan", "NaN", "NULL", "None", "#N/A"])
@pytest.mark.parametrize("form", ["csv", "parquet", "frame"])
def test_texts_that_are_missing(holes, mapping, tmp_path, text, form):
    expected = drcrm.BanditLog.from_frame(holes, mapping)
    holes = holes.astype({name: str for name in NUMBERS}).replace({name: {"nan": text} for name in NUMBERS})
    holes.loc[holes["age"].isna(), "age"] = text
    holes.loc[holes["price"].isna(), "price"] = text
    assert (holes["age"] == text).sum() == 3
    if form == "frame":
        log = drcrm.BanditLog.from_frame(holes, mapping)
    else:
        path = tmp_path / f"log.{form}"
        holes.to_csv(path, index=False) if form == "csv" else holes.to_parquet(path)
        log = drcrm.read_log(path, mapping)
    assert np.array_equal(log.X, expected.X)


@pytest.mark.parametrize("value", ["old", "inf", np.inf, "-", "1.5.2"])
def test_other_texts_and_infinity_are_not_missing(holes, mapping, tmp_path, value):
    holes["age"] = holes["age"].astype(object)
    holes.loc[17, "age"] = value
    holes.to_csv(tmp_path / "log.csv", index=False)
    for read in (lambda: drcrm.read_log(tmp_path / "log.csv", mapping), lambda: records_of_frame(holes, mapping)):
        with pytest.raises(InputError, match=r"age is .* in row 17, expected a finite number"):
            read()


def test_a_column_without_a_number_in_training(holes, mapping):
    holes.loc[:29, "age"] = np.nan
    records = records_of_frame(holes, mapping)
    with pytest.raises(InputError, match="age is missing in all training rows, expected at least one value"):
        records.fit(np.arange(len(holes)) < 30)


def test_rows_with_missing_numbers_can_be_copies(holes, mapping):
    odd = np.array([0xFFF8000000000001, 0x7FF8000000000000], dtype=np.uint64).view(float)
    assert len(set(hash_numbers(odd))) == 1
    holes.loc[5] = holes.loc[2]
    found = hash_records(records_of_frame(holes, mapping))
    assert all(values[5] == values[2] for values in found)
    assert len(set(found.rows)) == 39


def test_missing_values_of_contexts_are_counted(holes, mapping, tmp_path):
    holes.to_csv(tmp_path / "log.csv", index=False)
    encoding = read_records(tmp_path / "log.csv", mapping).fit(np.arange(len(holes)) < 30)
    parts = [*context_batches(tmp_path / "log.csv", encoding, 7)]
    assert sum(missing.get("age", 0) for _, _, missing in parts) == 3
    assert sum(unseen.get("missing value of 'price'", 0) for _, unseen, _ in parts) == 1
    assert np.array_equal(np.vstack([X for X, _, _ in parts]), encoding.contexts(holes))


def test_missing_groups_and_slices_are_as_before(holes, mapping):
    """A row without a group is a group of its own, and rows without a slice are one."""
    holes["user"] = holes["user"].astype(object)
    holes.loc[[0, 1], "user"] = None
    records = records_of_frame(holes, {**mapping, "group": "user", "slice": "user"})
    assert records.groups[0] != records.groups[1]
    assert records.row_slices[0] == records.row_slices[1] == ""
    assert log_of(records).X.shape[1] == 8
