"""Logs of dsjson and Vowpal Wabbit's text that are read in chunks, and stored: the same as in memory."""

from __future__ import annotations

import bz2
import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from text_logs import LOGS, dsjson, vw_lists, vw_single

from drcrm.commands.opening import opened, split
from drcrm.core.stored import StoredSparse
from drcrm.errors import InputError
from drcrm.logs import chunk_store, stored_log
from drcrm.logs import chunks as reading
from drcrm.logs.chunk_store import ChunkStore
from drcrm.logs.chunks import chunks
from drcrm.logs.duplicates import duplicates
from drcrm.logs.joining import joined
from drcrm.logs.log import BanditLog, log_of
from drcrm.logs.mapping import as_mapping
from drcrm.logs.marks import marks, marks_of_log, marks_of_rows
from drcrm.logs.readers import context_chunks, read_contexts, read_records
from drcrm.logs.recognition import Recognised
from drcrm.logs.records import Records
from drcrm.logs.stored_log import imitated_store, split_log, whole_log

IMITATED = {"propensity": None, "propensity_model": "softmax"}
MAKERS = {"dsjson": dsjson, "lists.vw": vw_lists, "single.vw": vw_single}


def ignored(what: object) -> None:
    pass


def written(folder: Path, name: str, text: str | None = None) -> Path:
    (folder / name).write_text(LOGS[name] if text is None else text)
    return folder / name


def filled(folder: Path, path: Path, mapping=None) -> ChunkStore:
    store = ChunkStore(folder, path, as_mapping(mapping))
    with store.held():
        store.fill()
    return store


def same_rows(ours: Records, theirs: Records) -> None:
    """Records of the same rows, perhaps without their features."""
    for name in ("action", "cost", "propensity", "rows", "groups", "count"):
        one, other = getattr(ours, name), getattr(theirs, name)
        assert (one is None) == (other is None), name
        if one is not None:
            assert one.dtype == other.dtype
            assert np.array_equal(one, other), name
    assert (ours.names, ours.skipped, ours.kind, ours.format) == (
        theirs.names,
        theirs.skipped,
        theirs.kind,
        theirs.format,
    )


def same_logs(ours: BanditLog, theirs: BanditLog) -> None:
    for name in ("Y", "propensity", "cost", "context", "count"):
        assert getattr(ours, name).dtype == getattr(theirs, name).dtype
        assert np.array_equal(getattr(ours, name), getattr(theirs, name)), name
    assert np.array_equal(getattr(ours.actions, "starts", None), getattr(theirs.actions, "starts", None))
    assert (ours.actions.shape, dict(ours.skipped)) == (theirs.actions.shape, dict(theirs.skipped))
    assert ours.encoding == theirs.encoding
    assert np.array_equal(ours.X[:].toarray(), theirs.X.toarray())


def held_out_rows(checks, held_out):
    """Recognise the rows that seed 3 does not hold out as those that a policy was learned from."""
    return Recognised(~held_out(3), held_out(3))


@pytest.mark.parametrize("mapping", [{}, {"split": "last 20 %"}, IMITATED], ids=["random", "last", "imitated"])
@pytest.mark.parametrize("name", LOGS)
def test_a_log_that_is_stored_is_that_in_memory(name, mapping, tmp_path, monkeypatch):
    path = written(tmp_path, name)
    expected = split(path, as_mapping(mapping), 3, ignored)
    every = opened(path, mapping, ignored, lambda records: records.fit())
    for rows, large in ((7, 1), (50, 2**16), (1000, 1)):
        monkeypatch.setattr(reading, "ROWS", rows)
        monkeypatch.setattr(stored_log, "LARGE", large)
        store = filled(tmp_path / f"store {rows}", path, mapping)
        assert (len(store) > 1) == (rows < 1000)
        propensity = imitated_store(store) if mapping == IMITATED else None
        found = split_log(store, 3, "float64", propensity)
        assert isinstance(found.train.X, StoredSparse) == (large == 1)
        assert found.size == expected.whole.rows
        assert found.encoding == expected.whole.encoding
        same_logs(found.train, expected.train)
        same_rows(found.heldout, expected.heldout.records)
        same_logs(log_of(found.heldout, found.encoding, found.propensity), expected.heldout.log)
        held = whole_log(store, propensity, found.encoding, held_out_rows)
        assert np.array_equal(held.records.rows, expected.heldout.records.rows)
        same_logs(held.log, expected.heldout.log)
        assert np.array_equal(held.propensity, expected.heldout.propensity)
        whole = whole_log(store, propensity)
        same_rows(whole.records, every.records)
        same_logs(whole.log, every.log)
        judging = whole_log(store, propensity, found.encoding)
        assert judging.unseen == found.encoding.unseen(every.records.data)
    if mapping != IMITATED:
        assert (every.records.groups is not None) == (name in ("log.dsjson", "copies.dsjson"))
    assert (every.records.count is not None) == (name == "log.dsjson")


