"""What a reader gives: the rows of a log, aligned, before their features are encoded."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, replace
from functools import partial

import numpy as np

from drcrm.arrays.array_collector import ArrayCollector
from drcrm.arrays.mapped_arrays import count_bytes, scratch_path, take_rows
from drcrm.arrays.validation import Features
from drcrm.data.executors import run_in_order
from drcrm.errors import InputError
from drcrm.logs.encoding.columns import reject_rows
from drcrm.logs.mapping import LogMapping

SHOWN = 8  # names in a message
BLOCK_ROWS, BLOCK_BYTES = 2**17, 2**24  # of consecutive rows that are processed at once


class Data(ABC):
    """Features of m contexts, not yet encoded."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def take(self, rows: np.ndarray | slice) -> Data:
        """Return some contexts, by a mask, their numbers or a slice."""

    @abstractmethod
    def fit(self, kind: str, names: list, rows: np.ndarray | None = None):
        """Return the encoding that is fitted to contexts, by a mask (m,); by default to all."""

    @abstractmethod
    def arrays(self) -> dict[object, Features]:
        """Return all arrays but the codes; batches of them are appended to each other."""

    @abstractmethod
    def with_arrays(self, size: int, arrays: dict, codes: dict[str, np.ndarray], values: dict[str, list[str]]) -> Data:
        """Return the features of other contexts: ``size`` of them, with arrays, codes and values of the same names."""

    def coded(self) -> dict[str, tuple[np.ndarray, list[str]]]:
        """Return of each coded column its codes (m,) and the values in whose list they are places."""
        return {}

    def missing(self) -> dict[str, int]:
        """Return how many values are missing, by column."""
        return {}

    @property
    def nbytes(self) -> int:
        return sum(map(count_bytes, [*self.arrays().values(), *(codes for codes, _ in self.coded().values())]))


LEAST = 1e-100  # of a propensity: weights by a smaller one are beyond numbers, and no policy draws such an action


