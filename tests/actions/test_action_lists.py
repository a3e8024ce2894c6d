"""Lists of actions: selection of contexts, and input that cannot be used."""

import numpy as np
import pytest
from scipy import sparse

from drcrm import ActionLists
from drcrm.errors import InputError


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
def test_lists_are_indexed_like_rows(form):
    rng = np.random.default_rng(7)
    sizes = rng.integers(1, 5, 9)
    starts = np.r_[0, np.cumsum(sizes)]
    features = rng.normal(size=(starts[-1], 3)) * (rng.random((starts[-1], 3)) < 0.6)
    lists = ActionLists(form(features), starts)
    assert (len(lists), lists.shape) == (9, (9, 3))
    mask = rng.random(9) < 0.5
    for rows in (np.array([4, 0, 4, 8]), mask, slice(2, 7), slice(None, None, -2), [1, 2], np.array([-1, 3])):
        chosen = np.arange(9)[rows]
        part = lists[rows]
        expected = np.concatenate([features[starts[k] : starts[k + 1]] for k in chosen])
        dense = part.features.toarray() if sparse.issparse(part.features) else part.features
        assert np.array_equal(dense, expected)
        assert part.starts.tolist() == [0, *np.cumsum(sizes[chosen])]


@pytest.mark.parametrize(
    ("features", "starts", "message"),
    [
        (np.ones((7, 2)), [0, 3, 3, 7], "list 1 is empty"),
        (np.ones((7, 2)), [0, 3, 7, 7], "list 2 is empty"),
        (np.ones((7, 2)), [0, 4, 3, 7], "list 1"),
        (np.ones((7, 2)), [1, 3, 7], "starts .*0"),
        (np.ones((7, 2)), [0, 3, 6], "starts .*7"),
        (np.ones((7, 2)), [0, 3, 8], "starts .*7"),
        (np.ones((7, 2)), [], "starts"),
        (np.ones((7, 2)), [0, 2.5, 7], r"starts is 2\.5 in row 1, expected a whole number"),
        (np.ones((7, 2)), [[0, 7]], "starts"),
        (np.ones((7, 2)), ["a", "b"], "starts"),
        ([[1.0], [np.nan]], [0, 2], "row 1|features"),
        ([["a"], ["b"]], [0, 2], "features .*numbers"),
        ([1.0, 2.0], [0, 2], r"features has shape \(2,\)"),
        (np.zeros((2, 0)), [0, 2], "features"),
    ],
)
def test_invalid_lists_are_rejected(features, starts, message):
    with pytest.raises(InputError, match=message) as error:
        ActionLists(features, starts)
    assert "\n" not in str(error.value)
