"""Self-normalised estimate: the root by bisection, and logs with few or extreme weights."""

import numpy as np
import pytest
from fixtures.action_logs import make_coef, make_log, make_objective
from scipy.optimize import brentq

from drcrm import ExponentialPolicy, off_policy_value
from drcrm.data.bandit_log import BanditLog
from drcrm.estimates import SelfNormalised
from drcrm.risks import BoltzmannRisk, Chi2Ball, KLBall, MeanRisk, VariancePenalizedRisk
from drcrm.weights import Clipped, Shrunk

MONOTONE = [MeanRisk(), KLBall(0.05), KLBall(0.6), Chi2Ball(0.2), Chi2Ball(2.0)]


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
