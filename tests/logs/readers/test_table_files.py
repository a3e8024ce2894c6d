"""CSV and Parquet files: the same log as their frame, whatever names and values they have; damaged files."""

import bz2
import gzip

import numpy as np
import pandas as pd
import pytest
from fixtures.text_logs import read_contexts
from fixtures.user_input import refusal
from fixtures.user_logs import assert_same_log, read_as, write_table

import drcrm
from drcrm.errors import InputError


@pytest.mark.parametrize("name", ["log.csv", "log.csv.gz", "log.csv.bz2", "LOG.CSV", "packed_gz", "log.parquet"])
def test_a_file_is_read_like_its_frame(frame, mapping, tmp_path, name):
    frame["<script>"] = ["\u202ea,\n\"'"] * len(frame)  # not in the mapping
    path = write_table(frame, tmp_path, name)
    if name == "packed_gz":
        path = path.rename(tmp_path / "log.csv")  # packed, whatever its name is
    log = drcrm.read_log(path, mapping)
    assert_same_log(log, drcrm.BanditLog.from_frame(frame, mapping))
    assert log.encoding == drcrm.BanditLog.from_frame(frame, mapping).encoding


@pytest.mark.parametrize("odd", ["<script>", "$x$", " a ", 'b"c', "a,b", "x\ny", "名前"])
@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_names_and_values_may_be_any_text(frame, mapping, tmp_path, odd, name):
    frame = frame.rename(columns={"city": odd})
    frame[odd] = odd + frame[odd]
    mapping = {**mapping, "features": {"numeric": ["age", "price"], "categorical": [odd]}}
    log, expected = (
        drcrm.read_log(write_table(frame, tmp_path, name), mapping),
        drcrm.BanditLog.from_frame(frame, mapping),
    )
    assert_same_log(log, expected)
    assert log.encoding == expected.encoding


HEAD = "item,p,click,age,price,city\n"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"", "has no rows that can be read, expected at least one"),
        ("a.csv", b"\n\n", "has no rows"),
        ("a.csv", HEAD.encode(), "has no rows"),
        ("a.csv", b"item;p;click\n1;2;3\n", "column 'age' is missing, expected one of the file's columns: item, p"),
        ("a.csv", b"item,p,click,age,price\n", "column 'city' is missing"),
        ("a.csv", f"{HEAD}a,.5,1,1,1\n".encode(), "has 5 columns in row 0, expected 6"),
        ("a.csv", f"{HEAD}a,.5,1,1,1,x\na,.5,1,1,1,x,9\n".encode(), "has 7 columns in row 1, expected 6"),
        ("a.csv", f"{HEAD}a,.5,1,1,1,Zürich\n".encode("latin-1"), "is not UTF-8 in row 0"),
        (
            "a.csv",
            f"{HEAD}a,.5,1,1,1,x".encode("utf-16-le"),
            "is not text, expected CSV; if it is UTF-16, set",
        ),
        ("a.csv", f'{HEAD}a,.5,1,1,1,"x\na,.5,1,1,1,x\n'.encode(), "has a quoted text from line 2 to line 3 that"),
        ("a.csv", b"PK\x03\x04\x00\x00\x00\x00", "is truncated or damaged"),
        ("a.csv.gz", gzip.compress(b"item,p,click\n" * 999, mtime=0)[:50], "is truncated or damaged"),
        ("a.csv.bz2", bz2.compress(b"item,p,click\n" * 999)[:50], "is truncated or damaged"),
        ("a.parquet", b"PAR1", "is not a readable Parquet file"),
        ("a.parquet", b"", "is not a readable Parquet file"),
        (
            "a.xls",
            b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1\x00",
            "has no known format, expected CSV, Vowpal Wabbit's text",
        ),
        ("a", b"", "has no rows"),
    ],
)
def test_other_content_is_rejected(mapping, tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    assert f"{tmp_path / name}: {message}" in refusal(drcrm.read_log, tmp_path / name, mapping)


@pytest.mark.parametrize("name", ["none.csv", "folder.csv", "none.parquet"])
def test_files_that_cannot_be_opened_are_rejected(mapping, tmp_path, name):
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(InputError, match=f"{name}: "):
        drcrm.read_log(tmp_path / name, mapping)


def test_contexts_of_a_file_are_encoded_like_the_log(frame, mapping, tmp_path):
    log = drcrm.BanditLog.from_frame(frame, mapping)
    frame = frame[["city", "price", "age"]]
    frame.loc[2, "city"] = "Genf"
    X, unseen = read_contexts(write_table(frame, tmp_path, "a.csv"), log.encoding)
    assert np.array_equal(np.delete(X, 2, axis=0), np.delete(log.X, 2, axis=0))
    assert unseen == {"new value of 'city'": 1}
    with pytest.raises(InputError, match=r"b.csv: column 'age' is missing"):
        read_contexts(write_table(frame.drop(columns="age"), tmp_path, "b.csv"), log.encoding)


def change(column: str, value: object):
    def apply(frame: pd.DataFrame) -> pd.DataFrame:
        frame[column] = frame[column].astype(object)
        frame.loc[17, column] = value
        return frame

    return apply


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (change("p", 1.2), "propensity 'p' is 1.2 in row 17, expected a value in (0, 1]"),
        (change("p", 0), "in row 17, expected a value in (0, 1]"),
        (change("p", -0.5), "propensity 'p' is -0.5 in row 17"),
        (change("p", 1e-200), "in row 17, expected at least 1e-100"),
        (change("p", None), "in row 17, expected a value in (0, 1]"),
        (change("p", "1/3"), "propensity 'p' is '1/3' in row 17, expected a value in (0, 1]"),
        (change("p", "20 %"), "'20 %' in row 17, expected a value in (0, 1]; write 0.2 for 20 %"),
        (lambda frame: frame.assign(p=100 * frame["p"]), "expected a value in (0, 1]; divide percentages by 100"),
        (lambda frame: frame.assign(p=np.log(frame["p"]) - 1), "; take the exponential of log probabilities"),
        (
            change("click", "yes"),
            "expected a finite number; to read such texts as 1 and 0, set booleans: yes/no in the mapping, or add it",
        ),
        (change("click", np.inf), "reward 'click' is "),
        (change("age", np.inf), "in row 17, expected a finite number"),
        (
            change("click", None),
            "in row 17, expected a finite number; only features may be missing: remove such rows, and if outcomes "
            "arrive late, all rows that are as new",
        ),
        (change("p", "NA"), "'NA' in row 17, expected a value in (0, 1]; only features may be missing"),
        (change("age", "1 234"), "age is '1 234' in row 17, expected a finite number without thousands separators"),
        (change("age", "2024-05-01"), "expected a finite number; list dates and times in features: {time: [...]}"),
        (change("age", "old"), "age is 'old' in row 17, expected a finite number"),
        (change("item", None), "action 'item' is missing in row 17, expected an action's name"),
        (change("item", ""), "in row 17, expected an action's name"),
        (lambda frame: frame.drop(columns="click"), "column 'click' is missing, expected one of"),
        (lambda frame: frame[:0], "has no rows"),
    ],
)
@pytest.mark.parametrize("form", ["frame", "csv", "parquet"])
def test_invalid_values_are_rejected_with_their_row(frame, mapping, tmp_path, spoil, message, form):
    frame = spoil(frame)
    if form == "parquet":
        frame = frame.map(lambda value: value if value is None else str(value))  # columns have one type
    error = refusal(read_as, form, frame, mapping, tmp_path)
    assert message in error
    assert error.startswith("" if form == "frame" else f"{tmp_path / 'log'}.{form}: ")
