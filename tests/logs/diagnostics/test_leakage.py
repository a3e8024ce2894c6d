"""Features that copy the reward are detected; useful features, actions and propensities are not."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from fixtures.click_logs import failed_keys, reach_verdict
from scipy import sparse

from drcrm import ActionLists, BanditLog
from drcrm.logs.batches import BanditLog as FileLog
from drcrm.logs.diagnostics.check import Check, Consequence
from drcrm.logs.diagnostics.comparison.advice import RETEST
from drcrm.logs.diagnostics.comparison.policy_comparison import compare_with_logging
from drcrm.logs.diagnostics.diagnosis import diagnose
from drcrm.logs.diagnostics.leakage import ADVICE, check_feature_order, check_leakage

K = 3


def draw(n: int = 400, seed: int = 0, clicks: bool = False):
    """Return contexts, actions, propensities, and rewards that depend a little on both."""
    rng = np.random.default_rng(seed)
    X, action = rng.normal(size=(n, 4)), rng.integers(0, K, n)
    reward = 0.3 * X[:, 0] + (action == 1) * 0.4 + rng.normal(size=n)
    return X, action, np.full(n, 1 / K), (reward > 0.5).astype(float) if clicks else reward


def log_with(feature, X, action, p, reward) -> BanditLog:
    return BanditLog(np.column_stack([X, feature]), action, p, -reward, n_actions=K)


COPIES = {
    "the reward": lambda r, rng: r,
    "another unit": lambda r, rng: 1e6 - 1e-3 * r,
    "the exponential": lambda r, rng: np.exp(2 * r),
    "another power": lambda r, rng: np.abs(r - 8) ** 3,
    "with noise": lambda r, rng: r + 0.2 * rng.normal(size=len(r)),
}


@pytest.mark.parametrize("kind", COPIES)
@pytest.mark.parametrize("clicks", [False, True])
@pytest.mark.parametrize("n", [200, 2000])
def test_functions_of_the_reward_fail(kind, clicks, n):
    X, action, p, reward = draw(n, clicks=clicks)
    check = check_leakage(log_with(COPIES[kind](reward, np.random.default_rng(1)), X, action, p, reward))
    assert check.level == "fail"
    assert check.sentence.startswith("feature 4 alone explains")
    assert ADVICE in check.sentence


@pytest.mark.parametrize("seed", range(3))
def test_the_margin_of_a_sale_leaks_the_sale(seed):
    """A margin is 0 without a sale, sometimes negative, and its share of zeros differs by action."""
    rng = np.random.default_rng(seed)
    n = 8000
    X, action = rng.normal(size=(n, 4)), rng.integers(0, K, n)
    sale = (rng.random(n) < 0.07 + 0.03 * action).astype(float)
    margin = sale * (rng.lognormal(2, 0.8, n) - 2.5 * (action == 2))
    assert check_leakage(log_with(margin, X, action, np.full(n, 1 / K), sale)).level == "fail"


def test_the_share_is_that_of_the_distribution():
    """r = x + e with variances 3 and 1: x explains three quarters, and |x| nothing."""
    rng = np.random.default_rng(0)
    x, action = np.sqrt(3) * rng.normal(size=20_000), rng.integers(0, 2, 20_000)
    log = BanditLog(x[:, None], action, np.full(20_000, 0.5), x + rng.normal(size=20_000))
    check = check_leakage(log)
    assert (check.value, check.level) == (pytest.approx(0.75, abs=0.02), "caution")
    assert check_leakage(log.replace(X=np.abs(x)[:, None])).value < 0.02
    assert check_leakage(log.with_cost(np.abs(x))).value > 0.94


HARMLESS = {
    "action": lambda r, a: a,
    "is action 1": lambda r, a: a == 1,
    "propensity": lambda r, a: np.array([0.2, 0.5, 0.3])[a],
    "reward of the previous row": lambda r, a: np.roll(r, 1),
    "constant": lambda r, a: np.zeros(len(r)),
}


@pytest.mark.parametrize("kind", HARMLESS)
@pytest.mark.parametrize("action_effect", [0, 50])
def test_actions_propensities_and_other_rewards_do_not_leak(kind, action_effect):
    X, action, p, reward = draw()
    reward = reward + action_effect * (action == 1)
    assert check_leakage(log_with(HARMLESS[kind](reward, action), X, action, p, reward)).level == "good"
    assert check_leakage(log_with(reward, X, action, p, reward)).level == "fail"


@pytest.mark.parametrize("n", [50, 200, 1000])
def test_noise_never_fails(n):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X, action = rng.normal(size=(n, 20)), rng.integers(0, K, n)
        X[:, 10:] = X[:, 10:] > 1.5
        for cost in (rng.normal(size=n), rng.random(n) < 0.1, rng.lognormal(0, 2, n)):
            check = check_leakage(BanditLog(X, action, np.full(n, 1 / K), cost.astype(float), n_actions=K))
            assert check is None or check.level == "good"


def test_all_columns_of_a_category_are_one_feature():
    X, action, p, reward = draw(clicks=True)
    frame = pd.DataFrame(X, columns=list("abcd")).assign(action=action, p=p, reward=reward)
    frame["status"] = np.where(reward > 0, "paid", np.where(X[:, 1] > 0, "open", "closed"))
    features = {"numeric": list("abcd"), "categorical": ["status"]}
    mapping = {"action": "action", "propensity": "p", "reward": "reward", "features": features}
    log = FileLog.from_frame(frame, mapping)
    numeric = {name: slice(column, column + 1) for column, name in enumerate("abcd")}
    assert log.encoding.columns == {**numeric, "status": slice(4, 7)}
    policy = np.full((400, K), 1 / K)
    diagnosis = diagnose(log, policy)
    assert "leakage" in failed_keys(diagnosis)
    assert any("feature 'status' alone explains" in check.sentence for check in diagnosis.diagnostics)
    verdict = reach_verdict(compare_with_logging(policy, log), diagnosis)
    assert (verdict.verdict, verdict.changes) == ("the log cannot say", [f"{ADVICE}."])
    audit = Check("audit", "fail", Consequence.WRONG_OR_DEPENDENT, "", 5.4, "", "the outcome predicts the actions", "")
    accused = replace(diagnosis, diagnostics=(audit, *diagnosis.diagnostics))
    changes = [f"{ADVICE}.", RETEST]
    assert reach_verdict(compare_with_logging(policy, log), accused) == replace(verdict, changes=changes)
    halved = log.replace(propensity=log.propensity / 2)
    verdict = reach_verdict(compare_with_logging(policy, halved), diagnose(halved, policy))
    assert (verdict.verdict, verdict.changes) == ("the log cannot say", changes)
    many = frame.assign(status=[f"{name} {row % 70}" for row, name in enumerate(frame["status"])])
    log = FileLog.from_frame(pd.concat([many] * 5), mapping)
    assert sparse.issparse(log.X)
    assert check_leakage(log).level == "fail"


def test_labels_lists_and_wide_features():
    X, action, p, reward = draw()
    Y = np.column_stack([action == 1, action == 2]).astype(int)
    assert check_leakage(BanditLog(np.column_stack([X, reward]), Y, p, -reward)).sentence.startswith("feature 4 alone")
    candidates, starts = np.random.default_rng(0).normal(size=(3 * 400, 2)), np.arange(0, 1201, 3)
    assert check_leakage(BanditLog(ActionLists(candidates, starts), action, p, -reward)).level == "good"
    candidates[np.arange(400) * 3 + action, 1] = reward
    assert check_leakage(BanditLog(ActionLists(candidates, starts), action, p, -reward)).level == "fail"
    wide = sparse.random_array((400, 3000), density=0.01, random_state=0, format="csr")
    log = BanditLog(sparse.csr_array(sparse.hstack([wide, reward[:, None]])), action, p, -reward, n_actions=K)
    assert check_leakage(log).sentence.startswith("feature 3000 alone")
    assert check_leakage(log.replace(X=wide)).level == "good"
    dense = np.column_stack([np.random.default_rng(0).normal(size=(400, 300)), np.full(400, 0.1), reward])
    assert check_leakage(log.replace(X=dense)).sentence.startswith("feature 301 alone")


def test_counts_stand_for_rows_and_units_are_not_split():
    X, action, p, reward = draw(200)
    users = np.repeat(np.arange(20), 10)
    taste = np.random.default_rng(0).normal(size=20)[users]
    log = BanditLog(np.eye(20)[users], action, p, -taste - 0.1 * reward, n_actions=K)
    log = log.replace(encoding=SimpleNamespace(columns={"user": slice(0, 20)}))
    assert check_leakage(log).level == "fail"
    assert check_leakage(log.with_groups(users)).level == "good"
    log = log_with(reward, X, action, p, reward)
    assert check_leakage(log.replace(count=np.full(200, 3))).value == pytest.approx(check_leakage(log).value)


@pytest.mark.parametrize("as_matrix", [np.asarray, sparse.csr_array])
def test_a_feature_that_numbers_the_rows_is_a_caution(as_matrix):
    """A policy that is linear in it extrapolates to later rows, which a random split of the rows does not show."""
    X, action, p, reward = draw(clicks=True)
    number = 10_000 + np.arange(len(X))
    log = BanditLog(as_matrix(np.column_stack([X, number, np.ones(len(X))])), action, p, -reward)
    check = check_feature_order(log)
    assert (check.level, check.value) == ("caution", pytest.approx(1))
    assert check.sentence.startswith("feature 4 follows")
    assert check in diagnose(log).diagnostics
    days = log.replace(X=np.column_stack([X, -(number // 20)]))
    assert check_feature_order(days).value < -0.99
    shuffled = np.random.default_rng(0).permutation(number)
    for ids in (shuffled, number % 60):
        assert check_feature_order(log.replace(X=np.column_stack([X, ids]))) is None
