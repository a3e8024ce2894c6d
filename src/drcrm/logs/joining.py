"""Parts of a log as one: the names of all actions, numbers of all groups, counts of all rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pandas as pd

from ..errors import InputError
from .columns import as_names
from .mapping import LogMapping
from .records import Records

MANY = 1000  # actions from which a column may be of something else
OF_ROWS = "cost", "propensity", "rows", "slices", "groups", "candidate", "count", "time"


def joined(parts: list[Records], names: list | None = None) -> Records:
    """Return the rows of parts, one after the other, as if they had been read at once.

    In parts the actions are those that occur, groups are marks, and counts are weights: see :func:`names_of`,
    :func:`numbered_groups` and :func:`counts_of`. ``names`` are those of the actions, by default of these rows.
    """
    first = parts[0]
    if names is None:
        names = names_of(first.mapping, first.format, (each.names for each in parts), sum(each.size for each in parts))
    of_rows = {
        name: _together([getattr(each, name) for each in parts]) for name in OF_ROWS if getattr(first, name) is not None
    }
    for name, made in (("groups", numbered_groups), ("count", counts_of)):
        if name in of_rows:
            of_rows[name] = made(of_rows[name])
    return replace(
        first,
        **of_rows,
        names=names,
        data=type(first.data).joined([each.data for each in parts]),
        action=_together([each.action_among(names) for each in parts]),
        context=np.arange(len(of_rows["cost"])),
        skipped=added(each.skipped for each in parts),
        missing=added(each.missing for each in parts),
    )


def names_of(mapping: LogMapping, form: str, names: Iterable[list], size: int) -> list:
    """Return the names of the actions, or labels, of the parts of a log of ``size`` rows.

    Those of Vowpal Wabbit's text are 1 to the largest. InputError where they are too many.
    """
    if mapping.labels:
        return list(mapping.labels)
    values = {str(name) for some in names for name in some}
    if form == "vw":
        most = max(map(int, values), default=0)
        if most > MANY and most > 10 * size:
            raise InputError(f"actions reach {most} in {size} rows, expected them numbered from 1")
        return list(range(1, most + 1))
    if len(values) > MANY and 2 * len(values) > size:
        called = "action" if mapping.action == "action" else f"action {mapping.action!r}"
        raise InputError(f"{called} has {len(values)} values in {size} rows, expected the names of some actions")
    return as_names(list(values))


def numbered_groups(marks: np.ndarray) -> np.ndarray:
    """Return numbers of groups as they appear; rows without one, marked −1, are groups of their own after them."""
    codes, found = pd.factorize(np.where(marks < 0, -1, marks), use_na_sentinel=False)
    alone = marks < 0
    if alone.any():
        lacking = int(np.flatnonzero(found == -1)[0])
        codes = np.where(alone, len(found) + np.arange(len(codes)), codes - (codes > lacking))
    return codes


def counts_of(weights: np.ndarray) -> np.ndarray | None:
    """Return how often each row counts; None where all have the same weight, which cancels.

    Weights are taken relative to the least, and rounded to a whole number at random (seed 0), so that the expectation
    is the weight: of lines that were dropped with probability ``pdrop``, each left has the weight 1/(1 − pdrop), and
    means over the rows are then of what was there before.
    """
    if np.ptp(weights) <= 1e-9 * weights.max():
        return None
    exact = weights / weights.min()
    exact = np.where(abs(exact - np.round(exact)) < 1e-6 * exact, np.round(exact), exact)
    whole = np.floor(exact)
    return (whole + (np.random.default_rng(0).random(len(exact)) < exact - whole)).astype(np.intp)


def added(counts: Iterable[dict[str, int]]) -> dict[str, int]:
    """Return the sums of counts, by what is counted."""
    found: Counter[str] = Counter()
    for each in counts:
        found.update(each)
    return dict(found)


def _together(arrays: list[np.ndarray]) -> np.ndarray:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
