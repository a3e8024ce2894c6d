"""What a reader gives: the rows of a log, aligned, before their features are encoded."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Protocol

import numpy as np

from ..errors import InputError
from .columns import reject_rows
from .mapping import LogMapping

SHOWN = 8  # names in a message


class Data(Protocol):
    """Features of m contexts, not yet encoded."""

    def __len__(self) -> int: ...

    def take(self, rows: np.ndarray) -> Data: ...

    def fit(self, kind: str, names: list): ...

    @classmethod
    def joined(cls, parts: list[Data]) -> Data: ...


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
    data : Table, Named, Lists or Arrays
        The features of m contexts.
    action : integer array (n,), or (n, q)
        Places in ``names``, or in the context's list; or 0 and 1 of each label.
    cost : array (n,)
        A reward is negated.
    reward : bool
        Whether the costs are negated rewards.
    propensity : array (n,), optional
        None where they are to be imitated.
    context : integer array (n,)
        The row of ``data`` of each.
    rows : integer array (n,)
        The number of each in its file, from 0; of a folder, counted on from file to file.
    skipped : dict of int
        How many rows were not read, by reason.
    missing : dict of int
        How many values of the whole log are missing, by feature column.
    slices : array (n,) of str, optional
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
    data: Data
    action: np.ndarray
    cost: np.ndarray
    reward: bool
    propensity: np.ndarray | None
    context: np.ndarray
    rows: np.ndarray
    skipped: dict[str, int] = field(default_factory=dict)
    missing: dict[str, int] = field(default_factory=dict)
    slices: np.ndarray | None = None
    groups: np.ndarray | None = None
    candidate: np.ndarray | None = None
    count: np.ndarray | None = None
    time: np.ndarray | None = None
    clock: str | None = None

    def __post_init__(self):
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

    @property
    def size(self) -> int:
        """n."""
        return len(self.action)

    def take(self, rows: np.ndarray) -> Records:
        """Return some rows, of their numbers or a mask, in that order, and the contexts that they have."""
        rows = np.arange(self.size)[rows]
        used, context = np.unique(self.context[rows], return_inverse=True)
        changes = {
            each.name: getattr(self, each.name)[rows]
            for each in fields(self)
            if each.name not in ("context", "skipped") and isinstance(getattr(self, each.name), np.ndarray)
        }
        return replace(self, **changes, context=context, data=self.data.take(used))

    def fit(self, rows: np.ndarray | None = None):
        """Return an encoding whose features are fitted to some rows, by default all; its names are those of all."""
        data = self.data if rows is None else self.take(rows).data
        return data.fit(self.kind, self.names)

    def arrays(self, encoding, propensity: np.ndarray | None = None) -> dict:
        """Return what a ``BanditLog`` is made of; ``propensity`` in place of those of the file."""
        propensity = self.propensity if propensity is None else propensity
        if propensity is None:
            raise InputError("the file has no propensities, expected propensity_model: softmax in the mapping")
        if self.kind != encoding.kind:
            raise InputError(f"the log is of {KINDS[self.kind]}, the encoding of {KINDS[encoding.kind]}")
        arrays = {"X": encoding.contexts(self.data), "Y": self.action_among(encoding.names), "propensity": propensity}
        arrays |= {"cost": self.cost, "context": self.context, "count": self.count}
        return arrays | ({"n_actions": len(encoding.names)} if self.kind == "single" else {})

    def action_among(self, names: list) -> np.ndarray:
        """Return the actions as places among other names."""
        if self.kind == "lists" or self.names == names:
            return self.action
        if self.kind == "labels":
            raise InputError(f"the labels are {_listed(self.names)}, expected {_listed(names)}")
        place = {str(name): at for at, name in enumerate(names)}
        action = np.array([place.get(str(name), -1) for name in self.names], dtype=np.intp)[self.action]
        own = np.array(self.names, dtype=object)[self.action]
        reject_rows(action < 0, own, self._called("action"), self.rows, f"one of {_listed(names)}")
        return action

    def _called(self, name: str) -> str:
        """What is said of a key: its column's name too, where it is another."""
        column = getattr(self.mapping, name)
        return name if column in (None, name) else f"{name} {column!r}"


KINDS = {"single": "single actions", "labels": "labels", "lists": "lists of actions"}


def _listed(names: list) -> str:
    shown = ", ".join(repr(name) for name in names[:SHOWN])
    return f"{shown}, … ({len(names)})" if len(names) > SHOWN else shown
