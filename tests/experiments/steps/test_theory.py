"""The step theory_table on contexts that it cannot use; tests/experiments/simulation has the tables."""

from __future__ import annotations

import numpy as np
import pytest
from step_chain import AXES, error_of

from drcrm.files import write_npz


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (
            {"X": np.ones((30, 2)), "labels": np.eye(30, 25, dtype=np.uint8)},
            "at most 10000000 pairs of a context and an action can be enumerated, got 30 · 2^25",
        ),
        (
            {"X": np.ones((1, 2)), "labels": np.eye(1, 3, dtype=np.uint8)},
            "the theory needs at least 2 contexts, one for each policy, got 1",
        ),
        (
            {"X": np.ones((2, 3)), "labels": np.array([0, 1]), "n_actions": np.array(2)},
            "expected label vectors, got one action of K",
        ),
    ],
)
def test_contexts_that_make_no_population_are_an_error(tmp_path, capsys, arrays, message):
    path = tmp_path / "train.npz"
    write_npz(path, **arrays)
    parameters = {**AXES, "lemma": "lemma3", "repetitions": 1}
    assert error_of(capsys, "theory_table", {"train": path}, {"table": tmp_path / "a.csv"}, parameters) == (
        f"{path}: {message}"
    )
