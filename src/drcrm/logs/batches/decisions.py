"""Decisions of a log in a text format, batches of decisions, and their features."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from drcrm.arrays.tables import Table
from drcrm.arrays.validation import to_float
from drcrm.errors import InputError
from drcrm.logs.batches.description import Batch, LogDescription
from drcrm.logs.encoding.base import Contexts
from drcrm.logs.encoding.hashed_features import HashedEncoding, Pairs, hash_contexts, hash_lists
from drcrm.logs.mapping import LogMapping
from drcrm.rows.row_hashes import hash_texts

PER_ROW = 8  # this many hashed features take about as much memory as one row of a table


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

    @property
    def size(self) -> int:
        """Number of hashed features."""
        if self.listed is None:
            return len(self.features)
        return (1 + len(self.features)) * sum(map(len, self.listed))


def group_decisions(decisions: Iterable[Decision], rows: int) -> Iterator[list[Decision]]:
    """Yield batches of decisions, each about as large in memory as ``rows`` rows of a table."""
    batch: list[Decision] = []
    left = rows * PER_ROW
    for decision in decisions:
        if left <= 0:
            yield batch
            batch, left = [], rows * PER_ROW
        batch.append(decision)
        left -= max(decision.size, PER_ROW)
    if batch:
        yield batch


def contexts_of(decisions: list[Decision]) -> Contexts:
    """Return the features of decisions."""
    contexts = [decision.features for decision in decisions]
    if decisions and decisions[0].listed is not None:
        return hash_lists(contexts, [decision.listed or [] for decision in decisions])
    return hash_contexts(contexts)


def batch_of(decisions: list[Decision], form: str, mapping: LogMapping, skipped: dict[str, int]) -> Batch:
    """Return a batch of decisions."""
    contexts, first_action = contexts_of(decisions), None if decisions[0].listed is not None else 1
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
        format=form, mapping=mapping, kind=kind, encoder=HashedEncoding.fit, first_action=first_action, skipped=skipped
    )
    return Batch(description, contexts, Table(len(decisions), columns)).validated()


def finite(value: object, name: str) -> float:
    """Return a value as a float; InputError unless it is a finite number."""
    if not abs(to_float(value)) < np.inf:
        raise InputError(f"{name} is {str(value)[:40]!r}, expected a finite number")
    return to_float(value)
