"""Feature maps: X' = [X, s φ(X)] in every place that a policy or a cost model is used."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.ensemble import RandomTreesEmbedding
from sklearn.kernel_approximation import Nystroem
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.preprocessing import FunctionTransformer, PolynomialFeatures, StandardScaler

import drcrm
from drcrm import (
    KLDRO,
    ActionLists,
    BanditLog,
    CostModel,
    DoublyRobustDRO,
    SoftmaxPolicy,
    off_policy_value,
    policy_support,
)
from drcrm.certificates import policy_certificate
from drcrm.errors import InputError
from drcrm.policies.feature_maps import FeatureMap, MedianNystroem, RandomTrees, as_transformer
from drcrm.selection.heldout_scores import SCORES


def ring(n: int = 600, seed: int = 0):
    """What a uniform policy logged; the right action depends on a product of features, and on the distance from 0."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=(n, 2)), np.ones(n)])
    right = (X[:, 0] ** 2 + X[:, 1] ** 2 > 1.4).astype(int) + (X[:, 0] * X[:, 1] > 0)
    A = rng.integers(0, 3, n)
    return X, A, {"propensity": np.full(n, 1 / 3), "cost": -(right == A).astype(float)}, right


SQUARES = FunctionTransformer(lambda X: np.column_stack([X[:, 0] * X[:, 1], X[:, 0] ** 2, X[:, 1] ** 2]))


@pytest.mark.parametrize("features", [{"nystroem": 100}, {"random_trees": 30}, Nystroem(gamma=0.5, random_state=0)])
def test_a_map_sees_what_a_linear_policy_cannot(features):
    X, A, rows, _ = ring()
    test, _, _, truth = ring(seed=1)
    linear, mapped = (DoublyRobustDRO(features=each).fit(X, A, **rows) for each in (None, features))
    assert (linear.predict(test) == truth).mean() < 0.7 < 0.8 < (mapped.predict(test) == truth).mean()


def test_a_fit_with_a_map_is_a_fit_to_the_mapped_contexts():
    X, A, rows, _ = ring()
    own = FeatureMap(SQUARES, X)
    both = own(X)
    assert np.array_equal(both[:, :3], X)
    assert (both[:, 3:] ** 2).sum() == pytest.approx((X**2).sum(), rel=1e-12)
    logging = SoftmaxPolicy(np.random.default_rng(0).normal(size=(3, 3)) / 3)
    given = DoublyRobustDRO(features=SQUARES, safe=False).fit(X, A, **rows, logging_policy=logging)
    padded = SoftmaxPolicy(np.vstack([logging.coef, np.zeros((3, 3))]))
    spelt = DoublyRobustDRO(safe=False).fit(both, A, **rows, logging_policy=padded)
    assert np.array_equal(given.coef_, spelt.coef_)
    assert np.array_equal(given.predict_proba(X), spelt.predict_proba(both))
    test, B, more, _ = ring(seed=1)
    log, mapped = BanditLog(test, B, **more), BanditLog(own(test), B, **more)
    for by in SCORES:
        assert given.score(test, B, **more, by=by) == spelt.score(own(test), B, **more, by=by)
    for estimate in ("ips", "snips", "dr"):
        models = ({"cost_model": each.cost_model_} if estimate == "dr" else {} for each in (given, spelt))
        value, expected = (
            off_policy_value(policy, of, estimate, **model)
            for policy, of, model in zip((given, spelt), (log, mapped), models, strict=True)
        )
        assert value == pytest.approx(expected, rel=1e-12)
    certificates = (
        policy_certificate(each, of, "dr", cost_model=each.cost_model_) for each, of in ((given, log), (spelt, mapped))
    )
    assert len({(each.bound, each.value) for each in certificates}) == 1
    assert policy_support(given, log, logging).mass == policy_support(spelt, mapped, padded).mass


def test_a_cost_model_of_the_contexts_themselves_serves_a_map():
    X, A, rows, _ = ring()
    model = CostModel(0.01).fit(X, A, cost=rows["cost"])
    found = KLDRO(estimate="dr", start="model", features=SQUARES).fit(X, A, **rows, cost_model=model)
    both = FeatureMap(SQUARES, X)(X)
    wide = CostModel()
    wide.coef_, wide.intercept_ = np.vstack([model.coef_, np.zeros((3, 3))]), model.intercept_
    expected = KLDRO(estimate="dr", start="model").fit(both, A, **rows, cost_model=wide)
    assert found.objective_ == pytest.approx(expected.objective_, rel=1e-9)


def test_lists_of_actions_have_maps_of_their_own_features():
    X, A, rows, right = ring()
    lists = ActionLists(np.einsum("kj,ab->kajb", X, np.eye(3)).reshape(-1, 9), 3 * np.arange(601))
    squares = PolynomialFeatures(2, interaction_only=True, include_bias=False)
    found = DoublyRobustDRO(features=squares).fit(lists, A, **rows)
    assert found.predict_proba(lists).shape == (1800,)
    linear = DoublyRobustDRO().fit(lists, A, **rows)
    assert (found.predict(lists) == right).mean() > (linear.predict(lists) == right).mean()