@dataclass(frozen=True)
class Records:
    """n logged rows of a file.

    Attributes
    ----------
    format : "csv", "parquet", "npz", "dsjson", "vw", "obp" or "frame"
    mapping : LogMapping
    kind : "single", "labels" or "lists"
    names : list of str or int
        Of the actions, or labels; none of lists.
    data : Data or None
        The features of m contexts.
    action : integer array (n,), or (n, q)
        Places in ``names``, or in the context's list; or 0 and 1 of each label.
    cost : array (n,)
        A reward is negated.
    reward : bool
        Whether the costs are negated rewards.
    propensity : array (n,), optional
        None where they are to be imitated.
    context : integer array (n,), optional
        The row of ``data`` of each; None if row i belongs to context i.
    rows : integer array (n,)
        The number of each in its file, from 0; of a folder, counted on from file to file.
    skipped : dict of int
        How many rows were not read, by reason.
    missing : dict of int
        How many values of the whole log are missing, by feature column.
    slices : integer array (n,), optional
        Places in ``slice_values``.
    slice_values : list of str
    groups : integer array (n,), optional
    candidate : array (n,), optional
        A policy's probability of the logged actions.
    count : integer array (n,), optional
        How often each row counts.
    time : array (n,), optional
        By which the rows are ordered, ties as in the file.
    clock : str, optional
        What ``time`` is: numbers, times, or times with zone.
    """

    format: str
    mapping: LogMapping
    kind: str
    names: list
    data: Data | None
    action: np.ndarray
    cost: np.ndarray
    reward: bool
    propensity: np.ndarray | None
    rows: np.ndarray
    context: np.ndarray | None = None
    skipped: dict[str, int] = field(default_factory=dict)
    missing: dict[str, int] = field(default_factory=dict)
    slices: np.ndarray | None = None
    slice_values: list[str] = field(default_factory=list)
    groups: np.ndarray | None = None
    candidate: np.ndarray | None = None
    count: np.ndarray | None = None
    time: np.ndarray | None = None
    clock: str | None = None

    def validated(self) -> Records:
        """Return the records; InputError where there are none, or for a cost or a propensity out of range."""
        if not len(self.action):
            said = "".join(f"; {count} {reason}" for reason, count in self.skipped.items())
            raise InputError(f"has no rows that can be read, expected at least one{said}")
        reject_rows(
            ~np.isfinite(self.cost), self.cost, "reward" if self.reward else "cost", self.rows, "a finite number"
        )
        for name in ("propensity", "candidate"):
            values, least = getattr(self, name), "(" if name == "propensity" else "["
            if values is not None:
                low = values <= 0 if name == "propensity" else values < 0
                bad = low | ~(values <= 1)
                reject_rows(bad, values, self._called(name), self.rows, f"a value in {least}0, 1]")
        if self.propensity is not None:
            small = self.propensity < LEAST
            reject_rows(small, self.propensity, self._called("propensity"), self.rows, f"at least {LEAST:g}")
        return self

    @property
    def size(self) -> int:
        """n."""
        return len(self.action)

    @property
    def is_imitated(self) -> bool:
        """Whether the propensities are not logged, but to be estimated."""
        return self.mapping.propensity_model is not None

    @property
    def row_slices(self) -> np.ndarray | None:
        """The slice of each row, (n,) of str."""
        return None if self.slices is None else np.array(self.slice_values, dtype=object)[self.slices]

    @property
    def contexts(self) -> np.ndarray:
        """The row of ``data`` of each row, (n,)."""
        return np.arange(self.size) if self.context is None else self.context

    def take(self, rows: np.ndarray | slice) -> Records:
        """Return some rows, of their numbers, a mask or a slice, in that order, and the contexts that they have."""
        used, context = rows, None
        if self.context is not None:
            used, context = np.unique(self.context[rows], return_inverse=True)
        vectors = {name: values[rows] for name, values in self._vectors().items() if name != "context"}
        return replace(self, **vectors, context=context, data=self.data.take(used))

    def blocks(self) -> Iterator[tuple[slice, Records]]:
        """Yield consecutive rows, and where they are; all at once if a context may have several rows."""
        rows = max(min(BLOCK_ROWS, BLOCK_BYTES * self.size // max(self.data.nbytes, 1)), 1)
        if self.context is not None or self.size <= rows:
            yield slice(0, self.size), self
            return
        for start in range(0, self.size, rows):
            place = slice(start, min(start + rows, self.size))
            yield place, self.take(place)

    def blocks_of(self, rows: np.ndarray | None) -> Iterator[Records]:
        """Yield some rows, by a mask (n,), block by block; by default all."""
        for place, block in self.blocks():
            if rows is None or rows[place].all():
                yield block
            elif rows[place].any():
                yield block.take(rows[place])

    def map(self, function: Callable[[slice, Records], dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
        """Return arrays of all rows by name, computed block by block; in files if the records are mapped."""
        collector = ArrayCollector(scratch_path(self.cost))
        try:
            for arrays in run_in_order(partial(function, place, block) for place, block in self.blocks()):
                collector.append(arrays)
            return collector.finish()
        finally:
            collector.close()

    def without_features(self, rows: np.ndarray | None = None) -> Records:
        """Return rows, by a mask (n,), by default all, without their features and contexts."""
        vectors = {} if rows is None else {name: take_rows(values, rows) for name, values in self._vectors().items()}
        return replace(self, **vectors | {"data": None, "context": None})

    def fit(self, rows: np.ndarray | None = None):
        """Return an encoding fitted to some rows, by a mask (n,), by default to all; its names are those of all."""
        if rows is not None and self.context is not None:
            used = np.zeros(len(self.data), dtype=bool)
            used[self.context[rows]] = True
            rows = used
        return self.data.fit(self.kind, self.names, rows)

    def _vectors(self) -> dict[str, np.ndarray]:
        """The arrays with an entry for each row."""
        values = {column.name: getattr(self, column.name) for column in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, np.ndarray)}

    def arrays(self, encoding) -> dict:
        """Return what a ``BanditLog`` is made of."""
        if self.propensity is None:
            raise InputError("the file has no propensities, expected propensity_model: softmax in the mapping")
        if self.kind != encoding.kind:
            raise InputError(f"the log is of {KINDS[self.kind]}, the encoding of {KINDS[encoding.kind]}")
        arrays = {"X": encoding.contexts(self.data), "Y": self.action_among(encoding.names)}
        arrays |= {"propensity": self.propensity, "cost": self.cost, "context": self.context, "count": self.count}
        return arrays | ({"n_actions": len(encoding.names)} if self.kind == "single" else {})

    def action_among(self, names: list) -> np.ndarray:
        """Return the actions as places among other names."""
        if self.kind == "lists" or self.names == names:
            return self.action
        if self.kind == "labels":
            raise InputError(f"the labels are {_listed(self.names)}, expected {_listed(names)}")
        place = {str(name): at for at, name in enumerate(names)}
        action = np.array([place.get(str(name), -1) for name in self.names], dtype=np.intp)[self.action]
        if (action < 0).any():
            logged = np.array(self.names, dtype=object)[self.action]
            reject_rows(action < 0, logged, self._called("action"), self.rows, f"one of {_listed(names)}")
        return action

    def _called(self, name: str) -> str:
        """What is said of a key: its column's name too, where it is another."""
        column = getattr(self.mapping, name)
        return name if column in (None, name) else f"{name} {column!r}"


KINDS = {"single": "single actions", "labels": "labels", "lists": "lists of actions"}


def _listed(names: list) -> str:
    shown = ", ".join(repr(name) for name in names[:SHOWN])
    return f"{shown}, … ({len(names)})" if len(names) > SHOWN else shown
