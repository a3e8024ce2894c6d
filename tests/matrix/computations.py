"""Relations of answers and decisions to independent computations: by numpy, the library and the exported scorer."""

from __future__ import annotations

import json
import shutil
import subprocess
import warnings
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit, softmax

from drcrm import ActionLists, BanditLog, off_policy_value, read_log
from drcrm.certificates import policy_certificate
from drcrm.logs.policy_file import read_policy
from drcrm.logs.serving.served_policy import load_policy
from matrix.cases import SHARE, Case, model_effects, policy_probabilities, policy_scores, probabilities
from matrix.commands import assert_same_numbers, is_close, run
from matrix.logs import (
    MOST_ROWS,
    UNITS,
    SmallLog,
    arrays_of,
    events_of,
    list_orders,
    logging_probabilities,
    mapping_of,
    table_of,
)
from matrix.relations import relation, with_row

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


@relation(lambda row: row.propensity != "estimated")
def estimates_by_numpy(case: Case) -> None:
    """The estimates are those of their formulas, with the policy computed by numpy from the raw contexts."""
    estimates = {name: entry["value"] for name, entry in case.numbers["estimates"].items() if entry}
    expected = expected_estimates(case)
    for name in expected.keys() & estimates.keys():
        assert is_close(expected[name], estimates[name], 1e-9), (name, expected[name], estimates[name])


@relation(lambda row: row.is_watched and row.propensity != "estimated")
def looks_are_about_the_mean_per_row(case: Case) -> None:
    """At every look the target is that of one look, also if groups have different sizes."""
    running, expected = case.answer.json["running"], expected_estimates(case)
    if running["estimate"] in expected:
        assert is_close(running["value"], expected[running["estimate"]], 1e-9), (running, expected)
    if case.row.reference != "baseline" and "ips" in running["estimate"]:
        difference = expected["ips"] - expected["logging"]
        assert is_close(running["difference"], difference, 1e-9, abs(expected["ips"])), (running, expected)


def expected_estimates(case: Case) -> dict[str, float]:
    """Return the estimates by numpy; at every look those of centred costs, o + w (c − o) for the origin o."""
    log, h = case.log, case.log.weight / case.log.weight.sum()
    w = policy_probabilities(log) / log.propensity
    origins = {"once": 0.0, "anytime": h @ (w * log.cost) / (h @ w), "asymptotic": h @ log.cost}
    origin = origins[case.row.look]
    if (case.answer.json["running"] or {}).get("estimate") == "dr":
        origin = 0.0
    expected = {"ips": origin + h @ (w * (log.cost - origin)), "snips": h @ (w * log.cost) / (h @ w)}
    if case.numbers["unsupported"] == 0:
        expected["dm"], expected["dr"] = modelled_costs(log, w, h)
    assert is_close(h @ log.cost, case.answer.json["logging"]["value"], 1e-9)
    return expected | {"logging": float(h @ log.cost)}


def modelled_costs(log: SmallLog, w: np.ndarray, h: np.ndarray) -> tuple[float, float]:
    """Return the direct estimate and the doubly robust one with the fixed cost model."""
    scores, effects = policy_scores(log), model_effects(log)
    if log.row.kind == "labels":
        mean = 0.9 * expit(scores) + 0.05
        direct, logged = ((effects[:, :2] * part).sum(axis=1) + effects[:, 2] for part in (mean, log.action))
    else:
        mean, effects = 0.9 * softmax(scores, axis=1) + 0.1 / 3, np.clip(effects, *log.cost_range)
        direct, logged = (mean * effects).sum(axis=1), effects[np.arange(log.n), log.action]
    return float(h @ direct), float(h @ (direct + w * (log.cost - logged)))


