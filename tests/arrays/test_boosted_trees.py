"""Boosted trees that are stored in few arrays: the same predictions, and far fewer members of an archive."""

from io import BytesIO
from zipfile import ZipFile

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from drcrm.arrays.boosted_trees import BoostedClassifier, BoostedRegressor
from drcrm.policies.stored_policies import from_bytes, to_bytes

RNG = np.random.default_rng(0)
X = np.column_stack([RNG.normal(size=(300, 2)), RNG.integers(0, 5, 300)])
X[::7, 0] = np.nan
CLASSES = RNG.integers(0, 3, 300) + 10 * (X[:, 1] > 0)
SETTINGS = {"max_iter": 6, "random_state": 0}


@pytest.mark.parametrize(
    ("joined", "plain", "target"),
    [
        (BoostedRegressor, HistGradientBoostingRegressor, X[:, 1] + (X[:, 2] == 3)),
        (BoostedClassifier, HistGradientBoostingClassifier, CLASSES),
        (BoostedClassifier, HistGradientBoostingClassifier, CLASSES > 4),
    ],
    ids=["regressor", "five classes", "two classes"],
)
def test_stored_trees_predict_like_the_original(joined, plain, target):
    fitted, original = joined(**SETTINGS).fit(X, target), plain(**SETTINGS).fit(X, target)
    content = to_bytes(fitted, "it")
    restored = from_bytes(content, joined, "it")
    method = "predict_proba" if hasattr(plain, "predict_proba") else "predict"
    np.testing.assert_array_equal(getattr(restored, method)(X), getattr(original, method)(X))
    np.testing.assert_array_equal(getattr(fitted, method)(X), getattr(original, method)(X))
    members = len(ZipFile(BytesIO(content.tobytes())).namelist())
    assert members < len(ZipFile(BytesIO(to_bytes(original, "it").tobytes())).namelist())


def test_unfitted_trees_are_stored():
    assert from_bytes(to_bytes(BoostedRegressor(max_iter=3), "it"), BoostedRegressor, "it").max_iter == 3
