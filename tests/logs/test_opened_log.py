"""Logs in memory-mapped files: the same answers as in memory, and nothing is left when a command is done."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from contextlib import nullcontext

import numpy as np
import pandas as pd
import pytest
from mapped_logs import close, mapped_files
from shop import MAPPING, decisions
from shop_fixtures import answer_of
from text_logs import dsjson, vw_lists, vw_single

from drcrm.logs import opened_log, propensities
from drcrm.logs.policy_file import read_policy
from drcrm.logs.readers import log_files as readers


def labelled(frame: pd.DataFrame) -> tuple[pd.DataFrame, dict]:
    """A log with two labels in place of actions, and its mapping."""
    frame = frame.assign(news=(frame["item"] == "news").astype(int), other=np.arange(len(frame)) % 2)
    return frame, {"labels": ["news", "other"], **{key: each for key, each in MAPPING.items() if key != "action"}}


@pytest.mark.parametrize("form", ["csv", "parquet"])
@pytest.mark.parametrize("kind", ["single", "labels"])
def test_a_log_in_files_has_the_same_answer(kind, form, tmp_path, run, monkeypatch):
    frame, mapping = decisions(3000), MAPPING
    if kind == "labels":
        frame, mapping = labelled(frame)
    if form == "csv":
        frame.to_csv(tmp_path / "log.csv", index=False)
    else:
        frame.to_parquet(tmp_path / "log.parquet", index=False)
    given = ["learn", tmp_path / f"log.{form}", "--config", json.dumps(mapping), "--output", tmp_path / "p.npz"]
    status, expected, _ = run(*given, "--json", tmp_path / "a.json")
    policy, found = read_policy(tmp_path / "p.npz"), answer_of(tmp_path / "a.json")
    (tmp_path / "p.npz").unlink()
    with mapped_files(monkeypatch) as folders:
        status, said, _ = run(*given, "--json", tmp_path / "a.json")
    assert (status, said) == (0, expected)
    assert [folder.parent for folder in folders] == [tmp_path]
    close(answer_of(tmp_path / "a.json"), found)
    assert np.abs(read_policy(tmp_path / "p.npz").policy.coef - policy.policy.coef).max() < 1e-8
    status, _, _ = run("certify", tmp_path / "p.npz", tmp_path / f"log.{form}", "--json", tmp_path / "c.json")
    assert answer_of(tmp_path / "c.json")["judged_by"] == "the rows held out from learning"


def spoiled(n: int, seed: int = 0) -> pd.DataFrame:
    """Decisions with missing numbers and times, in an order that is not that of their time."""
    frame, rng = decisions(n, seed), np.random.default_rng(seed)
    frame["ts"] = pd.Timestamp("2024-02-26") + pd.to_timedelta(rng.permutation(n) * 37, unit="min")
    frame["seen"] = frame["ts"].dt.strftime("%Y-%m-%dT%H:%M+01:00").where(rng.random(n) < 0.95)
    frame["price"] = frame["price"].where(rng.random(n) < 0.9)
    frame.loc[frame["ts"].rank() > 0.9 * n, "age"] = np.nan  # never before the last quarter
    return frame


TIMED = {**MAPPING, "time": "ts", "split": "last 25 %"}
TIMED["features"] = {"numeric": ["age", "price"], "categorical": ["city"], "time": ["seen"]}


@pytest.mark.parametrize("form", ["tsv", "csv", "parquet"])
def test_missing_numbers_and_times_are_the_same_in_files(form, tmp_path, run, monkeypatch):
    frame, log = spoiled(3000), tmp_path / f"log.{form}"
    if form == "parquet":
        frame.to_parquet(log, index=False)
    else:
        frame.to_csv(log, index=False, sep="\t" if form == "tsv" else ";", decimal=",", na_rep="NA")
    given = ["learn", log, "--config", json.dumps(TIMED), "--output", tmp_path / "p.npz", "--json", tmp_path / "a.json"]
    status, expected, _ = run(*given, "--report", tmp_path / "r.html")
    policy, found = read_policy(tmp_path / "p.npz"), answer_of(tmp_path / "a.json")
    assert status == 0
    with mapped_files(monkeypatch):
        assert run(*given)[:2] == (0, expected)
    close(answer_of(tmp_path / "a.json"), found)
    again = read_policy(tmp_path / "p.npz")
    assert again.encoding == policy.encoding
    assert np.abs(again.policy.coef - policy.policy.coef).max() < 1e-8
    missing = {name: int(frame[name].isna().sum()) for name in ("age", "price", "seen")}
    assert found["log"]["imputed"] == missing
    counts = ", ".join(f"{name} in {missing[name]} rows" for name in sorted(missing, key=missing.get, reverse=True))
    assert f"Imputed missing values: {counts}." in " ".join(expected.split())
    assert counts in (tmp_path / "r.html").read_text(encoding="utf-8")
    assert policy.encoding.indicators == ("price",)
    _imputed_by_predict(tmp_path, run, log, counts)
    _judged_alike(tmp_path, run, log, monkeypatch)


def _imputed_by_predict(folder, run, log, counts: str) -> None:
    status, _, said = run("predict", folder / "p.npz", log, "--output", folder / "actions.csv")
    assert status == 0
    assert f"imputed missing values: {counts}" in said
    assert "missing value of 'age' in 300 rows, which the policy has not seen" in said
    actions = pd.read_csv(folder / "actions.csv")
    assert list(actions) == ["item", "propensity"]
    assert actions["propensity"].between(0, 1).all()


def _judged_alike(folder, run, log, monkeypatch) -> None:
    """On the log itself, and on another one, in memory and in files."""
    spoiled(1500, seed=1).to_csv(folder / "later.tsv", index=False, sep="\t")
    for path in (log, folder / "later.tsv"):
        certify = "certify", folder / "p.npz", path, "--json", folder / "c.json"
        assert run(*certify)[0] == 0
        expected = answer_of(folder / "c.json")
        with mapped_files(monkeypatch):
            assert run(*certify)[0] == 0
        close(answer_of(folder / "c.json"), expected)
        assert expected["log"]["imputed"].keys() == {"age", "price", "seen"}


@pytest.mark.parametrize("kind", ["single", "labels", "imitated", "groups"])
def test_the_rows_held_out_of_a_large_log_judge_its_policy(kind, tmp_path, run, monkeypatch):
    """With the answer that they have in memory; and nothing is left behind."""
    frame, mapping = decisions(3000), MAPPING
    if kind == "labels":
        frame, mapping = labelled(frame)
    elif kind == "imitated":
        mapping = MAPPING | {"propensity": None, "propensity_model": "softmax"}
    elif kind == "groups":
        frame, mapping = frame.assign(user=np.arange(3000) % 997), MAPPING | {"group": "user"}
    frame.to_parquet(tmp_path / "log.parquet", index=False)
    policy, log, answer = (tmp_path / name for name in ("p.npz", "log.parquet", "a.json"))
    assert run("learn", log, "--config", json.dumps(mapping), "--output", policy)[0] == 0
    for command in ("certify", "evaluate_policy"):
        expected = run(command, policy, log, "--json", answer)
        found = answer_of(answer)
        with mapped_files(monkeypatch):
            assert run(command, policy, log, "--json", answer) == expected
        close(answer_of(answer), found)
        assert found["log"]["rows"] < 1000
    assert sorted(os.listdir(tmp_path)) == ["a.json", "log.parquet", "p.npz"]


@pytest.mark.parametrize("kind", ["single", "labels", "imitated", "groups", "map"])
def test_all_rows_of_another_large_log_judge(kind, tmp_path, run, monkeypatch):
    """With the answer that they have in memory."""
    frame, mapping = decisions(4000), MAPPING | {"slice": "city"}
    frame = frame.assign(mine=frame["p"], city=np.where(np.arange(4000) % 100 == 50, "new", frame["city"]))
    if kind == "labels":
        frame, mapping = labelled(frame)
    elif kind == "imitated":
        mapping |= {"propensity": None, "propensity_model": "softmax"}
    elif kind == "groups":
        frame, mapping = frame.assign(user=np.arange(4000) % 997), mapping | {"group": "user"}
    frame[:2000].to_csv(tmp_path / "first.csv", index=False)
    frame[2000:].to_csv(tmp_path / "log.csv", index=False)
    policy, log, config = tmp_path / "p.npz", tmp_path / "log.csv", json.dumps(mapping)
    if kind == "map":
        options = {"estimate": "dr", "start": "model", "tilt": "auto", "features": {"nystroem": 30}}
        entry = {"estimator": "KLDRO", "parameter": "radius", "grid": [0.001, 0.01], "options": options}
        config = json.dumps(mapping | {"algorithm": entry})
    assert run("learn", tmp_path / "first.csv", "--config", config, "--output", policy)[0] == 0
    for given in (
        ["certify", policy, log],
        ["evaluate_policy", policy, log],
        ["evaluate_policy", "column:mine", log, "--config", config],
        ["diagnose", log, "--config", config],
    ):
        given += ["--json", tmp_path / "a.json"]
        expected = run(*given)
        found = answer_of(tmp_path / "a.json")
        with mapped_files(monkeypatch):
            assert run(*given) == expected
        close(answer_of(tmp_path / "a.json"), found)
        assert found["log"]["rows"] == 2000
    assert sorted(os.listdir(tmp_path)) == ["a.json", "first.csv", "log.csv", "p.npz"]


@pytest.mark.parametrize(
    "change", [{"item": "books"}, {"p": 1.5}, {"click": 7}, {"age": "old"}], ids=lambda change: "".join(change)
)
def test_what_is_wrong_with_a_large_log_that_judges(change, shop, tmp_path, run, monkeypatch):
    """It is said as of one in memory, by path and row, and nothing is left behind."""
    frame = decisions(2000, seed=2).astype(object)
    for column, value in change.items():
        frame.loc[1500, column] = value
    frame.to_csv(tmp_path / "log.csv", index=False)
    config = json.dumps(MAPPING | {"cost_range": [-1, 0]})
    given = ["certify", shop / "policy.npz", tmp_path / "log.csv", "--config", config]
    expected = run(*given)
    assert (expected[0], expected[1]) == (1, "")
    assert f"{tmp_path / 'log.csv'}: " in expected[2]
    with mapped_files(monkeypatch):
        assert run(*given) == expected
    assert os.listdir(tmp_path) == ["log.csv"]


def test_a_large_log_where_nothing_may_be_written(shop, tmp_path, run, monkeypatch):
    """Its folder is one of the system's temporary folders."""
    make = opened_log.TemporaryDirectory

    def refused(dir=None, **options):
        if dir is not None:
            raise PermissionError(13, "Permission denied")
        return make(dir=tmp_path, **options)

    monkeypatch.setattr(opened_log, "TemporaryDirectory", refused)
    with mapped_files(monkeypatch) as folders:
        assert run("certify", shop / "policy.npz", shop / "log.csv")[0] == 0
    assert [folder.parent for folder in folders] == [tmp_path]