@relation()
def estimates_are_inside_their_bounds(case: Case) -> None:
    entries = [case.numbers["certificate"], case.numbers["difference"], *_rails(case)]
    for entry in entries:
        for low, high in (("value", "bound"), ("value", "high"), ("low", "value"), ("lower_bound", "value")):
            ends = entry.get(low), entry.get(high)
            assert None in ends or ends[0] <= ends[1] + 1e-12 * abs(ends[1]), (low, high, entry)
    if running := case.answer.json["running"]:
        assert running["value"] <= running["bound"]
        lower = running["difference_lower"]  # None if it is refused
        assert lower is None or lower <= running["difference"] + 1e-12
        assert running["difference"] <= running["difference_bound"]


def _rails(case: Case) -> list[dict[str, Any]]:
    return [rail["difference"] for rail in case.answer.json["guardrails"] if case.row.guardrail == "absolute"]


@relation(lambda row: row.extra == "slices")
def slices_add_up(case: Case) -> None:
    slices, total = case.answer.json["slices"], case.log.n
    assert sum(part["rows"] for part in slices) == total
    for key, expected in (("logging", case.answer.json["logging"]["value"]), ("policy", _dr_value(case))):
        mean = sum(part["rows"] * part[key] for part in slices) / total
        assert expected is None or is_close(mean, expected, 1e-9), (key, mean, expected)


def _dr_value(case: Case) -> float | None:
    """Return the doubly robust estimate if the answer's slices have it; a ratio does not add up."""
    estimates = case.numbers["estimates"]
    return estimates["dr"]["value"] if case.numbers["certificate"].get("estimate") == "dr" else None


@relation(lambda row: row.guardrail != "none" and (row.estimate in ("ips", "snips") or row.look == "anytime"))
def guardrail_is_an_outcome(case: Case) -> None:
    """A guardrail has the numbers of the same question about its outcome."""
    rail = case.answer.json["guardrails"][0]
    is_reward = case.row.outcome == "negative_mean"
    ends = (-1.0, 2.0) if is_reward else (0.0, 1.0)
    log = replace(with_row(case.log, guardrail="none", shift="none"), cost=case.log.guard, cost_range=ends)
    log = replace(log, is_reward=case.log.is_reward)
    answer = case.ask(log, options=None).json["candidates"][0]["difference"]
    keys = ("value", "bound") if case.row.guardrail == "absolute" else ("value",)
    for key in keys:
        assert is_close(rail["difference"][key], answer[key], 1e-9), (key, rail["difference"], answer)


@relation(lambda row: row.units == "pdrop")
def kept_events_are_single_observations(case: Case) -> None:
    """A kept event of weight 2 is a group of two copies. If all events have weight 2, weights change nothing."""
    log, weight = case.log, np.round(case.log.weight).astype(int)
    copies, policy = np.repeat(np.arange(log.n), weight), policy_probabilities(log)
    events, copied = read_log(case.files, mapping_of(log)), library_log(with_row(log, units="rows").take(copies))
    copied = copied.replace(propensity=events.propensity[copies])
    options = {"estimate": "snips", "baseline": "logging", "check_tails": False}
    first = policy_certificate(policy, events, **options)
    second = policy_certificate(policy[copies], copied, groups=copies, **options)
    assert is_close(first.value, second.value), (first, second)
    assert is_close(first.bound, second.bound), (first, second)
    halved = log.take(np.flatnonzero(log.dropped > 0))
    plain = with_row(replace(halved, dropped=np.zeros(halved.n)), units="rows")
    assert_same_numbers(case.ask(plain).json, case.ask(halved).json)


@relation(lambda row: row.units == "count")
def counts_are_copies(case: Case) -> None:
    """In the library, a count of m is m rows, each its own unit."""
    log = case.log.take(np.repeat(np.arange(case.log.n), case.log.count))
    log = replace(log, count=np.ones(log.n, dtype=int))
    policy = load_policy(case.policies[0]).policy
    for method in ("kl", "student"):
        options = {"method": method, "estimate": "ips", "baseline": "logging", "check_tails": False}
        counted, copied = (policy_certificate(policy, library_log(part), **options) for part in (case.log, log))
        assert is_close(counted.value, copied.value), (counted, copied)
        assert is_close(counted.bound, copied.bound), (counted, copied)
        assert counted.n == copied.n == log.n