def test_features_of_four_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "ROWS", 30)
    store = filled(tmp_path / "store", written(tmp_path, "log.dsjson"))
    X, narrow = (split_log(store, 0, each).train.X for each in ("float64", "float32"))
    assert np.array_equal(X.indices, narrow.indices)
    assert 0 < np.abs(X.data - narrow.data).max() < 1e-6


@settings(max_examples=20)
@given(kind=st.sampled_from([*MAKERS]), n=st.integers(2, 40), at_once=st.integers(1, 30), seed=st.integers(0, 99))
def test_chunks_together_are_the_log_and_go_on_where_they_were_left(tmp_path_factory, kind, n, at_once, seed):
    path = written(tmp_path_factory.mktemp("chunks"), f"log.{kind}", MAKERS[kind](n, seed))
    try:
        whole = read_records(path)
    except InputError:  # none of the decisions has a label
        return
    found = [*chunks(path, as_mapping(None), at_once)]
    together = joined([each.records for each in found])
    same_rows(together, whole)
    assert np.array_equal(together.data.hashed.toarray(), whole.data.hashed.toarray())
    for number, chunk in enumerate(found):
        rest = [*chunks(path, as_mapping(None), at_once, chunk.next)]
        assert len(rest) == len(found) - number - 1
        for ours, theirs in zip(rest, found[number + 1 :], strict=True):
            same_rows(ours.records, theirs.records)


@pytest.mark.parametrize("name", LOGS)
def test_contexts_come_in_chunks(name, tmp_path):
    path = written(tmp_path, name)
    encoding = read_records(path).take(np.arange(3)).fit()
    X, unseen = read_contexts(path, encoding)
    parts = [*context_chunks(path, encoding, 7)]
    assert len(parts) > 20
    assert sum(each["new features"] for _, each, _ in parts if each) == unseen["new features"]
    if encoding.kind == "single":
        assert np.array_equal(np.vstack([each.toarray() for each, _, _ in parts]), X.toarray())
        return
    assert np.array_equal(np.vstack([each.features.toarray() for each, _, _ in parts]), X.features.toarray())
    assert np.array_equal(np.concatenate([np.diff(each.starts) for each, _, _ in parts]), np.diff(X.starts))


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress])
def test_a_folder_and_a_packed_file_are_read_as_one_file(pack, tmp_path):
    path = written(tmp_path, "log.dsjson")
    lines = path.read_bytes().splitlines(keepends=True)
    folder = tmp_path / "log"
    folder.mkdir()
    (folder / "1.json.gz").write_bytes(pack(b"".join(lines[:70])))
    (folder / "2.json").write_bytes(b"".join(lines[70:]))
    whole = read_records(path)
    for at_once in (None, 9):
        same_rows(joined([each.records for each in chunks(folder, as_mapping(None), at_once)]), whole)
    assert len([*context_chunks(folder, whole.fit(), 2**17)]) == 2


def test_a_file_that_does_not_tell_is_read_as_the_others(tmp_path):
    said = {"c": {"_multi": [{"x": 1}, {"x": 2}]}, "_label_cost": 0, "_label_probability": 0.5, "_label_Action": 1}
    untold, told = json.dumps(said), json.dumps(said | {"a": [1, 0], "p": [0.5, 0.5]})
    lists = {"1.vw": "0:1:0.5 |a x\n\n0:1:0.5 |a y\n", "2.vw": "0:1:0.5 |a x\n|a y\n"}
    for number, files in enumerate(({"1.dsjson": untold, "2.dsjson": told}, {"1.vw": "1:1:0.5 | x"}, lists)):
        folder = tmp_path / str(number)
        folder.mkdir()
        for name, text in files.items():
            (folder / name).write_text(text)
    assert read_records(tmp_path / "0").action.tolist() == [1, 1]
    assert read_records(tmp_path / "1").kind == "single"
    assert np.diff(read_records(tmp_path / "2").data.starts).tolist() == [1, 1, 2]


@pytest.mark.parametrize("name", LOGS)
def test_how_large_a_text_is_in_memory(name, tmp_path):
    path = written(tmp_path, name)
    hashed = read_records(path).data.hashed
    numbers = hashed.data.nbytes + hashed.indices.nbytes
    assert numbers <= reading.bytes_in_memory(path, as_mapping(None)) < 2 * numbers


def test_half_a_sign_is_hashed_as_others(tmp_path):
    text = dsjson(20).replace("c1", "\\ud83d")
    records = read_records(written(tmp_path, "log.dsjson", text))
    assert records.size == read_records(written(tmp_path, "plain.dsjson", dsjson(20))).size


