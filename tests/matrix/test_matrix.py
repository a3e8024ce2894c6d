"""Each row of the matrix: every relation that applies to it.

``python -m pytest tests/matrix -k row_17`` runs one row. ``make test`` runs the rows of ``FAST``, and ``make
test-matrix`` all of them.
"""

import pytest

import matrix.decisions  # noqa: F401, it registers relations
from matrix.cases import Case
from matrix.options import covering_array
from matrix.relations import RELATIONS, relations_of

ROWS = covering_array()
FAST = {0, 1, 7, 12}
OPEN = {  # relations that do not hold yet, by row and name, with the reason; each must fail
    (9, "commands_agree_with_the_library"): "the worst case of a baseline of labels ignores that it explores jointly",
}
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
            failures += [] if (number, name) in OPEN else [f"{name}: {str(error)[:1000]}"]
        else:
            failures += [f"{name} holds: remove it from OPEN"] if (number, name) in OPEN else []
    assert not failures, "\n".join([f"python -m pytest tests/matrix -k 'row_{number}'", str(row), *failures])
