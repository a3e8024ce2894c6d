"""The scale of a data set: by scikit-learn's own scalers, learned on the training part; from files by ``fetch``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml
from scipy import sparse
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

from drcrm.__main__ import main
from drcrm.errors import InputError
from drcrm.experiments.datasets.scaling import SCALES, scaled
from drcrm.files import read_npz

SCALERS = {"max_abs": MaxAbsScaler, "standard": StandardScaler}


def parts(density: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Columns of unlike scales; one constant, one that the training part does not have."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 6)) * (rng.random((50, 6)) < density) * [1e-3, 1, 1e4, 1, 1, 7] + [0, 0, 1e5, 0, 0, 0]
    X[:, 3] = 2.5
    X[:30, 4] = 0
    return X[:30], X[30:]


@pytest.mark.parametrize("kind", SCALERS)
def test_is_scikit_learns(kind):
    X, X_test = parts()
    scaler = SCALERS[kind]().fit(X)
    for found, given in zip(scaled(kind, X, X_test), (X, X_test), strict=True):
        assert found == pytest.approx(scaler.transform(given), rel=1e-9, abs=1e-9)


def test_is_nothing_by_default():
    X, X_test = parts()
    assert scaled("none", X, X_test) == (X, X_test)


def test_sparse_features_stay_sparse():
    X, X_test = parts(density=0.3)
    found = scaled("max_abs", sparse.csr_array(X), sparse.csr_array(X_test))
    for each, expected in zip(found, scaled("max_abs", X, X_test), strict=True):
        assert isinstance(each, sparse.csr_array)
        assert np.array_equal(each.toarray(), expected)
    with pytest.raises(InputError, match="scale is standard, which leaves no zeros of a sparse data set, expected max"):
        scaled("standard", sparse.csr_array(X), sparse.csr_array(X_test))


@pytest.mark.parametrize("unit", [1e-300, 1e-20, 1e300])
@pytest.mark.parametrize("kind", SCALERS)
def test_does_not_depend_on_units(kind, unit):
    X, X_test = parts()
    for found, expected in zip(scaled(kind, X * unit, X_test * unit), scaled(kind, X, X_test), strict=True):
        columns = [0, 1, 2, 3, 5] if kind == "max_abs" or unit < 1 else [0, 1, 2, 5]
        assert found[:, columns] == pytest.approx(expected[:, columns], rel=1e-9, abs=1e-9)


def test_a_test_part_beyond_all_reason_is_an_error():
    with pytest.raises(InputError, match="X has inf in row 0, column 0, expected finite features"):
        scaled("max_abs", np.array([[1e-300]]), np.array([[1e300]]))


@pytest.fixture
def fetch(tmp_path):
    """Fetch two features of unlike scales; what is written, or the status."""
    (tmp_path / "a.svm").write_text("0 1:2 2:-4000\n1 1:-0.5 2:1000\n0,1 1:1 2:100\n")
    (tmp_path / "b.svm").write_text("0 1:4 2:2000\n")

    def run(*options: str) -> tuple[np.ndarray, np.ndarray]:
        outputs = [tmp_path / "train.npz", tmp_path / "test.npz"]
        read = "--train", "a.svm", "--test", "b.svm", "--features", "2", "--labels", "2", "--mirror", tmp_path
        places = "--raw", tmp_path / "raw", "--output-train", outputs[0], "--output-test", outputs[1]
        assert main(["fetch", *map(str, (*read, *places)), *options]) == 0
        return tuple(read_npz(path, ["X"])["X"] for path in outputs)

    return run


def test_fetch_learns_the_scale_on_the_training_part(fetch, capsys):
    train, test = fetch("--scale", "max_abs")
    assert train.tolist() == [[1, -1], [-0.25, 0.25], [0.5, 0.025]]
    assert test.tolist() == [[2, 0.5]]
    assert capsys.readouterr().err == ""


def test_fetch_says_where_scales_are_unlike_and_changes_nothing(fetch, capsys):
    train, test = fetch()
    assert train.tolist() == [[2, -4000], [-0.5, 1000], [1, 100]]
    assert test.tolist() == [[4, 2000]]
    assert capsys.readouterr().err == (
        "the scales of features differ by more than 1000: column 2 reaches 4e+03, others 1; "
        "give the data set a scale, max_abs or standard\n"
    )


def test_the_schema_has_the_same_scales():
    schema = yaml.safe_load((Path(__file__).parents[3] / "workflow/schemas/config.schema.yaml").read_text())
    assert schema["$defs"]["dataset"]["properties"]["scale"]["enum"] == list(SCALES)
