"""The scikit-learn face: one conformance test over all estimators, and what is particular to each."""

from __future__ import annotations

import re
from functools import partial
from inspect import signature
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError

import drcrm
from drcrm import (
    CIPS,
    KLCRM,
    KLDRO,
    POEM,
    AdaptiveKLCRM,
    BanditLog,
    Chi2DRO,
    CostModel,
    CVaRDRO,
    DoublyRobustDRO,
    ExponentialPolicy,
    Implicit,
    LogSmoothing,
    LogSumExp,
    PhiDRO,
    Shrunk,
    Smoothed,
    WeightedLikelihood,
    off_policy_value,
)
from drcrm.data.bandit_log import clipping_constant
from drcrm.errors import InputError
from drcrm.estimates import ESTIMATES
from drcrm.optimization.behaviour_cloning import cloned_coefficients
from drcrm.optimization.starts import STARTS, start_coef
from drcrm.policies.linear_predictor import LinearPredictor
from drcrm.selection.algorithms import ESTIMATORS
from drcrm.selection.grid_search import calibrated_penalty

every_estimator = pytest.mark.parametrize("name", sorted(set(ESTIMATORS) & set(drcrm.__all__)))
SHARED = {
    "estimate",
    "weight",
    "start",
    "tilt",
    "support",
    "context_effects",
    "features",
    "clip",
    "fit_intercept",
    "max_iter",
    "n_jobs",
    "tol",
    "verbose",
}


@pytest.fixture(scope="module")
def log(logged) -> BanditLog:
    return logged()


@pytest.fixture(scope="module")
def counted(log) -> BanditLog:
    """The log with other counts, some of them 0."""
    count = np.random.default_rng(1).integers(0, 4, len(log.Y))
    return BanditLog(log.X, log.Y, log.propensity, log.cost, log.context, count)


def fit(estimator, log: BanditLog, X=None, **known):
    rows = {"propensity": log.propensity, "cost": log.cost, "context": log.context, "count": log.count}
    return estimator.fit(log.X if X is None else X, log.Y, **rows, **known)


@every_estimator
def test_conforms(name, log):
    estimator = getattr(drcrm, name)()
    assert set(ESTIMATORS[name].parameters) == set(estimator.get_params()) - SHARED
    assert set(estimator.get_params()) >= SHARED
    with pytest.raises(NotFittedError):
        estimator.predict(log.X)
    assert fit(estimator, log) is estimator
    policy = ExponentialPolicy(estimator.coef_)
    assert estimator.coef_.shape == (4, 2)
    assert estimator.converged_
    assert 0 < estimator.n_iter_ <= estimator.max_iter
    assert estimator.clip_ == clipping_constant(log)
    assert estimator.tilt_ is None
    assert np.array_equal(estimator.predict_proba(log.X), policy.marginals(log.X))
    assert np.array_equal(estimator.predict(log.X), policy.greedy(log.X))
    Y = estimator.sample(log.X, random_state=1)
    assert np.array_equal(Y, estimator.sample(log.X, random_state=1))
    assert estimator.log_prob(log.X, Y) == pytest.approx(policy.log_prob(log.X, Y), rel=1e-12)
    again = fit(clone(estimator), log)
    assert np.array_equal(again.coef_, estimator.coef_)
    csr = fit(clone(estimator), log, sparse.csr_matrix(log.X))
    assert csr.objective_ == pytest.approx(estimator.objective_, rel=1e-4)


def risk_of(name: str, estimator, log: BanditLog, policy: ExponentialPolicy) -> float:
    """The estimator's objective at a policy, for ips: the risk of the clipped costs, or the weighted likelihood."""
    log_prob = policy.log_prob(log.X[log.context], log.Y)
    if ESTIMATORS[name].likelihood:
        return -np.average(np.exp(-estimator.sharpness * log.cost) * log_prob, weights=log.count)
    values = {key: getattr(estimator, key) for key in ESTIMATORS[name].parameters}
    weight = np.minimum(np.exp(log_prob) / log.propensity, estimator.clip_)
    return ESTIMATORS[name].criterion(**values).risk(log.cost * weight, log.count)[0]


@every_estimator
def test_objective_is_the_risk_of_the_clipped_costs(name, log):
    estimator = fit(getattr(drcrm, name)(clip=2.5), log)
    assert estimator.objective_ == pytest.approx(risk_of(name, estimator, log, estimator.policy_), rel=1e-9)


