"""Reader of Vowpal Wabbit's text for contextual bandits.

A single action is a line ``action:cost:probability | features``. A list of actions is a block with a line per action.
Format: https://github.com/VowpalWabbit/vowpal_wabbit/wiki/Contextual-Bandit-algorithms
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import groupby
from typing import NamedTuple

from drcrm.errors import InputError, prefix_errors
from drcrm.logs.encoding.hashed_features import Pairs
from drcrm.logs.readers.decisions import Decision, Outcome, finite

Lines = Iterable[tuple[int, bytes]]
DESCRIPTION = "Vowpal Wabbit's text"
DEFAULT_VARIANT = False  # single actions
SHARED = "shared"
LABEL = re.compile(r"(\d{1,9}):([^:\s]+):([^:\s]+)")
# A tag is a word that begins with an apostrophe, or a word that the bar follows directly.
TAG = re.compile(rf"(?:^|\s)'\S*|(?:^|\s)(?!{SHARED}$|\d{{1,9}}(?:$|:))\S+$")
UNLABELLED = "blocks without a label"


class Line(NamedTuple):
    """A parsed line: its number, whether it is a shared line, its label if it has one, and its features."""

    row: int
    is_shared: bool
    label: Outcome | None
    features: Pairs


def detect_variant(lines: Lines) -> bool | None:
    """Return whether the text has lists of actions; None if lists and single actions are both possible.

    Only lists have lines without a label, and a list has at most one label. So the first two lines of a block decide.
    If every block has a single line with a label, both are possible. Raise InputError if the text is empty.
    """
    before, is_empty = None, True
    for line in _parsed(lines):
        if line and (before or line.label is None):
            return line.label is None
        before, is_empty = line, is_empty and not line
    if is_empty:
        raise InputError("is empty, expected lines such as 1:-1:0.5 | features")
    return None


def decisions(lines: Lines, of_lists: bool, skipped: Counter) -> Iterator[Decision]:
    """Yield the decisions of a text.

    Parameters
    ----------
    lines : iterable of (int, bytes)
        Lines with their numbers.
    of_lists : bool
        Whether the actions are listed, from ``detect_variant``.
    skipped : Counter
        Counts lists without a label.

    Raises
    ------
    InputError
        If a line has another format. The message has its number.
    """
    for block, decision in _blocks(lines, of_lists):
        with prefix_errors(f"row {decision.row}"):
            labels = [(place, line.label) for place, line in enumerate(block) if line.label]
            if len(labels) > 1:
                raise InputError(f"its block has {len(labels)} labels, expected one")
            if not labels and not of_lists:
                raise InputError("has no label, expected action:cost:probability like in earlier lines")
            if not of_lists and labels[0][1].action == 0:
                raise InputError("the action is 0, expected 1 or more")
        for place, label in labels:
            yield decision._replace(outcome=label._replace(action=place) if of_lists else label)
        if not labels:
            skipped[UNLABELLED] += 1


def contexts(lines: Lines, of_lists: bool) -> Iterator[Decision]:
    """Yield the contexts of a text, without outcomes."""
    return (decision for _, decision in _blocks(lines, of_lists))


def _blocks(lines: Lines, of_lists: bool) -> Iterator[tuple[list[Line], Decision]]:
    """Yield the lines of each decision's actions, and the decision. Empty lines separate lists."""
    if not of_lists:
        for line in filter(None, _parsed(lines)):
            yield [line], Decision(line.row, line.features)
        return
    for is_text, group in groupby(_parsed(lines), bool):
        if not is_text:
            continue
        block = [line for line in group if line]
        actions = block[1:] if block[0].is_shared else block
        with prefix_errors(f"row {block[0].row}"):
            if not actions or any(line.is_shared for line in actions):
                raise InputError(
                    "its block must have at least one action, and at most one shared line, which comes first"
                )
        shared = block[0].features if block[0].is_shared else []
        yield actions, Decision(block[0].row, shared, [line.features for line in actions])


def _parsed(lines: Lines) -> Iterator[Line | None]:
    """Yield parsed lines; None for an empty line."""
    for row, line in lines:
        with prefix_errors(f"row {row}"):
            try:
                text = line.decode("utf-8").strip(" \t\r\n\ufeff")
            except UnicodeDecodeError:
                raise InputError("is not UTF-8") from None
            parsed = _line(row, text) if text else None
        yield parsed


def _line(row: int, text: str) -> Line:
    if text.startswith("{"):
        raise InputError("is JSON, expected text such as 1:-1:0.5 | features. Name a dsjson file *.json or *.dsjson")
    before, bar, after = text.partition("|")
    label = (TAG.sub("", before) if bar else before).strip()
    if label in ("", SHARED):
        return Line(row, label == SHARED, None, _features(after) if bar else [])
    if not (match := LABEL.fullmatch(label)):
        raise InputError(
            f"its label is {label[:60]!r}, expected action:cost:probability (in a list, only for the logged action)"
        )
    outcome = Outcome(int(match[1]), _number(match[2], "its cost"), _number(match[3], "its probability"))
    return Line(row, False, outcome, _features(after) if bar else [])


def _features(text: str) -> Pairs:
    """Return the features in ``namespace:weight name name:value …|…``. Their names begin with the namespace."""
    pairs: Pairs = []
    for part in text.split("|"):
        namespace, weight = "", 1.0
        words = part.split()
        if words and not part[0].isspace():
            namespace, weight = _name_and_value(words.pop(0))
        pairs += [(f"{namespace}^{name}", weight * value) for name, value in map(_name_and_value, words)]
    return [(name, value) for name, value in pairs if value]


def _name_and_value(word: str) -> tuple[str, float]:
    name, *values = word.split(":")
    if len(values) > 1:
        raise InputError(f"{word[:60]!r} is not a feature, expected name or name:value")
    return name, _number(values[0], word[:60]) if values else 1.0


def _number(text: str, name: str) -> float:
    value: object = text
    with suppress(ValueError):
        value = text if "_" in text else float(text)
    return finite(value, name)
