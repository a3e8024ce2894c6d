"""Scaling of a data set's features, determined by its training part."""

import numpy as np
from scipy import sparse

from drcrm.arrays.validation import Features, check_features
from drcrm.errors import InputError

SCALES = ("none", "max_abs", "standard")


def scaled(kind: str, X: Features, X_test: Features) -> tuple[Features, Features]:
    """Return the features of the training part (n, d) and the test part (m, d) on a common scale.

    Only the training part determines the scale.

    - ``none``: unchanged
    - ``max_abs``: x / max |x|, which keeps zeros
    - ``standard``: (x − mean) / standard deviation (divisor n), only for dense features

    A feature whose divisor would be 0 is not divided. Raise InputError for "standard" with a CSR matrix, and if the
    scaled test part exceeds the range of floating-point numbers.
    """
    if kind == "none":
        return X, X_test
    if kind == "standard" and sparse.issparse(X):
        raise InputError("scale must be max_abs or none for a sparse data set, got standard, which does not keep zeros")
    from sklearn.preprocessing import MaxAbsScaler, StandardScaler  # a slow import

    scaler = MaxAbsScaler() if kind == "max_abs" else StandardScaler()
    with np.errstate(over="ignore"):
        return scaler.fit_transform(X), check_features(scaler.transform(X_test))
