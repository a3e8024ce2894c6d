"""Recognise the rows that a policy was learned from in another log, whatever their outcomes are now."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
import pandas as pd

from drcrm.rows.agreement import log_capital
from drcrm.rows.row_hashes import RowHashes, mix

SURPRISE = -np.log(1e-6)  # rows of an entirely new log are recognised by mistake with a probability of at most 1e-6
FEW = 0.01  # share of equal rows that needs no remark
FEW_CONTEXTS = 0.1  # share of rows that may be left out because of their context
STORED = "features", "keys", "times", "ids", "actions"  # arrays of LearnedRows in a policy's file


@dataclass(frozen=True)
class RecognisedRows:
    """Rows of a log among those that a policy was learned from.

    Attributes
    ----------
    training : bool array (m,)
        Rows that trained the policy, and a few other rows that might have.
    heldout : bool array (m,)
        Rows that were held out from its learning.
    undecided : float
        Share of the rows that may be learned ones, if the log has learned rows, but does not show which; otherwise 0.
        No row is then marked.
    equal : float
        Share of rows that equal learned ones, if this is no evidence that they are the same rows; otherwise 0.
    """

    training: np.ndarray
    heldout: np.ndarray
    undecided: float = 0.0
    equal: float = 0.0

    @property
    def counts(self) -> dict[str, int]:
        """The numbers of training, held-out and new rows, as JSON values."""
        training, heldout = int(self.training.sum()), int(self.heldout.sum())
        return {"training": training, "heldout": heldout, "new": len(self.training) - training - heldout}


class Identity(NamedTuple):
    """Hashes that identify rows: of the context, and of context and action; with the id or time in the mapping.

    With an ``id``, its value is the context.
    """

    contexts: np.ndarray
    keys: np.ndarray


@dataclass(frozen=True)
class LearnedRows:
    """Hashes of the rows of the log that a policy was learned from, in their order.

    Attributes
    ----------
    features : array (n,) of uint32
        Hashes of the features.
    keys : array (n,) of uint64
        Hashes of features and action.
    heldout : bool array (n,)
        The rows that were held out from learning.
    times, ids : array (n,) of uint64, optional
        Hashes of the columns ``time`` and ``id`` of the mapping.
    actions : array (n,) of uint32, optional
        Only if there are ids.
    """

    features: np.ndarray
    keys: np.ndarray
    heldout: np.ndarray
    times: np.ndarray | None = None
    ids: np.ndarray | None = None
    actions: np.ndarray | None = None

    @classmethod
    def of(cls, hashes: RowHashes, heldout: np.ndarray) -> Self:
        """Return the rows of a log from their hashes."""
        actions = None if hashes.ids is None else _shorten(hashes.actions)
        return cls(_shorten(hashes.features), hashes.decisions, heldout, hashes.times, hashes.ids, actions)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays to store in a policy's file."""
        arrays = {name: getattr(self, name) for name in STORED if getattr(self, name) is not None}
        return arrays | {"heldout": np.packbits(self.heldout)}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """Return the rows from the arrays of a policy's file."""
        stored = {name: arrays[name] for name in STORED if name in arrays}
        return cls(heldout=np.unpackbits(arrays["heldout"], count=len(stored["keys"])).astype(bool), **stored)

    def identities(self, rows: "LearnedRows") -> tuple[Identity, Identity]:
        """Return the identities of these and of other rows: by ids, else by times and features, else by features."""
        if self.ids is not None and rows.ids is not None:
            return tuple(Identity(part.ids, mix([part.ids, part.actions])) for part in (self, rows))  # type: ignore
        if self.times is not None and rows.times is not None:
            times = self.times, rows.times
            return tuple(  # type: ignore
                Identity(*(mix([values, time]) for values in (part.features.astype(np.uint64), part.keys)))
                for part, time in zip((self, rows), times, strict=True)
            )
        return Identity(self.features, self.keys), Identity(rows.features, rows.keys)

    def recognise(self, hashes: RowHashes, propensity: np.ndarray) -> RecognisedRows:
        """Return which rows of another log are among these rows.

        Rows are the same if they have the same id and action, or else the same features, action and time. Without ids,
        equality is evidence only if new rows would be equal less often. Such evidence comes from contexts that these
        rows have with a single action, from rows in the same order, and from the same number of each row.

        Parameters
        ----------
        hashes : RowHashes
            Hashes of the m rows of the other log.
        propensity : array (m,)
            Logged or estimated propensities of the other log.
        """
        known, rows = self.identities(type(self).of(hashes, np.empty(0, dtype=bool)))
        training, heldout = (np.isin(rows.keys, known.keys[part]) for part in (~self.heldout, self.heldout))
        equal, none = training | heldout, np.zeros(len(rows.keys), dtype=bool)
        undecided, is_evident = 0.0, _agreement(known, rows, propensity) > SURPRISE
        if is_evident:
            is_unclear = training & heldout | _exceeds(known, rows)
            possible = np.isin(rows.contexts, rows.contexts[is_unclear])
            undecided = float(possible.mean())
            if undecided <= FEW_CONTEXTS:
                return RecognisedRows(training | possible, heldout & ~training & ~possible)
        n = len(known.keys)
        is_surprising = is_evident or -np.log(propensity[:n]).sum() > SURPRISE
        if is_surprising and np.array_equal(rows.keys[:n], known.keys):
            of_first = np.append(self.heldout, none[n:])
            return RecognisedRows((np.arange(len(none)) < n) & ~of_first, of_first)
        is_surprising = is_evident or _regularity(rows) > SURPRISE
        ordered = np.sort(rows.keys)
        if is_surprising and np.array_equal(np.sort(known.keys[self.heldout]), ordered):
            return RecognisedRows(none, ~none)
        if is_surprising and any(
            np.array_equal(np.sort(keys), ordered) for keys in (known.keys, known.keys[~self.heldout])
        ):
            return RecognisedRows(~none, none)
        share = float(equal.mean())
        return RecognisedRows(none, none, undecided, share if not undecided and share > FEW else 0.0)

    def is_recognisable(self, propensity: np.ndarray) -> bool:
        """Return whether a part of these rows, in another order, would be recognised."""
        known, _ = self.identities(self)
        if _agreement(known, known, propensity) <= SURPRISE:
            return False
        both = np.isin(known.keys, np.intersect1d(known.keys[self.heldout], known.keys[~self.heldout]))
        return bool(np.isin(known.contexts, known.contexts[both]).mean() <= FEW_CONTEXTS)


