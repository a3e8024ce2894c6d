"""Join the batches of a log in memory or in memory-mapped files; number its actions, slices and groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from drcrm.arrays.array_collector import ArrayCollector
from drcrm.arrays.mapped_arrays import map_rows, scratch_path, write_blocks
from drcrm.errors import InputError
from drcrm.logs.encoding.columns import as_names
from drcrm.logs.encoding.identifiers import number_marks
from drcrm.logs.records import Records

MANY = 1000  # with more actions, the column may be the wrong one


class RecordCollector:
    """Collect the rows of batches. Call ``append`` for each batch, then ``finish``, and finally ``close``.

    Parameters
    ----------
    folder : callable, optional
        It returns a folder for memory-mapped files. It is called once the arrays take more bytes than ``most``.
    most : int
    """

    def __init__(self, folder: Callable[[], Path] | None = None, most: int = 0):
        self._arrays, self._folder, self._most = ArrayCollector(None), folder, most
        self._numbers: dict[Hashable, dict[str, int]] = {}
        self._first: Any = None  # the first batch
        self._skipped: Counter[str] = Counter()
        self._missing: Counter[str] = Counter()
        self._size = 0  # number of rows of the features

    def append(self, batch: Records) -> None:
        self._first = batch if self._first is None else self._first
        arrays: dict[Any, Any] = {**batch.columns()}
        arrays |= {("features", name): values for name, values in batch.data.arrays.items()}
        coded: dict[Any, list] = {("features", name): values for name, values in batch.data.values.items()}
        if batch.data.starts is not None:
            arrays["sizes"] = np.diff(batch.data.starts)
        named = {"slices": batch.slice_values, "loggers": batch.logger_values}
        coded |= {name: values for name, values in named.items() if name in arrays}
        if batch.kind == "single" and batch.first_action is None:
            coded["action"] = batch.names
        for key, values in coded.items():
            arrays[key] = self._renumbered(key, arrays[key], values)
        self._arrays.append(arrays)
        self._size += batch.data.size
        self._skipped.update(batch.skipped)
        self._missing.update(batch.missing)
        if self._folder is not None and self._arrays.nbytes > self._most:
            folder, self._folder = self._folder(), None
            self._arrays.move_to(folder / "log")

    def finish(self) -> Records:
        """Return the rows of all batches, as if they were one batch; InputError for too many actions."""
        rows: dict[Any, Any] = self._arrays.finish()
        first, names = self._first, self._first.names
        features = {name: rows.pop(("features", name)) for name in first.data.arrays}
        values = {name: self._values(("features", name)) for name in first.data.values}
        starts = np.append(0, np.cumsum(rows.pop("sizes"))) if "sizes" in rows else None
        marks, weights = rows.pop("group_marks", None), rows.pop("weights", None)
        if marks is not None:
            rows["groups"] = as_mapped(number_marks(marks), marks)
        if weights is not None:
            rows["count"] = as_mapped(counts_of(weights), weights)
        if first.mapping.id is None and "ids" in rows and len(np.unique(rows["ids"])) < len(rows["ids"]):
            del rows["ids"]  # the ids of a format are ignored unless they identify rows
        if first.kind == "single":
            names, rows["action"] = _named_actions(first, self._values("action"), rows["action"])
        follows = rows.pop("follows", None)
        records = replace(
            first,
            data=replace(first.data, size=self._size, arrays=features, values=values, starts=starts, missing={}),
            names=names,
            slice_values=self._values("slices"),
            logger_values=self._values("loggers"),
            skipped=dict(self._skipped),
            missing=dict(self._missing),
            **{"group_marks": None, "weights": None, "ids": None, "follows": None} | rows,
        )
        known = first.mapping.known_propensity
        if known is None:
            return records
        return replace(records, propensity=as_mapped(known.probabilities(records.n_choices, follows), records.cost))

    def close(self) -> None:
        """Close all files."""
        self._arrays.close()

    def _renumbered(self, key: Hashable, codes: np.ndarray, values: list) -> np.ndarray:
        """Return the codes of a batch as places among the values of all batches, in order of first appearance."""
        numbers = self._numbers.setdefault(key, {})
        places = np.array([numbers.setdefault(str(value), len(numbers)) for value in values], dtype=np.int32)
        if np.array_equal(places, np.arange(len(places))):
            return codes.astype(np.int32, copy=False)
        return places[codes]

    def _values(self, key: Hashable) -> list[str]:
        return [*self._numbers.get(key, ())]


def collect(
    batches: Iterable[Records],
    folder: Callable[[], Path] | None = None,
    most: int = 0,
    place: AbstractContextManager | None = None,
) -> Records:
    """Return the rows of batches; the arguments are those of :class:`RecordCollector`.

    Messages about all rows together begin with ``place``.
    """
    with closing(RecordCollector(folder, most)) as collector:
        for batch in batches:
            collector.append(batch)
        with place or nullcontext():
            return collector.finish()


def as_mapped(values: np.ndarray | None, origin: np.ndarray) -> np.ndarray | None:
    """Return values that were computed from an array, in a file if that array is memory-mapped."""
    path = None if values is None else scratch_path(origin)
    return values if path is None else write_blocks(path, iter([values]))


def _named_actions(batch: Records, appeared: list[str], action: np.ndarray) -> tuple[list, np.ndarray]:
    """Return the names of all actions in order, and ``action`` as places among them instead of in ``appeared``."""
    size, first = len(action), batch.first_action
    if first is not None:
        last = first + max(int(action.max()), len(batch.names) - 1)
        if last > MANY and last > 10 * size:
            raise InputError(f"the largest action is {last} in {size} rows, expected numbers from {first}")
        return list(range(first, last + 1)), action
    if len(appeared) > MANY and 2 * len(appeared) > size:
        label = batch.mapping.label_of("action")
        raise InputError(f"{label} has {len(appeared)} values in {size} rows, expected fewer different actions")
    names = as_names(appeared)
    place = {str(name): at for at, name in enumerate(names)}
    places = np.array([place[name] for name in appeared], dtype=np.intp)
    return names, map_rows(action, lambda codes: places[codes])


def counts_of(weights: np.ndarray) -> np.ndarray | None:
    """Return the multiplicity of each row; None if all rows have the same weight, which cancels.

    Each weight is divided by the smallest one, then rounded up or down at random (seed 0). The expected count is thus
    the relative weight. If lines were dropped with probability ``pdrop``, each remaining line has the weight
    1/(1 − pdrop). Means over the rows then estimate means over the log before lines were dropped.
    """
    if np.ptp(weights) <= 1e-9 * weights.max():
        return None
    exact = weights / weights.min()
    exact = np.where(abs(exact - np.round(exact)) < 1e-6 * exact, np.round(exact), exact)
    whole = np.floor(exact)
    return (whole + (np.random.default_rng(0).random(len(exact)) < exact - whole)).astype(np.intp)
