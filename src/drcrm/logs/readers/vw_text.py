"""Vowpal Wabbit's text of contextual bandits: ``action:cost:probability | features``, and blocks of listed actions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import NamedTuple

import numpy as np

from drcrm.errors import InputError, prefix_errors
from drcrm.logs.encoding.named_features import Pairs
from drcrm.logs.readers.decisions import Decision

Lines = Iterable[tuple[int, bytes]]
CALLED = "Vowpal Wabbit's text"
LABEL = re.compile(r"(\d{1,9}):([^:\s]+):([^:\s]+)")
BARE = re.compile(r"\d{1,9}(:[^:\s]+)?")
SHARED = "shared"
USUAL = False  # lists of actions
UNLABELLED = "blocks without a label"


class Line(NamedTuple):
    """A line: its label, (action, cost, probability), and its features."""

    row: int
    is_shared: bool
    label: tuple[int, float, float] | None
    features: Pairs


def way_of(lines: Lines) -> bool | None:
    """Return whether text is of lists: of blocks with an action a line, one of them labelled; else all lines are.

    None where all lines are, each apart, which is either; InputError where there are none.
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
    """Give the decisions of lines: of listed actions, of which those without a label are counted; or of single ones.

    Parameters
    ----------
    lines : iterable of (int, bytes)
        With their numbers.
    of_lists : bool
        As ``way_of`` tells it.
    skipped : Counter
        To which is added, by reason.

    Raises
    ------
    InputError
        A line that is no such text, with its number.
    """
    if not of_lists:
        for line in _lines(lines):
            with prefix_errors(f"row {line.row}"):
                if line.label is None:
                    raise InputError("is of a list of actions, expected a label, as the lines before have one")
                if line.label[0] == 0:
                    raise InputError("the action is 0, expected 1 or more")
            yield Decision(line.row, line.features, label=line.label)
        return
    for block in _blocks(lines):
        with prefix_errors(f"row {block[0].row}"):
            decision = _of_block(block)
            labels = [(place, line.label) for place, line in enumerate(_actions(block)) if line.label]
            if len(labels) > 1:
                raise InputError(f"its block has {len(labels)} labels, expected one")
        if labels:
            [(place, (_, cost, propensity))] = labels
            yield decision._replace(label=(place, cost, propensity))
        else:
            skipped[UNLABELLED] += 1


def contexts(lines: Lines, of_lists: bool) -> Iterator[Decision]:
    """Give the contexts of lines, or of blocks, whatever their labels."""
    if not of_lists:
        yield from (Decision(line.row, line.features) for line in _lines(lines))
        return
    for block in _blocks(lines):
        with prefix_errors(f"row {block[0].row}"):
            decision = _of_block(block)
        yield decision


def _lines(lines: Lines) -> Iterator[Line]:
    return (line for line in _parsed(lines) if line)


def _blocks(lines: Lines) -> Iterator[list[Line]]:
    """The lines between empty ones."""
    for is_line, block in groupby(_parsed(lines), bool):
        if is_line:
            yield list(block)


def _of_block(block: list[Line]) -> Decision:
    shared = block[0].features if block[0].is_shared else []
    return Decision(block[0].row, shared, [line.features for line in _actions(block)])


def _actions(block: list[Line]) -> list[Line]:
    """The lines of a block's actions."""
    actions = block[1:] if block[0].is_shared else block
    if not actions or any(line.is_shared for line in actions):
        raise InputError("its block has no actions, or more than one shared line, expected shared once, and actions")
    return actions


def _parsed(lines: Lines) -> Iterator[Line | None]:
    """What lines say; None of an empty one."""
    for row, line in lines:
        with prefix_errors(f"row {row}"):
            text = _text(line)
            found = _line(row, text) if text else None
        yield found


def _text(line: bytes) -> str:
    try:
        return line.decode("utf-8").strip(" \t\r\n\ufeff")
    except UnicodeDecodeError:
        raise InputError("is not UTF-8") from None


def _line(row: int, text: str) -> Line:
    if text.startswith("{"):
        raise InputError("is JSON, expected text such as 1:-1:0.5 | features; dsjson ends in .json or .dsjson")
    before, bar, after = text.partition("|")
    tokens = before.split()
    if tokens and not before.endswith((" ", "\t")) and not _is_label(tokens[-1]) and bar:
        tokens.pop()  # a tag
    tokens = [token for token in tokens if not token.startswith("'")]
    is_shared = tokens == [SHARED]
    return Line(row, is_shared, None if is_shared else _label(tokens), _features(f"|{after}") if bar else [])


def _is_label(token: str) -> bool:
    return token == SHARED or bool(LABEL.fullmatch(token) or BARE.fullmatch(token))


def _label(tokens: list[str]) -> tuple[int, float, float] | None:
    if not tokens:
        return None
    match = LABEL.fullmatch(tokens[0]) if len(tokens) == 1 else None
    if not match:
        shown = " ".join(tokens)[:60]
        raise InputError(f"its label is {shown!r}, expected one action:cost:probability (a list has the eligible ones)")
    return int(match[1]), _number(match[2], "its cost"), _number(match[3], "its probability")


def _features(text: str) -> Pairs:
    """The features of ``|namespace:weight name name:value …``, each of its namespace."""
    found: Pairs = []
    for part in text.split("|")[1:]:
        space, weight = "", 1.0
        words = part.split()
        if words and not part[0].isspace():
            space, weight = _named(words.pop(0))
        found += [(f"{space}^{name}", weight * value) for name, value in map(_named, words)]
    return [(name, value) for name, value in found if value]


def _named(word: str) -> tuple[str, float]:
    name, *values = word.split(":")
    if len(values) > 1:
        raise InputError(f"{word[:60]!r} is no feature, expected name or name:value")
    return name, _number(values[0], word[:60]) if values else 1.0


def _number(text: str, name: str) -> float:
    try:
        value = float(text) if "_" not in text else np.nan
    except ValueError:
        value = np.nan
    if not abs(value) < np.inf:
        raise InputError(f"{name} is {text[:40]!r}, expected a finite number")
    return value
