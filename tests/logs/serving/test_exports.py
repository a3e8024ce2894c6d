"""Exported trees and linear policies decide like ``decide``: as SQL in SQLite and DuckDB, as Python and as JSON."""

import ast
import json
from dataclasses import replace
from importlib import resources

import jsonschema
import numpy as np
import pandas as pd
import pytest
from fixtures.served_policies import (
    CITY,
    EXPLORE,
    LOG,
    MAPPING,
    MEMBER,
    PRICE,
    SIZE,
    N,
    assert_decides_alike,
    draw_frame,
    expected_probabilities,
    run_duckdb,
    run_sqlite,
)

from drcrm import ExponentialPolicy, SoftmaxPolicy, read_log
from drcrm.errors import InputError
from drcrm.logs.policy_file import StoredPolicy
from drcrm.logs.serving.exports import export_tree
from drcrm.logs.serving.served_policy import ServedPolicy
from drcrm.policies.trees.encoded_columns import readable_columns
from drcrm.policies.trees.search import fit_encoded_tree
from drcrm.policies.trees.tree_policy import tree_policy

HOURS = pd.date_range("2024-01-01", periods=N, freq="h").astype(str)
FEATURES = {"numeric": [PRICE, MEMBER, SIZE], "categorical": [CITY]}


def make_tree(seed: int, depth: int = 2, log=LOG, drawn: int = 0) -> ServedPolicy:
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


def make_linear(seed: int, features=FEATURES, explore: float = EXPLORE, log=None, **columns) -> ServedPolicy:
    """Return a policy with random coefficients, on a log, or on one with these features."""
    if log is None:
        log = read_log(draw_frame(N, np.random.default_rng(seed)).assign(**columns), MAPPING | {"features": features})
    coef, intercept = np.split(np.random.default_rng(seed).normal(size=(log.X.shape[1] + 1, 3)), [-1])
    policy = SoftmaxPolicy(coef, intercept[0]).with_exploration(explore)
    return ServedPolicy(StoredPolicy(policy, log.encoding, None, {}))


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
@pytest.mark.parametrize("shape", [(0, 2, 0), (2, 3, 0), (3, 3, 3), (4, 0, 0), (5, 0, 1), "linear", "linear, pure"])
def test_sql_json_and_python_decide_like_decide(shape, tool):
    if isinstance(shape, str):
        near = [*(1e6 + np.arange(50) / 10), -2.5, 0.25, 3.0]
        assert_decides_alike(make_linear(0, explore=EXPLORE * (shape == "linear")), near, tool, 3_000)
        return
    seed, depth, drawn = shape
    policy = make_tree(seed, depth, drawn=drawn)
    assert_decides_alike(policy, edge_numbers(policy), tool, 3_000)


@pytest.mark.parametrize("tool", [run_sqlite, run_duckdb])
@pytest.mark.parametrize("is_tree", [True, False])
def test_names_of_columns_of_sql_differ_without_case(is_tree, tool):
    """Databases take score_PLAIN for score_plain, and a feature for the column of the query with its name."""
    rng = np.random.default_rng(7)
    features = {name: rng.normal(size=N) for name in ("score_plain", "Policy_leaf", "BEST_ACTION")}
    frame = draw_frame(N, rng).assign(item=np.resize(["plain", "PLAIN", "Plain"], N), **features)
    log = read_log(frame, MAPPING | {"features": {"numeric": [*features]}})
    policy = make_tree(7, log=log) if is_tree else make_linear(7, log=log)
    contexts = [dict(zip(features, map(float, row), strict=True)) for row in rng.normal(size=(200, 3))]
    answer, expected = tool(policy.export("sql"), contexts), expected_probabilities(policy, contexts)
    np.testing.assert_allclose(answer[["p_PLAIN", "p_Plain_2", "p_plain_3"]], expected, rtol=0, atol=1e-12)
    best = "best_action_2" if "BEST_ACTION" in policy.export("sql") else "best_action"
    assert answer[best].tolist() == [policy.names[place] for place in expected.argmax(axis=1)]


def test_functions_have_no_imports_and_the_json_of_a_tree_matches_its_schema():
    """Names in the form of placeholders stay."""
    policy = make_linear(0, {"categorical": ["$NAMES"]}, **{"$NAMES": np.resize(["$EXPLORE", "b"], N)})
    for source in (policy.export("python"), make_tree(1, drawn=2).export("python")):
        assert not [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Import | ast.ImportFrom)]
    scope: dict = {}
    exec(policy.export("python"), {}, scope)
    action, probability = policy.decide({"$NAMES": "$EXPLORE"}, 0)
    assert scope["probabilities"]({"$NAMES": "$EXPLORE"})[action] == pytest.approx(probability, abs=1e-15)
    schema = resources.files("drcrm.logs.serving").joinpath("tree.schema.json").read_text("utf-8")
    jsonschema.validate(json.loads(make_tree(1, drawn=2).export()), json.loads(schema))


@pytest.mark.parametrize(
    ("features", "column", "reason"),
    [
        ({"time": ["at"]}, {"at": HOURS}, "uses the hour feature 'at'"),
        (
            {"categorical": ["user"]},
            {"user": [f"u{number}" for number in range(N)]},
            "the hashed feature 'user', and its categories are hashed",
        ),
    ],
)
def test_features_of_linear_policies_that_sql_cannot_express_are_refused(features, column, reason):
    policy = make_linear(0, features, **column)
    for form in ("sql", "python"):
        with pytest.raises(InputError, match=reason):
            policy.export(form)
    assert policy.export("json")


def test_splits_by_times_label_vectors_and_other_forms_are_refused():
    frame = draw_frame(N, np.random.default_rng(3)).assign(at=HOURS, b=np.arange(N) % 2, c=np.arange(N) // 2 % 2)
    with pytest.raises(InputError, match=r"the tree splits by 'at: .*, and other systems read times"):
        make_tree(0, log=read_log(frame, MAPPING | {"features": {"time": ["at"]}})).export("sql")
    with pytest.raises(InputError, match="format is 'java'"):
        make_tree(0).export("java")
    mapping = {key: value for key, value in MAPPING.items() if key != "action"} | {"labels": ["b", "c"]}
    log = read_log(frame, mapping | {"features": FEATURES})
    policy = ExponentialPolicy(np.zeros((log.X.shape[1], 2)))
    with pytest.raises(InputError, match="only a policy of one of K actions"):
        ServedPolicy(StoredPolicy(policy, log.encoding, None, {})).export("sql")