def test_maps_are_cloned_pickled_and_searched():
    X, A, rows, _ = ring()
    kernel = Nystroem(gamma=0.5, n_components=20, random_state=0)
    estimator = DoublyRobustDRO(features=kernel)
    found = estimator.fit(X, A, **rows)
    assert not hasattr(kernel, "components_")  # it is cloned
    assert np.array_equal(clone(found).fit(X, A, **rows).coef_, found.coef_)
    assert np.array_equal(pickle.loads(pickle.dumps(found)).predict(X), found.predict(X))
    with config_context(enable_metadata_routing=True):
        choices = {"features": [None, kernel]}
        search = GridSearchCV(estimator, choices, scoring=drcrm.HeldoutScorer("dr_bound"), cv=KFold(2))
        search.fit(X, A, **rows)
    assert search.best_params_["features"] is not None


def test_sparse_contexts_stay_sparse():
    X, A, rows, _ = ring()
    dense, given = FeatureMap(SQUARES, X), sparse.csr_array(X)
    trees = FeatureMap(as_transformer({"random_trees": 10}), given)
    assert sparse.issparse(trees(given))
    found = DoublyRobustDRO(features=MedianNystroem(6)).fit(given, A, **rows)
    expected = DoublyRobustDRO(features=MedianNystroem(6)).fit(X, A, **rows)
    assert found.objective_ == pytest.approx(expected.objective_, rel=1e-8)
    assert dense(X).shape == (600, 6)


def test_what_is_no_map():
    X, A, rows, _ = ring(30)
    for features, message in (
        ({"nystrom": 3}, "features is {'nystrom': 3}, expected one of nystroem, random_trees, with its size"),
        ({}, "features is {}, expected one of"),
        ({"nystroem": 0}, "features.nystroem is 0, expected a whole number of at least 1"),
        (3, "features is 3, expected a transformer"),
        (FunctionTransformer(lambda X: X[:-1]), "features' transform has 29 rows, expected 30"),
        (FunctionTransformer(lambda X: X * np.nan), "features' transform has nan in row 0, column 0, expected finite"),
    ):
        with pytest.raises(InputError, match=message.replace("(", r"\(").replace("{", r"\{").replace(".", r"\.")):
            DoublyRobustDRO(features=features).fit(X, A, **rows)
    found = DoublyRobustDRO(features=SQUARES, safe=False).fit(X, A, **rows)
    with pytest.raises(InputError, match="logging policy with its own feature map"):
        DoublyRobustDRO().fit(X, A, **rows, logging_policy=found.policy_)


@pytest.mark.parametrize("features", [{"nystroem": 20}, {"random_trees": 7}], ids=str)
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_a_map_that_was_stored_as_arrays_is_the_same(features, kind):
    rng = np.random.default_rng(0)
    fitted, other = (kind(rng.standard_normal((n, 4)).round(1)) for n in (60, 50))
    made = FeatureMap(as_transformer(features), fitted)
    restored = FeatureMap.from_arrays(made.to_arrays())
    for X in (fitted, other):
        ours, theirs = (each.toarray() if sparse.issparse(each) else each for each in (restored(X), made(X)))
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-13)
    assert (restored.n_features, restored.n_mapped) == (4, made.n_mapped)


def test_random_trees_are_those_of_the_library():
    X = np.random.default_rng(0).standard_normal((200, 5)).round(1)
    ours = RandomTrees(10).fit(X)
    library = RandomTreesEmbedding(10, max_depth=5, random_state=0).fit(X)
    other = np.random.default_rng(1).standard_normal((300, 5)).round(1)
    for each in (X, other):
        np.testing.assert_array_equal(ours.transform(each).toarray(), library.transform(each).toarray())


def test_a_transformer_of_ones_own_cannot_be_stored():
    X = np.eye(3)
    with pytest.raises(InputError, match="a file can only store nystroem and random_trees"):
        FeatureMap(StandardScaler(), X).to_arrays()


def test_support_of_a_mapped_policy_is_of_the_contexts_as_they_are():
    X, A, rows, _ = ring()
    log = BanditLog(X, A, rows["propensity"], rows["cost"], count=np.arange(len(A)) % 3)
    fitted = DoublyRobustDRO(features={"nystroem": 30}, safe=False).fit(X, A, **rows)
    uniform = SoftmaxPolicy(np.zeros((X.shape[1], 3)))
    value = off_policy_value(fitted, log, "dr", cost_model=fitted.cost_model_, logging_policy=uniform)
    assert value.support == policy_support(fitted, log, uniform).mass == 0
    assert off_policy_value(fitted, log, "dr", cost_model=fitted.cost_model_) == value
