"""Self-normalised estimate: its root, logs with few or extreme weights, and worst cases around the environment."""

import json
from pathlib import Path

import numpy as np
import pytest
from fixtures.action_logs import make_coef, make_log, make_objective, numeric_gradient
from fixtures.reference_formulas import FORMULAS, SMOOTH
from scipy.optimize import brentq

from drcrm import ExponentialPolicy, SoftmaxPolicy, off_policy_value
from drcrm.data.bandit_log import BanditLog
from drcrm.errors import InputError
from drcrm.estimates import SelfNormalised
from drcrm.optimization.objective import Objective
from drcrm.policies.prepared_log import PreparedLog
from drcrm.risks import (
    BoltzmannRisk,
    Chi2Ball,
    EnvironmentBall,
    KLBall,
    MeanRisk,
    PhiBall,
    VariancePenalizedRisk,
    check_risk,
)
from drcrm.weights import Clipped, Shrunk

MONOTONE = [MeanRisk(), KLBall(0.05), KLBall(0.6), Chi2Ball(0.2), Chi2Ball(2.0)]
REFERENCE = json.loads((Path(__file__).parent / "data/shift_values.json").read_text())
OUTSIDE = Path(__file__).parents[2] / "shared/reference/shift_values.json"
RADIUS = {"CVaR": None}


@pytest.mark.parametrize("risk", [*MONOTONE], ids=repr)
@pytest.mark.parametrize("weight", [Clipped(2.0), Clipped(None), Shrunk(4.0)], ids=repr)
def test_value_is_the_root_wherever_the_search_starts(risk, weight):
    log, guess = make_log(5), None
    objective = make_objective(log, risk, weight, "snips")
    for seed in range(20):
        coef = make_coef(seed, 2)
        log_prob = ExponentialPolicy(coef).log_prob(log.X, log.Y, log.context)
        w, _ = weight(log_prob, log.log_propensity)
        root = brentq(lambda v, w=w: risk(w * (log.cost - v), log.count)[0], log.cost.min() - 1, 1, xtol=1e-13)
        cold, gradient, _ = objective.evaluate(coef)
        warm, warm_gradient, guess = objective.evaluate(coef, guess)
        assert [cold, warm] == pytest.approx([root, root], rel=1e-9)
        assert warm_gradient == pytest.approx(gradient, rel=1e-7, abs=1e-9)


@pytest.mark.parametrize("risk", [*MONOTONE, VariancePenalizedRisk(0.8), BoltzmannRisk(3.0)], ids=repr)
def test_value_moves_with_the_costs(risk):
    log, coef = make_log(11), make_coef(12)
    value, gradient = make_objective(log, risk, Clipped(2.0), "snips")(coef)
    moved_value, moved_gradient = make_objective(log.with_cost(log.cost - 7), risk, Clipped(2.0), "snips")(coef)
    assert moved_value == pytest.approx(value - 7, rel=1e-9)
    assert moved_gradient == pytest.approx(gradient, rel=1e-6, abs=1e-8)


@pytest.mark.filterwarnings("ignore:the mean weight is")
def test_value_without_weights_is_undefined():
    log, policy = BanditLog([[1.0]], [[1]], [0.5], [-1.0]), ExponentialPolicy([[-1000.0]])
    assert np.isnan(off_policy_value(policy, log, "snips"))


def test_value_with_an_infinite_weight_is_undefined():
    estimate = SelfNormalised(np.array([-1.0, 0.0, -0.5]), np.ones(3))
    value, gradient, _, _ = estimate.evaluate(KLBall(0.1), np.array([np.inf, 1.0, 1.0]), np.ones(3), None, None)
    assert np.isnan(value)
    assert not gradient.any()


@pytest.mark.parametrize("ball", [KLBall(50.0), Chi2Ball(50.0), KLBall(2.0)], ids=repr)
def test_worst_rows_without_weight_do_not_count(ball):
    """The value is at most the largest cost of a row with a weight."""
    log = BanditLog(np.ones((3, 1)), [[1], [1], [0]], np.full(3, 0.5), [-3.0, -1.0, 5.0], count=[2, 1, 4])
    value, gradient = make_objective(log, ball, Clipped(None), "snips")(np.array([[1000.0]]))
    assert -3 <= value <= -1
    assert np.isfinite(gradient).all()


def objective_of(entry: dict, radius: float, divergence: object = "kl") -> Objective:
    rows = (entry[name] for name in ("X", "action", "propensity", "cost", "context", "count"))
    log = BanditLog(*rows, n_actions=entry["n_actions"])
    ball = EnvironmentBall(radius, divergence)
    return Objective(PreparedLog(log.without_empty_rows()), ball, Clipped(None), "snips")


