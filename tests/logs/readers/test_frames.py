"""Logs with the probabilities of all actions: how they are read, and that answers use them as a known π0."""

import json
import re

import numpy as np
import pandas as pd
import pytest

from drcrm import BanditLog, CostModel, SoftmaxPolicy, off_policy_value
from drcrm.certificates import policy_certificate
from drcrm.errors import InputError
from drcrm.logging_policy import SUPPORT
from drcrm.logs.batches import encode, fit_encoding
from drcrm.logs.diagnostics.propensity_audit import audit_propensities, cross_fit_propensities
from drcrm.logs.read_log import read_raw_log
from drcrm.mapping.log_mapping import as_mapping

ACTIONS = ["slow", "fast", "never"]  # in the order of the weights, which is not that of their names
FEATURES = {"numeric": ["x", "y"]}
MAPPING = {"action": "a", "cost": "c", "features": FEATURES, "propensity": {"weights": "w", "actions": ACTIONS}}
COLUMNS = [f"w_{name}" for name in ACTIONS]


def weighted_frame(n: int, seed: int = 0, scale: float = 1.0) -> pd.DataFrame:
    """Draw a log of three actions; ``never`` has no probability where y > 0."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    scores = scale * np.column_stack([X[:, 0], -X[:, 0], np.where(X[:, 1] > 0, -np.inf, 0)])
    mean = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    action = (rng.random(n)[:, None] < mean.cumsum(axis=1)).argmax(axis=1)
    cost = 0.3 * action - 0.5 * X[:, 0] * (action == 1) + 0.2 * rng.normal(size=n)
    frame = pd.DataFrame({"x": X[:, 0], "y": X[:, 1], "a": np.array(ACTIONS)[action], "c": cost})
    frame["w"], frame["p"] = mean.tolist(), mean[np.arange(n), action]
    return frame.assign(**dict(zip(COLUMNS, mean.T, strict=True)))


def as_text(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(w=frame["w"].map(json.dumps))


def write(frame: pd.DataFrame, path) -> None:
    if path.suffix == ".parquet":
        frame.to_parquet(path)
    elif path.suffix == ".jsonl":
        frame.to_json(path, orient="records", lines=True, double_precision=15)
    else:
        as_text(frame).to_csv(path, index=False)


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("weights", ["w", COLUMNS])
def test_all_formats_have_the_same_probabilities(form, weights, tmp_path, monkeypatch):
    monkeypatch.setattr("drcrm.logs.read_log.ROWS", 30)
    frame, path = weighted_frame(80), tmp_path / f"log.{form}"
    write(frame, path)
    mapping = as_mapping(MAPPING | {"propensity": {"weights": weights, "actions": ACTIONS}})
    assert as_mapping(mapping.as_dict()) == mapping
    log = read_raw_log(path, mapping)
    assert log.description.names == sorted(ACTIONS)
    expected = frame[[f"w_{name}" for name in sorted(ACTIONS)]].to_numpy()
    np.testing.assert_allclose(log.actions.logging_mean, expected, rtol=1e-12)
    np.testing.assert_allclose(log.propensity, frame["p"], rtol=1e-12)
    rows = np.arange(80) % 3 == 0
    np.testing.assert_array_equal(log.take(rows).actions.logging_mean, log.actions.logging_mean[rows])


def test_numbered_actions_need_no_names_and_unlogged_actions_count():
    frame = pd.DataFrame({"x": [1.0, 2, 3], "y": 0.0, "a": [2, 0, 2], "c": 0.0, "w": [[0.2, 0.3, 0.1, 0.4]] * 3})
    log = read_raw_log(frame, MAPPING | {"propensity": {"weights": "w"}})
    assert log.description.names == [0, 1, 2, 3]
    np.testing.assert_allclose(log.propensity, [0.1, 0.2, 0.1])


def refuse(frame: pd.DataFrame, propensity: dict, message: str, **changes) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        read_raw_log(frame, MAPPING | {"propensity": propensity} | changes)


def test_wrong_weights_are_refused(tmp_path, monkeypatch):
    frame, named = weighted_frame(20), {"weights": "w", "actions": ACTIONS}
    wrong = {
        "the sum of propensity.weights is 1.1 in row 3, expected 1, up to 0.002": [0.5, 0.3, 0.3],
        "the number of values in propensity.weights 'w' is 2 in row 3, expected 3, one for each action": [0.5, 0.5],
        "propensity.weights of action 'fast' is 1.5 in row 3, expected a probability": [0.2, 1.5, -0.7],
        "expected a list of probabilities such as [0.5, 0.3, 0.2]": ["a", 0.5, 0.5],
    }
    for message, weights in wrong.items():
        frame["w"] = [weights if row == 3 else good for row, good in enumerate(frame["w"])]
        refuse(frame, named, message)
        refuse(as_text(frame), named, message)
        frame = weighted_frame(20)
    refuse(frame, {"weights": "w"}, "expected one of the numbers 0 to 2; list the names in the order of the weights")
    refuse(frame, named | {"actions": ["slow", "never", "no"]}, "'fast', expected one of propensity.actions: slow, ")
    unlikely = frame.assign(a="never", y=1.0, w=[[0.5, 0.5, 0.0]] * 20)
    refuse(unlikely, named, "the weight of the logged action in propensity.weights is 0.0 in row 0, expected above 0")
    refuse(frame, {"weights": COLUMNS, "actions": ACTIONS[:2]}, "propensity has 3 weights, but 2 actions")
    refuse(frame, {"weights": "x"}, "'x' is weights of propensity and a numeric feature")
    refuse(frame, named, "propensity has weights, so the mapping must have action", action=None, labels=["p"])
    monkeypatch.setattr("drcrm.logs.read_log.ROWS", 10)
    numbered = frame.assign(a=0, w=[[0.5, 0.5]] * 10 + [[0.5, 0.3, 0.2]] * 10)
    write(numbered, tmp_path / "log.csv")
    with pytest.raises(InputError, match="has single actions with 3 probabilities a row, expected single actions with"):
        read_raw_log(tmp_path / "log.csv", MAPPING | {"propensity": {"weights": "w"}})


def test_support_is_read_from_the_weights():
    frame = weighted_frame(400)
    log = BanditLog.from_frame(frame, MAPPING)
    policy = SoftmaxPolicy(np.zeros((log.X.shape[1], 3)))
    plain = BanditLog.from_frame(frame, MAPPING | {"propensity": "p"})
    known = frame[[f"w_{name}" for name in sorted(ACTIONS)]].to_numpy()
    unsupported = pytest.approx((known < SUPPORT / 3).mean(), rel=1e-9)
    for estimate in ("ips", "snips", "dr"):
        by_log = policy_certificate(policy, log, check_tails=False, estimate=estimate)
        by_argument = policy_certificate(policy, plain, check_tails=False, estimate=estimate, logging_policy=known)
        assert by_log.bound == pytest.approx(by_argument.bound, rel=1e-9)
        assert by_log.value == pytest.approx(by_argument.value, rel=1e-9)
        assert by_log.unsupported == unsupported
    assert off_policy_value(policy, log).support == unsupported


def test_the_logging_policys_terms_vary_less_with_the_same_mean():
    """The known m0(x) replaces the modelled cost of the drawn action, whose draw is noise."""
    values, model = (
        {"known": [], "unknown": []},
        CostModel().fit(BanditLog.from_frame(weighted_frame(400, 99), MAPPING)),
    )
    for seed in range(20):
        frame = weighted_frame(300, seed)
        for name, propensity in (("known", MAPPING["propensity"]), ("unknown", "p")):
            log = BanditLog.from_frame(frame, MAPPING | {"propensity": propensity})
            policy = SoftmaxPolicy(np.array([[0, 0, 1.0], [0, -9, 0], [0, -9, 0]]))
            value = off_policy_value(policy, log, baseline="logging", estimate="dr", cost_model=model)
            values[name].append([float(value), value.standard_error])
    known, unknown = (np.array(values[name]) for name in ("known", "unknown"))
    assert known[:, 1].mean() < 0.97 * unknown[:, 1].mean()
    assert known[:, 0].std() < unknown[:, 0].std()
    assert abs((known - unknown)[:, 0].mean()) < 4 * (known - unknown)[:, 0].std() / np.sqrt(20)


def test_the_audit_compares_shares_of_actions_with_the_weights():
    frame = weighted_frame(3000)

    def mean_ratio(frame: pd.DataFrame):
        log = BanditLog.from_frame(frame, MAPPING)
        [check] = [test for test in audit_propensities(log, cross_fit_propensities(log)) if "mean" in test.key]
        return check

    assert mean_ratio(frame).level == "good"
    never = frame[frame["a"] != "never"].reset_index(drop=True)
    check = mean_ratio(never)
    assert check.level == "fail"
    assert "action never" in check.sentence
    assert "It never occurs" in check.sentence


def test_a_stored_policy_reads_the_weights_of_another_log(tmp_path):
    """Weights follow the names of the policy's actions, whatever order the new log writes them in."""
    frame = weighted_frame(200)
    log = read_raw_log(frame, MAPPING)
    encoding = fit_encoding(log)
    moved = frame.assign(w=[[w[1], w[2], w[0]] for w in frame["w"]])[frame["a"] != "never"]
    changed = MAPPING | {"propensity": {"weights": "w", "actions": ["fast", "never", "slow"]}}
    other = encode(read_raw_log(moved.reset_index(drop=True), changed), encoding)
    expected = log.actions.logging_mean[(frame["a"] != "never").to_numpy()]
    np.testing.assert_allclose(other.actions.logging_mean, expected, rtol=1e-12)
