"""Policies for other systems: trees and linear policies as a SQL query and as a Python function without imports.

A tree is also a JSON value. All three forms have the same splits. A number goes left if it is at most ``at_most``. A
category goes left if it is one of ``values``, and right if it is one of ``others``. Missing values, and categories in
neither list, go to the side that the tree chose for them. A leaf that draws its action has ``probabilities``, without
the share of uniform actions. For a linear policy, both forms compute the score of each action from
numbers, booleans and one-hot categories, and the softmax of the scores.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib import resources
from itertools import count
from typing import Any

import numpy as np

from drcrm.errors import InputError
from drcrm.logs.encoding.columns import (
    BOOLEAN_TEXTS,
    DECIMAL,
    MISSING,
    MISSING_TEXTS,
    WHOLE_NUMBER,
    boolean_numbers,
    canonical_text,
)
from drcrm.logs.encoding.tables import TableEncoding
from drcrm.logs.policy_file import StoredPolicy
from drcrm.logs.serving.context_scores import export_policy
from drcrm.policies.trees.encoded_columns import BOOLEAN, CATEGORY, EncodedColumn
from drcrm.policies.trees.tree import ActionTree, Node, tree_of

OTHER_TIMES = "other systems read times differently: add a column with the hour or the weekday, and learn from it"
LARGEST = sys.float_info.max
TABLE, LEAF = "contexts", "policy_leaf"  # names of the table, and of the leaf's column in the query


def export_tree(stored: StoredPolicy) -> dict[str, Any]:
    """Return the tree of a policy as a JSON value; InputError with the reason if another system cannot use it."""
    tree: Any = tree_of(stored.policy)
    encoding: Any = stored.encoding
    if not isinstance(encoding, TableEncoding):
        raise InputError("only a policy on a table can be exported: its log has another format")
    derived = {name for name in encoding.known if name not in encoding.categorical}
    for node in tree.root.nodes():
        if node.children and tree.columns[node.column].name in derived:
            raise InputError(f"the tree splits by {tree.columns[node.column].name!r}, and {OTHER_TIMES}")
    return {
        "format": "drcrm-policy-tree",
        "version": 2,
        "names": list(encoding.names),
        "explore": stored.policy.explore,
        "booleans": boolean_texts(encoding),
        "tree": _as_dict(tree.root, tree, count(1)),
    }


def boolean_texts(encoding: TableEncoding) -> dict[str, int]:
    """Return 1 or 0 for each text of a boolean, in lower case."""
    return {text: int(value) for text, value in boolean_numbers(encoding.booleans).items()}


def _as_dict(node: Node, tree: ActionTree, numbers: Iterator[int]) -> dict[str, Any]:
    """Return a node; ``numbers`` are those of the leaves from left to right."""
    if not node.children:
        drawn = {"probabilities": [*map(float, node.probabilities)]} if node.probabilities else {}
        return {"leaf": next(numbers), "action": node.action} | drawn
    column: Any = tree.columns[node.column]
    split: dict[str, Any] = {"column": column.name, "kind": column.kind, "missing_left": bool(node.missing_left)}
    if column.kind == CATEGORY:
        left = int(min(node.cut, len(column.values) - 1)) + 1
        split |= {"values": list(column.values[:left]), "others": list(column.values[left:])}
    else:
        split["at_most"] = _last_left(column, float(node.cut))
    left_node, right_node = node.children
    return split | {"left": _as_dict(left_node, tree, numbers), "right": _as_dict(right_node, tree, numbers)}


def _last_left(column: EncodedColumn, cut: float) -> float:
    """Return the largest float that the encoding puts left of a cut; rounding makes it differ from the cut."""
    limit = column.encode(cut)
    if not cut < LARGEST:
        return LARGEST
    low, step = cut, np.spacing(max(abs(cut), abs(column.mean)))
    while column.encode(low + step) <= limit:
        low, step = low + step, 2 * step
    high = low + step
    while low < (middle := low + (high - low) / 2) < high:
        low, high = (middle, high) if column.encode(middle) <= limit else (low, middle)
    return float(low)


def _nodes(node: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a node and all nodes below it, from left to right."""
    return [node] if "leaf" in node else [node, *_nodes(node["left"]), *_nodes(node["right"])]


