"""``certify --anytime``: bounds at every look, over several files, against the library."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from shop import CITIES, MAPPING, NAMES, decisions
from shop_fixtures import answer_of

from drcrm.certificates import upper_bound

RULE = "column:mine"


def weekly(n: int, seed: int = 0) -> pd.DataFrame:
    """Return decisions with the probabilities of a policy that mostly takes the right item, and a day."""
    frame = decisions(n, seed)
    right = NAMES[(pd.Index(CITIES).get_indexer(frame["city"]) + (frame["price"] > 30)) % 3]
    day = np.random.default_rng(seed).permutation(n)
    return frame.assign(mine=np.where(frame["item"] == right, 0.8, 0.1), day=day)


@pytest.fixture
def certify(run, tmp_path):
    """Certify the policy of a column; return the answer."""

    def certify(*frames: pd.DataFrame, **changes) -> dict:
        paths = [tmp_path / f"week{number}.csv" for number in range(len(frames))]
        for path, frame in zip(paths, frames, strict=True):
            frame.to_csv(path, index=False)
        config = json.dumps(MAPPING | {"features": {"numeric": ["age", "price"], "categorical": ["city"]}} | changes)
        arguments = ["certify", RULE, *paths, "--config", config, "--anytime", "--json", tmp_path / "a.json"]
        status, _, error = run(*arguments, "--report", tmp_path / "r.html")
        assert (status, error) == (0, "")
        return answer_of(tmp_path / "a.json")

    return certify


def terms(frame: pd.DataFrame) -> np.ndarray:
    return (1 - frame["mine"] / frame["p"]).to_numpy() * frame["click"].to_numpy()


def test_the_bounds_are_those_of_the_library(certify, tmp_path):
    weeks = weekly(700), weekly(600, seed=1)
    answer, frame = certify(*weeks), pd.concat(weeks)
    running = answer["running"]
    assert running["difference_bound"] == pytest.approx(upper_bound(terms(frame), method="anytime", high=1), abs=1e-9)
    cost = -(frame["mine"] / frame["p"] * frame["click"]).to_numpy()
    assert running["bound"] == pytest.approx(upper_bound(cost, method="anytime", high=0), abs=1e-9)
    assert (running["n"], running["by"]) == (1300, "row")
    assert answer["candidates"][0]["certificate"]["bound"] == running["bound"]
    for rows, bound in running["curve"][::20]:
        assert bound == pytest.approx(upper_bound(terms(frame)[:rows], method="anytime", high=1), abs=1e-9)
    assert "Bound at every look" in (tmp_path / "r.html").read_text(encoding="utf-8")


def test_rows_are_taken_by_time_and_the_first_better_row_is_exact(certify):
    frame = weekly(3000)
    answer = certify(frame, time="day")
    z = terms(frame.sort_values("day"))
    bounds = [upper_bound(z[:n], method="anytime", high=1) for n in range(1, len(z) + 1)]
    first, looks = answer["running"]["first_better"], [rows for rows, _ in answer["running"]["curve"]]
    assert first is not None
    below = 1 + np.flatnonzero(np.array(bounds) < 0)
    before = max((rows for rows in looks if rows < first), default=0)
    assert first == below[below > before][0]
    assert answer["verdict"]["verdict"] == "certified"
    assert f"first shown to be better after row {first}." in answer["verdict"]["sentence"]


def test_a_group_is_one_unit_at_its_last_row(certify):
    frame = weekly(900).assign(user=np.random.default_rng(2).integers(0, 300, 900))
    running = certify(frame, group="user")["running"]
    z = pd.Series(terms(frame))
    users = frame["user"].to_numpy()
    last = pd.Series(np.arange(900)).groupby(users).max().sort_values()
    means = z.groupby(users).mean().loc[last.index].to_numpy()
    assert (running["n"], running["by"]) == (len(means), "group")
    assert running["difference_bound"] == pytest.approx(upper_bound(means, method="anytime", high=1), abs=1e-9)
    assert running["curve"][-1][0] == 900


def test_other_outcomes_need_their_range(run, tmp_path):
    weekly(300).assign(click=lambda frame: 2.5 * frame["click"]).to_csv(tmp_path / "log.csv", index=False)
    for changes, expected in (({}, "--anytime needs cost_range in the mapping"), ({"cost_range": [-2.5, 0]}, "")):
        config = json.dumps(MAPPING | {"features": {"numeric": ["age"]}} | changes)
        status, _, error = run("certify", RULE, tmp_path / "log.csv", "--config", config, "--anytime")
        assert (status, expected in error) == (1 if expected else 0, True)


def test_inconsistent_propensities_are_not_certified(run, tmp_path):
    frame = weekly(2000)
    frame.assign(p=1 / 3).to_csv(tmp_path / "log.csv", index=False)
    config = json.dumps(MAPPING | {"features": {"numeric": ["age", "price"], "categorical": ["city"]}})
    arguments = ["certify", RULE, tmp_path / "log.csv", "--config", config, "--anytime", "--json", tmp_path / "a.json"]
    assert run(*arguments)[0] == 0
    answer = answer_of(tmp_path / "a.json")
    assert (answer["verdict"]["verdict"], answer["running"]) == ("the log is wrong", None)