def assert_agrees_with_50_digits(entry: dict) -> None:
    coef = np.array(entry["coef"])
    for case in entry["shift"]:
        objective = objective_of(entry, case["kappa"], "kl")
        value, gradient = objective(coef)
        assert value == pytest.approx(case["value"], rel=1e-9, abs=1e-9)
        expected = np.zeros(coef.size) if case["gradient"] is None else np.ravel(case["gradient"])
        assert gradient == pytest.approx(expected, rel=1e-9, abs=1e-9)
        log = objective.prepared.log
        assert off_policy_value(SoftmaxPolicy(coef), log, "snips", objective.risk) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize("entry", REFERENCE)
def test_values_and_gradients_agree_with_50_digits(entry):
    assert_agrees_with_50_digits(entry)


@pytest.mark.skipif(not OUTSIDE.exists(), reason="needs the reference numbers next to the project")
def test_all_reference_numbers_agree():
    for entry in json.loads(OUTSIDE.read_text()):
        assert_agrees_with_50_digits(entry)


@pytest.mark.parametrize("name", FORMULAS)
def test_equal_weights_give_the_sampling_ball(name):
    divergence, radius = FORMULAS[name][0], RADIUS.get(name, 0.2)
    rng = np.random.default_rng(3)
    cost, count = rng.exponential(2, 40), rng.integers(1, 4, 40).astype(float)
    estimate, ones = SelfNormalised(cost, count), np.full(40, 0.7)
    value, *_ = estimate.evaluate(EnvironmentBall(radius, divergence), ones, ones, None, None)
    assert value == pytest.approx(PhiBall(divergence, radius)(cost, count)[0], rel=1e-12)


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("weight", [Clipped(None), Shrunk(4.0)], ids=repr)
def test_gradient_is_the_finite_difference(name, weight):
    ball = EnvironmentBall(RADIUS.get(name, 0.2), FORMULAS[name][0])
    objective, coef = make_objective(make_log(1), ball, weight, "snips"), make_coef(2, 0.5).ravel()
    value, gradient = objective(coef)
    assert gradient == pytest.approx(numeric_gradient(objective, coef), abs=5e-7)
    assert np.abs(gradient).max() > 1e-3
    again, _, guess = objective.evaluate(coef + 0.01)
    assert objective.evaluate(coef, guess)[0] == pytest.approx(value, rel=1e-9)
    assert again != value


@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.parametrize("radius", [1e-6, 1e-4, 1.2, 60.0])
def test_slopes_in_the_shares_are_finite_differences_at_small_and_large_radii(name, radius):
    rng = np.random.default_rng(0)
    cost, share = np.append(rng.normal(size=9), [3.0, 3.0]), rng.dirichlet(np.ones(11))
    ball, direction = EnvironmentBall(radius, FORMULAS[name][0]), rng.normal(size=11)
    direction -= direction.mean()
    step = 1e-6 * share.min() * direction
    above, below = (ball.evaluate(cost, share + sign * step, 11.0)[0] for sign in (1, -1))
    slope = ball.evaluate_weighted(cost, 11 * share, np.full(11, 1 / 11), 11.0)[1] @ (11 * step)
    assert 2 * slope == pytest.approx(above - below, rel=2e-3, abs=4e-15)


def test_rows_without_weight_and_equal_costs_do_not_matter():
    rng = np.random.default_rng(5)
    cost, weight, ball = rng.normal(size=30), rng.exponential(size=30), EnvironmentBall(0.3)
    weight[:9], cost[:9] = 0, 50.0
    value, gradient, *_ = SelfNormalised(cost, np.ones(30)).evaluate(ball, weight, weight, None, None)
    expected, gradient_without, *_ = SelfNormalised(cost[9:], np.ones(21)).evaluate(
        ball, weight[9:], weight[9:], None, None
    )
    assert value == pytest.approx(expected, rel=1e-12)
    assert not gradient[:9].any()
    assert gradient[9:] == pytest.approx(gradient_without, rel=1e-9, abs=1e-14)
    tied, flat, *_ = SelfNormalised(np.full(30, -2.0), np.ones(30)).evaluate(ball, weight, weight, None, None)
    assert (tied, np.abs(flat).max()) == (-2.0, 0)


def test_the_ball_is_a_risk_whose_radius_ignores_the_number_of_rows():
    ball = EnvironmentBall(0.1)
    check_risk(ball)
    assert ball.for_fewer_rows(8.0) is ball
    z = np.random.default_rng(0).normal(size=50)
    assert ball(z)[0] == pytest.approx(KLBall(0.1)(z)[0], rel=1e-13)
    with pytest.raises(InputError, match="radius"):
        EnvironmentBall(-0.1)


@pytest.mark.parametrize("divergence", ["kl", "chi2", "squared_hellinger", "reverse_kl"])
def test_a_tiny_weight_on_the_largest_cost_has_a_finite_slope(divergence):
    """The conjugate has a pole next to the largest cost."""
    rng = np.random.default_rng(0)
    cost, weight = rng.random(500), np.append(rng.random(499) + 0.5, 1e-18)
    cost[-1] = 2.0
    _, gradient, _ = EnvironmentBall(0.5, divergence).evaluate_weighted(cost, weight, np.full(500, 1 / 500), 500)
    assert np.isfinite(gradient).all()
