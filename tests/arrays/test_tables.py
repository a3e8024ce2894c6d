"""Tables that are collected in batches are the same in memory, in files, and moved to files in between."""

import numpy as np
import pytest
from scipy import sparse

from drcrm.arrays.tables import Table, TableCollector


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