def test_what_a_killed_process_left_is_removed(shop, tmp_path, run, monkeypatch):
    """Unless the process runs, or ran on another machine."""
    host = socket.gethostname()
    (tmp_path / "log.csv").write_bytes((shop / "log.csv").read_bytes())
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    kept = [f".drcrm-{host}-{os.getpid()}-b", f".drcrm-other-{done.pid}-c", f".drcrm-{host}-{done.pid}-{os.getpid()}-d"]
    for name in (f".drcrm-{host}-{done.pid}-a", *kept):
        (tmp_path / name).mkdir()
        (tmp_path / name / "X.npy").write_bytes(b"0")
    assert run("diagnose", tmp_path / "log.csv", "--config", shop / "map.json")[0] == 0
    assert sorted(os.listdir(tmp_path)) == sorted(["log.csv", *kept])


def test_propensities_that_were_not_logged(shop, tmp_path, run, monkeypatch):
    """The same answer in files; if the imitation is fitted to a sample, much the same."""
    mapping = json.dumps(MAPPING | {"propensity": None, "propensity_model": "softmax"})
    given = ["learn", shop / "log.csv", "--config", mapping, "--output", tmp_path / "p.npz"]
    given += ["--json", tmp_path / "a.json"]
    found = []
    for most, use_files in ((2**19, False), (2**19, True), (1500, False), (1500, True)):
        monkeypatch.setattr(propensities, "MOST", most)
        with mapped_files(monkeypatch) if use_files else nullcontext():
            assert run(*given)[0] == 0
        found.append(answer_of(tmp_path / "a.json"))
    close(found[1], found[0])
    close(found[3], found[2])
    assert found[0]["log"]["propensities"] == found[2]["log"]["propensities"] == "imitated"
    assert found[2]["logging"] == found[0]["logging"]
    values = [answer["candidates"][0]["estimates"]["dr"]["value"] for answer in found]
    assert 0 < abs(values[2] - values[0]) < 0.05


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_actions_are_chosen_some_at_a_time(form, shop, tmp_path, run, monkeypatch):
    given = ["predict", shop / "policy.npz", shop / "log.csv", "--output", tmp_path / f"out.{form}"]
    read = pd.read_csv if form == "csv" else pd.read_parquet
    for options in ([], ["--greedy"], ["--explore", "0.2"]):
        run(*given, *options)
        whole = read(tmp_path / f"out.{form}")
        with monkeypatch.context() as small:
            small.setattr(readers, "ROWS", 700)
            assert run(*given, *options)[0] == 0
        parts = read(tmp_path / f"out.{form}")
        pd.testing.assert_frame_equal(parts, whole)
        assert len(parts) == 3000
    decisions(0).to_csv(tmp_path / "none.csv", index=False)
    status, _, said = run("predict", shop / "policy.npz", tmp_path / "none.csv", "--output", tmp_path / f"no.{form}")
    assert (status, said) == (1, f"drcrm predict: {tmp_path / 'none.csv'}: has no rows, expected at least one\n")
    assert not (tmp_path / f"no.{form}").exists()


