"""Contexts with unusual values, and the answers of exported policies in SQLite and DuckDB, JSON and Python."""

import json
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from drcrm import read_log
from drcrm.logs.encoding.columns import MISSING_TEXTS, as_text, canonical_text
from drcrm.logs.serving.served_policy import ServedPolicy

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


MEMBERS = ["yes", "no", "YES", " No ", "true", "False", "", "NA", "NULL", "1", None]


def odd_contexts(n: int, numbers: Iterable[Any], is_typed: bool = False) -> list[dict]:
    """Return n contexts; if ``is_typed``, all values of a column are of one type, or missing."""
    rng = np.random.default_rng(1)
    numbers = [None, 0.0, -0.0, 1e300, -1e300, 5e-324, 1e6, 1e6 + 2.5, *numbers]
    cities: list[Any] = [
        *CITIES,
        None,
        "bern",
        "o'hare",
        "''",
        "",
        "True",
        "TRUE",
        "7.0",
        "07",
        "--",
        'x"y',
        "東京",
        "É",
    ]
    members: list[Any] = MEMBERS
    if is_typed:
        numbers = [*numbers, np.nan]
    else:
        numbers, cities = [*numbers, 1, 10**15 + 1], [*cities, 2.5, 7, 7.0]
        members = [*members, True, False, 1, 0, 1.0, 0.0, 0.25]
    values = {PRICE: numbers, CITY: cities, MEMBER: members, SIZE: numbers}
    columns = {name: [choices[at] for at in rng.integers(0, len(choices), n)] for name, choices in values.items()}
    return [dict(zip(columns, row, strict=True)) | {"at": None} for row in zip(*columns.values(), strict=True)]


def expected_probabilities(policy: ServedPolicy, contexts: list[dict]) -> np.ndarray:
    return policy.policy.marginals_on(policy._encode(contexts), policy.policy.actions, "policy")


def quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def run_sqlite(query: str, contexts: list[dict]) -> pd.DataFrame:
    names = [*contexts[0]]
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(f"CREATE TABLE contexts ({', '.join(map(quote, names))})")
        rows = [[*context.values()] for context in contexts]
        connection.executemany(f"INSERT INTO contexts VALUES ({', '.join('?' * len(names))})", rows)
        return pd.read_sql_query(query, connection)


def run_duckdb(query: str, contexts: list[dict]) -> pd.DataFrame:
    duckdb = pytest.importorskip("duckdb")

    kinds = {PRICE: pa.float64(), SIZE: pa.float64()}
    columns = {
        name: pa.array([context[name] for context in contexts], kinds.get(name, pa.string()), from_pandas=False)
        for name in contexts[0]
    }
    with duckdb.connect(":memory:") as connection:
        connection.register("contexts", pa.table(columns))
        return connection.execute(query).df()


def run_function(source: str, contexts: list[dict]) -> np.ndarray:
    """Return the probabilities of all actions by an exported function."""
    scope: dict = {}
    exec(source, {}, scope)
    return np.array([[*scope["probabilities"](context).values()] for context in contexts])


def read_number(value: Any, booleans: dict[str, int]) -> float | None:
    """Return a number as the JSON of a policy describes it; None if it is missing."""
    if isinstance(value, str):
        value = booleans.get(value.strip().lower(), value.strip() if value.strip() not in MISSING_TEXTS else None)
    return None if value is None or float(value) != float(value) else float(value)


def read_category(value: Any) -> str | None:
    """Return the text of a category; None if it is missing."""
    return None if value is None or value != value else canonical_text(as_text(value))


def run_json(text: str, contexts: list[dict]) -> np.ndarray:
    """Return the probabilities of all actions by the JSON of a policy: an interpreter in the words of its schema."""
    content = json.loads(text)
    explore, K, booleans = content["explore"], len(content["names"]), {"true": 1, "yes": 1, "false": 0, "no": 0}

    def of_tree(node: dict, context: dict) -> np.ndarray:
        while "leaf" not in node:
            value = context[node["column"]]
            if node["kind"] == "category":
                text, known = read_category(value), node["values"] + node["others"]
                is_left = text in node["values"] if text in known else node["missing_left"]
            else:
                number = read_number(value, content["booleans"])
                is_left = node["missing_left"] if number is None else number <= node["at_most"]
            node = node["left" if is_left else "right"]
        return np.array(node.get("probabilities", np.eye(K)[node["action"]]))

    def of_scores(features: list[dict], context: dict) -> np.ndarray:
        scores = np.array(content["intercept"])
        for feature in features:
            value = context[feature["name"]]
            if feature["type"] == "category":
                scores = scores + feature["coef"].get(
                    "" if value is None else canonical_text(as_text(value)), np.zeros(K)
                )
            elif (number := read_number(value, booleans)) is not None:
                scores = scores + (number - feature["mean"]) / feature["scale"] * np.array(feature["coef"])
            else:
                scores = scores + (feature["missing"] or np.zeros(K))
        powers = np.exp(scores - scores.max())
        return powers / powers.sum()

    is_tree = "tree" in content
    rows = [of_tree(content["tree"], c) if is_tree else of_scores(content["features"], c) for c in contexts]
    return explore / K + (1 - explore) * np.array(rows)


def assert_decides_alike(policy: ServedPolicy, numbers: Iterable[Any], tool: str, n: int) -> None:
    """Compare the exports of a policy with its decisions for n odd contexts, by one of four tools."""
    contexts = odd_contexts(n, numbers, is_typed=tool == "duckdb")
    expected = expected_probabilities(policy, contexts)
    if tool in ("python", "json"):
        run = run_function if tool == "python" else run_json
        probabilities = run(policy.export(tool), contexts)
        np.testing.assert_allclose(probabilities, expected, rtol=0, atol=1e-12)
        for seed, (context, row) in enumerate(zip(contexts[:50], probabilities, strict=False)):
            name, probability = policy.decide(context, random_state=seed)
            np.testing.assert_allclose(row[policy.names.index(name)], probability, rtol=0, atol=1e-12)
        return
    answer = {"sqlite": run_sqlite, "duckdb": run_duckdb}[tool](policy.export("sql"), contexts)
    probabilities = answer[[f"p_{name}" for name in policy.names]]
    np.testing.assert_allclose(probabilities, expected, rtol=0, atol=1e-12)
    assert answer["best_action"].tolist() == [policy.names[place] for place in expected.argmax(axis=1)]
    assert answer[CITY].isna().tolist() == [context[CITY] is None for context in contexts]