@every_estimator
def test_learning_lowers_the_risk(name, log):
    """The learned policy's own risk is below that of Θ = 0, from which the fit starts."""
    estimator = fit(getattr(drcrm, name)(), log)
    assert estimator.objective_ < risk_of(name, estimator, log, ExponentialPolicy(np.zeros((4, 2)))) - 0.01


LIMITS = {
    "variance_penalty": 0.0,
    "temperature": 1e9,
    "radius": 0.0,
    "alpha": 1.0,
    "smoothing": 1e-9,
}  # at which the risk is the mean


@pytest.mark.parametrize("name", sorted(name for name, each in ESTIMATORS.items() if not each.likelihood))
def test_the_limit_of_the_hyper_parameter_is_cips(name, log):
    parameter = ESTIMATORS[name].hyper_parameter
    settings = {parameter: LIMITS[parameter]} if parameter else {}
    found = fit(getattr(drcrm, name)(**settings), log).objective_
    assert found == pytest.approx(fit(CIPS(), log).objective_, rel=1e-3)  # L-BFGS amplifies rounding


def test_the_limit_of_weighted_likelihood_is_an_imitation(log):
    blunt = fit(WeightedLikelihood(sharpness=0.0), log)
    likelihood = (
        -ExponentialPolicy(cloned_coefficients(LinearPredictor(log, trains=True)))
        .log_prob(log.X[log.context], log.Y)
        .mean()
    )
    assert blunt.objective_ == pytest.approx(likelihood, rel=1e-4)
    assert blunt.coef_ == pytest.approx(cloned_coefficients(LinearPredictor(log, trains=True)), abs=0.02)


def test_a_likelihood_that_is_sharp_is_that_of_the_best_rows(log):
    """e^{−βc} itself would be beyond the range of numbers."""
    best = log.recount(np.where(log.cost == log.cost.min(), log.count, 0))
    sharp, alone = fit(WeightedLikelihood(sharpness=1e4), log), fit(WeightedLikelihood(sharpness=0.0), best)
    assert sharp.log_prob(log.X[log.context], log.Y) == pytest.approx(
        alone.log_prob(log.X[log.context], log.Y), rel=0.05, abs=0.05
    )


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize(
    ("name", "estimate"), [(name, each) for name in sorted(ESTIMATORS) for each in ESTIMATORS[name].estimates]
)
def test_every_estimate_is_lowered_from_every_start(name, estimate, start, counted, random_policy):
    """``objective_`` is ``off_policy_value`` of the learned policy, and less than that of the start."""
    log, logging_policy = counted, random_policy(0, scale=0.25)
    model = CostModel(0.01).fit_log(log)
    estimator = getattr(drcrm, name)(estimate=estimate, start=start, tilt="auto", clip=4.0, context_effects=False)
    fit(estimator, log, logging_policy=logging_policy, cost_model=model)
    design = LinearPredictor(log, trains=True)
    begun, tilt = start_coef(start, design, logging_policy, model.coef_, "auto")
    assert estimator.tilt_ == pytest.approx(tilt)
    if ESTIMATORS[name].likelihood:
        value = lambda policy: risk_of(name, estimator, log, policy)  # noqa: E731
    else:
        values = {key: getattr(estimator, key) for key in ESTIMATORS[name].parameters}
        risk = ESTIMATORS[name].criterion(**values).risk
        value = lambda policy: off_policy_value(policy, log, estimate, risk, "clipped", 4.0, model)  # noqa: E731
    assert estimator.objective_ == pytest.approx(value(estimator.policy_), rel=1e-9)
    assert estimator.objective_ < value(ExponentialPolicy(begun)) - 1e-4


@pytest.mark.parametrize("weight", [Implicit(0.3), Smoothed(0.5), Shrunk(4.0)], ids=lambda each: type(each).__name__)
@pytest.mark.parametrize("estimate", ["ips", "snips", "dr"])
def test_every_weight_is_learned_with(weight, estimate, counted):
    model, ball = CostModel(0.01).fit_log(counted), drcrm.risks.KLBall(0.05)
    estimator = fit(KLDRO(0.05, weight=weight, estimate=estimate, context_effects=False), counted, cost_model=model)
    found = off_policy_value(estimator.policy_, counted, estimate, ball, weight, cost_model=model)
    assert estimator.objective_ == pytest.approx(found, rel=1e-9)
    assert estimator.n_iter_ > 0


