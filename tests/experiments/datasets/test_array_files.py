"""Array files of the pipeline: damaged arrays are rejected in one line that names the file."""

from pathlib import Path

import numpy as np
import pytest

from drcrm.errors import InputError
from drcrm.experiments.datasets.array_files import read_contexts

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
