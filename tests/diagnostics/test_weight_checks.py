"""Importance weights and tails: effective sample size, Pareto shape, support, large rows."""

from __future__ import annotations

import numpy as np
import pytest
from click_logs import LOG, THETA, draw_log, find_check, judge, levels

from drcrm import BanditLog, SoftmaxPolicy
from drcrm.diagnostics.diagnosis import diagnose
from drcrm.diagnostics.weight_checks import fit_pareto_shape


@pytest.mark.parametrize(("rows", "level"), [(9_500, "fail"), (10_500, "caution")])
def test_more_than_400_effective_rows_never_fail(rows, level):
    """The policy always takes one of 25 equally likely actions: 4 % of the rows, 380 or 420."""
    log = BanditLog(np.ones((rows, 1)), np.arange(rows) % 25, np.full(rows, 0.04), -(np.arange(rows) % 3), n_actions=25)
    always = SoftmaxPolicy(np.where(np.arange(25) == 7, 50.0, 0.0)[None])
    check = find_check(diagnose(log, always, modelled=np.full((rows, 25), 0.04)), "effective sample size")
    assert (check.value, check.level) == (pytest.approx(0.04), level)


def test_a_policy_far_from_the_logging_policy_has_few_effective_rows():
    log, policy = draw_log(scale=2.5), SoftmaxPolicy(6 * THETA)
    verdict, diagnosis, _ = judge(policy, log)
    check = find_check(diagnosis, "effective sample size")
    assert (check.level, verdict.verdict) == ("fail", "the log cannot say")
    weight = np.exp(policy.log_prob(log.X, log.Y)) / log.propensity
    assert check.value == pytest.approx(weight.sum() ** 2 / (weight**2).sum() / 3000)


def test_unsupported_actions_fail_with_a_known_logging_policy():
    known = SoftmaxPolicy(np.array([[0, 0, 0, 0], [0, 0, 0, 0], [9.0, 0, 0, 0]]))
    verdict, diagnosis, _ = judge(SoftmaxPolicy(-known.coef), LOG, logging_policy=known, action_names=list("abcd"))
    assert levels(diagnosis)["mass without support"] == "fail"
    [advice, _] = verdict.changes
    assert advice.startswith("Explore actions")
    assert " a (" not in advice
    assert advice.count("of the policy's choices") == 3


def test_pareto_shape_of_exact_quantiles():
    """The prior draws shapes towards 1/2 with the weight of ten observations."""
    u = (np.arange(2000) + 0.5) / 2000
    for k in (0.2, 0.7, 1.2):
        values = (u**-k - 1) / k
        assert fit_pareto_shape(values) == pytest.approx((2000 * k + 5) / 2010, abs=0.03)
        assert fit_pareto_shape(1e6 * values) == pytest.approx(fit_pareto_shape(values), abs=1e-9)
    assert np.isnan(fit_pareto_shape(np.ones(100)))


def tail_checks(cost: np.ndarray):
    """Return the checks of the tails for costs of actions that a fair coin chose."""
    n, rng = len(cost), np.random.default_rng(0)
    log = BanditLog(np.ones((n, 1)), rng.integers(0, 2, n), np.full(n, 0.5), cost, n_actions=2)
    diagnosis = diagnose(log, np.where(log.Y == 0, 0.7, 0.3))
    names = "skewness of the estimate", "Pareto k̂ of weighted costs", "largest share of weighted costs"
    return [find_check(diagnosis, name) for name in names]


def test_rare_large_costs_and_rewards_are_cautions():
    rng = np.random.default_rng(1)
    losses = (rng.random(1000) < 0.03) * np.exp(2 * rng.normal(size=1000))
    for sign, tail in ((1, "large costs"), (-1, "large rewards")):
        skewness, shape, _ = tail_checks(sign * losses)
        assert skewness.level == shape.level == "caution"
        assert tail in skewness.sentence


def test_one_row_with_most_of_the_estimate_fails():
    cost = np.zeros(400)
    cost[7], cost[8:30] = 1e6, 1.0
    assert tail_checks(cost)[2].level == "fail"


@pytest.mark.parametrize("unit", [1e-100, 1e100])
def test_clicks_and_normal_costs_have_light_tails_in_any_unit(unit):
    rng = np.random.default_rng(2)
    for cost in (-(rng.random(1000) < 0.05).astype(float), rng.normal(size=1000)):
        assert [check.level for check in tail_checks(unit * cost)] == ["good"] * 3
