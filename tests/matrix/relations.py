"""Relations between answers: the same question in another form has the same answer.

Each function takes a case and raises AssertionError if the relation does not hold. A row
has the relation if ``applies`` of the row is true.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import expit, softmax

from drcrm import ActionLists, BanditLog, off_policy_value, read_log
from drcrm.certificates import policy_certificate
from drcrm.logs.policy_file import read_policy, write_policy
from drcrm.logs.serving.served_policy import load_policy
from drcrm.policies.base import MixturePolicy
from matrix.cases import Case
from matrix.commands import assert_same_numbers, is_close, numbers_of
from matrix.logs import CATEGORIES, MOST_ROWS, UNITS, SmallLog, arrays_of, logging_probabilities, mapping_of, table_of
from matrix.options import Row
from matrix.policies import (
    LOGGING,
    earlier_log,
    model_effects,
    policy_probabilities,
    policy_scores,
    write_fixed_policies,
)

Applies = Callable[[Row], bool]
RELATIONS: dict[str, tuple[Callable[[Case], None], Applies]] = {}
TABLES = ("csv", "parquet", "jsonl")


def relation(applies: Applies = lambda row: True) -> Callable:
    """Register a relation that applies to some rows."""

    def register(check: Callable[[Case], None]) -> Callable[[Case], None]:
        RELATIONS[check.__name__] = check, applies
        return check

    return register


def relations_of(row: Row) -> list[str]:
    """Return the names of the relations that apply to a row."""
    return [name for name, (_, applies) in RELATIONS.items() if applies(row)]


def has_columns(row: Row) -> bool:
    """Return whether the question needs a table with named columns."""
    return (
        row.units.startswith("groups")
        or row.propensity in ("rule", "weights")
        or row.reference == "column"
        or (row.guardrail != "none" or row.extra != "none")
    )


def with_row(log: SmallLog, **options: str) -> SmallLog:
    """Return the log with other options, such as its format."""
    return replace(log, row=log.row._replace(**options))


@relation(lambda row: row.is_table)
def another_table_format(case: Case) -> None:
    place = (*TABLES, "frame").index(case.row.format)
    same = with_row(case.log, format=TABLES[(place + 1) % 3], files="one")
    assert_same_numbers(case.answer.json, case.ask(same).json)


@relation(lambda row: row.propensity != "estimated" and not has_columns(row) and row.units == "rows")
def another_kind_of_file(case: Case) -> None:
    """A table, arrays and events have the same rows. Estimated propensities depend on the encoding."""
    forms = ["npz", "dsjson", "csv"] if case.row.kind == "lists" else ["npz", "csv"]
    for form in forms:
        if form != case.row.format and (form == "csv") != case.row.is_table:
            other = with_row(case.log, format=form, files="one")
            if form == "dsjson" or case.row.format == "dsjson":
                other = replace(other, is_reward=case.log.is_reward)
            assert_same_numbers(case.answer.json, case.ask(other).json)


@relation(lambda row: row.format not in ("npz", "arrays"))
def another_number_of_files(case: Case) -> None:
    files = {"one": "several", "several": "folder", "folder": "one"}[case.row.files]
    assert_same_numbers(case.answer.json, case.ask(with_row(case.log, files=files)).json)


def has_folds(row: Row) -> bool:
    """Return whether the answer depends on folds of the rows in their order: of propensities, or of residuals."""
    return row.propensity == "estimated" or has_fitted_residuals(row) or (uses_model(row) and row.guardrail != "none")


def uses_model(row: Row) -> bool:
    return row.reference != "column" and row.estimate in ("auto", "dr") and row.look != "anytime"


def has_fitted_residuals(row: Row) -> bool:
    """Return whether the estimate smears residuals, which are fitted in folds, and for each action of one of K."""
    return uses_model(row) and row.shift == "shift"


@relation(lambda row: not has_folds(row) and (row.is_table or not row.is_watched))
def another_order(case: Case) -> None:
    """Rows are permuted, unless looks follow their order, and so are columns."""
    order = np.random.default_rng(5).permutation(case.log.n)
    log = case.log if case.row.is_watched else case.log.take(order)
    assert_same_numbers(case.answer.json, case.ask(replace(log, columns_reversed=True)).json)


@relation(lambda row: (row.is_table or row.format == "dsjson") and row.propensity != "estimated")
def other_names(case: Case) -> None:
    """Actions and categories have other names, in another order."""
    words = dict(zip(case.log.names, ("zeta", "alpha", "mid"), strict=False))
    log = replace(case.log, names=tuple(words.values()), contexts=rename_categories(case.log))
    assert_same_numbers(case.answer.json, case.ask(log, policies=rewrite_renamed(case, log)).json)


def rename_categories(log: SmallLog) -> Any:
    contexts = log.contexts.copy()
    for name in contexts.columns.intersection([*CATEGORIES]):
        words = {value: f"w{9 - place}" for place, value in enumerate(CATEGORIES[name])}
        contexts[name] = [None if value is None else words[value] for value in contexts[name]]
    return contexts


def rewrite_renamed(case: Case, log: SmallLog) -> Any:
    """Return policies that were learned from an earlier log with the new names."""
    earlier = earlier_log(log)
    return write_fixed_policies(log, case.new_folder(), earlier=replace(earlier, contexts=rename_categories(earlier)))


@relation(lambda row: row.units == "rows" and row.is_table)
def each_row_is_a_group(case: Case) -> None:
    log = with_row(case.log, units="rows")
    answer = case.ask(replace(log, group=np.arange(log.n)), group="user", most_rows=1).json
    for part in (answer["candidates"][0]["certificate"], answer.get("running") or {}):
        part.pop("by", None)
    assert_same_numbers(case.answer.json, answer)


@relation(lambda row: row.propensity in ("uniform", "constant", "rule"))
def known_propensities_as_a_column(case: Case) -> None:
    column = "p" if case.row.is_table else "absent"
    assert_same_numbers(case.answer.json, case.ask(case.log, propensity=column).json)


@relation(lambda row: row.propensity == "weights")
def weights_in_a_column_for_each_action(case: Case) -> None:
    """Instead of a column of lists, in another order of the actions."""
    names = case.log.names[::-1]
    columns = {"weights": [f"w_{name}" for name in names], "actions": list(names)}
    assert_same_numbers(case.answer.json, case.ask(case.log, propensity=columns).json)


@relation(lambda row: row.kind == "lists" and row.is_table)
def nested_candidates(case: Case) -> None:
    """A row for each decision with a list of objects, instead of a row for each candidate."""
    log = replace(case.log, is_nested=True)
    assert_same_numbers(case.answer.json, case.ask(log, policies=case.rewrite(log)).json)


@relation(lambda row: row.reference != "column")
def mixture_of_one_policy(case: Case) -> None:
    """A mixture of two policies that are the same is this policy."""
    stored = read_policy(case.policies[0], with_rows=True)
    path = case.new_folder() / "mixture.npz"
    path.parent.mkdir(parents=True)
    write_policy(path, replace(stored, policy=MixturePolicy([stored.policy, stored.policy], [0.25, 0.75])))
    assert_same_numbers(case.answer.json, case.ask(case.log, policies=[path, case.policies[1]]).json)


@relation(lambda row: row.format != "dsjson")
def reward_is_minus_cost(case: Case) -> None:
    log = replace(case.log, is_reward=not case.log.is_reward)
    assert_same_numbers(case.answer.json, case.ask(log, policies=case.rewrite(log)).json)


@relation()
def other_units_of_costs(case: Case) -> None:
    """Costs are multiplied, and shifted together with their range where the estimate has no zero of its own."""
    is_fixed = case.row.estimate == "ips" and not case.row.is_watched
    factor, shift = 1000.0, 0.0 if is_fixed else -7000.0
    costs = np.array(case.log.cost_range) * factor + shift
    log = replace(case.log, cost=case.log.cost * factor + shift, cost_range=(float(costs[0]), float(costs[1])))
    answer = case.ask(log, policies=case.rewrite(log)).json
    assert case.answer.json["verdict"]["verdict"] == answer["verdict"]["verdict"]
    first, second = case.numbers, answer["candidates"][0]
    for key in ("value", "bound", "low"):
        pair = first["difference"].get(key), second["difference"].get(key)
        assert is_close(factor * (pair[0] or 0), pair[1] or 0, 1e-9, 1000 * factor * 1e-3), (key, pair)
        pair = first["certificate"].get(key), second["certificate"].get(key)
        assert is_close(factor * pair[0] + shift if pair[0] else 0, pair[1] or 0, 1e-9), (key, pair)
    rails = zip(case.answer.json["guardrails"], answer["guardrails"], strict=True)
    assert all(numbers_of({"guardrails": [one]}) == numbers_of({"guardrails": [two]}) for one, two in rails)


def has_limited_weights(row: Row) -> bool:
    """Return whether a bound depends on the number of actions, which is unknown for lists."""
    return row.reference == "baseline" and row.look == "anytime"


@relation(
    lambda row: (
        row.kind == "single"
        and row.propensity not in ("estimated", "weights")
        and not (has_fitted_residuals(row) or has_limited_weights(row))
    )
)
def lists_of_the_same_actions(case: Case) -> None:
    log = with_row(case.log, kind="lists")
    assert_same_numbers(case.answer.json, case.ask(log, policies=case.rewrite(log)).json)


@relation()
def policy_is_its_own_baseline(case: Case) -> None:
    """A policy differs by 0 from itself."""
    row = case.row._replace(reference="baseline", shift="none", guardrail="none")
    if row.estimate == "dr" and case.row.reference == "column":
        return
    log = replace(case.log, row=row)
    answer = case.ask(log, policies=[case.policies[0]] * 2).json
    difference = answer["candidates"][0]["difference"]
    assert abs(difference["value"]) <= 1e-9 * (1 + max(map(abs, log.cost_range)))
    assert answer["verdict"]["verdict"] != "better"


@relation(lambda row: row.propensity in ("logged", "uniform", "constant") and row.reference != "column")
def logging_policy_differs_by_zero(case: Case) -> None:
    log = with_row(case.log, reference="logging", guardrail="none", shift="none", estimate="ips")
    policies = write_fixed_policies(log, case.new_folder(), (LOGGING, LOGGING))
    difference = case.ask(log, policies=policies).json["candidates"][0]["difference"]
    assert abs(difference["value"]) <= 1e-7 * (1 + max(map(abs, log.cost_range)))


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
