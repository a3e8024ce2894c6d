"""Scores of a single context are those of the encoding, and exported policies give the same scores in JavaScript."""

import json
import shutil
import subprocess
from dataclasses import replace
from importlib import resources
from pathlib import Path

import jsonschema
import numpy as np
import pandas as pd
import pytest
from fixtures.served_policies import contexts, random_contexts, stored_policy
from fixtures.user_input import examples
from hypothesis import given
from hypothesis import strategies as st

import drcrm
from drcrm.errors import InputError
from drcrm.logs.encoding.base import ArrayEncoding
from drcrm.logs.encoding.columns import as_text, canonical_text
from drcrm.logs.encoding.tables import TableEncoding, table_features
from drcrm.logs.policy_file import StoredPolicy
from drcrm.logs.serving.context_scores import export_policy
from drcrm.logs.serving.served_policy import ServedPolicy
from drcrm.policies.exponential import SoftmaxPolicy

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


@pytest.mark.parametrize(("value", "number"), [("yes", 1), (" No ", 0), ("TRUE", 1), ("false", 0), (True, 1)])
def test_texts_of_booleans_are_read_fast(value, number):
    stored = STORED["single"]
    served = ServedPolicy(replace(stored, encoding=replace(stored.encoding, booleans=("yes/no",))))
    [context] = random_contexts(1)
    scores = [served._scores({**context, "age": age}) for age in (value, number)]
    assert np.array_equal(*scores)
    assert served.policy.decision_function(served._encode([{**context, "age": value}]))[0] == pytest.approx(scores[0])


pytestmark = pytest.mark.filterwarnings("ignore:.*the policy has not seen it")
EXAMPLES = Path(__file__).parents[3] / "docs/examples"
SCHEMA = json.loads(resources.files("drcrm.logs.serving").joinpath("policy.schema.json").read_text(encoding="utf-8"))
RUN = f"""import {{readFileSync}} from "node:fs";
import {{decide, probabilities}} from {json.dumps((EXAMPLES / "score.mjs").as_uri())};
import {{TERMS}} from {json.dumps((EXAMPLES / "score_terms.mjs").as_uri())};
const [policy, contexts, draws] = JSON.parse(readFileSync(process.argv[2]));
const next = () => draws.shift();
console.log(JSON.stringify(contexts.map((x) => [probabilities(policy, x, TERMS), decide(policy, x, TERMS, next)])));
for (const context of [{{}}, contexts[0]])
  try {{ decide(policy, context); }} catch (error) {{ console.log(error.message); }}
policy.features = policy.features.filter(({{type}}) => type === "number" || type === "category");
console.log(contexts.every((x) => String(probabilities(policy, x)) === String(probabilities(policy, x, TERMS))));
"""
needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="Node.js is not installed")


@needs_node
@pytest.mark.parametrize("explore", [0.0, 0.3])
@pytest.mark.parametrize("kind", ["single", "labels"])
def test_javascript_agrees_with_python(kind, explore, tmp_path):
    stored = stored_policy(kind, scale=0.3)
    served = ServedPolicy(replace(stored, policy=stored.policy.with_exploration(explore)))
    contexts, draws = random_contexts(1000), np.random.default_rng(0).random(3000).tolist()
    (tmp_path / "run.mjs").write_text(RUN, encoding="utf-8")
    (tmp_path / "input.json").write_text(json.dumps([json.loads(served.to_json()), contexts, draws]), encoding="utf-8")
    command = ["node", tmp_path / "run.mjs", tmp_path / "input.json"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True, encoding="utf-8").stdout.splitlines()
    assert lines[1] == "the context has no age; a missing value is null"
    assert lines[2].endswith("pass TERMS of score_terms.mjs")
    assert lines[3] == "true"
    X = served._encode(contexts)
    known = stored.policy.marginals(X)
    probability = (1 - explore) * known + explore / 2 if kind == "labels" else served.policy.marginals(X)
    for row, (expected, (actual, decision)) in enumerate(zip(probability, json.loads(lines[0]), strict=True)):
        np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-12)
        if kind == "single":
            action = int((expected.cumsum() <= draws.pop(0)).sum())
            assert decision == {"action": served.names[action], "propensity": actual[action]}
        else:
            of_label = np.full(2, 0.5) if explore and draws.pop(0) < explore else known[row]
            labels = np.array([draws.pop(0) for _ in expected]) < of_label
            assert list(decision["action"].values()) == labels.tolist()
            expected = (1 - explore) * np.where(labels, known[row], 1 - known[row]).prod() + explore / 4
            assert decision["propensity"] == pytest.approx(expected, abs=1e-12)


