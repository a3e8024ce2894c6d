"""What is drawn from the contexts."""

from __future__ import annotations

import numpy as np
import pytest

from drcrm.experiments.simulation.split import heldout_rows, split_contexts


@pytest.mark.parametrize("unit", ["row", "context"])
def test_split_rounds_up_and_draws_logging_contexts_where_they_belong(unit):
    split = split_contexts(103, unit, 0.05, 0.25, np.random.default_rng(4))
    assert len(split["heldout"]) == 26
    assert len(split["logging"]) == {"row": 6, "context": 4}[unit]
    assert sorted([*split["train"], *split["heldout"]]) == list(range(103))
    if unit == "context":
        assert set(split["logging"]) <= set(split["train"])
    everywhere = {
        c for seed in range(200) for c in split_contexts(20, unit, 0.2, 0.5, np.random.default_rng(seed))["logging"]
    }
    assert everywhere == set(range(20))


@pytest.mark.parametrize(
    ("n", "fraction", "expected"), [(7, 1e-12, 1), (20, 0.05, 1), (21, 0.05, 2), (4, 0.25, 1), (100, 0.07, 7)]
)
def test_heldout_rows_round_up_without_floating_point_surprises(n, fraction, expected):
    assert heldout_rows(n, fraction, np.random.default_rng(0)).sum() == expected
