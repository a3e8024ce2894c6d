"""Logs of dsjson and Vowpal Wabbit's text, read in batches, in memory or into files: the same rows and features."""

from __future__ import annotations

import bz2
import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from log_contexts import read_contexts
from text_logs import LOGS, dsjson, vw_lists, vw_single

from drcrm.diagnostics.repeated_rows.duplicates import check_copies
from drcrm.diagnostics.repeated_rows.recognition import RecognisedRows
from drcrm.diagnostics.repeated_rows.row_hashes import hash_log, hash_records
from drcrm.errors import InputError
from drcrm.logs import opened_log
from drcrm.logs import records as records_module
from drcrm.logs.encoded_log import BanditLog, log_of
from drcrm.logs.mapping import as_mapping
from drcrm.logs.opened_log import OpenedLog, log_folder, open_log, split_log
from drcrm.logs.readers import log_files as readers
from drcrm.logs.readers.log_files import context_batches, read_records, record_batches
from drcrm.logs.record_collector import collect
from drcrm.logs.records import Records

IMITATED = {"propensity": None, "propensity_model": "softmax"}
MAKERS = {"dsjson": dsjson, "lists.vw": vw_lists, "single.vw": vw_single}


def ignored(what: object) -> None:
    pass


def written(folder: Path, name: str, text: str | None = None) -> Path:
    (folder / name).write_text(LOGS[name] if text is None else text)
    return folder / name


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


def same_parts(ours: OpenedLog, theirs: OpenedLog) -> None:
    same_rows(ours.records, theirs.records)
    same_logs(ours.log, theirs.log)
    assert dict(ours.unseen) == dict(theirs.unseen)


def select(checks, digest, held_out) -> RecognisedRows:
    """Recognise the rows that seed 3 does not hold out as those that a policy was learned from."""
    return RecognisedRows(~held_out(3), held_out(3))


@pytest.mark.parametrize("mapping", [{}, {"split": "last 20 %"}, IMITATED], ids=["random", "last", "imitated"])
@pytest.mark.parametrize("name", LOGS)
def test_a_log_in_files_is_that_in_memory(name, mapping, tmp_path, monkeypatch):
    given = written(tmp_path, name), as_mapping(mapping)
    expected = split_log(*given, 3, ignored)
    encoding = expected.train.encoding
    every, judging = open_log(*given, ignored), open_log(*given, ignored, None, encoding)
    for rows in (7, 50, 1000):
        monkeypatch.setattr(readers, "ROWS", rows)
        monkeypatch.setattr(records_module, "BLOCK_ROWS", rows)
        monkeypatch.setattr(opened_log, "LARGE", 1000)
        with log_folder(tmp_path / "p.npz") as folder:
            found = split_log(*given, 3, ignored, folder)
            assert (found.size, found.n_contexts) == (expected.size, expected.n_contexts)
            same_logs(found.train, expected.train)
            same_parts(found.heldout, expected.heldout)
            heldout = open_log(*given, ignored, folder, encoding, select)
            same_rows(heldout.records, expected.heldout.records)
            same_logs(heldout.log, expected.heldout.log)
            same_parts(open_log(*given, ignored, folder), every)
            same_parts(open_log(*given, ignored, folder, encoding), judging)
    assert dict(judging.unseen) == encoding.unseen(read_records(*given).data)
    if mapping != IMITATED:
        assert (every.records.groups is not None) == (name in ("log.dsjson", "copies.dsjson"))
    assert (every.records.count is not None) == (name == "log.dsjson")


@settings(max_examples=20)
@given(kind=st.sampled_from([*MAKERS]), n=st.integers(2, 40), at_once=st.integers(1, 30), seed=st.integers(0, 99))
def test_batches_together_are_the_log(tmp_path_factory, kind, n, at_once, seed):
    path = written(tmp_path_factory.mktemp("batches"), f"log.{kind}", MAKERS[kind](n, seed))
    try:
        whole = read_records(path)
    except InputError:  # none of the decisions has a label
        return
    together = collect(record_batches(path, as_mapping(None), at_once))
    same_rows(together, whole)
    assert np.array_equal(together.data.hashed.toarray(), whole.data.hashed.toarray())


