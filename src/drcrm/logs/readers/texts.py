"""Base of the readers of texts: a decision in one or several lines, with named features, and batches of decisions."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from math import comb
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from drcrm.arrays.tables import Table
from drcrm.arrays.validation import to_float
from drcrm.errors import InputError, prefix_errors
from drcrm.logs.batches import Batch, LogDescription
from drcrm.logs.encoding.base import Contexts, HashedEncoding, Pairs, hash_contexts, hash_lists
from drcrm.logs.readers.base import Reader, open_file
from drcrm.logs.rows import hash_texts
from drcrm.mapping.log_mapping import LogMapping

Lines = Iterable[tuple[int, bytes]]  # lines with their numbers
PER_ROW = 8  # this many hashed features take about as much memory as one row of a table


class TextReader(Reader):
    """Reader of a text whose lines have named features, which are hashed.

    A format may have variants, such as the number from which actions are counted.

    Attributes
    ----------
    default_variant : int or bool
        Variant of a log that shows none.
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
        for decided in group_decisions(
            self.decisions(self._lines(file, reported=True), self._variant(file)), self.rows, mapping.interactions
        ):
            yield batch_of(decided, self.name, mapping, self.skipped)

    def read_contexts(self, file: Path, encoding: Any, keep: Sequence[str]) -> Iterator[tuple[Contexts, Any]]:
        decisions, interactions = self.undecided(self._lines(file, reported=True), encoding), encoding.interactions
        for undecided in group_decisions(decisions, self.rows, interactions):
            yield contexts_of(undecided, interactions), None

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
    """The logged action, its cost and its propensity."""

    action: int
    cost: float
    propensity: float


class Decision(NamedTuple):
    """A decision of a log.

    Attributes
    ----------
    row : int
        Number of its first line in the file, from 0.
    features : list of (str, float)
        Features of the context.
    listed : list of such lists, optional
        Features of each action of the context's list; None for single actions.
    outcome : Outcome, optional
    weight : float, optional
        Weight of the decision, if the logger dropped decisions at random.
    event_id : str, optional
        Identifier of the decision; empty if its line has none.
    """

    row: int
    features: Pairs
    listed: list[Pairs] | None = None
    outcome: Outcome | None = None
    weight: float | None = None
    event_id: str | None = None

    @property
    def n_actions(self) -> int:
        """Length of the list of actions."""
        return len(self.listed or ())

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
    batch: list[Decision] = []
    left = rows * PER_ROW
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


def batch_of(decisions: list[Decision], form: str, mapping: LogMapping, skipped: dict[str, int]) -> Batch:
    """Return a batch of decisions."""
    contexts = contexts_of(decisions, mapping.interactions)
    first_action, encoder = 1, HashedEncoding.fit
    if decisions[0].listed is not None:
        first_action, encoder = None, partial(encoder, interactions=mapping.interactions)
    action, cost, propensity = np.array([decision.outcome for decision in decisions], dtype=float).reshape(-1, 3).T
    event_ids = [decision.event_id for decision in decisions if decision.event_id is not None]
    weights = [decision.weight for decision in decisions if decision.weight is not None]
    kind = "single" if first_action else "lists"
    columns = {
        "action": action.astype(np.intp) - (first_action or 0),
        "cost": cost,
        "propensity": None if mapping.lacks_propensities else propensity,
        "number": np.array([decision.row for decision in decisions], dtype=np.intp),
        "weights": np.array(weights) if weights else None,
        "ids": hash_texts(event_ids) if event_ids else None,
    }
    description = LogDescription(
        format=form, mapping=mapping, kind=kind, encoder=encoder, first_action=first_action, skipped=skipped
    )
    return Batch(description, contexts, Table(len(decisions), columns)).validated()


def finite(value: object, name: str) -> float:
    """Return a value as a float; InputError unless it is a finite number."""
    if not abs(to_float(value)) < np.inf:
        raise InputError(f"{name} is {str(value)[:40]!r}, expected a finite number")
    return to_float(value)
