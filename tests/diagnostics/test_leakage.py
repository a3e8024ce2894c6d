"""A feature that holds the reward is named; features that help, actions and propensities are not."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from drcrm import ActionLists, BanditLog
from drcrm.arrays.mapped_arrays import ArrayWriter
from drcrm.diagnostics.diagnosis import diagnose
from drcrm.diagnostics.leakage import ADVICE, NAME, check_leakage
from drcrm.diagnostics.verdict import compare_with_logging, reach_verdict
from drcrm.logs.encoded_log import BanditLog as FileLog

K = 3


def drawn(n: int = 400, seed: int = 0, clicks: bool = False):
    """Contexts, actions, propensities and rewards that depend on both a little."""
    rng = np.random.default_rng(seed)
    X, action = rng.normal(size=(n, 4)), rng.integers(0, K, n)
    reward = 0.3 * X[:, 0] + (action == 1) * 0.4 + rng.normal(size=n)
    return X, action, np.full(n, 1 / K), (reward > 0.5).astype(float) if clicks else reward


def of_feature(extra, n: int = 400, seed: int = 0, clicks: bool = False):
    """The diagnostic of a log with one more feature, a function of the reward, the action and a generator."""
    X, action, p, reward = drawn(n, seed, clicks)
    values = extra(reward, action, np.random.default_rng(seed + 1))
    return check_leakage(BanditLog(np.column_stack([X, values]), action, p, -reward, n_actions=K))


COPIES = {
    "a copy": lambda r, a, rng: r,
    "in another unit": lambda r, a, rng: 1e6 - 1e-3 * r,
    "its exponential": lambda r, a, rng: np.exp(2 * r),
    "its size": lambda r, a, rng: np.abs(r - 8) ** 3,
    "with noise": lambda r, a, rng: r + 0.2 * rng.normal(size=len(r)),
}


@pytest.mark.parametrize("kind", COPIES)
@pytest.mark.parametrize("clicks", [False, True])
@pytest.mark.parametrize("n", [200, 2000])
def test_copies_of_the_reward_fail_with_the_name_of_the_feature(kind, clicks, n):
    found = of_feature(COPIES[kind], n, clicks=clicks)
    assert found.level == "fail"
    assert found.sentence.startswith("feature 4 alone explains")
    assert "if it is not known before the decision" in found.sentence


def test_a_copy_that_is_right_in_nine_of_ten_rows_is_a_caution():
    flipped = of_feature(lambda r, a, rng: np.where(rng.random(len(r)) < 0.1, 1 - r, r), 2000, clicks=True)
    assert flipped.level == "caution"


def test_the_share_is_that_of_the_law():
    """r = x + e with variances 3 and 1: x explains three quarters, and x² of a symmetric x nothing by a line."""
    rng = np.random.default_rng(0)
    x, action = np.sqrt(3) * rng.normal(size=20_000), rng.integers(0, 2, 20_000)
    log = BanditLog(x[:, None], action, np.full(20_000, 0.5), x + rng.normal(size=20_000))
    assert check_leakage(log).value == pytest.approx(0.75, abs=0.02)
    assert check_leakage(log.with_contexts(np.abs(x)[:, None])).value < 0.02
    assert check_leakage(log.with_cost(np.abs(x))).value > 0.94


@pytest.mark.parametrize(
    "extra",
    [
        lambda r, a, rng: a,
        lambda r, a, rng: a == 1,
        lambda r, a, rng: np.array([0.2, 0.5, 0.3])[a],
        lambda r, a, rng: np.roll(r, 1),
        lambda r, a, rng: rng.permutation(r),
        lambda r, a, rng: np.zeros(len(r)),
    ],
)
@pytest.mark.parametrize("by_action", [0, 50])
def test_actions_propensities_and_rewards_of_other_rows_do_not_leak(extra, by_action):
    X, action, p, reward = drawn()
    reward = reward + by_action * (action == 1)
    values = extra(reward, action, np.random.default_rng(1))
    log = BanditLog(np.column_stack([X, values]), action, p, -reward, n_actions=K)
    assert check_leakage(log).level == "good"
    copied = BanditLog(np.column_stack([X, reward]), action, p, -reward, n_actions=K)
    assert check_leakage(copied).level == "fail"


@pytest.mark.parametrize("n", [50, 200, 1000])
def test_noise_never_fails(n):
    for seed in range(30):
        rng = np.random.default_rng(seed)
        X, action = rng.normal(size=(n, 20)), rng.integers(0, K, n)
        X[:, 10:] = X[:, 10:] > 1.5
        for cost in (rng.normal(size=n), rng.random(n) < 0.1, rng.lognormal(0, 2, n)):
            found = check_leakage(BanditLog(X, action, np.full(n, 1 / K), cost.astype(float), n_actions=K))
            assert found is None or found.level == "good"


def test_a_category_is_one_feature_of_the_file():
    X, action, p, reward = drawn(clicks=True)
    frame = pd.DataFrame(X, columns=list("abcd")).assign(action=action, p=p, reward=reward)
    frame["status"] = np.where(reward > 0, "paid", np.where(X[:, 1] > 0, "open", "closed"))
    features = {"numeric": list("abcd"), "categorical": ["status"]}
    mapping = {"action": "action", "propensity": "p", "reward": "reward", "features": features}
    log = FileLog.from_frame(frame, mapping)
    assert log.encoding.columns == {
        **{name: slice(at, at + 1) for at, name in enumerate("abcd")},
        "status": slice(4, 7),
    }
    found = diagnose(log, columns=log.encoding.columns)
    assert NAME in found.failed
    assert any("feature 'status' alone explains" in each.sentence for each in found.diagnostics)
    policy = np.full((400, K), 1 / K)
    found = reach_verdict(compare_with_logging(policy, log), diagnose(log, policy, columns=log.encoding.columns))
    assert (found.verdict, found.changes) == ("the log cannot say", [f"{ADVICE}."])
    many = frame.assign(status=[f"{name} {at % 70}" for at, name in enumerate(frame["status"])])
    log = FileLog.from_frame(pd.concat([many] * 5), mapping)
    assert sparse.issparse(log.X)
    assert check_leakage(log, log.encoding.columns).level == "fail"


def test_labels_lists_and_sparse_features_are_tested_too():
    X, action, p, reward = drawn()
    copied = np.column_stack([X, reward])
    labels = BanditLog(copied, np.column_stack([action == 1, action == 2]).astype(int), p, -reward)
    assert check_leakage(labels).sentence.startswith("feature 4 alone")
    candidates = np.random.default_rng(0).normal(size=(3 * 400, 2))
    assert check_leakage(BanditLog(ActionLists(candidates, np.arange(0, 1201, 3)), action, p, -reward)).level == "good"
    candidates[np.arange(400) * 3 + action, 1] = reward
    assert check_leakage(BanditLog(ActionLists(candidates, np.arange(0, 1201, 3)), action, p, -reward)).level == "fail"
    wide = sparse.random_array((400, 3000), density=0.01, random_state=0, format="csr")
    log = BanditLog(sparse.csr_array(sparse.hstack([wide, reward[:, None]])), action, p, -reward, n_actions=K)
    assert check_leakage(log).sentence.startswith("feature 3000 alone")
    assert check_leakage(log.replace(X=wide)).level == "good"
    dense = np.column_stack([np.random.default_rng(0).normal(size=(400, 300)), np.full(400, 0.1), reward])
    assert check_leakage(log.replace(X=dense)).sentence.startswith("feature 301 alone")


def test_counts_are_rows_and_units_stay_whole():
    X, action, p, reward = drawn(200)
    users = np.repeat(np.arange(20), 10)
    taste = np.random.default_rng(0).normal(size=20)[users]
    log = BanditLog(np.eye(20)[users], action, p, -taste - 0.1 * reward, n_actions=K)
    user = {"user": slice(0, 20)}
    assert check_leakage(log, user).level == "fail"
    assert check_leakage(log, user, users).level == "good"
    one = check_leakage(BanditLog(np.column_stack([X, reward]), action, p, -reward, count=np.full(200, 3), n_actions=K))
    two = check_leakage(BanditLog(np.column_stack([X, reward]), action, p, -reward, n_actions=K))
    assert one.value == pytest.approx(two.value)


def test_costs_that_hardly_vary_say_nothing():
    X, action, p, reward = drawn()
    for cost in (np.zeros(400), np.full(400, 0.1), (np.arange(400) < 2).astype(float)):
        assert check_leakage(BanditLog(np.column_stack([X, cost]), action, p, cost, n_actions=K)) is None
    assert check_leakage(BanditLog(X[:30], action[:30], p[:30], -reward[:30], n_actions=K)) is None


def test_rows_on_disk_say_the_same(tmp_path):
    X, action, p, reward = drawn(3000)
    log = BanditLog(np.column_stack([X, reward]), action, p, -reward, n_actions=K)
    writer = ArrayWriter(tmp_path / "X")
    writer.append(log.X)
    assert check_leakage(log.replace(X=writer.finish())) == check_leakage(log)
