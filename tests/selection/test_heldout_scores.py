"""The held-out scores, choosing by them, and the fit along a grid."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import brentq, minimize_scalar
from scipy.stats import norm

from drcrm import BanditLog, CostModel, ExponentialPolicy
from drcrm.cost_models.ridge_model import action_effects
from drcrm.data.bandit_log import clipping_constant
from drcrm.optimization import lbfgs as optimiser
from drcrm.selection.algorithms import Algorithm
from drcrm.selection.grid_search import learn
from drcrm.selection.heldout_scores import HeldoutScores, choose, off_policy_scores
from drcrm.selection.score_names import SCORES, UNMODELLED

MODELLED = {"dr", "dr_bound", "improvement_bound"}  # which there are with a cost model alone
SELF_NORMALISED = {"snips", "clipped_snips"}  # of the others a translation of the costs changes what they compare
every_unmodelled_score = pytest.mark.parametrize("score", UNMODELLED)


def test_scores_of_four_rows():
    """r = [1, 0, 1, 1], w = [1, 1.6, 7, 1.25], M = 2."""
    expected = {
        "ips": 2.3125,
        "clipped_ips": 1.0625,
        "snips": 9.25 / 10.85,
        "clipped_snips": (1 + 2 + 1.25) / (1 + 1.6 + 2 + 1.25),
    }
    scores = off_policy_scores([1, 1.6, 7, 1.25], [1, 0, 1, 1], clip=2)
    assert scores == pytest.approx(expected)
    assert list(scores) == list(UNMODELLED)
    assert tuple(SCORES) == (*UNMODELLED, "dr", "dr_bound", "snips_bound", "ls_bound", "improvement_bound")


@every_unmodelled_score
def test_counts_are_repetitions(score):
    rng = np.random.default_rng(3)
    rows, count = (rng.exponential(1, 30), rng.normal(size=30)), rng.integers(0, 4, 30)
    repeated = off_policy_scores(*(np.repeat(row, count) for row in rows), 1.5)
    assert off_policy_scores(*rows, 1.5, count)[score] == pytest.approx(repeated[score])


@every_unmodelled_score
def test_the_logging_policy_scores_what_it_lost(score):
    cost = np.random.default_rng(4).normal(size=30)
    assert off_policy_scores(np.ones(30), cost, 2.0)[score] == pytest.approx(cost.mean())


@every_unmodelled_score
def test_only_the_self_normalised_ignore_a_translation(score):
    rng = np.random.default_rng(0)
    weight, cost = rng.exponential(1, 30), rng.normal(size=30)
    here, there = (off_policy_scores(weight, each, 2.0)[score] for each in (cost, cost - 5))
    assert (abs(there - here + 5) < 1e-9) == (score in SELF_NORMALISED)


def test_ips_is_unbiased_and_clipped_is_not(labelled, logged, random_policy):
    log, policy = logged(1, n=30, passes=4000, scale=1), random_policy(2)
    X, labels = labelled(1, n=30)
    scores = off_policy_scores(np.exp(policy.log_prob(log.X, log.Y, log.context)) / log.propensity, log.cost, 1.5)
    truth = np.abs(labels - policy.marginals(X)).sum(axis=1).mean() - 2
    assert scores["ips"] == pytest.approx(truth, abs=0.02)
    assert scores["snips"] == pytest.approx(truth, abs=0.02)
    assert scores["clipped_ips"] > truth + 0.05


@every_unmodelled_score
def test_no_weight_at_all_is_no_score(score):
    of_nothing = off_policy_scores([0.0, 0.0], [-1.0, -2.0], 2.0)[score]
    assert np.isnan(of_nothing) if score in SELF_NORMALISED else of_nothing == 0
    assert np.isnan(off_policy_scores([1.0], [-1.0], 2.0, count=[0])[score])


@every_unmodelled_score
@pytest.mark.parametrize("cost", [[-1.0, 0.0], [0.0, -1.0]])
def test_a_score_beyond_the_range_of_numbers_is_none(score, cost):
    """It is never chosen: −∞ would be."""
    with np.errstate(invalid="ignore"):
        found = off_policy_scores([np.inf, 1.0], cost, 2.0)[score]
    assert np.isnan(found) if score in ("ips", "snips") else found in (-1, -0.5, -2 / 3, -1 / 3)


def test_a_tiny_propensity_held_out_leaves_the_clipped_scores(logged):
    log = logged()
    propensity = np.where(np.arange(len(log.Y)) == 0, 5e-324, log.propensity)
    tiny = BanditLog(log.X, log.Y, propensity, log.cost, log.context)
    fits = learn(log, Algorithm("CIPS"), tiny).fits
    assert np.isnan(fits.scores[0, :3]).tolist() == [True, False, True]
    assert np.isfinite(fits.scores[0, 3])
    assert fits.chosen[:4].tolist() == [-1, 0, -1, 0]


@pytest.mark.parametrize(
    ("scores", "robust_end", "expected"),
    [
        ([3, 1, 2], "high", 1),
        ([1, 1, 2], "high", 1),
        ([1, 1, 2], "low", 0),
        ([np.nan, 2, 2], "high", 2),
        ([np.nan, -1, np.nan], "low", 1),
        ([np.nan, np.nan, np.nan], "high", None),
    ],
)
def test_choosing(scores, robust_end, expected):
    assert choose(scores, [0.1, 1.0, 10.0], robust_end) == expected


def test_grid_is_scored_on_the_heldout_part_with_the_training_parts_clip(logged, parts):
    train, heldout = parts(logged(2))
    fits = learn(train, Algorithm("KLCRM", "temperature", [0.1, 1.0, 10.0]), heldout).fits
    for coef, row in zip(fits.coef, fits.scores, strict=True):
        weight = np.exp(ExponentialPolicy(coef).log_prob(heldout.X[heldout.context], heldout.Y)) / heldout.propensity
        expected = off_policy_scores(weight, heldout.cost, clipping_constant(train))
        assert row[: len(UNMODELLED)] == pytest.approx(list(expected.values()), rel=1e-10)
    assert fits.scores.shape == (3, len(SCORES))
    for score, index, column in zip(SCORES, fits.chosen, fits.scores.T, strict=True):
        assert index == -1 if score in MODELLED else column[index] == column.min()


def test_a_single_fit_has_a_grid_of_one_nameless_value(logged):
    fits = learn(logged(), Algorithm("CIPS"), logged()).fits
    assert np.isnan(fits.grid).tolist() == [True]
    assert fits.chosen.tolist() == [-1 if score in MODELLED else 0 for score in SCORES]
    assert np.isnan(fits.tilt).tolist() == [True]


def additive_model(seed: int = 7, features: int = 4, labels: int = 2) -> CostModel:
    model = CostModel()
    model.coef_ = np.random.default_rng(seed).normal(size=(features, labels + 1))
    return model


def score_all(log: BanditLog, coef: np.ndarray, clip: float, model: CostModel | None = None) -> dict[str, float]:
    """All held-out scores of Θ by name; with a model, the uniform policy is the one to improve on."""
    effects = None if model is None else action_effects(model, log.X, log.actions)
    uniform = None if model is None else ExponentialPolicy(np.zeros_like(coef))
    return HeldoutScores(log, clip, effects, logging_policy=uniform)(coef)


def counted(log: BanditLog, seed: int = 8) -> BanditLog:
    """The log with counts, some of them 0."""
    count = np.random.default_rng(seed).integers(0, 4, len(log.Y))
    return BanditLog(log.X, log.Y, log.propensity, log.cost, log.context, count)


def kl_worst(z: np.ndarray, count: np.ndarray, radius: float) -> float:
    """The largest mean of z over the KL ball about the counts' shares, by its dual in one variable."""
    share, top = count / count.sum(), z[count > 0].max()
    shifted = np.where(count > 0, z - top, 0)
    found = minimize_scalar(
        lambda log_gamma: np.exp(log_gamma) * (radius + np.log(share @ np.exp(shifted / np.exp(log_gamma)))),
        bounds=(-12, 12),
        method="bounded",
        options={"xatol": 1e-10},
    )
    return top + found.fun


