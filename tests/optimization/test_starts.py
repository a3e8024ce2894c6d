"""Where fits start: tilted policies by enumeration, imitations by scikit-learn, effective sizes by their formula."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from drcrm import BanditLog, CostModel, ExponentialPolicy
from drcrm.data.scaling import cost_deviation, feature_scales
from drcrm.errors import InputError
from drcrm.optimization.behaviour_cloning import RIDGE, cloned_coefficients
from drcrm.optimization.lbfgs import LbfgsSettings
from drcrm.optimization.starts import MAX_COEFFICIENT, TILT_RANGE, automatic_tilt, start_coef
from drcrm.policies.linear_predictor import LinearPredictor
from drcrm.selection.algorithms import Algorithm
from drcrm.selection.grid_search import Learned, LearnSettings, learn
from drcrm.weights import effective_sample_size

FEATURES, LABELS = 4, 2


@pytest.fixture
def counted(logged):
    """A log with counts, some of them 0."""

    def make(seed: int = 0, **options) -> BanditLog:
        log = logged(seed, **options)
        count = np.random.default_rng([seed, 3]).integers(0, 4, len(log.Y))
        return BanditLog(log.X, log.Y, log.propensity, log.cost, log.context, count)

    return make


def random_model(seed: int = 1, labels: int = LABELS) -> CostModel:
    model = CostModel()
    model.coef_ = np.random.default_rng([seed, 4]).normal(size=(FEATURES, labels + 1))
    return model


def tilted(log: BanditLog, base: ExponentialPolicy, model: CostModel, tilt: float) -> np.ndarray:
    return start_coef("model", LinearPredictor(log), base, model.coef_, tilt)[0]


@pytest.mark.parametrize("tilt", [0.0, 0.5, 1.0, 7.0])
def test_a_tilted_policy_is_the_base_times_a_power_of_the_modelled_cost(labelled, logged, random_policy, tilt):
    X, _ = labelled(2, n=9)
    base, model = random_policy(3), random_model()
    actions = np.array(list(product([0, 1], repeat=LABELS)))
    unscaled = np.empty((len(X), len(actions)))
    for column, action in enumerate(actions):
        rows = np.tile(action, (len(X), 1))
        unscaled[:, column] = np.exp(base.log_prob(X, rows) - tilt * model.predict(X, rows))
    expected = unscaled / unscaled.sum(axis=1, keepdims=True)
    found = ExponentialPolicy(tilted(logged(2, n=9), base, model, tilt))
    for column, action in enumerate(actions):
        pi = np.exp(found.log_prob(X, np.tile(action, (len(X), 1))))
        assert pi == pytest.approx(expected[:, column], rel=1e-10)


def test_a_tilted_policy_is_the_best_trade_of_modelled_cost_and_kl(labelled, logged, random_policy):
    """It minimises the expected modelled cost + KL(π‖π0)/κ, in each context: no other policy has less."""
    X, _ = labelled(4, n=7)
    base, model, tilt = random_policy(5), random_model(), 1.7

    def traded(coef: np.ndarray) -> float:
        policy, p, p0 = ExponentialPolicy(coef), expit(X @ coef), expit(X @ base.coef)
        kl = (p * np.log(p / p0) + (1 - p) * np.log((1 - p) / (1 - p0))).sum(axis=1)
        return (model.expectation(X, policy) + kl / tilt).sum()

    best = tilted(logged(4, n=7), base, model, tilt)
    rng = np.random.default_rng(6)
    for scale in (1e-3, 0.1, 1.0):
        assert all(traded(best + scale * rng.normal(size=best.shape)) > traded(best) for _ in range(20))


@pytest.mark.parametrize("dense", [True, False], ids=["dense", "csr"])
@pytest.mark.parametrize("seed", range(3))
def test_an_imitation_is_logistic_regression_of_the_logged_labels(counted, dense, seed):
    log = counted(seed)
    given = log if dense else log.with_contexts(sparse.csr_array(log.X))
    found, n = cloned_coefficients(LinearPredictor(given, trains=True)), log.count.sum()
    unit = feature_scales(log.X)
    X = log.X[log.context] / unit
    found = found * unit[:, None]
    for label in range(LABELS):
        fit = LogisticRegression(C=1 / (n * RIDGE), fit_intercept=False, tol=1e-10, max_iter=10_000)
        expected = fit.fit(X, log.Y[:, label], sample_weight=log.count).coef_[0]
        assert found[:, label] == pytest.approx(expected, abs=1e-3)
    gradient = X.T @ (log.count[:, None] * (expit(X @ found) - log.Y)) / n + RIDGE * found
    assert np.abs(gradient).max() < 1e-4


def test_an_imitation_uses_neither_costs_nor_propensities(counted):
    log = counted(7)
    other = BanditLog(log.X, log.Y, np.sqrt(log.propensity), -3 * log.cost + 1, log.context, log.count)
    assert np.array_equal(*(cloned_coefficients(LinearPredictor(each, trains=True)) for each in (other, log)))


def test_an_imitation_of_separable_actions_is_finite(logged):
    """The ridge sees to that: every row has the first label, and none the second."""
    log = logged(8)
    log = BanditLog(log.X, np.tile([1, 0], (len(log.Y), 1)), log.propensity, log.cost, log.context)
    marginals = ExponentialPolicy(cloned_coefficients(LinearPredictor(log, trains=True))).marginals(log.X)
    assert marginals[:, 0].min() > 0.95
    assert marginals[:, 1].max() < 0.05


def test_effective_size_is_of_counted_rows(counted, random_policy):
    log, policy = counted(9), random_policy(10)
    weight = np.exp(policy.log_prob(log.X[log.context], log.Y)) / log.propensity
    weight = np.repeat(weight, log.count)
    rows = np.exp(policy.log_prob(log.X, log.Y, log.context)) / log.propensity
    assert effective_sample_size(rows, log.count) == pytest.approx(weight.sum() ** 2 / (weight**2).sum(), rel=1e-12)
    assert effective_sample_size(np.full(7, 0.25), np.ones(7)) == pytest.approx(7)


def test_rows_that_do_not_occur_have_no_part_in_an_effective_size(counted, random_policy):
    """One of them has such a weight that those of all others would vanish beside it."""
    log, policy, model = counted(11), random_policy(12), random_model(12)
    present = log.recount(log.count)
    propensity = np.where(log.count > 0, log.propensity, 5e-324)
    log = BanditLog(log.X, log.Y, propensity, log.cost, log.context, log.count)
    for scale in (1.0, 300.0):
        tilts = [automatic_tilt(each, scale * policy.coef, model.coef_) for each in (log, present)]
        assert tilts[0] == pytest.approx(tilts[1], rel=1e-9)


MANY = {"labels": 4}  # of which a policy that always does the same has few effective rows


@pytest.mark.parametrize("seed", range(5))
def test_an_automatic_tilt_keeps_a_third_of_the_rows(counted, random_policy, seed):
    log, model = counted(seed, passes=20, **MANY), random_model(seed, **MANY)
    base = random_policy(seed, scale=0.25, **MANY).coef
    tilt = automatic_tilt(log, base, model.coef_)
    assert TILT_RANGE[0] < tilt < TILT_RANGE[1]
    policy = ExponentialPolicy(tilted(log, ExponentialPolicy(base), model, tilt))
    size = effective_sample_size(np.exp(policy.log_prob(log.X, log.Y, log.context)) / log.propensity, log.count)
    assert size == pytest.approx(log.size / 3, rel=5e-3)
    # In another unit costs are tilted as much: κ is in the inverse unit.
    assert automatic_tilt(log, base, 10 * model.coef_) == pytest.approx(tilt / 10, rel=1e-9)
    assert automatic_tilt(log.with_cost(1e7 * log.cost), base, 1e7 * model.coef_) == pytest.approx(tilt / 1e7, rel=1e-9)


def test_an_automatic_tilt_has_ends(counted, random_policy):
    """Where even the base has fewer effective rows, and where no tilt has as few."""
    log, model = counted(11, passes=20, **MANY), random_model(11, **MANY).coef_
    far, near = (random_policy(12, scale=scale, **MANY).coef for scale in (9.0, 0.1))
    assert automatic_tilt(log, far, model) == pytest.approx(1e-3 / cost_deviation(log.cost, log.count))
    assert automatic_tilt(log, near, np.zeros_like(model)) == pytest.approx(10 / cost_deviation(log.cost, log.count))


def test_every_start(counted, random_policy):
    log, policy, model = counted(14), random_policy(15, scale=40), random_model()
    assert np.abs(policy.coef).max() > MAX_COEFFICIENT
    unit = feature_scales(log.X)[:, None]
    clipped = np.clip(policy.coef * unit, -30, 30) / unit
    design = LinearPredictor(log, trains=True)
    starts = ("zero", "logging", "model")
    with_policy = {start: start_coef(start, design, policy, model.coef_, 2.0) for start in starts}
    assert not with_policy["zero"][0].any()
    assert with_policy["logging"][0] == pytest.approx(clipped, rel=1e-12)
    assert with_policy["model"][0] == pytest.approx(clipped - 2 * model.coef_[:, :-1], rel=1e-12)
    assert [tilt for _, tilt in with_policy.values()] == [None, None, 2.0]
    cloned = cloned_coefficients(design)
    assert np.array_equal(start_coef("imitation", design, policy, None, 1.0)[0], cloned)
    without, tilt = start_coef("model", design, None, model.coef_.tolist(), "auto")
    assert tilt == automatic_tilt(log, cloned, model.coef_)
    assert without == pytest.approx(cloned - tilt * model.coef_[:, :-1], rel=1e-12)


def test_a_cost_model_is_fitted_where_one_is_needed(counted, random_policy):
    log = counted(16)
    fitted, present = CostModel().fit_log(log), log.recount(log.count)

    def learned(cost_model=None, **options) -> Learned:
        return learn(
            log,
            Algorithm("CIPS", options=options),
            None,
            random_policy(17),
            cost_model,
            settings=LearnSettings(lbfgs=LbfgsSettings(stopping="public_code")),
        )

    assert learned().cost_model is None
    assert learned(fitted).objectives[0].design.effects is None
    effects = learned(estimate="dr", support=0, context_effects=False).objectives[0].design.effects
    assert effects == pytest.approx(fitted.effects(present.X), rel=1e-12)
    started = learned(estimate="snips", start="model", tilt=1.0)
    assert started.objectives[0].design.effects is None
    assert started.start == pytest.approx(random_policy(17).coef - fitted.coef_[:, :-1], rel=1e-12)


class NoCoefficients:
    def predict(self, X, Y):
        return np.zeros(len(Y))

    def expectation(self, X, policy):
        return np.zeros(len(X))


class OtherCoefficients(NoCoefficients):
    """Its coef_ are of something else."""

    coef_ = np.ones(4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"start": "there"}, "start is 'there', expected one of 'zero', 'logging', 'model', 'imitation'"),
        ({"start": "logging"}, "start 'logging' needs the logging policy's coefficients; 'imitation' learns some"),
        (
            {"start": "logging", "logging_policy": ExponentialPolicy(np.zeros((4, 3)))},
            r"the logging policy's coef has shape \(4, 3\), expected \(4, 2\)",
        ),
        (
            {"start": "model", "logging_policy": ExponentialPolicy(np.zeros((5, 2)))},
            r"the logging policy's coef has shape \(5, 2\), expected \(4, 2\)",
        ),
        ({"start": "model", "cost_model": NoCoefficients()}, "start 'model' needs the coefficients of a cost model"),
        (
            {"start": "model", "cost_model": OtherCoefficients()},
            r"the cost model's coef_ has shape \(4,\), expected \(4, 3\)",
        ),
        ({"start": "model", "tilt": "steep"}, "tilt is 'steep', expected 'auto' or a finite number ≥ 0"),
        ({"start": "model", "tilt": -1}, "tilt is -1, expected 'auto' or a finite number ≥ 0"),
        ({"start": "model", "tilt": float("nan")}, "tilt is nan, expected 'auto' or a finite number ≥ 0"),
        ({"start": "zero", "tilt": None}, "tilt is None, expected 'auto' or a finite number ≥ 0"),
        ({"estimate": "sips"}, "estimate is 'sips', expected one of 'ips', 'snips', 'dr', 'dm'"),
    ],
)
def test_errors_say_what_is_wrong(logged, options, message):
    given = ("logging_policy", "cost_model")
    known = {name: each for name, each in options.items() if name in given}
    options = {name: each for name, each in options.items() if name not in given}
    with pytest.raises(InputError, match=message) as error:
        learn(logged(), Algorithm("CIPS", options=options), **known)
    assert "\n" not in str(error.value)
