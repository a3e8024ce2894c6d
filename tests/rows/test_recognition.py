"""Rows that a policy was learned from do not evaluate it, in whatever file they appear again."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pandas as pd
import pytest
from shop import MAPPING, decisions
from shop_fixtures import answer_of

from drcrm.cli.evaluate_policy import HELDOUT_ROWS, UNCOMPARED_ROWS
from drcrm.diagnostics import opened_log
from drcrm.diagnostics.repeated_rows.record_hashes import hash_records
from drcrm.logs.policy_file import read_policy, write_policy
from drcrm.logs.readers import log_files as readers
from drcrm.logs.readers.log_files import read_records
from drcrm.logs.readers.table_records import records_of_frame
from drcrm.rows.recognition import LearnedRows
from drcrm.rows.row_hashes import RowHashes

N, HELDOUT = 3000, 750


def write_log(frame: pd.DataFrame, path):
    """Write a table in the format of a path's suffix; return the path."""
    if path.suffix == ".parquet":
        frame.to_parquet(path, index=False)
    elif path.suffix == ".gz":
        path.write_bytes(gzip.compress(frame.to_csv(index=False).encode()))
    else:
        frame.to_csv(path, index=False)
    return path


def certify(run, policy, log, *arguments) -> dict:
    """Return the answer of ``drcrm certify``."""
    path = log.with_suffix(".json")
    status, _, error = run("certify", policy, log, "--json", path, *arguments)
    assert (status, error) == (0, "")
    return answer_of(path)


@pytest.fixture
def storage(request, monkeypatch):
    """Keep logs in memory, or in memory-mapped files that are read in batches."""
    if request.param == "files":
        monkeypatch.setattr(opened_log, "LARGE", -1)
        monkeypatch.setattr(readers, "ROWS", 700)


@pytest.mark.parametrize(
    ("name", "storage"),
    [("log.csv.gz", "memory"), ("log.parquet", "files"), ("shuffled.csv", "files")],
    indirect=["storage"],
)
def test_copies_of_the_log_are_evaluated_by_its_heldout_rows(name, storage, shop, tmp_path, run):
    frame = decisions(N)
    frame = frame.sample(frac=1, random_state=0) if name == "shuffled.csv" else frame
    answer = certify(run, shop / "policy.npz", write_log(frame, tmp_path / name))
    learned = answer_of(shop / "answer.json")
    assert answer["recognised"] == {"training": N - HELDOUT, "heldout": HELDOUT, "new": 0}
    assert (answer["log"]["rows"], answer["choices"]) == (HELDOUT, learned["choices"])
    assert answer["judged_by"] == HELDOUT_ROWS
    bounds = [result["candidates"][0]["difference"]["bound"] for result in (answer, learned)]
    assert bounds[0] == pytest.approx(bounds[1])


@pytest.mark.parametrize(("order", "storage"), [("appended", "files"), ("shuffled", "memory")], indirect=["storage"])
def test_new_rows_of_a_grown_log_evaluate_too(order, storage, shop, tmp_path, run):
    frame = pd.concat([decisions(N), decisions(300, seed=5)])
    frame = frame.sample(frac=1, random_state=0) if order == "shuffled" else frame
    answer = certify(run, shop / "policy.npz", write_log(frame, tmp_path / "log.csv"))
    assert answer["recognised"] == {"training": N - HELDOUT, "heldout": HELDOUT, "new": 300}
    assert (answer["log"]["rows"], answer["choices"]) == (HELDOUT + 300, answer_of(shop / "answer.json")["choices"])
    words = f"{HELDOUT} rows held out from learning and 300 new rows, without {N - HELDOUT} rows"
    assert answer["judged_by"].startswith(words)
    assert any(words in caution for caution in answer["verdict"]["cautions"])


def test_parts_of_the_log(shop, tmp_path, run):
    frame, is_heldout = decisions(N), read_policy(shop / "policy.npz", with_rows=True).rows.heldout
    answer = certify(run, shop / "policy.npz", write_log(frame[is_heldout], tmp_path / "heldout.csv"))
    choices = answer_of(shop / "answer.json")["choices"]
    assert (answer["recognised"]["heldout"], answer["choices"]) == (HELDOUT, choices)
    mixed = pd.concat([frame[~is_heldout].sample(40, random_state=0), decisions(1000, seed=5)])
    answer = certify(run, shop / "policy.npz", write_log(mixed.sample(frac=1, random_state=0), tmp_path / "mixed.csv"))
    assert answer["recognised"] == {"training": 40, "heldout": 0, "new": 1000}
    log = write_log(frame[~is_heldout], tmp_path / "training.csv")
    status, _, error = run("certify", shop / "policy.npz", log)
    assert status == 1
    assert "the policy was learned from all 2250 rows" in error