@pytest.mark.parametrize("seed", range(4))
def test_modelled_scores_and_bounds_are_their_formulas(seed, logged):
    """The worst case at radius z²/(2n), n rows; of the ratio, the root of the worst case of w (c − v)."""
    log, model, clip = counted(logged(seed)), additive_model(), 1.7
    coef = 2 * np.random.default_rng(seed).normal(size=(4, 2))
    policy, n = ExponentialPolicy(coef), log.count.sum()
    pi = np.exp(policy.log_prob(log.X[log.context], log.Y))
    weight = np.minimum(pi / log.propensity, clip)
    predicted = np.einsum("nl,nl->n", log.X[log.context] @ model.coef_, np.column_stack([log.Y, np.ones(len(log.Y))]))
    marginals = 1 / (1 + np.exp(-log.X @ coef))
    expected = np.einsum("ml,ml->m", log.X @ model.coef_, np.column_stack([marginals, np.ones(len(log.X))]))
    z, radius = expected[log.context] + weight * (log.cost - predicted), norm.ppf(0.95) ** 2 / (2 * n)
    scores = score_all(log, coef, clip, model)
    assert scores["dr"] == pytest.approx(log.count @ z / n, rel=1e-12)
    assert scores["dr_bound"] == pytest.approx(kl_worst(z, log.count, radius), rel=1e-8)
    root = brentq(lambda v: kl_worst(weight * (log.cost - v), log.count, radius), -50, 50, xtol=1e-11)
    assert scores["snips_bound"] == pytest.approx(root, rel=1e-7)
    smoothed = -np.sum(log.count * np.log(1 - pi / log.propensity * log.cost / np.sqrt(n))) / np.sqrt(n)
    exponent = (smoothed + np.log(20) / np.sqrt(n)) / np.sqrt(n)
    assert scores["ls_bound"] == pytest.approx((1 - np.exp(-exponent)) * np.sqrt(n), rel=1e-10)
    plain = off_policy_scores(pi / log.propensity, log.cost, clip, log.count)
    assert {name: scores[name] for name in UNMODELLED} == pytest.approx(plain, rel=1e-10)