def _agreement(known: Identity, rows: Identity, propensity: np.ndarray) -> float:
    """Return the evidence that the log has learned rows: see :func:`log_capital`.

    It comes from the first row of each context that is known with a single key. If rows are new, these are independent
    of each other, and have this key with a probability of at most their propensity.
    """
    distinct, first = np.unique(known.keys, return_index=True)
    contexts, n_keys = np.unique(known.contexts[first], return_counts=True)
    places = np.sort(np.unique(rows.contexts, return_index=True)[1])
    places = places[np.isin(rows.contexts[places], contexts[n_keys == 1])]
    return log_capital(np.isin(rows.keys[places], distinct), propensity[places])


def _exceeds(known: Identity, rows: Identity) -> np.ndarray:
    """Return the rows, (m,), whose key is known and occurs more often in the log than among the learned rows."""
    n_known, times = (pd.Series(identity.keys).value_counts() for identity in (known, rows))
    n_known = n_known.reindex(times.index, fill_value=0)
    return np.isin(rows.keys, times.index[(n_known > 0) & (times > n_known)])


def _regularity(rows: Identity) -> float:
    """Return −log of a bound on the probability that new rows have the same number of each key.

    A binomial count that splits a context in n₁ ≤ n₂ rows has a given value with probability at most about 1/√(π n₁).
    """
    _, first, counts = np.unique(rows.keys, return_index=True, return_counts=True)
    order = np.lexsort([counts, rows.contexts[first]])
    contexts, counts = rows.contexts[first][order], counts[order]
    is_largest = np.append(contexts[1:] != contexts[:-1], True)
    return float(0.5 * np.log(np.pi * counts[~is_largest]).sum())


def _shorten(hashes: np.ndarray) -> np.ndarray:
    return (hashes >> np.uint64(32)).astype(np.uint32)
