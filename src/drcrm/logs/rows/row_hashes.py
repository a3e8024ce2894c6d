"""64-bit hashes of arrays. Equal values have equal hashes, and different values almost always differ."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import sparse

FACTOR = np.uint64(0x9E3779B97F4A7C15)  # odd, so multiplication by it is one-to-one


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