COMPETITORS = {
    "implicit exploration": (CIPS(weight=Implicit(0.2)), lambda pi, p, c: np.mean(c * pi / (p + 0.2))),
    "exponential smoothing": (CIPS(weight=Smoothed(0.6)), lambda pi, p, c: np.mean(c * pi / p**0.6)),
    "shrinkage": (CIPS(weight=Shrunk(3.0)), lambda pi, p, c: np.mean(c * 3 * (pi / p) / ((pi / p) ** 2 + 3))),
    "logarithmic smoothing": (
        LogSmoothing(0.7, clip=2.5),
        lambda pi, p, c: -np.mean(np.log(1 - 0.7 * c * np.minimum(pi / p, 2.5))) / 0.7,
    ),
    "logarithmic smoothing, not clipped": (
        LogSmoothing(0.7, clip=None),
        lambda pi, p, c: -np.mean(np.log(1 - 0.7 * c * pi / p)) / 0.7,
    ),
    "log-sum-exp": (
        LogSumExp(1.5, clip=2.5),
        lambda pi, p, c: 1.5 * np.log(np.mean(np.exp(c * np.minimum(pi / p, 2.5) / 1.5))),
    ),
    "weighted likelihood": (WeightedLikelihood(0.8), lambda pi, p, c: -np.mean(np.exp(-0.8 * c) * np.log(pi))),
    "Norm-POEM": (
        POEM(0.9, estimate="snips", clip=2.5),
        lambda pi, p, c: (
            (ratio := (w := np.minimum(pi / p, 2.5)) @ c / w.sum())
            + 0.9 * np.sqrt(((c - ratio) ** 2 @ w**2) * len(c) / (len(c) - 1)) / w.sum()
        ),
    ),
}


@pytest.mark.parametrize("name", COMPETITORS)
def test_other_peoples_objectives_are_their_formulas(name, counted):
    """At the learned policy, row by row; and no policy near it has less than L-BFGS's tolerance below it."""
    estimator, formula = COMPETITORS[name]
    fit(estimator, counted)
    rows = np.repeat(np.arange(len(counted.Y)), counted.count)

    def value(coef: np.ndarray) -> float:
        pi = np.exp(ExponentialPolicy(coef).log_prob(counted.X[counted.context[rows]], counted.Y[rows]))
        return formula(np.maximum(pi, 1e-300), counted.propensity[rows], counted.cost[rows])

    assert estimator.objective_ == pytest.approx(value(estimator.coef_), rel=1e-10)
    assert value(estimator.coef_) < value(np.zeros((4, 2))) - 0.01
    rng = np.random.default_rng(5)
    near = [value(estimator.coef_ + 1e-3 * rng.normal(size=(4, 2))) for _ in range(50)]
    assert min(near) > value(estimator.coef_) - 1e-4


def test_weighted_likelihood_is_convex_and_without_propensities(counted):
    criterion = ESTIMATORS["WeightedLikelihood"].criterion(sharpness=1.5)
    objective, rng = criterion.objective(LinearPredictor(counted, trains=True), 3.0), np.random.default_rng(6)
    for _ in range(100):
        here, there = 3 * rng.normal(size=(2, 8))
        assert objective((here + there) / 2)[0] <= (objective(here)[0] + objective(there)[0]) / 2
    other = BanditLog(counted.X, counted.Y, counted.propensity**2, counted.cost, counted.context, counted.count)
    assert np.array_equal(fit(WeightedLikelihood(), other).coef_, fit(WeightedLikelihood(), counted).coef_)


def test_a_weight_is_a_parameter_like_others(log):
    estimator = KLDRO(0.02, weight=Shrunk(2.0), estimate="snips", start="imitation")
    copy = clone(estimator)
    assert type(copy.get_params()["weight"]) is Shrunk
    assert copy.get_params()["weight"].shrinkage == 2.0
    assert {**copy.get_params(), "weight": 0} == {**estimator.get_params(), "weight": 0}
    assert np.array_equal(fit(copy, log).coef_, fit(estimator, log).coef_)
    assert estimator.set_params(weight="clipped", radius=0.1).get_params()["weight"] == "clipped"
    assert "Implicit" in repr(CIPS(weight=Implicit(0.1)))


