"""Feature maps: X' = [X, s φ(X)] wherever a policy or a cost model is used."""

import pickle
import re
import warnings
from weakref import ref

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy import sparse
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.ensemble import RandomTreesEmbedding
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, PolynomialFeatures, StandardScaler

from drcrm import KLDRO, BanditLog, CostModel, DoublyRobustDRO, SoftmaxPolicy, classifier_policy, policy_support
from drcrm import off_policy_value as value_of
from drcrm.certificates import policy_certificate
from drcrm.errors import InputError
from drcrm.logs.diagnostics.diagnosis import diagnose
from drcrm.policies.feature_maps import FeatureMap, MedianNystroem
from drcrm.selection.score_names import SCORES

SQUARES = FunctionTransformer(lambda X: np.column_stack([X[:, 0] * X[:, 1], X[:, 0] ** 2, X[:, 1] ** 2]))


def ring_log(n: int = 600, seed: int = 0):
    """Return the log of a uniform policy; the best action depends on |x| and on a product of features."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=(n, 2)), np.ones(n)])
    best = (X[:, 0] ** 2 + X[:, 1] ** 2 > 1.4).astype(int) + (X[:, 0] * X[:, 1] > 0)
    A = rng.integers(0, 3, n)
    return X, A, {"propensity": np.full(n, 1 / 3), "cost": -(best == A).astype(float)}, best


@pytest.mark.parametrize(
    "features", [{"nystroem": 100}, RandomTreesEmbedding(20, random_state=0), Nystroem(gamma=0.5, random_state=0)]
)
def test_a_mapped_policy_learns_what_a_linear_policy_cannot(features):
    X, A, rows, _ = ring_log()
    test, _, _, best = ring_log(seed=1)
    linear, mapped = (DoublyRobustDRO(features=choice, safe=False).fit(X, A, **rows) for choice in (None, features))
    assert (linear.predict(test) == best).mean() < 0.7 < 0.8 < (mapped.predict(test) == best).mean()


def test_a_fit_with_a_map_equals_a_fit_to_mapped_contexts():
    X, A, rows, _ = ring_log()
    feature_map = FeatureMap(SQUARES, X)
    mapped_X = feature_map(X)
    assert np.array_equal(mapped_X[:, :3], X)
    assert (mapped_X[:, 3:] ** 2).sum() == pytest.approx((X**2).sum(), rel=1e-12)
    logging = SoftmaxPolicy(np.random.default_rng(0).normal(size=(3, 3)) / 3)
    padded = feature_map.pad_policy(logging)
    result = DoublyRobustDRO(features=SQUARES, safe=False).fit(X, A, **rows, logging_policy=logging)
    expected = DoublyRobustDRO(safe=False).fit(mapped_X, A, **rows, logging_policy=padded)
    assert np.array_equal(result.coef_, expected.coef_)
    assert np.array_equal(result.predict_proba(X), expected.predict_proba(mapped_X))
    test, B, test_rows, _ = ring_log(seed=1)
    for by in SCORES:
        score = expected.score(feature_map(test), B, **test_rows, by=by)
        assert result.score(test, B, **test_rows, by=by) == score
    pairs = (result, BanditLog(test, B, **test_rows)), (expected, BanditLog(feature_map(test), B, **test_rows))
    values = [[value_of(policy, log, estimate) for estimate in ("ips", "snips")] for policy, log in pairs]
    assert values[0] == pytest.approx(values[1], rel=1e-12)
    certificates = [policy_certificate(policy, log, "dr", cost_model=policy.cost_model_) for policy, log in pairs]
    assert len({(certificate.bound, certificate.value) for certificate in certificates}) == 1
    masses = [policy_support(*pair, pi0).mass for pair, pi0 in zip(pairs, (logging, padded), strict=True)]
    assert masses[0] == masses[1]


@pytest.fixture
def maps(monkeypatch) -> list:
    """References to the arrays X' that feature maps compute."""
    computed, extend = [], FeatureMap._extend

    def record(*arguments):
        mapped = extend(*arguments)
        computed.append(ref(mapped))
        return mapped

    monkeypatch.setattr(FeatureMap, "_extend", record)
    return computed


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("has_empty_rows", [False, True])
def test_an_evaluation_computes_mapped_features_once_and_forgets_them(has_empty_rows, form, maps):
    X, A, rows, _ = ring_log(100)
    X = form(X)
    result = DoublyRobustDRO(features=MedianNystroem(10), safe=False).fit(X, A, **rows)
    rows["count"] = np.arange(100) % 5 if has_empty_rows else np.ones(100, dtype=int)
    log, model = BanditLog(X, A, **rows), result.cost_model_
    for evaluate in (
        lambda: result.score(X, A, **rows, by="dr"),
        lambda: result.score(X, A, **rows, by="improvement_bound"),
        lambda: value_of(result, log, cost_model=model),
        lambda: policy_certificate(result, log, "dr", cost_model=model),
        lambda: diagnose(log.without_empty_rows(), result, cost_model=model),
    ):
        maps.clear()
        evaluate()
        assert [mapped() for mapped in maps] == [None]


