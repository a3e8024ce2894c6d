"""The gain per row and per week, as a cost and in the user's outcome."""

import json
import math
import re

import numpy as np
import pandas as pd
import pytest

N, DAYS = 600, 14
MAPPING = {"action": "a", "propensity": "p", "reward": "sales", "features": {"numeric": ["x"]}}


@pytest.fixture
def certify(answer, tmp_path):
    """Certify a column of a log in which action 1 is better than action 0, and return the answer with its report."""
    rng = np.random.default_rng(0)
    action = rng.integers(0, 2, N)
    frame = pd.DataFrame({"x": rng.normal(size=N), "a": action, "p": 0.5, "pi": np.where(action, 0.9, 0.1)})
    frame["noise"] = rng.choice([0.1, 0.9], N)
    frame["sales"] = 3.0 * (rng.random(N) < 0.3 + 0.4 * action)
    frame["when"] = pd.date_range("2026-03-02", periods=N, freq=pd.Timedelta(days=DAYS) / (N - 1))

    def certify(*options, days: float = DAYS, policy: str = "pi", **keys) -> tuple[dict, str]:
        start = frame["when"].iloc[0]
        frame.assign(when=start + (frame["when"] - start) * days / DAYS).to_csv(tmp_path / "log.csv", index=False)
        report = tmp_path / "report.html"
        config = json.dumps(MAPPING | keys)
        options = ["--config", config, "--report", report, *options]
        return answer(
            "evaluate_policy" if policy == "noise" else "certify", f"column:{policy}", tmp_path / "log.csv", *options
        )[0], report.read_text(encoding="utf-8")

    return certify


@pytest.mark.parametrize("options", [[], ["--anytime", "--asymptotic"]])
def test_the_gain_per_week_is_that_per_row_times_the_rows_per_week(options, certify):
    answer, report = certify(*options, time="when")
    gain, [candidate] = answer["gain"], answer["candidates"]
    assert gain["outcome"] == "sales"
    assert gain["rows_per_week"] == pytest.approx(N * 7 / DAYS)
    for unit in ("cost", "outcome"):
        for end, value in gain["per_row"][unit].items():
            assert gain["per_week"][unit][end] == pytest.approx(N * 7 / DAYS * value)
    cost, outcome = (gain["per_row"][unit] for unit in ("cost", "outcome"))
    assert cost["value"] == pytest.approx(candidate["difference"]["value"])
    assert cost["bound"] == pytest.approx(candidate["difference"]["bound"])
    assert [outcome["value"], outcome["low"], outcome["high"], outcome["bound"]] == pytest.approx(
        [-cost["value"], -cost["high"], -cost["low"], -cost["bound"]]
    )
    week = gain["per_week"]["outcome"]
    error = 300 * candidate["difference"]["standard_error"]
    decimals = max(0, 1 - math.floor(math.log10(error)))  # two digits of the standard error
    sentence = f"At 300 rows per week, as in this log, that is +{week['value']:.{decimals}f} sales per week "
    assert sentence in answer["verdict"]["sentence"]
    assert sentence in report
    assert f"and at least +{week['bound']:.{decimals}f}." in answer["verdict"]["sentence"]


def test_without_times_over_a_day_nothing_is_said_of_a_week(certify):
    for keys in ({}, {"time": "when", "days": 0.9}):
        answer, report = certify(**keys)
        assert answer["gain"]["rows_per_week"] is answer["gain"]["per_week"] is None
        assert answer["gain"]["per_row"]["outcome"]["value"] > 0
        assert "per week" not in answer["verdict"]["sentence"] + report


def test_bounds_per_week_are_those_per_row_if_nothing_is_shown(certify):
    sentence = certify(time="when", policy="noise")[0]["verdict"]["sentence"].replace("−", "-")
    [row] = re.findall(r"The change is above (\S+) .*?and below (\S+) ", sentence)
    [week] = re.findall(r"At 300 rows per week, as in this log, that is above (\S+) and below (\S+) sales", sentence)
    assert [*map(float, week)] == pytest.approx([300 * float(end) for end in row], abs=1)
