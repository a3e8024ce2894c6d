"""Sensitivity bounds against brute force, a linear program, simpler estimates, and an independent interval."""

import numpy as np
import pytest
from fixtures.click_logs import draw_actions
from scipy.optimize import linprog
from scipy.special import softmax
from scipy.stats import t as student

from drcrm import BanditLog, CostModel, off_policy_value
from drcrm.certificates import sensitivity
from drcrm.errors import InputError
from drcrm.evaluation.results import worst_weights


def draw_log(n: int = 60, seed: int = 0, gain: float = 1.0) -> tuple[BanditLog, np.ndarray]:
    """Return a log of three actions, and the probabilities of a policy that prefers the best action."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    probability = softmax(X @ rng.normal(size=(2, 3)), axis=1)
    action = draw_actions(probability, rng)
    cost = rng.normal(size=n) - gain * (action == 1)
    policy = np.full((n, 3), 0.1)
    policy[:, 1] = 0.8
    return BanditLog(X, action, probability[np.arange(n), action], cost, n_actions=3), policy


def weight_ranges(log: BanditLog, policy: np.ndarray, gamma: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the formula of the model: π (1 + (1/p − 1)/Γ) and π (1 + Γ (1/p − 1))."""
    prob, odds = policy[np.arange(len(log.Y)), log.Y], 1 / log.propensity - 1
    return prob * (1 + odds / gamma), prob * (1 + gamma * odds)


@pytest.mark.parametrize("gamma", [1.0, 1.3, 4.0])
def test_the_worst_case_equals_brute_force_and_a_linear_program(gamma):
    log, policy = draw_log(25)
    low, high = weight_ranges(log, policy, gamma)
    thresholds = [np.where(log.cost >= at, high, low) for at in (*log.cost, np.inf)]
    brute = max(w @ log.cost / w.sum() for w in thresholds)
    # max Σ w c with Σ w = 1 and t low ≤ w ≤ t high, for w and t ≥ 0 (Charnes & Cooper 1962)
    n = len(low)
    upper = np.block([[np.eye(n), -high[:, None]], [-np.eye(n), low[:, None]]])
    program = linprog(np.r_[-log.cost, 0], upper, np.zeros(2 * n), np.r_[np.ones(n), 0][None], [1.0])
    result = sensitivity(policy, log, gamma, "snips")
    assert result.worst == pytest.approx(brute, abs=1e-12)
    assert result.worst == pytest.approx(-program.fun, abs=1e-9)


@pytest.mark.parametrize(("estimate", "reference"), [("snips", "snips"), ("dr", "sndr")])
def test_exact_propensities_give_the_estimate_and_its_paired_interval(estimate, reference):
    log, policy = draw_log(200, gain=2.0)
    model = CostModel().fit(log)
    result = sensitivity(policy, log, 1.0, estimate, cost_model=None if estimate == "snips" else model)
    value = off_policy_value(policy, log, reference, cost_model=model, confidence=0.9, baseline="logging")
    assert result.bound == pytest.approx(value.high, abs=1e-12)
    assert result.worst == pytest.approx(float(value) + log.cost.mean(), abs=1e-12)


def test_counts_are_repetitions_and_groups_widen_the_bound():
    log, policy = draw_log(80)
    count = np.random.default_rng(1).integers(0, 3, 80)
    rows = np.repeat(np.arange(80), count)
    repeated = BanditLog(log.X[rows], log.Y[rows], log.propensity[rows], log.cost[rows], n_actions=3)
    counted = BanditLog(log.X, log.Y, log.propensity, log.cost, n_actions=3, count=count)
    one, other = (sensitivity(p, x, 1.5, "snips") for p, x in ((policy, counted), (policy[rows], repeated)))
    assert one.worst == pytest.approx(other.worst, abs=1e-12)
    columns = [np.repeat(values, 4, 0) for values in (log.X, log.Y, log.propensity, log.cost)]
    pairs = BanditLog(*columns, n_actions=3)
    copies = sensitivity(np.repeat(policy, 4, 0), pairs, 1.5, "snips", groups=np.repeat(np.arange(80), 4))
    once = sensitivity(policy, log, 1.5, "snips")
    assert copies.worst == pytest.approx(once.worst, abs=1e-12)
    assert copies.bound - copies.worst == pytest.approx(once.bound - once.worst, abs=1e-12)


def test_the_breakeven_is_where_the_bound_crosses_zero():
    log, policy = draw_log(2000, gain=1.0)
    for estimate in ("snips", "dr"):
        result = sensitivity(policy, log, 1.2, estimate)
        assert 1 < result.breakeven < 10
        at_breakeven = sensitivity(policy, log, result.breakeven, estimate)
        assert at_breakeven.bound == pytest.approx(0, abs=1e-8)
        assert sensitivity(policy, log, 0.99 * result.breakeven, estimate).bound < 0
        gammas, worst, bound = result.curve.T
        assert (np.diff(worst) > 0).all()
        assert (np.diff(bound) > 0).all()
        assert gammas[0] == 1
        assert gammas[-1] > max(result.breakeven, 1.2)


def test_a_policy_that_is_not_better_has_no_breakeven_and_certain_rows_no_uncertainty():
    log, policy = draw_log(200, gain=-3.0)
    assert np.isnan(sensitivity(policy, log, estimate="snips").breakeven)
    certain = BanditLog(log.X, log.Y, np.ones(200), log.cost, n_actions=3)
    result = sensitivity(policy, certain, 5.0, "snips")
    assert result.certain_share == 1
    assert result.worst == pytest.approx(off_policy_value(policy, certain, "snips"), abs=1e-12)


def test_the_interval_of_the_worst_case_is_that_of_its_influence_values():
    log, policy = draw_log(300)
    low, high = weight_ranges(log, policy, 2.0)
    weight = worst_weights(log.cost, np.full(300, 1 / 300), low, high)
    ratio = weight @ log.cost / weight.sum()
    influence = weight * (log.cost - ratio) / weight.mean() - (log.cost - log.cost.mean())
    error = influence.std(ddof=1) / np.sqrt(300)
    bound = ratio - log.cost.mean() + student.ppf(0.95, 299) * error
    assert sensitivity(policy, log, 2.0, "snips").bound == pytest.approx(bound, abs=1e-12)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"gamma": 0.9}, "gamma is 0.9, expected a finite number of at least 1"),
        ({"gamma": np.inf}, "gamma is inf, expected a finite number"),
        ({"gamma": "two"}, "gamma is 'two'"),
        ({"estimate": "ips"}, "estimate is 'ips', expected"),
        ({"confidence": 0.4}, "confidence is 0.4"),
    ],
)
def test_invalid_settings_are_refused(settings, reason):
    log, policy = draw_log()
    with pytest.raises(InputError, match=reason):
        sensitivity(policy, log, **settings)


def test_a_policy_without_weight_on_the_log_is_refused():
    log, policy = draw_log()
    policy = np.zeros((60, 3))
    policy[np.arange(60), (log.Y + 1) % 3] = 1
    with pytest.raises(InputError, match="every row of the log has weight 0"):
        sensitivity(policy, log, estimate="snips")
