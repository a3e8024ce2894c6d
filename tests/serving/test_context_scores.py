"""Scores of a single context are those of the encoding that learning uses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from served_contexts import contexts, stored_policy
from strategies import examples

from drcrm.serving.served_policy import ServedPolicy

STORED = {kind: stored_policy(kind) for kind in ("single", "labels")}


@pytest.mark.parametrize("kind", ["single", "labels"])
@given(unusual=st.lists(contexts(), max_size=2), plain=st.lists(contexts(as_json=True), min_size=1, max_size=3))
@examples(15)
def test_the_fast_scores_are_those_of_the_table(unusual, plain, kind):
    """Values that JSON has never need the table."""
    served, batch = ServedPolicy(STORED[kind]), [*unusual, *plain]
    X = served._encode(batch)
    expected, tolerance = served.policy.decision_function(X), 1e-12 * (1 + abs(X) @ abs(served.policy.coef))
    for number, context in enumerate(batch):
        scores = served._scores(context)
        assert scores is not None or number < len(unusual)
        in_table = served.policy.decision_function(served._encode([context]))[0]
        for actual in (in_table, in_table if scores is None else scores):
            assert (abs(actual - expected[number]) <= tolerance[number]).all()
