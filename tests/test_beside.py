"""What docs/beside.md says of other tools is what the rows in docs/results say."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

DOCS = Path(__file__).parents[1] / "docs"
CLAIMS = "better", "worse", "deploy"
SEEDS = 20


@pytest.fixture(scope="module")
def found() -> pd.DataFrame:
    return pd.read_csv(DOCS / "results/verdicts_beside.csv").set_index(["judge", "log", "policy"]).sort_index()


def cell(row: pd.Series) -> str:
    """Counted verdicts, in short, what the truth refutes in bold."""
    parts = []
    for each in row["verdicts"].split("; "):
        many, verdict = each.split(" ", 1)
        short = verdict.replace("the log cannot say", "cannot say").replace("the log is wrong", "log is wrong")
        parts.append(f"**{many} {short}**" if verdict in CLAIMS and row["wrong"] > 0 else f"{many} {short}")
    return ", ".join(parts)


def test_the_table_is_that_of_the_rows(found):
    lines = [line for line in (DOCS / "beside.md").read_text(encoding="utf-8").splitlines() if line.startswith("|")][2:]
    assert len(lines) == len(found.loc["drcrm"])
    for line in lines:
        log, policy, gain, *cells = line.strip("| ").split(" | ")
        judges = "drcrm", "drcrm, imitated", "skdr-eval SNDR", "skdr-eval plain"
        assert cells == [cell(found.loc[judge, log, policy]) for judge in judges]
        assert float(gain.replace("−", "-")) == pytest.approx(found.loc["drcrm", log, policy]["true gain"], abs=5.1e-4)


def test_sentences_are_those_of_the_rows(found):
    def claimed(judge: str, logs: list[str], policies: list[str], what: str) -> int:
        return round(SEEDS * sum(found.loc[judge, log, policy][what] for log in logs for policy in policies))

    every, gaining, answered = ["near", "far", "bad"], ["near", "far"], ["good", "drift"]
    own, plain, trap, turns = "skdr-eval SNDR", "skdr-eval plain", ["no overlap, a trap"], ["drift that turns"]
    assert [claimed(judge, answered, every, "right") for judge in ("drcrm", own, plain)] == [117, 19, 76]
    assert [claimed(judge, ["sharp"], gaining, "right") for judge in (plain, "drcrm")] == [25, 11]
    assert claimed("drcrm", ["wrong by 2"], every, "named") == claimed("drcrm", ["wrong by 2"], every, "open") == 60
    assert [claimed(judge, ["wrong by 2"], every, "right") for judge in ("drcrm, imitated", plain)] == [60, 39]
    assert claimed("drcrm", trap, gaining, "open") == 40
    assert [claimed(judge, trap, gaining, "wrong") for judge in (own, plain, "drcrm, imitated")] == [2, 36, 40]
    assert [claimed(judge, turns, gaining, "wrong") for judge in ("drcrm", own, plain)] == [0, 0, 6]
    assert claimed("drcrm", turns, gaining, "open") == 40
    assert (found.loc["drcrm", "drift that turns"]["raised"] == "drift of the gain").all()
    assert claimed("drcrm", turns, ["bad"], "right") == 11
    far, bad = found.loc[own, "good", "far"], found.loc[plain, "sharp", "bad"]
    assert (round(far["estimated gain"], 2), round(far["true gain"], 2)) == (0.04, 0.1)
    assert (round(bad["estimated gain"], 3), round(bad["true gain"], 3)) == (-0.002, -0.042)
    assert (found.loc["skdr-eval DR", "verdicts"] == f"{SEEDS} do_not_deploy").all()
