"""Logs that are read in chunks, of one file or many, and stored: the same rows, split and features as in memory."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import drcrm
from drcrm.commands.opening import split
from drcrm.core.stored import StoredArray, StoredRows
from drcrm.errors import InputError
from drcrm.logs import chunks as reading
from drcrm.logs.chunk_store import ChunkStore
from drcrm.logs.chunks import chunks
from drcrm.logs.joining import joined
from drcrm.logs.log import log_of
from drcrm.logs.mapping import as_mapping
from drcrm.logs.policy_file import digest
from drcrm.logs.readers import context_chunks, read_contexts, read_records
from drcrm.logs.split import held_out
from drcrm.logs.stored_log import split_log
from drcrm.logs.tables import Table

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


def dense(X) -> np.ndarray:
    return X.toarray() if sparse.issparse(X) else np.asarray(X)


def stored(path: Path, mapping: dict, folder: Path, seed: int = 0, dtype: str = "float64"):
    store = ChunkStore(folder, path, as_mapping(mapping))
    with store.held():
        store.fill()
        found = split_log(store, seed, dtype)
        found = found, dense(found.train.X)
        store.remove()
    return found


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
def test_a_log_that_is_stored_is_that_in_memory(kind, form, files, tmp_path, monkeypatch):
    mapping, options = KINDS[kind]
    frame = visits(300, **options)
    frame["one"] = 1.0 if kind == "candidate" else frame["one"]
    path = written(frame, tmp_path, form, files)
    expected = split(path, as_mapping(mapping), 3, lambda what: None)
    for rows in (11, 64, 1000):
        monkeypatch.setattr(reading, "ROWS", rows)
        found, X = stored(path, mapping, tmp_path / "store", seed=3)
        assert not (tmp_path / "store").exists()
        assert found.size == len(frame)
        assert found.encoding == expected.whole.encoding
        assert sparse.issparse(found.train.X) == sparse.issparse(expected.train.X)
        assert np.array_equal(X, dense(expected.train.X))
        for name in ("Y", "propensity", "cost", "context", "count"):
            ours, theirs = getattr(found.train, name), getattr(expected.train, name)
            assert np.array_equal(ours, theirs)
            assert ours.dtype == theirs.dtype
        assert str(found.train.actions) == str(expected.train.actions)
        ours, theirs = found.heldout, expected.heldout.records
        for name in ("action", "cost", "propensity", "rows", "slices", "groups", "candidate", "names", "mapping"):
            assert np.array_equal(getattr(ours, name), getattr(theirs, name)), name
        assert np.array_equal(dense(log_of(ours, found.encoding).X), dense(expected.heldout.log.X))
    assert (expected.heldout.records.groups is not None) == (kind in ("groups", "holes", "copies"))


@settings(max_examples=25)
@given(n=st.integers(2, 60), at_once=st.integers(1, 30), files=st.integers(1, 2), seed=st.integers(0, 99))
def test_chunks_together_are_the_log(tmp_path_factory, n, at_once, files, seed):
    folder = tmp_path_factory.mktemp("chunks")
    path = written(visits(n, seed), folder, "parquet", files)
    mapping = as_mapping(MAPPING | {"group": "user", "slice": "place"})
    found = [each.records for each in chunks(path, mapping, at_once)]
    assert sum(each.size for each in found) == n
    same(joined(found), read_records(path, mapping))
    if files == 1:
        frame = pd.read_parquet(path)
        same(joined(found).data, drcrm.logs.table_records.records_of_frame(frame, mapping).data)


def test_reading_goes_on_where_it_was_left(tmp_path):
    path = written(visits(50), tmp_path, "csv", 2)
    all_of_them = [*chunks(path, as_mapping(MAPPING), 9)]
    for number, chunk in enumerate(all_of_them):
        rest = [*chunks(path, as_mapping(MAPPING), 9, chunk.next)]
        assert len(rest) == len(all_of_them) - number - 1
        for ours, theirs in zip(rest, all_of_them[number + 1 :], strict=True):
            same(ours.records, theirs.records)


@pytest.mark.parametrize("form", ["csv", "parquet"])
@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("p", 1.5, "propensity 'p' is 1.5 in row 57, expected a value in (0, 1]"),
        ("age", np.inf, "age is {}inf{} in row 57, expected a finite number"),
        ("item", None, "action 'item' is missing in row 57, expected an action's name; remove rows without one"),
    ],
)
def test_what_is_wrong_in_a_late_chunk_is_said_as_in_memory(form, column, value, said, tmp_path, monkeypatch):
    frame = visits(80)
    frame.loc[57, column] = value
    path = written(frame, tmp_path, form, 1)
    with pytest.raises(InputError) as expected:
        read_records(path, MAPPING)
    quote = "'" if form == "csv" else ""
    assert str(expected.value) == f"{path}: {said.format(quote, quote)}"
    monkeypatch.setattr(reading, "ROWS", 10)
    with pytest.raises(InputError) as found:
        stored(path, MAPPING, tmp_path / "store")
    assert str(found.value) == str(expected.value)
    assert not (tmp_path / "store").exists()


def test_of_a_folder_errors_name_the_file_and_the_row_in_it(tmp_path):
    frame = visits(80)
    frame.loc[57, "p"] = 2
    path = written(frame, tmp_path, "csv", 2)
    for at_once in (None, 6):
        with pytest.raises(InputError) as found:
            [*chunks(path, as_mapping(MAPPING), at_once)]
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
    with pytest.raises(InputError, match="has the folder 'c', expected files alone"):
        read_records(tmp_path / "log")


def test_the_digest_of_a_folder_is_of_all_its_files(tmp_path):
    path = written(visits(20), tmp_path, "csv", 2)
    before = digest(path)
    (path / "part-1.csv").write_bytes((path / "part-1.csv").read_bytes() + b"\n")
    assert digest(path) != before != digest(path / "part-0.csv")


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_contexts_come_in_chunks(form, tmp_path):
    path = written(visits(50), tmp_path, form, 1)
    encoding = read_records(path, MAPPING).fit(np.arange(40))
    X, unseen = read_contexts(path, encoding)
    parts = [*context_chunks(path, encoding, 7)]
    assert len(parts) == 8
    assert np.array_equal(np.concatenate([each for each, _, _ in parts]), X)
    assert sum(each.get("new value of 'city'", 0) for _, each, _ in parts) == unseen["new value of 'city'"] == 5


def test_features_of_four_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "ROWS", 30)
    path = written(visits(100), tmp_path, "parquet", 1)
    (_, X), (_, narrow) = (stored(path, MAPPING, tmp_path / "store", dtype=each) for each in ("float64", "float32"))
    assert 0 < np.abs(X - narrow).max() < 1e-6


def test_a_log_that_has_changed_is_read_anew(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "ROWS", 30)
    folder = tmp_path / "store"

    def names(mapping: dict) -> dict[str, int]:
        store = ChunkStore(folder, path, as_mapping(mapping))
        with store.held():
            store.fill()
            return {each.name: each.stat().st_mtime_ns for each in folder.glob("chunk-*")}

    path = written(visits(100), tmp_path, "csv", 1)
    first = names(MAPPING)
    assert len(first) == 4
    assert names(MAPPING) == first
    assert names(MAPPING | {"split": "last 10 %", "algorithm": "cips"}) == first
    assert names(MAPPING | {"slice": "place"}).items().isdisjoint(first.items())
    second = names(MAPPING)
    (folder / "chunk-000002.npz").write_bytes(b"PK")
    third = names(MAPPING)
    assert {name for name in third if third[name] == second[name]} == {"chunk-000000.npz", "chunk-000001.npz"}
    written(visits(50), tmp_path, "csv", 1)
    assert len(names(MAPPING)) == 2


def test_a_folder_of_others_is_left_alone(tmp_path):
    path = written(visits(20), tmp_path, "csv", 1)
    for name in ("thesis.tex", "chunk-000000.npz"):
        folder = tmp_path / name.partition(".")[0]
        folder.mkdir()
        (folder / name).write_text("mine")
        with (
            pytest.raises(InputError, match="has files of others"),
            ChunkStore(folder, path, as_mapping(MAPPING)).held(),
        ):
            pass
        assert (folder / name).read_text() == "mine"


def test_two_processes_do_not_share_a_folder(tmp_path):
    path = written(visits(20), tmp_path, "csv", 1)
    one, other = (ChunkStore(tmp_path / "store", path, as_mapping(MAPPING)) for _ in range(2))
    with one.held(), pytest.raises(InputError, match="in use by another process"), other.held():
        pass


def test_no_more_are_held_out_than_are_needed(tmp_path, monkeypatch):
    monkeypatch.setattr("drcrm.logs.split.MOST", 7)
    records = read_records(written(visits(100), tmp_path, "csv", 1), MAPPING)
    assert held_out(records).sum() == 7


def test_stored_rows_are_not_checked_again(tmp_path):
    (tmp_path / "X").write_bytes(np.full((3, 2), np.nan).tobytes())
    assert isinstance(drcrm.BanditLog(StoredArray(tmp_path / "X", 2), [0, 1, 0], [1] * 3, [0] * 3).X, StoredRows)
