"""Logs of all formats read in batches, from a file or a folder: the same rows, features and errors for every size."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from fixtures.text_logs import LOGS
from fixtures.user_input import refusal
from fixtures.user_logs import assert_same_log
from scipy import sparse

from drcrm.errors import InputError
from drcrm.logs import batches, read_log
from drcrm.logs.batches import fit_encoding
from drcrm.logs.decisions import opened_log
from drcrm.logs.decisions.opened_log import log_folder, open_log
from drcrm.logs.policy_file import digest
from drcrm.logs.read_log import context_batches, read_raw_log
from drcrm.mapping.log_mapping import as_mapping

MAPPING = {
    "action": "item",
    "propensity": "p",
    "reward": "click",
    "features": {"numeric": ["age", "one"], "categorical": ["city"]},
}
LABELS = {"labels": ["a", "b"], **{key: value for key, value in MAPPING.items() if key != "action"}}


def visits(n: int, seed: int = 0, late: object = "late", copies: int = 1, cities: int = 3) -> pd.DataFrame:
    """Return rows of which only the last have a certain city and action; optionally several copies of each row."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.normal(40, 10, n).round(3),
            "one": 1.5,
            "city": np.array([f"c{code}" for code in rng.integers(0, cities, n)], dtype=object),
            "item": np.array(rng.integers(0, 3, n), dtype=object),
            "p": rng.uniform(0.1, 1, n),
            "click": rng.integers(0, 2, n),
            "place": rng.integers(1, 4, n),
            "zip": pd.array([10**17 + code for code in rng.integers(0, 9, n)], dtype="Int64"),
            "user": [None if code == 5 else f"u{code}" for code in rng.integers(0, 9, n)],
            "a": rng.integers(0, 2, n),
            "b": rng.integers(0, 2, n),
        }
    )
    frame.loc[n - max(n // 10, 1) :, "city"] = None if cities > 3 else "Genf"
    frame.loc[n - 1, ["item", "zip"]] = late, None
    frame["item"] = frame["item"].astype(str)
    return pd.concat([frame] * copies).sample(frac=1, random_state=seed) if copies > 1 else frame


def write_table(frame: pd.DataFrame, folder: Path, form: str, files: int = 1) -> Path:
    """Write a frame to a file, or to several files of a folder, and return the path."""
    path, parts = folder / f"log.{form}", [frame]
    places = [path]
    if files > 1:
        path = folder / "log"
        path.mkdir(exist_ok=True)
        (path / "_SUCCESS").write_text("")
        parts = [frame.iloc[rows] for rows in np.array_split(np.arange(len(frame)), files)]
        places = [path / f"part-{number}.{form}" for number in range(files)]
    for place, part in zip(places, parts, strict=True):
        if form == "csv":
            part.to_csv(place, index=False)
        else:
            part.to_parquet(place, index=False, row_group_size=7)
    return path


def write_text(folder: Path, name: str, text: str | None = None) -> Path:
    (folder / name).write_text(LOGS[name] if text is None else text)
    return folder / name


def assert_same_rows(first, second) -> None:
    assert_same_logs(first, second)
    assert first.rows.columns.keys() == second.rows.columns.keys()
    for name, column in first.rows.columns.items():
        assert np.array_equal(column, second.rows.columns[name]), name
    assert first.rows.values == second.rows.values
    assert replace(first.description, encoder=None) == replace(second.description, encoder=None)


def assert_same_logs(first, second) -> None:
    dense = (log.replace(X=log.X[:].toarray() if sparse.issparse(log.X) else log.X) for log in (first, second))
    assert_same_log(*dense)
    assert (first.encoding, dict(first.skipped)) == (second.encoding, dict(second.skipped))


TABLES = {  # format, mapping, and options of ``visits``
    "labels": ("parquet", LABELS, {}),
    "groups": ("csv", MAPPING | {"group": "user", "slice": "place"}, {}),
    "last": ("parquet", MAPPING | {"split": "last 20 %"}, {}),
    "hashed": ("csv", MAPPING, {"cities": 400}),
    "missing": ("parquet", MAPPING | {"features": {"numeric": ["age"], "categorical": ["zip"]}, "group": "zip"}, {}),
    "candidate": ("csv", MAPPING | {"candidate": "b", "slice": "city"} | {"features": {"numeric": ["age"]}}, {}),
}


def assert_batches_do_not_matter(path: Path, mapping, folder: Path, monkeypatch) -> None:
    """Split and open a log in memory, and in mapped files in batches of 11 rows; compare."""
    source = path, as_mapping(mapping), lambda step: None
    expected = open_log(*source, seed=3)
    encoding = expected.train.encoding
    whole, known = open_log(*source), open_log(*source, None, encoding)
    monkeypatch.setattr(read_log, "ROWS", 11)
    monkeypatch.setattr(batches, "BLOCK_ROWS", 11)
    monkeypatch.setattr(opened_log, "LARGE", 1000)
    with log_folder(folder / "p.npz") as create:
        split = open_log(*source, create, seed=3)
        assert isinstance(split.train.propensity.base, np.memmap)
        assert not isinstance(split.evaluated.propensity.base, np.memmap)
        assert split.n_contexts == expected.n_contexts
        assert np.array_equal(split.recognised.heldout, expected.recognised.heldout)
        assert_same_logs(split.train, expected.train)
        selected = open_log(*source, create, encoding, seed=3)
        for opened, reference in (
            (split, expected),
            (selected, expected),
            (open_log(*source, create), whole),
            (open_log(*source, create, encoding), known),
        ):
            assert_same_rows(opened.evaluated, reference.evaluated)
            assert opened is selected or dict(opened.unseen) == dict(reference.unseen)


@pytest.mark.parametrize(("form", "mapping", "options"), TABLES.values(), ids=TABLES)
def test_rows_of_a_table_do_not_depend_on_batches(form, mapping, options, tmp_path, monkeypatch):
    path = write_table(visits(200, **options), tmp_path, form, files=3 if form == "csv" else 1)
    assert_batches_do_not_matter(path, mapping, tmp_path, monkeypatch)
    raw_log = read_raw_log(path, mapping)
    assert np.array_equal(raw_log.rows.get("number"), np.arange(len(raw_log.Y)))


@pytest.mark.parametrize("name", ["csv", "parquet", *LOGS])
def test_contexts_do_not_depend_on_batches(name, tmp_path):
    is_table = name not in LOGS
    path = write_table(visits(50), tmp_path, name) if is_table else write_text(tmp_path, name)
    raw_log = read_raw_log(path, MAPPING if is_table else None)
    encoding = fit_encoding(raw_log, np.arange(40 if is_table else 3))
    [(whole, unseen, *_)] = context_batches(path, encoding, 2**17)
    parts = [*context_batches(path, encoding, 7)]
    assert len(parts) == 8 if is_table else len(parts) > 20
    [reason] = unseen
    assert sum(new.get(reason, 0) for _, new, *_ in parts) == unseen[reason] > 0
    if encoding.kind == "lists":
        assert np.array_equal(np.concatenate([np.diff(X.starts) for X, *_ in parts]), np.diff(whole.starts))
        parts, whole = [(X.features, *rest) for X, *rest in parts], whole.features
    stack = sparse.vstack if sparse.issparse(whole) else np.vstack
    assert abs(stack([X for X, *_ in parts]) - whole).max() == 0


@pytest.mark.parametrize("form", ["csv", "parquet"])
@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("p", 1.5, "propensity 'p' is 1.5 in row 57, expected a value in (0, 1]"),
        ("age", np.inf, "age is {}inf{} in row 57, expected a finite number"),
        ("item", None, "action 'item' is missing in row 57, expected an action's name; remove rows without one"),
    ],
)
def test_errors_in_late_batches_of_a_table_name_the_row(form, column, value, message, tmp_path, monkeypatch):
    frame = visits(80)
    frame.loc[57, column] = value
    path, quote = write_table(frame, tmp_path, form), "'" if form == "csv" else ""
    for rows in (1000, 10):
        monkeypatch.setattr(read_log, "ROWS", rows)
        assert (
            refusal(read_raw_log, path, as_mapping(MAPPING), lambda: tmp_path)
            == f"{path}: {message.format(quote, quote)}"
        )


