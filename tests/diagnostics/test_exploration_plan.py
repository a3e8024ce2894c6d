"""Plans of the next log against a complete enumeration of contexts and actions, and against standard errors."""

import numpy as np
import pytest
from diagnosed_logs import BEST, LOG
from scipy.stats import norm

from drcrm import BanditLog, off_policy_value
from drcrm.certificates.sample_size import OneLook
from drcrm.diagnostics.comparison.exploration_plan import RATES, PlannedPolicy, plan_exploration

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
    return PlannedPolicy(weight, 0.0, log.cost, gain=gain)


@pytest.mark.parametrize("policy", [POLICY, POLICY[:, [1, 0, 2]]])
def test_the_next_log_is_that_of_its_enumeration(policy):
    """Its spread, the difference that it shows, and the expected gain are those of all contexts and actions."""
    log = enumerate_log(LOGGING)
    gain = -((policy - LOGGING) * COSTS).sum() / 4
    cost = ((1 / 3 - LOGGING) * COSTS).sum() / 4
    plans = plan_exploration(log, by_ips(log, policy, gain), OneLook(1.0, 0.9, 3), 5000, cost)
    assert [plan["rate"] for plan in plans] == [*RATES]
    for plan in plans:
        rate = plan["rate"]
        explored = (1 - rate) * LOGGING + rate / 3
        z = policy / explored * COSTS - COSTS
        mean = (explored * z).sum() / 4
        deviation = np.sqrt((explored * (z - mean) ** 2).sum() / 4)
        assert -mean == pytest.approx(gain + rate * cost, abs=1e-12)
        assert plan["cost"] == pytest.approx(rate * cost)
        assert plan["deviation"] == pytest.approx(deviation, rel=1e-4)
        quantile = norm.isf(0.1 / 3)
        needed = ((quantile + norm.ppf(0.8)) * deviation / mean) ** 2
        assert plan["needed"] == (pytest.approx(needed, rel=1e-3) if mean < 0 else None)
        for size, rows in zip(plan["sizes"], (5000, 10_000, 20_000, 40_000), strict=True):
            assert size["rows"] == rows
            shown = (quantile + norm.ppf(0.8)) * deviation / np.sqrt(rows)
            assert size["difference"] == pytest.approx(shown, rel=1e-4)
            assert size["power"] == pytest.approx(norm.sf(quantile + mean * np.sqrt(rows) / deviation), abs=1e-3)


def test_without_exploration_the_deviation_is_that_of_the_standard_error():
    value = off_policy_value(BEST, LOG, "ips", baseline="logging")
    tested = PlannedPolicy(np.exp(BEST.log_prob(LOG.X, LOG.Y)) / LOG.propensity, 0.0, LOG.cost)
    plan = plan_exploration(LOG, tested, OneLook(1.0), 6000)[0]
    assert plan["deviation"] == pytest.approx(value.standard_error * np.sqrt(3000), rel=1e-9)
    assert plan["needed"] is plan["sizes"][0]["power"] is None


def test_dependent_rows_count_less_and_equal_terms_need_no_rows():
    policies = [PlannedPolicy(np.full(3000, 1.2), 0.0, LOG.cost, spread, 0.05) for spread in (2.0, 1.0)]
    dependent, plain = (plan_exploration(LOG, policy, OneLook(1.0), 1000)[0] for policy in policies)
    assert dependent["needed"] == pytest.approx(4 * plain["needed"])
    same = plan_exploration(LOG, PlannedPolicy(np.ones(3000), 0.0, LOG.cost, gain=0.0), OneLook(1.0), 1000)[0]
    assert [size["difference"] for size in same["sizes"]] == pytest.approx([0.0] * 4)
    assert same["needed"] is None
