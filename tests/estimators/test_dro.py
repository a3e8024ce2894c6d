"""Objectives of the estimators against the published objectives of competitors, and limits of the likelihood."""

import numpy as np
import pytest

from drcrm import (
    CIPS,
    POEM,
    BanditLog,
    ExponentialPolicy,
    Implicit,
    LogSmoothing,
    LogSumExp,
    Shrunk,
    Smoothed,
    WeightedLikelihood,
)
from drcrm.errors import InputError
from drcrm.optimization.behaviour_cloning import cloned_coefficients
from drcrm.policies.prepared_log import PreparedLog
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