def leaf_probabilities(content: dict[str, Any]) -> dict[int, list[float]]:
    """Return the probabilities of all actions in each leaf, with the share of uniform actions, by the leaf's number."""
    explore, K = content["explore"], len(content["names"])
    return {
        leaf["leaf"]: [
            explore / K + (1 - explore) * share
            for share in leaf.get("probabilities", [float(place == leaf["action"]) for place in range(K)])
        ]
        for leaf in _nodes(content["tree"])
        if "leaf" in leaf
    }


def new_columns(names: Sequence[str], features: Iterable[str]) -> list[str]:
    """Return names of columns that a query adds, with a number if a feature or an earlier name is equal.

    Databases ignore the case of names, even of quoted ones.
    """
    used, columns = {name.lower() for name in features}, []
    for name in names:
        numbered = (name if number == 1 else f"{name}_{number}" for number in count(1))
        columns.append(next(column for column in numbered if column.lower() not in used))
        used.add(columns[-1].lower())
    return columns


def tree_sql(content: dict[str, Any], features: Iterable[str]) -> str:
    """Return a query that adds the leaf, its most likely action and the probability of each action to rows.

    ``features`` are the columns of the features in the table, also those that the tree does not use.
    """
    names, leaves = list(map(str, content["names"])), leaf_probabilities(content)
    leaf, best_action, *of_shares = new_columns([LEAF, "best_action", *(f"p_{name}" for name in names)], features)
    best = {leaf: literal(names[row.index(max(row))]) for leaf, row in leaves.items()}
    shares = [{leaf: repr(row[place]) for leaf, row in leaves.items()} for place in range(len(names))]
    columns = {best_action: best, **dict(zip(map(identifier, of_shares), shares, strict=True))}
    return "\n".join(
        [
            "-- The leaf of a policy tree, its most likely action, and the probability of each action with its share",
            f"-- of exploration. Replace {TABLE} by your table. Numbers must be numbers or NULL.",
            "-- Categories are compared as texts.",
            "SELECT decided.*,",
            ",\n".join(f"  {_by_leaf(values, leaf)} AS {name}" for name, values in columns.items()),
            "FROM (",
            f"  SELECT {TABLE}.*,",
            f"{_case(content['tree'], content, '    ')} AS {leaf}",
            f"  FROM {TABLE}",
            ") decided",
        ]
    )


def _by_leaf(values: dict[int, str], column: str) -> str:
    """Return the value of the leaf in a column as an expression; the value that most leaves have follows ELSE."""
    usual = max(values.values(), key=[*values.values()].count)
    cases = [f"WHEN {leaf} THEN {value}" for leaf, value in values.items() if value != usual]
    return f"CASE {column} {' '.join(cases)} ELSE {usual} END" if cases else usual


def _case(node: dict[str, Any], content: dict[str, Any], pad: str) -> str:
    """Return the expression of a node; the condition is never true for a missing value, which so takes the ELSE."""
    if "leaf" in node:
        return f"{pad}{node['leaf']}"
    column, (first, second) = identifier(node["column"]), ("left", "right")
    if node["missing_left"]:
        first, second = second, first
    if node["kind"] == CATEGORY:
        values = [text for value in node["others" if node["missing_left"] else "values"] for text in spellings(value)]
        condition = f"CAST({column} AS VARCHAR) IN ({', '.join(map(literal, values))})" if values else "1 = 0"
    else:
        value, limit = boolean_number(column, content) if node["kind"] == BOOLEAN else column, f"{node['at_most']:.16e}"
        condition = f"{value} <= {limit}"
        if node["missing_left"]:
            is_number = "" if node["kind"] == BOOLEAN else f" AND {value} <= {LARGEST:.16e}"  # NaN may be the largest
            condition = f"{value} > {limit}{is_number}"
    branches = [_case(node[side], content, pad + "  ") for side in (first, second)]
    return f"{pad}CASE WHEN {condition} THEN\n{branches[0]}\n{pad}ELSE\n{branches[1]}\n{pad}END"


