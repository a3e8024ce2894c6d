"""Memory-mapped arrays are read, sliced, transformed and pickled like arrays in memory."""

import io
import pickle

import numpy as np
import pytest
from fixtures.action_logs import write_mapped
from scipy import sparse

from drcrm.arrays import mapped_arrays
from drcrm.arrays.mapped_arrays import ArrayWriter, MappedPickler, map_rows, scratch_folder, slice_rows, take_rows


def equal(array, expected) -> bool:
    return np.array_equal(array.toarray() if sparse.issparse(array) else array, expected)


@pytest.mark.parametrize("form", ["dense", "sparse", "vector"])
def test_mapped_arrays_equal_the_arrays_in_memory(form, tmp_path, monkeypatch):
    monkeypatch.setattr(mapped_arrays, "BLOCK_BYTES", 500)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(101, 6)) * (rng.random((101, 6)) < 0.5)
    X = sparse.csr_array(X) if form == "sparse" else X[:, 0] if form == "vector" else X
    dense, rows = X.toarray() if form == "sparse" else X, np.array([3, 1, 99, 3])
    stored = write_mapped(X, tmp_path / "X")
    assert type(stored) is type(X)
    assert equal(stored, dense)
    assert equal(slice_rows(stored, slice(5, 70)), dense[5:70])
    for part in (stored, slice_rows(stored, slice(50, 101))):
        file = io.BytesIO()
        MappedPickler(file, 5).dump(part)
        assert equal(pickle.loads(file.getvalue()), part.toarray() if form == "sparse" else part)
        assert form == "sparse" or len(file.getvalue()) < 400
    before = {*tmp_path.iterdir()}
    transforms = [
        (lambda: take_rows(stored, rows), dense[rows]),
        (lambda: map_rows(stored, lambda block: 2 * block), 2 * dense),
        (lambda: take_rows(stored, rows[:0]), dense[:0]),
    ]
    assert all(equal(transform(), expected) for transform, expected in transforms)
    assert {*tmp_path.iterdir()} == before
    with scratch_folder(tmp_path):
        assert all(equal(transform(), expected) for transform, expected in transforms)
        assert isinstance(map_rows(X, lambda block: 2 * block), type(X))
    assert len({*tmp_path.iterdir()} - before) == (9 if form == "sparse" else 3)


def test_the_error_of_a_full_disk_names_the_file(tmp_path):
    writer = ArrayWriter(tmp_path / "X")
    (tmp_path / "X").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space") as error:
        writer.append(np.ones(5))
    assert error.value.filename == str(tmp_path / "X")
    writer.close()
