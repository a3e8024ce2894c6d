"""Candidates between a fit and π0, and the bound of the improvement that chooses among them."""

import numpy as np
import pytest

from drcrm import CostModel, ExponentialPolicy, off_policy_value
from drcrm.certificates import upper_bound
from drcrm.cost_models.support import SUPPORT, SupportedModel
from drcrm.errors import InputError
from drcrm.policies.linear_predictor import forward_policy
from drcrm.selection.algorithms import RIDGES, Algorithm
from drcrm.selection.grid_search import STEPS, learn
from drcrm.selection.heldout_scores import SCORES, HeldoutScores, select_improvement

IMPROVEMENT = list(SCORES).index("improvement_bound")
OPTIONS = {"estimate": "dr", "start": "model", "tilt": "auto"}


@pytest.fixture(scope="module")
def policy(random_policy):
    return random_policy(0, scale=0.25)  # that logs


@pytest.fixture(scope="module")
def learned(logged, parts, policy):
    train, heldout = parts(logged(0, n=200))
    algorithm = Algorithm("KLDRO", "radius", [0.01, 0.1], {**OPTIONS, "safe": True})
    return train, heldout, learn(train, algorithm, heldout, policy)


def test_the_candidates(learned, policy):
    train, heldout, found = learned
    fits = found.fits
    assert fits.step.tolist() == [1, 1, 1, 1, 1, *STEPS, *STEPS, 0]
    assert fits.ridge.tolist() == [0, 0, *RIDGES, 0, 0, 0, 0, 0]
    assert fits.grid[:-1].tolist() == [0.01, 0.1, *[0.01] * 5, *[0.1] * 2]
    plain = learn(train, Algorithm("KLDRO", "radius", [0.01, 0.1], OPTIONS), heldout, policy).fits
    assert np.array_equal(fits.coef[:2], plain.coef)
    for index, of in enumerate([0, 0, 1, 1]):
        step = STEPS[index % 2]
        between = policy.coef + step * (fits.coef[of] - policy.coef)
        assert fits.coef[5 + index] == pytest.approx(between, rel=1e-12)
    assert np.array_equal(fits.coef[-1], policy.coef)
    away = [abs(coef - policy.coef).max() for coef in fits.coef[2:5]]
    assert away == sorted(away, reverse=True)  # the larger the ridge, the nearer to π0


def test_a_ridge_is_in_units_of_the_costs(logged, policy):
    log = logged(0, n=200)
    algorithm = Algorithm("CIPS", options={**OPTIONS, "safe": True})
    coef = learn(log, algorithm, None, policy).fits.coef
    scaled = learn(log.with_cost(1000 * log.cost + 7), algorithm, None, policy).fits.coef
    assert scaled == pytest.approx(coef, rel=1e-3, abs=1e-3)


def test_the_bound_is_that_of_paired_differences(learned, policy):
    train, heldout, found = learned
    model = SupportedModel.of(found.cost_model.model, train, policy, SUPPORT)

    def z(of):
        design, log_prob, expected = forward_policy(of, heldout, model.action_effects(heldout.X, heldout.actions))
        weight = np.exp(log_prob) / heldout.propensity
        return expected[heldout.context] + weight * (heldout.cost - design.modelled_cost)

    for coef, scores in zip(found.fits.coef, found.fits.scores, strict=True):
        difference = z(ExponentialPolicy(coef)) - z(policy)
        expected = upper_bound(difference, 0.95, weights=heldout.count) if difference.any() else 0
        assert scores[IMPROVEMENT] == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert found.fits.scores[-1, IMPROVEMENT] == 0


def test_without_a_gain_the_policy_stays_as_it_was(logged, parts, policy):
    """Costs that have nothing to do with what was done."""
    log = logged(1, n=200)
    train, heldout = parts(log.with_cost(np.random.default_rng(0).normal(size=len(log.Y))))
    fits = learn(train, Algorithm("KLDRO", "radius", [0.001, 0.01], {**OPTIONS, "safe": True}), heldout, policy).fits
    chosen = fits.chosen[IMPROVEMENT]
    assert fits.step[chosen] == 0
    assert np.array_equal(fits.coef[chosen], policy.coef)


def test_a_gain_is_taken(learned):
    _, _, found = learned
    chosen = found.fits.chosen[IMPROVEMENT]
    assert found.fits.scores[chosen, IMPROVEMENT] < 0
    assert found.fits.step[chosen] > 0


