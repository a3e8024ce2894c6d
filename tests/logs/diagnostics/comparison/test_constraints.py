"""Guardrails: bounds against the library's, margins, and the verdict."""

from dataclasses import replace

import numpy as np
import pytest

from drcrm import BanditLog
from drcrm.arrays.tables import Table
from drcrm.certificates import policy_certificate, upper_bound
from drcrm.cost_models.ridge_model import CostModel
from drcrm.errors import InputError
from drcrm.evaluation.bounds.independent_units import Interval
from drcrm.evaluation.off_policy_value import off_policy_value
from drcrm.logging_policy import restrict_to_support
from drcrm.logs.batches import LogDescription
from drcrm.logs.diagnostics.comparison.constraints import GuardedOutcomes
from drcrm.logs.diagnostics.comparison.judged_constraints import describe_constraints, rate
from drcrm.logs.diagnostics.comparison.reference import ComparisonSettings, Reference
from drcrm.logs.diagnostics.comparison.verdict import Bounds, decide
from drcrm.mapping.entries import Guardrail
from drcrm.mapping.log_mapping import as_mapping
from drcrm.policies.tabular import policy_for_log

COST = Guardrail("unsubscribed", "unsubscribed", False, 0.1)
REWARD = Guardrail("money", "revenue", True, 0.05, is_relative=True)
BETTER = Bounds(-0.2, -0.1)


