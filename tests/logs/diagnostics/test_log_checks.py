"""Exploration and drift of a log."""

from types import SimpleNamespace

import numpy as np
import pytest
from fixtures.click_logs import BEST, LOG, THETA, change_log, draw_log, find_check, judge, levels, with_columns

from drcrm import BanditLog
from drcrm.logs.diagnostics.comparison.reference import Reference
from drcrm.logs.diagnostics.diagnosis import diagnose
from drcrm.logs.diagnostics.log_checks import check_action_drift, check_cost_drift, check_exploration, check_gain_drift

ORDER = np.arange(3000)
IS_LAST = ORDER >= 1500


@pytest.mark.parametrize(("certain", "level"), [(0.0, "good"), (0.4, "good"), (0.6, "caution"), (1.0, "fail")])
def test_a_log_without_exploration_fails(certain, level):
    log = draw_log(400)
    check = check_exploration(log.replace(propensity=np.where(np.arange(400) < 400 * certain, 1.0, log.propensity)))
    assert (check.value, check.level) == (pytest.approx(certain), level)


@pytest.mark.parametrize(
    ("propensity", "level"),
    [
        (np.repeat([0.99, 0.5], [150, 50]), "caution"),  # a quarter of the rows is randomised
        (np.repeat([0.995, 0.9], [150, 50]), "fail"),
        (np.repeat([0.97, 0.03], [194, 6]), "good"),  # 3 % of the actions are drawn at random
        (np.repeat([0.995, 0.8], [140, 60]), "caution"),
    ],
)
def test_estimated_propensities_near_one_show_a_deterministic_rule(propensity, level):
    log = BanditLog(np.ones((200, 1)), np.zeros(200, int), propensity, -np.ones(200), n_actions=2)
    estimated = log.replace(imitated_propensities=True)
    assert (check_exploration(estimated).level, check_exploration(log).level) == (level, "good")


def test_drift_is_stated_in_the_direction_of_the_outcome():
    description = SimpleNamespace(sign=-1, outcome="click")
    check = check_cost_drift(change_log(LOG, cost=-1.0 - 0.5 * IS_LAST).replace(description=description))
    assert check.sentence.startswith("the mean click is 1.5 in the last half of the rows and 1 in the rows before")


def test_drift_is_a_caution_and_changes_no_verdict():
    verdict, diagnosis, _ = judge(BEST, change_log(LOG, cost=LOG.cost - 0.2 * IS_LAST))
    assert levels(diagnosis) == {"drift of costs": "caution"}
    assert (verdict.verdict, verdict.changes) == ("better", [])
    assert verdict.cautions[0].startswith("The mean cost is −0.")
    assert "in the last half of the rows" in verdict.cautions[0]
    order = np.argsort(LOG.Y + 3 * np.random.default_rng(0).random(3000), kind="stable")
    assert "drift of actions" in levels(diagnose(change_log(LOG, order)))


def test_drift_is_a_caution_if_its_interval_excludes_zero():
    is_good, is_best = set(), (LOG.X @ THETA).argmax(axis=1) == LOG.Y
    weight = np.exp(BEST.log_prob(LOG.X, LOG.Y)) / LOG.propensity
    for shift in np.linspace(0, 0.8, 21):
        log = change_log(LOG, cost=LOG.cost - shift * IS_LAST * is_best)
        for check in (check_cost_drift(log), check_gain_drift(log, weight)):
            assert (check.level == "good") == (check.low <= 0 <= check.high)
            is_good.add((check.name, check.level == "good"))
    assert len(is_good) == 4
    assert check_cost_drift(LOG.with_groups(np.zeros(3000, int))).level == "good"  # a single unit has no interval


@pytest.mark.parametrize(("share", "part"), [(0.5, "half"), (0.2, "fifth"), (0.1, "tenth"), (0.05, "twentieth")])
def test_outcomes_that_have_not_arrived_are_named(share, part):
    log = draw_log(2000)
    time = np.random.default_rng(0).permutation(2000)
    arrived = log.with_cost(np.where(time < 2000 * (1 - share), log.cost, 0.0))
    check = find_check(diagnose(with_columns(arrived, time=time)), "drift of costs")
    assert check.level == "caution"
    assert f"the mean cost is 0 in the last {part} of the rows" in check.sentence
    assert "outcomes may not have arrived yet" in check.sentence
    assert check_cost_drift(with_columns(log, time=time)).level == "good"


