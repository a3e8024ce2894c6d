"""CRFs for the logging policy and the skyline: with features x ⊗ y and no transitions, one length-1 CRF per label.

Each is a logistic regression with inverse regularisation C on θ = w_1 − w_0, whose constant is regularised too.
"""

from collections.abc import Sequence

import numpy as np
import sklearn_crfsuite
from pycrfsuite import ItemSequence
from scipy import sparse

from drcrm.arrays.validation import Features
from drcrm.errors import InputError
from drcrm.experiments.simulation.losses import choose_by_greedy_loss
from drcrm.policies.exponential import ExponentialPolicy

CERTAIN = 1000.0
UNMOVED = 1e-3  # a label's gradient at 0, relative to 1/C and Σ |x|, from which its weights round to more than 0
SKYLINE_MEMORY = 50  # pairs of CRFsuite's L-BFGS; with its default, 6, a skyline takes 1.6 to 2.8 times as long


def fit_crf(X: Features, labels: np.ndarray, C: float) -> ExponentialPolicy:
    """Fit a CRF to labelled contexts and return it as an exponential policy.

    A label that is never positive becomes 0 with certainty (weight −1000 on the constant), and one that always is
    becomes 1.

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
        If CRFsuite's line search fails at its start and leaves all weights at 0. Features around 1000 cause this.
    """
    return _fit(_sequences(X), X, labels, C)


def fit_skyline(
    X: Features, labels: np.ndarray, X_heldout: Features, labels_heldout: np.ndarray, grid: Sequence[float]
) -> tuple[ExponentialPolicy, float]:
    """Return the CRF with the smallest held-out greedy Hamming loss, and its C, see :func:`choose_by_greedy_loss`."""
    sequences = _sequences(X)

    def fit(C: float) -> ExponentialPolicy:
        return _fit(sequences, X, labels, C, num_memories=SKYLINE_MEMORY)

    return choose_by_greedy_loss(fit, grid, X_heldout, labels_heldout)


def _sequences(X: Features) -> list[ItemSequence]:
    X = sparse.csr_array(X, copy=True)
    X.sum_duplicates()
    names = np.arange(X.shape[1]).astype(str)
    rows = zip(X.indptr[:-1], X.indptr[1:], strict=True)
    return [ItemSequence([dict(zip(names[X.indices[a:b]], X.data[a:b].tolist(), strict=True))]) for a, b in rows]


def _fit(sequences: list[ItemSequence], X: Features, labels: np.ndarray, C: float, **solver: int) -> ExponentialPolicy:
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
            min_freq=-np.inf,  # frequencies are sums of feature values: a minimum of 0 would drop negative features
            **solver,
        )
        crf.fit(sequences, [[str(int(value))] for value in positive])
        for (feature, label), weight in crf.state_features_.items():
            column[int(feature)] += weight if label == "1" else -weight
        gradient = abs(X.T @ (positive - 0.5))
        if not column.any() and (gradient > UNMOVED * np.maximum(1 / C, abs(X).sum(axis=0))).any():
            raise InputError(f"the CRF does not move from 0: features reach {abs(X).max():.3g}; scale the features")
    return ExponentialPolicy(coef)