@pytest.mark.parametrize("name", LOGS)
def test_rows_that_are_told_again_are_those_of_the_encoded_log(name, tmp_path):
    """Records and the log that they become have the same copies."""
    records, copies = read_records(written(tmp_path, name)), []
    for of_rows in (marks(records), marks_of_log(log_of(records))):
        whole = marks_of_rows(of_rows, records.propensity)
        copies.append(duplicates(of_rows[0], whole, records.propensity)[1])
    assert np.array_equal(*copies)
    assert (copies[0] is not None) == (name in ("log.dsjson", "copies.dsjson"))


def test_lists_of_another_order_are_others(tmp_path):
    first, other = "shared |u a:2\n0:1:0.5 |a {}\n|a z\n\n", "shared |u a:2\n0:1:0.5 |a z\n|a x y:2\n\n"
    text = first.format("x y:2") + other + first.format("y:2 x")
    same = marks(read_records(written(tmp_path, "log.vw", text)))[0]
    assert same[0] == same[2] != same[1]


LATE = {
    "dsjson": ('{"c": 3}', "row 57: c is of type int, expected a map"),
    "lists.vw": ("1:1:nan | a", "row 57: its probability is 'nan', expected a finite number"),
    "single.vw": ("| a", "row 57: is of a list of actions, expected a label, as the lines before have one"),
}


@pytest.mark.parametrize("kind", LATE)
def test_what_is_wrong_in_a_late_chunk_is_said_by_its_line(kind, tmp_path, monkeypatch):
    bad, said = LATE[kind]
    lines = MAKERS[kind](90).split("\n")
    path = written(tmp_path, f"log.{kind}", "\n".join([*lines[:57], bad, *lines[57:]]))
    for rows in (4, 1000):
        monkeypatch.setattr(reading, "ROWS", rows)
        for read in (lambda: read_records(path), lambda: filled(tmp_path / "store", path)):
            with pytest.raises(InputError) as error:
                read()
            assert str(error.value) == f"{path}: {said}"
    assert not (tmp_path / "store").exists()


def test_a_file_that_counts_from_1_has_no_0(tmp_path):
    text = dsjson(3, odd=0) + dsjson(3, base=0, odd=0)
    with pytest.raises(InputError, match=r"row 3: a has 0, expected actions counted from 1, as in the lines before"):
        read_records(written(tmp_path, "log.dsjson", text))


def test_a_folder_of_lists_and_of_single_actions_is_none(tmp_path):
    folder = tmp_path / "log"
    folder.mkdir()
    written(folder, "1.vw", LOGS["lists.vw"])
    written(folder, "2.vw", LOGS["single.txt"])
    with pytest.raises(InputError, match=r"2\.vw: is of single actions, the files before are of lists of actions"):
        read_records(folder)


def test_actions_are_numbered_from_1_over_all_chunks(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "ROWS", 2)
    path = written(tmp_path, "log.vw", "3:1:0.5 | a\n1:1:0.5 | a\n" * 5 + "5:1:0.5 | a\n")
    assert filled(tmp_path / "store", path).names == read_records(path).names == [1, 2, 3, 4, 5]
    path = written(tmp_path, "log.vw", "3:1:0.5 | a\n" * 5 + "999999999:1:0.5 | a\n")
    with pytest.raises(InputError, match="actions reach 999999999 in 6 rows, expected them numbered from 1"):
        read_records(path)


def test_reading_goes_on_behind_the_last_chunk(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "ROWS", 30)
    path, folder, write = written(tmp_path, "log.dsjson"), tmp_path / "store", chunk_store.write_npz
    writers = iter([write, write])
    expected = split(path, as_mapping(None), 0, ignored)

    def failing(*place, **arrays) -> None:
        try:
            next(writers)(*place, **arrays)
        except StopIteration:
            raise OSError(28, "No space left on device") from None

    monkeypatch.setattr(chunk_store, "write_npz", failing)
    with pytest.raises(OSError, match="No space left"):
        filled(folder, path)
    first = {each.name: each.stat().st_mtime_ns for each in folder.glob("chunk-*")}
    assert len(first) == 2
    monkeypatch.setattr(chunk_store, "write_npz", write)
    store = filled(folder, path)
    now = {each.name: each.stat().st_mtime_ns for each in folder.glob("chunk-*")}
    assert first.items() <= now.items()
    assert len(now) == len(store) > 4
    found = split_log(store, 0, "float64")
    same_logs(found.train, expected.train)
    same_rows(found.heldout, expected.heldout.records)
    written(tmp_path, "log.dsjson", dsjson(50, 7))
    assert filled(folder, path).size == read_records(path).size
