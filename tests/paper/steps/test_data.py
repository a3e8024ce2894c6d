"""Steps that fetch data sets and draw logs."""

import bz2
import hashlib
import json
import math
from pathlib import Path

import numpy as np
import pytest
from fixtures.pipeline import AXES, LOG, SPLIT, error_of, run_chain, run_step
from scipy.special import expit

from drcrm.files import read_npz
from drcrm.paper.array_files import read_truth

LINE = b"0,2 1:0.5 3:2\n"
FILES = {"train": ["a.svm"], "test": ["b.bz2"], "features": 4, "labels": 3}
DEFAULTS = {"actions": "labels", "drop_repeats": False, "sha256": {}}


def outputs_in(folder: Path) -> dict[str, Path]:
    return {name: folder / f"data/{name}.npz" for name in ("train", "test")}


def fetch(folder: Path, mirror: Path | None = None, **changes) -> int:
    return run_step("fetch", {"mirror": mirror}, outputs_in(folder), {**DEFAULTS, **FILES, **changes})


def listing(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def mirror(tmp_path) -> Path:
    (folder := tmp_path / "mirror").mkdir()
    (folder / "a.svm").write_bytes(b"0 1:1\n2 2:0.5\n")
    (folder / "b.bz2").write_bytes(bz2.compress(b"1 4:4\n"))
    return folder


def test_files_become_arrays_and_a_record(tmp_path, mirror):
    digest = hashlib.sha256((mirror / "a.svm").read_bytes()).hexdigest()
    contents = []
    for place in (mirror, mirror, None):  # the files are kept
        assert fetch(tmp_path, place, rows=[2, 1], sha256={"a.svm": digest}) == 0
        contents.append([path.read_bytes() for path in outputs_in(tmp_path).values()])
    assert contents[0] == contents[1] == contents[2]
    train = read_npz(tmp_path / "data/train.npz", ["X", "labels"])
    assert train["X"].tolist() == [[1, 0, 0, 0], [0, 0.5, 0, 0]]
    assert train["labels"].tolist() == [[1, 0, 0], [0, 0, 1]]
    names = ("origin.json", "train.npz", "test.npz", "raw/a.svm", "raw/b.bz2")
    assert listing(tmp_path / "data") == set(names)
    record = json.loads((tmp_path / "data/origin.json").read_text())
    assert record["a.svm"] == {"from": str(mirror), "sha256": digest}


def test_the_training_part_sets_the_scale(tmp_path, mirror, capsys):
    """Without a scale, the step warns about features with different scales."""
    (mirror / "a.svm").write_bytes(b"0 1:2 2:-4000\n1 1:-0.5 2:1000\n0,1 1:1 2:100\n")
    (mirror / "b.bz2").write_bytes(bz2.compress(b"0 1:4 2:2000\n"))
    expected = {"none": ([[2, -4000], [-0.5, 1000], [1, 100]], [[4, 2000]])}
    expected["max_abs"] = [[1, -1], [-0.25, 0.25], [0.5, 0.025]], [[2, 0.5]]
    for scale, parts in expected.items():
        assert fetch(tmp_path, mirror, features=2, labels=2, scale=scale) == 0
        assert tuple(read_npz(path, ["X"])["X"].tolist() for path in outputs_in(tmp_path).values()) == parts
        warning = capsys.readouterr().err
        assert ("set the data set's scale to max_abs or standard" in warning) == (scale == "none")


@pytest.mark.parametrize(
    ("train", "test", "message"),
    [
        (LINE, b"9 1:1\n", "raw/b.bz2: line 1, '9 1:1': label 9 is out of range, expected 0 to 2"),
        (b"0 1:nan\n", LINE, "raw/a.svm: line 1, '0 1:nan': features must be finite numbers"),
        (LINE, None, "raw/b.bz2: cannot be read: Compressed file ended before the end-of-stream marker was reached"),
    ],
)
def test_a_fetched_file_with_bad_content_is_not_kept(tmp_path, mirror, capsys, train, test, message):
    (mirror / "a.svm").write_bytes(train)
    (mirror / "b.bz2").write_bytes(b"BZh9" if test is None else bz2.compress(test))
    assert fetch(tmp_path, mirror) == 1
    assert capsys.readouterr().err == f"drcrm fetch: {tmp_path}/data/{message}\n"
    assert listing(tmp_path / "data") == set()


def test_a_file_of_the_user_is_never_removed(tmp_path, mirror):
    (tmp_path / "data/raw").mkdir(parents=True)
    (tmp_path / "data/raw/a.svm").write_bytes(b"9 1:1\n")
    (mirror / "a.svm").unlink()
    assert fetch(tmp_path, mirror) == 1
    assert listing(tmp_path / "data") == {"raw/a.svm"}


@pytest.mark.parametrize("name", ["../outside.svm", "/outside.svm", "sub/a.svm", "..", "", "x" * 300, "a\n.svm"])
def test_a_name_that_leads_out_of_the_folder_is_an_error(tmp_path, mirror, capsys, name):
    (tmp_path / "outside.svm").write_bytes(LINE)
    parameters = {**DEFAULTS, **FILES, "train": [name]}
    error = error_of(capsys, "fetch", {"mirror": mirror}, outputs_in(tmp_path), parameters)
    assert error == f"{name!r} is not a file name, expected no path, no '-' in front, and at most 255 bytes"


def test_fetch_file_checks_the_digest(tmp_path, capsys):
    (folder := tmp_path / "mirror/study").mkdir(parents=True)
    (folder / "a.csv").write_bytes(b"a\n")
    inputs, outputs = {"mirror": f"{tmp_path}/mirror/"}, {"file": tmp_path / "out/a.csv"}
    parameters = {"folder": "study", "sha256": hashlib.sha256(b"a\n").hexdigest()}
    assert run_step("fetch_file", inputs, outputs, parameters) == 0
    assert outputs["file"].read_bytes() == b"a\n"
    outputs["file"].unlink()
    error = error_of(capsys, "fetch_file", inputs, outputs, {**parameters, "sha256": "0" * 64})
    assert "a.csv has SHA-256" in error
    error = error_of(capsys, "fetch_file", {"mirror": None}, outputs, parameters)
    assert error.startswith(
        "a.csv: could not be fetched: no mirror and no url is configured. If you have the file, set"
    )


def test_logging_policy_is_regularised_logistic_regression(toy):
    """Its gradient at the optimum, Xᵀ(σ(Xθ) − y) + θ/C, is 0 up to the 6 decimals of CRFsuite's weights."""
    X, truth = read_truth(toy / "train.npz")
    labels = truth.labels
    rows = read_npz(toy / "split.npz", ["logging"])["logging"]
    logging = read_npz(toy / "logging.npz", ["coef", "absent"])
    assert not logging["absent"].any()
    X, labels, coef = X[rows], labels[rows], logging["coef"]
    np.testing.assert_allclose(X.T @ (expit(X @ coef) - labels) + coef / 0.5, 0, atol=2e-4)


def test_log_has_propensities_costs_and_counts_of_distinct_rows(toy):
    X, truth = read_truth(toy / "train.npz")
    labels = truth.labels
    coef = read_npz(toy / "logging.npz", ["coef"])["coef"]
    log = read_npz(toy / "replay4/log.npz", LOG)
    np.testing.assert_array_equal(log["X"], X)
    marginals, Y = expit(X @ coef)[log["context"]], log["Y"]
    np.testing.assert_allclose(log["propensity"], np.where(Y == 1, marginals, 1 - marginals).prod(axis=1))
    np.testing.assert_array_equal(log["cost"], (labels[log["context"]] != Y).sum(axis=1) - 3.0)
    np.testing.assert_array_equal(np.bincount(log["context"], log["train"] + log["heldout"]), 4)
    assert log["heldout"].sum() == math.ceil(0.25 * 61 * 4)
    rows = {(context, *action) for context, action in zip(log["context"].tolist(), Y.tolist(), strict=True)}
    assert len(rows) == len(Y) < 61 * 4


def test_whole_contexts_are_held_out(tmp_path):
    run_chain(tmp_path, seed=0, unit="context")
    log = read_npz(tmp_path / "replay4/log.npz", LOG)
    split = read_npz(tmp_path / "split.npz", ["train", "heldout"])
    for part in ("train", "heldout"):
        np.testing.assert_array_equal(np.unique(log["context"][log[part] > 0]), split[part])
        assert log[part].sum() == 4 * len(split[part])


def test_another_seed_draws_again_and_the_same_seed_gives_the_same_bytes(toy, tmp_path):
    def listing(folder):
        files = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.npz")}
        return {name: content for name, content in files.items() if "replay1" not in name}

    before = listing(toy)
    assert listing(run_chain(tmp_path / "same", seed=0)) == before
    drawn = ["split.npz", "logging.npz", *(f"replay4/{name}.npz" for name in ("log", "cost_model", "kl_dro", "dr"))]
    after = listing(run_chain(tmp_path / "other", seed=1))
    assert all(after[name] != before[name] for name in drawn)
    assert all(after[name] == before[name] for name in ("train.npz", "test.npz"))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"X.indices": [0, 9]}, "not a readable npz file: "),
        ({"X.data": [1j, 2]}, "X is not an array of numbers, but of complex128"),
        ({"X.indptr": None}, "not a readable npz file: \"There is no item named 'X.indptr.npy' in the archive\""),
        ({"labels": 1.0}, "labels has shape (), expected (rows, labels)"),
        ({"X.data": [1.0, np.inf]}, "X has inf in row 1, column 1, expected finite features"),
        ({"labels": [[1], [7]]}, "labels has 7 in row 1, label 0, expected 0 or 1"),
        ({"labels": [0, 4], "n_actions": 4}, "labels is 4 in row 1, expected 0 to 3"),
        ({"n_actions": 0, "labels": [0, 0]}, "labels is 0 in row 0, expected 0 to -1"),
    ],
)
def test_contexts_out_of_range_are_an_error(tmp_path, capsys, arrays, message):
    right = {"X.data": [1.0, 2.0], "X.indices": [0, 1], "X.indptr": [0, 1, 2], "X.shape": [2, 3], "labels": [[1], [0]]}
    path = tmp_path / "train.npz"
    np.savez(path, **{name: np.asarray(value) for name, value in (right | arrays).items() if value is not None})
    error = error_of(capsys, "split", {"train": path}, {"split": tmp_path / "split.npz"}, {**SPLIT, **AXES})
    assert error.startswith(f"{path}: {message}")


def test_a_fraction_that_leaves_nothing_to_train_on_is_an_error(toy, tmp_path, capsys):
    parameters = {**SPLIT, **AXES, "heldout_fraction": 0.999}
    error = error_of(capsys, "split", {"train": toy / "train.npz"}, {"split": tmp_path / "split.npz"}, parameters)
    expected = "no context is left to train on: a fraction of 0.999 holds out all of 61"
    assert error == f"{toy / 'train.npz'}: {expected}"
