"""Cost models by scikit-learn's regressors: their rows and weights, and their use in fits, mappings and files."""

import json

import numpy as np
import pytest
from fixtures.user_logs import MAPPING, decisions
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neighbors import KNeighborsRegressor

from drcrm import (
    ActionLists,
    BanditLog,
    DoublyRobustDRO,
    ExponentialPolicy,
    RegressorModel,
    SoftmaxPolicy,
    load_policy,
    off_policy_value,
    off_policy_values,
)
from drcrm.certificates import policy_certificate, sensitivity
from drcrm.data.folds import context_folds
from drcrm.errors import InputError
from drcrm.logs.policy_file import read_policy
from drcrm.selection.algorithms import as_algorithm

RNG = np.random.default_rng(0)
X = np.column_stack([RNG.normal(size=(90, 2)), np.ones(90)])
Y = RNG.integers(0, 3, 90)
COST = X[:, 0] * (Y - 1) + RNG.normal(size=90)
COUNT = RNG.integers(0, 4, 90)
LOG = BanditLog(X, Y, np.full(90, 0.25), COST, count=COUNT, n_actions=4)


@pytest.mark.parametrize("regressor", [LinearRegression(), KNeighborsRegressor(3)], ids=["weighted", "repeated"])
def test_each_action_has_the_regressor_of_its_rows(regressor):
    """A count is a weight, or repeats the row; an action without rows has the mean cost."""
    effects = RegressorModel(regressor).fit(LOG).effects(X, LOG.actions)
    rows = np.repeat(np.arange(90), COUNT)
    for action in range(3):
        of_action = rows[Y[rows] == action]
        expected = regressor.fit(X[of_action], COST[of_action]).predict(X)
        np.testing.assert_allclose(effects[:, action], expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(effects[:, 3], COST[rows].mean())


def test_lists_have_one_regressor_of_the_chosen_candidates():
    lists = ActionLists(RNG.normal(size=(270, 2)), 3 * np.arange(91))
    log = BanditLog(lists, Y, np.full(90, 1 / 3), COST)
    effects = RegressorModel(LinearRegression()).fit(log).effects(lists.features, log.actions)
    expected = LinearRegression().fit(lists.features[3 * np.arange(90) + Y], COST).predict(lists.features)
    np.testing.assert_allclose(effects, expected, rtol=1e-9, atol=1e-9)


def test_an_estimator_fits_a_regressor_to_its_training_rows():
    """Action 1 is right if x is above 0.7, which trees find."""
    rng = np.random.default_rng(1)
    X, A = np.column_stack([rng.normal(size=(800, 1)), np.ones(800)]), rng.integers(0, 2, 800)
    rows = {"propensity": np.full(800, 0.5), "cost": -1.0 * ((X[:, 0] > 0.7) == A)}
    regressor = HistGradientBoostingRegressor(max_iter=30)
    fitted = DoublyRobustDRO().fit(X, A, **rows, cost_model=regressor)
    assert not hasattr(regressor, "n_features_in_"), "it is cloned"
    train = np.delete(np.arange(800), fitted.heldout_)
    log = BanditLog(X, A, **rows)
    expected = RegressorModel(regressor).fit(log.recount(np.isin(np.arange(800), train)))
    effects = fitted.cost_model_.model.effects(X, log.actions)
    np.testing.assert_allclose(effects, expected.effects(X, log.actions))
    assert np.corrcoef(effects[np.arange(800), A][fitted.heldout_], rows["cost"][fitted.heldout_])[0, 1] > 0.9


def test_models_of_label_vectors_and_failing_regressors_are_refused():
    labels, uniform = np.column_stack([Y == 0, Y == 1]), SoftmaxPolicy(np.zeros((3, 4)))
    label_log = BanditLog(X, labels, np.full(90, 0.25), COST)
    model = RegressorModel(LinearRegression()).fit(LOG)
    regressor, unfitted = {"cost_model": LinearRegression()}, {"cost_model": RegressorModel(LinearRegression())}
    for call, arguments, options, message in (
        (off_policy_value, (ExponentialPolicy(np.zeros((3, 2))), label_log, "dr"), regressor, "costs of 2 labels"),
        (
            DoublyRobustDRO().fit,
            (X, labels, label_log.propensity, COST),
            regressor,
            "cannot model the costs of 2 labels",
        ),
        (off_policy_value, (uniform, LOG, "dr"), unfitted, "is not fitted: call fit"),
        (
            off_policy_value,
            (uniform, LOG, "dr"),
            {"cost_model": LogisticRegression()},
            "a regressor of scikit-learn, or",
        ),
        (RegressorModel(KNeighborsRegressor(-1)).fit, (LOG,), {}, r"fitted by KNeighborsRegressor\(n_neighbors=-1\)"),
        (model.effects, (X, BanditLog(X, Y, LOG.propensity, COST).actions), {}, "4 actions, the log has one of 3"),
    ):
        with pytest.raises(InputError, match=message):
            call(*arguments, **options)
    expected = COUNT @ model.effects(X, LOG.actions).mean(axis=1) / COUNT.sum()
    assert off_policy_value(uniform, LOG, "dm", cost_model=model) == pytest.approx(expected)


def test_a_mapping_names_a_regressor_and_the_policy_file_stores_it(tmp_path, run):
    decisions(900).to_csv(tmp_path / "log.csv", index=False)
    forest = {"sklearn.ensemble:RandomForestRegressor": {"n_estimators": 5, "max_depth": 4, "random_state": 0}}
    options = {"estimate": "dr", "start": "model", "tilt": "auto", "safe": True, "cost_model": forest}
    mapping = MAPPING | {"algorithm": {"estimator": "KLDRO", "options": options, "parameter": "radius", "grid": [0.01]}}
    arguments = [tmp_path / "log.csv", "--config", json.dumps(mapping), "--output", tmp_path / "p.npz"]
    assert run("learn", *arguments)[0] == 0
    stored = read_policy(tmp_path / "p.npz")
    assert [type(regressor) for regressor in stored.model.model.regressors_] == [RandomForestRegressor] * 3
    assert run("evaluate_policy", tmp_path / "p.npz", tmp_path / "log.csv")[0] == 0
    assert load_policy(tmp_path / "p.npz").decide({"age": 30, "price": 5.0, "city": "Bern"})[1] > 0


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (3, "cost_model is 3, expected module:Class, or a map of module:Class to its parameters"),
        ("forest", "cost_model is 'forest', expected module:Class"),
        ("sklearn.ensemble:Forest", "cost_model sklearn.ensemble:Forest: module 'sklearn.ensemble' has no attribute"),
        ("sklearn.ensemble:is_regressor", "cost_model sklearn.ensemble:is_regressor"),
        ("sklearn.preprocessing:StandardScaler", "the class has no predict"),
        ({"sklearn.svm:SVR": {"depth": 3}}, "got an unexpected keyword argument 'depth'"),
    ],
)
def test_other_cost_models_are_refused(value, message):
    with pytest.raises(InputError, match=message):
        as_algorithm({"estimator": "CIPS", "options": {"estimate": "dr", "cost_model": value}})


