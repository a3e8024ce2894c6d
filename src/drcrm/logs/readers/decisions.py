"""Decisions as lines of text tell them, some at a time, and the records that they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from drcrm.logs.encoding.named_features import Lists, Named, Pairs
from drcrm.logs.mapping import LogMapping
from drcrm.logs.records import Records

PER_ROW = 8  # hashed features that count as a row of a table, where many are to be read at once


class Decision(NamedTuple):
    """What lines say of a decision.

    Attributes
    ----------
    row : int
        The number of the first of them in the file, from 0.
    features : list of (str, float)
        Of the context.
    listed : list of the same, optional
        Of each action of its list; None of single actions.
    label : (int, float, float), optional
        The action, its cost and its propensity.
    weight : float, optional
        How many decisions it stands for.
    """

    row: int
    features: Pairs
    listed: list[Pairs] | None = None
    label: tuple[int, float, float] | None = None
    weight: float | None = None

    @property
    def size(self) -> int:
        """How many hashed features it has."""
        if self.listed is None:
            return len(self.features)
        return (1 + len(self.features)) * sum(map(len, self.listed))


def batches(decisions: Iterable[Decision], rows: int) -> Iterator[list[Decision]]:
    """Yield decisions that take about as much memory as so many rows of a table; without decisions, an empty batch."""
    batch, left = [], rows * PER_ROW
    for decision in decisions:
        if left <= 0:
            yield batch
            batch, left = [], rows * PER_ROW
        batch.append(decision)
        left -= max(decision.size, PER_ROW)
    yield batch


def data_of(found: list[Decision]) -> Named | Lists:
    """Return the features of decisions."""
    if found and found[0].listed is not None:
        return Lists.of([each.features for each in found], [each.listed for each in found])
    return Named.of(each.features for each in found)


def records_of(found: list[Decision], form: str, mapping: LogMapping, skipped: Counter) -> Records:
    """Return decisions as a part of a log, as :func:`drcrm.logs.record_collector.collect` takes them.

    Single actions are those that occur, and counts the weights, where there are some.
    """
    data = data_of(found)
    action, cost, propensity = np.array([each.label for each in found], dtype=float).reshape(-1, 3).T
    names, action = [], action.astype(np.intp)
    if isinstance(data, Named):
        names, action = np.unique(action, return_inverse=True)
        names = names.tolist()
    weights = [each.weight for each in found if each.weight is not None]
    return Records(
        format=form,
        mapping=mapping,
        kind="single" if isinstance(data, Named) else "lists",
        names=names,
        data=data,
        action=action,
        cost=cost,
        reward=False,
        propensity=None if mapping.propensity_model else propensity,
        rows=np.array([each.row for each in found], dtype=np.intp),
        skipped=dict(skipped),
        count=np.array(weights) if weights else None,
    ).validated()
