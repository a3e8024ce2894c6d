"""Array files of the pipeline: damaged arrays are rejected in one line that names the file."""

from pathlib import Path

import numpy as np
import pytest

from drcrm.errors import InputError
from drcrm.experiments.datasets.array_files import read_contexts, read_cost_model, read_fits, read_policy, read_split
from drcrm.files import write_npz

CSR = {"X.data": [1.0, 2.0], "X.indices": [0, 1], "X.indptr": [0, 1, 2], "X.shape": [2, 3], "labels": [[1], [0]]}


def error_of(read, path: Path, *arguments) -> str:
    """Return the error message without the path in front."""
    with pytest.raises(InputError) as error:
        read(path, *arguments)
    message = str(error.value)
    assert message.startswith(f"{path}: ")
    assert message.isprintable()
    return message.removeprefix(f"{path}: ")


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"X.indices": [0.5, 1.0]}, "X is not a CSR matrix: its indices, indptr or shape are not whole numbers"),
        ({"X.shape": [2.0, 1e19]}, "X is not a CSR matrix: its indices, indptr or shape are not whole numbers"),
        ({"X.indptr": [0, 1, 1]}, "X is not a CSR matrix: its indptr covers 1 of 2 values"),
        ({"X.data": [1j, 2]}, "X is not an array of numbers, but of complex128"),
        ({"X.indptr": None}, "not a readable npz file: \"There is no item named 'X.indptr.npy' in the archive\""),
        ({"labels": 1.0}, "labels has shape (), expected (rows, labels)"),
    ],
)
def test_invalid_sparse_matrices_are_rejected(tmp_path, parts, message):
    path = tmp_path / "a.npz"
    arrays = {name: np.asarray(value) for name, value in (CSR | parts).items() if value is not None}
    np.savez(path, **arrays)
    assert error_of(read_contexts, path) == message


@pytest.mark.parametrize(
    ("train", "message"),
    [
        (1, "context has shape (), expected (1,)"),
        ([], "'train' must have at least one context, got none"),
        ([[0]], "context has shape (1, 1), expected (1,)"),
        ([1e19], "context is 1e+19 in row 0, expected a whole number of less than 16 digits"),
        ([5], "context is 5 in row 0, expected a row of X, 0 to 4"),
    ],
)
def test_invalid_splits_are_rejected(tmp_path, train, message):
    write_npz(tmp_path / "a.npz", logging=[0], train=np.asarray(train), heldout=[1])
    assert error_of(read_split, tmp_path / "a.npz", 5) == message


@pytest.mark.parametrize("read", [read_policy, read_cost_model])
@pytest.mark.parametrize(
    ("coef", "message"),
    [
        (np.zeros((0, 2)), "coef has shape (0, 2), expected (rows, features) with at least one of each"),
        (np.full((1, 2), np.nan), "coef has nan in row 0, column 0, expected finite features"),
        (np.ones((1, 2), dtype=complex), "coef is not an array of numbers, but of complex128"),
        (np.zeros((1, 2), dtype=[("a", "f8")]), "coef is not an array of numbers, but of void64"),
    ],
)
def test_invalid_coefficients_are_rejected(tmp_path, read, coef, message):
    write_npz(tmp_path / "a.npz", coef=coef)
    assert error_of(read, tmp_path / "a.npz") == message


FITS = {
    "grid": [0.1, 1.0],
    "ridge": [0.0, 1e-3],
    "step": [1.0, 0.5],
    "coef": np.zeros((2, 3, 4)),
    "iterations": [1, 2],
    "converged": [True, False],
    "scores": np.full((2, 3), np.nan),
    "chosen": [0, 1, -1],
    "tilt": [np.nan],
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"grid": [0.1]}, "coef must have shape (k, d, q) for k = 1 > 0 grid values, got (2, 3, 4)"),
        ({"grid": 0.1}, "coef must have shape (k, d, q) for k = 1 > 0 grid values, got (2, 3, 4)"),
        ({"grid": [[0.1, 1]]}, "grid must have shape (2,), got (1, 2)"),
        ({"grid": ["a", "b"]}, "grid is not an array of numbers, but of text such as 'a'"),
        ({"coef": np.zeros((2, 3))}, "coef must have shape (k, d, q) for k = 2 > 0 grid values, got (2, 3)"),
        ({"coef": np.full((2, 3, 4), np.inf)}, "coef has inf in row 0, column 0, expected finite features"),
        ({"iterations": [np.inf, 1]}, "iterations is inf in row 0, expected a finite number"),
        ({"converged": [True]}, "converged must have shape (2,), got (1,)"),
        ({"converged": [2, 0]}, "converged has 2 in row 0, label 0, expected 0 or 1"),
        ({"scores": np.zeros((2, 2))}, "scores must have shape (2, 3), got (2, 2)"),
        ({"chosen": [0, 1, 2]}, "chosen is 2 in row 2, expected -1 to 1"),
        ({"tilt": 1.0}, "tilt must have shape (1,), got ()"),
        ({"ridge": [0.0]}, "ridge must have shape (2,), got (1,)"),
        ({"features": "nystroem"}, "features must be a feature map as JSON, got 'nystroem'"),
    ],
)
def test_invalid_fits_are_rejected(tmp_path, change, message):
    np.savez(tmp_path / "a.npz", **FITS)
    assert read_fits(tmp_path / "a.npz", 3)["chosen"].tolist() == [0, 1, -1]
    np.savez(tmp_path / "a.npz", **{**FITS, **change})
    assert error_of(read_fits, tmp_path / "a.npz", 3) == message
