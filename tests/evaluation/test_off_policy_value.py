"""IPS and SNIPS of a policy on dsjson equal Vowpal Wabbit's own estimators, read by its own parser."""

import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from fixtures.text_logs import LINES, candidate
from scipy import stats

from drcrm import BanditLog, CostModel, ExponentialPolicy, off_policy_value, off_policy_values, read_log
from drcrm.risks import KLBall

STATED = json.loads((Path(__file__).parents[1] / "data/vw_estimates.json").read_text())


@pytest.mark.parametrize("estimate", ["ips", "snips"])
def test_estimates_of_dsjson_equal_those_of_vowpal_wabbit(estimate, tmp_path):
    (tmp_path / "log.dsjson").write_text("\n".join(LINES) + "\n")
    log = read_log(tmp_path / "log.dsjson")
    sizes = np.diff(log.actions.starts)
    assert (len(log.Y), sum(log.skipped.values())) == (STATED["events"], 200 - STATED["events"])
    probability = np.array([candidate(action, size) for action, size in zip(log.Y, sizes, strict=True)])
    assert -off_policy_value(probability, log, estimate) == pytest.approx(STATED[estimate], rel=1e-9)


def test_doubtful_estimates_raise_warnings():
    """Few rows have the policy's actions, or the value is outside the range of the logged costs."""
    rng = np.random.default_rng(24)
    Y, X = rng.integers(0, 2, (400, 3)), np.ones((400, 1))
    log = BanditLog(X, Y, np.full(400, 1 / 8), Y.sum(axis=1) - 3.0)
    for sharpness, estimate in product((0.0, 5.0), ("ips", "snips", "dr", "dm")):  # without a warning
        off_policy_value(ExponentialPolicy(np.full((1, 3), -sharpness)), log, estimate)
    always = ExponentialPolicy([[30.0, 30, 30]])
    few_weights = "^the mean weight is .*, far below 1: the log has few of the actions"
    with pytest.warns(UserWarning, match=few_weights) as caught:
        off_policy_value(always, log.recount(~Y.all(axis=1)), "dr")
    assert [warning.filename for warning in caught] == [__file__]
    costly = log.with_cost(log.cost + 10).recount(1 + 9 * Y.all(axis=1))
    with pytest.warns(UserWarning, match="^the estimate by 'ips' is .*, outside the range of the logged costs"):
        off_policy_value(always, costly, "ips")


def test_all_estimates_are_those_of_off_policy_value():
    rng = np.random.default_rng(3)
    X = np.column_stack([rng.normal(size=(300, 2)), np.ones(300)])
    logging, policy = ExponentialPolicy(np.zeros((3, 2))), ExponentialPolicy(rng.normal(size=(3, 2)))
    Y = logging.sample(X, 0)
    log = BanditLog(X, Y, np.full(300, 1 / 4), -1.0 * (Y[:, 0] == (X[:, 0] > 0)))
    options = {"confidence": 0.9, "baseline": "logging", "groups": np.arange(300) // 3}
    model = CostModel().fit(log)
    table = off_policy_values(policy, log, clip=1.5, cost_model=model, **options)
    assert table.columns.tolist() == ["value", "standard_error", "low", "high"]
    for name, row in table.iterrows():
        clip = 1.5 if name.startswith(("clipped_", "switch")) else None
        value = off_policy_value(policy, log, name, clip=clip, cost_model=model, **options)
        np.testing.assert_allclose(row, [value, value.standard_error, *value.interval], rtol=1e-12)
    probability = np.exp(policy.log_prob(X, Y))
    of_logged_actions = off_policy_values(probability, log, clip=1.5, **options)
    weighted = ["ips", "clipped_ips", "snips", "clipped_snips"]
    np.testing.assert_allclose(of_logged_actions.loc[weighted], table.loc[weighted], rtol=1e-12)
    assert of_logged_actions.drop(index=weighted).isna().all(axis=None)


def test_the_repr_of_an_estimate_shows_its_interval_and_its_text_the_number():
    """A single row and a risk have no interval."""
    costs, Y = -np.arange(8.0), np.zeros((8, 1), dtype=int)
    log, policy = BanditLog(np.ones((8, 1)), Y, np.full(8, 0.5), costs), np.full(8, 0.5)
    value = off_policy_value(policy, log, "ips", confidence=0.9)
    assert repr(value) == f"-3.5 (ips, 90 % interval {value.low:.6g} to {value.high:.6g}, n = 8 rows)"
    half = stats.t.ppf(0.95, 7) * np.std(costs, ddof=1) / np.sqrt(8)
    assert (value.low, value.high) == pytest.approx((-3.5 - half, -3.5 + half))
    assert (str(value), f"{value}", json.dumps(value)) == ("-3.5", "-3.5", "-3.5")
    assert "no interval" in repr(off_policy_value(policy, log, "ips", risk=KLBall(0.1)))
