"""Rows that a policy was learned from do not certify it, in whatever file they come again."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pandas as pd
import pytest
from dependent_logs import MAPPING as USERS
from dependent_logs import jittered, users
from shop import MAPPING, decisions
from shop_fixtures import answer_of

from drcrm.cli.evaluation import ALL_ROWS, HELDOUT_ROWS, UNCOMPARED_ROWS
from drcrm.diagnostics.repeated_rows.recognition import LearnedRows
from drcrm.diagnostics.repeated_rows.row_hashes import hash_records
from drcrm.logs import opened_log
from drcrm.logs.policy_file import read_policy, write_policy
from drcrm.logs.readers import log_files as readers
from drcrm.logs.readers.log_files import read_records
from drcrm.logs.readers.table_records import records_of_frame

N, HELD = 3000, 750


def written(frame: pd.DataFrame, path):
    if path.suffix == ".parquet":
        frame.to_parquet(path, index=False)
    elif path.suffix == ".gz":
        path.write_bytes(gzip.compress(frame.to_csv(index=False).encode()))
    else:
        frame.to_csv(path, index=False)
    return path


def certified(run, policy, log, *arguments) -> dict:
    path = log.with_suffix(".json")
    status, _, said = run("certify", policy, log, "--json", path, *arguments)
    assert (status, said) == (0, "")
    return answer_of(path)


@pytest.mark.parametrize("is_stored", [False, True], ids=["in memory", "stored"])
@pytest.mark.parametrize("name", ["log.csv.gz", "log.parquet", "shuffled.csv"])
def test_copies_of_the_log_are_judged_by_the_rows_held_out(name, is_stored, shop, tmp_path, run, monkeypatch):
    if is_stored:
        monkeypatch.setattr(opened_log, "LARGE", -1)
        monkeypatch.setattr(readers, "ROWS", 700)
    frame = decisions(N)
    frame = frame.sample(frac=1, random_state=0) if name == "shuffled.csv" else frame
    found, learned = (
        certified(run, shop / "policy.npz", written(frame, tmp_path / name)),
        answer_of(shop / "answer.json"),
    )
    assert found["recognised"] == {"training": N - HELD, "heldout": HELD, "new": 0}
    assert (found["log"]["rows"], found["choices"], found["judged_by"]) == (HELD, learned["choices"], HELDOUT_ROWS)
    ours, theirs = found["candidates"][0], learned["candidates"][0]
    assert ours["difference"]["bound"] == pytest.approx(theirs["difference"]["bound"])


@pytest.mark.parametrize("is_stored", [False, True], ids=["in memory", "stored"])
@pytest.mark.parametrize("order", ["appended", "shuffled"])
def test_of_a_log_that_has_grown_new_rows_judge_too(order, is_stored, shop, tmp_path, run, monkeypatch):
    if is_stored:
        monkeypatch.setattr(opened_log, "LARGE", -1)
    frame = pd.concat([decisions(N), decisions(300, seed=5)])
    frame = frame.sample(frac=1, random_state=0) if order == "shuffled" else frame
    found = certified(run, shop / "policy.npz", written(frame, tmp_path / "log.csv"))
    assert found["recognised"] == {"training": N - HELD, "heldout": HELD, "new": 300}
    assert (found["log"]["rows"], found["choices"]) == (HELD + 300, answer_of(shop / "answer.json")["choices"])
    assert found["judged_by"].startswith(
        f"{HELD} rows held out from learning and 300 new rows, without {N - HELD} rows"
    )


def test_the_answer_says_so_on_the_terminal_and_on_the_page(shop, tmp_path, run):
    log = written(pd.concat([decisions(N), decisions(300, seed=5)]), tmp_path / "log.csv")
    _, said, _ = run("certify", shop / "policy.npz", log, "--report", tmp_path / "r.html")
    assert "750 rows held out from learning and 300 new rows" in " ".join(said.split())
    assert "without 2250 rows that the policy was learned from" in (tmp_path / "r.html").read_text()


def test_some_of_the_rows(shop, tmp_path, run):
    frame, held = decisions(N), read_policy(shop / "policy.npz", with_rows=True).rows.heldout
    found = certified(run, shop / "policy.npz", written(frame[held], tmp_path / "held.csv"))
    assert (found["recognised"]["heldout"], found["choices"]) == (HELD, answer_of(shop / "answer.json")["choices"])
    mixed = pd.concat([frame[~held].sample(40, random_state=0), decisions(1000, seed=5)])
    found = certified(run, shop / "policy.npz", written(mixed.sample(frac=1, random_state=0), tmp_path / "mixed.csv"))
    assert found["recognised"] == {"training": 40, "heldout": 0, "new": 1000}
    written(frame[~held], tmp_path / "training.csv")
    status, _, said = run("certify", shop / "policy.npz", tmp_path / "training.csv")
    assert status == 1
    assert "the policy was learned from all 2250 rows, expected held-out or new ones" in said


def test_a_policy_file_without_hashes_knows_its_log_by_the_digest(shop, tmp_path, run):
    write_policy(tmp_path / "old.npz", read_policy(shop / "policy.npz"))
    found = certified(run, tmp_path / "old.npz", written(decisions(N), tmp_path / "log.csv"))
    assert (found["log"]["rows"], found["judged_by"], found["recognised"]) == (HELD, HELDOUT_ROWS, None)
    found = certified(run, tmp_path / "old.npz", written(decisions(100, seed=5), tmp_path / "new.csv"))
    assert (found["choices"], found["judged_by"]) == (1, UNCOMPARED_ROWS)


def test_estimated_propensities_are_no_part_of_a_row(tmp_path, run):
    mapping = MAPPING | {"propensity": None, "propensity_model": "softmax"}
    log, policy = written(decisions(N), tmp_path / "log.csv"), tmp_path / "p.npz"
    run("learn", log, "--config", json.dumps(mapping), "--output", policy)
    more = pd.concat([decisions(N), decisions(300, seed=5)]).sample(frac=1, random_state=0)
    found = certified(run, policy, written(more, tmp_path / "more.csv"))
    assert found["recognised"] == {"training": N - HELD, "heldout": HELD, "new": 300}


def discrete(rng, n: int, contexts: int = 6, actions: int = 3) -> pd.DataFrame:
    frame = {"x": rng.integers(0, contexts, n), "a": rng.integers(0, actions, n), "r": rng.integers(0, 2, n)}
    return pd.DataFrame(frame).assign(p=1 / actions)


def returning(rng, users, times: int) -> pd.DataFrame:
    """The same users in each log, with actions drawn anew and rewards that these determine."""
    frame = discrete(rng, times * len(users)).assign(x=np.tile(users, times))
    return frame.assign(r=np.sin(frame["x"] + frame["a"]))


KINDS = {
    "discrete": lambda rng, n: discrete(rng, n),
    "300 contexts": lambda rng, n: discrete(rng, n, 300),
    "returning users": lambda rng, n: returning(rng, np.arange(n) / 7, 1),
    "users who visit twice": lambda rng, n: returning(rng, np.arange(n // 2) / 7, 2),
    "users who visit four times": lambda rng, n: returning(rng, np.arange(n // 4) / 7, 4),
}
DISCRETE = {"action": "a", "propensity": "p", "reward": "r", "features": {"numeric": ["x"]}}


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_a_fresh_log_that_are_equal_by_chance_are_new(kind):
    """Of 200 logs at most 2 are taken for the one that was learned from."""
    known = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        old, new = (records_of_frame(KINDS[kind](rng, 1000), DISCRETE) for _ in range(2))
        learned = LearnedRows.of(hash_records(old), rng.random(1000) < 0.25, False)
        known += learned.recognise(hash_records(new), new.propensity) is not None
    assert known <= 2


def test_a_fresh_log_is_one_choice(shop, tmp_path, run):
    found = certified(run, shop / "policy.npz", written(decisions(N, seed=5), tmp_path / "log.csv"))
    assert found["recognised"] == {"training": 0, "heldout": 0, "new": N}
    assert (found["choices"], found["judged_by"]) == (1, ALL_ROWS)


def test_hashes_do_not_depend_on_how_a_file_holds_its_numbers(tmp_path):
    frame = decisions(50).assign(city=lambda frame: frame["city"].map({"Bern": 1, "Zürich": 2, "Genf": 30}))
    texts = frame.astype({"age": str, "city": float})
    hashes = []
    for table, name in ((frame, "a.csv"), (frame, "b.parquet"), (texts, "c.parquet"), (frame, "d.csv.gz")):
        records = read_records(written(table, tmp_path / name), MAPPING)
        hashes.append(hash_records(records).rows)
    assert all(np.array_equal(hashes[0], each) for each in hashes[1:])


@pytest.mark.parametrize("kind", ["users", "jittered"])
def test_a_null_log_of_dependent_rows_is_not_better(kind, tmp_path, run, monkeypatch):
    rng = np.random.default_rng(1)
    written(users(rng, False) if kind == "users" else jittered(rng), tmp_path / "log.csv")
    given = ["learn", tmp_path / "log.csv", "--config", json.dumps(USERS | {"algorithm": "kl_dro_dr"})]
    for large in (opened_log.LARGE, -1):
        monkeypatch.setattr(opened_log, "LARGE", large)
        run(*given, "--output", tmp_path / "p.npz", "--json", tmp_path / "a.json")
        assert answer_of(tmp_path / "a.json")["verdict"]["verdict"] == "the log cannot say"
