"""Reader of Vowpal Wabbit's text for contextual bandits.

A single action is a line ``action:cost:probability | features``. A list of actions is a block with a line per action.
Format: https://github.com/VowpalWabbit/vowpal_wabbit/wiki/Contextual-Bandit-algorithms
"""

import math
import re
from collections.abc import Collection, Iterator
from itertools import groupby
from typing import Any, NamedTuple

from drcrm.errors import InputError, prefix_errors
from drcrm.logs.encoding.base import Pairs
from drcrm.logs.encoding.columns import as_number
from drcrm.logs.readers.texts import Decision, Lines, Outcome, TextReader, finite

LINE = re.compile(rb"\s*(shared\b|\d|\|).*\||\s*\|")  # the label of a line, then a namespace
SHARED = "shared"
LABEL = re.compile(r"(\d{1,9})(?::([^:\s]+)(?::([^:\s]+))?)?")  # an available action, its cost and its probability
EACH_SLOT = "write each slot as a separate block, a shared line and a line for each action"
UNSUPPORTED = {
    "ccb": f"conditional contextual bandits (CCB); {EACH_SLOT}",
    "slates": f"slates; {EACH_SLOT}",
    "ca": "continuous actions (CATS); log one of K actions instead",
}
UNLABELLED = "decisions without a label"


class Line(NamedTuple):
    """A parsed line.

    Attributes
    ----------
    row : int
    is_shared : bool
    actions : tuple of int
        Numbers before the bar: the logged action, the available actions, or both.
    labels : tuple of Outcome
        The actions with a probability; if there are none, the actions with a cost, whose probability is NaN.
    features : list of (str, float)
    """

    row: int
    is_shared: bool
    actions: tuple[int, ...]
    labels: tuple[Outcome, ...]
    features: Pairs


class VwReader(TextReader):
    """Reader of Vowpal Wabbit's text. Its variant is whether the actions are listed."""

    name, title, suffixes = "vw", "Vowpal Wabbit's text", (".vw",)
    default_variant = False

    @classmethod
    def recognises(cls, start: bytes) -> bool:
        return bool(LINE.match(start.partition(b"\n")[0]))

    def detect_variant(self, lines: Lines) -> bool | None:
        """Return whether the text has lists of actions; None if lists and single actions are both possible.

        Only lists have lines without a label, and a list has at most one label. So the first two lines of a block
        decide. Only single actions have lines with several numbers before the bar. If every block has a single line
        with a label, both are possible.
        """
        before = None
        for line in _parsed(lines):
            if line and (before or len(line.actions) != 1):
                return not line.actions
            before = line
        return None

    def decisions(self, lines: Lines, variant: bool) -> Iterator[Decision]:
        """Yield the decisions of a text; without a label, lists and lines with available actions are skipped.

        Raise InputError if a line has another format. The message has its number.
        """
        for block, decision in _blocks(lines, variant):
            with prefix_errors(f"row {decision.row}"):
                labels = [(place, label) for place, line in enumerate(block) for label in line.labels]
                if len(labels) > 1:
                    raise InputError(f"its {'block' if variant else 'line'} has {len(labels)} labels, expected one")
                if not variant and not block[0].actions:
                    raise InputError("has no label, expected action:cost:probability like in earlier lines")
                if not variant and 0 in block[0].actions:
                    raise InputError("the action is 0, expected 1 or more")
            for place, label in labels:
                yield decision._replace(outcome=label._replace(action=place) if variant else label)
            if not labels:
                self.skipped[UNLABELLED] += 1

    def undecided(self, lines: Lines, encoding: Any) -> Iterator[Decision]:
        """Yield the contexts of a text for a policy with this encoding, without outcomes."""
        return (decision for _, decision in _blocks(lines, not encoding.actions.are_shared, encoding.names))


def _blocks(lines: Lines, of_lists: bool, names: Collection[int] = ()) -> Iterator[tuple[list[Line], Decision]]:
    """Yield the lines of each decision's actions, and the decision. Empty lines separate lists."""
    if not of_lists:
        for line in _single_lines(lines, names):
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
            if any(len(line.actions) != len(line.labels) for line in actions):
                raise InputError("its block has available actions in a line, expected a line for each action of a list")
        shared = block[0].features if block[0].is_shared else []
        yield actions, Decision(block[0].row, shared, [line.features for line in actions])


def _single_lines(lines: Lines, names: Collection[int]) -> Iterator[Line]:
    """Yield the lines of single actions.

    A line may list the available actions. A policy can draw every action, so these must be all of a policy's actions
    ``names``; or, in a log, the same actions in all lines.
    """
    usual, taken = frozenset(names), set()
    for line in filter(None, _parsed(lines)):
        available = set(line.actions) if len(line.actions) > 1 or not line.labels else set()
        if not names:
            usual = usual or frozenset(range(1, max(available, default=0) + 1))
            taken.update(line.actions)
        if (available and not usual <= available) or (usual and not taken <= usual):
            raise InputError(
                f"row {line.row}: its actions are {_listed(line.actions)}, expected {_listed(usual)}, the same in all "
                "lines; if the available actions differ, write a block with a line for each of them"
            )
        yield line


def _listed(actions: Collection[int]) -> str:
    return ", ".join(map(str, sorted(actions)[:8])) + ", …" * (len(actions) > 8)


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
    words = before.split()
    if bar and words and not before[-1].isspace() and _is_tag(words):
        words.pop()
    words = [word for word in words if not word.startswith("'")]
    is_shared, features = words == [SHARED], _features(after) if bar else []
    if words and words[0] in UNSUPPORTED:
        raise InputError(f"describes {UNSUPPORTED[words[0]]}")
    labels = [] if is_shared else [LABEL.fullmatch(word) for word in words]
    if None in labels:
        raise InputError(
            f"its label is {' '.join(words)[:60]!r}, expected action:cost:probability (in a list, only for the logged "
            "action), perhaps with the numbers of the other available actions"
        )
    actions, costs = tuple(int(label[1]) for label in labels), [label for label in labels if label[2]]
    logged = [label for label in costs if label[3]] or costs
    outcomes = [
        Outcome(int(label[1]), _number(label[2], "its cost"), _number(label[3] or "nan", "its probability"))
        for label in logged
    ]
    return Line(row, is_shared, actions, tuple(outcomes), features)


def _is_tag(words: list[str]) -> bool:
    """Return whether the last word before a bar that follows directly is a tag, not a label without a blank."""
    is_label = words[-1] == SHARED or (":" in words[-1] and LABEL.fullmatch(words[-1]))
    return not is_label or any(word == SHARED or ":" in word for word in words[:-1])


def _features(text: str) -> Pairs:
    """Return the features in ``namespace:weight name name:value …|…``. Their names begin with the namespace.

    A missing value, empty or a text such as NaN, is NaN.
    """
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
    """Return a number, NaN for a missing value; InputError for any other text."""
    value = as_number(text, {})
    return finite(text if math.isinf(value) else value, name) if value == value else value
