"""Starts of a fit: tilted policies by enumeration, the automatic tilt by its effective sample size, and cloning."""

from itertools import product

import numpy as np
import pytest
from fixtures.action_logs import make_log
from fixtures.reference_formulas import predict
from scipy import sparse
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from drcrm import BanditLog, CostModel, ExponentialPolicy
from drcrm.arrays.numerics import cost_deviation, feature_scales
from drcrm.optimization.starts import (
    MAX_COEFFICIENT,
    RIDGE,
    TILT_RANGE,
    automatic_tilt,
    clone_behaviour,
    cloned_coefficients,
    start_coef,
)
from drcrm.policies.prepared_log import PreparedLog
from drcrm.weights import effective_sample_size

FEATURES, LABELS = 4, 2
MANY = {"labels": 4}  # a deterministic policy has a small effective sample size


@pytest.fixture
def counted(logged):
    """Return a log with multiplicities."""

    def make(seed: int = 0, **options) -> BanditLog:
        log = logged(seed, **options)
        return log.replace(count=np.random.default_rng([seed, 3]).integers(0, 4, len(log.Y))).without_empty_rows()

    return make


def random_model(seed: int = 1, labels: int = LABELS) -> CostModel:
    model = CostModel()
    model.coef_ = np.random.default_rng([seed, 4]).normal(size=(FEATURES, labels + 1))
    return model


def tilt_policy(log: BanditLog, base: ExponentialPolicy, model: CostModel, tilt: float) -> np.ndarray:
    return start_coef("model", PreparedLog(log), base.coef, model.coef_, tilt)[0]


@pytest.mark.parametrize("tilt", [0.0, 0.5, 7.0])
def test_a_tilted_policy_is_the_base_times_a_power_of_the_modelled_cost(logged, random_policy, tilt):
    log, base, model = logged(2, n=9), random_policy(3), random_model()
    tilted = ExponentialPolicy(tilt_policy(log, base, model, tilt))
    actions = [np.tile(action, (len(log.X), 1)) for action in product([0, 1], repeat=LABELS)]
    expected = np.array([np.exp(base.log_prob(log.X, Y) - tilt * predict(model, log.X, Y)) for Y in actions])
    expected /= expected.sum(axis=0)
    assert np.exp([tilted.log_prob(log.X, Y) for Y in actions]) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("seed", range(3))
def test_the_automatic_tilt_keeps_a_third_of_the_rows_in_any_unit(counted, random_policy, seed):
    log, model = counted(seed, passes=20, **MANY), random_model(seed, **MANY)
    base = random_policy(seed, scale=0.25, **MANY).coef
    tilt = automatic_tilt(log, base, model.coef_)
    assert TILT_RANGE[0] < tilt < TILT_RANGE[1]
    policy = ExponentialPolicy(tilt_policy(log, ExponentialPolicy(base), model, tilt))
    weight = np.exp(policy.log_prob(log.X, log.Y, log.context)) / log.propensity
    assert effective_sample_size(weight, log.count) == pytest.approx(log.size / 3, rel=5e-3)
    assert automatic_tilt(log, base, 10 * model.coef_) == pytest.approx(tilt / 10, rel=1e-9)
    assert automatic_tilt(log.with_cost(1e7 * log.cost), base, 1e7 * model.coef_) == pytest.approx(tilt / 1e7, rel=1e-9)


def test_the_automatic_tilt_is_bounded(counted, random_policy):
    log, model = counted(11, passes=20, **MANY), random_model(11, **MANY).coef_
    far, near = (random_policy(12, scale=scale, **MANY).coef for scale in (9.0, 0.1))
    assert automatic_tilt(log, far, model) == pytest.approx(1e-3 / cost_deviation(log.cost, log.count))
    assert automatic_tilt(log, near, np.zeros_like(model)) == pytest.approx(10 / cost_deviation(log.cost, log.count))


def test_every_start(counted, random_policy):
    log, policy, model = counted(14), random_policy(15, scale=40), random_model()
    assert np.abs(policy.coef).max() > MAX_COEFFICIENT
    unit, prepared = feature_scales(log.X)[:, None], PreparedLog(log)
    clipped, cloned = np.clip(policy.coef * unit, -30, 30) / unit, cloned_coefficients(prepared)
    tilt = automatic_tilt(log, cloned, model.coef_)
    for start, known, asked_tilt, expected in (
        ("zero", policy.coef, 2.0, (np.zeros_like(clipped), None)),
        ("logging", policy.coef, 2.0, (clipped, None)),
        ("imitation", policy.coef, 2.0, (cloned, None)),
        ("model", policy.coef, 2.0, (clipped - 2 * model.coef_[:, :-1], 2.0)),
        ("model", None, "auto", (cloned - tilt * model.coef_[:, :-1], tilt)),
    ):
        coef, used_tilt = start_coef(start, prepared, known, model.coef_.tolist(), asked_tilt)
        assert coef == pytest.approx(expected[0], rel=1e-12)
        assert used_tilt == expected[1]


@pytest.mark.parametrize("dense", [True, False], ids=["dense", "csr"])
@pytest.mark.parametrize("seed", range(2))
def test_cloning_is_logistic_regression_of_the_labels(dense, seed):
    log = make_log(seed, dense).without_empty_rows()
    unit = feature_scales(log.X)
    X = sparse.csr_array(log.X).toarray()[log.context] / unit
    coef = clone_behaviour(log, tol=1e-12).coef * unit[:, None]
    for label in range(log.Y.shape[1]):
        model = LogisticRegression(C=1 / (log.size * RIDGE), fit_intercept=False, tol=1e-10, max_iter=10_000)
        model.fit(X, log.Y[:, label], sample_weight=log.count)
        assert coef[:, label] == pytest.approx(model.coef_[0], abs=1e-2)
    gradient = X.T @ (log.count[:, None] * (expit(X @ coef) - log.Y)) / log.size + RIDGE * coef
    assert np.abs(gradient).max() < 1e-4


def test_the_ridge_keeps_the_policy_of_separable_actions_finite():
    log = make_log(8)
    log = BanditLog(log.X, np.tile([1, 0, 1], (len(log.Y), 1)), log.propensity, log.cost, log.context)
    marginals = clone_behaviour(log).marginals(log.X)
    assert marginals[:, 0].min() > 0.95
    assert marginals[:, 1].max() < 0.05
