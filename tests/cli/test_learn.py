"""From a file to a policy, a page and a verdict."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
from shop import CITIES, MAPPING, NAMES, decisions
from shop_fixtures import answer_of

from drcrm import off_policy_value, read_log
from drcrm.certificates import policy_certificate
from drcrm.cli.candidates import DEFAULT, MAX_MAPPED, WITH_MAP, algorithm_entries
from drcrm.errors import InputError
from drcrm.logs.policy_file import read_policy
from drcrm.logs.readers.log_files import read_records
from drcrm.logs.split import held_out


def test_a_better_policy_is_found_and_said(shop):
    found = answer_of(shop / "answer.json")
    assert (found["verdict"]["verdict"], found["kept"]) == ("better", "kl_dro_dr")
    assert found["log"] | {"digest": ""} == {
        "name": "log.csv",
        "format": "csv",
        "digest": "",
        "rows": 3000,
        "training": 2250,
        "heldout": 750,
        "contexts": 3000,
        "features": 6,
        "kind": "one of 3 actions",
        "actions": [*map(str, sorted(NAMES))],
        "skipped": {},
        "imputed": {},
        "propensities": "logged",
        "reward": True,
        "split": "random 25 %",
    }
    [candidate] = found["candidates"]
    assert candidate["certificate"]["choices"] == found["choices"] > 4
    page = (shop / "report.html").read_text(encoding="utf-8")
    assert "art &amp; &lt;b&gt;music&lt;/b&gt;" in page
    assert "<b>music" not in page


def test_the_policy_is_as_good_as_it_promises(shop):
    """On contexts and clicks that are drawn anew, by the truth: 0.6 for the right item, 0.15 for others."""
    stored, fresh = read_policy(shop / "policy.npz"), decisions(4000, seed=9)
    X = stored.encoding.contexts(fresh)
    probability = stored.policy.marginals(X)[:, [list(stored.encoding.names).index(each) for each in NAMES]]
    right = (pd.Index(CITIES).get_indexer(fresh["city"]) + (fresh["price"].to_numpy() > 30)) % 3
    earned = 0.15 + 0.45 * probability[np.arange(4000), right].mean()
    [candidate] = answer_of(shop / "answer.json")["candidates"]
    assert earned > -candidate["certificate"]["bound"]
    assert earned == pytest.approx(-candidate["estimates"]["dr"]["value"], abs=0.06)


def test_certificate_and_estimates_are_the_librarys(shop):
    """Of the rows held out, by the policy and the cost model of the file."""
    stored, records = read_policy(shop / "policy.npz"), read_records(shop / "log.csv", MAPPING)
    held = held_out(records, 0)
    log = read_log(shop / "log.csv", MAPPING)
    assert held.sum() == 750
    part = log.with_contexts(stored.encoding.contexts(records.data)).recount(held.astype(int))
    answer = answer_of(shop / "answer.json")
    [candidate] = answer["candidates"]
    for estimate in ("ips", "snips", "dm", "dr"):
        ours = off_policy_value(stored.policy, part, estimate, cost_model=stored.model, clip=None)
        assert candidate["estimates"][estimate]["value"] == pytest.approx(ours, rel=1e-9)
    ours = policy_certificate(stored.policy, part, "dr", cost_model=stored.model, choices=answer["choices"])
    assert candidate["certificate"]["bound"] == pytest.approx(ours.bound, rel=1e-9)
    paired = policy_certificate(
        stored.policy, part, "dr", cost_model=stored.model, choices=answer["choices"], baseline="logging"
    )
    assert candidate["difference"]["bound"] == pytest.approx(paired.bound, rel=1e-9)
    assert -answer["logging"]["value"] == pytest.approx(decisions(3000)["click"][held].mean())


def test_nothing_better_keeps_the_logging_policy(tmp_path, run):
    """Clicks that depend on nothing: the file has the imitation, and says so."""
    frame = decisions(400)
    frame["click"] = np.random.default_rng(3).integers(0, 2, 400)
    frame.to_csv(tmp_path / "log.csv", index=False)
    (tmp_path / "map.json").write_text(json.dumps(MAPPING))
    status, said, _ = run(
        "learn", tmp_path / "log.csv", "--config", tmp_path / "map.json", "--output", tmp_path / "p.npz"
    )
    assert status == 0
    assert said.startswith("Not shown to be better")
    stored = read_policy(tmp_path / "p.npz")
    assert stored.header["kept"] == "logging"
    probability = stored.policy.marginals(stored.encoding.contexts(frame))
    logged = [list(stored.encoding.names).index(each) for each in frame["item"]]
    assert np.corrcoef(probability[np.arange(400), logged], frame["p"])[0, 1] > 0.8
    status, _, said = run("predict", tmp_path / "p.npz", tmp_path / "log.csv", "--output", tmp_path / "out.csv")
    assert "an imitation of the one that logged: none was shown to be better" in said


@pytest.mark.parametrize("features", [None, {"nystroem": 30}, {"random_trees": 5}], ids=str)
def test_labels_and_feature_maps(features, tmp_path, run):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=600), "a": rng.integers(0, 2, 600), "b": rng.integers(0, 2, 600)})
    frame["cost"] = -(frame["a"] == (frame["x"] ** 2 > 1)).astype(float) - frame["b"] + rng.normal(size=600) * 0.1
    frame.assign(p=0.25).to_parquet(tmp_path / "log.parquet")
    options = {"estimate": "dr", "start": "model", "tilt": "auto", **({"features": features} if features else {})}
    entry = {"estimator": "KLDRO", "parameter": "radius", "grid": [0.001, 0.01], "options": options}
    mapping = {
        "labels": ["a", "b"],
        "propensity": "p",
        "cost": "cost",
        "features": {"numeric": ["x"]},
        "algorithm": entry,
    }
    status, _, _ = run(
        *("learn", tmp_path / "log.parquet", "--config", json.dumps(mapping)),
        *("--output", tmp_path / "p.npz", "--json", tmp_path / "a.json"),
    )
    assert status == 0
    assert answer_of(tmp_path / "a.json")["verdict"]["verdict"] == "better"
    status, _, _ = run(
        "predict", tmp_path / "p.npz", tmp_path / "log.parquet", "--output", tmp_path / "o.csv", "--greedy"
    )
    chosen = pd.read_csv(tmp_path / "o.csv")
    assert (chosen["b"] == 1).mean() > 0.95
    agrees = (chosen["a"] == (frame["x"] ** 2 > 1)).mean()
    assert agrees > 0.9 if features else agrees < 0.9


def test_a_rule_without_propensities_is_named_as_the_reason(tmp_path, run, monkeypatch):
    """Estimated propensities of a deterministic rule are near 1: other actions were never tried."""
    monkeypatch.chdir(tmp_path)
    frame = decisions(1200)
    frame.assign(item=np.where(frame["age"] > 40, "a", "b")).drop(columns="p").to_csv("log.csv", index=False)
    mapping = {**MAPPING, "propensity": None, "propensity_model": "softmax", "algorithm": "kl_dro_dr"}
    given = ["learn", "log.csv", "--config", json.dumps(mapping), "--output", "p.npz", "--json", "a.json"]
    assert run(*given)[0] == 0
    verdict = answer_of(tmp_path / "a.json")["verdict"]
    assert verdict["verdict"] == "the log cannot say"
    assert "the logging policy hardly ever varies its action for similar contexts" in verdict["sentence"]
    assert verdict["changes"] == ["Randomise some decisions, for example 5%, and log their propensities."]
    assert any("estimated from the log itself" in caution for caution in verdict["cautions"])


def test_propensities_that_were_not_logged_are_imitated_and_it_is_said(tmp_path, run):
    decisions(1500).drop(columns="p").to_csv(tmp_path / "log.csv", index=False)
    mapping = {**MAPPING, "propensity": None}
    given = ["learn", tmp_path / "log.csv", "--output", tmp_path / "p.npz", "--json", tmp_path / "a.json"]
    status, _, said = run(*given, "--config", json.dumps(mapping))
    assert status == 1
    assert "propensity" in said
    status, _, _ = run(*given, "--config", json.dumps(mapping | {"propensity_model": "softmax"}))
    assert status == 0
    found = answer_of(tmp_path / "a.json")
    assert found["log"]["propensities"] == "imitated"
    assert any("imitat" in each["sentence"] or "estimated" in each["sentence"] for each in found["diagnostics"])


def test_the_same_seed_is_the_same_answer(shop, tmp_path, run):
    given = ["learn", shop / "log.csv", "--config", shop / "map.json", "--output", tmp_path / "policy.npz"]
    run(*given, "--json", tmp_path / "a.json")
    assert answer_of(tmp_path / "a.json") == answer_of(shop / "answer.json")
    run(*given, "--json", tmp_path / "a.json", "--seed", "1")
    assert answer_of(tmp_path / "a.json")["logging"] != answer_of(shop / "answer.json")["logging"]


def test_which_algorithms_compete():
    assert [each.name for each in algorithm_entries(None, MAX_MAPPED)] == [DEFAULT, WITH_MAP]
    assert [each.name for each in algorithm_entries(None, MAX_MAPPED + 1)] == [DEFAULT]
    [own] = algorithm_entries({"estimator": "CIPS", "label": "mine", "options": {"safe": False}}, 10)
    assert (own.name, own.label, own.algorithm.options["safe"]) == ("CIPS", "mine", False)
    assert [each.name for each in algorithm_entries(["cips", "kl_dro_dr"], 10)] == ["cips", "kl_dro_dr"]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("kl_dor", "algorithm is 'kl_dor', expected one of"),
        ([], "algorithm is an empty list"),
        ({"estimator": "CIPS", "gird": [1]}, "algorithm has 'gird', expected estimator, grid"),
        ({"grid": [1]}, "algorithm has no estimator"),
        ({"estimator": "KLDRO"}, "the hyper-parameter of KLDRO"),
        ({"estimator": ["KLDRO"]}, r"algorithm.estimator is \['KLDRO'\], expected a name"),
        ({"estimator": "CIPS", "options": "safe"}, "algorithm.options is 'safe', expected a map"),
        ({"estimator": "CIPS", "options": {3: 4}}, "algorithm.options has the key 3, expected a name"),
        (
            {"estimator": "KLDRO", "parameter": "radius", "grid": 0.1},
            "algorithm.grid is 0.1, expected a list of numbers",
        ),
        ({"estimator": "KLDRO", "parameter": "radius", "grid": [True]}, "algorithm.grid has True, expected numbers"),
        (
            {"estimator": "CIPS", "options": {"features": {"nystroem; x": 3}}},
            "features is {'nystroem; x': 3}, expected",
        ),
        (
            {"estimator": "CIPS", "options": {"features": "nystroem"}},
            "features is 'nystroem', expected one of nystroem",
        ),
    ],
)
def test_an_algorithm_that_is_none(asked, said):
    with pytest.raises(InputError, match=said):
        algorithm_entries(asked, 10)


def test_a_terminal_hears_what_is_done_and_a_file_does_not(shop, tmp_path, run):
    _, _, said = run("diagnose", shop / "log.csv", "--config", shop / "map.json")
    assert said == ""
    _, _, said = run("diagnose", shop / "log.csv", "--config", shop / "map.json", "--verbose")
    assert [line.partition(":")[0] for line in said.splitlines()] == ["reading log.csv", "encoding", "diagnosing"]


def test_what_cannot_be_written_leaves_nothing(shop, tmp_path, run):
    (tmp_path / "file").write_text("")
    status, _, said = run(
        "learn", shop / "log.csv", "--config", shop / "map.json", "--output", tmp_path / "file/policy.npz"
    )
    assert status == 1
    assert len(said.splitlines()) == 1
    assert os.listdir(tmp_path) == ["file"]


def test_a_killed_learn_leaves_no_half_of_a_policy(shop, tmp_path):
    command = [
        "learn",
        shop / "log.csv",
        "--config",
        shop / "map.json",
        "--output",
        tmp_path / "policy.npz",
        "--verbose",
    ]
    learning = subprocess.Popen(
        [sys.executable, "-m", "drcrm", *map(str, command)],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    assert learning.stderr.readline().startswith("reading")
    time.sleep(0.1)
    learning.send_signal(signal.SIGKILL)
    learning.communicate()
    assert os.listdir(tmp_path) == []


def test_copies_of_a_row_are_on_one_side_of_the_split(tmp_path, run):
    """Clicks of nothing, each row eight times: with copies on both sides the log would vouch for its own noise."""
    for seed in range(3):
        frame = decisions(250, seed=seed)
        frame["click"] = np.random.default_rng(seed).integers(0, 2, 250)
        frame["p"] = 1 / 3
        frame["item"] = NAMES[np.random.default_rng(seed + 9).integers(0, 3, 250)]
        pd.concat([frame] * 8).sample(frac=1, random_state=0).to_csv(tmp_path / "log.csv", index=False)
        given = ["learn", tmp_path / "log.csv", "--config", json.dumps(MAPPING), "--output", tmp_path / "p.npz"]
        run(*given, "--json", tmp_path / "a.json")
        found = answer_of(tmp_path / "a.json")
        assert found["verdict"]["verdict"] != "better"
        assert found["log"]["heldout"] % 8 == 0
