"""Logs in memory-mapped files: the same answers as in memory, and no files left behind."""

import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from fixtures.text_logs import dsjson, vw_lists
from fixtures.user_logs import MAPPING, answer_of, close, decisions, mapped_files

from drcrm.logs import read_log
from drcrm.logs.decisions import opened_log
from drcrm.logs.decisions.candidates import WITH_SCORES
from drcrm.logs.policy_file import read_policy

TEXTS = {"log.dsjson": dsjson, "lists.vw": vw_lists}
N = 900
ESTIMATED = {"propensity": None, "propensity_model": "softmax"}
TIMED = {"time": "ts", "split": "last 25 %"}
TIMED["features"] = {"numeric": ["age", "price"], "categorical": ["city"], "time": ["seen"]}
OPTIONS = {"estimate": "dr", "start": "model", "tilt": "auto"}
ALGORITHM = {"estimator": "KLDRO", "parameter": "radius", "grid": [0.001, 0.01], "options": OPTIONS}
FEATURE_MAP = ALGORITHM | {"options": OPTIONS | {"features": {"nystroem": 30}}}
MAPPED_LABELS = {"labels": ["news", "odd"], "action": None, "algorithm": FEATURE_MAP}
GUARDED = {"guardrails": {"odd": {"cost": "odd", "at_most": "20 %"}}}
DEFAULTS = {"algorithm": None}  # two algorithms, of which one has learned scores
KINDS = {  # name of the file, and changes of the mapping
    "groups and times": ("log.tsv", TIMED | GUARDED | {"group": "user", "slice": ["city", "item"]} | DEFAULTS),
    "labels, a feature map and estimated propensities": ("log.parquet", TIMED | ESTIMATED | MAPPED_LABELS),
}


def visits(n: int, seed: int = 0) -> pd.DataFrame:
    """Return decisions of a shop with labels, users, times that do not follow the order, and missing values."""
    frame, rng = decisions(n, seed), np.random.default_rng(seed)
    ts = pd.Timestamp("2024-02-26") + pd.to_timedelta(rng.permutation(n) * 37, unit="min")
    frame = frame.assign(
        news=(frame["item"] == "news").astype(int),
        odd=np.arange(n) % 2,
        user=np.arange(n) % 297,
        mine=frame["p"],
        ts=ts,
        seen=pd.Series(ts).dt.strftime("%Y-%m-%dT%H:%M+01:00").where(rng.random(n) < 0.95),
        price=frame["price"].where(rng.random(n) < 0.9),
    )
    frame.loc[frame["ts"].rank() > 0.9 * n, "age"] = np.nan  # only in the last quarter
    return frame


def write(frame: pd.DataFrame, path: Path) -> None:
    if path.suffix == ".parquet":
        frame.to_parquet(path, index=False)
    else:
        frame.to_csv(path, index=False, sep="\t" if path.suffix == ".tsv" else ";", decimal=",", na_rep="NA")


def assert_same_in_files(run, monkeypatch, arguments: list, policy: Path | None = None, rows: int = 300) -> dict:
    """Run a command in memory and with mapped files; return its answer, which must be the same, like its policy."""
    answer = arguments[1].parent / "a.json"
    expected = run(*arguments, "--json", answer)
    assert expected[0] == 0, expected
    in_memory, stored = answer_of(answer), policy and read_policy(policy)
    with mapped_files(monkeypatch, rows) as folders:
        assert run(*arguments, "--json", answer) == expected
    assert {folder.parent for folder in folders} == {arguments[1].parent}
    close(answer_of(answer), in_memory, 1e-6 if policy else 1e-8)  # fits under guardrails begin at prices of sums
    if policy:
        assert read_policy(policy).encoding == stored.encoding
        assert np.abs(read_policy(policy).policy.coef - stored.policy.coef).max() < 1e-6
    answer.unlink()
    return in_memory


