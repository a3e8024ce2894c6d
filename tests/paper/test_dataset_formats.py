"""Data sets in text files, CSV and npz files: their content, faults with file and line, and scales."""

import bz2
import gzip
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from fixtures.pipeline import error_of, fault_of, run_step
from fixtures.user_input import refusal
from scipy import sparse

from drcrm.errors import InputError
from drcrm.files import read_npz
from drcrm.paper.dataset_formats import DatasetSpec, load, load_digits, read_file, scaled

PACK = {"svm": bytes, "arff": bytes, "bz2": bz2.compress, "gz": gzip.compress}
FOUR = DatasetSpec(features=4, labels=[0, 1, 2])
LINE = "0,2 1:0.5 3:2\n"
RNG = np.random.default_rng(0)
X, LABELS = RNG.normal(size=(40, 3)), RNG.integers(2, size=(40, 2))
NAMES = np.array(["cat", "ant", "bee"])[np.arange(40) % 3]


def write(path: Path, text: str) -> Path:
    """Write a file in the format its name ends in."""
    path.write_bytes(PACK[path.suffix[1:]](text.encode()))
    return path


class TestOneLabelARow:
    """Files of ``actions: single``."""

    SPEC = DatasetSpec(features=2, labels=[5, 3, 9], single=True)

    def test_classes_are_places_among_the_ids(self, tmp_path):
        """As whole numbers or floats; comments and empty lines are no rows."""
        path = write(tmp_path / "a.svm", "# a comment\n5 1:1\n3.0 2:0.5\n\n9 # nothing\n+5e0 1:2\n")
        X, classes = read_file(path, self.SPEC)
        assert X.toarray().tolist() == [[1, 0], [0, 0.5], [0, 0], [2, 0]]
        assert classes.tolist() == [0, 1, 2, 0]

    @pytest.mark.parametrize(
        ("line", "said"),
        [
            ("5,3 1:1", "a row must have exactly one label"),
            ("3,3 1:1", "a row must have exactly one label"),
            (" 1:1", "a row must have exactly one label"),
            ("4 1:1", "label 4 is out of range, expected one of 5, 3, 9"),
            ("3.5 1:1", "label 3.5 is out of range, expected one of 5, 3, 9"),
            ("5 3:1", "malformed: n_features was set to 2, but input file contains 3 features"),
        ],
    )
    def test_a_row_that_has_not_exactly_one_class(self, tmp_path, line, said):
        path = write(tmp_path / "a.svm", f"5 1:1\n{line}\n")
        assert refusal(read_file, path, self.SPEC) == f"{path}: line 2, {line!r}: {said}"

    def test_a_class_that_no_training_file_has(self, tmp_path):
        """Of several files, the one that has it."""
        train = [write(tmp_path / "a.svm", "5 1:1\n"), write(tmp_path / "b.svm", "3 1:1\n")]
        test = [write(tmp_path / "c.svm", "3 1:1\n"), write(tmp_path / "d.svm", "5 1:1\n9 1:2\n")]
        assert (
            refusal(load, self.SPEC, train, test)
            == f"{test[1]}: class 9 is in no training file ({train[0]}, {train[1]})"
        )
        (_, classes), (_, classes_test) = load(self.SPEC, train, test[:1])
        assert (classes.tolist(), classes_test.tolist()) == ([0, 1], [1])


