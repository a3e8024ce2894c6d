"""The scikit-learn face: one conformance test over all estimators, and what is particular to each."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError

import drcrm
from drcrm import CIPS, KLCRM, KLDRO, AdaptiveKLCRM, BanditLog, Chi2DRO, ExponentialPolicy
from drcrm.core.log import clipping_constant
from drcrm.core.selection import calibrated_penalty
from drcrm.errors import InputError
from drcrm.registry import ESTIMATORS

every_estimator = pytest.mark.parametrize("name", sorted(set(ESTIMATORS) & set(drcrm.__all__)))


@pytest.fixture(scope="module")
def log(logged) -> BanditLog:
    return logged()


def fit(estimator, log: BanditLog, X=None):
    return estimator.fit(
        log.X if X is None else X, log.Y, propensity=log.propensity, cost=log.cost, context=log.context
    )


@every_estimator
def test_conforms(name, log):
    estimator = getattr(drcrm, name)()
    assert set(ESTIMATORS[name].names()) == set(estimator.get_params()) - {"clip", "max_iter", "tol"}
    with pytest.raises(NotFittedError):
        estimator.predict(log.X)
    assert fit(estimator, log) is estimator
    policy = ExponentialPolicy(estimator.coef_)
    assert estimator.coef_.shape == (4, 2)
    assert estimator.converged_
    assert 0 < estimator.n_iter_ <= estimator.max_iter
    assert estimator.clip_ == clipping_constant(log)
    assert np.array_equal(estimator.predict_proba(log.X), policy.marginals(log.X))
    assert np.array_equal(estimator.predict(log.X), policy.greedy(log.X))
    Y = estimator.sample(log.X, random_state=1)
    assert np.array_equal(Y, estimator.sample(log.X, random_state=1))
    assert estimator.log_prob(log.X, Y) == pytest.approx(policy.log_prob(log.X, Y), rel=1e-12)
    again = fit(clone(estimator), log)
    assert np.array_equal(again.coef_, estimator.coef_)
    csr = fit(clone(estimator), log, sparse.csr_matrix(log.X))
    assert csr.objective_ == pytest.approx(estimator.objective_, rel=1e-4)


@every_estimator
def test_objective_is_the_risk_of_the_clipped_costs(name, log):
    estimator = fit(getattr(drcrm, name)(clip=2.5), log)
    weight = np.exp(estimator.log_prob(log.X[log.context], log.Y)) / log.propensity
    values = {key: getattr(estimator, key) for key in ESTIMATORS[name].names()}
    risk = ESTIMATORS[name].make_risk(**values)
    assert estimator.objective_ == pytest.approx(risk(log.cost * np.minimum(weight, 2.5))[0], rel=1e-9)


@every_estimator
def test_learning_lowers_the_risk(name, log):
    """The learned policy's own risk is below that of Θ = 0, from which the fit starts."""
    estimator = fit(getattr(drcrm, name)(), log)
    start = np.minimum(0.25 / log.propensity, estimator.clip_)
    values = {key: getattr(estimator, key) for key in ESTIMATORS[name].names()}
    assert estimator.objective_ < ESTIMATORS[name].make_risk(**values)(log.cost * start)[0] - 0.01


@every_estimator
def test_the_limit_of_the_hyper_parameter_is_cips(name, log):
    least = 0.0 if ESTIMATORS[name].risk_class().robust_end == "high" else 1e9
    settings = dict.fromkeys(ESTIMATORS[name].names()[:1], least)
    found = fit(getattr(drcrm, name)(**settings), log).objective_
    assert found == pytest.approx(fit(CIPS(), log).objective_, rel=1e-3)  # L-BFGS amplifies rounding


def test_a_count_is_a_repetition(log):
    count = np.random.default_rng(2).integers(0, 3, len(log.Y))
    rows = np.repeat(np.arange(len(log.Y)), count)
    short = KLDRO(0.05).fit(log.X, log.Y, propensity=log.propensity, cost=log.cost, context=log.context, count=count)
    long = KLDRO(0.05).fit(
        log.X, log.Y[rows], propensity=log.propensity[rows], cost=log.cost[rows], context=log.context[rows]
    )
    assert short.clip_ == long.clip_
    assert short.objective_ == pytest.approx(long.objective_, rel=1e-12)