class Cautious(KLDRO):
    """A user's own subclass, with a parameter fewer."""

    def __init__(self, *, estimate="ips", weight="clipped", start="zero", tilt=1.0, clip="auto", max_iter=99, tol=1e-6):
        super().__init__(
            0.2, estimate=estimate, weight=weight, start=start, tilt=tilt, clip=clip, max_iter=max_iter, tol=tol
        )


class Renamed(Chi2DRO):
    pass


def test_a_subclass_is_what_it_comes_from(log):
    assert np.array_equal(fit(Cautious(), log).coef_, fit(KLDRO(0.2), log).coef_)
    assert np.array_equal(fit(Renamed(0.3), log).coef_, fit(Chi2DRO(0.3), log).coef_)
    assert np.array_equal(fit(clone(Cautious(clip=2.0)), log).coef_, fit(KLDRO(0.2, clip=2.0), log).coef_)


@pytest.mark.parametrize(
    ("estimator", "curvature"), [(KLDRO, 1), (Chi2DRO, 2), (partial(PhiDRO, "squared_hellinger"), 0.5)]
)
def test_a_radius_from_theory(estimator, curvature, counted):
    """φ''(1) z²/(2n), n the rows as often as they occur."""
    radius = curvature * 1.2815515655446004**2 / (2 * counted.count.sum())
    found = fit(estimator(radius="auto", confidence=0.9, estimate="dr"), counted)
    assert found.objective_ == pytest.approx(fit(estimator(radius=radius, estimate="dr"), counted).objective_, rel=1e-9)
    assert clone(found).radius == "auto"


def test_what_is_recommended_is_the_doubly_robust_ball_from_a_tilted_start(counted, random_policy):
    known = {"logging_policy": random_policy(0, scale=0.25)}
    recommended = fit(DoublyRobustDRO(safe=False), counted, **known)
    spelt = fit(KLDRO(0.01, estimate="dr", start="model", tilt="auto"), counted, **known)
    assert np.array_equal(recommended.coef_, spelt.coef_)
    assert recommended.tilt_ == spelt.tilt_ > 0
    assert set(recommended.get_params()) == {
        "radius",
        "confidence",
        "safe",
        "validation_fraction",
        "random_state",
        *SHARED,
    }
    assert np.array_equal(fit(clone(recommended), counted, **known).coef_, recommended.coef_)
    assert fit(DoublyRobustDRO(safe=False), counted).tilt_ > 0  # of an imitation


