"""Relations between answers: the same question in another form has the same answer, and ``learn`` tests on later rows.

Each function takes a case and raises AssertionError if the relation does not hold. A row
has the relation if ``applies`` of the row is true.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from drcrm.logs.policy_file import read_policy, write_policy
from drcrm.policies.base import MixturePolicy
from matrix.cases import LOGGING, Case, earlier_log, write_fixed_policies, write_log
from matrix.commands import assert_same_numbers, is_close, numbers_of, run
from matrix.logs import CATEGORIES, SmallLog, mapping_of
from matrix.options import Row

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


FAST = {
    "estimator": "KLDRO",
    "parameter": "radius",
    "grid": [0.01],
    "options": {"estimate": "dr", "start": "model", "tilt": "auto"},
}


def learn(case: Case, log: SmallLog) -> dict:
    """Return the answer of ``learn`` with held-out rows or with blocks."""
    row, folder = case.row, case.new_folder()
    content = {key: value for key, value in mapping_of(log).items() if value != "absent" and key != "slice"}
    files, options = write_log(log, folder), ["--validation", row.validation, "--output", folder / "policy.npz"]
    options += ["--baseline", case.policies[1]] if row.reference == "baseline" else []
    answer = run("learn", *files, "--config", json.dumps(content | {"algorithm": FAST}), *options)
    assert answer.status == 0, answer.error
    return answer.json


@relation()
def learn_tests_on_rows_that_follow(case: Case) -> None:
    """Blocks follow one another, and are inside their intervals; without blocks, a share of the rows is held out."""
    answer, row = learn(case, case.log), case.row
    if row.validation == "holdout":
        log = answer["log"]
        assert "blocks" not in answer
        assert 0 < log["heldout"] <= log["rows"] - log["training"] < log["rows"]
        return
    blocks = answer["blocks"]
    assert len(blocks) == 3
    assert all(block["low"] <= block["change"] <= block["high"] for block in blocks)
    if row.extra == "time":  # texts of dates; a group is in the block of its first row
        assert all(block["first"] <= block["last"] for block in blocks)
        assert all(block["first"] < later["first"] for block, later in pairwise(blocks))
    else:
        assert all(later["first"] == block["last"] + 1 for block, later in pairwise(blocks))
        assert all(block["rows"] == block["last"] - block["first"] + 1 for block in blocks)
        assert blocks[0]["first"] == 1 + blocks[-1]["last"] - sum(block["rows"] for block in blocks)


@relation(lambda row: row.outcome == "cost" and row.guardrail != "percent")
def learn_does_not_depend_on_a_constant(case: Case) -> None:
    low, high = case.log.cost_range
    moved = replace(case.log, cost=case.log.cost + 5, cost_range=(low + 5, high + 5))
    first, second = (np.array(changes_of(learn(case, log))) for log in (case.log, moved))
    np.testing.assert_allclose(second, first, rtol=1e-3, atol=1e-6)


def changes_of(answer: dict) -> list[float]:
    """Return the estimated change of each block, or else of the best candidate."""
    if "blocks" in answer:
        return [block["change"] for block in answer["blocks"]]
    return [entry["difference"]["value"] for entry in answer["candidates"] if "difference" in entry][:1]
