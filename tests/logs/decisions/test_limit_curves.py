"""Curves of the gain against a limit, on a log whose best gain within each limit is known in closed form."""

from functools import cache
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

from drcrm import learn
from drcrm.errors import InputError

ACTIONS, EXPLORE = ["call", "mail", "none"], 0.05
FEATURES = {"features": {"numeric": ["x", "y"]}, "explore": EXPLORE}
MAPPING = {"action": "a", "propensity": "p", "reward": "r", **FEATURES}
SHARE, RAIL = {"limits": {"call": "20 %"}}, {"guardrails": {"annoyed": {"cost": "u", "at_most": "30 %"}}}


def gains(x: np.ndarray) -> np.ndarray:
    return np.column_stack([0.12 + 0.6 * x**2, np.full(len(x), 0.1), np.zeros(len(x))])


def draw_log(n: int, seed: int) -> pd.DataFrame:
    """Return uniform actions: a call gains .12 + .6 x² and annoys 30 %, mail gains .1 and annoys 5 %."""
    rng = np.random.default_rng(seed)
    x, y, a = rng.random(n), rng.random(n), rng.integers(0, 3, n)
    reward = 1 * (rng.random(n) < 0.2 + gains(x)[np.arange(n), a])
    harm = 1 * (rng.random(n) < np.array([0.3, 0.05, 0.0])[a])
    return pd.DataFrame({"x": x, "y": y, "a": np.array(ACTIONS)[a], "p": 1 / 3, "r": reward, "u": harm})


def best_gain(at_most: float) -> float:
    """Return the gain of the best policy within a share of calls over the uniform policy: calls for the largest x."""
    share = min(max((at_most - EXPLORE / 3) / (1 - EXPLORE), 0.0), 1.0)
    calls = 0.12 * share + 0.2 * (1 - (1 - share) ** 3)
    return (1 - EXPLORE) * (calls + 0.1 * (1 - share) - (0.32 + 0.1) / 3)


@cache
def learned(kind: str = "share", curve: bool = True):
    limit = SHARE if kind == "share" else RAIL
    return learn(draw_log(6000, 0), MAPPING | limit, readable=True, curve=curve)


def on_new_rows(answer):
    """Return the probabilities of the trees of the curve on new rows, in the order of ACTIONS, and the rows' x."""
    later, encoding = draw_log(50_000, 1), answer.candidate.encoding if answer.candidate else answer.policy.encoding
    contexts = encoding.contexts(later)
    order = [encoding.names.index(name) for name in ACTIONS]
    return [policy.marginals(contexts)[:, order] for policy in answer.curves[0].policies], later["x"].to_numpy()


def test_the_curve_is_near_the_best_gain_within_each_limit_and_its_bounds_hold_on_new_rows():
    answer = learned()
    [curve] = answer.as_dict()["curve"]
    probabilities, x = on_new_rows(answer)
    points, values = curve["points"], [point["limit"]["at_most"] for point in curve["points"]]
    assert (curve["limit"], curve["own"]) == ("share of call", 0.2)
    assert 0.2 in values
    assert 5 <= len(values) <= 7
    assert values == sorted(values)
    assert values[-1] > 0.7  # nearly everybody is called without a limit
    differences = [point["difference"] for point in points]
    for value, point, probability in zip(values, points, probabilities, strict=True):
        use, gain = probability[:, 0].mean(), ((probability - 1 / 3) * gains(x)).sum(axis=1).mean()
        assert use <= point["limit"]["bound"] < value + 0.02
        assert gain <= best_gain(value) + 0.002
        assert best_gain(value) - gain < 0.05  # the cost of the narrower aim and of two splits
        assert -point["difference"]["high"] <= gain <= -point["difference"]["low"]
        assert -point["difference"]["bound"] <= gain
    for before, after in pairwise(differences):
        assert after["value"] <= before["high"]  # costs: the gain does not fall beyond its interval
    assert differences[-1]["high"] < differences[0]["low"]


def test_a_margin_has_a_curve_too():
    answer = learned("guardrail")
    [curve] = answer.as_dict()["curve"]
    rails = [point["guardrail"] for point in curve["points"]]
    margins = [rail["margin"] for rail in rails]
    assert curve["guardrail"] == "annoyed"
    assert margins == sorted(margins)
    assert len(margins) >= 5
    probabilities, _ = on_new_rows(answer)
    for rail, probability in zip(rails, probabilities, strict=True):
        change = (probability.mean(axis=0) - 1 / 3) @ [0.3, 0.05, 0.0]
        assert rail["difference"]["lower_bound"] <= change <= rail["difference"]["bound"]
    first, *_, last = (point["difference"] for point in curve["points"])
    assert last["value"] < first["value"]


def test_the_verdict_stays(tmp_path):
    with_curve, without = learned().as_dict(), learned(curve=False).as_dict()
    assert with_curve.pop("curve")
    assert with_curve == without


def test_the_text_and_the_report_show_the_curve(tmp_path):
    answer = learned()
    text = " ".join(str(answer).split())
    assert "* at most 20 %" in text
    assert "All bounds on trees hold together with 95 % confidence." in text
    answer.report(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "Gain against the limit: share of call" in page
    assert "polyline" in page.split("Gain against the limit")[1]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, "--curve needs a limit, a budget or a guardrail in the mapping, such as limits: {ACTION: 20 %}"),
        (SHARE | {"validation": "blocks"}, "--curve needs held-out rows: use --validation holdout"),
    ],
)
def test_a_curve_without_a_limit_or_with_blocks_is_refused(changes, message):
    with pytest.raises(InputError, match=message):
        learn(draw_log(300, 0), MAPPING | changes, curve=True)
