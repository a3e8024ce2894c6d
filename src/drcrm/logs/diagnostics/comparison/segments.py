"""A policy on parts of a log: slices, periods, and the leaves of a tree that explains it.

A slice has the rows with one value of a column. A period is a day, week, month, or the like, so that a log has 4 to 12
periods. The intervals of all slices and periods hold together: each has the level 1 − δ/M for M parts. A part has no
interval if rare, large costs dominate its estimate: see :mod:`drcrm.evaluation.bounds.asymptotic_bounds`.

If the policy is a tree, this tree explains it. Otherwise the explanation is the tree T of depth 2 that maximises
Σ_i π(T(x_i)|x_i) over the contexts of half of the rows. Its fidelity is the share of the other rows in which T(x) is
the policy's most likely action. The search sees no costs, so it does not bias the gains by leaf.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from drcrm.arrays.formats import format_signed, percent
from drcrm.data.bandit_log import BanditLog
from drcrm.data.folds import context_folds
from drcrm.estimates import SelfNormalised
from drcrm.evaluation.bounds.asymptotic_bounds import LARGEST_SKEWNESS, upper_skewness
from drcrm.evaluation.bounds.independent_units import Interval
from drcrm.logs.diagnostics.check import Check, Consequence, action_names, to_json, worst_level
from drcrm.logs.diagnostics.weight_checks import PolicyWeights
from drcrm.policies.trees import DEPTH
from drcrm.policies.trees.encoded_columns import readable_columns
from drcrm.policies.trees.search import fit_encoded_tree
from drcrm.policies.trees.tree import ActionTree, tree_of
from drcrm.weights import effective_sample_size

MAX_SLICES = 50  # slices of a column in the table; the slices with the most rows are kept
MIN_PERIODS, MAX_PERIODS = 4, 12
ENDS = "low", "high"
MOST_FITTED, MOST_ACTIONS = 2**15, 20  # contexts, evenly spaced if there are more; actions, those taken most often
TIE = 1e-9  # a most likely action may have a probability that much below the largest one


class Part(NamedTuple):
    """A part of a log: its kind, "slice", "period" or "leaf", its column, its name, and the mask of its rows, (n,)."""

    kind: str
    column: str
    name: str
    rows: np.ndarray

    @property
    def label(self) -> str:
        """The part as sentences name it."""
        if self.kind == "period":
            return f"the period {self.name!r}"
        return f"slice {self.name!r}" + (f" of {self.column}" if self.column else "")


def name_periods(time: np.ndarray) -> np.ndarray | None:
    """Return the name of each row's period, (n,); None if no unit of the calendar gives 4 to 12 periods.

    The units are a day, two days, a week, a month, a quarter and a year; the first that fits is taken. ``time`` is in
    microseconds since 1970. The names are in chronological order if they are sorted.
    """
    days = time.astype(np.int64).astype("datetime64[us]").astype("datetime64[D]").astype(np.int64)
    months = days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)
    units: tuple[tuple[np.ndarray, Callable[[int], str]], ...] = (
        (days, _day),
        (days // 2 * 2, lambda day: f"two days from {_day(day)}"),
        (days - (days + 3) % 7, lambda day: f"week of {_day(day)}"),  # 1970 began on a Thursday
        (months, lambda month: str(np.datetime64(month, "M"))),
        (months // 3, lambda quarter: f"{1970 + quarter // 4} Q{quarter % 4 + 1}"),
        (months // 12, lambda year: str(1970 + year)),
    )
    for codes, name in units:
        distinct, place = np.unique(codes, return_inverse=True)
        if MIN_PERIODS <= len(distinct) <= MAX_PERIODS:
            return np.array([name(int(code)) for code in distinct], dtype=object)[place]
    return None


def _day(day: int) -> str:
    return str(np.datetime64(day, "D"))


def natural_key(name: str) -> list[tuple[bool, float, str]]:
    """Return a sort key that orders numbers, also inside texts, by size: −5 before 9.5 before 10, and a2 before a10."""
    with suppress(ValueError):
        if np.isfinite(number := float(name)):
            return [(False, number, name)]
    pieces = re.findall(r"\d+(?:\.\d+)?|\D+", name)
    return [(not piece[0].isdecimal(), float(piece) if piece[0].isdecimal() else 0.0, piece) for piece in pieces]


def find_parts(log: BanditLog) -> list[Part]:
    """Return the slices of each column, the values in natural order, and the periods in order of time."""
    rows, description, parts = log.rows, log.description, []
    if rows is None or description is None:
        return []
    coded = [name for name in rows.columns if name.startswith("slice ")]
    names = description.mapping.slice_columns or [""] * len(coded)
    columns = [("slice", name, rows.texts(column)) for name, column in zip(names, coded, strict=True)]
    if description.is_dated:
        periods = name_periods(np.asarray(rows.get("time")))
        columns += [] if periods is None else [("period", "", periods)]
    for kind, column, values in columns:
        names, index = np.unique(values.astype(str), return_inverse=True)
        kept = np.argsort(-np.bincount(index, log.count), kind="stable")[:MAX_SLICES]
        ordered = sorted(kept, key=lambda number: natural_key(names[number]))
        parts += [Part(kind, column, str(names[number]), index == number) for number in ordered]
    return parts


def estimate_parts(weights: PolicyWeights, parts: Sequence[Part], confidence: float) -> list[dict[str, Any]]:
    """Return the estimates of a policy in each part as JSON values, and the action that it takes most often.

    The estimate is doubly robust if the weights have its terms, otherwise self-normalised. ``difference`` has the cost
    difference from the logging policy, with an interval that holds for all parts together.
    """
    level = 1 - (1 - confidence) / max(len(parts), 1)
    return [
        _estimate_part(weights, part, confidence, level) | _most_frequent_action(weights, part.rows) for part in parts
    ]


def _estimate_part(weights: PolicyWeights, part: Part, confidence: float, level: float) -> dict[str, Any]:
    log = weights.log.replace(X=np.zeros((weights.log.X.shape[0], 1)))  # the terms are known, so X is not needed
    log, weight = log.recount(log.count * part.rows), weights.weight[part.rows]
    terms = SelfNormalised(log.cost, log.count).terms(weight) if weights.z is None else weights.z[part.rows]
    value = Interval.of(terms, log, confidence)
    paired = Interval.of(terms - log.cost, log, level)
    residual = weights.residual[part.rows]
    residual, copies = residual * log.relative_weight, log.copies
    skewness = max(upper_skewness(weight - 1, sign * residual, copies, paired.n) for sign in (1, -1))
    ends = paired.interval if skewness <= LARGEST_SKEWNESS else (np.nan, np.nan)
    return to_json(
        {
            part.kind: part.name,
            **({"column": part.column} if part.column else {}),
            "rows": int(copies.sum()),
            "effective_size": effective_sample_size(weight * log.relative_weight, copies),
            "logging": log.count @ log.cost / log.size,
            "policy": float(value),
            **dict(zip(ENDS, value.interval, strict=True)),
            "difference": {"value": float(paired), **dict(zip(ENDS, ends, strict=True))},
        }
    )


def _most_frequent_action(weights: PolicyWeights, rows: np.ndarray) -> dict[str, object]:
    """Return the action or label that the policy takes most often on selected rows, and its share; empty for lists."""
    log = weights.log
    if weights.mean is None or not log.actions.are_shared:
        return {}
    count = np.bincount(log.context, log.count * rows, log.n_contexts)
    share = count @ weights.mean / count.sum()
    action = int(share.argmax())
    return {"action": str(action_names(log)[action]), "share": float(share[action])}


def check_differences(parts: Sequence[Part], estimates: Sequence[Mapping[str, Any]], confidence: float) -> Check | None:
    """Check the part in which the policy is most clearly worse than the logging policy; None without parts."""
    if not parts:
        return None
    pairs = [(part, entry["difference"]) for part, entry in zip(parts, estimates, strict=True)]
    decided = [(part, difference) for part, difference in pairs if difference["low"] is not None]
    name, source = "difference by slice", "Bonferroni correction"
    threshold = (
        f"no slice or period in which the policy is shown to be worse, at {percent(confidence)} for all together"
    )
    if not decided:
        sentence = "no slice or period has enough rows for an interval"
        return Check("slice_difference", "good", Consequence.NONE, name, None, threshold, sentence, source)
    part, difference = max(decided, key=lambda pair: pair[1]["low"])
    value, low = difference["value"], difference["low"]
    sentence = f"in {part.label}, the policy's cost per row minus the logging policy's is {format_signed(value)}"
    sentence += f", and at least {format_signed(low)}. The policy is worse there" if low > 0 else ", the worst of all"
    text, ends = (name, value, threshold, sentence, source), {end: difference[end] for end in ENDS}
    return Check("slice_difference", worst_level(False, low > 0), Consequence.NONE, *text, **ends)


class Explanation(NamedTuple):
    """A tree that explains a policy on a log.

    Attributes
    ----------
    tree : ActionTree
    actions : sequence of str
        Name of each action of the tree.
    leaf : int array (n,)
        The leaf of each row.
    fidelity : float
        Share of the tested rows in which the tree's action is the policy's most likely one.
    rows : int
        Number of tested rows. The tree was fitted to other rows.
    is_policy : bool
        Whether it is the policy's own tree.
    """

    tree: ActionTree
    actions: Sequence[str]
    leaf: np.ndarray
    fidelity: float
    rows: int
    is_policy: bool

    @property
    def leaves(self) -> list[Part]:
        """The rows of each leaf that has some; none if the tree has no split."""
        if not self.tree.root.children:
            return []
        parts = [Part("leaf", "", name, self.leaf == at) for at, name in enumerate(self.tree.leaf_conditions())]
        return [part for part in parts if part.rows.any()]

    def as_dict(self) -> dict[str, Any]:
        """Return the fidelity and the nodes of the tree, each before its children, as JSON values."""
        nodes = []
        for node, depth, parent, condition, path in self.tree.placed_nodes():
            entry: dict[str, Any] = {"depth": depth, "parent": parent if depth else None, "if": condition}
            leaf = {"leaf": " and ".join(path.values()), "action": node.describe(self.actions)}
            nodes.append(entry if node.children else entry | leaf)
        return {"fidelity": self.fidelity, "rows": self.rows, "is_policy": self.is_policy, "nodes": nodes}


def explain(policy: Any, log: BanditLog, mean: np.ndarray | None) -> Explanation | None:
    """Return the tree that explains a policy.

    Parameters
    ----------
    policy : Policy
    log : BanditLog
        Log without rows of count 0.
    mean : array (m, K) or None
        The policy's probabilities of all actions.

    Returns
    -------
    Explanation or None
        None if the actions are not one of K, if probabilities are unknown, or if no column is readable.
    """
    columns, tree = readable_columns(log), tree_of(policy)
    if mean is None or not log.actions.n_classes or not columns:
        return None
    fold, actions = context_folds(log, 2), np.arange(mean.shape[1])
    counts, tested = np.bincount(log.context, log.count, log.n_contexts), fold >= 0
    is_policy = tree is not None
    if tree is None:
        fitted, tested = np.flatnonzero(fold == 0), fold == 1
        if not tested.any():
            return None
        fitted = fitted[:: -(-len(fitted) // MOST_FITTED)]
        actions = np.sort(np.argsort(-(counts @ mean), kind="stable")[:MOST_ACTIONS])
        scores = counts[fitted, None] * mean[np.ix_(fitted, actions)]
        tree = fit_encoded_tree(columns, log.X[fitted], scores, counts[fitted], DEPTH)
    leaf = tree.apply_encoded(log.X)
    taken = actions[[of_leaf.action for of_leaf in tree.leaves]][leaf]
    is_likely = mean[np.arange(len(taken)), taken] >= mean.max(axis=1) - TIE
    names, rows = action_names(log), counts[tested].sum()
    fidelity = float(counts[tested] @ is_likely[tested] / rows)
    return Explanation(
        tree, [str(names[action]) for action in actions], leaf[log.context], fidelity, int(rows), is_policy
    )
