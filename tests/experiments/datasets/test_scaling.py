"""The scales of a data set: those of scikit-learn's scalers, from the training part only."""

import numpy as np
import pytest
from scipy import sparse

from drcrm.errors import InputError
from drcrm.experiments.source_formats import scaled


def test_sparse_features_stay_sparse():
    X, X_test = np.split(np.random.default_rng(0).normal(size=(50, 6)) * [1e-3, 1, 1e4, 1, 0, 7], [30])
    result = scaled("max_abs", sparse.csr_array(X), sparse.csr_array(X_test))
    for part, expected in zip(result, scaled("max_abs", X, X_test), strict=True):
        assert isinstance(part, sparse.csr_array)
        assert part.toarray() == pytest.approx(expected)
        assert abs(expected).max() < 10
    with pytest.raises(InputError, match="scale must be max_abs or none for a sparse data set, got standard"):
        scaled("standard", sparse.csr_array(X), sparse.csr_array(X_test))
