"""Batches of a log as one log, in memory or in mapped files, with names of all actions and numbers of all groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from drcrm.arrays.array_collector import ArrayCollector
from drcrm.arrays.mapped_arrays import map_rows, scratch_path, write_blocks
from drcrm.errors import InputError
from drcrm.logs.encoding.columns import as_names
from drcrm.logs.mapping import LogMapping
from drcrm.logs.records import Data, Records

MANY = 1000  # actions from which a column may be of something else
VECTORS = "action", "cost", "propensity", "context", "rows", "slices", "groups", "candidate", "count", "time"
COMPLETE = "npz", "obp"  # formats that are read at once, with the names of all actions and with counts


class Codes:
    """The values of coded columns, numbered in the order of their first appearance in any batch."""

    def __init__(self):
        self._numbers: dict[str, dict[str, int]] = {}

    def renumber(self, name: str, codes: np.ndarray | None, values: list) -> np.ndarray | None:
        """Return the codes of a batch, places in its ``values``, as places among the values of all batches."""
        if codes is None:
            return None
        numbers = self._numbers.setdefault(name, {})
        places = np.array([numbers.setdefault(str(value), len(numbers)) for value in values], dtype=np.int32)
        if np.array_equal(places, np.arange(len(places))):
            return codes.astype(np.int32, copy=False)
        return places[codes]

    def values(self, name: str) -> list[str]:
        """Return the values of a column."""
        return [*self._numbers.get(name, ())]


class DataSink:
    """Collect the features of batches: ``append`` each batch, then ``finish``."""

    def __init__(self):
        self.collector, self._codes, self._first, self._size = ArrayCollector(None), Codes(), None, 0

    def append(self, data: Data) -> None:
        self._first = data if self._first is None else self._first
        self._size += len(data)
        coded = {name: self._codes.renumber(name, *column) for name, column in data.coded().items()}
        self.collector.append(data.arrays() | {("code", name): codes for name, codes in coded.items()})

    def finish(self) -> Data:
        """Return the features of all batches."""
        arrays = self.collector.finish()
        codes = {name: arrays.pop(("code", name)) for name in self._first.coded()}
        return self._first.with_arrays(self._size, arrays, codes, {name: self._codes.values(name) for name in codes})


class RecordSink:
    """Collect the rows of batches: ``append`` each batch, then ``finish``, in a ``with`` block that closes all files.

    In a batch the actions are those that occur, groups are marks, and counts are weights.

    Parameters
    ----------
    folder : callable, optional
        It returns a folder for memory-mapped files, and is called once the arrays take more bytes than ``most``.
    most : int
    """

    def __init__(self, folder: Callable[[], Path] | None = None, most: int = 0):
        self._vectors, self._data, self._codes = ArrayCollector(None), DataSink(), Codes()
        self._folder, self._most = folder, most
        self._first, self._skipped, self._missing = None, Counter(), Counter()

    def __enter__(self) -> RecordSink:
        return self

    def __exit__(self, *_) -> None:
        self._vectors.close()
        self._data.collector.close()

    def append(self, batch: Records) -> None:
        self._first = batch if self._first is None else self._first
        vectors = {name: getattr(batch, name) for name in VECTORS}
        vectors["slices"] = self._codes.renumber("slices", batch.slices, batch.slice_values)
        if _has_named_actions(batch):
            vectors["action"] = self._codes.renumber("action", batch.action, batch.names)
        self._vectors.append(vectors)
        self._data.append(batch.data)
        self._skipped.update(batch.skipped)
        self._missing.update(batch.missing)
        if self._folder is not None and self._vectors.nbytes + self._data.collector.nbytes > self._most:
            folder, self._folder = self._folder(), None
            self._vectors.move_to(folder / "rows")
            self._data.collector.move_to(folder / "features")

    def finish(self) -> Records:
        """Return the rows of all batches, as if they had been read at once; InputError for too many actions."""
        records = replace(
            self._first,
            data=self._data.finish(),
            skipped=dict(self._skipped),
            missing=dict(self._missing),
            slice_values=self._codes.values("slices"),
            **self._vectors.finish(),
        )
        if records.format in COMPLETE:
            return records
        if _has_named_actions(records):
            records = _with_names(records, self._codes.values("action"))
        for name, number in (("groups", numbered_groups), ("count", counts_of)):
            if (values := getattr(records, name)) is not None:
                records = replace(records, **{name: as_mapped(number(values), values)})
        return records


def collect(batches: Iterable[Records]) -> Records:
    """Return the rows of batches, one after the other, in memory."""
    with RecordSink() as sink:
        for batch in batches:
            sink.append(batch)
        return sink.finish()


def _has_named_actions(records: Records) -> bool:
    """Return whether the actions of batches have to be numbered by the names of all batches."""
    return records.kind == "single" and records.format not in COMPLETE


def as_mapped(values: np.ndarray | None, origin: np.ndarray) -> np.ndarray | None:
    """Return values that were computed from an array, in a file if that array is mapped."""
    path = None if values is None else scratch_path(origin)
    return values if path is None else write_blocks(path, iter([values]))


def _with_names(records: Records, appeared: list[str]) -> Records:
    """Return records whose actions, numbered as they appeared, are places among their names in order."""
    names = _names_of(records.mapping, records.format, appeared, records.size)
    place = {str(name): at for at, name in enumerate(names)}
    places = np.array([place[name] for name in appeared], dtype=np.intp)
    return replace(records, names=names, action=map_rows(records.action, lambda action: places[action]))


def _names_of(mapping: LogMapping, form: str, values: list[str], size: int) -> list:
    """Return the names of the actions that occur, in order; those of Vowpal Wabbit's text are 1 to the largest.

    InputError where they are too many.
    """
    if form == "vw":
        most = max(map(int, values), default=0)
        if most > MANY and most > 10 * size:
            raise InputError(f"actions reach {most} in {size} rows, expected them numbered from 1")
        return list(range(1, most + 1))
    if len(values) > MANY and 2 * len(values) > size:
        called = "action" if mapping.action == "action" else f"action {mapping.action!r}"
        raise InputError(f"{called} has {len(values)} values in {size} rows, expected the names of some actions")
    return as_names(values)


def numbered_groups(marks: np.ndarray) -> np.ndarray:
    """Return numbers of groups as they appear; rows without one, marked −1, are groups of their own after them."""
    alone = marks < 0
    codes, found = pd.factorize(np.where(alone, -1, marks) if alone.any() else marks, use_na_sentinel=False)
    if alone.any():
        lacking = int(np.flatnonzero(found == -1)[0])
        codes = np.where(alone, len(found) + np.arange(len(codes)), codes - (codes > lacking))
    return codes


def counts_of(weights: np.ndarray) -> np.ndarray | None:
    """Return how often each row counts; None where all have the same weight, which cancels.

    Each weight is divided by the least one, then rounded up or down at random (seed 0). The expected count is thus
    the relative weight. If lines were dropped with probability ``pdrop``, each line left has the weight
    1/(1 − pdrop). Means over the rows then estimate those of the log before lines were dropped.
    """
    if np.ptp(weights) <= 1e-9 * weights.max():
        return None
    exact = weights / weights.min()
    exact = np.where(abs(exact - np.round(exact)) < 1e-6 * exact, np.round(exact), exact)
    whole = np.floor(exact)
    return (whole + (np.random.default_rng(0).random(len(exact)) < exact - whole)).astype(np.intp)
