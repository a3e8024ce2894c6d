"""Memory-mapped arrays, and tables collected in batches, are the same as arrays and tables in memory."""

import io
import pickle

import numpy as np
import pytest
from fixtures.action_logs import write_mapped
from scipy import sparse

from drcrm.arrays import mapped_arrays
from drcrm.arrays.mapped_arrays import ArrayWriter, MappedPickler, map_rows, scratch_folder, slice_rows, take_rows
from drcrm.arrays.tables import Table, TableCollector


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


def make_batch(number: int) -> Table:
    rng = np.random.default_rng(number)
    X = sparse.random_array((number + 1, 7), density=0.4, random_state=rng, format="csr")
    codes = rng.integers(0, 3, number + 1).astype(np.int32)
    return Table(number + 1, {"X": X, "code": codes, "none": None}, {"code": [number, "a", "b"]}, {"x": number})


@pytest.mark.parametrize("moved_after", [0, 2, 5])
def test_tables_in_files_equal_tables_in_memory(moved_after, tmp_path):
    memory, files = TableCollector(), TableCollector()
    for number in range(6):
        if number == moved_after:
            files.move_to(tmp_path / "log")
        if number < 5:
            memory.append(make_batch(number))
            files.append(make_batch(number))
    assert files.nbytes == memory.nbytes > 0
    expected, result = memory.finish(), files.finish()
    assert (result.size, [*result.columns], result.missing) == (15, ["X", "code"], {"x": 10})
    assert np.array_equal(result.columns["X"].toarray(), expected.columns["X"].toarray())
    texts = [text for number in range(5) for text in make_batch(number).texts("code")]
    assert result.texts("code").tolist() == expected.texts("code").tolist() == [*map(str, texts)]
    assert isinstance(result.columns["code"].base, np.memmap)
    part = result[2:5]
    assert (part.shape, part.texts("code").tolist()) == ((3, 2), [*map(str, texts[2:5])])