def boolean_number(column: str, content: dict[str, Any]) -> str:
    """Return 1 or 0 for a column of booleans, of their texts, or of numbers."""
    text = f"TRIM(CAST({column} AS VARCHAR))"
    parts = [f"WHEN {text} IN ({', '.join(map(literal, sorted(MISSING_TEXTS)))}) THEN NULL"]
    for number in (1, 0):
        texts = [text for text, value in content["booleans"].items() if value == number]
        parts.append(f"WHEN LOWER({text}) IN ({', '.join(map(literal, texts))}) THEN {number}")
    return f"CASE {' '.join(parts)} ELSE CAST({column} AS DOUBLE PRECISION) END"


def spellings(value: str) -> list[str]:
    """Return the texts that a database may have for a category: also 3.0 for 3, and True for true."""
    spellings = [value, *(text for text, canonical in BOOLEAN_TEXTS.items() if canonical == value)]
    return [*spellings, f"{value}.0"] if canonical_text(f"{value}.0") == value else spellings


def identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def tree_python(content: dict[str, Any]) -> str:
    """Return the source of a function without imports that returns the probability of each action."""
    texts = {text for node in _nodes(content["tree"]) for key in ("values", "others") for text in node.get(key, ())}
    head = python_source("    leaves = $LEAVES\n", content | {"leaves": leaf_probabilities(content)}, texts)
    return head + "\n".join(_branches(content["tree"], "    ")) + "\n"


def python_source(body: str, content: dict[str, Any], texts: set[str]) -> str:
    """Return a Python function with a body, and helpers that read numbers and the given ``texts`` of categories.

    In the body, $KEY is the value of a key of the content.
    """
    numbers = [text for text in sorted(texts - {""}) if DECIMAL.fullmatch(text) or WHOLE_NUMBER.fullmatch(text)]
    constants = {key.upper(): value for key, value in content.items()} | {
        "MISSING": sorted(MISSING_TEXTS),
        "NUMBERS": {float(text): text for text in numbers},
        "BOOLEAN_TEXTS": BOOLEAN_TEXTS,
    }
    head = resources.files(__package__).joinpath("function.py.txt").read_text("utf-8")
    return re.sub(r"\$([A-Z_]+)", lambda match: repr(constants[match[1]]), head + body)


def _branches(node: dict[str, Any], pad: str) -> list[str]:
    """Return the lines of a node."""
    if "leaf" in node:
        return [f"{pad}return dict(zip(names, leaves[{node['leaf']}]))"]
    key, is_left = node["column"], node["missing_left"]
    if node["kind"] == CATEGORY:
        values, negated = (node["others"], "not ") if is_left else (node["values"], "")
        lines = [f"{pad}if category(context[{key!r}]) {negated}in {values!r}:"]
    else:
        missing = "value is None or" if is_left else "value is not None and"
        lines = [f"{pad}value = number(context[{key!r}])", f"{pad}if {missing} value <= {node['at_most']!r}:"]
    return [*lines, *_branches(node["left"], pad + "    "), *_branches(node["right"], pad)]


LARGEST_POWER = 700  # of e in the query; powers of this size are floats, and some databases refuse larger ones
ZERO_ONE = 1e-9  # tolerance of the variance m (1 − m) of a column of 0 and 1 with mean m

REFUSED = {  # types of features that SQL and Python without imports cannot compute
    "hour": OTHER_TIMES,
    "weekday": OTHER_TIMES,
    "hashed": "its categories are hashed, which SQL and Python without imports cannot compute",
}
BODY = """\
    explore, scores = $EXPLORE, $INTERCEPT
    for feature in $FEATURES:
        terms = [0.0] * len(names)
        if feature["type"] == "category":
            value = category(context[feature["name"]])
            terms = feature["coef"].get("" if value is None else value, terms)
        else:
            value = number(context[feature["name"]])
            if value is None:
                terms = feature["missing"] or terms
            else:
                terms = [(value - feature["mean"]) / feature["scale"] * weight for weight in feature["coef"]]
        scores = [score + term for score, term in zip(scores, terms)]
    powers = [2.718281828459045 ** (score - max(scores)) for score in scores]
    shares = [explore / len(names) + (1 - explore) * power / sum(powers) for power in powers]
    return dict(zip(names, shares))
"""


