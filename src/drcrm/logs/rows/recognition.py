"""Recognise the rows that a policy was learned from in another log, whatever their outcomes are now."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from drcrm.logs.rows.agreement import agreement_p_value
from drcrm.logs.rows.row_hashes import RowHashes, mix

SURPRISE = 1e-6  # probability with which rows of an entirely new log are recognised by mistake
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

        Rows are the same if they have the same id and action, or else the same features, action and time. This is
        evidence only if new rows with the same context would have the same action less often. Then all rows with the
        context of a training row are left out, unless more than 10 % of the rows may be held-out or new ones with this
        context. A log that begins with these rows in their order is this log, grown.

        Parameters
        ----------
        hashes : RowHashes
            Hashes of the m rows of the other log.
        propensity : array (m,)
            Logged or estimated propensities of the other log.
        """
        known, rows = self.identities(type(self).of(hashes, np.empty(0, dtype=bool)))
        n, none = len(known.keys), np.zeros(len(rows.keys), dtype=bool)
        if np.array_equal(rows.keys[:n], known.keys) and propensity[:n].prod() < SURPRISE:
            heldout = np.append(self.heldout, none[n:])
            return RecognisedRows((np.arange(len(none)) < n) & ~heldout, heldout)
        equal, undecided = np.isin(rows.keys, known.keys), 0.0
        if _is_evident(known, rows, propensity):
            training = np.isin(rows.contexts, known.contexts[~self.heldout])
            undecided = float((training & ~equal | np.isin(rows.contexts, self._unclear_contexts(known))).mean())
            if undecided <= FEW_CONTEXTS:
                return RecognisedRows(training, equal & ~training)
        share = float(equal.mean())
        return RecognisedRows(none, none, undecided, share if not undecided and share > FEW else 0.0)

    def is_recognisable(self, propensity: np.ndarray) -> bool:
        """Return whether a part of these rows, in another order, would be recognised."""
        known, _ = self.identities(self)
        share = np.isin(known.contexts, self._unclear_contexts(known)).mean()
        return _is_evident(known, known, propensity) and bool(share <= FEW_CONTEXTS)

    def _unclear_contexts(self, known: Identity) -> np.ndarray:
        """Return the contexts that training rows and held-out rows have."""
        return np.intersect1d(known.contexts[self.heldout], known.contexts[~self.heldout])


def _is_evident(known: Identity, rows: Identity, propensity: np.ndarray) -> bool:
    """Return whether the log has learned rows.

    The test uses the first row of each context that is known with a single key. If rows are new, these are independent
    of each other, and have this key with a probability of at most their propensity.
    """
    distinct, first = np.unique(known.keys, return_index=True)
    contexts, n_keys = np.unique(known.contexts[first], return_counts=True)
    places = np.unique(rows.contexts, return_index=True)[1]
    places = places[np.isin(rows.contexts[places], contexts[n_keys == 1])]
    return agreement_p_value(np.isin(rows.keys[places], distinct), propensity[places]) < SURPRISE


def _shorten(hashes: np.ndarray) -> np.ndarray:
    return (hashes >> np.uint64(32)).astype(np.uint32)