def draw(n: int = 800, seed: int = 0) -> tuple[BanditLog, np.ndarray, np.ndarray]:
    """Return a log, costs of two guardrails (n, 2), and a policy (n, 2)."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=n), np.ones(n)])
    p = 0.3 + 0.4 * (X[:, 0] > 0)
    Y = (rng.random(n) < p).astype(int)
    log = BanditLog(X, Y, np.where(Y == 1, p, 1 - p), -(rng.random(n) < 0.3 + 0.2 * Y).astype(float))
    costs = np.column_stack([rng.random(n) < 0.2, -rng.uniform(1, 2, n)]).astype(float)
    return log, costs, np.column_stack([np.full(n, 0.4), np.full(n, 0.6)])


def guard(rails: list[Guardrail], log: BanditLog, costs: np.ndarray, estimate: str, **known) -> GuardedOutcomes:
    """Return the outcomes of guardrails with costs (n, g)."""
    columns = Table(len(log.Y)) if log.rows is None else log.rows
    description = LogDescription(
        format="csv", mapping=replace(as_mapping({}), guardrails=tuple(rails)), kind="single", encoder=None
    )
    log = log.replace(rows=columns.assign(guardrails=costs), description=description)
    return GuardedOutcomes.of(log, estimate, **known)


def judged(guardrail: Guardrail, column: int, estimate: str = "dr", groups=None, **settings):
    log, costs, policy = draw()
    outcomes = guard([guardrail], log.with_groups(groups), costs[:, [column]], estimate)
    return outcomes.judge(policy, ComparisonSettings(**settings))[0]


@pytest.mark.parametrize("estimate", ["dr", "snips", "ips"])
@pytest.mark.parametrize("groups", [None, np.arange(800) // 3])
def test_an_absolute_margin_has_the_certificate_of_the_outcome(estimate, groups):
    log, costs, policy = draw()
    result, part = judged(COST, 0, estimate, groups, choices=7), log.with_cost(costs[:, 0])
    options = {"baseline": "logging", "groups": groups}
    certificate = policy_certificate(policy, part, estimate, choices=7, **options)
    assert result.bound == pytest.approx(certificate.bound, abs=1e-8)
    assert result.estimate == pytest.approx(float(off_policy_value(policy, part, estimate, **options)), abs=1e-12)
    assert (result.allowed, result.refusal, result.status) == (0.1, "", "holds")
    assert result.lower_bound < result.estimate < result.bound
    tight, broken = (replace(COST, margin=float(result.estimate) + step) for step in (1e-3, -1))
    assert [judged(rail, 0, estimate, groups).status for rail in (tight, broken)] == ["not shown", "violated"]


def test_the_bound_has_the_number_of_candidates_of_the_guardrail():
    log, costs, policy = draw()
    numbers = {"choices": 40, "effective_choices": 2, "guardrail_choices": {"unsubscribed": 13}}
    bounds = [judged(rail, 0, **numbers).bound for rail in (COST, replace(COST, name="other"))]
    for bound, choices in zip(bounds, (13, 40), strict=True):  # without a number of its own, it has that of all
        expected = policy_certificate(policy, log.with_cost(costs[:, 0]), "dr", choices=choices, baseline="logging")
        assert bound == pytest.approx(expected.bound, abs=1e-8)


@pytest.mark.parametrize("share", [0.0, 0.05])
def test_with_a_baseline_the_difference_and_the_margin_are_relative_to_it(share):
    log, costs, policy = draw()
    rail = replace(COST, margin=share, is_relative=True) if share else COST
    part, old = log.with_cost(costs[:, 0]), policy[:, ::-1]
    [result] = guard([rail], log, costs[:, [0]], "ips", reference=Reference(policy=old)).judge(
        policy, ComparisonSettings()
    )
    weight, of_old = (known[np.arange(800), log.Y] / log.propensity for known in (policy, old))
    mean = (of_old * part.cost).mean()
    assert result.estimate == pytest.approx((weight * part.cost).mean() - mean, abs=1e-12)
    assert result.allowed == pytest.approx(share * mean if share else rail.margin, abs=1e-12)
    options = {"baseline": old, "baseline_factor": 1 + share, "check_tails": False}
    z = (weight - (1 + share) * of_old) * part.cost
    assert policy_certificate(policy, part, "ips", **options).bound == pytest.approx(upper_bound(z), abs=1e-9)
    assert result.bound - share * mean == pytest.approx(upper_bound(z), abs=2e-3)  # corrected for skewness
    assert result.bound - share * mean >= upper_bound(z) - 1e-8


def test_a_relative_margin_bounds_the_cost_minus_a_multiple_of_the_logged_cost():
    """The bound minus the margin is the bound on the mean of w c − 0.95 c, which no other code computes here."""
    log, costs, policy = draw()
    result, c = judged(REWARD, 1, "ips"), costs[:, 1]
    z = policy[np.arange(800), log.Y] / log.propensity * c - 0.95 * c
    assert result.allowed == pytest.approx(-0.05 * c.mean())
    ball = upper_bound(z, method="kl")
    assert result.bound - result.allowed >= ball - 1e-8
    part = log.with_cost(c)
    unchecked = policy_certificate(policy, part, "ips", baseline="logging", baseline_factor=0.95, check_tails=False)
    assert unchecked.bound == pytest.approx(ball, abs=1e-9)


def test_a_factor_of_zero_leaves_the_cost_itself():
    log, _, policy = draw()
    for estimate in ("ips", "dr"):
        cost = policy_certificate(policy, log, estimate)
        assert policy_certificate(
            policy, log, estimate, baseline="logging", baseline_factor=0.0
        ).bound == pytest.approx(cost.bound, abs=1e-12)
    with pytest.raises(InputError, match="baseline_factor is -1"):
        policy_certificate(policy, log, "ips", baseline="logging", baseline_factor=-1)


def test_an_outcome_that_cannot_be_decided_is_named():
    log, costs, policy = draw()
    never = guard([COST], log, 0 * costs[:, :1], "dr").judge(policy, ComparisonSettings())
    negative = guard([REWARD], log, -costs[:, 1:], "dr").judge(policy, ComparisonSettings())
    for [rail], reason in ((never, "every logged cost is 0"), (negative, "which must be above 0")):
        assert rail.status == "not shown"
        assert reason in rail.refusal
        assert decide([], replace(BETTER, constraints=[rail])).name == "not shown"
        assert f"the guardrail {rail.constraint.name} cannot be decided: " in describe_constraints([rail], 0.95)
    assert np.isnan(negative[0].allowed)
    advice = "Write the margin of money in units of revenue, not in per cent."
    assert negative[0].advise() == (advice, False)
    assert never[0].advise() == ("Log more rows: these rows cannot decide unsubscribed.", True)


def test_a_better_estimate_is_not_said_to_be_beyond_a_margin():
    rail = judged(replace(REWARD, is_relative=False, margin=-1.0), 1)
    rail = replace(rail, estimate=Interval(-0.5, standard_error=0.1, low=-0.7, high=-0.3))
    advice, _ = replace(rail, bound=-0.2).advise()
    assert advice == "Try another policy, or require less of money: the estimate is better, but not by its margin."


def test_better_needs_all_guardrails():
    rails = [judged(COST, 0), judged(REWARD, 1)]
    assert [rail.status for rail in rails] == ["holds", "holds"]
    assert decide([], replace(BETTER, constraints=rails)).name == "better"
    assert describe_constraints(rails, 0.95) == " Guardrails that hold: unsubscribed, money."
    broken = judged(replace(COST, margin=-1.0), 0)
    refused = decide([], replace(BETTER, constraints=[broken, rails[1]]))
    assert (refused.name, refused.direction, refused.unmet) == ("not shown", "better", (broken,))
    sentence = describe_constraints([broken, rails[1]], 0.95)
    assert "But the guardrail unsubscribed is violated: unsubscribed changes by " in sentence
    assert "must change by at most −1." in sentence


def test_a_policy_is_rated_by_its_estimates_and_its_bounds():
    log, costs, policy = draw()
    outcomes, settings = guard([COST, REWARD], log, costs, "dr"), ComparisonSettings(choices=5)
    [first, second] = [rail.estimate for rail in outcomes.judge(policy, settings)]
    bound = outcomes.judge(policy, settings)[0].bound
    for margin, expected in ((float(first) - 1e-6, 0), (float(first) + 1e-6, 1), (bound - 1e-6, 1), (bound + 1e-6, 2)):
        rails = [replace(COST, margin=margin), replace(REWARD, margin=1.0)]
        assert rate(GuardedOutcomes(rails, outcomes.evaluations, "dr").judge(policy, settings)) == expected
    assert second == pytest.approx(float(off_policy_value(policy, log.with_cost(costs[:, 1]), baseline="logging")))
    assert rate(guard([], log, costs[:, :0], "dr").judge(policy, settings)) == 2


def test_actions_without_support_are_charged_the_largest_cost():
    """The second action is not logged where x > 0. The cost model would extend the low costs of the other contexts."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=2000), np.ones(2000)])
    p = np.where(X[:, 0] > 0, 0.0, 0.5)
    Y = (rng.random(2000) < p).astype(int)
    log = BanditLog(X, Y, np.where(Y == 1, p, 1 - p), -rng.random(2000))
    costs = (rng.random(2000) < 0.1).astype(float)
    logging = policy_for_log(np.column_stack([1 - p, p]), log)
    model = restrict_to_support(CostModel().fit(log), log, logging, 0.05)
    policy = np.column_stack([np.full(2000, 0.8), np.full(2000, 0.2)])
    outcomes = guard([COST], log, costs[:, None], "dr")
    settings = ComparisonSettings()
    [plain], [charged] = (part.judge(policy, settings) for part in (outcomes, outcomes.with_support(model)))
    missing = 0.2 * (p == 0).mean()
    assert abs(plain.estimate) < 0.05
    assert charged.estimate == pytest.approx(float(plain.estimate) + 0.9 * missing, abs=0.02)