TEXTS = {"log.dsjson": dsjson(1500), "lists.vw": vw_lists(1500), "single.vw": vw_single(1500)}


@pytest.mark.parametrize("name", TEXTS)
def test_text_in_files_has_the_same_answer(name, tmp_path, run, monkeypatch):
    """Of what is learned on it, of the rows held out, and of another log, all of which judges; nothing is left."""
    (tmp_path / name).write_text(TEXTS[name])
    (tmp_path / f"later.{name}").write_text(TEXTS[name].replace(":1", ":2").replace("c0", "new"))
    policy, log, later, answer = (tmp_path / each for each in ("p.npz", name, f"later.{name}", "a.json"))
    learn = ["learn", log, "--output", policy, "--json", answer, "--config", '{"algorithm": "kl_dro_dr"}']
    expected = run(*learn)
    assert expected[0] == 0
    found, coef = answer_of(answer), read_policy(policy).policy.coef
    with mapped_files(monkeypatch, 300):
        assert run(*learn) == expected
    close(answer_of(answer), found)
    assert np.abs(read_policy(policy).policy.coef - coef).max() < 1e-6
    for given in (["certify", policy, log], ["certify", policy, later], ["evaluate_policy", policy, later]):
        expected = run(*given, "--json", answer)
        assert expected[0] == 0
        found = answer_of(answer)
        with mapped_files(monkeypatch, 300):
            assert run(*given, "--json", answer) == expected
        close(answer_of(answer), found)
    assert sorted(os.listdir(tmp_path)) == sorted(["a.json", "p.npz", name, f"later.{name}"])


@pytest.mark.parametrize("name", TEXTS)
def test_actions_of_text_are_chosen_some_at_a_time(name, tmp_path, run, monkeypatch):
    (tmp_path / name).write_text(TEXTS[name])
    assert run("learn", tmp_path / name, "--output", tmp_path / "p.npz")[0] == 0
    for options in ([], ["--greedy"], ["--explore", "0.2"]):
        found = []
        for rows in (7, 200, 2**17):
            monkeypatch.setattr(readers, "ROWS", rows)
            run("predict", tmp_path / "p.npz", tmp_path / name, "--output", tmp_path / "out.csv", *options)
            found.append(pd.read_csv(tmp_path / "out.csv"))
        assert len(found[0]) > 1200
        pd.testing.assert_frame_equal(found[0], found[2], rtol=1e-6)
        pd.testing.assert_frame_equal(found[1], found[2], rtol=1e-6)
