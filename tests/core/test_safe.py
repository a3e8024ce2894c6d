"""Candidates between a fit and π0, and the bound of the improvement that chooses among them."""

import numpy as np
import pytest

from drcrm import CostModel, ExponentialPolicy, off_policy_value
from drcrm.certificates import upper_bound
from drcrm.core.algorithms import Algorithm
from drcrm.core.design import judged
from drcrm.core.learning import RIDGES, STEPS, learn
from drcrm.core.scores import SCORES
from drcrm.core.support import SUPPORT, SupportedModel
from drcrm.errors import InputError

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
        design, log_prob, expected = judged(of, heldout, model.action_effects(heldout.X, heldout.actions))
        weight = np.exp(log_prob) / heldout.propensity
        return expected[heldout.context] + weight * (heldout.cost - design.modelled)

    choices = len(found.fits.grid) - 1
    for coef, scores in zip(found.fits.coef, found.fits.scores, strict=True):
        difference = z(ExponentialPolicy(coef)) - z(policy)
        expected = upper_bound(difference, 1 - 0.05 / choices, weights=heldout.count) if difference.any() else 0
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
