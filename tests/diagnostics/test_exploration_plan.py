"""Plans of the next log against a complete enumeration of contexts and actions, and against standard errors."""

import numpy as np
import pytest
from diagnosed_logs import BEST, LOG

from drcrm import BanditLog, off_policy_value
from drcrm.certificates.sample_size import ChargedLook, OneLook
from drcrm.certificates.skewness import estimate_skewness
from drcrm.diagnostics.comparison.exploration_plan import (
    PlannedPolicy,
    PlanSettings,
    action_sizes,
    missing_shares,
    plan_exploration,
    plan_size,
    uniform_policy,
)

LOGGING = np.array([[0.7, 0.2, 0.1], [0.1, 0.5, 0.4], [0.2, 0.2, 0.6], [0.4, 0.4, 0.2]])
POLICY = np.array([[0.1, 0.1, 0.8], [0.9, 0.05, 0.05], [0.3, 0.3, 0.4], [0.0, 1.0, 0.0]])
COSTS = -np.array([[0.1, 0.9, 0.4], [0.0, 0.3, 0.8], [1.0, 0.2, 0.5], [0.6, 0.7, 0.1]])
SCALE = 10**5


def enumerate_log(logging: np.ndarray) -> BanditLog:
    """Return a log in which every action of every context occurs in proportion to its propensity."""
    context, action = np.nonzero(logging)
    p = logging[context, action]
    count = np.round(SCALE * p).astype(int)
    return BanditLog(np.ones((4, 1)), action, p, COSTS[context, action], context=context, count=count, n_actions=3)


def by_ips(log: BanditLog, policy: np.ndarray, gain: float | None = None) -> PlannedPolicy:
    weight = policy[log.context, log.Y] / log.propensity
    return PlannedPolicy(weight, np.zeros(len(weight)), log.cost, gain=gain)


@pytest.mark.parametrize("rate", [0.0, 0.05, 0.2, 1.0])
def test_terms_of_the_next_log_are_those_of_its_enumeration(rate):
    log, explored = enumerate_log(LOGGING), (1 - rate) * LOGGING + rate / 3
    z = POLICY / explored * COSTS - COSTS
    mean = (explored * z).sum() / 4
    deviation = np.sqrt((explored * (z - mean) ** 2).sum() / 4)
    gain = -((POLICY - LOGGING) * COSTS).sum() / 4
    cost = ((1 / 3 - LOGGING) * COSTS).sum() / 4
    tested = by_ips(log, POLICY, gain)
    plan = plan_size(log, tested, rate, 5000, PlanSettings(5000, cost, cost_range=(-1.0, 0.0)))
    assert -mean == pytest.approx(gain + rate * cost, abs=1e-12)
    ratio = 1 - rate + rate / 3 / log.propensity
    third, fourth = ((explored * (z - mean) ** power).sum() / 4 / deviation**power for power in (3, 4))
    skewness = estimate_skewness(tested.weight / ratio - 1, tested.residual, log.cost, log.count * ratio, 1)
    plain = OneLook(deviation, skewness=skewness, asymmetry=third, kurtosis=fourth)
    look = ChargedLook(plain, z.ravel(), (POLICY / explored * COSTS - COSTS - z).ravel(), explored.ravel() / 4)
    assert plan["difference"] == pytest.approx(look.smallest_difference(5000), rel=1e-4)
    again = plan_size(
        enumerate_log(explored),
        by_ips(enumerate_log(explored), POLICY, gain + rate * cost),
        0.0,
        5000,
        PlanSettings(5000, cost_range=(-1.0, 0.0)),
    )
    for key in ("difference", "power", "anytime_difference", "anytime_power"):
        assert plan[key] == pytest.approx(again[key], rel=1e-4, abs=1e-6)


def test_effective_sizes_of_actions_are_those_of_an_enumeration():
    logging = LOGGING.copy()
    logging[0], logging[3] = [0.9, 0.1, 0.0], [0.5, 0.5, 0.0]
    log = enumerate_log(logging)
    uniform = uniform_policy(log)
    assert missing_shares(log, uniform) == pytest.approx([0, 0, 0.5], abs=0.02)
    for rate in (0.01, 0.2):
        expected = log.size / (1 / ((1 - rate) * logging + rate / 3)).mean(axis=0)
        assert action_sizes(log, uniform, rate) == pytest.approx(expected, rel=0.03)
    assert action_sizes(log, uniform, 0.0)[2] == pytest.approx(log.size * 0.25 / ((1 / 0.4 + 1 / 0.6) / 4), rel=1e-6)


def test_without_exploration_the_deviation_is_that_of_the_standard_error():
    value = off_policy_value(BEST, LOG, "ips", baseline="logging")
    tested = PlannedPolicy(np.exp(BEST.log_prob(LOG.X, LOG.Y)) / LOG.propensity, np.zeros(3000), LOG.cost)
    plans = plan_exploration(LOG, tested, PlanSettings(6000, 0.1))
    size = plans[0]["sizes"][0]
    plain = OneLook(value.standard_error * np.sqrt(3000)).smallest_difference(6000)
    assert size["difference"] == pytest.approx(plain, rel=0.1)
    assert plans[0]["effective_size"] == pytest.approx(2 * value.effective_size)


def test_dependent_rows_count_less():
    tested = PlannedPolicy(np.full(3000, 1.2), np.zeros(3000), LOG.cost, spread=2.0, gain=0.05)
    plain = PlannedPolicy(np.full(3000, 1.2), np.zeros(3000), LOG.cost, gain=0.05)
    settings = PlanSettings(3000, cost_range=(-1.0, 0.0))
    four, one = plan_size(LOG, tested, 0.0, 12_000, settings), plan_size(LOG, plain, 0.0, 3000, settings)
    assert four["anytime_power"] == pytest.approx(one["anytime_power"], rel=1e-12)
    assert four["anytime_difference"] == pytest.approx(one["anytime_difference"], rel=1e-6)
