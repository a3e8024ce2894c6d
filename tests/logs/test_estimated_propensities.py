"""Estimated propensities: close to a softmax policy, calibrated, and cross-fitted."""

import numpy as np
import pandas as pd
import pytest
from fixtures.click_logs import draw_actions
from scipy.special import softmax

import drcrm
from drcrm.data.bandit_log import BanditLog
from drcrm.errors import InputError
from drcrm.logs.estimated_propensities import (
    FORECASTS,
    SECOND,
    estimate_before,
    estimate_propensities,
    supported_floor,
)
from drcrm.logs.read_log import read_raw_log

MAPPING = {
    "action": "a",
    "propensity": None,
    "propensity_model": "softmax",
    "cost": "c",
    "features": {"numeric": ["x", "z"]},
}


def softmax_frame(n: int, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """Return rows of a softmax policy, and its probabilities of the logged actions."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    mean = softmax(np.column_stack([X, -X.sum(axis=1)]), axis=1)
    action = draw_actions(mean, rng)
    frame = pd.DataFrame({"x": X[:, 0], "z": X[:, 1], "a": action, "c": rng.normal(size=n), "g": np.arange(n) // 4})
    return frame, mean[np.arange(n), action]


def estimates(frame: pd.DataFrame, mapping: dict = MAPPING, **options) -> np.ndarray:
    return estimate_propensities(read_raw_log(frame, mapping), **options).propensity


@pytest.mark.parametrize("model", ["softmax", "trees"])
def test_estimates_before_do_not_use_the_actions_of_other_rows(model):
    """Rows before have estimates as close to the truth as without the others, which have those of all rows before."""
    frame, truth = softmax_frame(1500)
    is_before, later = np.arange(1500) < 1000, frame.copy()
    later.loc[~is_before, "a"] = (frame["a"][~is_before] + 1) % 3
    mapping = MAPPING | {"propensity_model": model}
    logs = [drcrm.read_log(rows, mapping) for rows in (frame, later)]
    first, second = (estimate_before(log.replace(propensity=np.ones(1500)), is_before) for log in logs)
    assert second[is_before] == pytest.approx(first[is_before], rel=1e-9)
    assert not np.allclose(second[~is_before], first[~is_before])
    for rows in (is_before, ~is_before):
        assert abs(np.log(first[rows]) - np.log(truth[rows])).mean() < (0.1 if model == "softmax" else 0.4)
    assert (second[~is_before] < first[~is_before]).mean() > 0.6  # actions that the rows before call improbable


def test_rows_outside_the_sample_of_a_large_log_get_the_mean_over_the_folds(monkeypatch):
    frame, truth = softmax_frame(3000)
    whole = estimates(frame)
    assert abs(np.log(whole) - np.log(truth)).mean() < 0.06
    assert abs((truth / whole).mean() - 1) < 0.02
    monkeypatch.setattr("drcrm.logs.estimated_propensities.MOST", 1000)
    assert 0 < abs(np.log(estimates(frame)) - np.log(whole)).mean() < 0.06


def test_estimates_from_noise_are_calibrated():
    """With 30 columns of noise a plain fit is overconfident; after calibration the mean of 1/p is close to K."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.normal(size=(150, 30))).rename(columns="n{}".format)
    frame["a"], frame["c"] = rng.integers(0, 3, 150), 0.0
    mapping = {**MAPPING, "features": {"numeric": [f"n{i}" for i in range(30)]}}
    assert abs((1 / estimates(frame, mapping)).mean() - 3) < 0.4


def test_a_log_records_that_its_propensities_are_estimated():
    frame, _ = softmax_frame(60)
    log = drcrm.BanditLog.from_frame(frame, MAPPING)
    assert log.imitated_propensities
    assert np.array_equal(log.propensity, estimates(frame))
    assert log.recount(np.arange(60) % 2).imitated_propensities


def test_an_estimate_does_not_depend_on_actions_of_its_fold():
    """Apart from the temperature, which all folds share."""
    frame, _ = softmax_frame(40)
    mapping = {**MAPPING, "group": "g"}
    before = estimates(frame, mapping, folds=2)
    frame.loc[0, "a"] = (frame.loc[0, "a"] + 1) % 3
    after = estimates(frame, mapping, folds=2)
    assert abs(np.log(after[1:4]) / np.log(before[1:4]) - 1).max() < 0.2


def test_without_features_labels_have_their_shares():
    frame, _ = softmax_frame(2000)
    frame["k"], frame["l"] = frame["x"] > 0, np.arange(2000) % 4 == 0
    mapping = {key: value for key, value in MAPPING.items() if key != "action"} | {"labels": ["k", "l"], "features": {}}
    labels = frame[["k", "l"]].to_numpy()
    expected = np.prod(np.where(labels, labels.mean(axis=0), 1 - labels.mean(axis=0)), axis=1)
    assert np.allclose(estimates(frame, mapping), expected, rtol=0.1)


@pytest.mark.parametrize("kind", ["deterministic", "rare action"])
def test_estimates_are_at_least_1_over_n(kind):
    frame, _ = softmax_frame(50)
    if kind == "deterministic":
        frame["a"] = (frame["x"] > 0).astype(int)
    else:
        frame.loc[7, "a"] = 9
    estimated = estimates(frame)
    assert ((estimated >= 1 / 50) & (estimated <= 1)).all()


@pytest.mark.parametrize(("n", "mapping"), [(1, MAPPING), (4, {**MAPPING, "group": "g"})])
def test_a_single_row_or_group_is_rejected(n, mapping):
    frame, _ = softmax_frame(n)
    with pytest.raises(InputError, match="the log has a single context or group"):
        estimates(frame, mapping)


def stepped_frame(n: int, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """Return rows of a logging policy that no softmax of x and z describes, and its probabilities."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    preferred = (X[:, 0] * X[:, 1] > 0).astype(int) + (abs(X[:, 0]) > 1)
    action = np.where(rng.random(n) < 0.7, preferred, rng.integers(0, 3, n))
    frame = pd.DataFrame({"x": X[:, 0], "z": X[:, 1], "a": action, "c": 0.0})
    return frame, np.where(action == preferred, 0.8, 0.1)


def mean_error(frame: pd.DataFrame, truth: np.ndarray, model: str, mapping: dict = MAPPING) -> float:
    return float(abs(np.log(estimates(frame, mapping | {"propensity_model": model})) - np.log(truth)).mean())


@pytest.mark.usefixtures("shipped_sizes")
def test_auto_takes_the_model_with_the_largest_likelihood_and_keeps_another_one():
    for draw, is_softmax in ((softmax_frame, True), (stepped_frame, False)):
        frame, truth = draw(1500)
        log = estimate_propensities(read_raw_log(frame, MAPPING | {"propensity_model": "auto"}))
        softmax_estimates = estimates(frame, MAPPING)
        assert np.array_equal(log.propensity, softmax_estimates) == is_softmax
        second = log.column(SECOND)
        assert np.log(second).sum() < np.log(log.propensity).sum()
        assert abs(np.log(second) - np.log(truth)).mean() < (
            0.6 if is_softmax else abs(np.log(softmax_estimates / truth)).mean()
        )


@pytest.mark.usefixtures("audited_by_trees")
def test_a_forest_follows_a_rule_of_two_categories_and_forecasts_follow_its_reward():
    rng = np.random.default_rng(0)
    u, v = rng.integers(0, 6, (2, 3000))
    preferred = rng.integers(0, 3, (6, 6))[u, v]
    action = np.where(rng.random(3000) < 0.6, preferred, rng.integers(0, 3, 3000))
    frame = pd.DataFrame({"u": u, "v": v, "a": action, "c": preferred + rng.normal(size=3000)}).astype(
        {"u": str, "v": str}
    )
    mapping = MAPPING | {"propensity_model": "auto", "features": {"categorical": ["u", "v"]}}
    log = estimate_propensities(read_raw_log(frame, mapping))
    truth = np.where(action == preferred, 0.6 + 0.4 / 3, 0.4 / 3)
    assert abs(np.log(log.propensity) - np.log(truth)).mean() < 0.2 < mean_error(frame, truth, "softmax", mapping) / 2
    assert np.corrcoef(log.column(FORECASTS)[:, 0], preferred)[0, 1] > 0.95


@pytest.mark.usefixtures("audited_by_trees")
def test_estimates_are_at_least_the_rate_that_the_log_supports():
    """A softmax knows no exploration: without a floor its smallest estimates are far below the true 0.02."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(4000, 2))
    mean = 0.9 * softmax(4 * np.column_stack([X, -X.sum(axis=1), 0 * X]), axis=1) + 0.02
    action = draw_actions(mean, rng)
    frame = pd.DataFrame({"x": X[:, 0], "z": X[:, 1], "a": action, "c": 0.0})
    assert 0.013 < estimates(frame).min() < 0.027
    frame, truth = softmax_frame(4000)
    assert 0.5 < estimates(frame).min() / truth.min() < 2
    log = BanditLog(
        np.ones((4000, 1)), np.r_[np.zeros(3900), np.ones(100)].astype(int), np.full(4000, 0.5), np.zeros(4000)
    )
    right, wrong = (np.tile([1 - p, p], (4000, 1)) for p in (0.025, 0.0025))
    assert (supported_floor(log, right), supported_floor(log, wrong)) == (0.0, 0.025)


@pytest.mark.usefixtures("audited_by_trees")
def test_trees_correct_lists_and_not_label_vectors():
    frame, _ = stepped_frame(600)
    rows = pd.DataFrame({"list": np.repeat(np.arange(600), 3), "place": np.tile(np.arange(3), 600)})
    rows["x"], rows["z"] = (np.repeat(frame[name].to_numpy(), 3) for name in "xz")
    rows["took"], rows["c"] = (np.repeat(frame["a"].to_numpy(), 3) == rows["place"]).astype(int), 0.0
    lists = {"list": "list", "chosen": "took", "cost": "c", "propensity": None}
    lists |= {"features": {"numeric": ["x", "z", "place"]}}
    soft, trees = (estimates(rows, lists | {"propensity_model": name}) for name in ("softmax", "trees"))
    assert np.log(trees).mean() > np.log(soft).mean() + 0.02
    frame["u"], frame["v"] = frame["a"] % 2, frame["a"] // 2
    labels = {"labels": ["u", "v"], "cost": "c", "propensity": None, "features": {"numeric": ["x", "z"]}}
    soft, trees = (estimates(frame, labels | {"propensity_model": name}) for name in ("softmax", "trees"))
    np.testing.assert_array_equal(trees, soft)
