"""Arrays that are collected in batches are the same in memory, in files, and moved to files in between."""

import numpy as np
import pytest
from scipy import sparse

from drcrm.arrays.array_collector import ArrayCollector


def make_batch(number: int) -> dict:
    rng = np.random.default_rng(number)
    X = sparse.random_array((number + 1, 7), density=0.4, random_state=rng, format="csr")
    return {"X": X, ("code", "a"): rng.integers(0, 9, number + 1).astype(np.int32), "missing": None}


@pytest.mark.parametrize("moved_after", [0, 2, 5])
def test_arrays_in_files_equal_arrays_in_memory(moved_after, tmp_path):
    memory, files = ArrayCollector(None), ArrayCollector(None)
    for number in range(6):
        if number == moved_after:
            files.move_to(tmp_path / "log")
        if number < 5:
            memory.append(make_batch(number))
            files.append(make_batch(number))
    assert files.nbytes == memory.nbytes > 0
    expected, result = memory.finish(), files.finish()
    assert result.keys() == expected.keys() == {"X", ("code", "a")}
    assert np.array_equal(result["X"].toarray(), expected["X"].toarray())
    assert np.array_equal(result["code", "a"], expected["code", "a"])
    assert result["code", "a"].dtype == np.int32
    assert isinstance(result["code", "a"].base, np.memmap)
