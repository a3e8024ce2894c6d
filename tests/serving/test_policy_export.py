"""Exported policies match their schema, and the scorer in JavaScript agrees with Python."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import replace
from importlib import resources
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from served_contexts import random_contexts, stored_policy

import drcrm
from drcrm.errors import InputError
from drcrm.logs.encoding.arrays import ArrayEncoding
from drcrm.serving.policy_export import export_policy
from drcrm.serving.served_policy import ServedPolicy

EXAMPLES = Path(__file__).parents[2] / "docs/examples"
SCHEMA = json.loads(resources.files("drcrm.serving").joinpath("policy.schema.json").read_text(encoding="utf-8"))
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
@pytest.mark.parametrize("kind", ["single", "labels"])
def test_javascript_agrees_with_python(kind, tmp_path):
    served, contexts = ServedPolicy(stored_policy(kind, scale=0.3)), random_contexts(1000)
    draws = np.random.default_rng(0).random(2000).tolist()
    (tmp_path / "run.mjs").write_text(RUN, encoding="utf-8")
    (tmp_path / "input.json").write_text(json.dumps([json.loads(served.to_json()), contexts, draws]), encoding="utf-8")
    command = ["node", tmp_path / "run.mjs", tmp_path / "input.json"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True, encoding="utf-8").stdout.splitlines()
    assert lines[1] == "the context has no age; a missing value is null"
    assert lines[2].endswith("pass TERMS of score_terms.mjs")
    assert lines[3] == "true"
    probability = served.policy.marginals(served._encode(contexts))
    for expected, (actual, decision) in zip(probability, json.loads(lines[0]), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-12)
        if kind == "single":
            action = int((expected.cumsum() <= draws.pop(0)).sum())
            assert decision == {"action": served.names[action], "propensity": actual[action]}
        else:
            labels = np.array([draws.pop(0) for _ in expected]) < expected
            assert list(decision["action"].values()) == labels.tolist()
            assert decision["propensity"] == pytest.approx(np.where(labels, expected, 1 - expected).prod(), abs=1e-12)


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
    with pytest.raises(InputError, match="set algorithm: kl_dro_dr in the mapping"):
        export_policy(stored)