def test_calibrated_penalty_is_the_public_codes(log):
    n = log.size
    expected = -log.cost.mean() / np.sqrt(log.cost.var(ddof=1) / n)
    assert calibrated_penalty(log) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("cost", [np.full(4, -1.0), np.array([1.0, 2.0, 1.0, 1.0])])
def test_a_penalty_that_cannot_be_calibrated_is_an_error(cost):
    with pytest.raises(InputError, match="cannot be calibrated on costs with mean"):
        calibrated_penalty(BanditLog(np.ones((4, 1)), np.ones((4, 1)), np.ones(4), cost))


@pytest.mark.parametrize(
    ("estimator", "arguments", "message"),
    [
        (CIPS(), {"propensity": None}, "CIPS.fit needs propensity=, one for each logged row"),
        (CIPS(), {"cost": None}, "CIPS.fit needs cost="),
        (CIPS(clip=0.5), {}, "clip is 0.5, expected 'auto', a number ≥ 1, or None"),
        (CIPS(clip="often"), {}, "clip is 'often'"),
        (CIPS(clip=[2]), {}, r"clip is \[2\]"),
        (CIPS(tol=-1), {}, "tol is -1, expected at least 1, and above 0"),
        (CIPS(max_iter=0), {}, "max_iter is 0"),
        (CIPS(clip=None), {"propensity": [5e-324, 0.5], "cost": [-1e300, 0]}, "the risk is not finite at Θ = 0"),
        (KLCRM(temperature=0), {}, "temperature is 0"),
        (AdaptiveKLCRM(variance="median"), {}, "variance is 'median'"),
        (KLDRO(), {"propensity": [0.5, 2.0]}, "propensity is 2.0 in row 1"),
    ],
)
def test_errors_say_what_is_wrong(estimator, arguments, message):
    good = {"propensity": [0.5, 0.5], "cost": [-1.0, 0.0]}
    with pytest.raises(InputError, match=message):
        estimator.fit([[1.0], [2.0]], [[0], [1]], **{**good, **arguments})


def test_unclipped_weights_without_bound_are_an_error():
    """Finite at Θ = 0, but not where the fit goes."""
    log = {"propensity": np.full(4, 1e-160), "cost": [-1.0, -2.0, -1.0, 0.0]}
    with pytest.raises(InputError, match=r"the risk is not finite after .* propensities this small need clipped"):
        CIPS(clip=None).fit(np.ones((4, 1)), [[0], [1], [1], [0]], **log)
    assert np.isfinite(CIPS().fit(np.ones((4, 1)), [[0], [1], [1], [0]], **log).objective_)


def test_what_a_policy_says_of_its_own_actions_can_be_learned_from(log):
    """A confident policy's e^{log π}, by the README's recipe, is a propensity of at most 1."""
    policy = ExponentialPolicy(100 * np.random.default_rng(4).normal(size=(4, 2)))
    Y = policy.sample(log.X, random_state=0)
    fitted = CIPS().fit(log.X, Y, propensity=np.exp(policy.log_prob(log.X, Y)), cost=-Y.sum(axis=1))
    assert np.isfinite(fitted.objective_)


def test_integer_costs_under_a_uniform_logger_end():
    """All costs on the threshold of the χ² ball at Θ = 0."""
    Y = [[0, 0], *[[0, 1]] * 3, *[[1, 0]] * 3, [1, 1]]
    cost = [0, -1, -1, -1, -1, -1, -1, -2]
    fitted = Chi2DRO(0.25).fit(np.ones((8, 1)), Y, propensity=np.full(8, 0.25), cost=cost)
    assert fitted.objective_ <= -0.75


def test_not_converging_is_said(log):
    with pytest.warns(ConvergenceWarning, match="KLDRO did not converge in 2 iterations"):
        estimator = fit(KLDRO(max_iter=2), log)
    assert not estimator.converged_


def test_input_errors_are_value_errors():
    assert issubclass(InputError, ValueError)


def test_public_names():
    estimators = {"CIPS", "POEM", "KLCRM", "AdaptiveKLCRM", "KLDRO", "Chi2DRO"}
    assert set(drcrm.__all__) >= {*estimators, "ExponentialPolicy", "BanditLog"}
    assert estimators <= set(ESTIMATORS)
    assert drcrm.core.risks.KLBall(0.1)([1.0])[0] == 1.0
    with pytest.raises(AttributeError, match="no attribute 'KLDR'"):
        drcrm.KLDR  # noqa: B018