@pytest.mark.parametrize("estimate", ESTIMATES)
@pytest.mark.parametrize("start", ["zero", "model"])
def test_counts_are_repetitions_of_every_estimate(counted, estimate, start):
    estimator = KLDRO(0.05, estimate=estimate, start=start, tilt="auto")
    short = fit(clone(estimator), counted)
    rows = np.random.default_rng(3).permutation(np.repeat(np.arange(len(counted.Y)), counted.count))
    Y, p, c, context = (each[rows] for each in (counted.Y, counted.propensity, counted.cost, counted.context))
    long = clone(estimator).fit(counted.X, Y, propensity=p, cost=c, context=context)
    assert (short.clip_, short.tilt_) == (long.clip_, long.tilt_)
    assert short.objective_ == pytest.approx(long.objective_, rel=1e-12)
    assert short.coef_ == pytest.approx(long.coef_, rel=1e-9)


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
        (CIPS(), {"propensity": None}, "CIPS.fit needs propensity=, one value for each logged row"),
        (CIPS(), {"cost": None}, "CIPS.fit needs cost="),
        (CIPS(clip=0.5), {}, "clip is 0.5, expected 'auto', a number ≥ 1, or None"),
        (CIPS(clip="often"), {}, "clip is 'often'"),
        (CIPS(clip=[2]), {}, r"clip is \[2\]"),
        (CIPS(tol=-1), {}, "tol is -1, expected a finite number > 0"),
        (CIPS(max_iter=0), {}, "max_iter is 0"),
        (CIPS(max_iter="x"), {}, "max_iter is 'x'"),
        (CIPS(max_iter=10**400), {}, "max_iter is 1000"),
        (CIPS(max_iter=None), {}, "max_iter is None, expected a whole number of at least 1"),
        (CIPS(max_iter=2.5), {}, "max_iter is 2.5, expected a whole number"),
        (CIPS(tol=None), {}, "tol is None"),
        (CIPS(tol="a"), {}, "tol is 'a', expected a finite number > 0"),
        (POEM(variance_penalty=-1), {}, "^variance_penalty is -1, expected a finite number ≥ 0"),
        (POEM("large"), {}, "^variance_penalty is 'large'"),
        (CIPS(), {"Y": None}, "CIPS.fit needs Y=, one value for each logged row"),
        (CIPS(), {"Y": sparse.csr_array([[0], [1]])}, r"Y is a sparse matrix, expected an array: Y.toarray\(\)"),
        (CIPS(), {"Y": [["no"], ["yes"]]}, "Y is not an array of numbers, but of text such as 'no'"),
        (CIPS(), {"Y": np.array([[0], ["1"]], dtype=object)}, "Y has '1' in row 1, label 0, expected 0 or 1"),
        (CIPS(), {"X": [[1j], [2]]}, "X is not an array of numbers, but of complex128"),
        (CIPS(), {"X": np.zeros((2, 1), dtype="M8[s]")}, r"X is not an array of numbers, but of datetime64\[s\]"),
        (CIPS(), {"X": np.ma.masked_less([[1.0], [2.0]], 2)}, "X has masked values, expected numbers in their place"),
        (CIPS(), {"count": [10**18, 1]}, "count is 1e.18 in row 0, expected a whole number of less than 16 digits"),
        (CIPS(), {"count": [6e14, 6e14]}, r"count adds up to 1.2e\+15, expected less than 1e\+15"),
        (CIPS(), {"cost": [-9e307, -1.7e308]}, r"not finite .* costs reach 1.7e\+308; give them in another unit"),
        (
            POEM(1e308),
            {"cost": [-1.0, -1e3]},
            "not finite .* the hyper-parameters or the start of the fit are too extreme",
        ),
        (CIPS(clip=10**400), {}, "clip is 1000"),
        (CIPS(estimate=["dr"]), {}, r"estimate is \['dr'\], expected one of"),
        (CIPS(start=np.array(["zero", "model"])), {}, "start is array"),
        (CIPS(start="model", tilt=np.array([1.0, 2.0])), {}, "tilt is array"),
        (AdaptiveKLCRM(variance=np.array(["mean", "sum"])), {}, "variance is array"),
        (CIPS(start="logging"), {"logging_policy": 3}, "logging_policy is of type int, expected an ExponentialPolicy"),
        (CIPS(estimate="dr"), {"cost_model": "x"}, "cost_model is of type str, expected one with predict and"),
        (
            CIPS(clip=None),
            {"propensity": [5e-324, 0.5], "cost": [-1e300, 0]},
            "the risk is not finite where the fit starts",
        ),
        (KLCRM(temperature=0), {}, "temperature is 0"),
        (CIPS(fit_intercept="no"), {}, "fit_intercept is 'no', expected True or False"),
        (AdaptiveKLCRM(variance="median"), {}, "variance is 'median'"),
        (KLDRO(), {"propensity": [0.5, 2.0]}, "propensity is 2.0 in row 1"),
        (KLDRO(estimate="sips"), {}, "estimate is 'sips', expected one of 'ips', 'snips', 'dr', 'dm'"),
        (LogSmoothing(estimate="snips"), {}, "estimate is 'snips', expected one of 'ips', 'dm'"),
        (LogSmoothing(estimate="dr"), {}, "estimate is 'dr', expected one of 'ips', 'dm'"),
        (LogSmoothing(2.0), {"cost": [-1.0, 3.0]}, "logarithmic smoothing at λ = 2 is of costs below 1/λ; the large"),
        (WeightedLikelihood(estimate="dr"), {}, "estimate is 'dr', expected one of 'ips'"),
        (WeightedLikelihood(weight=Implicit(1)), {}, "WeightedLikelihood has no weight: it is a likelihood of the"),
        (WeightedLikelihood(1e308), {"cost": [-10.0, 0.0]}, r"sharpness 1e\+308 is too large for a cost of -10"),
        (CIPS(weight="heavy"), {}, r"weight is 'heavy', expected 'clipped' or a weight such as Implicit\(0.1\)"),
        (CIPS(weight="implicit"), {}, "weight is 'implicit', expected 'clipped' or a weight"),
        (CIPS(start="there"), {}, "start is 'there', expected one of 'zero', 'logging', 'model', 'imitation'"),
        (CIPS(start="logging"), {}, "start 'logging' needs the logging policy's coefficients"),
        (CIPS(start="model", tilt="steep"), {}, "tilt is 'steep', expected 'auto' or a finite number ≥ 0"),
        (
            CIPS(start="logging"),
            {"logging_policy": ExponentialPolicy(np.zeros((1, 2)))},
            r"the logging policy's coef has shape \(1, 2\), expected \(1, 1\)",
        ),
        (CIPS(estimate="dr"), {"cost_model": CostModel()}, "the cost model has no coef_ yet: fit it, or set coef_"),
        (
            CIPS(estimate="dr"),
            {"cost_model": CostModel(1).fit(np.ones((2, 3)), [[0], [1]], cost=[1.0, 2.0])},
            r"the cost model's coef_ has shape \(3, 2\), expected \(1, 2\)",
        ),
    ],
)
def test_errors_say_what_is_wrong(estimator, arguments, message):
    good = {"propensity": [0.5, 0.5], "cost": [-1.0, 0.0]}
    with pytest.raises(InputError, match=message) as error:
        estimator.fit(**{"X": [[1.0], [2.0]], "Y": [[0], [1]], **good, **arguments})
    assert "\n" not in str(error.value)


