"""The curve of worst cases around the environment, and the radius up to which a policy is better."""

from dataclasses import replace

import numpy as np
import pytest
from drawn_actions import draw_actions
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp, softmax

from drcrm import BanditLog, CostModel, off_policy_value
from drcrm.diagnostics.comparison.policy_comparison import ComparisonSettings, compare_with_logging
from drcrm.diagnostics.comparison.shift_curve import shift_curve

pytestmark = pytest.mark.usefixtures("shipped_sizes")
SNIPS = ComparisonSettings("snips")


def draw(kind: str, seed: int = 0, n: int = 3000) -> tuple[BanditLog, np.ndarray]:
    """Return a log of 3 actions and a policy that is better in the mean.

    Costs are clicks, or normal. Of "risky" costs, the policy's action varies more, so that its worst cases are worse.
    """
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=(n, 2)), np.ones(n)])
    logging = softmax(X @ np.random.default_rng(7).normal(size=(3, 3)) / 2, axis=1)
    action = draw_actions(logging, rng)
    best = (X[:, 0] > 0).astype(int)
    mean = np.where(action == best, 0.4, 0.15)
    scale = np.where(action == best, 1.5, 0.1) if kind == "risky" else 0.3
    cost = -(rng.random(n) < mean).astype(float) if kind == "clicks" else scale * rng.normal(size=n) - mean
    policy = np.where(np.arange(3) == best[:, None], 0.9, 0.05)
    return BanditLog(X, action, logging[np.arange(n), action], cost, n_actions=3), policy


def worst_mean(cost: np.ndarray, weight: np.ndarray, radius: float) -> float:
    """Return R_κ by its dual, min over γ of γ κ + γ log E e^{c/γ}."""

    def dual(log_gamma: float) -> float:
        gamma = np.exp(log_gamma)
        return float(gamma * (radius + logsumexp(cost / gamma, b=weight / weight.sum())))

    return minimize_scalar(dual, bounds=(-16, 12), method="bounded", options={"xatol": 1e-10}).fun


@pytest.mark.parametrize("kind", ["clicks", "normal", "risky"])
def test_both_curves_are_the_duals_and_increase(kind):
    log, policy = draw(kind)
    curve = shift_curve(policy, log, SNIPS).curve
    weight = policy[np.arange(len(log.cost)), log.Y] / log.propensity
    for radius, of_policy, of_logging, _ in curve[1:]:
        assert of_policy == pytest.approx(worst_mean(log.cost, weight, radius), abs=1e-6)
        assert of_logging == pytest.approx(worst_mean(log.cost, np.ones_like(weight), radius), abs=1e-6)
    assert curve.shape == (12, 4)
    assert (np.diff(curve[:, :3], axis=0) >= -1e-12).all()


@pytest.mark.parametrize(("estimate", "usual"), [("snips", "snips"), ("dr", "sndr")])
def test_without_a_shift_the_values_are_the_usual_ones(estimate, usual):
    """Doubly robust worst cases tend to the self-normalised estimate, as the mean of the residuals cancels."""
    log, policy = draw("normal")
    model = CostModel().fit_log(draw("normal", 1)[0])
    curve = shift_curve(policy, log, ComparisonSettings(estimate), cost_model=model).curve
    assert curve[0, 0] == 1e-8
    expected = off_policy_value(policy, log, usual, cost_model=model if estimate == "dr" else None)
    deviation = log.cost.std()
    assert curve[0, 1] == pytest.approx(expected, abs=2e-3 * deviation)
    assert curve[0, 2] == pytest.approx(log.cost.mean(), abs=2e-4 * deviation)
    difference = compare_with_logging(policy, log, ComparisonSettings(estimate), cost_model=model).certificate
    assert curve[0, 3] == pytest.approx(difference.bound, abs=0.005)
    assert (np.diff(curve[:, :3], axis=0) > 0).all()


def test_bounds_are_the_certificates_at_each_radius():
    log, policy = draw("normal", n=1000)
    groups = np.arange(1000) // 2
    settings = ComparisonSettings("snips", confidence=0.9, choices=5, effective_choices=3)
    result = shift_curve(policy, log, settings, groups=groups)
    for radius, value, reference, bound in result.curve[[2, 5]]:
        comparison = compare_with_logging(policy, log, replace(settings, shift=radius), groups=groups)
        assert bound == comparison.certificate.bound
        assert value - reference == pytest.approx(comparison.difference, abs=1e-12)
    assert result.curve[-1, 0] == pytest.approx(1.5 * result.breakeven)


def test_the_bound_crosses_0_just_beyond_the_breakeven():
    log, policy = draw("risky")
    result = shift_curve(policy, log, SNIPS)
    assert (0 < result.breakeven < 1, result.refusal) == (True, "")

    def bound(radius: float) -> float:
        return compare_with_logging(policy, log, replace(SNIPS, shift=radius)).certificate.bound

    assert bound(result.breakeven) < 0 <= bound(result.breakeven * (1 + 1 / 32))
    at_larger = shift_curve(policy, log, replace(SNIPS, shift=1.0)).curve
    assert at_larger[0, 1] < at_larger[0, 2]
    assert at_larger[-1, 1] > at_larger[-1, 2], "the worst case of the risky policy is worse"


def test_the_curve_saturates_at_the_largest_cost():
    """Of clicks, the worst case is 0 clicks from the radius −log P(no click) on."""
    log, policy = draw("clicks")
    result = shift_curve(policy, log, SNIPS)
    limit = -np.log(np.mean(log.cost == 0))
    assert limit / (1 + 1 / 32) <= result.breakeven < limit
    assert "from there on R_κ is the largest cost" in result.refusal
    beyond = result.curve[result.curve[:, 0] > limit]
    assert len(beyond) > 1
    assert beyond[:, 2] == pytest.approx(0, abs=1e-12)
    assert np.isnan(beyond[:, 3]).all()


def test_a_baseline_replaces_the_logging_policy():
    log, policy = draw("normal")
    uniform = np.full_like(policy, 1 / 3)
    result = shift_curve(policy, log, SNIPS, baseline=uniform)
    radius, value, reference, bound = result.curve[4]
    assert reference == off_policy_value(uniform, log, "snips", shift=radius)
    assert value - reference < bound < 0


def test_there_is_no_curve_without_a_radius_of_interest(monkeypatch):
    log, policy = draw("normal")
    worse = np.roll(policy, 1, axis=1)
    assert shift_curve(worse, log, SNIPS) is None
    result = shift_curve(worse, log, replace(SNIPS, shift=0.2))
    assert (np.isnan(result.breakeven), result.curve[-1, 0]) == (True, pytest.approx(0.3))
    assert shift_curve(policy, log, ComparisonSettings("ips")) is None
    assert shift_curve(np.zeros(len(log.cost)), log, replace(SNIPS, shift=0.2)) is None
