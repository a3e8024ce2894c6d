"""Conflicts between the keys of a mapping, which a schema cannot express."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from drcrm.mapping.log_mapping import LogMapping

VALIDATIONS = HOLDOUT, BLOCKS = "holdout", "blocks"
OUTCOMES = (  # keys whose columns are unknown when an action is chosen
    *("action", "labels", "list", "chosen", "propensity", "reward", "cost"),
    "candidate",
)
FEATURES = {"numeric": "numeric", "categorical": "categorical", "time": "times"}  # keys and attributes


def find_conflicts(mapping: LogMapping, has_null: bool, has_split: bool) -> Iterator[str]:
    """Yield a message for each conflict between keys."""
    for first, second in (("action", "labels"), ("reward", "cost"), ("action", "list"), ("labels", "list")):
        if getattr(mapping, first) and getattr(mapping, second):
            yield f"mapping has {first} and {second}, expected only one of them"
    for first, second in (("list", "chosen"), ("chosen", "list")):
        if getattr(mapping, first) and not getattr(mapping, second):
            yield f"mapping has {first}, but no {second}: a row for each candidate of a list needs both columns"
    if has_null and mapping.propensity_model is None:
        yield "propensity is null; name a column, or add propensity_model: auto"
    if (mapping.propensity or mapping.known_propensity) and mapping.propensity_model:
        known = "a column" if mapping.propensity else "known"
        yield f"propensity_model is {mapping.propensity_model!r}, but propensity is {known}; expected only one of them"
    if mapping.limits and (mapping.labels or mapping.list):
        yield "limits and budget need one of K actions per row, but the mapping has labels or a list; remove the limits"
    if mapping.rule and mapping.labels:
        yield "propensity is a rule, but the actions are label vectors; expected action or list, or a column"
    if mapping.weights and not mapping.action:
        yield "propensity has weights, so the mapping must have action; weights of labels and lists cannot be read"
    if mapping.validation == BLOCKS and has_split:
        yield f"split is {mapping.split!r}, but validation: blocks holds out no rows: remove one of them"
    if mapping.deploy is not None and mapping.validation != BLOCKS:
        yield f"deploy is {mapping.deploy!r}, but only validation: blocks has policies of blocks: set both, or neither"
    kind, share = mapping.split_rule
    if not 0 < share < 1:
        yield f"split is {mapping.split!r}, expected a text such as 'random 25 %', with a share between 0 and 100 %"
    if kind == "group" and mapping.group is None:
        yield f"split is {mapping.split!r}, but the mapping has no group; name the column of the groups"
    low, high = mapping.cost_range or (0, 1)
    if not low < high:
        yield f"cost_range is {[low, high]!r}, expected [least, largest], with least < largest"
    try:
        codecs.lookup(mapping.encoding or "utf8")
    except LookupError:
        yield f"encoding is {mapping.encoding!r}, expected an encoding such as 'cp1252', 'latin-1' or 'utf-16'"
    yield from _shared_columns(mapping)


def _shared_columns(mapping: LogMapping) -> Iterator[str]:
    """Yield a message for each column with two meanings; only ``time`` and the rule may also be features."""
    outcomes = [(key, getattr(mapping, key) or ()) for key in OUTCOMES]
    outcomes.append(("the outcome of a guardrail", mapping.guardrail_columns))
    outcomes.append(("weights of propensity", mapping.weights or ()))
    features = [(f"a {key} feature", getattr(mapping, attribute) or ()) for key, attribute in FEATURES.items()]
    alone = [[*outcomes, (key, column or ())] for key, column in (("time", mapping.time), ("rule", mapping.rule))]
    alone.append([*features, ("the price of budget", mapping.price_column or ())])
    for roles in ([*outcomes, ("id", mapping.id or ()), *features], *alone):
        role_of: dict[str, str] = {}
        for role, columns in roles:
            for column in [columns] if isinstance(columns, str) else columns:
                if role_of.setdefault(column, role) != role:
                    yield f"{column!r} is {role_of[column]} and {role}, expected a different column for each"