@pytest.mark.parametrize("scale", [0.0, 1.0, 30.0])
def test_bounds_are_never_below_what_they_bound(logged, scale):
    """They approach it as rows are repeated, by one over the root of how often."""
    for seed in range(10):
        log, coef = logged(seed), scale * np.random.default_rng(seed).normal(size=(4, 2))
        many = BanditLog(log.X, log.Y, log.propensity, log.cost, log.context, 10_000 * log.count)
        few, lots = (score_all(each, coef, 2.0, additive_model()) for each in (log, many))
        for bound, plain in {"dr_bound": "dr", "snips_bound": "clipped_snips", "ls_bound": "ips"}.items():
            assert lots[plain] == pytest.approx(few[plain], rel=1e-10)
            assert few[bound] >= lots[bound] >= lots[plain] - 1e-12
            assert lots[bound] - lots[plain] <= 0.05 * (few[bound] - few[plain]) + 1e-9


def test_modelled_scores_and_bounds_count_repetitions(logged):
    log, coef = counted(logged(3)), np.random.default_rng(9).normal(size=(4, 2))
    rows = np.repeat(np.arange(len(log.Y)), log.count)
    long = BanditLog(log.X, log.Y[rows], log.propensity[rows], log.cost[rows], log.context[rows])
    short, repeated = (score_all(each, coef, 2.0, additive_model()) for each in (log, long))
    assert short == pytest.approx(repeated, rel=1e-10)


def test_without_a_cost_model_its_scores_are_not_there(logged):
    scores = score_all(logged(), np.zeros((4, 2)), 2.0)
    assert {name for name, value in scores.items() if np.isnan(value)} == MODELLED


def test_logarithmic_smoothing_is_not_there_for_costs_above_0_or_beyond_the_range(logged):
    log = logged()
    for cost in (log.cost + 5, np.full(len(log.cost), -1e308)):
        with np.errstate(over="ignore"):
            scores = score_all(log.with_cost(cost), np.full((4, 2), 3.0), 2.0)
        assert np.isnan(scores["ls_bound"])


def test_without_any_weight_the_ratios_bound_is_not_there_and_never_chosen(logged, parts):
    """One of three policies never does what was logged: it is not chosen by a ratio, whatever the others score."""
    _, heldout = parts(logged(4))
    flat = np.ones((heldout.X.shape[0], 1))
    everything = BanditLog(flat, np.ones_like(heldout.Y), heldout.propensity, heldout.cost, heldout.context)
    away = score_all(everything, np.full((1, 2), -1e4), 2.0, additive_model(features=1))
    assert {name for name, value in away.items() if np.isnan(value)} == {"snips", "clipped_snips", "snips_bound"}
    assert away["ips"] == 0
    here = [score_all(everything, np.full((1, 2), u), 2.0, additive_model(features=1)) for u in (0.0, 1.0)]
    for name in ("snips", "clipped_snips", "snips_bound"):
        assert choose([away[name], *(each[name] for each in here)], [1.0, 2.0, 3.0]) in (1, 2)
        assert choose([away[name]] * 3, [1.0, 2.0, 3.0]) is None


def test_a_fit_along_a_grid_has_the_modelled_scores_of_the_training_parts_model(logged, parts):
    train, heldout = parts(logged(6))
    model, uniform = CostModel().fit_log(train), ExponentialPolicy(np.zeros((4, 2)))
    algorithm = Algorithm("KLCRM", "temperature", [0.5])
    fits = learn(train, algorithm, heldout, uniform, cost_model=model).fits
    for coef, row in zip(fits.coef, fits.scores, strict=True):
        found = score_all(heldout, coef, clipping_constant(train), model)
        assert row == pytest.approx(list(found.values()), rel=1e-12)
    assert np.isfinite(fits.scores).all()
    assert fits.chosen.tolist() == fits.scores.argmin(axis=0).tolist()


def test_fits_that_promise_little_are_given_up_and_the_choice_stays(monkeypatch, logged, parts):
    """Much penalised fits promise little: they stop where patience ends, all others are what they were."""
    grid = [1e-3, 0.1, 10.0, 100.0, 1000.0]
    log = logged(5, n=200, features=11, labels=5, scale=0.1)
    train, heldout = parts(log)
    arguments = train, Algorithm("POEM", "variance_penalty", grid), heldout
    full = learn(*arguments).fits
    monkeypatch.setattr(optimiser, "MIN_ITERATIONS", 10)
    given_up = learn(*arguments).fits
    early = given_up.iterations != full.iterations
    assert early.any()
    assert (given_up.iterations[early] == 10).all()
    assert not given_up.converged[early].any()
    assert given_up.chosen.tolist() == full.chosen.tolist()
    assert np.array_equal(given_up.coef[~early], full.coef[~early])
    logged = heldout.cost.mean()
    four = slice(len(UNMODELLED))
    best = full.scores[:, four].min(axis=0)
    assert (given_up.scores[early, four] > (best + 3 * logged) / 4).all()