def export_plain(stored: StoredPolicy) -> dict[str, Any]:
    """Return the content of a linear policy; InputError with the reason if SQL and Python cannot compute it."""
    content = export_policy(stored)
    if content["kind"] != "single":
        raise InputError("only a policy of one of K actions can be exported as SQL or Python; use --format json")
    for feature in content["features"]:
        if feature["type"] in REFUSED:
            reason = (
                f"the policy uses the {feature['type']} feature {feature['name']!r}, and {REFUSED[feature['type']]}"
            )
            raise InputError(f"{reason}; or use --format json")
    encoding: Any = stored.encoding
    return content | {"booleans": boolean_texts(encoding)}


def linear_sql(content: dict[str, Any], features: Iterable[str]) -> str:
    """Return a query that adds the scores, the best action and the probability of each action to rows of a table.

    ``features`` are the columns of the features in the table.
    """
    names, explore = [str(name) for name in content["names"]], content["explore"]
    added = [*(f"score_{name}" for name in names), "best_action", *(f"p_{name}" for name in names)]
    added = new_columns(added, features)
    scores, best_action = [*map(identifier, added[: len(names)])], added[len(names)]
    best = [
        f"    WHEN {' AND '.join(f'{score} >= {later}' for later in scores[place + 1 :])} THEN {literal(name)}"
        for place, (score, name) in enumerate(zip(scores[:-1], names[:-1], strict=True))
    ]
    shares = []
    for share_column, score in zip(added[len(names) + 1 :], scores, strict=True):
        total = " + ".join(_power(f"{rival} - {score}") if rival != score else "1.0e0" for rival in scores)
        share = f"{explore / len(names):.16e} + {1 - explore:.16e} / ({total})"
        shares.append(f"  {share} AS {identifier(share_column)}")
    sums = []
    for place, constant in enumerate(content["intercept"]):
        terms = [f"    {constant:.16e}", *(_term(feature, place, content) for feature in content["features"])]
        sums.append("\n      + ".join(terms))
    return "\n".join(
        [
            "-- The scores and the best action of a linear policy, and the probability of each action with its share",
            f"-- of exploration. Replace {TABLE} by your table. Numbers must be finite, or NULL or NaN if missing.",
            "-- Categories are compared as texts; a NaN counts as missing.",
            "SELECT scored.*,",
            *("  CASE", *best, f"    ELSE {literal(names[-1])} END AS {best_action},"),
            ",\n".join(shares),
            "FROM (",
            f"  SELECT {TABLE}.*,",
            ",\n".join(f"{total}\n      AS {score}" for total, score in zip(sums, scores, strict=True)),
            f"  FROM {TABLE}",
            ") scored",
        ]
    )


def _power(exponent: str) -> str:
    """Return the power of e as an expression, for an exponent that is cut at ± LARGEST_POWER."""
    limits = f"WHEN {exponent} > {LARGEST_POWER} THEN {LARGEST_POWER} WHEN {exponent} < -{LARGEST_POWER}"
    return f"EXP(CASE {limits} THEN -{LARGEST_POWER} ELSE {exponent} END)"


def _term(feature: dict[str, Any], place: int, content: dict[str, Any]) -> str:
    """Return the term of a feature in the score of an action; a comparison with NULL or NaN is not true."""
    column, coef = identifier(feature["name"]), feature["coef"]
    if feature["type"] == "category":
        cases = [
            f"WHEN {literal(text)} THEN {of_value[place]:.16e}"
            for value, of_value in coef.items()
            for text in (spellings(value) if value != MISSING else [MISSING, "nan"])
        ]
        return f"CASE COALESCE(CAST({column} AS VARCHAR), '') {' '.join(cases)} ELSE 0.0e0 END"
    mean, scale = feature["mean"], feature["scale"]
    is_boolean = abs(scale**2 - mean * (1 - mean)) < ZERO_ONE or (scale == 1 and mean in (0, 1))
    value = boolean_number(column, content) if is_boolean else column
    missing = feature["missing"][place] if feature["missing"] else 0.0
    standardised = f"({value} - {mean:.16e}) / {scale:.16e}"
    return f"CASE WHEN {value} <= {LARGEST:.16e} THEN {standardised} * {coef[place]:.16e} ELSE {missing:.16e} END"


def linear_python(content: dict[str, Any]) -> str:
    """Return the source of a function without imports that returns the probability of each action."""
    texts = {text for part in content["features"] if part["type"] == "category" for text in part["coef"]}
    return python_source(BODY, content, texts)
