"""What is held out of a log."""

from __future__ import annotations

import numpy as np

from drcrm.errors import InputError
from drcrm.logs.records import Records

MOST = 2**19  # units that are held out: more of them change no verdict, and are better learned from


def held_out(records: Records, seed: int = 0) -> np.ndarray:
    """Return which rows are held out, a mask (n,): a share of the units, at least one, not all, and at most 2¹⁹.

    A unit is a group, where the log has groups, else a context. "last 25 %" holds out the units that appear last, by
    time or in the file.

    Parameters
    ----------
    records : Records
    seed : int
        Of what is drawn.

    Raises
    ------
    InputError
        A log of a single unit.
    """
    kind, share = records.mapping.split_rule
    first, unit = _units(records)
    if len(first) < 2:
        called = "context" if records.groups is None else "group"
        raise InputError(f"the log has a single {called}, of which nothing can be held out")
    if kind == "last" and records.time is not None:
        first = np.full(len(first), records.size)
        np.minimum.at(first, unit, ranks(records.time))
    order = np.argsort(first) if kind == "last" else np.random.default_rng(seed).permutation(len(first))
    many = int(np.clip(round(share * len(first)), 1, min(len(first) - 1, MOST)))
    held = np.zeros(len(first), dtype=bool)
    held[order[-many:]] = True
    return held[unit]


def _units(records: Records) -> tuple[np.ndarray, np.ndarray | slice]:
    """Return the first row of each unit, and the unit of each row."""
    units = records.context if records.groups is None else records.groups
    if units is None:
        rows = np.arange(records.size)
        return rows, rows if records.time is not None else slice(None)
    _, first, unit = np.unique(units, return_index=True, return_inverse=True)
    return first, unit


def halves(units: np.ndarray) -> np.ndarray:
    """Return a random half, 0 or 1, for each row, (n,), by its unit: units stay whole."""
    _, unit = np.unique(units, return_inverse=True)
    return np.random.default_rng(0).permutation(unit.max() + 1)[unit] % 2


def ranks(time: np.ndarray) -> np.ndarray:
    """Return the place of each row in the order of time, (n,); ties are in file order."""
    found = np.empty(len(time), dtype=np.intp)
    found[np.argsort(time, kind="stable")] = np.arange(len(time))
    return found
