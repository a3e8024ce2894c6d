"""With --cluster the workers of a Dask scheduler make the fits: the same answer as on one machine."""

from __future__ import annotations

import json

import pytest
from mapped_logs import close
from shop import MAPPING, decisions
from shop_fixtures import answer_of

from drcrm.data import chunked_log
from drcrm.policies import linear_predictor as design

distributed = pytest.importorskip("distributed", reason="the extra drcrm[dask] is not installed")
ALGORITHM = {"algorithm": "kl_dro_dr"}  # a feature map is of a log in memory


def test_workers_give_the_same_answer(tmp_path, run, monkeypatch):
    for where, name in ((chunked_log, "LARGE"), (design, "LARGE"), (chunked_log, "MOST_CONTEXTS")):
        monkeypatch.setattr(where, name, 256)
    decisions(3000).to_csv(tmp_path / "log.csv", index=False)
    given = ["learn", tmp_path / "log.csv", "--config", json.dumps(MAPPING | ALGORITHM)]
    given += ["--output", tmp_path / "p.npz", "--json", tmp_path / "a.json"]
    assert run(*given)[0] == 0
    alone = answer_of(tmp_path / "a.json")
    options = {"dashboard_address": ":0", "processes": True, "threads_per_worker": 1}
    with distributed.LocalCluster(n_workers=2, **options) as cluster:
        status, *said = run(*given, "--cluster", cluster.scheduler_address)
    assert status == 0, said
    close(answer_of(tmp_path / "a.json"), alone)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a.json", "log.csv", "p.npz"]


def test_a_scheduler_that_does_not_answer_is_named(tmp_path, run, monkeypatch):
    monkeypatch.setattr("drcrm.cli.learn.CONNECTION_TIMEOUT", 1)
    decisions(50).to_csv(tmp_path / "log.csv", index=False)
    given = ["learn", tmp_path / "log.csv", "--config", json.dumps(MAPPING), "--output", tmp_path / "p.npz"]
    status, _, said = run(*given, "--cluster", "tcp://127.0.0.1:9")
    assert status != 0
    assert said.startswith("drcrm learn: --cluster tcp://127.0.0.1:9 does not answer: "), said
    assert said.count("\n") == 1
