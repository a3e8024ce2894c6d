"""Relations between the decisions of a policy: of ``decide``, ``predict`` and the exported scorer, and by numpy."""

from __future__ import annotations

import json
import shutil
import subprocess
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit, softmax

from drcrm import ActionLists
from drcrm.logs.serving.served_policy import load_policy
from matrix.cases import Case
from matrix.commands import run
from matrix.logs import SmallLog, arrays_of, events_of, list_orders
from matrix.policies import SHARE, policy_scores, probabilities
from matrix.relations import relation

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
SCORER = f"""
import {{readFileSync}} from "node:fs";
import {{probabilities}} from "{EXAMPLES.as_uri()}/score.mjs";
import {{TERMS}} from "{EXAMPLES.as_uri()}/score_terms.mjs";
const [policy, contexts] = JSON.parse(readFileSync(process.argv[2]));
console.log(JSON.stringify(contexts.map((context) => probabilities(policy, context, TERMS))));
"""


def as_python(value: Any) -> Any:
    """Return a value as an application has it: times as datetime."""
    is_time = isinstance(value, str) and value[:4].isdigit() and "T" in value
    return datetime.fromisoformat(value) if is_time else value


def as_text(value: Any) -> Any:
    """Return a value as the text of a CSV file."""
    return "" if value is None else str(value)


def as_lower_text(value: Any) -> Any:
    """Return a value as other tools write it: booleans in lower case."""
    return str(value).lower() if isinstance(value, bool) else value


@relation()
def decide_has_the_policys_probabilities(case: Case) -> None:
    """Python values, JSON and the texts of CSV files decide alike, with the probabilities of the policy."""
    served, log = load_policy(case.policies[0]), case.log
    if not case.row.is_table:
        X = arrays_of(log)["X"]
        contexts: list[Any] = [ActionLists(X, arrays_of(log)["starts"]) if case.row.kind == "lists" else X]
        if case.row.format == "dsjson":
            contexts = [[event["c"] for event in events_of(log)]]
    else:
        contexts = [contexts_of(log, convert) for convert in (lambda v: v, as_python, as_text, as_lower_text)]
    for form in contexts:
        actions, propensities = served.decide(form, random_state=3)
        np.testing.assert_allclose(propensities, expected_probabilities(log, actions), rtol=0, atol=1e-9)
    if case.row.is_table:
        for number in range(12):
            single = [served.decide(form[number], random_state=3)[1] for form in contexts]
            assert max(single) - min(single) <= 1e-9, (contexts[0][number], single)


def contexts_of(log: SmallLog, convert: Any) -> list[dict[str, Any]]:
    """Return the contexts with converted values, and the candidates of lists."""
    rows = [{name: convert(value) for name, value in row.items()} for row in log.contexts.to_dict("records")]
    if log.row.kind != "lists":
        return rows
    arms = list_orders(log)
    return [{**row, "_multi": [{"arm": log.names[arm]} for arm in arms[at]]} for at, row in enumerate(rows)]


def expected_probabilities(log: SmallLog, actions: Any) -> np.ndarray:
    """Return the probability of decided actions by numpy."""
    chosen = np.asarray(actions)
    if log.row.kind == "lists":
        chosen = np.take_along_axis(list_orders(log), chosen.astype(int)[:, None], axis=1)[:, 0]
    elif log.row.kind == "single" and log.row.is_table:
        chosen = np.array([log.names.index(name) for name in chosen])
    return probabilities(policy_scores(log), log.row.kind == "labels", SHARE, chosen)


@relation()
def predict_has_the_policys_probabilities(case: Case) -> None:
    folder, log = case.new_folder(), case.log
    folder.mkdir(parents=True)
    path = folder / "actions.csv"
    answer = run("predict", case.policies[0], *case.files, "--output", path, "--seed", 4)
    assert answer.status == 0, answer.error
    table = pd.read_csv(path)
    labels = [*log.names] if case.row.is_table else [name for name in table if name != table.columns[-1]]
    actions = table[labels] if case.row.kind == "labels" else table[table.columns[-2]]
    np.testing.assert_allclose(table[table.columns[-1]], expected_probabilities(log, actions), rtol=0, atol=1e-9)


@relation(lambda row: row.is_table and row.kind != "lists" and shutil.which("node") is not None)
def exported_scorer_has_the_policys_probabilities(case: Case) -> None:
    folder = case.new_folder()
    folder.mkdir(parents=True)
    policy = json.loads(load_policy(case.policies[0]).to_json())
    contexts = contexts_of(case.log, lambda value: value)
    (folder / "run.mjs").write_text(SCORER, encoding="utf-8")
    (folder / "input.json").write_text(json.dumps([policy, contexts]), encoding="utf-8")
    command = ["node", str(folder / "run.mjs"), str(folder / "input.json")]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    scores = policy_scores(case.log)
    if case.row.kind == "labels":
        expected = (1 - SHARE) * expit(scores) + SHARE / 2
    else:
        expected = ((1 - SHARE) * softmax(scores, axis=1) + SHARE / 3)[:, np.argsort(case.log.names)]
    np.testing.assert_allclose(json.loads(output), expected, rtol=0, atol=1e-9)