def test_actions_that_vanish_at_the_end_drift():
    log = draw_log(2000)
    Y = np.where((log.Y == 1) & (np.arange(2000) >= 1800), 2, log.Y)
    check = check_action_drift(with_columns(change_log(log, Y=Y), names=["a", "b", "c", "d"]))
    assert check.level == "caution"
    assert "action b was logged in 0.0 % of the last tenth" in check.sentence
    assert check.value == pytest.approx(-np.mean(log.Y[:1800] == 1))
    assert check.low < check.value < check.high < 0


def test_a_user_with_many_rows_is_one_unit_of_the_drift_of_actions():
    """Each of 100 users has one action in 20 rows. As if the rows were independent, the shares seem to drift."""
    users = np.arange(2000) // 20
    Y = np.random.default_rng(0).integers(0, 3, 100)[users]
    log = BanditLog(np.ones((2000, 1)), Y, np.full(2000, 1 / 3), np.zeros(2000), n_actions=3)
    levels_of = [check_action_drift(log.with_groups(units)).level for units in (users, None)]
    assert levels_of == ["good", "caution"]


def test_a_gain_that_becomes_a_loss_fails():
    log = draw_log(6000, seed=1)
    scores = log.X @ THETA
    best = np.where(np.arange(6000) < 3000, scores.argmax(axis=1), scores.argmin(axis=1))
    clicks = np.random.default_rng(101).random(6000) < 0.2 + 0.6 * (best == log.Y)
    verdict, diagnosis, _ = judge(BEST, log.with_cost(-clicks.astype(float)))
    check = find_check(diagnosis, "drift of the gain")
    assert check.level == "fail"
    assert verdict.changes[0] == "Learn the policy again, from recent rows."
    assert "Its gain drifts" in check.sentence


def test_a_gain_over_a_baseline_does_not_drift_if_only_the_logging_policy_changes():
    """The logging policy of the last half is better than the policy, which is better than the baseline throughout."""
    rng = np.random.default_rng(0)
    x, is_last = rng.integers(0, 2, 4000), np.arange(4000) >= 2000
    chance = np.where(is_last, 0.9, 0.5)  # of the action x, which is clicked more
    action = np.where(rng.random(4000) < chance, x, 1 - x)
    propensity, policy, baseline = (np.where(action == x, part, 1 - part) for part in (chance, 0.8, 0.6))
    click = rng.random(4000) < np.where(action == x, 0.6, 0.1)
    log = BanditLog(np.column_stack([x, 1 - x]), action, propensity, -click.astype(float), n_actions=2)
    check = find_check(diagnose(log, policy), "drift of the gain")
    assert check.level == "fail"
    check = find_check(diagnose(log, policy, reference=Reference(policy=baseline)), "drift of the gain")
    assert check.level == "good"
    assert check.sentence.startswith("the policy's cost per row minus the baseline's is ")
    weights = policy / propensity, baseline / propensity
    costs = [weight @ log.cost / weight.sum() for weight in weights]
    terms = [w * (log.cost - cost) / w.mean() + cost for w, cost in zip(weights, costs, strict=True)]
    gain = terms[0] - terms[1]
    assert check.value == pytest.approx(gain[is_last].mean() - gain[~is_last].mean())


def test_gain_drift_is_the_difference_of_the_mean_gains():
    """The gain of a row is w (c − v)/w̄ + v − c, with the self-normalised estimate v."""
    log = draw_log(500)
    weight = np.exp(BEST.log_prob(log.X, log.Y)) / log.propensity
    ratio = weight @ log.cost / weight.sum()
    gain = ratio + weight * (log.cost - ratio) / weight.mean() - log.cost
    check = check_gain_drift(log, weight)
    assert check.value == pytest.approx(gain[250:].mean() - gain[:250].mean())
    assert check.level == "good"


def test_copies_of_a_unit_do_not_narrow_the_interval_of_drift():
    twice, ids = np.repeat(np.arange(3000), 2), np.arange(3000)
    expected = check_cost_drift(LOG.with_groups(ids))
    grouped = check_cost_drift(change_log(LOG, twice).with_groups(ids[twice]))
    assert (grouped.low, grouped.high) == pytest.approx((expected.low, expected.high), rel=1e-3)
