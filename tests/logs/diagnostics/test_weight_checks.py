"""Importance weights and tails: effective sample size, support, large rows."""

import numpy as np
import pytest
from fixtures.click_logs import LOG, find_check, judge, levels, with_columns

from drcrm import BanditLog, SoftmaxPolicy
from drcrm.logs.diagnostics.diagnosis import diagnose


@pytest.mark.parametrize(("rows", "level"), [(9_500, "fail"), (10_500, "caution")])
def test_more_than_400_effective_rows_never_fail(rows, level):
    """The policy always takes one of 25 equally likely actions: 4 % of the rows, 380 or 420."""
    log = BanditLog(np.ones((rows, 1)), np.arange(rows) % 25, np.full(rows, 0.04), -(np.arange(rows) % 3), n_actions=25)
    always = SoftmaxPolicy(np.where(np.arange(25) == 7, 50.0, 0.0)[None])
    check = find_check(diagnose(log, always), "effective sample size")
    assert (check.value, check.level) == (pytest.approx(0.04), level)


def test_unsupported_actions_fail(monkeypatch):
    logging = SoftmaxPolicy(np.array([[0, 0, 0, 0], [0, 0, 0, 0], [9.0, 0, 0, 0]]))
    monkeypatch.setattr(
        "drcrm.logs.diagnostics.diagnosis.raise_to_support", lambda mean, log, _: logging.marginals(log.X)
    )
    verdict, diagnosis, _ = judge(SoftmaxPolicy(-logging.coef), with_columns(LOG, names=list("abcd")))
    assert levels(diagnosis)["unsupported actions"] == "fail"
    [advice, _] = verdict.changes
    assert advice.startswith("Explore actions")
    assert " a (" not in advice
    assert advice.count("of the policy's choices") == 3


def test_a_uniform_logging_policy_is_known_and_not_fitted(monkeypatch):
    """A fitted model of uniform actions that is wrong about one action finds it unsupported."""
    n, rng = 2000, np.random.default_rng(0)
    wrong = np.tile([0.001, 0.4995, 0.4995], (n, 1))
    monkeypatch.setattr("drcrm.logs.diagnostics.diagnosis.cross_fit_propensities", lambda log: wrong)
    monkeypatch.setattr("drcrm.logs.diagnostics.diagnosis.raise_to_support", lambda mean, log, _: mean)
    action, policy = rng.integers(0, 3, n), np.tile([0.8, 0.1, 0.1], (n, 1))
    for propensity, expected in ((1 / 3, 0.0), (0.33, 0.0), (0.3, 0.8)):  # 0.33 is 1/3 rounded
        log = BanditLog(rng.normal(size=(n, 1)), action, np.full(n, propensity), rng.random(n), n_actions=3)
        diagnosis = diagnose(log, policy)
        assert find_check(diagnosis, "unsupported actions").value == pytest.approx(expected)
        assert diagnosis.tables["actions"][0]["unsupported"] == pytest.approx(expected)


@pytest.mark.parametrize("factor", [1, 5 * 10**6])
def test_counts_are_weights_and_not_copies(factor):
    """The tables are those of repeated rows. With a factor they would be repeated into 11 GB; quantiles barely move."""
    rng = np.random.default_rng(0)
    n, count = 300, rng.integers(1, 4, 300)
    Y, p = rng.integers(0, 3, n), rng.uniform(0.2, 1, n)
    log = BanditLog(np.ones((n, 1)), Y, p, -rng.random(n), count=count * factor, n_actions=3)
    diagnosis = diagnose(log, np.full(n, 1 / 3))
    repeated = np.repeat(1 / 3 / p, count)
    tolerance = 1e-12 if factor == 1 else 0.02
    for level, value in diagnosis.tables["weights"]["quantiles"].items():
        assert value == pytest.approx(np.quantile(repeated, float(level)), rel=tolerance)
    histogram = diagnosis.tables["weights"]["histogram"]
    logs = np.log10(repeated)
    edges = np.histogram_bin_edges(logs, 20)
    assert histogram["rows"] == (np.histogram(logs, edges)[0] * factor).tolist()
    assert histogram["share"] == pytest.approx(np.histogram(logs, edges, weights=repeated / repeated.sum())[0])


def test_a_low_mean_weight_fails_only_if_chance_does_not_explain_it():
    """The policy takes an action with p = 0.01 in a fifth of the rows. None of 40 such rows has it with chance 0.67."""
    for rows, level in ((200, "caution"), (20_000, "fail")):
        is_rare = np.arange(rows) % 5 == 0
        Y, p = np.zeros(rows, dtype=int), np.where(is_rare, 0.98, 0.99)
        Y[1], p[1] = 1, 0.01
        mean = np.column_stack([~is_rare, is_rare, np.zeros(rows)]).astype(float)
        log = BanditLog(np.ones((rows, 1)), Y, p, -(np.arange(rows) % 3), n_actions=3)
        check = find_check(diagnose(log, mean), "mean weight")
        assert (check.value < 0.85, check.level) == (True, level)


@pytest.mark.parametrize(("probability", "level"), [(0.55, "good"), (0.6, "fail"), (0.4, "fail")])
def test_a_mean_weight_that_differs_by_three_standard_errors_fails(probability, level):
    """A policy that always takes the first of two actions, which is logged as p = 0.5 and drawn more or less often."""
    n, is_first = 400, np.arange(400) < round(400 * probability)
    log = BanditLog(np.ones((n, 1)), np.where(is_first, 0, 1), np.full(n, 0.5), -(np.arange(n) % 3), n_actions=2)
    policy = np.column_stack([np.ones(n), np.zeros(n)])
    check = find_check(diagnose(log, policy), "mean weight")
    distance = abs(2 * probability - 1) / (2 * np.sqrt(probability * (1 - probability) / n))
    assert (check.value, check.level) == (pytest.approx(2 * probability), level)
    assert (distance > 3) == (level == "fail")


def tail_checks(cost: np.ndarray):
    """Return the checks of the tails for costs of actions that a fair coin chose."""
    n, rng = len(cost), np.random.default_rng(0)
    log = BanditLog(np.ones((n, 1)), rng.integers(0, 2, n), np.full(n, 0.5), cost, n_actions=2)
    diagnosis = diagnose(log, np.where(log.Y == 0, 0.7, 0.3))
    names = "skewness of the estimate", "largest share of weighted costs"
    return [find_check(diagnosis, name) for name in names]


def test_rare_large_costs_and_rewards_are_cautions():
    rng = np.random.default_rng(1)
    losses = (rng.random(1000) < 0.03) * np.exp(2 * rng.normal(size=1000))
    for sign, tail in ((1, "its bound and interval can be far too low"), (-1, "its interval covers the true value")):
        skewness, _ = tail_checks(sign * losses)
        assert skewness.level == "caution"
        assert tail in skewness.sentence


def test_one_row_with_most_of_the_estimate_fails():
    cost = np.zeros(400)
    cost[7], cost[8:30] = 1e6, 1.0
    assert tail_checks(cost)[1].level == "fail"


@pytest.mark.parametrize(("distance", "level"), [(0.0, "good"), (1e-9, "good"), (0.1, "fail")])
def test_rounded_propensities_are_no_differences_to_the_logging_policy(distance, level):
    """One row has all of the difference, and the policy differs nowhere else."""
    log = BanditLog(np.ones((500, 1)), np.arange(500) % 2, np.full(500, 0.5), -1.0 - np.arange(500) % 3, n_actions=2)
    probability = np.full(500, 0.5)
    probability[7] += distance
    check = find_check(diagnose(log, probability), "largest share of weighted costs")
    assert check.level == level
