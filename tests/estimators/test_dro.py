"""Objectives of the estimators against the published objectives of competitors, and limits of the likelihood."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

from drcrm import (
    CIPS,
    POEM,
    BanditLog,
    EnvironmentDRO,
    ExponentialPolicy,
    Implicit,
    LogSmoothing,
    LogSumExp,
    Shrunk,
    Smoothed,
    WeightedLikelihood,
)
from drcrm.errors import InputError
from drcrm.optimization.starts import cloned_coefficients
from drcrm.policies.prepared_log import PreparedLog
from drcrm.selection.algorithms import as_algorithm
from drcrm.selection.grid_search import calibrated_penalty


def fit(estimator, log: BanditLog):
    return estimator.fit(log.X, log.Y, log.propensity, log.cost, log.context, log.count)


def test_weighted_likelihood_tends_to_the_likelihood_of_all_rows_and_of_the_best_rows(log):
    coef = cloned_coefficients(PreparedLog(log))
    unweighted = fit(WeightedLikelihood(sharpness=0.0), log)
    likelihood = ExponentialPolicy(coef).log_prob(log.X[log.context], log.Y).mean()
    assert unweighted.objective_ == pytest.approx(-likelihood, rel=1e-4)
    assert unweighted.coef_ == pytest.approx(coef, abs=0.02)
    best = log.recount(np.where(log.cost == log.cost.min(), log.count, 0))
    sharp, on_best = fit(WeightedLikelihood(sharpness=1e4), log), fit(WeightedLikelihood(sharpness=0.0), best)
    expected = on_best.log_prob(log.X[log.context], log.Y)
    assert sharp.log_prob(log.X[log.context], log.Y) == pytest.approx(expected, rel=0.05, abs=0.05)


def norm_poem(pi, p, c) -> float:
    w = np.minimum(pi / p, 2.5)
    ratio = w @ c / w.sum()
    return ratio + 0.9 * np.sqrt(((c - ratio) ** 2 @ w**2) * len(c) / (len(c) - 1)) / w.sum()


COMPETITORS = {
    "implicit exploration": (CIPS(weight=Implicit(0.2)), lambda pi, p, c: np.mean(c * pi / (p + 0.2))),
    "exponential smoothing": (CIPS(weight=Smoothed(0.6)), lambda pi, p, c: np.mean(c * pi / p**0.6)),
    "shrinkage": (CIPS(weight=Shrunk(3.0)), lambda pi, p, c: np.mean(c * 3 * (pi / p) / ((pi / p) ** 2 + 3))),
    "log smoothing": (
        LogSmoothing(0.7, clip=2.5),
        lambda pi, p, c: -np.mean(np.log(1 - 0.7 * c * np.minimum(pi / p, 2.5))) / 0.7,
    ),
    "unclipped log smoothing": (
        LogSmoothing(0.7, clip=None),
        lambda pi, p, c: -np.mean(np.log(1 - 0.7 * c * pi / p)) / 0.7,
    ),
    "log-sum-exp": (
        LogSumExp(1.5, clip=2.5),
        lambda pi, p, c: 1.5 * np.log(np.mean(np.exp(c * np.minimum(pi / p, 2.5) / 1.5))),
    ),
    "weighted likelihood": (WeightedLikelihood(0.8), lambda pi, p, c: -np.mean(np.exp(-0.8 * c) * np.log(pi))),
    "Norm-POEM": (POEM(0.9, estimate="snips", clip=2.5), norm_poem),
}


@pytest.mark.parametrize("name", COMPETITORS)
def test_objectives_of_competitors_equal_their_formulas(name, kind_logs):
    """At the learned policy, row by row. Nearby policies are lower by at most L-BFGS's tolerance."""
    data, (estimator, formula) = kind_logs["labels"], COMPETITORS[name]
    data.fit(estimator)
    often = np.repeat(np.arange(len(data.Y)), data.rows["count"])

    def value(coef: np.ndarray) -> float:
        pi = np.maximum(data.probability(coef)[often], 1e-300)
        return formula(pi, data.rows["propensity"][often], data.rows["cost"][often])

    assert estimator.objective_ == pytest.approx(value(estimator.coef_), rel=1e-10)
    assert value(estimator.coef_) < value(np.zeros((4, 2))) - 0.01
    rng = np.random.default_rng(5)
    nearby = [value(estimator.coef_ + 1e-3 * rng.normal(size=(4, 2))) for _ in range(50)]
    assert min(nearby) > value(estimator.coef_) - 1e-4


def test_calibrated_penalty_is_that_of_the_public_poem_code(log):
    expected = -log.cost.mean() / np.sqrt(log.cost.var(ddof=1) / log.size)
    assert calibrated_penalty(log) == pytest.approx(expected, rel=1e-12)
    for cost in (np.full(4, -1.0), np.array([1.0, 2.0, 1.0, 1.0])):
        with pytest.raises(InputError, match="cannot be calibrated on costs with mean"):
            calibrated_penalty(BanditLog(np.ones((4, 1)), np.ones((4, 1)), np.ones(4), cost))


@pytest.mark.parametrize("form", ["estimator", "entry"])
def test_doubly_robust_fits_around_the_environment_are_refused_with_the_alternative(form, log):
    entry = {"estimator": "EnvironmentDRO", "parameter": "radius", "grid": [0.1], "options": {"estimate": "dr"}}
    with pytest.raises(InputError, match=r"local minima. Learn with 'snips', then .* certify .* 'dr' and shift=κ"):
        fit(EnvironmentDRO(estimate="dr"), log) if form == "estimator" else as_algorithm(entry)


def test_fits_around_the_environment_limit_weights_only_on_request(log):
    """The objective is the ball at the costs with the weights as multiplicities, by the dual of the KL ball."""

    def robust_cost(estimator, clip: float) -> float:
        log_weight = estimator.log_prob(log.X[log.context], log.Y) - np.log(log.propensity)
        weight = log.count * np.exp(np.minimum(log_weight, np.log(clip)))
        dual = lambda u: np.exp(u) * (0.1 + logsumexp(log.cost / np.exp(u), b=weight / weight.sum()))  # noqa: E731
        return float(minimize_scalar(dual, bounds=(-9, 6), method="bounded", options={"xatol": 1e-9}).fun)

    for clip in (1.5, 4.0):
        estimator = fit(EnvironmentDRO(0.1, clip=clip), log)
        assert estimator.objective_ == pytest.approx(robust_cost(estimator, clip), abs=1e-6)
    free, same = (fit(EnvironmentDRO(0.1, **options), log) for options in ({}, {"clip": None}))
    assert np.array_equal(free.coef_, same.coef_)
    assert free.objective_ == pytest.approx(robust_cost(free, np.inf), abs=1e-6)
    assert robust_cost(free, np.inf) != pytest.approx(robust_cost(free, free.clip_), abs=1e-3)