@pytest.mark.parametrize("has_groups", [False, True])
def test_a_regressor_is_cross_fitted_where_a_model_is_evaluated(has_groups):
    """The estimate is that of the effects of models without the row's fold; a fitted regressor is fitted again."""
    rng = np.random.default_rng(2)
    X, A = np.column_stack([rng.normal(size=(300, 2)), np.ones(300)]), rng.integers(0, 2, 300)
    log = BanditLog(X, A, np.full(300, 0.5), -1.0 * ((X[:, 0] > 0) == A) - rng.random(300))
    groups = np.repeat(np.arange(60), 5) if has_groups else None
    fold, effects = context_folds(log.with_groups(groups), 5), np.empty((300, 2))
    for number in range(5):
        for action in range(2):
            rows = (fold != number) & (action == A)
            model = KNeighborsRegressor(1).fit(X[rows], log.cost[rows])
            effects[fold == number, action] = model.predict(X[fold == number])
    policy, options = SoftmaxPolicy(rng.normal(size=(3, 2))), {"groups": groups}
    memory = KNeighborsRegressor(1).fit(X, log.cost)
    for regressor in (KNeighborsRegressor(1), memory):
        for evaluate in (
            lambda model: off_policy_value(policy, log, "dr", cost_model=model, **options).interval,
            lambda model: off_policy_values(policy, log, cost_model=model, **options).loc["dm"].tolist(),
            lambda model: policy_certificate(policy, log, "dr", cost_model=model, **options).bound,
            lambda model: sensitivity(policy, log, cost_model=model, **options).curve,
        ):
            np.testing.assert_allclose(evaluate(regressor), evaluate(effects), rtol=1e-9)
    assert off_policy_value(policy, log, "ips", cost_model=memory) == off_policy_value(policy, log, "ips")
    with pytest.raises(InputError, match="needs cost_model=, a cost model that was fitted to other rows"):
        policy_certificate(policy, log, "dr", method="betting", low=-4, high=4, cost_model=memory)
