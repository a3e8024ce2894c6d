"""Policies by classifiers: their probabilities, evaluation, storage, and use in mappings and configurations."""

import json

import numpy as np
import pytest
from fixtures.user_logs import MAPPING, decisions
from scipy import sparse
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

from drcrm import BanditLog, classifier_policy, load_policy, off_policy_value
from drcrm.errors import InputError
from drcrm.logs.policy_file import read_policy
from drcrm.paper.reference_policies import action_probabilities
from drcrm.policies.classifier_policy import LEAST, MappedLogistic, row_weights
from drcrm.policies.feature_maps import FeatureMap, MedianNystroem
from drcrm.selection.algorithms import as_algorithm

RNG = np.random.default_rng(0)
X = np.column_stack([RNG.normal(size=(400, 2)), np.ones(400)])
Y = RNG.integers(0, 3, 400)
LOG = BanditLog(X, Y, np.full(400, 1 / 3), -1.0 * ((X[:, 0] > 0) + 1 * (X[:, 1] > 0) == Y), n_actions=4)


@pytest.mark.parametrize("weights", ["none", "inverse_propensity"])
def test_the_policy_has_the_probabilities_of_the_classifier(weights):
    classifier = RandomForestClassifier(20, min_samples_leaf=5, random_state=0)
    policy = classifier_policy(LOG, classifier, weights)
    assert not hasattr(classifier, "classes_"), "it is cloned"
    weight = row_weights(LOG, weights)
    rows = weight > 0
    expected = classifier.fit(X[rows], Y[rows], sample_weight=weight[rows]).predict_proba(X)
    expected = np.maximum(np.column_stack([expected, np.zeros(400)]), LEAST)
    np.testing.assert_allclose(policy.marginals(X), expected / expected.sum(axis=1, keepdims=True), rtol=1e-9)
    assert off_policy_value(policy, LOG) < -0.8


def test_classifiers_of_sparse_contexts_and_of_one_action():
    dense, thin = (
        classifier_policy(BanditLog(form(X), Y, LOG.propensity, LOG.cost), HistGradientBoostingClassifier(max_iter=2))
        for form in (np.asarray, sparse.csr_array)
    )
    np.testing.assert_allclose(dense.marginals(X), thin.marginals(sparse.csr_array(X)))
    only = BanditLog(X, np.full(400, 2), LOG.propensity, LOG.cost, n_actions=3)
    assert (classifier_policy(only, LogisticRegression()).marginals(X)[:, 2] > 1 - 1e-5).all()


@pytest.mark.parametrize(
    ("log", "classifier", "message"),
    [
        (LOG, KNeighborsClassifier(), r"KNeighborsClassifier\(\) must have predict_proba, and fit with sample_weight"),
        (LOG, LogisticRegression(C=-1), r"LogisticRegression\(C=-1\) cannot be fitted"),
        (LOG.with_cost(np.ones(400)), LogisticRegression(), "costs must differ to weight the rows"),
        (BanditLog(X, np.eye(3)[Y][:, :2], LOG.propensity, LOG.cost), LogisticRegression(), "got 2 labels"),
    ],
)
def test_other_logs_and_classifiers_are_refused(log, classifier, message):
    with pytest.raises(InputError, match=message):
        classifier_policy(log, classifier)


def test_a_classifier_competes_in_learn_and_is_stored(tmp_path, run):
    decisions(2000).to_csv(tmp_path / "log.csv", index=False)
    trees = {"sklearn.ensemble:RandomForestClassifier": {"n_estimators": 20, "random_state": 0}}
    entries = [{"classifier": trees, "weights": "inverse_propensity", "label": "trees"}]
    arguments = [tmp_path / "log.csv", "--config", json.dumps(MAPPING | {"algorithm": entries})]
    outputs = ["--output", tmp_path / "p.npz", "--json", tmp_path / "a.json"]
    assert run("learn", *arguments, *outputs)[0] == 0
    answer = json.loads((tmp_path / "a.json").read_text())
    assert [(entry["label"], entry["chosen"]) for entry in answer["candidates"]] == [("trees", True)]
    frame = decisions(50, seed=3)
    probability = read_policy(tmp_path / "p.npz").policy.marginals(load_policy(tmp_path / "p.npz")._encode(frame))
    actions, propensities = load_policy(tmp_path / "p.npz").decide(frame, random_state=0)
    names = load_policy(tmp_path / "p.npz").names
    np.testing.assert_allclose(propensities, probability[np.arange(50), [names.index(name) for name in actions]])
    assert run("evaluate_policy", tmp_path / "p.npz", tmp_path / "log.csv")[0] == 0


def test_a_configuration_names_a_classifier_with_its_parameters():
    forest = {"sklearn.ensemble:RandomForestClassifier": {"n_estimators": 5}}
    first, second, third = (action_probabilities(LOG, X[:9], forest, "none", seed) for seed in (1, 1, 2))
    assert np.array_equal(first, second)
    assert not np.array_equal(first, third)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"classifier": "linear"}, "classifier is 'linear', expected module:Class"),
        ({"classifier": "sklearn.svm:LinearSVC"}, "the class has no predict_proba"),
        ({"classifier": "sklearn.svm:SVC", "grid": [1]}, "the key grid cannot be used with a classifier"),
        ({"classifier": "sklearn.linear_model:LogisticRegression", "weights": "some"}, "weights"),
    ],
)
def test_invalid_entries_are_refused(entry, message):
    with pytest.raises(InputError, match=message):
        as_algorithm(entry)


@pytest.mark.parametrize("actions", [(0, 1, 2, 3), (1, 3), (2,)])
def test_a_logistic_regression_over_a_feature_map(actions):
    """The penalised likelihood is close to that of a converged fit by scikit-learn; unseen actions have no share."""
    rng = np.random.default_rng(0)
    X = np.column_stack([5 * rng.normal(size=(300, 3)), np.ones(300)])
    Y = rng.choice(actions, 300)
    log = BanditLog(X, Y, np.full(300, 0.25), np.where(rng.random(300) < 0.5, -1.0, 0.0) - (X[:, 0] > 0), n_actions=4)
    features = FeatureMap(MedianNystroem(20), X)
    fitted = MappedLogistic.fit(log, features, "inverse_propensity")
    probability = fitted.predict_proba(X)
    assert probability.sum(axis=1) == pytest.approx(np.ones(300))
    assert (probability > 0).any(axis=0).nonzero()[0].tolist() == list(actions)
    if len(actions) > 1:
        weight = row_weights(log, "inverse_propensity")
        weight /= weight[weight > 0].mean()
        mapped = features.transformer.transform(X)
        model = LogisticRegression(C=10, tol=1e-9, max_iter=5000).fit(mapped, Y, sample_weight=weight)

        def loss(probability, coef):
            likelihood = np.log(probability[np.arange(300), np.searchsorted(actions, Y)])
            return ((coef**2).sum() / 20 - weight @ likelihood) / weight.sum()

        coef = fitted.coef[4:] * features.scale
        least = loss(model.predict_proba(mapped), model.coef_)
        assert least <= loss(probability[:, actions], coef) <= least + 0.01
