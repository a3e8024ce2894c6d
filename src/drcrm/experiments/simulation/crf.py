"""The CRF that logs, and the CRF skyline: with x ⊗ y and no transitions, one length-1 CRF per label.

Each equals logistic regression with inverse regularisation C on θ = w_1 − w_0, the constant feature regularised too.
"""

from collections.abc import Sequence

import numpy as np
import sklearn_crfsuite
from pycrfsuite import ItemSequence
from scipy import sparse

from drcrm.errors import InputError
from drcrm.experiments.simulation.climbing import climbed
from drcrm.policies.exponential import ExponentialPolicy

CERTAIN = 1000.0
UNMOVED = 1e-3  # of a label's gradient at 0, beside 1/C and Σ |x|: from here its weights are not 0 to 6 decimals
SKYLINE_MEMORY = 50  # of crfsuite's L-BFGS; by its default, 6, the same losses take 1.6 to 2.8 times as long


def fit_crf(X, labels: np.ndarray, C: float) -> ExponentialPolicy:
    """Fit a CRF to labelled contexts and read its weights out into an exponential policy.

    A label that is never positive is logged as 0 with certainty (weight −1000 on the constant, the last feature), one
    that always is as 1.

    Parameters
    ----------
    X : array or CSR (n, d)
        Features; the last is the constant 1.
    labels : array (n, q) of 0 and 1
    C : float > 0
        Inverse regularisation.

    Raises
    ------
    InputError
        Where crfsuite's line search fails at its start, and leaves all weights at 0: features of 1000 or so.
    """
    return _fit(_sequences(X), X, labels, C)


def fit_skyline(X, labels, X_heldout, labels_heldout, grid: Sequence[float]) -> tuple[ExponentialPolicy, float]:
    """Fit CRFs with the rising C of a grid; return the one with the smallest greedy Hamming loss held out, and its C.

    See :func:`drcrm.experiments.simulation.climbing.climbed`.
    """
    sequences = _sequences(X)

    def fit(C: float) -> ExponentialPolicy:
        return _fit(sequences, X, labels, C, num_memories=SKYLINE_MEMORY)

    return climbed(fit, grid, X_heldout, labels_heldout)


def absent_labels(labels: np.ndarray) -> np.ndarray:
    """Return which labels have no positive, shape (q,)."""
    return ~labels.any(axis=0)


def _sequences(X) -> list[ItemSequence]:
    X = sparse.csr_array(X, copy=True)
    X.sum_duplicates()
    names = np.arange(X.shape[1]).astype(str)
    rows = zip(X.indptr[:-1], X.indptr[1:], strict=True)
    return [ItemSequence([dict(zip(names[X.indices[a:b]], X.data[a:b].tolist(), strict=True))]) for a, b in rows]


def _fit(sequences: list[ItemSequence], X, labels: np.ndarray, C: float, **solver: int) -> ExponentialPolicy:
    coef = np.zeros((X.shape[1], labels.shape[1]))
    for column, positive in zip(coef.T, labels.T, strict=True):
        if positive.min() == positive.max():
            column[-1] = CERTAIN if positive[0] else -CERTAIN
            continue
        crf = sklearn_crfsuite.CRF(
            algorithm="lbfgs",
            all_possible_states=True,
            c1=0,
            c2=1 / C,
            epsilon=1e-9,
            delta=1e-14,
            max_iterations=5000,
            min_freq=-np.inf,  # a frequency is a sum of feature values: above 0, negative features would be dropped
            **solver,
        )
        crf.fit(sequences, [[str(int(value))] for value in positive])
        for (feature, label), weight in crf.state_features_.items():
            column[int(feature)] += weight if label == "1" else -weight
        pull = abs(X.T @ (positive - 0.5))
        if not column.any() and (pull > UNMOVED * np.maximum(1 / C, abs(X).sum(axis=0))).any():
            raise InputError(f"the CRF does not move from 0: features reach {abs(X).max():.3g}; scale the features")
    return ExponentialPolicy(coef)
