"""All checks of a log together: no false alarms, JSON values, units, counts and arguments."""

import json

import numpy as np
import pytest
from fixtures.click_logs import (
    BEST,
    LOG,
    MODEL,
    change_log,
    draw_contexts,
    failed_keys,
    judge,
    levels,
    reach_verdict,
    with_columns,
)

from drcrm import ActionLists, BanditLog, ExponentialPolicy, SoftmaxPolicy
from drcrm.logs.diagnostics.comparison.policy_comparison import compare_with_logging
from drcrm.logs.diagnostics.diagnosis import diagnose


def test_correct_logs_raise_no_check():
    shuffled = change_log(LOG, np.random.default_rng(1).permutation(3000))
    for log in (LOG, shuffled):
        diagnosis = diagnose(log, BEST, cost_model=MODEL)
        assert levels(diagnosis) == {}
        assert diagnosis.units is None


def test_labels_and_lists_are_checked_too():
    rng = np.random.default_rng(0)
    logging, policy = (ExponentialPolicy(coef) for coef in rng.normal(size=(2, 3, 2)) / 2)
    X = draw_contexts(rng, 1000)
    Y = logging.sample(X, rng)
    log = BanditLog(X, Y, np.exp(logging.log_prob(X, Y)), -Y[:, 0].astype(float))
    diagnosis = diagnose(with_columns(log, names=["left", "right"]), policy)
    assert diagnosis.failed == ()
    assert [entry["action"] for entry in diagnosis.tables["actions"]] == ["left", "right"]
    halved = BanditLog(X, Y, log.propensity / 2, log.cost)
    assert "audit_mean_ratio" in failed_keys(diagnose(halved))
    lists = ActionLists(rng.normal(size=(3000, 2)), np.arange(0, 3001, 3))
    logging = SoftmaxPolicy(np.array([0.5, -0.5]))
    A = logging.sample(lists, rng)
    log = BanditLog(lists, A, np.exp(logging.log_prob(lists, A)), -rng.random(1000))
    diagnosis = diagnose(log, SoftmaxPolicy(np.array([0.8, 0])))
    assert (diagnosis.failed, diagnosis.tables["actions"]) == ((), [])
    shifted = BanditLog(lists, A, np.roll(log.propensity, 1), log.cost)
    assert failed_keys(diagnose(shifted)) == {"audit_likelihood_ratio"}


def test_answers_are_json_and_slices_are_separate():
    slices = np.where(np.arange(3000) % 3, "<b>", "ü")
    names = ["$a$", "b", "c", "d"]
    log = with_columns(LOG, {"city": slices}, names, number=np.arange(3000) + 7)
    _, diagnosis, comparison = judge(BEST, log)
    answer = json.loads(json.dumps(diagnosis.tables | comparison.as_dict(), allow_nan=False))
    assert [(entry["slice"], entry["rows"]) for entry in answer["slices"]] == [("<b>", 2000), ("ü", 1000)]
    assert all(entry["low"] < entry["policy"] < entry["high"] for entry in answer["slices"])
    assert sum(entry["policy"] for entry in answer["actions"]) == pytest.approx(1)
    assert sum(answer["weights"]["histogram"]["share"]) == pytest.approx(1)


def test_counts_stand_for_repeated_rows(monkeypatch):
    few = change_log(LOG, slice(0, 400))
    count = np.random.default_rng(0).integers(0, 3, 400)
    logs = few.recount(count), change_log(few, np.repeat(np.arange(400), count))
    monkeypatch.setattr("drcrm.logs.diagnostics.diagnosis.cross_fit_propensities", lambda log: BEST.marginals(log.X))
    for policy in (None, BEST):
        values = []
        for log in logs:
            diagnosis = diagnose(log, policy, cost_model=MODEL)
            # These checks depend on the order of the rows, on which of them are independent, or on random draws.
            excluded = "duplicated", "independence", "drift", "propensity audit, likelihood", "skewness"
            checks = [check for check in diagnosis.diagnostics if not check.name.startswith(excluded)]
            values.append({check.name: check.value for check in checks})
        assert values[0] == pytest.approx(values[1], nan_ok=True)


@pytest.mark.parametrize("n", [1, 2, 30])
def test_tiny_logs_give_an_answer(n):
    verdict, diagnosis, _ = judge(BEST, change_log(LOG, slice(0, n)))
    assert verdict.verdict in ("the log cannot say", "not shown", "better")
    assert "propensity audit" in levels(diagnosis)
    json.dumps([check.as_dict() for check in diagnosis.diagnostics], allow_nan=False)


def test_levels_do_not_depend_on_the_unit_of_the_costs():
    log = change_log(LOG, slice(0, 1500))
    logs = [change_log(log, cost=log.cost * unit) for unit in (1, 1e-90, 1e90)]
    expected, *scaled = [levels(diagnose(log, BEST)) for log in logs]
    assert scaled == [expected] * 2


def test_constant_costs_and_a_single_action():
    log = BanditLog(LOG.X, np.zeros(3000, int), np.ones(3000), np.zeros(3000), n_actions=2)
    diagnosis = diagnose(log, np.tile([1.0, 0], (3000, 1)))
    assert failed_keys(diagnosis) == {"exploration"}
    never = np.tile([0.0, 1], (3000, 1))
    diagnosis, comparison = diagnose(log, never), compare_with_logging(never, log)
    assert "effective_size" in failed_keys(diagnosis)
    assert comparison.refusal
    assert comparison.as_dict()["certificate"] == {"refused": comparison.refusal}
    assert reach_verdict(comparison, diagnosis).verdict == "the log cannot say"