class TestReading:
    @pytest.mark.parametrize("name", ["a.svm", "a.bz2", "a.gz"])
    def test_plain_and_compressed(self, tmp_path, name):
        text = "# a comment\n0,2 1:0.5 3:-2e1 # another\n\n 2:1 4:0.25\n1\n"
        X, labels = read_file(write(tmp_path / name, text), FOUR)
        np.testing.assert_array_equal(X.toarray(), [[0.5, 0, -20, 0], [0, 1, 0, 0.25], [0, 0, 0, 0]])
        np.testing.assert_array_equal(labels, [[1, 0, 1], [0, 0, 0], [0, 1, 0]])

    def test_labels_are_kept_by_id_in_the_given_order(self, tmp_path):
        path = write(tmp_path / "a.svm", "33,101 1:1\n59 1:1\n102,33,59 1:1\n7 1:1\n")
        kept = DatasetSpec(features=1, labels=[59, 33], drop_other_labels=True)
        assert read_file(path, kept)[1].tolist() == [[0, 1], [1, 0], [1, 1], [0, 0]]

    @pytest.mark.parametrize(
        ("line", "fault"),
        [
            *(
                (line, "malformed: ")
                for line in ("0 1", "zero 1:1", "0, 1:1", "0 1:1:1", "0 1:x", "0 1:１", "0 1:1\x1c")
            ),
            *((line, "malformed: ") for line in ("0 5:1", "0 0:1", "0 -1:1", "0 3000000000:1", f"0 {10**20}:1")),
            *((line, "malformed: ") for line in ("0 2:1 1:1", "0 2:1 2:1", "0 1:1\r9 2:1")),
            ("3 1:1", "label 3 is out of range, expected 0 to 2"),
            ("0,-1 1:1", "label -1 is out of range, expected 0 to 2"),
            ("1.5 1:1", "label 1.5 is out of range, expected 0 to 2"),
            *((line, "features must be finite numbers") for line in ("0 1:nan", "0 1:1 2:-inf", "0 1:1e999")),
        ],
    )
    def test_a_bad_line_is_named_with_its_fault(self, tmp_path, line, fault):
        path = write(tmp_path / "a.bz2", LINE + line + "\n" + LINE)
        assert refusal(read_file, path, FOUR).startswith(f"{path}: line 2, {line!r}: {fault}")

    @pytest.mark.parametrize(
        ("name", "content"),
        [
            ("a.bz2", bz2.compress(LINE.encode() * 99)[:-9]),
            ("a.gz", gzip.compress(LINE.encode() * 99, mtime=0)[:-9]),
            ("a.bz2", b"<html>404</html>"),
            ("a.bz2", bz2.compress(LINE.encode()) + b"BZh0" + bz2.compress(LINE.encode())[4:]),
            ("a.gz", LINE.encode()),
        ],
        ids=["truncated bz2", "truncated gz", "html in bz2", "damaged second bz2", "plain in gz"],
    )
    def test_a_file_that_cannot_be_decompressed(self, tmp_path, name, content):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match=f"{tmp_path / name}: cannot be read: "):
            read_file(tmp_path / name, FOUR)


HEADER = """% a comment
@relation 'toy: -C 3'

@attribute word1 numeric
@ATTRIBUTE 'word 2' {0,1}
@attribute word3 {0, 1}
@attribute word4 real
@attribute first {0,1}
@attribute second {0,1}
@attribute third {0,1}

@data
"""
DENSE = "0.5,0,'1',0,1,0,1\n% another comment\n\n0, 1, 0, -2e3, 0, 0, 0\n"
SPARSE = "{0 0.5,2 1,4 1,6 1}\n{1 1, 3 -2e3}\n"


@pytest.mark.parametrize("rows", [DENSE, SPARSE])
@pytest.mark.parametrize("suffix", [".arff", ".ARFF.gz"])
def test_arff_files_have_the_same_content_as_libsvm_files(tmp_path, rows, suffix):
    path = tmp_path / f"toy-train{suffix.lower()}"
    content = (HEADER + rows).encode()
    path.write_bytes(gzip.compress(content) if suffix.endswith("gz") else content)
    X, labels = read_file(path, FOUR)
    expected_X, expected = read_file(write(tmp_path / "toy.svm", "0,2 1:0.5 3:1\n 2:1 4:-2000\n"), FOUR)
    np.testing.assert_array_equal(X.toarray(), expected_X.toarray())
    assert labels.tolist() == expected.tolist() == [[1, 0, 1], [0, 0, 0]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEADER + "1,2,3\n", "line 13: 3 values, expected 7"),
        (HEADER + "{7 1}\n", "label 3 is out of range, expected 0 to 2"),
        (HEADER + "{0 x}\n", "line 13: malformed"),
        (HEADER + "1,0,0,0,?,0,0\n", "line 13: malformed"),
        (HEADER + "1,0,0,0,2,0,0\n", "line 13: a label is neither 0 nor 1"),
        (HEADER + "nan,0,0,0,1,0,0\n", "features must be finite numbers"),
        (HEADER, "no rows"),
        ("@attribute one numeric\n@data\n1\n", "1 attributes, expected 4 features and then the labels"),
    ],
)
def test_arff_files_that_cannot_be_used(tmp_path, text, message):
    assert message in refusal(read_file, write(tmp_path / "toy.arff", text), FOUR)


