"""Exported policy trees decide like ``decide``: as SQL in SQLite and DuckDB, and as a Python function."""

import ast
import json
from dataclasses import replace
from importlib import resources

import jsonschema
import numpy as np
import pandas as pd
import pytest
from fixtures.served_policies import EXPLORE, LOG, MAPPING, N, assert_decides_alike, draw_frame

from drcrm import read_log
from drcrm.errors import InputError
from drcrm.logs.policy_file import StoredPolicy
from drcrm.logs.serving.exports import export_tree
from drcrm.logs.serving.served_policy import ServedPolicy
from drcrm.policies.trees.encoded_columns import readable_columns
from drcrm.policies.trees.search import fit_encoded_tree
from drcrm.policies.trees.tree_policy import tree_policy


def make_policy(seed: int, depth: int = 2, log=LOG, drawn: int = 0) -> ServedPolicy:
    """Return a policy of the best tree for random scores; the first leaves, as many as ``drawn``, draw their action."""
    rng, columns = np.random.default_rng(seed), log.X if isinstance(log.X, np.ndarray) else log.X.toarray()
    scores = np.tanh(columns @ rng.normal(size=(columns.shape[1], 3))) + 0.3 * rng.normal(size=(N, 3))
    tree = fit_encoded_tree(readable_columns(log), log.X, scores, np.ones(N), depth)
    probabilities = iter([*map(tuple, rng.dirichlet(np.ones(3), drawn - drawn // 2)), (0.25, 0.0, 0.75)][:drawn])
    policy = tree_policy(replace(tree, root=draw_in_leaves(tree.root, probabilities)), log.X).with_exploration(EXPLORE)
    return ServedPolicy(StoredPolicy(policy, log.encoding, None, {}))


def draw_in_leaves(node, probabilities):
    """Return a node whose first leaves have the probabilities."""
    if node.children:
        return replace(node, children=[draw_in_leaves(child, probabilities) for child in node.children])
    row = next(probabilities, ())
    return replace(node, action=int(np.argmax(row)) if row else node.action, probabilities=row)


def edge_numbers(policy: ServedPolicy) -> list[float]:
    """Return the thresholds of a tree, and the floats next to them."""
    nodes, edges = [export_tree(policy._stored)["tree"]], []
    while nodes:
        node = nodes.pop()
        nodes += [node[side] for side in ("left", "right") if side in node]
        edges += [node["at_most"]] if abs(node.get("at_most", np.inf)) < 1e300 else []
    return [*edges, *np.nextafter(edges, np.inf), *np.nextafter(edges, -np.inf)]


@pytest.mark.filterwarnings("ignore:.*did not occur|.*not seen")
@pytest.mark.parametrize("tool", ["python", "json", "sqlite", "duckdb"])
@pytest.mark.parametrize(("seed", "depth", "drawn"), [(0, 2, 0), (1, 2, 2), (2, 3, 0), (3, 3, 3), (4, 0, 0), (5, 0, 1)])
def test_sql_json_and_python_decide_like_decide(seed, depth, drawn, tool):
    policy = make_policy(seed, depth, drawn=drawn)
    assert_decides_alike(policy, edge_numbers(policy), tool, 10_000)


def test_the_function_has_no_imports_and_the_json_matches_its_schema():
    policy = make_policy(1, drawn=2)
    nodes = [*ast.walk(ast.parse(policy.export("python")))]
    assert not [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
    schema = resources.files("drcrm.logs.serving").joinpath("tree.schema.json").read_text("utf-8")
    jsonschema.validate(json.loads(policy.export()), json.loads(schema))


def test_what_a_form_cannot_express_is_refused():
    frame = draw_frame(N, np.random.default_rng(3)).assign(
        at=pd.date_range("2024-01-01", periods=N, freq="h").astype(str)
    )
    by_time = read_log(frame, MAPPING | {"features": {"time": ["at"]}})
    with pytest.raises(InputError, match=r"the tree splits by 'at: .*, and other systems read times"):
        make_policy(0, log=by_time).export("sql")
    with pytest.raises(InputError, match="format is 'java'"):
        make_policy(0).export("java")
