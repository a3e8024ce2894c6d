"""The public functions learn, certify and evaluate, and their answers."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import drcrm
from drcrm.errors import InputError

MAPPING = {"action": "a", "propensity": "p", "reward": "r", "features": {"numeric": ["x"]}, "algorithm": "cips"}


def visits(seed: int, n: int = 600) -> pd.DataFrame:
    """Return rows in which the action 1 is better if x > 0."""
    rng = np.random.default_rng(seed)
    x, a = rng.normal(size=n), rng.integers(0, 2, n)
    return pd.DataFrame({"x": x, "a": a, "p": 0.5, "r": (rng.random(n) < 0.2 + 0.5 * (a == (x > 0))).astype(int)})


@pytest.fixture
def logs(tmp_path):
    """Write two logs, and return their paths."""
    for seed in (0, 1):
        visits(seed).to_csv(tmp_path / f"week{seed}.csv", index=False)
    return tmp_path / "week0.csv", tmp_path / "week1.csv"


def test_the_functions_answer_as_the_commands_do(logs, tmp_path, run):
    policy, answer = tmp_path / "p.npz", tmp_path / "a.json"
    learned = drcrm.learn(logs[0], MAPPING, output=policy, seed=3)
    (tmp_path / "again").mkdir()
    config, other = json.dumps(MAPPING), tmp_path / "again/p.npz"
    assert run("learn", logs[0], "--config", config, "--output", other, "--seed", 3, "--json", answer)[0] == 0
    assert learned.as_dict() == json.loads(answer.read_text(encoding="utf-8"))
    assert drcrm.load_policy(policy).decide({"x": 1.0}, 0) == drcrm.load_policy(other).decide({"x": 1.0}, 0)
    calls = {
        "certify": [drcrm.certify(policy, logs[1], estimate="ips"), ["--estimate", "ips"]],
        "evaluate_policy": [drcrm.evaluate(policy, logs[1], MAPPING, sensitivity=1.2), ["--sensitivity", 1.2]],
    }
    for command, (certified, options) in calls.items():
        assert run(command, policy, logs[1], *options, "--json", answer)[0] == 0
        assert certified.as_dict() == json.loads(answer.read_text(encoding="utf-8"))
        assert certified.verdict.name == certified.as_dict()["shown"] == "better"


def test_a_frame_gives_the_answer_of_its_csv_file(logs, tmp_path):
    """The frame has what CSV could change: numbers with many digits, texts with commas, a time and a missing value."""
    mapping = MAPPING | {"time": "t", "features": {"numeric": ["x"], "categorical": ["c"]}}
    frames = []
    for path, seed in zip(logs, (0, 1), strict=True):
        frame = visits(seed).assign(c=["a, b", "ä", None] * 200, t=pd.date_range("2025-01-01", periods=600, freq="h"))
        frame.to_csv(path, index=False)
        frames.append(frame.set_index(np.arange(600)[::-1]))
    drcrm.learn(logs[0], mapping, output=tmp_path / "p.npz")
    answers = [
        [
            drcrm.learn(week0, mapping),
            drcrm.certify(tmp_path / "p.npz", week1),
            drcrm.evaluate(tmp_path / "p.npz", week1),
        ]
        for week0, week1 in (logs, frames)
    ]
    for of_file, of_frame in zip(*answers, strict=True):
        expected, answer = of_file.as_dict(), of_frame.as_dict()
        assert answer["log"].pop("name") == "frame.csv"
        expected["log"].pop("name")
        assert answer == expected


def test_an_answer_has_a_report_a_summary_and_the_policy(logs, tmp_path):
    learned = drcrm.learn(str(logs[0]), MAPPING)
    assert learned.is_better
    assert learned.candidate is None
    learned.save(tmp_path / "p.npz")
    answer = drcrm.certify(tmp_path / "p.npz", logs[1])
    answer.report(tmp_path / "r.html")
    report = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert report.startswith("<!doctype html>")
    assert str(answer).startswith("Certified better than the logging policy.")
    frame = answer._repr_html_()
    assert frame.startswith("<iframe srcdoc=")
    assert "Certified better than the logging policy" in frame
    assert frame.count("<") == 2, "the page is escaped"


def test_a_policy_that_is_not_better_is_the_candidate(tmp_path):
    log = visits(2).assign(r=np.random.default_rng(5).integers(0, 2, 600))
    log.to_csv(tmp_path / "log.csv", index=False)
    answer = drcrm.learn(tmp_path / "log.csv", MAPPING, candidate=tmp_path / "c.npz")
    assert not answer.is_better
    assert (answer.policy.header["kept"], answer.candidate.header["kept"]) == ("logging", "cips")
    assert "The best candidate is in c.npz." in answer.as_dict()["verdict"]["changes"][-1]
    assert (
        drcrm.certify(tmp_path / "c.npz", tmp_path / "log.csv").as_dict()["judged_by"].startswith("the rows held out")
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"confidence": 0.4}, "confidence must be above ½ and below 1, got 0.4"),
        ({"estimate": "dm"}, "estimate must be dr, snips or ips, got 'dm'"),
        ({"sensitivity": 0.5}, "sensitivity must be a factor of at least 1, got 0.5"),
        ({"shift": 0}, "shift must be above 0, got 0"),
        ({"confidence": "0.9"}, "confidence must be above ½ and below 1, got '0.9'"),
        ({"sensitivity": "2"}, "sensitivity must be a factor of at least 1, got '2'"),
        ({"shift": "0.1"}, "shift must be above 0, got '0.1'"),
        ({"asymptotic": True}, "it needs --anytime"),
        ({"anytime": True, "sensitivity": 1.5}, "--sensitivity has bounds for one look, so it cannot be used with"),
    ],
)
def test_wrong_arguments_are_refused_before_a_file_is_read(options, message):
    with pytest.raises(InputError, match=message):
        drcrm.certify("none.npz", "none.csv", **options)


@pytest.mark.parametrize(
    ("log", "message"),
    [
        ([], r"at least one path, got \[\]"),
        ([1], r"at least one path, got \[1\]"),
        (1, "the log is of type int, expected a path, a list of paths or a DataFrame"),
        (pd.DataFrame({"a": [1]}), "^the frame: column 'p' is missing, expected one of the file's columns: a"),
    ],
)
def test_a_log_without_paths_or_columns_is_refused(log, message):
    for answer in (drcrm.learn, lambda log, mapping: drcrm.certify("column:q", log, mapping)):
        with pytest.raises(InputError, match=message):
            answer(log, MAPPING)


def test_a_policy_that_logged_the_rows_changes_nothing(tmp_path):
    visits(0).assign(q=0.5).to_csv(tmp_path / "log.csv", index=False)
    answer = drcrm.certify("column:q", tmp_path / "log.csv", MAPPING)
    assert "changes r by 0 per row" in answer.as_dict()["verdict"]["sentence"]
    assert "-0 %" not in str(answer)
    with pytest.raises(InputError, match="the answer has no policy to save"):
        answer.save(tmp_path / "p.npz")


def test_importing_drcrm_does_not_import_the_log_product():
    code = "import sys, drcrm; print(any('decisions' in name or name == 'numpy' for name in sys.modules))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "False"


@pytest.mark.parametrize(("least", "shown"), [({"least_propensity": 0.5}, "not shown"), ({}, "the log cannot say")])
def test_rare_costs_prevent_bounds_until_there_are_more_rows(least, shown):
    """With a known smallest propensity, only more rows are missing."""
    action = np.random.default_rng(0).integers(0, 2, 600)
    cost = np.where((np.cumsum(action) % 100 == 0) & (action == 1), 1000.0, np.arange(600) % 2)
    frame = pd.DataFrame({"x": 0.0, "a": action, "p": 0.5, "loss": cost, "mine": np.where(action == 1, 0.9, 0.1)})
    mapping = {key: value for key, value in MAPPING.items() if key != "reward"} | {"cost": "loss"} | least
    answer = drcrm.evaluate("column:mine", frame, mapping)
    assert answer.verdict.name == shown
    assert "rare, large costs dominate the estimate" in answer.statement.sentence
    assert answer.verdict.lacks_rows == bool(least)