EQUAL = {  # values in JSON for which JavaScript must give Python's probabilities
    "tier": """
        1e-5 | 0.00001 | 1e-7 | 1.5e-7 | 0.1 | 2.50 | 1e16 | 1e20 | 123456789012345000000 | -0 | 0.0 | 3.0 | true | null
        9007199254740991 | -9007199254740991 | 123456789.12345678 | "1e-05" | "1.0E-5" | "2.500" | "1e400" | "007"
        "3.0" | "+3" | "1152921504606846977" | "-0.0" | ".5" | "constructor" | "toString" | "__proto__" | "valueOf"
        "hasOwnProperty" | "" | "true" | "5e-324" | "1.10" | "\\u0661.5" | "1e+22" | "12345678901234567890.0" | "0x10"
        "Infinity" | "NaN" | " 3.0" | "3. 0" | 1e21 | 1e300 | 1.25e-30 | "2E4" | 20000 | "31e2" | "0.10000000000000001"
        "True" | "TRUE" | "false" | false | "FALSE" | "tRUE" | "12345678901234567.25" | "12345678901234567.250"
    """,
    "at": """
        null | "" | "2024-02-29" | "2024-05-01T13:45:10,5+02" | "2024-05-01 23:59 UTC" | "01.05.2024 07:45"
        "1.5.2024, 07:45" | "9999-12-31T00:00Z" | "0001-01-01" | "2100-03-01T00:00:59.123456789GMT"
    """,
    "age": "null | -0 | 1e3 | 12345678901234567890 | 0.1 | true | false",
}
REFUSED = {  # values that JavaScript must refuse
    "tier": "9007199254740993 | 1152921504606846977 | 1.7976931348623157e308 | [1] | {}",
    "at": """
        "2024-02-30" | "2023-02-29" | "2024-05-01T25:61" | "2024-05-01T24:00" | "2024-05-01T23:60" | "2024-13-01" | true
        "0000-01-01" | "2024-05-01T23:59:60" | 0 | [] | "31.04.2024" | "constructor" | "2024-5-1"
    """,
    "age": '"1" | 1e999 | [] | {}',
}
ASK = f"""import {{readFileSync}} from "node:fs";
import {{probabilities}} from {json.dumps((EXAMPLES / "score.mjs").as_uri())};
import {{TERMS}} from {json.dumps((EXAMPLES / "score_terms.mjs").as_uri())};
const [policy, ...contexts] = readFileSync(process.argv[2], "utf-8").split("\\n").map((line) => JSON.parse(line));
console.log(JSON.stringify(contexts.map((x) => {{
  try {{ return probabilities(policy, x, TERMS); }} catch (error) {{ return error.message; }}
}})));
"""


def values_in(text: str) -> list[str]:
    """Return the values in JSON that bars or lines separate."""
    return [value.strip() for value in text.strip().replace("\n", "|").split("|")]


