"""Identity of rows: their hashes, pairs of equal rows, and the rows that a policy was learned from."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
from scipy import sparse
from scipy.special import logsumexp

FACTOR = np.uint64(0x9E3779B97F4A7C15)  # odd, so multiplication by it is one-to-one
BETS = 0.03, 0.1, 0.3, 0.9  # shares of the capital, see agreement_p_value
SURPRISE = 1e-6  # probability with which rows of an entirely new log are recognised by mistake
FEW = 0.01  # share of equal rows that needs no remark
FEW_CONTEXTS = 0.1  # share of rows that may be left out because of their context
STORED = "features", "keys", "times", "ids", "actions"  # arrays of LearnedRows in a policy's file


class RowHashes(NamedTuple):
    """Hashes of n rows.

    Attributes
    ----------
    features, actions : array (n,) of uint64
    decisions : array (n,) of uint64
        Hashes of features and action.
    rows : array (n,) of uint64
        Hashes of features, action and cost, and of the propensity if it was logged.
    times, ids : array (n,) of uint64, optional
        Hashes of the columns ``time`` and ``id`` of the mapping.
    """

    features: np.ndarray
    actions: np.ndarray
    decisions: np.ndarray
    rows: np.ndarray
    times: np.ndarray | None = None
    ids: np.ndarray | None = None


def hash_numbers(values: np.ndarray) -> np.ndarray:
    """Return the hash of each number, (n,)."""
    values = np.asarray(values, dtype=float) + 0.0  # −0 becomes 0
    return pd.util.hash_array(np.where(np.isnan(values), np.nan, values))


@np.errstate(over="ignore", divide="ignore", invalid="ignore")
def round_numbers(values: np.ndarray) -> np.ndarray:
    """Return numbers as float32 with six significant digits, (n,); smaller whole numbers than 2²⁴ are exact.

    So a copy with 32 bits, or most copies with six digits, have the same numbers.
    """
    single = np.asarray(values, dtype=np.float32)
    exact = single.astype(float)
    scale = 10.0 ** (5 - np.floor(np.log10(abs(exact))))
    rounded = (np.rint(exact * scale) / scale).astype(np.float32)
    is_kept = ~np.isfinite(exact) | (exact == 0) | ((exact == np.rint(exact)) & (abs(exact) < 2**24))
    return np.where(is_kept, single, rounded)


def hash_texts(values: list[str]) -> np.ndarray:
    """Return the hash of each text, (n,)."""
    return pd.util.hash_array(np.array(values, dtype=object), categorize=False)


def hash_codes(codes: np.ndarray, values: list[str], text_of: Callable[[str], str] = str) -> np.ndarray:
    """Return the hash of ``text_of`` each coded value, (n,)."""
    places, occurring = pd.factorize(codes)
    return hash_texts([text_of(values[code]) for code in occurring])[places]


def hash_matrix(X: Any) -> np.ndarray:
    """Return the hash of each row of rounded numbers, (n,).

    The order in which a sparse matrix stores its entries does not matter.
    """
    if not sparse.issparse(X):
        return mix(hash_numbers(round_numbers(column)) for column in X.T)
    X = X.tocsr()
    entries = mix([hash_numbers(X.indices), hash_numbers(round_numbers(X.data))])
    return _segment_sums(np.where(X.data == 0, np.uint64(0), entries), X.indptr)


def hash_lists(candidates: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Return the hash of each list, (m,), from the hashes of its candidates. The order of the candidates matters."""
    place = np.arange(len(candidates)) - np.repeat(starts[:-1], np.diff(starts))
    return _segment_sums(mix([candidates, hash_numbers(place)]), starts)


def mix(columns: Iterable[np.ndarray]) -> np.ndarray:
    """Combine the hashes of several columns into one hash per row. The order of the columns matters."""
    mixed: Any = np.uint64(0)
    for column in columns:
        mixed = mixed * FACTOR + column
        mixed ^= mixed >> np.uint64(32)
    return mixed


def _segment_sums(values: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Return the sum of each segment of values, modulo 2⁶⁴. Segments are consecutive and begin at ``starts``."""
    before = np.append(np.uint64(0), np.cumsum(values, dtype=np.uint64))[starts]
    return before[1:] - before[:-1]


def agreement_p_value(agrees: np.ndarray, chance: np.ndarray) -> float:
    """Return a p-value of pairs that agree too often; 1 without pairs.

    A player with capital 1 bets the share b of it on each pair, which pays 1/chance if the pair agrees. Assume that a
    pair, given the earlier ones, agrees with a probability of at most its chance. Then the capital
    Π (1 + b (agrees/chance − 1)) has an expectation of at most 1, and so has its mean over several b. By Markov's
    inequality, the inverse of this mean is a p-value. Source: Waudby-Smith & Ramdas 2024.

    Parameters
    ----------
    agrees : bool array (m,)
        Whether each pair agrees. Pairs are disjoint.
    chance : array (m,)
        For a pair that agrees, a bound on the probability of this, for example the propensity of the later row.
    """
    capital = np.log1p(np.outer(BETS, agrees / chance - 1)).sum(axis=1)
    return float(np.exp(min(np.log(len(BETS)) - logsumexp(capital), 0.0)))


def pair_equal_values(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return disjoint pairs of positions with equal values: a value's first and second position, third and fourth, …

    The second position of a pair is the later one.
    """
    order = np.argsort(values, kind="stable")
    ordered, rows = values[order], np.arange(len(values))
    starts = np.append(True, ordered[1:] != ordered[:-1])[: len(values)]
    later = np.flatnonzero((rows - np.maximum.accumulate(np.where(starts, rows, 0))) % 2)
    return order[later - 1], order[later]


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