@relation(lambda row: row.propensity != "estimated")
def commands_agree_with_the_library(case: Case) -> None:
    """The commands and the library's functions have the same numbers on the same rows."""
    row, certificate, difference = case.row, case.numbers["certificate"], case.numbers["difference"]
    if "refused" in certificate:
        return
    log, stored = logs_in_memory(case), read_policy(case.policies[0])
    policy: Any = policy_probabilities(case.log) if row.reference == "column" else stored.policy
    baseline = read_policy(case.policies[1]).policy if row.reference == "baseline" else "logging"
    options: dict[str, Any] = {"estimate": certificate["estimate"]}
    grouped = {"count": np.arange(case.log.n)} | dict.fromkeys(UNITS, case.log.group)  # commands observe a row once
    options |= {"groups": grouped[row.units]} if row.units in grouped else {}
    options |= {"cost_model": stored.model} if row.reference != "column" else {}
    options |= {"shift": 0.05} if row.shift == "shift" else {}
    with warnings.catch_warnings(action="ignore"):
        if not row.is_watched:
            for reference, entry in ((None, certificate), (baseline, difference)):
                value = off_policy_value(policy, log, baseline=reference, **options)
                is_charged = entry is certificate and entry["missing"]  # then the value is that of the charged terms
                assert is_charged or is_close(value, entry["value"], 1e-9), (reference, value, entry)
        options |= {"cost_range": case.log.cost_range if "cost_range" in mapping_of(case.log) else None}
        options |= {"full_support": row.reference == "baseline"}
        if row.look == "anytime":
            options |= {"method": "anytime", "cost_range": case.log.cost_range, "cost_model": None}
            options |= {"least_propensity": 0.05} if row.reference == "baseline" else {}
            options |= {"most_rows": MOST_ROWS}
        if row.look == "once" or (row.look == "anytime" and row.extra != "time"):  # bets follow the order of time
            for reference, entry in ((None, certificate), (baseline, difference)):
                found = policy_certificate(policy, log, baseline=reference, **options)
                assert is_close(found.bound, entry["bound"], 1e-9), (reference, found, entry)
                is_charged = entry is certificate and not row.is_watched and entry["missing"]
                assert not is_charged or is_close(found.value, entry["value"], 1e-9), (found, entry)
    if not row.is_watched and row.estimate == "auto":
        options_of_command = ("--baseline", case.policies[1]) if row.reference == "baseline" else ()
        answer = case.ask(case.log, "evaluate_policy", options=options_of_command).json
        assert_same_numbers(case.answer.json, {**answer, "verdict": case.answer.json["verdict"]})


def logs_in_memory(case: Case) -> BanditLog:
    """Return the log of a case as the library reads it."""
    if case.row.format in ("npz", "arrays"):
        return library_log(case.log)
    if not case.row.is_table:
        return read_log(case.files, mapping_of(case.log))
    contexts = load_policy(case.policies[0]).encoding.contexts(table_of(case.log))
    action = arrays_of(with_row(case.log, units="rows"))["Y"]
    log = BanditLog(contexts, action, case.log.propensity, case.log.cost)
    if case.row.propensity != "weights":
        return log
    return log.replace(actions=log.actions.with_logging_mean(logging_probabilities(case.log)))


def library_log(log: SmallLog) -> BanditLog:
    """Return the log of the arrays, in memory."""
    arrays = arrays_of(with_row(log, format="npz"))
    X = ActionLists(arrays["X"], arrays["starts"]) if "starts" in arrays else arrays["X"]
    return BanditLog(X, arrays["Y"], arrays["propensity"], log.cost, count=log.count)
