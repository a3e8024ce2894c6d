"""Recognise the rows that a policy was learned from in another log, whatever their outcomes are now."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd

from drcrm.rows.agreement import log_capital
from drcrm.rows.row_hashes import RowHashes, mix

WINDOW = 16  # rows of the windows that are compared
LEVEL = 1e-6  # probability that rows of an entirely new log are recognised by mistake
LIKELY = 0.05  # a few equal rows are left out unless chance explains them at this level
FEW = 0.01  # share of rows that may be left out because of their action, which changes estimates a little
FEW_CONTEXTS = 0.1  # share of rows that may be left out because of their context
STORED = "features", "keys", "propensities", "times", "ids", "actions"  # arrays of LearnedRows in a policy's file


class Sequence(NamedTuple):
    """Rows in order: hashes of their features and action, and hashes of their features alone."""

    keys: np.ndarray
    features: np.ndarray


def align(known: Sequence, rows: Sequence, surprise: np.ndarray, level: float) -> np.ndarray:
    """Return the place of each row of a log, (m,), among the n known rows; −1 for a row without a place.

    Windows of 16 rows with equal keys have the same place. If the contexts are equal but the rows are new, a run of
    rows has the actions of the known rows with a probability of at most the product of its propensities. So with
    probability 1 − ``level``, new rows have no run whose ``surprise`` exceeds log(n m/level). Without such a run, no
    row has a place. A row between windows with the same offset has a place if its features are equal.

    Parameters
    ----------
    known, rows : Sequence
        The n known rows, and the m rows of the log.
    surprise : array (m,)
        −log p, with the propensities p of the log.
    level : float
    """
    n, m = len(known.keys), len(rows.keys)
    if min(n, m) < WINDOW:
        return np.full(m, -1)
    distinct, first, times = np.unique(_windows(known.keys), return_index=True, return_counts=True)
    is_single = times == 1
    match = pd.Index(distinct[is_single]).get_indexer(_windows(rows.keys))
    starts = np.flatnonzero(match >= 0)
    low, high, shift = np.full(m, np.nan), np.full(m, np.nan), first[is_single][match[starts]] - starts
    for step in range(WINDOW):
        low[starts + step], high[starts + step] = (
            np.fmin(low[starts + step], shift),
            np.fmax(high[starts + step], shift),
        )
    offset = np.where(low == high, low, np.nan)  # a row between two places has none
    run = np.cumsum(np.diff(offset, prepend=np.nan) != 0) - 1
    if np.bincount(run, np.where(np.isnan(offset), 0, surprise)).max() <= np.log(n * m / level):
        return np.full(m, -1)
    before, after = pd.Series(offset).ffill(), pd.Series(offset).bfill()
    place = np.arange(m) + before.where(before == after).to_numpy()
    place = np.where((place >= 0) & (place < n), place, -1).astype(np.intp)
    return np.where((place >= 0) & (known.features[place] == rows.features), place, -1)


def lengths_of_runs(mask: np.ndarray) -> np.ndarray:
    """Return the length of the run of equal values to which each entry belongs, (n,)."""
    run = np.cumsum(np.diff(mask, prepend=mask[:1]))
    return np.bincount(run)[run]


def _windows(keys: np.ndarray) -> np.ndarray:
    """Return the hash of each window of consecutive keys, (n − 15,)."""
    size = len(keys) - WINDOW + 1
    return mix(keys[start : start + size] for start in range(WINDOW))


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
        Share of the rows that may be rows of the policy's log if the log does not show whether they are, otherwise 0.
        No row is then marked.
    """

    training: np.ndarray
    heldout: np.ndarray
    undecided: float = 0.0

    @property
    def counts(self) -> dict[str, int]:
        """The numbers of training, held-out and new rows, as JSON values."""
        training, heldout = int(self.training.sum()), int(self.heldout.sum())
        return {"training": training, "heldout": heldout, "new": len(self.training) - training - heldout}