@pytest.mark.parametrize("name", LOGS)
def test_contexts_come_in_batches(name, tmp_path):
    path = written(tmp_path, name)
    encoding = read_records(path).take(np.arange(3)).fit()
    X, unseen = read_contexts(path, encoding)
    parts = [*context_batches(path, encoding, 7)]
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
        same_rows(collect(record_batches(folder, as_mapping(None), at_once)), whole)
    assert len([*context_batches(folder, whole.fit(), 2**17)]) == 2


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


def test_half_a_sign_is_hashed_as_others(tmp_path):
    text = dsjson(20).replace("c1", "\\ud83d")
    records = read_records(written(tmp_path, "log.dsjson", text))
    assert records.size == read_records(written(tmp_path, "plain.dsjson", dsjson(20))).size


@pytest.mark.parametrize("name", LOGS)
def test_rows_that_are_told_again_are_those_of_the_encoded_log(name, tmp_path):
    """Records and the log that they become have the same copies."""
    records, copies = read_records(written(tmp_path, name)), []
    for of_rows in (hash_records(records), hash_log(log_of(records))):
        copies.append(check_copies(*of_rows, records.propensity)[1])
    assert np.array_equal(*copies)
    assert (copies[0] is not None) == (name in ("log.dsjson", "copies.dsjson"))


def test_lists_of_another_order_are_others(tmp_path):
    first, other = "shared |u a:2\n0:1:0.5 |a {}\n|a z\n\n", "shared |u a:2\n0:1:0.5 |a z\n|a x y:2\n\n"
    text = first.format("x y:2") + other + first.format("y:2 x")
    same = hash_records(read_records(written(tmp_path, "log.vw", text))).features
    assert same[0] == same[2] != same[1]


LATE = {
    "dsjson": ('{"c": 3}', "row 57: c is of type int, expected a map"),
    "lists.vw": ("1:1:nan | a", "row 57: its probability is 'nan', expected a finite number"),
    "single.vw": ("| a", "row 57: has no label, expected action:cost:probability like in earlier lines"),
}


@pytest.mark.parametrize("kind", LATE)
def test_what_is_wrong_in_a_late_batch_is_said_by_its_line(kind, tmp_path, monkeypatch):
    bad, said = LATE[kind]
    lines = MAKERS[kind](90).split("\n")
    path = written(tmp_path, f"log.{kind}", "\n".join([*lines[:57], bad, *lines[57:]]))
    for rows in (4, 1000):
        monkeypatch.setattr(readers, "ROWS", rows)
        with pytest.raises(InputError) as error:
            read_records(path)
        assert str(error.value) == f"{path}: {said}"


def test_a_file_that_counts_from_1_has_no_0(tmp_path):
    text = dsjson(3, odd=0) + dsjson(3, base=0, odd=0)
    with pytest.raises(InputError, match=r"row 3: a has 0, expected actions counted from 1, like in earlier lines"):
        read_records(written(tmp_path, "log.dsjson", text))


def test_a_folder_of_lists_and_of_single_actions_is_none(tmp_path):
    folder = tmp_path / "log"
    folder.mkdir()
    written(folder, "1.vw", LOGS["lists.vw"])
    written(folder, "2.vw", LOGS["single.txt"])
    with pytest.raises(InputError, match=r"2\.vw: has single actions, expected lists of actions like earlier rows"):
        read_records(folder)


def test_actions_are_numbered_from_1_over_all_batches(tmp_path, monkeypatch):
    monkeypatch.setattr(readers, "ROWS", 2)
    path = written(tmp_path, "log.vw", "3:1:0.5 | a\n1:1:0.5 | a\n" * 5 + "5:1:0.5 | a\n")
    assert read_records(path).names == [1, 2, 3, 4, 5]
    path = written(tmp_path, "log.vw", "3:1:0.5 | a\n" * 5 + "999999999:1:0.5 | a\n")
    with pytest.raises(InputError, match="actions reach 999999999 in 6 rows, expected them numbered from 1"):
        read_records(path)
