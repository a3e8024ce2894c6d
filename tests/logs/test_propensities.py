"""Imitated propensities: near the truth where the truth is a softmax, and made without the row itself."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import drcrm
from drcrm.errors import InputError
from drcrm.logs.encoded_log import log_of
from drcrm.logs.propensities import estimate_propensities
from drcrm.logs.readers.table_records import records_of_frame

MAPPING = {
    "action": "a",
    "propensity": None,
    "propensity_model": "softmax",
    "cost": "c",
    "features": {"numeric": ["x", "z"]},
}


def softmax_frame(n: int, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """Rows of a softmax policy, and its probabilities of the logged actions."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    scores = np.column_stack([X, -X.sum(axis=1)])
    mean = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    action = (rng.random((n, 1)) > mean.cumsum(axis=1)).sum(axis=1)
    frame = pd.DataFrame({"x": X[:, 0], "z": X[:, 1], "a": action, "c": rng.normal(size=n), "g": np.arange(n) // 4})
    return frame, mean[np.arange(n), action]


def test_they_are_near_the_truth():
    frame, truth = softmax_frame(3000)
    found = estimate_propensities(records_of_frame(frame, MAPPING))
    assert abs(np.log(found) - np.log(truth)).mean() < 0.06
    assert abs((truth / found).mean() - 1) < 0.02


def test_features_of_noise_are_calibrated_away():
    """Of 30 columns of noise a plain fit is too sure: the temperature brings the mean of 1/p back to K."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.normal(size=(150, 30))).rename(columns="n{}".format)
    frame["a"], frame["c"] = rng.integers(0, 3, 150), 0.0
    mapping = {**MAPPING, "features": {"numeric": [f"n{i}" for i in range(30)]}}
    found = estimate_propensities(records_of_frame(frame, mapping))
    assert abs((1 / found).mean() - 3) < 0.4


def test_a_log_says_that_they_are_imitated():
    frame, _ = softmax_frame(60)
    log = drcrm.BanditLog.from_frame(frame, MAPPING)
    assert log.imitated_propensities
    assert np.array_equal(log.propensity, estimate_propensities(records_of_frame(frame, MAPPING)))
    assert log.recount(np.arange(60) % 2).imitated_propensities


def test_a_row_does_not_speak_for_itself():
    """Another action in one row changes no propensity of its own fold's other rows, but for the one temperature."""
    frame, _ = softmax_frame(40)
    before = estimate_propensities(records_of_frame(frame, {**MAPPING, "group": "g"}), folds=2)
    frame.loc[0, "a"] = (frame.loc[0, "a"] + 1) % 3
    after = estimate_propensities(records_of_frame(frame, {**MAPPING, "group": "g"}), folds=2)
    ratio = np.log(after[1:4]) / np.log(before[1:4])
    assert abs(ratio - 1).max() < 0.2


def test_labels_and_no_features():
    frame, _ = softmax_frame(2000)
    frame["k"], frame["l"] = frame["x"] > 0, np.arange(2000) % 4 == 0
    mapping = {**MAPPING, "labels": ["k", "l"], "features": {}}
    del mapping["action"]
    records = records_of_frame(frame, mapping)
    shares = records.action.mean(axis=0)
    expected = np.prod(np.where(records.action == 1, shares, 1 - shares), axis=1)
    assert np.allclose(estimate_propensities(records), expected, rtol=0.1)


def test_they_are_positive_and_at_most_1():
    frame, _ = softmax_frame(50)
    frame["a"] = (frame["x"] > 0).astype(int)
    found = estimate_propensities(records_of_frame(frame, MAPPING))
    assert ((found >= 1 / 50) & (found <= 1)).all()


def test_an_action_of_one_row_alone():
    frame, _ = softmax_frame(30)
    frame.loc[7, "a"] = 9
    assert estimate_propensities(records_of_frame(frame, MAPPING)).min() >= 1 / 30


def test_one_row_or_group_is_too_few():
    frame, _ = softmax_frame(4)
    for some, mapping in ((frame[:1], MAPPING), (frame, {**MAPPING, "group": "g"})):
        with pytest.raises(InputError, match="the log has a single context or group"):
            estimate_propensities(records_of_frame(some, mapping))


def test_those_given_are_taken():
    frame, truth = softmax_frame(20)
    log = log_of(records_of_frame(frame, MAPPING), propensity=truth)
    assert np.array_equal(log.propensity, truth)
    assert log.imitated_propensities