class Level(NamedTuple):
    """Hashes that identify rows: the context and the key of each learned row, (n,), and of each row of a log, (m,).

    A key contains the context and the action. So if the context of a new row is known with a single key, the row has
    this key with a probability of at most its propensity.
    """

    known_contexts: np.ndarray
    known_keys: np.ndarray
    contexts: np.ndarray
    keys: np.ndarray

    def capital(self, propensity: np.ndarray) -> float:
        """Return the evidence that the log has learned rows: see :func:`log_capital`.

        It comes from the first row of each context that is known with a single key. If rows are new, these are
        independent of each other.
        """
        distinct, first = np.unique(self.known_keys, return_index=True)
        contexts, n_keys = np.unique(self.known_contexts[first], return_counts=True)
        rows = np.sort(np.unique(self.contexts, return_index=True)[1])
        rows = rows[np.isin(self.contexts[rows], contexts[n_keys == 1])]
        return log_capital(np.isin(self.keys[rows], distinct), propensity[rows])

    def exceeds(self) -> np.ndarray:
        """Return the rows, (m,), whose key is known and occurs more often in the log than among the learned rows."""
        known, times = (pd.Series(keys).value_counts() for keys in (self.known_keys, self.keys))
        known = known.reindex(times.index, fill_value=0)
        return np.isin(self.keys, times.index[(known > 0) & (times > known)])


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
    propensities : array (n,) of uint32, optional
        Only if they were logged.
    times, ids : array (n,) of uint64, optional
        Hashes of the columns ``time`` and ``id`` of the mapping.
    actions : array (n,) of uint32, optional
        Only if there are ids.
    """

    features: np.ndarray
    keys: np.ndarray
    heldout: np.ndarray
    propensities: np.ndarray | None = None
    times: np.ndarray | None = None
    ids: np.ndarray | None = None
    actions: np.ndarray | None = None

    @classmethod
    def of(cls, hashes: RowHashes, heldout: np.ndarray) -> Self:
        """Return the rows of a log from their hashes."""
        propensities = None if hashes.propensities is None else _shorten(hashes.propensities)
        actions = None if hashes.ids is None else _shorten(hashes.actions)
        features = _shorten(hashes.features)
        return cls(features, hashes.decisions, heldout, propensities, hashes.times, hashes.ids, actions)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays to store in a policy's file."""
        arrays = {name: getattr(self, name) for name in STORED if getattr(self, name) is not None}
        return arrays | {"heldout": np.packbits(self.heldout)}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """Return the rows from the arrays of a policy's file."""
        stored = {name: arrays[name] for name in STORED if name in arrays}
        return cls(heldout=np.unpackbits(arrays["heldout"], count=len(stored["keys"])).astype(bool), **stored)

    def recognise(self, hashes: RowHashes, propensity: np.ndarray) -> RecognisedRows:
        """Return which rows of another log are among these rows.

        A row is recognised by its id and action, or by its features, action, propensity and time, or by its place if
        the log has rows in the order of these rows. Rows are recognised only if chance does not explain them.

        Parameters
        ----------
        hashes : RowHashes
            Hashes of the m rows of the other log.
        propensity : array (m,)
            Logged or estimated propensities of the other log.
        """
        possible: Any = None
        for level in self._levels(hashes):
            training, heldout = (np.isin(level.keys, level.known_keys[part]) for part in (~self.heldout, self.heldout))
            equal, known = training | heldout, np.isin(level.contexts, level.known_contexts)
            capital = level.capital(propensity)
            if capital > -np.log(LEVEL):
                unclear = training & heldout | level.exceeds()
                possible = np.isin(level.contexts, level.contexts[unclear])
                if possible.mean() <= FEW_CONTEXTS:
                    return RecognisedRows(training | possible, heldout & ~training & ~possible)
            elif possible is None:
                possible = equal & (capital > -np.log(LIKELY)) if equal.mean() <= FEW else known
        places = self._align(hashes, propensity)
        is_placed, none = places >= 0, np.zeros(len(places), dtype=bool)
        if is_placed.any():
            heldout, left = is_placed & self.heldout[places], np.setdiff1d(np.arange(len(self.keys)), places)
            possible = ~is_placed & np.isin(hashes.decisions, self.keys[left])
            possible &= lengths_of_runs(is_placed) < 4 * WINDOW
            if possible.mean() <= FEW_CONTEXTS:
                return RecognisedRows(is_placed & ~heldout | possible, heldout)
        share = float(possible.mean())
        return RecognisedRows(none, none, share) if share > FEW_CONTEXTS else RecognisedRows(possible, none)

    def _levels(self, hashes: RowHashes) -> Iterator[Level]:
        """Yield the hashes that identify rows, the most specific ones first."""
        features, known_features = _shorten(hashes.features).astype(np.uint64), self.features.astype(np.uint64)
        level = Level(known_features, self.keys, features, hashes.decisions)
        if self.ids is not None and self.actions is not None and hashes.ids is not None:
            known_keys, keys = mix([self.ids, self.actions]), mix([hashes.ids, _shorten(hashes.actions)])
            yield Level(self.ids, known_keys, hashes.ids, keys)
        exact = level
        if self.propensities is not None and hashes.propensities is not None:
            known_keys = mix([self.keys, self.propensities])
            exact = level._replace(known_keys=known_keys, keys=mix([level.keys, _shorten(hashes.propensities)]))
        if self.times is not None and hashes.times is not None:
            known = (mix([values, self.times]) for values in exact[:2])
            yield Level(*known, *(mix([values, hashes.times]) for values in exact[2:]))
        yield exact
        if exact is not level:
            yield level

    def _align(self, hashes: RowHashes, propensity: np.ndarray) -> np.ndarray:
        """Return the place of each row among the learned rows, (m,), or −1, if parts of the logs have the same order.

        The other log may have all learned rows, only the held-out rows, or only the training rows.
        """
        rows = Sequence(hashes.decisions, _shorten(hashes.features))
        places = []
        for part in (np.ones(len(self.keys), dtype=bool), self.heldout, ~self.heldout):
            aligned = align(Sequence(self.keys[part], self.features[part]), rows, -np.log(propensity), LEVEL)
            places.append(np.append(np.flatnonzero(part), -1)[aligned])
        first, second, third = sorted(places, key=lambda place: -(place >= 0).sum())
        return np.where(first >= 0, first, np.where(second >= 0, second, third))


def _shorten(hashes: np.ndarray) -> np.ndarray:
    return (hashes >> np.uint64(32)).astype(np.uint32)
