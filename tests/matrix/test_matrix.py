"""Each row of the matrix: every relation that applies to it.

``python -m pytest tests/matrix -k row_17`` runs one row. ``make test`` runs the rows of ``FAST``, and ``make
test-matrix`` all of them.
"""

import pytest

import matrix.decisions
import matrix.learning  # noqa: F401, both register relations
from matrix.cases import Case
from matrix.options import covering_array
from matrix.relations import RELATIONS, relations_of

ROWS = covering_array()
FAST = {0, 1, 7, 12}
MARKED = [
    pytest.param(number, id=f"row_{number}", marks=() if number in FAST else pytest.mark.slow)
    for number in range(len(ROWS))
]


@pytest.mark.parametrize("number", MARKED)
def test_relations_hold(number, tmp_path):
    row = ROWS[number]
    case, failures = Case(row, tmp_path), []
    for name in relations_of(row):
        try:
            RELATIONS[name][0](case)
        except AssertionError as error:
            failures.append(f"{name}: {str(error)[:1000]}")
    assert not failures, "\n".join([f"python -m pytest tests/matrix -k 'row_{number}'", str(row), *failures])
