"""Features brought to like scales, as the training part has them."""

import numpy as np
from scipy import sparse

from drcrm.arrays.validation import Features, check_features
from drcrm.data.scaling import feature_scales
from drcrm.errors import InputError

SCALES = ("none", "max_abs", "standard")


def scaled(kind: str, X: Features, X_test: Features) -> tuple[Features, Features]:
    """Return the features of both parts, (n, d) and (m, d), as the scale of a data set has them.

    none      as they are
    max_abs   x / max |x|, the largest of the training part; the others' zeros stay zeros
    standard  (x − x̄) / s, mean and standard deviation (with n) of the training part; not of CSR, which would be dense

    A feature that is 0, or does not vary, in the training part is not divided. InputError for "standard" of CSR, and
    for a test part beyond the range of floating-point numbers.
    """
    if kind == "none":
        return X, X_test
    if kind == "standard" and sparse.issparse(X):
        raise InputError("scale is standard, which leaves no zeros of a sparse data set, expected max_abs or none")
    largest = feature_scales(X)
    with np.errstate(over="ignore"):
        train, test = _divided(X, largest), check_features(_divided(X_test, largest))
        if kind == "max_abs":
            return train, test
        mean, deviation = train.mean(axis=0), train.std(axis=0)
        deviation[train.max(axis=0) == train.min(axis=0)] = 1
        return (train - mean) / deviation, check_features((test - mean) / deviation)


def _divided(X: Features, by: np.ndarray) -> Features:
    """X with each column divided by a number."""
    if not sparse.issparse(X):
        return X / by
    return sparse.csr_array((X.data / by[X.indices], X.indices, X.indptr), shape=X.shape)
