"""npz files that are damaged, or whose arrays are not what they should be."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

from drcrm.errors import InputError
from drcrm.files import read_npz, write_npz
from drcrm.pipeline.formats import read_contexts, read_fits, read_policy, read_split
from drcrm.pipeline.steps.cost_model import read_cost_model


def fault(read, path: Path, *arguments) -> str:
    """What is said of a file, which is one line with its name in front."""
    with pytest.raises(InputError) as error:
        read(path, *arguments)
    message = str(error.value)
    assert message.startswith(f"{path}: ")
    assert message.isprintable()
    return message.removeprefix(f"{path}: ")


def packed(path: Path, **members: bytes) -> Path:
    """An archive of these bytes."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return path


def stored(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


SPARSE = {"X.data": [1.0, 2.0], "X.indices": [0, 1], "X.indptr": [0, 1, 2], "X.shape": [2, 3], "labels": [[1], [0]]}


def test_a_file_is_written_under_a_name_of_any_bytes(tmp_path):
    write_npz(path := tmp_path / "\udcff.npz", a=np.ones(2))
    assert read_npz(path, ["a"])["a"].sum() == 2


class TestArrays:
    def test_bytes_after_an_array(self, tmp_path):
        """numpy alone would read two of the three numbers, and not the checksum."""
        content = stored(np.arange(3.0)).replace(b"(3,)", b"(2,)")
        path = packed(tmp_path / "a.npz", coef=content)
        with np.load(path) as archive:
            assert len(archive["coef"]) == 2
        assert fault(read_npz, path, ["coef"]) == "not a readable npz file (more bytes than coef has)"

    def test_a_header_of_more_than_there_is_memory(self, tmp_path):
        content = stored(np.arange(3.0)).replace(b"(3,), }" + b" " * 17, b"(3" + b"0" * 17 + b",), }")
        message = fault(read_npz, packed(tmp_path / "a.npz", coef=content), ["coef"])
        assert message.startswith("not a readable npz file (")

    @pytest.mark.parametrize(("at", "value"), [(4, 0xFF), (8, 0x63), (6, 0x01)])
    def test_an_archive_in_a_way_that_is_unknown(self, tmp_path, at, value):
        """A version, a method of compression, a password."""
        path = packed(tmp_path / "a.npz", coef=stored(np.ones(1)))
        content = bytearray(path.read_bytes())
        content[content.index(b"PK\x01\x02") + at + 2] = value
        path.write_bytes(content)
        assert fault(read_npz, path, ["coef"]).startswith("not a readable npz file (")

    @pytest.mark.parametrize(
        ("parts", "message"),
        [
            ({"X.indices": [0.5, 1.0]}, "X is no CSR matrix: its indices, indptr or shape are not whole numbers"),
            ({"X.shape": [2.0, 1e19]}, "X is no CSR matrix: its indices, indptr or shape are not whole numbers"),
            ({"X.indptr": [0, 1, 1]}, "X is no CSR matrix: its indptr has 1 of 2 values"),
            ({"X.data": [1j, 2]}, "X is not an array of numbers, but of complex128"),
            ({"X.indptr": None}, "not a readable npz file (\"There is no item named 'X.indptr.npy' in the archive\")"),
            ({"labels": 1.0}, "labels has shape (), expected (rows, labels)"),
        ],
    )
    def test_a_sparse_matrix_that_is_none(self, tmp_path, parts, message):
        path = tmp_path / "a.npz"
        arrays = {name: np.asarray(value) for name, value in (SPARSE | parts).items() if value is not None}
        np.savez(path, **arrays)
        assert fault(read_contexts, path) == message


@pytest.mark.parametrize(
    ("train", "message"),
    [
        (1, "context has shape (), expected (1,)"),
        ([], "no contexts in 'train', expected at least one"),
        ([[0]], "context has shape (1, 1), expected (1,)"),
        ([1e19], "context is 1e+19 in row 0, expected a whole number of less than 16 digits"),
        ([5], "context is 5 in row 0, expected a row of X, 0 to 4"),
    ],
)
def test_a_split_that_is_none(tmp_path, train, message):
    write_npz(tmp_path / "a.npz", logging=[0], train=np.asarray(train), heldout=[1])
    assert fault(read_split, tmp_path / "a.npz", 5) == message


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
def test_coefficients_that_are_none(tmp_path, read, coef, message):
    write_npz(tmp_path / "a.npz", coef=coef)
    assert fault(read, tmp_path / "a.npz") == message


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
        ({"grid": [0.1]}, "grid has 1 values, coef has shape (2, 3, 4), expected one (d, q) for each"),
        ({"grid": 0.1}, "grid has 1 values, coef has shape (2, 3, 4), expected one (d, q) for each"),
        ({"grid": [[0.1, 1]]}, "grid has shape (1, 2), expected (2,)"),
        ({"grid": ["a", "b"]}, "grid is not an array of numbers, but of text such as 'a'"),
        ({"coef": np.zeros((2, 3))}, "grid has 2 values, coef has shape (2, 3), expected one (d, q) for each"),
        ({"coef": np.full((2, 3, 4), np.inf)}, "coef has inf in row 0, column 0, expected finite features"),
        ({"iterations": [np.inf, 1]}, "iterations is inf in row 0, expected a finite number"),
        ({"converged": [True]}, "converged has shape (1,), expected (2,)"),
        ({"converged": [2, 0]}, "converged has 2 in row 0, label 0, expected 0 or 1"),
        ({"scores": np.zeros((2, 2))}, "scores has shape (2, 2), expected (2, 3)"),
        ({"chosen": [0, 1, 2]}, "chosen is 2 in row 2, expected -1 to 1"),
        ({"tilt": 1.0}, "tilt has shape (), expected (1,)"),
        ({"ridge": [0.0]}, "ridge has shape (1,), expected (2,)"),
        ({"features": "nystroem"}, "features is 'nystroem', expected a feature map as JSON"),
    ],
)
def test_fits_that_are_none(tmp_path, change, message):
    np.savez(tmp_path / "a.npz", **FITS)
    assert read_fits(tmp_path / "a.npz", 3)["chosen"].tolist() == [0, 1, -1]
    np.savez(tmp_path / "a.npz", **{**FITS, **change})
    assert fault(read_fits, tmp_path / "a.npz", 3) == message