@pytest.mark.parametrize(("is_linear", "start"), [(True, "model"), (False, "imitation")])
def test_a_cost_model_over_the_contexts_is_used_over_mapped_features(is_linear, start):
    X, A, rows, _ = ring_log()
    model, wide = CostModel(0.01).fit(X, A, cost=rows["cost"]), CostModel()
    options = {"estimate": "dr", "start": start}
    result = KLDRO(**options, features=SQUARES).fit(X, A, **rows, cost_model=model if is_linear else model.effects)
    wide.coef_, wide.intercept_ = np.vstack([model.coef_, np.zeros((3, 3))]), model.intercept_
    expected = KLDRO(**options).fit(FeatureMap(SQUARES, X)(X), A, **rows, cost_model=wide)
    assert result.objective_ == pytest.approx(expected.objective_, rel=1e-9)
    assert result.tilt_ == (pytest.approx(expected.tilt_, rel=1e-9) if is_linear else None)


def test_sparse_contexts_stay_sparse():
    X, A, rows, _ = ring_log()
    sparse_X = sparse.csr_array(X)
    assert sparse.issparse(FeatureMap(RandomTreesEmbedding(10, random_state=0), sparse_X)(sparse_X))
    result, expected = (DoublyRobustDRO(features=MedianNystroem(6)).fit(form, A, **rows) for form in (sparse_X, X))
    assert result.objective_ == pytest.approx(expected.objective_, rel=1e-8)


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (
            {"nystrom": 3},
            "features is {'nystrom': 3}, expected 'scores' or a size like",
        ),
        ({}, "features is {}, expected 'scores' or a size"),
        ({"nystroem": 0}, "features.nystroem is 0, expected a whole number of at least 1"),
        (3, "features is 3, expected a transformer"),
        (FunctionTransformer(lambda X: X[:-1]), "features' transform has 29 rows, expected 30"),
        (FunctionTransformer(lambda X: X * np.nan), "features' transform has nan in row 0, column 0, expected finite"),
    ],
)
def test_invalid_maps_are_rejected(features, message):
    X, A, rows, _ = ring_log(30)
    with pytest.raises(InputError, match=re.escape(message)):
        DoublyRobustDRO(features=features).fit(X, A, **rows)


def test_a_fit_cannot_start_at_a_policy_with_its_own_map():
    X, A, rows, _ = ring_log(30)
    fitted = DoublyRobustDRO(features=SQUARES, safe=False).fit(X, A, **rows)
    with pytest.raises(InputError, match="logging policy with its own feature map"):
        DoublyRobustDRO().fit(X, A, **rows, logging_policy=fitted.policy_)


class ScalingClassifier(LogisticRegression):
    """A classifier that transforms its features, and takes weights, which a pipeline does not."""

    def fit(self, X, y, sample_weight=None):
        self.scaler_ = StandardScaler().fit(X)
        return super().fit(self.scaler_.transform(X), y, sample_weight)

    def predict_proba(self, X):
        return super().predict_proba(self.scaler_.transform(X))