def test_folders_of_other_content_are_rejected(tmp_path):
    folder = tmp_path / "log"
    folder.mkdir()
    for name, message in (
        (None, "log: is a folder without files"),
        ("a.npz", "a.npz: is not a readable npz file"),
        ("b.csv", "has files of more than one format, such as a.npz, b.csv"),
        ("c/d.csv", "has the folder 'c', expected only files"),
    ):
        if name:
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text("x\n1\n")
        with pytest.raises(InputError, match=message):
            read_raw_log(folder, MAPPING)


def test_a_folder_has_one_kind_of_actions(tmp_path):
    write_text(tmp_path, "1.vw", LOGS["lists.vw"])
    write_text(tmp_path, "2.vw", LOGS["single.txt"])
    with pytest.raises(InputError, match=r"2\.vw: has single actions, expected lists of actions like earlier rows"):
        read_raw_log(tmp_path)


def test_the_digest_of_a_large_file_covers_its_end(tmp_path):
    path, digests = tmp_path / "log.csv", set()
    for end in (b"0", b"1"):
        path.write_bytes(bytes(1 << 18) + end)
        digests.add(digest(path))
    assert len(digests) == 2


def test_the_variant_of_a_file_can_come_from_its_siblings(tmp_path):
    event = {"c": {"_multi": [{"x": 1}, {"x": 2}]}, "_label_cost": 0, "_label_probability": 0.5, "_label_Action": 1}
    from_0 = event | {"a": [1, 0], "p": [0.5, 0.5]}
    for number, files in enumerate(
        (
            {"1.dsjson": json.dumps(event), "2.dsjson": json.dumps(from_0)},
            {"1.vw": "1:1:0.5 | x"},
            {"1.vw": "0:1:0.5 |a x\n\n0:1:0.5 |a y\n", "2.vw": "0:1:0.5 |a x\n|a y\n"},
        )
    ):
        (tmp_path / str(number)).mkdir()
        for name, text in files.items():
            write_text(tmp_path / str(number), name, text)
    assert read_raw_log(tmp_path / "0").Y.tolist() == [1, 1]
    assert read_raw_log(tmp_path / "1").description.kind == "single"
    assert read_raw_log(tmp_path / "2").actions.count_choices().tolist() == [1, 1, 2]