def test_one_hot_actions_are_no_labels():
    Y, rows = np.eye(3)[np.arange(12) % 3], {"propensity": np.full(12, 1 / 3), "cost": -np.arange(12.0)}
    with pytest.raises(InputError, match="every row of Y has exactly one 1: that is a single choice among 3 actions"):
        CIPS().fit(np.ones((12, 1)), Y, **rows)


def test_unclipped_weights_without_bound_are_an_error():
    """Finite at Θ = 0, but not where the fit goes."""
    log = {"propensity": np.full(4, 1e-160), "cost": [-1.0, -2.0, -1.0, 0.0]}
    with pytest.raises(InputError, match=r"the risk is not finite after .* which needs clipped"):
        CIPS(clip=None).fit(np.ones((4, 1)), [[0], [1], [1], [0]], **log)
    with pytest.warns(
        ConvergenceWarning, match="CIPS ends where it began: no row's weight changes there: all are clipped"
    ):
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
    with pytest.warns(ConvergenceWarning, match="Chi2DRO ends where it began: its gradient there is 0"):
        fitted = Chi2DRO(0.25).fit(np.ones((8, 1)), Y, propensity=np.full(8, 0.25), cost=cost)
    assert fitted.objective_ <= -0.75


CLICKS = {"X": np.ones((1000, 1)), "Y": np.arange(1000)[:, None] % 2, "propensity": np.full(1000, 0.5)}


@pytest.mark.parametrize(
    ("estimator", "arguments", "reason"),
    [
        (
            KLDRO(),
            {"cost": -1.0 * (np.arange(1000) < 5)},
            r"the worst case of KLBall\(radius=0.01\) is the rows of the largest cost alone, 99.5 % of all, and no "
            "policy changes that; take a smaller radius, less than 0.00501",
        ),
        (Chi2DRO(), {"cost": -1.0 * (np.arange(1000) < 5)}, r"the worst case of Chi2Ball\(radius=0.01\) is the rows"),
        (CVaRDRO(), {"cost": -1.0 * (np.arange(1000) < 5)}, ".* and no policy changes that; take a larger alpha"),
        (LogSumExp(1e-9), {"cost": -1.0 * (np.arange(1000) < 5)}, ".* and no policy changes that; take a larger temp"),
        (
            WeightedLikelihood(),
            {"cost": np.arange(1000.0) + 800},
            r"e\^\(−βc\) is 0 for each cost c; subtract a constant",
        ),
        (KLDRO(estimate="snips"), {"cost": np.r_[-1.0, np.zeros(999)]}, r"the worst case of KLBall\(radius=0.01\) is"),
        (CIPS(), {"cost": np.zeros(1000)}, "all costs are equal"),
        (CIPS(estimate="snips"), {"cost": np.full(1000, -2.0)}, "all costs are equal"),
        (
            CIPS(clip=2.0),
            {"cost": -np.ones(1000) - np.arange(1000), "propensity": np.full(1000, 1e-3)},
            "no row's weight",
        ),
        (CIPS(tol=1e3), {"cost": -np.arange(1000.0)}, "its gradient there is within tol of 0"),
    ],
)
def test_a_fit_that_ends_where_it_began_says_so_once(estimator, arguments, reason):
    with pytest.warns(ConvergenceWarning, match=f"{type(estimator).__name__} ends where it began: {reason}") as warned:
        estimator.fit(**{**CLICKS, **arguments})
    assert len(warned) == 1
    assert warned[0].filename == __file__
    assert estimator.n_iter_ == 0
    assert not estimator.coef_.any()
    if "smaller radius, less" in reason:
        assert KLDRO(0.005).fit(**{**CLICKS, **arguments}).n_iter_ > 0