def test_policy_files_without_hashes_know_their_log_by_its_digest(shop, tmp_path, run):
    write_policy(tmp_path / "old.npz", read_policy(shop / "policy.npz"))
    answer = certify(run, tmp_path / "old.npz", write_log(decisions(N), tmp_path / "log.csv"))
    assert (answer["log"]["rows"], answer["judged_by"], answer["recognised"]) == (HELDOUT, HELDOUT_ROWS, None)
    answer = certify(run, tmp_path / "old.npz", write_log(decisions(100, seed=5), tmp_path / "new.csv"))
    assert (answer["choices"], answer["judged_by"]) == (1, UNCOMPARED_ROWS)


def test_estimated_propensities_are_not_hashed(tmp_path, run):
    mapping = MAPPING | {"propensity": None, "propensity_model": "softmax", "algorithm": "cips"}
    log, policy = write_log(decisions(1000), tmp_path / "log.csv"), tmp_path / "p.npz"
    run("learn", log, "--config", json.dumps(mapping), "--output", policy)
    more = pd.concat([decisions(1000), decisions(300, seed=5)]).sample(frac=1, random_state=0)
    answer = certify(run, policy, write_log(more, tmp_path / "more.csv"))
    assert answer["recognised"] == {"training": 750, "heldout": 250, "new": 300}


def test_rows_are_recognised_at_most_as_often_as_they_were_learned_from():
    hashes = np.arange(100, dtype=np.uint64)
    learned = LearnedRows(hashes.astype(np.uint32), hashes, hashes >= 80, False)
    grown = np.append(hashes, hashes[:3])[::-1]
    recognised = learned.recognise(RowHashes(grown << np.uint64(32), grown), np.full(103, 0.1))
    assert recognised.counts == {"training": 80, "heldout": 20, "new": 3}


def draw_discrete(rng, n: int, contexts: int = 6, actions: int = 3) -> pd.DataFrame:
    columns = {"x": rng.integers(0, contexts, n), "a": rng.integers(0, actions, n), "r": rng.integers(0, 2, n)}
    return pd.DataFrame(columns).assign(p=1 / actions)


def draw_returning(rng, users, times: int) -> pd.DataFrame:
    """Return the same users in each log, with new actions that determine the rewards."""
    frame = draw_discrete(rng, times * len(users)).assign(x=np.tile(users, times))
    return frame.assign(r=np.sin(frame["x"] + frame["a"]))


FRESH = {
    "discrete": lambda rng, n: draw_discrete(rng, n),
    "300 contexts": lambda rng, n: draw_discrete(rng, n, 300),
    "returning users": lambda rng, n: draw_returning(rng, np.arange(n) / 7, 1),
    "users who visit twice": lambda rng, n: draw_returning(rng, np.arange(n // 2) / 7, 2),
    "users who visit four times": lambda rng, n: draw_returning(rng, np.arange(n // 4) / 7, 4),
}
DISCRETE = {"action": "a", "propensity": "p", "reward": "r", "features": {"numeric": ["x"]}}


@pytest.mark.parametrize("kind", FRESH)
def test_rows_of_a_new_log_that_are_equal_by_chance_are_not_recognised(kind):
    recognised = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        old, new = (records_of_frame(FRESH[kind](rng, 1000), DISCRETE) for _ in range(2))
        learned = LearnedRows.of(hash_records(old), rng.random(1000) < 0.25, False)
        recognised.append(learned.recognise(hash_records(new), new.propensity))
    assert recognised == [None] * 8


def test_hashes_do_not_depend_on_the_number_format_of_a_file(tmp_path):
    frame = decisions(50).assign(city=lambda frame: frame["city"].map({"Bern": 1, "Zürich": 2, "Genf": 30}))
    texts = frame.astype({"age": str, "city": float})
    hashes = []
    for table, name in ((frame, "a.csv"), (frame, "b.parquet"), (texts, "c.parquet"), (frame, "d.csv.gz")):
        hashes.append(hash_records(read_records(write_log(table, tmp_path / name), MAPPING)).rows)
    assert all(np.array_equal(hashes[0], rows) for rows in hashes[1:])
