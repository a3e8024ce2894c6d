"""Data sets in CSV and npz files, from the configuration to arrays."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from fixtures.pipeline import SCHEMA, changed, error_of, fault_of, run_step

from drcrm.files import read_npz
from drcrm.paper.config import complete

RNG = np.random.default_rng(0)
X, LABELS = RNG.normal(size=(40, 3)), RNG.integers(2, size=(40, 2))
NAMES = np.array(["cat", "ant", "bee"])[np.arange(40) % 3]


def fetched(folder: Path, **settings) -> tuple[dict, dict]:
    outputs = {name: folder / f"{name}.npz" for name in ("train", "test")}
    assert run_step("fetch", {"mirror": None}, outputs, {"actions": "labels", "sha256": {}, **settings}) == 0
    train, test = (read_npz(path, ["X", "labels"], ["n_actions"]) for path in outputs.values())
    return train, test


def write_csv(path: Path, rows: slice = slice(None)) -> str:
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(spam=LABELS[:, 0], urgent=LABELS[:, 1], kind=NAMES)
    frame[rows].to_csv(path, index=False)
    return str(path)


def test_labels_are_the_named_columns_of_a_csv_file(tmp_path):
    """Columns of the test file may come in another order only if they are labels."""
    pd.DataFrame(np.hstack([LABELS, X]), columns=["spam", "urgent", *"abc"]).to_csv(tmp_path / "a.csv.gz", index=False)
    files = {"path": f"{tmp_path}/a.csv.gz", "test_path": f"{tmp_path}/b.csv"}
    pd.DataFrame(np.hstack([X, LABELS])[:9], columns=[*"abc", "spam", "urgent"]).to_csv(files["test_path"], index=False)
    train, test = fetched(tmp_path, **files, label_columns=["urgent", "spam"])
    np.testing.assert_allclose(train["X"], X)
    np.testing.assert_array_equal(train["labels"], LABELS[:, ::-1])
    np.testing.assert_allclose(test["X"], X[:9])
    assert "n_actions" not in train


def test_classes_are_sorted_texts_and_a_quarter_of_the_rows_is_the_test_part(tmp_path):
    path = tmp_path / "data.csv"
    pd.DataFrame(X, columns=["a", "b", "c"]).assign(kind=NAMES).to_csv(path, index=False)
    train, test = fetched(tmp_path, path=str(path), actions="single", label_columns=["kind"])
    assert (len(train["labels"]), len(test["labels"])) == (30, 10)
    assert train["n_actions"] == test["n_actions"] == 3
    both = np.vstack([train["X"], test["X"]]), np.concatenate([train["labels"], test["labels"]])
    order, expected = np.lexsort(both[0].T), np.lexsort(X.T)
    np.testing.assert_allclose(both[0][order], X[expected])
    assert np.array(["ant", "bee", "cat"])[both[1][order]].tolist() == NAMES[expected].tolist()
    again, _ = fetched(tmp_path, path=str(path), actions="single", label_columns=["kind"])
    np.testing.assert_array_equal(again["X"], train["X"])


@pytest.mark.parametrize("actions", ["labels", "single"])
def test_an_npz_file_has_features_and_labels(tmp_path, actions):
    labels = LABELS if actions == "labels" else np.arange(40) % 4 + 5
    np.savez(tmp_path / "data.npz", X=X, labels=labels)
    np.savez(tmp_path / "more.npz", X=X[:8], labels=labels[:8])
    files = {"path": f"{tmp_path}/data.npz", "test_path": f"{tmp_path}/more.npz"}
    train, test = fetched(tmp_path, **files, actions=actions)
    np.testing.assert_array_equal(train["X"], X)
    np.testing.assert_array_equal(test["labels"], labels[:8] - (0 if actions == "labels" else 5))


def test_local_text_files_need_no_mirror(tmp_path):
    (tmp_path / "a.svm").write_text("0 1:1\n2 2:0.5\n")
    (tmp_path / "b.svm").write_text("1 3:4\n")
    files = {"path": f"{tmp_path}/a.svm", "test_path": f"{tmp_path}/b.svm"}
    train, test = fetched(tmp_path, **files, features=3, labels=3, drop_repeats=False)
    assert train["labels"].tolist() == [[1, 0, 0], [0, 0, 1]]
    assert test["X"].tolist() == [[0, 0, 4]]


@pytest.mark.parametrize(
    ("content", "settings", "message"),
    [
        ("a,y\n1,0\n,1\n", {}, "column 'a' has no value in line 3; fill it in, or remove the row"),
        ("a,y\n1,0\nred,1\n", {}, "column 'a' must have numbers, got 'red' in line 3; encode each category as"),
        ("a,y\n1,0\n2,\n", {}, "column 'y' has no value in line 3"),
        ("a,y\n1,0\n2,3\n", {}, "labels has 3 in row 1, label 0, expected 0 or 1"),
        ("a,z\n1,0\n", {}, "no column 'y' for label_columns (columns: a, z)"),
        ("", {}, "cannot be read: No columns to parse from file"),
        ("a,y\n1,x\n2,x\n3,x\n4,u\n", {"actions": "single", "test": "a,y\n1,w\n"}, "class 'w' is in no row of the"),
        ("a,y\n1,0\n", {"test": "b,y\n1,1\n"}, "the features must be those of "),
    ],
)
def test_faults_of_a_file_name_the_line_and_the_repair(tmp_path, capsys, content, settings, message):
    for name, text in (("a", content), ("b", settings.pop("test", None))):
        if text is not None:
            (tmp_path / f"{name}.csv").write_text(text)
            settings |= {"path" if name == "a" else "test_path": f"{tmp_path}/{name}.csv"}
    parameters = {"actions": "labels", "label_columns": ["y"], "sha256": {}, **settings}
    outputs = {name: tmp_path / f"out/{name}.npz" for name in ("train", "test")}
    assert message in error_of(capsys, "fetch", {"mirror": None}, outputs, parameters)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"path": "a.csv"}, "a.csv needs label_columns"),
        ({"path": "a.svm", "features": 1, "labels": 2}, "a.svm needs test_path"),
        ({"path": "a.npz", "label_columns": ["y"]}, "label_columns: a.npz has no named columns, only a CSV file has"),
        ({"path": "a.npz", "features": 4}, "features: a.npz cannot have it"),
        ({"path": "a.csv", "label_columns": ["x", "y"], "actions": "single"}, "one action of K needs one column"),
        ({"path": "a.csv", "train": ["b"], "test": ["c"]}, "datasets.toy: "),
        ({"train": ["b"], "test": ["c"]}, "datasets.toy: "),
    ],
)
def test_keys_that_do_not_fit_the_format_are_refused(entry, message):
    assert message in fault_of("datasets.toy", entry)


def test_a_path_is_enough():
    entry = complete(changed("datasets.toy", {"path": "data/a.npz"}), SCHEMA)["datasets"]["toy"]
    assert (entry["path"], entry["actions"], entry["label"]) == ("data/a.npz", "labels", "toy")