class TestLoading:
    def load(self, folder: Path, train: list[str], test: list[str], **spec):
        paths = [
            [write(folder / f"{role}{number}.svm", text) for number, text in enumerate(texts)]
            for role, texts in (("train", train), ("test", test))
        ]
        return load(DatasetSpec(**{"features": 4, "labels": [0, 1, 2], **spec}), *paths)

    @pytest.mark.parametrize(("line", "is_sparse"), [("0 1:1\n", False), ("0 1:0\n1 1:1\n", True)])
    def test_dense_from_a_quarter_of_nonzeros_in_the_training_part(self, tmp_path, line, is_sparse):
        (X, _), (X_test, _) = self.load(tmp_path, [line], ["0 1:1 2:1 3:1 4:1\n"])
        assert [sparse.issparse(part) for part in (X, X_test)] == [is_sparse, is_sparse]

    def test_drop_repeats_keeps_the_first_and_test_loses_what_train_has(self, tmp_path):
        # Labels are 0 for a first occurrence and 1 for a repeat; an explicit zero is the same as none.
        train = ["0 1:1\n0 2:1\n", "1 1:1\n0 1:1 2:1\n1 2:1 4:0\n"]
        test = ["1 1:1 2:1\n0 1:2\n1 2:1\n", "1 1:2\n0 3:1\n"]
        (X, labels), (X_test, labels_test) = self.load(tmp_path, train, test, rows=(5, 5), drop_repeats=True)
        assert X.tolist() == [[1, 0, 0, 0], [0, 1, 0, 0], [1, 1, 0, 0]]
        assert X_test.tolist() == [[2, 0, 0, 0], [0, 0, 1, 0]]
        assert labels.tolist() == [[1, 0, 0]] * 3
        assert labels_test.tolist() == [[1, 0, 0]] * 2

    @pytest.mark.parametrize(
        ("train", "test", "spec", "message"),
        [
            ([LINE, LINE], [LINE], {"rows": (3, 1)}, "train0.svm: rows of the training part: 2, expected 3"),
            ([LINE], [LINE, LINE], {"rows": (1, 1)}, "test0.svm: rows of the test part: 2, expected 1"),
            (
                [LINE],
                [LINE],
                {"nonzeros": (2, 3)},
                "test0.svm: features that are not 0 of the test part: 2, expected 3",
            ),
            (
                [LINE],
                [LINE],
                {"positives": ([1, 0, 1], [1, 0, 0])},
                "test0.svm: rows with each label of the test part: [1, 0, 1], expected [1, 0, 0]",
            ),
            (["1:1\n"], [LINE], {}, "train0.svm: no positive label in the training part, expected at least one"),
            (
                [LINE],
                [LINE],
                {"drop_repeats": True},
                "test0.svm: every row of the test part repeats one of the training part",
            ),
        ],
        ids=["rows train", "rows test", "features", "labels", "no positive", "all repeats"],
    )
    def test_parts_that_cannot_be_used(self, tmp_path, train, test, spec, message):
        assert refusal(self.load, tmp_path, train, test, **spec) == f"{tmp_path}/{message}"

    def test_a_label_is_derived_from_other_labels(self, tmp_path):
        lines = "5 1:1\n1,6 1:1\n0 1:1\n7 1:1\n0,5,6 1:1\n"
        spec = {"labels": [0, 9], "drop_other_labels": True, "derived_labels": {9: [5, 6]}}
        (_, labels), _ = self.load(tmp_path, [lines], [lines], **spec)
        assert labels.tolist() == [[0, 1], [0, 1], [1, 0], [0, 0], [1, 1]]
        (_, kept), _ = self.load(tmp_path, [lines], [lines], **{**spec, "labels": [5, 9]})
        assert kept.tolist() == [[1, 1], [0, 1], [0, 0], [0, 0], [1, 1]]

    def test_the_embedded_digits(self):
        from sklearn import datasets

        images, digit = datasets.load_digits(return_X_y=True)
        (X, labels), (X_test, labels_test) = load_digits()
        assert (X.shape, labels.shape, X_test.shape) == ((1347, 64), (1347, 10), (450, 64))
        np.testing.assert_array_equal(np.vstack([X, X_test]) * 16, images)
        together = np.vstack([labels, labels_test])
        np.testing.assert_array_equal(together.argmax(axis=1), digit)
        assert (together.sum(axis=1) == 1).all()
        (_, classes), (_, classes_test) = load_digits(single=True)
        np.testing.assert_array_equal(np.concatenate([classes, classes_test]), digit)


def test_sparse_features_stay_sparse():
    X, X_test = np.split(np.random.default_rng(0).normal(size=(50, 6)) * [1e-3, 1, 1e4, 1, 0, 7], [30])
    result = scaled("max_abs", sparse.csr_array(X), sparse.csr_array(X_test))
    for part, expected in zip(result, scaled("max_abs", X, X_test), strict=True):
        assert isinstance(part, sparse.csr_array)
        assert part.toarray() == pytest.approx(expected)
        assert abs(expected).max() < 10
    with pytest.raises(InputError, match="scale must be max_abs or none for a sparse data set, got standard"):
        scaled("standard", sparse.csr_array(X), sparse.csr_array(X_test))


@pytest.mark.parametrize("ids", [[0, 1], [-1, 1]])
def test_two_classes_may_be_minus_one_and_one(tmp_path, ids):
    """As the ids, or in place of 0 and 1, but not together with 0."""
    spec = DatasetSpec(features=1, labels=ids, single=True)
    assert read_file(write(tmp_path / "a.svm", "-1 1:1\n+1 1:2\n-1 1:3\n"), spec)[1].tolist() == [0, 1, 0]
    with pytest.raises(InputError, match=r"label (-1|0) is out of range, expected "):
        read_file(write(tmp_path / "a.svm", "-1 1:1\n0 1:2\n1 1:3\n"), spec)


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
