"""Action lists: each context has its own list of candidate actions, which have features.

Source: Vowpal Wabbit's action-dependent features (ADF).
"""

from typing import Any, Self

import numpy as np

from drcrm.arrays.validation import as_integer_vector, check_features
from drcrm.errors import InputError


class ActionLists:
    """Contexts with their own lists of candidate actions, in place of a feature matrix X.

    Each of the m contexts has one list. The N candidates of all lists have D features each, written ψ. ``lists[rows]``
    selects contexts.

    Parameters
    ----------
    features : array or CSR (N, D)
        Features ψ of all candidates, list after list.
    starts : int array (m + 1,)
        Row of ``features`` at which each list starts, and N as the last entry. List k consists of the rows starts[k] to
        starts[k + 1] − 1, at least one.

    Raises
    ------
    InputError
        If features are not finite, if starts do not increase from 0 to N, or if a list is empty.

    Examples
    --------
    >>> lists = ActionLists([[1, 0], [0, 1], [1, 1]], starts=[0, 2, 3])  # two candidates, then one
    >>> lists.shape
    (2, 2)
    """

    def __init__(self, features: Any, starts: Any):
        self.features = check_features(features, "features")
        starts = as_integer_vector(starts, "starts")
        if len(starts) < 2 or starts[0] != 0 or starts[-1] != self.features.shape[0]:
            raise InputError(f"starts must begin at 0 and end at {self.features.shape[0]}, the number of candidates")
        sizes = np.diff(starts)
        if (sizes < 1).any():
            number = int(np.argmax(sizes < 1))
            problem = "ends before it begins" if sizes[number] else "is empty"
            raise InputError(f"list {number} {problem}, expected at least one action")
        self.starts = starts

    def __repr__(self) -> str:
        return f"ActionLists({len(self)} lists, {self.features.shape[0]} candidates, {self.features.shape[1]} features)"

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def shape(self) -> tuple[int, int]:
        """Number of lists m and number of features D."""
        return len(self), self.features.shape[1]

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        raise InputError("ActionLists is not an array. Use .features and .starts.")

    def __getitem__(self, rows: Any) -> Self:
        rows = rows[0] if isinstance(rows, tuple) else rows  # lists[rows, ...], as scikit-learn indexes
        lists = np.atleast_1d(np.arange(len(self))[rows])
        if not lists.size:
            raise InputError("the selection of lists is empty, expected at least one list")
        return type(self)(self.features[candidates_of_lists(self.starts, lists)], starts_of_lists(self.starts, lists))


def starts_of_lists(starts: np.ndarray, contexts: slice | np.ndarray) -> np.ndarray:
    """Return the starts of a subset of lists, one list after the other."""
    if isinstance(contexts, slice):
        return starts[contexts.start : contexts.stop + 1] - starts[contexts.start]
    return np.append(0, np.cumsum(np.diff(starts)[contexts]))


def candidates_of_lists(starts: np.ndarray, contexts: np.ndarray) -> np.ndarray:
    """Return the rows of the candidates of a subset of lists, list after list."""
    new_starts = starts_of_lists(starts, contexts)
    return np.repeat(starts[:-1][contexts] - new_starts[:-1], np.diff(new_starts)) + np.arange(new_starts[-1])
