"""Hashed features: products of features, selection of lists, new features."""

import json
from itertools import combinations
from math import prod

import numpy as np
import pytest
from fixtures.text_logs import decision, read_contexts, write_lines
from sklearn.feature_extraction import FeatureHasher

from drcrm.errors import InputError
from drcrm.logs.batches import encode, fit_encoding
from drcrm.logs.diagnostics.repeated_rows import hash_log
from drcrm.logs.encoding.base import MATRIX, TIMES, hash_lists
from drcrm.logs.policy_file import encoding_of
from drcrm.logs.read_log import read_raw_log
from drcrm.mapping.log_mapping import as_mapping


@pytest.mark.parametrize("interactions", [None, 2, 3])
def test_features_of_listed_actions_are_their_own_and_products(tmp_path, interactions):
    """Reference: scikit-learn's hasher on all names of each action."""
    raw_log = read_raw_log(write_lines(tmp_path, decision()), as_mapping({"interactions": interactions}))
    shared = {"User^age": 3, "User^city=Bern": 1}
    listed = [{"A^id=x": 1}, {"A^id=y": 1, "A^n": 2}, {"b": 1}]
    named_features = []
    for action in listed:
        factors = [names for size in (2, 3) for names in combinations([*action, *shared], size) if names[0] in action]
        pairs = [names for names in factors if len(names) == 2 and names[1] in shared]
        kept = [names for names in factors if len(names) <= interactions] if interactions else pairs
        values = action | shared
        named_features.append(action | {TIMES.join(names): prod(map(values.get, names)) for names in kept})
    expected = FeatureHasher(2**18).transform(named_features).tocsr()
    encoding = fit_encoding(raw_log)
    assert encoding.kept == sorted(set(expected.indices.tolist()))
    features = encoding.encode(raw_log.X).toarray()
    assert np.array_equal(features, expected[:, encoding.kept].toarray())


def test_too_many_products_are_refused():
    action, shared = ([(f"{name}{i}", 1.0) for i in range(40)] for name in "ac")
    with pytest.raises(InputError, match=r"interactions: 3 makes 74660 products of the 80 features .* at most 65536"):
        hash_lists([shared], [[action]], 3)
    assert hash_lists([shared], [[action]], 2).features.columns[MATRIX].nnz > 2400  # of 2420, without collisions


def test_an_encoding_survives_json_and_counts_new_features(tmp_path):
    raw_log = read_raw_log(write_lines(tmp_path, *[decision()] * 3), as_mapping({"interactions": 2}))
    encoding = encoding_of(json.loads(json.dumps(fit_encoding(raw_log).as_dict())))
    assert encoding == fit_encoding(raw_log)
    assert encoding.interactions == 2
    new = decision(c={"_multi": [{"A": {"id": "x"}}, {"A": {"id": "new"}}]}, _label_cost=..., p=..., a=...)
    lists, unseen = read_contexts(write_lines(tmp_path, new, name="new.json"), encoding)
    assert lists.starts.tolist() == [0, 2]
    assert unseen == {"new features": 1}
    assert not lists.features[[1]].toarray().any()


def test_selected_lists_are_those_of_their_rows(tmp_path):
    lines = [decision(c={"s": i, "_multi": [{"k": f"{i}{j}"} for j in range(2 + i % 3)]}) for i in range(9)]
    for line in lines:
        line.update(a=[2], p=[0.7])
    raw_log = read_raw_log(write_lines(tmp_path, *lines))
    encoding, rows = fit_encoding(raw_log), np.array([7, 2, 5])
    selected, whole = encode(raw_log.take(rows), encoding), encode(raw_log, encoding)
    expected = whole.actions.unbind(whole.X)[rows]
    assert np.array_equal(selected.actions.starts, expected.starts)
    assert np.array_equal(selected.X.toarray(), expected.features.toarray())
    assert selected.context.tolist() == [0, 1, 2]


def test_the_order_of_a_list_matters_but_not_that_of_features(tmp_path):
    first, swapped = "shared |u a:2\n0:1:0.5 |a {}\n|a z\n\n", "shared |u a:2\n0:1:0.5 |a z\n|a x y:2\n\n"
    text = first.format("x y:2") + swapped + first.format("y:2 x")
    hashes = hash_log(read_raw_log(write_lines(tmp_path, text, name="log.vw"))).features
    assert hashes[0] == hashes[2] != hashes[1]


def test_products_do_not_depend_on_the_order_of_the_features():
    shared, action = [("c", 2.0), ("d", 3.0)], [("a", 5.0), ("b", 7.0)]
    matrices = [
        hash_lists([pairs], [[of_action]], 3).features.columns[MATRIX]
        for pairs in (shared, shared[::-1])
        for of_action in (action, action[::-1])
    ]
    assert all(abs(matrices[0] - matrix).nnz == 0 for matrix in matrices)
    assert matrices[0].nnz == 2 + 4 + 1 + 2 + 2  # features, old pairs, a b, a b with c or d, a or b with c d