@pytest.mark.parametrize(
    "features",
    [
        make_pipeline(StandardScaler(), PolynomialFeatures(2)),
        ColumnTransformer([("n", PolynomialFeatures(2), [0, 1])]).set_output(transform="pandas"),
    ],
    ids=["pipeline", "user's output"],
)
def test_a_fit_does_not_depend_on_the_output_that_scikit_learn_is_set_to(features):
    X, A, rows, _ = ring_log(300)
    fitted = DoublyRobustDRO(safe=False, features=features).fit(X, A, **rows)
    expected = fitted.predict_proba(X)
    with sklearn.config_context(transform_output="pandas"):
        np.testing.assert_array_equal(fitted.predict_proba(X), expected)
        again = DoublyRobustDRO(safe=False, features=features).fit(X, A, **rows)
        np.testing.assert_array_equal(again.predict_proba(X), expected)
        log = BanditLog(X, A, **rows)
        competitor = classifier_policy(log, ScalingClassifier())
    assert value_of(competitor, log) == value_of(classifier_policy(log, ScalingClassifier()), log)


NAMED = {
    "columns": ColumnTransformer([("n", PolynomialFeatures(2), ["age", "price"])]),
    "pipeline": make_pipeline(ColumnTransformer([("n", StandardScaler(), ["price"])]), PolynomialFeatures(2)),
    "selector": ColumnTransformer([("n", PolynomialFeatures(2), make_column_selector(pattern="age|price"))]),
    "function": FunctionTransformer(lambda frame: frame[["age"]].to_numpy() ** 2),
}
NUMBERED = {
    "columns": ColumnTransformer([("n", PolynomialFeatures(2), [0, 1])]),
    "pipeline": make_pipeline(ColumnTransformer([("n", StandardScaler(), [1])]), PolynomialFeatures(2)),
    "selector": ColumnTransformer([("n", PolynomialFeatures(2), [0, 1])]),
    "function": FunctionTransformer(lambda X: X[:, :1] ** 2),
}


@pytest.mark.parametrize("kind", NAMED)
def test_a_map_selects_columns_of_a_data_frame_by_name(kind):
    X, A, rows, _ = ring_log(300)
    frame = pd.DataFrame(X, columns=["age", "price", "one"])
    by_name, by_number = (
        DoublyRobustDRO(safe=False, features=features[kind]).fit(frame, A, **rows) for features in (NAMED, NUMBERED)
    )
    np.testing.assert_array_equal(by_name.predict_proba(frame), by_number.predict_proba(frame))
    with warnings.catch_warnings(action="ignore"):  # X has no feature names
        np.testing.assert_array_equal(by_name.predict_proba(X), by_number.predict_proba(frame))
    log = BanditLog(frame, A, **rows)
    assert value_of(by_name, log) == value_of(by_number, log)
    if kind != "function":
        assert pickle.loads(pickle.dumps(by_name)).predict_proba(frame) == pytest.approx(by_name.predict_proba(frame))


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_the_nystroem_map_is_that_of_scikit_learn(form):
    X = np.maximum(np.random.default_rng(9).normal(size=(200, 4)) * [1, 1e3, 1e-3, 0], 0) + np.array([0, 0, 0, 5])
    fitted = MedianNystroem(40).fit(form(X))
    expected = fitted.kernel_.transform(fitted.scaler_.transform(form(X)))
    for rows in (X, sparse.csr_array(X)):  # whatever it was fitted to
        assert fitted.transform(rows) == pytest.approx(expected, abs=1e-6)
        assert fitted.transform(rows[:1]) == pytest.approx(expected[:1], abs=1e-6)


def test_rounding_does_not_become_features():
    rng = np.random.default_rng(10)
    X = np.column_stack([rng.normal(size=(600, 2)), np.eye(3)[rng.integers(0, 3, 600)]])
    rounded = X * (1 + 1e-15 * rng.normal(size=X.shape))
    assert MedianNystroem().fit(X).transform(X) == pytest.approx(
        MedianNystroem().fit(rounded).transform(rounded), abs=1e-6
    )