@needs_node
@pytest.mark.parametrize("n_more", [0, 200], ids=["one-hot", "hashed"])
def test_javascript_reads_values_as_python_does(n_more, tmp_path):
    tiers = [json.loads(text) for text in values_in(EQUAL["tier"])] + [f"more {row}" for row in range(n_more)]
    tiers = [tier for tier in tiers if tier not in ("valueOf", "hasOwnProperty", ".5")]  # unknown categories
    times = [f"2024-05-{1 + row % 7:02d} {row % 24:02d}:00" for row in range(len(tiers))]
    frame = pd.DataFrame({"tier": pd.Series(tiers, dtype=object), "at": times, "age": np.arange(len(tiers)) * 7e17})
    encoding = TableEncoding.fit(table_features(frame, ["age"], ["tier"], ["at"]), "single", ["a", "b"], times=("at",))
    coef = np.random.default_rng(0).normal(size=(encoding.n_features, 2))
    served = ServedPolicy(StoredPolicy(SoftmaxPolicy(coef), encoding, None, {}))
    usual = {"tier": '"x"', "at": "null", "age": "0"}
    lines = [
        "{" + ",".join(f'"{name}": {value}' for name, value in (usual | {column: text}).items()) + "}"
        for values in (EQUAL, REFUSED)
        for column, texts in values.items()
        for text in values_in(texts)
    ]
    n_equal = sum(len(values_in(texts)) for texts in EQUAL.values())
    (tmp_path / "run.mjs").write_text(ASK, encoding="utf-8")
    (tmp_path / "input.txt").write_text("\n".join([served.to_json(), *lines]), encoding="utf-8")
    command = ["node", tmp_path / "run.mjs", tmp_path / "input.txt"]
    output = subprocess.run(command, capture_output=True, text=True, check=True, encoding="utf-8").stdout
    for number, (line, answer) in enumerate(zip(lines, json.loads(output), strict=True)):
        if number >= n_equal:
            assert isinstance(answer, str), line
            assert "must be" in answer, line
            continue
        context = json.loads(line)
        [expected] = served.policy.marginals(served._encode([context]))
        assert answer == pytest.approx(expected, abs=1e-12), line


@needs_node
def test_the_text_of_a_number_is_a_plain_decimal_as_in_javascript(tmp_path):
    rng = np.random.default_rng(0)
    powers = [float(f"1e{power}") for power in range(-25, 25)]
    values = np.concatenate([rng.normal(size=300) * 10.0 ** rng.integers(-30, 30, 300), powers])
    expected = [np.format_float_positional(value, trim="-") for value in values]
    assert [as_text(value) for value in values] == [canonical_text(text) for text in expected] == expected
    values = values[(abs(values) < 2**53) | np.isin(np.arange(len(values)), np.arange(300, 350))]  # not rounded
    score = (EXAMPLES / "score.mjs").as_uri()
    program = f"import {{text}} from {json.dumps(score)}; console.log(JSON.stringify({values.tolist()}.map(text)));"
    (tmp_path / "run.mjs").write_text(program, encoding="utf-8")
    output = subprocess.run(["node", tmp_path / "run.mjs"], capture_output=True, text=True, check=True).stdout
    assert [as_text(value) for value in values] == json.loads(output)


@pytest.mark.parametrize("kind", ["single", "labels"])
def test_the_json_matches_its_schema(kind):
    jsonschema.validate(json.loads(ServedPolicy(stored_policy(kind)).to_json()), SCHEMA)


def test_the_command_writes_the_json_of_a_learned_policy(shop, tmp_path, run):
    assert run("export", shop / "policy.npz", "--output", tmp_path / "policy.json") == (0, "", "")
    content = json.loads((tmp_path / "policy.json").read_text(encoding="utf-8"))
    assert content == json.loads(drcrm.load_policy(shop / "policy.npz").to_json())
    assert (content["kind"], len(content["names"]), len(content["features"])) == ("single", 3, 3)
    status, _, error = run("export", shop / "policy.npz", "--output", shop / "policy.npz")
    assert (status, "is both --output and policy" in error) == (1, True)


def test_other_policies_are_refused():
    stored = stored_policy()
    with pytest.raises(InputError, match="only a policy on a table can be exported"):
        export_policy(replace(stored, encoding=ArrayEncoding("single", [0, 1], 2)))
    stored.policy.features = object()
    with pytest.raises(InputError, match="run drcrm learn --exportable"):
        export_policy(stored)
