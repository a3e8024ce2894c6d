"""The scales of a data set, compared with the scalers of scikit-learn."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml
from scipy import sparse
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

from drcrm.errors import InputError
from drcrm.experiments.datasets.scaling import SCALES, scaled

SCALERS = {"max_abs": MaxAbsScaler, "standard": StandardScaler}


def parts(density: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Return columns with different scales; one is constant, one is 0 in the training part."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 6)) * (rng.random((50, 6)) < density) * [1e-3, 1, 1e4, 1, 1, 7] + [0, 0, 1e5, 0, 0, 0]
    X[:, 3] = 2.5
    X[:30, 4] = 0
    return X[:30], X[30:]


@pytest.mark.parametrize("kind", SCALERS)
def test_scales_are_those_of_scikit_learn(kind):
    X, X_test = parts()
    scaler = SCALERS[kind]().fit(X)
    for result, part in zip(scaled(kind, X, X_test), (X, X_test), strict=True):
        assert result == pytest.approx(scaler.transform(part), rel=1e-9, abs=1e-9)


def test_sparse_features_stay_sparse():
    X, X_test = parts(density=0.3)
    result = scaled("max_abs", sparse.csr_array(X), sparse.csr_array(X_test))
    for part, expected in zip(result, scaled("max_abs", X, X_test), strict=True):
        assert isinstance(part, sparse.csr_array)
        assert np.array_equal(part.toarray(), expected)
    with pytest.raises(InputError, match="scale must be max_abs or none for a sparse data set, got standard"):
        scaled("standard", sparse.csr_array(X), sparse.csr_array(X_test))


def test_the_schema_has_the_same_scales():
    schema = yaml.safe_load((Path(__file__).parents[3] / "workflow/schemas/config.schema.yaml").read_text())
    assert schema["$defs"]["dataset"]["properties"]["scale"]["enum"] == list(SCALES)