def test_without_a_model_there_is_no_bound(logged, parts):
    train, heldout = parts(logged(0))
    fits = learn(train, Algorithm("CIPS"), heldout).fits
    assert np.isnan(fits.scores[0, IMPROVEMENT])
    with_model = learn(train, Algorithm("CIPS"), heldout, cost_model=CostModel(0.1).fit_log(train)).fits
    assert np.isfinite(with_model.scores[0, IMPROVEMENT])
    assert off_policy_value(ExponentialPolicy(fits.coef[0]), heldout) < 0


def test_safe_is_yes_or_no(logged):
    with pytest.raises(InputError, match="safe is 'yes', expected True or False"):
        learn(logged(), Algorithm("CIPS", options={"safe": "yes"}))


def test_a_ridge_towards_the_start_is_a_hyper_parameter(logged, parts, policy):
    """Of any algorithm: it stands in the fits, and the larger it is, the nearer they are to where they began."""
    train, heldout = parts(logged(0, n=200))
    own = {"smoothing": 0.1, "start": "logging"}
    fits = learn(train, Algorithm("LogSmoothing", "ridge", [1e-3, 1e-1, 1e3], own), heldout, policy).fits
    assert fits.ridge.tolist() == fits.grid.tolist() == [1e-3, 1e-1, 1e3]
    away = [abs(coef - policy.coef).max() for coef in fits.coef]
    assert away == sorted(away, reverse=True)
    assert away[-1] < 1e-3
    fixed = learn(train, Algorithm("LogSmoothing", options={**own, "ridge": 1e-1}), heldout, policy).fits
    assert np.array_equal(fixed.coef[0], fits.coef[1])
    with pytest.raises(InputError, match="is ridge and 1 values, expected smoothing and at least one value"):
        learn(train, Algorithm("LogSmoothing", "ridge", [1.0], {"start": "logging"}), heldout, policy)
    with pytest.raises(InputError, match="ridge is -1, expected"):
        learn(train, Algorithm("CIPS", options={"ridge": -1}), heldout, policy)


def test_context_effects_are_yes_no_or_auto(logged, policy):
    """By default label vectors have them, under estimates with a model."""
    log, options = logged(0, n=200), {"estimate": "dr"}
    auto, on, off = (
        learn(log, Algorithm("CIPS", options=options | given), None, policy).fits.coef
        for given in ({}, {"context_effects": True}, {"context_effects": False})
    )
    assert np.array_equal(auto, on)
    assert not np.allclose(auto, off)
    with pytest.raises(InputError, match="context_effects is 'yes', expected True, False or 'auto'"):
        learn(log, Algorithm("CIPS", options={"context_effects": "yes"}), None, policy)


def test_tests_in_a_fixed_sequence():
    """From the least noise on until the first that is not shown; of those before, the least."""
    bounds = np.array([-3.0, -1.0, -2.0, 0.5, -9.0])
    assert select_improvement(bounds, [3, 1, 2, 4, 5]) == 0
    assert select_improvement(bounds, [5, 1, 2, 3, 4]) == 2
    assert select_improvement(bounds, [2, 3, 4, 1, 5]) is None
    assert select_improvement([-1.0, np.nan, -2.0], [1, 2, 3]) == 0
    assert select_improvement([0.0], [1]) is None


def test_what_is_shown_in_sequence_is_wrong_no_more_often_than_one_test():
    """Twenty candidates that hang together, none better than π0; to test them all at that level is wrong more often."""
    rng, repetitions = np.random.default_rng(0), 4000
    shared, own = rng.normal(size=(repetitions, 1)), rng.normal(size=(repetitions, 20))
    bounds = (shared + own) / np.sqrt(2) + 1.6449
    wrong = np.mean([select_improvement(each, np.arange(20)) is not None for each in bounds])
    assert wrong <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / repetitions)
    assert np.mean((bounds < 0).any(axis=1)) > 0.2


def test_the_order_is_that_of_the_noise_on_the_rows_trained_on(learned, policy):
    train, _, found = learned
    model = SupportedModel.of(found.cost_model.model, train, policy, SUPPORT)
    scorer = HeldoutScores(train, found.clip, model.action_effects(train.X, train.actions), False, policy)

    def z(of):
        design, log_prob, expected = forward_policy(of, train, model.action_effects(train.X, train.actions))
        return expected[train.context] + np.exp(log_prob) / train.propensity * (train.cost - design.modelled_cost)

    noise = []
    for coef in found.fits.coef:
        difference = z(ExponentialPolicy(coef)) - z(policy)
        noise.append(np.sqrt(np.cov(difference, fweights=train.count)))
        assert scorer.noise(coef) == pytest.approx(noise[-1], rel=1e-9, abs=1e-12)
    chosen = select_improvement(found.fits.scores[:-1, IMPROVEMENT], noise[:-1])
    assert found.fits.chosen[IMPROVEMENT] == (len(noise) - 1 if chosen is None else chosen)
