"""Later logs of a policy: late outcomes, missing actions, and the gain by week."""

import json
import math
import re

import numpy as np
import pandas as pd
import pytest

from drcrm.__main__ import main
from drcrm.logs.decisions.question import HELDOUT_ROWS
from drcrm.logs.policy_file import read_policy

N = 1000
MAPPING = {"action": "a", "propensity": "p", "reward": "click", "features": {"numeric": ["x"]}, "algorithm": "cips"}


def visits(seed: int, levels: int = 0) -> pd.DataFrame:
    """Return rows in which the action 1 is better if x > 0, and whose ids are beyond 2⁵³."""
    rng = np.random.default_rng(seed)
    x, a = rng.normal(size=N), rng.integers(0, 2, N)
    x = x if not levels else np.round(x * levels / 4)
    click = (rng.random(N) < 0.2 + 0.5 * (a == (x > 0))).astype(int)
    frame = pd.DataFrame({"x": x, "a": a, "p": 0.5, "click": click, "id": 2**60 + seed * N + np.arange(N)})
    return frame.assign(sale=10 * (rng.random(N) < 0.5) * click)


def late(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(click=np.where(np.random.default_rng(9).random(N) < 0.05, 1, frame["click"]))


def learn(run, folder, frame: pd.DataFrame, **keys) -> None:
    frame.to_csv(folder / "monday.csv", index=False)
    (folder / "map.json").write_text(json.dumps(MAPPING | keys))
    assert run("learn", folder / "monday.csv", "--config", folder / "map.json", "--output", folder / "p.npz")[0] == 0


@pytest.fixture
def certify(answer, tmp_path):
    """Certify the learned policy on a frame; return the answer."""

    def certify(frame: pd.DataFrame, *options) -> dict:
        frame.to_csv(tmp_path / "friday.csv", index=False)
        return answer("certify", tmp_path / "p.npz", tmp_path / "friday.csv", *options)[0]

    return certify


@pytest.mark.parametrize(
    ("levels", "keys", "order"),
    [(4, {}, "as before"), (4, {}, "shuffled"), (4, {"id": "id"}, "shuffled")],
)
def test_rows_are_recognised_although_their_outcomes_changed(levels, keys, order, tmp_path, run, certify):
    monday = visits(0, levels)
    learn(run, tmp_path, monday, **keys)
    friday = late(monday).sample(frac=1, random_state=0) if order == "shuffled" else late(monday)
    answer = certify(friday)
    if levels and not keys and order == "shuffled":  # equal rows are no evidence, and the order is another
        assert answer["recognised"] == {"training": 0, "heldout": 0, "new": N}
        assert any("cannot tell whether they trained the policy" in text for text in answer["verdict"]["cautions"])
        return
    heldout = read_policy(tmp_path / "p.npz", with_rows=True).rows.heldout
    assert answer["recognised"] == {"training": N - heldout.sum(), "heldout": heldout.sum(), "new": 0}
    assert answer["judged_by"] == HELDOUT_ROWS
    current = late(monday)["click"].to_numpy()[heldout].mean()
    assert answer["logging"]["value"] == pytest.approx(-current)
    assert abs(current - monday["click"][heldout].mean()) > 0.01


@pytest.mark.parametrize("form", ["dsjson", "npz"])
def test_formats_without_columns_identify_rows_by_their_ids(form, tmp_path, run, answer):
    """EventId of dsjson and the array id of npz; a value may be beyond 2⁵³."""

    def write(name: str, frame: pd.DataFrame) -> list:
        path = tmp_path / f"{name}.{form}"
        if form == "npz":
            arrays = {"X": frame[["x"]], "Y": frame["a"], "propensity": frame["p"], "reward": frame["click"]}
            np.savez(path, **arrays, id=frame["id"])
            return [path]
        events = [
            {
                "EventId": str(row.id),
                "_label_cost": -row.click,
                "_label_probability": row.p,
                "_label_Action": row.a + 1,
                "_labelIndex": row.a,
                "a": [1, 2],
                "p": [0.5, 0.5],
                "c": {"x": row.x, "_multi": [{"i": "a"}, {"i": "b"}]},
            }
            for row in frame.itertuples()
        ]
        path.write_text("".join(f"{json.dumps(event)}\n" for event in events))
        return [path]

    monday, policy = visits(0, levels=4), tmp_path / "p.npz"
    config = json.dumps({"algorithm": "cips"})
    assert run("learn", *write("monday", monday), "--config", config, "--output", policy)[0] == 0
    friday = pd.concat([late(monday), visits(5, levels=4)]).sample(frac=1, random_state=0)
    for frame, old in ((friday, N), (visits(6, levels=4), 0)):
        counts = answer("certify", policy, *write("friday", frame))[0]["recognised"]
        assert (counts["training"] + counts["heldout"], counts["new"]) == (old, N)


def test_a_second_outcome_is_certified_on_the_heldout_rows_without_the_cost_model_of_the_first(tmp_path, run, certify):
    monday = visits(1)
    learn(run, tmp_path, monday, algorithm="kl_dro_dr")
    config = json.dumps(MAPPING | {"reward": "sale"})
    answer = certify(pd.concat([monday, visits(2)]), "--config", config)
    heldout = read_policy(tmp_path / "p.npz", with_rows=True).rows.heldout
    assert answer["recognised"] == {"training": N - heldout.sum(), "heldout": heldout.sum(), "new": N}
    assert answer["candidates"][0]["certificate"]["estimate"] == "snips"
    rows = pd.concat([monday[heldout], visits(2)])
    assert answer["logging"]["value"] == pytest.approx(-rows["sale"].mean())
    arguments = ["certify", tmp_path / "p.npz", tmp_path / "friday.csv", "--config", config, "--estimate", "dr"]
    assert "a cost model of this outcome" in run(*arguments)[2]


SCORES = {"action": "action", "propensity": "p", "reward": "score", "algorithm": "cips"}
SCORES |= {"features": {"numeric": ["x", "u"]}, "cost_range": [-1, 0]}


def write_log(path, n, seed):
    """Write a log in which action a, better elsewhere, is never drawn where u is below 0.1."""
    rng = np.random.default_rng(seed)
    x, u = rng.normal(size=n), rng.random(n)
    P = np.where(u[:, None] < 0.1, [0, 0.5, 0.5], [0.4, 0.3, 0.3])
    action = (P.cumsum(axis=1) < rng.random(n)[:, None]).sum(axis=1)
    frame = pd.DataFrame({"x": x, "u": u, "action": np.array(["a", "b", "c"])[action], "p": P[np.arange(n), action]})
    frame.assign(score=0.7 + 0.1 * (action == 0) + 0.1 * rng.uniform(-1, 1, n)).to_csv(path, index=False)


def answer_to(command, log, tmp_path, *options):
    """Return the answer of a command on a log."""
    main([command, *options, str(log), "--json", str(tmp_path / "answer.json")])
    return json.loads((tmp_path / "answer.json").read_text())


def is_charged(answer):
    [best] = [candidate for candidate in answer["candidates"] if candidate.get("best")]
    charges = [caution for caution in answer["verdict"]["cautions"] if "(a)" in caution]
    assert len(charges) == best["certificate"]["missing"]
    return best["certificate"]["missing"]


@pytest.mark.slow
@pytest.mark.usefixtures("shipped_sizes")
@pytest.mark.filterwarnings("ignore")
def test_learn_and_certify_charge_the_cells_that_learn_finds(tmp_path, capsys):
    first, second, policy = (tmp_path / name for name in ("first.csv", "second.csv", "policy.npz"))
    write_log(first, 1600, 0)
    write_log(second, 500, 1)
    options = "--output", str(policy), "--config"
    for name, content in (("plain", SCORES), ("full", SCORES | {"least_propensity": 0.3})):
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    assert not is_charged(answer_to("learn", first, tmp_path, *options, str(tmp_path / "full.json")))
    assert read_policy(policy).cells is None
    assert is_charged(answer_to("learn", first, tmp_path, *options, str(tmp_path / "plain.json")))
    cells = read_policy(policy).cells
    assert set(cells.action) == {0}
    candidate = str(tmp_path / "policy.candidate.npz")
    candidate = candidate if (tmp_path / "policy.candidate.npz").exists() else str(policy)
    assert is_charged(answer_to("certify", second, tmp_path, candidate))


VISITS, DAYS = 600, 14
SALES = {"action": "a", "propensity": "p", "reward": "sales", "features": {"numeric": ["x"]}}


@pytest.fixture
def gain_of(answer, tmp_path):
    """Certify a column of a log in which action 1 is better than action 0, and return the answer with its report."""
    rng = np.random.default_rng(0)
    action = rng.integers(0, 2, VISITS)
    frame = pd.DataFrame({"x": rng.normal(size=VISITS), "a": action, "p": 0.5, "pi": np.where(action, 0.9, 0.1)})
    frame["noise"] = rng.choice([0.1, 0.9], VISITS)
    frame["sales"] = 3.0 * (rng.random(VISITS) < 0.3 + 0.4 * action)
    frame["when"] = pd.date_range("2026-03-02", periods=VISITS, freq=pd.Timedelta(days=DAYS) / (VISITS - 1))

    def gain_of(*options, days: float = DAYS, policy: str = "pi", **keys) -> tuple[dict, str]:
        start = frame["when"].iloc[0]
        frame.assign(when=start + (frame["when"] - start) * days / DAYS).to_csv(tmp_path / "log.csv", index=False)
        report = tmp_path / "report.html"
        config = json.dumps(SALES | keys)
        options = ["--config", config, "--report", report, *options]
        return answer(
            "evaluate_policy" if policy == "noise" else "certify", f"column:{policy}", tmp_path / "log.csv", *options
        )[0], report.read_text(encoding="utf-8")

    return gain_of


@pytest.mark.parametrize("options", [[], ["--anytime", "--asymptotic"]])
def test_the_gain_per_week_is_that_per_row_times_the_rows_per_week(options, gain_of):
    answer, report = gain_of(*options, time="when")
    gain, [candidate] = answer["gain"], answer["candidates"]
    assert gain["outcome"] == "sales"
    assert gain["rows_per_week"] == pytest.approx(VISITS * 7 / DAYS)
    for unit in ("cost", "outcome"):
        for end, value in gain["per_row"][unit].items():
            assert gain["per_week"][unit][end] == pytest.approx(VISITS * 7 / DAYS * value)
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


def test_without_times_over_a_day_nothing_is_said_of_a_week(gain_of):
    for keys in ({}, {"time": "when", "days": 0.9}):
        answer, report = gain_of(**keys)
        assert answer["gain"]["rows_per_week"] is answer["gain"]["per_week"] is None
        assert answer["gain"]["per_row"]["outcome"]["value"] > 0
        assert "per week" not in answer["verdict"]["sentence"] + report


def test_bounds_per_week_are_those_per_row_if_nothing_is_shown(gain_of):
    sentence = gain_of(time="when", policy="noise")[0]["verdict"]["sentence"].replace("−", "-")
    [row] = re.findall(r"The change is above (\S+) .*?and below (\S+) ", sentence)
    [week] = re.findall(r"At 300 rows per week, as in this log, that is above (\S+) and below (\S+) sales", sentence)
    assert [*map(float, week)] == pytest.approx([300 * float(end) for end in row], abs=1)
