"""Reader of Vowpal Wabbit's text, and what it shares with other readers of decisions: their base and batches.

In this text for contextual bandits, a single action is a line ``action:cost:probability | features``. A list of actions
is a block with a line per action.
Format: https://github.com/VowpalWabbit/vowpal_wabbit/wiki/Contextual-Bandit-algorithms
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from math import comb, isinf
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from drcrm.arrays.tables import Table
from drcrm.arrays.validation import to_float
from drcrm.errors import InputError, prefix_errors
from drcrm.logs.batches import Batch, LogDescription
from drcrm.logs.encoding.base import Contexts, HashedEncoding, Pairs, hash_contexts, hash_lists
from drcrm.logs.encoding.columns import as_number
from drcrm.logs.readers.base import Reader, open_file
from drcrm.logs.row_identity import hash_texts
from drcrm.mapping.log_mapping import LogMapping

Lines = Iterable[tuple[int, bytes]]  # lines with their numbers
PER_ROW = 8  # this many hashed features take about as much memory as one row of a table


class TextReader(Reader):
    """Reader of a text whose lines have named features, which are hashed.

    A format may have variants, such as the number from which actions are counted. ``default_variant`` is that of a log
    that shows none.
    """

    encodings = (HashedEncoding,)
    default_variant: Any

    @abstractmethod
    def detect_variant(self, lines: Lines) -> Any:
        """Return the variant of a file; None if the file does not show it."""

    @abstractmethod
    def decisions(self, lines: Lines, variant: Any) -> Iterator[Decision]:
        """Yield the decisions of a file with their outcomes, and count skipped lines by reason."""

    @abstractmethod
    def undecided(self, lines: Lines, encoding: Any) -> Iterator[Decision]:
        """Yield the contexts of a file for a policy with this encoding, without outcomes."""

    def read_batches(self, file: Path) -> Iterator[Batch]:
        mapping = self.mapping.require_no_columns(self.title)
        decisions = self.decisions(self._lines(file, reported=True), self._variant(file))
        for decided in group_decisions(decisions, self.rows, mapping.interactions):
            yield self._batch(decided, mapping)

    def read_contexts(self, file: Path, encoding: Any, keep: Sequence[str]) -> Iterator[tuple[Contexts, Any]]:
        decisions = self.undecided(self._lines(file, reported=True), encoding)
        for undecided in group_decisions(decisions, self.rows, encoding.interactions):
            yield contexts_of(undecided, encoding.interactions), None

    def _batch(self, decisions: list[Decision], mapping: LogMapping) -> Batch:
        """Return a batch of decisions."""
        facts: dict[str, Any] = {"kind": "single", "encoder": HashedEncoding.fit, "first_action": 1}
        if decisions[0].listed is not None:
            facts = {"kind": "lists", "encoder": partial(HashedEncoding.fit, interactions=mapping.interactions)}
        action, cost, propensity = np.array([decision.outcome for decision in decisions], dtype=float).reshape(-1, 3).T
        event_ids = [decision.event_id for decision in decisions if decision.event_id is not None]
        weights = [decision.weight for decision in decisions if decision.weight is not None]
        columns = {
            "action": action.astype(np.intp) - facts.get("first_action", 0),
            "cost": cost,
            "propensity": None if mapping.lacks_propensities else propensity,
            "number": np.array([decision.row for decision in decisions], dtype=np.intp),
            "weights": np.array(weights) if weights else None,
            "ids": hash_texts(event_ids) if event_ids else None,
        }
        description = LogDescription(format=self.name, mapping=mapping, skipped=self.skipped, **facts)
        contexts = contexts_of(decisions, mapping.interactions)
        return Batch(description, contexts, Table(len(decisions), columns)).validated()

    def _variant(self, file: Path) -> Any:
        """Return the variant of the file itself, or of the first file of the log that shows one."""
        variant = self.detect_variant(self._lines(file))
        for sibling in self.files:
            if variant is None and sibling != file:
                with prefix_errors(sibling.name):
                    variant = self.detect_variant(self._lines(sibling))
        return self.default_variant if variant is None else variant

    def _lines(self, file: Path, reported: bool = False) -> Iterator[tuple[int, bytes]]:
        """Yield the numbered lines of a file; if ``reported``, reading them counts as progress."""
        self.n_read = 0
        with open_file(file, reported) as stream:
            for line in stream:
                self.n_read += 1
                yield self.n_read - 1, line


class Outcome(NamedTuple):
    action: int
    cost: float
    propensity: float


class Decision(NamedTuple):
    """A decision: the number of its first line in the file, from 0, its features, and those of each listed action.

    ``listed`` is None for single actions. A decision has a ``weight`` if the logger dropped decisions at random. The
    ``event_id`` is empty if the format has one and the line has none.
    """

    row: int
    features: Pairs
    listed: list[Pairs] | None = None
    outcome: Outcome | None = None
    weight: float | None = None
    event_id: str | None = None

    def count_features(self, interactions: int | None = None) -> int:
        """Return the number of hashed features, or a larger one if products of further features are among them."""
        n_shared, further = len(self.features), range(2, (interactions or 1) + 1)
        if self.listed is None:
            return n_shared
        return sum(
            (1 + n_shared) * len(action) + sum(comb(n_shared + len(action), size) for size in further)
            for action in self.listed
        )


def group_decisions(
    decisions: Iterable[Decision], rows: int, interactions: int | None = None
) -> Iterator[list[Decision]]:
    """Yield batches of decisions, each about as large in memory as ``rows`` rows of a table."""
    batch, left = list[Decision](), rows * PER_ROW
    for decision in decisions:
        if left <= 0:
            yield batch
            batch, left = [], rows * PER_ROW
        batch.append(decision)
        left -= max(decision.count_features(interactions), PER_ROW)
    if batch:
        yield batch


def contexts_of(decisions: list[Decision], interactions: int | None = None) -> Contexts:
    """Return the features of decisions, for lists with the products of :func:`further_factors`."""
    contexts = [decision.features for decision in decisions]
    if decisions and decisions[0].listed is not None:
        return hash_lists(contexts, [decision.listed or [] for decision in decisions], interactions)
    return hash_contexts(contexts)


def finite(value: object, name: str) -> float:
    """Return a value as a float; InputError unless it is a finite number."""
    if not abs(to_float(value)) < np.inf:
        raise InputError(f"{name} is {str(value)[:40]!r}, expected a finite number")
    return to_float(value)


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

    ``actions`` has the numbers before the bar: the logged action, the available actions, or both. ``labels`` has the
    actions with a probability; if there are none, the actions with a cost, whose probability is NaN.
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

        Only lists have lines without a label, and a list has at most one label. Only single actions have lines with
        several numbers before the bar. If every block has a single line with a label, both are possible.
        """
        before = None
        for line in _parsed(lines):
            if line and (before or len(line.actions) != 1):
                return not line.actions
            before = line
        return None

    def decisions(self, lines: Lines, variant: bool) -> Iterator[Decision]:
        """Yield the decisions of a text, without unlabelled lists and lines that only name the available actions."""
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
            both = (sorted(actions) for actions in (line.actions, usual))
            actual, expected = (", ".join(map(str, actions[:8])) + ", …" * (len(actions) > 8) for actions in both)
            raise InputError(
                f"row {line.row}: its actions are {actual}, expected {expected}, the same in all lines; if the "
                "available actions differ, write a block with a line for each of them"
            )
        yield line


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
    """Return whether the last word before a bar is a tag, not a label without a blank."""
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
    if word.count(":") > 1:
        raise InputError(f"{word[:60]!r} is not a feature, expected name or name:value")
    name, colon, value = word.partition(":")
    return name, _number(value, word[:60]) if colon else 1.0


def _number(text: str, name: str) -> float:
    """Return a number, NaN for a missing value; InputError for any other text."""
    value = as_number(text, {})
    return finite(text if isinf(value) else value, name) if value == value else value