def test_costs_that_are_fled_from_are_warned_of(log):
    rows = {"propensity": log.propensity, "context": log.context}
    with pytest.warns(UserWarning, match="no cost is below 0, the least is 3: under 'ips'") as warned:
        CIPS().fit(log.X, log.Y, cost=log.cost + 5, **rows)
    assert warned[0].filename == __file__
    CIPS(estimate="snips").fit(log.X, log.Y, cost=log.cost + 5, **rows)
    WeightedLikelihood().fit(log.X, log.Y, cost=log.cost + 5, **rows)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
def test_contexts_without_a_constant_are_warned_of(log, form):
    X = log.X[:, :-1]
    with pytest.warns(UserWarning, match="no constant column, and the policy no intercept: set fit_intercept=True"):
        fit(KLDRO(), log, form(X))
    groups = np.arange(len(X)) % 3
    one_hot = np.column_stack([X, groups[:, None] == np.arange(3)])
    for whole in (np.column_stack([X, np.full(len(X), 3.0)]), one_hot, 1e9 * one_hot):
        fit(KLDRO(), log, form(whole))


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("name", [*sorted(set(ESTIMATORS) & set(drcrm.__all__)), "DoublyRobustDRO"])
def test_an_intercept_is_a_constant_column(name, form, log, random_policy):
    """The logging policy and the cost model are of contexts without it, and so is everything that is fitted."""
    policy, without = random_policy(0, scale=0.25), log.X[:, :-1]
    known = {"logging_policy": ExponentialPolicy(policy.coef[:-1], policy.coef[-1])}
    plain = {"safe": False} if name == "DoublyRobustDRO" else {}
    estimator = fit(getattr(drcrm, name)(fit_intercept=True, **plain), log, form(without), **known)
    spelt = fit(getattr(drcrm, name)(**plain), log, logging_policy=policy)
    assert (*estimator.coef_.shape, *estimator.intercept_.shape) == (3, 2, 2)
    assert estimator.n_features_in_ == 3
    assert np.vstack([estimator.coef_, estimator.intercept_]) == pytest.approx(spelt.coef_, rel=1e-6, abs=1e-8)
    assert not spelt.intercept_.any()
    X = form(without)
    assert estimator.predict_proba(X) == pytest.approx(spelt.predict_proba(log.X), rel=1e-6)
    assert estimator.log_prob(X[log.context], log.Y) == pytest.approx(
        spelt.log_prob(log.X[log.context], log.Y), rel=1e-6
    )
    rows = {"propensity": log.propensity, "cost": log.cost, "context": log.context}
    for by in ["clipped_snips"] + ["dr_bound"] * (name == "DoublyRobustDRO"):
        score = estimator.score(X, log.Y, by=by, **rows)
        assert score == pytest.approx(spelt.score(log.X, log.Y, by=by, **rows), rel=1e-6)
    narrow = BanditLog(X, log.Y, log.propensity, log.cost, log.context)
    estimate, model = ("dr", estimator.cost_model_) if name == "DoublyRobustDRO" else ("ips", None)
    found = off_policy_value(estimator, narrow, estimate, cost_model=model)
    assert found == pytest.approx(off_policy_value(spelt, log, estimate, cost_model=spelt.cost_model_), rel=1e-6)


def test_an_intercept_of_the_logging_policy_is_not_dropped(log):
    policy = ExponentialPolicy(np.zeros((4, 2)), [1.0, -1.0])
    with pytest.raises(InputError, match="the logging policy has an intercept; set fit_intercept=True"):
        fit(CIPS(start="logging"), log, logging_policy=policy)


def test_the_objective_of_a_fit_with_an_intercept_is_its_off_policy_value(log):
    X = log.X[:, :-1]
    estimator = fit(KLDRO(0.05, estimate="dr", fit_intercept=True, context_effects=False), log, X)
    narrow = BanditLog(X, log.Y, log.propensity, log.cost, log.context)
    for given in ({"support": 0.05}, {"cost_model": estimator.cost_model_}):
        found = off_policy_value(estimator, narrow, "dr", drcrm.risks.KLBall(0.05), **given)
        assert found == pytest.approx(estimator.objective_, rel=1e-9)


