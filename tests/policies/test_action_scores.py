"""Boosted trees for one context agree with scikit-learn's predictions."""

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from drcrm.policies.action_scores import BoostedTrees, is_boosted

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 4))
X[RNG.random(X.shape) < 0.1] = np.nan
SIZE = {"max_iter": 8, "max_leaf_nodes": 7, "random_state": 0}


def fitted(n_classes: int) -> object:
    """Return a classifier of a number of classes, or a regressor for none."""
    if not n_classes:
        return HistGradientBoostingRegressor(**SIZE).fit(X, np.nansum(X, axis=1))
    y = np.digitize(np.nan_to_num(X[:, 0]), np.linspace(-1, 1, n_classes - 1))
    return HistGradientBoostingClassifier(**SIZE).fit(X, y)


def test_every_prediction_is_that_of_the_model():
    models = [fitted(n_classes) for n_classes in (0, 2, 3, 5, 0)]
    constant = HistGradientBoostingRegressor(**SIZE).fit(X, np.ones(300))  # each tree is a single leaf
    trees = BoostedTrees([*models, constant])
    nodes, at_threshold = models[0]._predictors[0][0].nodes, np.nan_to_num(X[0])
    at_threshold[nodes["feature_idx"][0]] = nodes["num_threshold"][0]  # belongs to the left child
    rows = [*X[:40], np.full(4, np.nan), np.full(4, 1e300), np.full(4, -np.inf), at_threshold]
    for x in rows:
        *predicted, one = trees.predict(x)
        for model, values in zip(models, predicted, strict=True):
            method = getattr(model, "predict_proba", model.predict)
            if np.isinf(x).any():
                x = np.maximum(x, -1e300)  # scikit-learn refuses infinite values
            assert values == pytest.approx(method(x[None, :]).reshape(values.shape), rel=1e-12, abs=1e-15)
        assert one == pytest.approx([1.0])


def test_models_with_categories_or_without_trees_are_not_supported():
    categories = HistGradientBoostingRegressor(categorical_features=[0], **SIZE)
    categories.fit(RNG.integers(0, 3, size=(90, 1)), RNG.normal(size=90))
    assert [is_boosted(model) for model in (fitted(0), categories, object())] == [True, False, False]
