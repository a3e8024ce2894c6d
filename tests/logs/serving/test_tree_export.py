"""Exported policy trees decide like ``decide``: as SQL in SQLite, and as a Python function."""

import ast
import json
import sqlite3
from contextlib import closing

import numpy as np
import pandas as pd
import pytest

from drcrm import SoftmaxPolicy, read_log
from drcrm.errors import InputError
from drcrm.logs.policy_file import StoredPolicy
from drcrm.logs.serving.served_policy import ServedPolicy
from drcrm.logs.serving.tree_export import export_tree
from drcrm.policies.trees.encoded_columns import fit_encoded_tree, readable_columns
from drcrm.policies.trees.tree_policy import tree_policy

N, EXPLORE = 400, 0.3
PRICE, CITY, MEMBER, SIZE = 'the "price"', "city's name", "member", "size"
MAPPING = {
    "action": "item",
    "propensity": "p",
    "reward": "r",
    "booleans": "yes/no",
    "features": {"numeric": [PRICE, MEMBER, SIZE], "categorical": [CITY], "time": ["at"]},
}
NAMES = ["it's", 'an "odd" one', "plain"]
CITIES = ["Bern", "O'Hare", 'the "city"', "2.5", "7", "true", "Zürich"]


def draw_frame(n: int, rng: np.random.Generator) -> pd.DataFrame:
    frame = pd.DataFrame(
        {
            PRICE: 1e6 + rng.integers(0, 50, n) / 10,  # far from 0, so that the encoding rounds
            CITY: rng.choice(np.array([*CITIES, None], dtype=object), n),
            MEMBER: rng.choice(["yes", "no"], n),
            SIZE: np.where(rng.random(n) < 0.3, np.nan, rng.normal(size=n) ** 3),
        }
    )
    return frame.assign(at="2024-05-01 13:45", item=rng.choice(NAMES, n), p=1 / 3, r=0.0)


RNG = np.random.default_rng(0)
LOG = read_log(draw_frame(N, RNG), MAPPING)


def make_policy(seed: int, depth: int = 2, log=LOG) -> ServedPolicy:
    """Return a policy of the best tree for random scores that depend on one column."""
    rng, columns = np.random.default_rng(seed), log.X if isinstance(log.X, np.ndarray) else log.X.toarray()
    scores = np.tanh(columns @ rng.normal(size=(columns.shape[1], 3))) + 0.3 * rng.normal(size=(N, 3))
    tree = fit_encoded_tree(readable_columns(log), log.X, scores, np.ones(N), depth)
    policy = tree_policy(tree, log.X).with_exploration(EXPLORE)
    return ServedPolicy(StoredPolicy(policy, log.encoding, None, {}))


def edge_numbers(policy: ServedPolicy) -> list[float]:
    """Return the thresholds of a tree, and the floats next to them."""
    nodes, edges = [export_tree(policy._stored)["tree"]], []
    while nodes:
        node = nodes.pop()
        nodes += [node[side] for side in ("left", "right") if side in node]
        edges += [node["at_most"]] if abs(node.get("at_most", np.inf)) < 1e300 else []
    return [*edges, *np.nextafter(edges, np.inf), *np.nextafter(edges, -np.inf)]


def odd_contexts(n: int, policy: ServedPolicy) -> list[dict]:
    rng = np.random.default_rng(1)
    numbers = [None, 0.0, -0.0, 1, 10**15 + 1, 1e300, -1e300, 5e-324, 1e6, 1e6 + 2.5, *edge_numbers(policy)]
    cities = [*CITIES, None, "bern", "o'hare", "''", "", 2.5, 7, 7.0, True, "True", "TRUE", "7.0", "07", "--", 'x"y']
    members = [
        "yes",
        "no",
        "YES",
        " No ",
        "true",
        "False",
        True,
        False,
        1,
        0,
        1.0,
        0.0,
        None,
        "",
        "NA",
        "NULL",
        0.25,
        "1",
    ]
    values = {PRICE: numbers, CITY: cities, MEMBER: members, SIZE: numbers}
    columns = {name: [choices[at] for at in rng.integers(0, len(choices), n)] for name, choices in values.items()}
    return [dict(zip(columns, row, strict=True)) | {"at": None} for row in zip(*columns.values(), strict=True)]


def expected_probabilities(policy: ServedPolicy, contexts: list[dict]) -> np.ndarray:
    return policy.policy.marginals_on(policy._encode(contexts), policy.policy.actions, "policy")


def quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def run_sql(query: str, contexts: list[dict]) -> pd.DataFrame:
    names = [*contexts[0]]
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(f"CREATE TABLE contexts ({', '.join(map(quote, names))})")
        rows = [[*context.values()] for context in contexts]
        connection.executemany(f"INSERT INTO contexts VALUES ({', '.join('?' * len(names))})", rows)
        return pd.read_sql_query(query, connection)


@pytest.mark.filterwarnings("ignore:.*did not occur|.*not seen")
@pytest.mark.parametrize(("seed", "depth"), [(0, 2), (1, 2), (2, 3), (3, 3), (4, 0)])
def test_sql_and_python_decide_like_decide(seed, depth):
    policy = make_policy(seed, depth)
    contexts = odd_contexts(2000, policy)
    for context in contexts:  # a database without booleans and other spellings of numbers has only these forms
        context[CITY] = context[CITY] if context[CITY] is not True else "true"
    expected = expected_probabilities(policy, contexts)
    assert depth == 0 or len(np.unique(expected.argmax(axis=1))) > 1
    scope: dict = {}
    exec(policy.export("python"), {}, scope)
    of_python = np.array([[*scope["probabilities"](context).values()] for context in contexts])
    np.testing.assert_allclose(of_python, expected, atol=1e-12)
    answer = run_sql(policy.export("sql"), contexts)
    np.testing.assert_allclose(answer[[f"p_{name}" for name in policy.names]], expected, atol=1e-12)
    assert answer["best_action"].tolist() == [policy.names[place] for place in expected.argmax(axis=1)]
    assert answer[PRICE].isna().tolist() == [context[PRICE] is None for context in contexts]
    names, drawn = [], []
    for context in contexts[:50]:
        name, probability = policy.decide(context, random_state=seed)
        names.append(scope["probabilities"](context)[name])
        drawn.append(probability)
    np.testing.assert_allclose(names, drawn, atol=1e-12)


def test_the_function_has_no_imports_and_the_json_has_the_splits():
    policy = make_policy(0)
    nodes = [*ast.walk(ast.parse(policy.export("python")))]
    assert not [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
    content = json.loads(policy.export())
    assert content["names"] == policy.names
    assert {"left", "right", "column", "missing_left"} <= content["tree"].keys()


def test_what_a_form_cannot_express_is_refused():
    frame = draw_frame(N, np.random.default_rng(3)).assign(
        at=pd.date_range("2024-01-01", periods=N, freq="h").astype(str)
    )
    by_time = read_log(frame, MAPPING | {"features": {"time": ["at"]}})
    with pytest.raises(InputError, match=r"the tree splits by 'at: .*, and other systems read times"):
        make_policy(0, log=by_time).export("sql")
    linear = make_policy(0)
    linear.policy = SoftmaxPolicy(np.zeros((LOG.X.shape[1], 3)))
    linear._stored = StoredPolicy(linear.policy, LOG.encoding, None, {})
    with pytest.raises(InputError, match="only a policy tree can be exported as SQL or Python"):
        linear.export("python")
    assert json.loads(linear.export())["format"] == "drcrm-linear-policy"
    with pytest.raises(InputError, match="format is 'java'"):
        linear.export("java")