def test_a_users_model_is_taken_as_it_is(log):
    """With coefficients from which a fit may start; one that is not additive is refused wherever costs lie."""
    fitted = CostModel(0.01).fit_log(log)
    own = SimpleNamespace(predict=fitted.predict, expectation=fitted.expectation, coef_=fitted.coef_)
    found = fit(KLDRO(estimate="dr", start="model"), log, cost_model=own)
    assert found.cost_model_.model is own
    expected = fit(KLDRO(estimate="dr", start="model"), log, cost_model=fitted)
    assert found.coef_ == pytest.approx(expected.coef_, rel=1e-6)
    odd = SimpleNamespace(predict=lambda X, Y: 1e6 + 0.3 * (Y.sum(axis=1) == 2), expectation=lambda X, policy: None)
    with pytest.raises(InputError, match="not additive"):
        KLDRO(estimate="dr").fit(
            log.X[log.context], log.Y, propensity=log.propensity, cost=log.cost + 1e6, cost_model=odd
        )


def test_features_far_from_zero_are_warned_of_by_name(log):
    frame = pd.DataFrame(log.X, columns=["age", "year", "size", "one"])
    frame["year"] = 2000 + 3 * frame["year"]
    with pytest.warns(UserWarning, match="^column 'year' has a mean that is more than 10 standard dev") as warned:
        fit(KLDRO(), log, frame)
    assert warned[0].filename == __file__
    with pytest.warns(UserWarning, match="^column 1 has a mean that is more than 10"):
        fit(KLDRO(), log, sparse.csr_array(frame.to_numpy()))


def test_a_cost_model_of_contexts_without_a_constant_serves_a_fit_with_an_intercept(log):
    """One of ours, and one of the user's."""
    X = log.X[:, :-1]
    model = CostModel(0.01).fit(X, log.Y, cost=log.cost, context=log.context)
    fits = [
        fit(KLDRO(estimate="dr", fit_intercept=True), log, X, cost_model=each)
        for each in (model, SimpleNamespace(predict=model.predict, expectation=model.expectation))
    ]
    assert fits[0].cost_model_.model is model
    assert fits[0].coef_ == pytest.approx(fits[1].coef_, rel=1e-6, abs=1e-8)
    wide = CostModel()
    wide.coef_ = np.vstack([model.coef_, model.intercept_])
    assert fit(KLDRO(estimate="dr"), log, cost_model=wide).coef_[:-1] == pytest.approx(
        fits[0].coef_, rel=1e-6, abs=1e-8
    )


def test_not_converging_is_said(log):
    with pytest.warns(ConvergenceWarning, match="KLDRO did not converge in 2 iterations"):
        estimator = fit(KLDRO(max_iter=2), log)
    assert not estimator.converged_


@pytest.mark.parametrize("estimator", [POEM, WeightedLikelihood])
def test_a_hyper_parameter_may_have_another_precision(estimator, log):
    assert np.array_equal(fit(estimator(np.float32(0.5)), log).coef_, fit(estimator(0.5), log).coef_)


def test_input_errors_are_value_errors():
    assert issubclass(InputError, ValueError)


def test_public_names():
    estimators = {"CIPS", "POEM", "KLCRM", "AdaptiveKLCRM", "KLDRO", "Chi2DRO"}
    estimators |= {"LogSmoothing", "LogSumExp", "WeightedLikelihood"}
    others = {"ExponentialPolicy", "BanditLog", "CostModel", "off_policy_value", "Implicit", "Smoothed", "Shrunk"}
    assert set(drcrm.__all__) >= {*estimators, *others, "DoublyRobustDRO"}
    assert estimators <= set(ESTIMATORS)
    assert drcrm.risks.KLBall(0.1)([1.0])[0] == 1.0
    with pytest.raises(AttributeError, match="no attribute 'KLDR'"):
        drcrm.KLDR  # noqa: B018


@every_estimator
def test_a_docstring_lists_every_parameter_once(name):
    parameters, _, attributes = getattr(drcrm, name).__doc__.partition("\nAttributes\n")
    listed = re.findall(r"^(\w+) :", parameters.partition("\nParameters\n")[2], re.MULTILINE)
    assert sorted(listed) == sorted(signature(getattr(drcrm, name)).parameters)
    assert "coef_ : " in attributes
