"""Exported linear policies decide like ``decide``: as SQL in SQLite and DuckDB, and as a Python function."""

import ast

import numpy as np
import pandas as pd
import pytest
from fixtures.served_policies import CITY, EXPLORE, MAPPING, MEMBER, PRICE, SIZE, N, assert_decides_alike, draw_frame

from drcrm import ExponentialPolicy, SoftmaxPolicy, read_log
from drcrm.errors import InputError
from drcrm.logs.policy_file import StoredPolicy
from drcrm.logs.serving.served_policy import ServedPolicy

HOURS = pd.date_range("2024-01-01", periods=N, freq="h").astype(str)
FEATURES = {"numeric": [PRICE, MEMBER, SIZE], "categorical": [CITY]}


def make_policy(seed: int, features=FEATURES, explore: float = EXPLORE, **columns) -> ServedPolicy:
    """Return a policy with random coefficients, on a log with these features."""
    log = read_log(draw_frame(N, np.random.default_rng(seed)).assign(**columns), MAPPING | {"features": features})
    coef, intercept = np.split(np.random.default_rng(seed).normal(size=(log.X.shape[1] + 1, 3)), [-1])
    policy = SoftmaxPolicy(coef, intercept[0]).with_exploration(explore)
    return ServedPolicy(StoredPolicy(policy, log.encoding, None, {}))


@pytest.mark.filterwarnings("ignore:.*did not occur|.*not seen")
@pytest.mark.parametrize("tool", ["python", "json", "sqlite", "duckdb"])
@pytest.mark.parametrize(("seed", "explore"), [(0, EXPLORE), (1, 0.0)])
def test_sql_json_and_python_decide_like_decide(seed, explore, tool):
    near = [*(1e6 + np.arange(50) / 10), -2.5, 0.25, 3.0]
    assert_decides_alike(make_policy(seed, explore=explore), near, tool, 10_000)


def test_names_in_the_form_of_placeholders_stay():
    policy = make_policy(0, {"categorical": ["$NAMES"]}, **{"$NAMES": np.resize(["$EXPLORE", "b"], N)})
    source = policy.export("python")
    assert not [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Import | ast.ImportFrom)]
    scope: dict = {}
    exec(source, {}, scope)
    action, probability = policy.decide({"$NAMES": "$EXPLORE"}, 0)
    assert scope["probabilities"]({"$NAMES": "$EXPLORE"})[action] == pytest.approx(probability, abs=1e-15)


@pytest.mark.parametrize(
    ("features", "columns", "reason"),
    [
        (
            {"time": ["at"]},
            {"at": HOURS},
            "uses the hour feature 'at'",
        ),
        (
            {"categorical": ["user"]},
            {"user": [f"u{number}" for number in range(N)]},
            "the hashed feature 'user', and its categories are hashed",
        ),
    ],
)
def test_features_that_sql_cannot_express_are_refused(features, columns, reason):
    policy = make_policy(0, features, **columns)
    for form in ("sql", "python"):
        with pytest.raises(InputError, match=reason):
            policy.export(form)
    assert policy.export("json")


def test_label_vectors_are_refused():
    frame = draw_frame(N, np.random.default_rng(0)).assign(b=np.arange(N) % 2, c=np.arange(N) % 3 == 0)
    mapping = {key: value for key, value in MAPPING.items() if key != "action"} | {"labels": ["b", "c"]}
    log = read_log(frame.astype({"c": int}), mapping | {"features": FEATURES})
    policy = ExponentialPolicy(np.zeros((log.X.shape[1], 2)))
    with pytest.raises(InputError, match="only a policy of one of K actions"):
        ServedPolicy(StoredPolicy(policy, log.encoding, None, {})).export("sql")
