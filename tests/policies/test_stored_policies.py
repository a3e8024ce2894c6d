"""Estimators of scikit-learn as bytes: the same predictions, only trusted types, and damaged bytes are refused."""

import subprocess
from functools import partial
from io import BytesIO
from zipfile import ZipFile

import numpy as np
import pytest
from fixtures.user_input import damaged, examples, result_or_message
from hypothesis import given
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import LassoCV, LinearRegression
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, PolynomialFeatures

from drcrm.arrays.boosted_trees import BoostedClassifier, BoostedRegressor
from drcrm.errors import InputError
from drcrm.policies.stored_policies import from_bytes, to_bytes

X = np.random.default_rng(0).normal(size=(80, 3))
Y = X[:, 0] ** 2 + X[:, 1]
HOLES = np.where(np.arange(240).reshape(80, 3) % 7, X, np.nan)
CLASSES = np.random.default_rng(1).integers(0, 3, 80) + 10 * (X[:, 1] > 0)
TREES = {"max_iter": 3, "random_state": 0}


@pytest.mark.parametrize(
    "regressor",
    [LassoCV(), make_pipeline(PolynomialFeatures(3), RandomForestRegressor(2, random_state=0))],
    ids=lambda regressor: type(regressor).__name__,
)
def test_a_stored_regressor_predicts_the_same(regressor):
    fitted = regressor.fit(X, Y)
    restored = from_bytes(to_bytes(fitted, "it"), type(fitted), "it")
    np.testing.assert_array_equal(restored.predict(X), fitted.predict(X))


@pytest.mark.parametrize(
    ("joined", "plain", "target"),
    [
        (BoostedRegressor, HistGradientBoostingRegressor, Y),
        (BoostedClassifier, HistGradientBoostingClassifier, CLASSES),
        (BoostedClassifier, HistGradientBoostingClassifier, CLASSES > 4),
    ],
    ids=["regressor", "six classes", "two classes"],
)
def test_trees_in_few_arrays_predict_like_the_original(joined, plain, target):
    fitted, original = joined(**TREES).fit(HOLES, target), plain(**TREES).fit(HOLES, target)
    method = "predict_proba" if hasattr(plain, "predict_proba") else "predict"
    contents = [to_bytes(model, "it") for model in (fitted, original)]
    models = [fitted, *(from_bytes(array, kind, "it") for array, kind in zip(contents, (joined, plain), strict=True))]
    for model in models:
        np.testing.assert_array_equal(getattr(model, method)(HOLES), getattr(original, method)(HOLES))
    members = [len(ZipFile(BytesIO(array.tobytes())).namelist()) for array in contents]
    assert members[0] < members[1]
    assert from_bytes(to_bytes(joined(max_iter=9), "it"), joined, "it").max_iter == 9, "without trees"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            KNeighborsRegressor().fit(X, Y),
            "it has the type sklearn.metrics._dist_metrics.Euclid",
        ),
        (FunctionTransformer(subprocess.run), "it has the type subprocess.run"),
        (FunctionTransformer(partial(eval, "1")), "it has the type builtins.eval"),
        (FunctionTransformer(lambda X: X), r"it has the type .*<lambda>"),
        (FunctionTransformer(kw_args={"rows": (row for row in X)}), "it cannot be stored: .*generator"),
    ],
    ids=["neighbours", "function", "builtin", "lambda", "generator"],
)
def test_other_types_are_refused(value, message):
    with pytest.raises(InputError, match=message):
        to_bytes(value, "it")


def test_an_object_of_another_kind_is_refused():
    with pytest.raises(InputError, match="it is of type LinearRegression, expected LassoCV"):
        from_bytes(to_bytes(LinearRegression().fit(X, Y), "it"), LassoCV, "it")


STORED = to_bytes(RandomForestRegressor(2, max_depth=2, random_state=0).fit(X, Y), "it").tobytes()


@given(content=damaged(STORED))
@examples(40)
def test_damaged_bytes_are_refused_in_one_line(content):
    array = np.frombuffer(content, dtype=np.uint8)
    restored, message = result_or_message(from_bytes, array, RandomForestRegressor, "it")
    assert message is not None or restored.predict(X).shape == (80,)


def test_equal_objects_have_equal_bytes():
    """Skops names objects by their addresses, and its archives have the time of writing."""
    fits = [HistGradientBoostingRegressor(max_iter=3, random_state=0).fit(X, Y) for _ in range(2)]
    first, second = (to_bytes(fit, "it") for fit in fits)
    assert np.array_equal(first, second)
    other = HistGradientBoostingRegressor(max_iter=3, random_state=0).fit(X, Y + X[:, 0])
    assert not np.array_equal(first, to_bytes(other, "it"))
