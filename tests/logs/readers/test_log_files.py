"""Logs that are read in batches, of one file or many, in memory or into files: the same rows, split and features."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from log_contexts import read_contexts
from scipy import sparse

import drcrm
from drcrm.errors import InputError
from drcrm.logs import records as records_module
from drcrm.logs.encoding.tables import Table
from drcrm.logs.mapping import as_mapping
from drcrm.logs.opened_log import log_folder, split_log
from drcrm.logs.policy_file import digest
from drcrm.logs.readers import log_files as readers
from drcrm.logs.readers.log_files import context_batches, read_records, record_batches
from drcrm.logs.record_collector import collect
from drcrm.logs.split import held_out

MAPPING = {
    "action": "item",
    "propensity": "p",
    "reward": "click",
    "features": {"numeric": ["age", "one"], "categorical": ["city"]},
}
LABELS = {"labels": ["a", "b"], **{key: each for key, each in MAPPING.items() if key != "action"}}


def visits(n: int, seed: int = 0, late: object = "late", copies: int = 1, cities: int = 3) -> pd.DataFrame:
    """Rows of which the last have a city and an action that no other has; some are without a user, or told again."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.normal(40, 10, n).round(3),
            "one": 1.5,
            "city": np.array([f"c{each}" for each in rng.integers(0, cities, n)], dtype=object),
            "item": np.array(rng.integers(0, 3, n), dtype=object),
            "p": rng.uniform(0.1, 1, n),
            "click": rng.integers(0, 2, n),
            "place": rng.integers(1, 4, n),
            "zip": pd.array([10**17 + each for each in rng.integers(0, 9, n)], dtype="Int64"),
            "user": [None if each == 5 else f"u{each}" for each in rng.integers(0, 9, n)],
            "a": rng.integers(0, 2, n),
            "b": rng.integers(0, 2, n),
        }
    )
    frame.loc[n - max(n // 10, 1) :, "city"] = None if cities > 3 else "Genf"
    frame.loc[n - 1, ["item", "zip"]] = late, None
    frame["item"] = frame["item"].astype(str)
    return pd.concat([frame] * copies).sample(frac=1, random_state=seed) if copies > 1 else frame


def written(frame: pd.DataFrame, path: Path, form: str, files: int) -> Path:
    if files == 1:
        path = path / f"log.{form}"
        places = [(path, frame)]
    else:
        path = path / "log"
        path.mkdir(exist_ok=True)
        (path / "_SUCCESS").write_text("")
        parts = np.array_split(np.arange(len(frame)), files)
        places = [(path / f"part-{at}.{form}", frame.iloc[part]) for at, part in enumerate(parts)]
    for place, some in places:
        if form == "csv":
            some.to_csv(place, index=False)
        else:
            some.to_parquet(place, index=False, row_group_size=7)
    return path


def same(one, other) -> None:
    """Records, or data, of the same rows."""
    for field in fields(one):
        ours, theirs = getattr(one, field.name), getattr(other, field.name)
        if isinstance(ours, Table):
            same(ours, theirs)
        elif isinstance(ours, dict):
            assert ours.keys() == theirs.keys()
            for name, each in ours.items():
                assert np.array_equal(each, theirs[name])
        elif isinstance(ours, np.ndarray):
            assert np.array_equal(ours, theirs), field.name
        else:
            assert ours == theirs


def is_mapped(array: np.ndarray) -> bool:
    return isinstance(array.base, np.memmap)


def dense(X) -> np.ndarray:
    return X.toarray() if sparse.issparse(X) else np.asarray(X)


def split(path: Path, mapping: dict, folder=None, most: int = 2**30):
    return split_log(path, as_mapping(mapping), 3, lambda what: None, folder, most)


KINDS = {
    "single": (MAPPING, {}),
    "labels": (LABELS, {}),
    "numbers": (MAPPING, {"late": 7}),
    "groups": (MAPPING | {"group": "user", "slice": "place"}, {}),
    "last": (MAPPING | {"split": "last 20 %"}, {}),
    "copies": (MAPPING, {"copies": 3}),
    "hashed": (MAPPING, {"cities": 400}),
    "holes": (MAPPING | {"features": {"numeric": ["age"], "categorical": ["zip"]}, "group": "zip"}, {}),
    "candidate": (MAPPING | {"candidate": "one", "slice": "city"} | {"features": {"numeric": ["age"]}}, {}),
}


@pytest.mark.parametrize("files", [1, 3])
@pytest.mark.parametrize("form", ["csv", "parquet"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_log_in_files_is_that_in_memory(kind, form, files, tmp_path, monkeypatch):
    mapping, options = KINDS[kind]
    frame = visits(300, **options)
    frame["one"] = 1.0 if kind == "candidate" else frame["one"]
    path = written(frame, tmp_path, form, files)
    expected = split(path, mapping)
    assert expected.size == len(frame)
    for rows in (11, 64, 1000):
        monkeypatch.setattr(readers, "ROWS", rows)
        monkeypatch.setattr(records_module, "BLOCK_ROWS", rows)
        with log_folder(tmp_path / "p.npz") as folder:
            found = split(path, mapping, folder, most=2000)
        assert is_mapped(found.train.propensity)
        assert not is_mapped(found.heldout.log.propensity)
        assert np.array_equal(found.is_heldout, expected.is_heldout)
        for ours, theirs in ((found.train, expected.train), (found.heldout.log, expected.heldout.log)):
            assert ours.encoding == theirs.encoding
            assert sparse.issparse(ours.X) == sparse.issparse(theirs.X)
            assert np.array_equal(dense(ours.X), dense(theirs.X))
            assert str(ours.actions) == str(theirs.actions)
            for name in ("Y", "propensity", "cost", "context", "count"):
                assert np.array_equal(getattr(ours, name), getattr(theirs, name))
                assert getattr(ours, name).dtype == getattr(theirs, name).dtype
        ours, theirs = found.heldout.records, expected.heldout.records
        for name in ("action", "cost", "propensity", "rows", "row_slices", "groups", "candidate", "names", "mapping"):
            assert np.array_equal(getattr(ours, name), getattr(theirs, name)), name
    assert (expected.heldout.records.groups is not None) == (kind in ("groups", "holes", "copies"))


@settings(max_examples=25)
@given(n=st.integers(2, 60), at_once=st.integers(1, 30), files=st.integers(1, 2), seed=st.integers(0, 99))
def test_batches_together_are_the_log(tmp_path_factory, n, at_once, files, seed):
    folder = tmp_path_factory.mktemp("batches")
    path = written(visits(n, seed), folder, "parquet", files)
    mapping = as_mapping(MAPPING | {"group": "user", "slice": "place"})
    found = [*record_batches(path, mapping, at_once)]
    assert sum(batch.records.size for batch in found) == n
    same(collect(found), read_records(path, mapping))
    if files == 1:
        frame = pd.read_parquet(path)
        same(collect(found).data, drcrm.logs.readers.table_records.records_of_frame(frame, mapping).data)


@pytest.mark.parametrize("form", ["csv", "parquet"])
@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("p", 1.5, "propensity 'p' is 1.5 in row 57, expected a value in (0, 1]"),
        ("age", np.inf, "age is {}inf{} in row 57, expected a finite number"),
        ("item", None, "action 'item' is missing in row 57, expected an action's name; remove rows without one"),
    ],
)
def test_what_is_wrong_in_a_late_batch_is_said_as_in_one_batch(form, column, value, said, tmp_path, monkeypatch):
    frame = visits(80)
    frame.loc[57, column] = value
    path = written(frame, tmp_path, form, 1)
    with pytest.raises(InputError) as expected:
        read_records(path, MAPPING)
    quote = "'" if form == "csv" else ""
    assert str(expected.value) == f"{path}: {said.format(quote, quote)}"
    monkeypatch.setattr(readers, "ROWS", 10)
    with pytest.raises(InputError) as found:
        read_records(path, MAPPING, lambda: tmp_path)
    assert str(found.value) == str(expected.value)


def test_of_a_folder_errors_name_the_file_and_the_row_in_it(tmp_path):
    frame = visits(80)
    frame.loc[57, "p"] = 2
    path = written(frame, tmp_path, "csv", 2)
    for at_once in (None, 6):
        with pytest.raises(InputError) as found:
            [*record_batches(path, as_mapping(MAPPING), at_once)]
        assert str(found.value).startswith(f"{path / 'part-1.csv'}: propensity 'p' is 2.0 in row 17, expected")


def test_folders_that_are_no_logs(tmp_path):
    (tmp_path / "log").mkdir()
    with pytest.raises(InputError, match="log: is a folder without files"):
        read_records(tmp_path / "log", MAPPING)
    (tmp_path / "log/a.npz").write_text("")
    with pytest.raises(InputError, match="log: is a folder of npz, expected a single file"):
        read_records(tmp_path / "log")
    (tmp_path / "log/b.csv").write_text("x\n1\n")
    with pytest.raises(InputError, match=r"has files of more than one format, such as a.npz, b.csv"):
        read_records(tmp_path / "log")
    (tmp_path / "log/c").mkdir()
    with pytest.raises(InputError, match="has the folder 'c', expected only files"):
        read_records(tmp_path / "log")


def test_the_digest_of_a_folder_is_of_all_its_files(tmp_path):
    path = written(visits(20), tmp_path, "csv", 2)
    before = digest(path)
    (path / "part-1.csv").write_bytes((path / "part-1.csv").read_bytes() + b"\n")
    assert digest(path) != before != digest(path / "part-0.csv")


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_contexts_come_in_batches(form, tmp_path):
    path = written(visits(50), tmp_path, form, 1)
    encoding = read_records(path, MAPPING).fit(np.arange(50) < 40)
    X, unseen = read_contexts(path, encoding)
    parts = [*context_batches(path, encoding, 7)]
    assert len(parts) == 8
    assert np.array_equal(np.concatenate([each for each, _, _ in parts]), X)
    assert sum(each.get("new value of 'city'", 0) for _, each, _ in parts) == unseen["new value of 'city'"] == 5


def test_no_more_are_held_out_than_are_needed(tmp_path, monkeypatch):
    monkeypatch.setattr("drcrm.logs.split.MOST", 7)
    records = read_records(written(visits(100), tmp_path, "csv", 1), MAPPING)
    assert held_out(records).sum() == 7