@pytest.mark.parametrize("kind", KINDS)
def test_answers_of_a_table_do_not_depend_on_where_it_is(kind, tmp_path, run, monkeypatch, request):
    name, changes = KINDS[kind]
    if "labels" in changes:
        request.getfixturevalue("audited_by_trees")
    log, later, policy, config = (tmp_path / file for file in (name, f"later.{name}", "p.npz", "map.json"))
    write(visits(N), log)
    frame = visits(N, seed=1)
    write(frame.assign(city=frame["city"].where(np.arange(N) % 100 != 50, "new")), later)
    mapping = MAPPING | {"algorithm": ALGORITHM} | changes
    mapping = {key: value for key, value in mapping.items() if value is not None or key != "action"}
    config.write_text(json.dumps(mapping))
    answer = assert_same_in_files(run, monkeypatch, ["learn", log, "--config", config, "--output", policy], policy)
    has_scores = WITH_SCORES in {entry["name"] for entry in answer["candidates"]}
    assert has_scores == (DEFAULTS.items() <= changes.items())
    if "labels" in changes:  # the last quarter of the rows, in which ages are missing, is held out
        assert read_policy(policy).encoding.indicators == ["price"]
    answer = assert_same_in_files(run, monkeypatch, ["certify", policy, later])
    assert answer["log"]["rows"] + answer["recognised"]["training"] == N
    assert answer["recognised"]["training"] < 0.01 * N
    assert {*os.listdir(tmp_path)} - {"p.candidate.npz"} == {name, f"later.{name}", "map.json", "p.npz"}


def test_answers_of_text_do_not_depend_on_where_it_is(tmp_path, run, monkeypatch):
    log, policy = tmp_path / "log.dsjson", tmp_path / "p.npz"
    log.write_text(dsjson(N))
    config = json.dumps({"algorithm": ALGORITHM})
    assert_same_in_files(run, monkeypatch, ["learn", log, "--output", policy, "--config", config], policy)
    answer = assert_same_in_files(run, monkeypatch, ["certify", policy, log])
    assert answer["log"]["rows"] < N / 2
    assert {*os.listdir(tmp_path)} - {"p.candidate.npz"} == {"p.npz", "log.dsjson"}


def test_without_permission_the_folder_is_a_temporary_one(shop, tmp_path, run, monkeypatch):
    create = opened_log.TemporaryDirectory

    def refuse(dir=None, **options):
        if dir is not None:
            raise PermissionError(13, "Permission denied")
        return create(dir=tmp_path, **options)

    monkeypatch.setattr(opened_log, "TemporaryDirectory", refuse)
    with mapped_files(monkeypatch) as folders:
        assert run("certify", shop / "policy.npz", shop / "log.csv")[0] == 0
    assert [folder.parent for folder in folders] == [tmp_path]


@pytest.mark.parametrize(
    ("name", "options"),
    [("csv", []), ("parquet", ["--explore", "0.2"]), ("lists.vw", [])],
)
def test_actions_do_not_depend_on_the_size_of_batches(name, options, shop, tmp_path, run, monkeypatch):
    policy, log, output = shop / "policy.npz", shop / "log.csv", tmp_path / "out.csv"
    if name in TEXTS:
        policy, log = tmp_path / "p.npz", tmp_path / name
        log.write_text(TEXTS[name](200))
        assert run("learn", log, "--output", policy, "--config", '{"algorithm": "cips"}')[0] == 0
    elif name == "parquet":
        output = tmp_path / "out.parquet"
    read = pd.read_parquet if name == "parquet" else pd.read_csv
    frames = []
    for rows in (2**17, 700 if name not in TEXTS else 7):
        monkeypatch.setattr(read_log, "ROWS", rows)
        assert run("predict", policy, log, "--output", output, *options)[0] == 0
        frames.append(read(output))
    pd.testing.assert_frame_equal(*frames, rtol=1e-6)
    assert len(frames[0]) > 150
