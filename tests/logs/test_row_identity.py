"""Rows that a policy was learned from do not evaluate it, in whatever file they appear again."""

import json
from functools import cache

import numpy as np
import pandas as pd
import pytest
from fixtures.user_logs import MAPPING, answer_of, decisions, write_table

from drcrm.logs import read_log as readers
from drcrm.logs.decisions import opened_log
from drcrm.logs.diagnostics.repeated_rows import hash_log
from drcrm.logs.policy_file import read_policy, write_policy
from drcrm.logs.read_log import read_raw_log
from drcrm.logs.row_identity import LearnedRows

N, HELDOUT = 3000, 750


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


@pytest.mark.parametrize(("order", "storage"), [("appended", "files"), ("shuffled", "memory")], indirect=["storage"])
def test_new_rows_of_a_grown_log_evaluate_too(order, storage, shop, tmp_path, run):
    frame = pd.concat([decisions(N), decisions(300, seed=5)])
    frame = frame.sample(frac=1, random_state=0) if order == "shuffled" else frame
    answer = certify(run, shop / "policy.npz", write_table(frame, tmp_path, "log.csv"))
    assert answer["recognised"] == {"training": N - HELDOUT, "heldout": HELDOUT, "new": 300}
    assert (answer["log"]["rows"], answer["choices"]) == (HELDOUT + 300, answer_of(shop / "answer.json")["choices"])
    words = f"{HELDOUT} rows held out from learning and 300 new rows, without {N - HELDOUT} rows"
    assert answer["judged_by"].startswith(words)
    assert any(words in caution for caution in answer["verdict"]["cautions"])


def test_training_rows_alone_are_refused(shop, tmp_path, run):
    frame, is_heldout = decisions(N), read_policy(shop / "policy.npz", with_rows=True).rows.heldout
    log = write_table(frame[~is_heldout], tmp_path, "training.csv")
    status, _, error = run("certify", shop / "policy.npz", log)
    assert status == 1
    assert "the policy was learned from all 2250 rows" in error


def test_policy_files_without_hashes_are_refused(shop, tmp_path, run):
    write_policy(tmp_path / "old.npz", read_policy(shop / "policy.npz"))
    status, _, error = run("certify", tmp_path / "old.npz", write_table(decisions(N), tmp_path, "log.csv"))
    assert (status, "has no hashes of the rows that it was learned from" in error) == (1, True)


def test_estimated_propensities_are_not_hashed(tmp_path, run):
    mapping = MAPPING | {"propensity": None, "propensity_model": "softmax", "algorithm": "cips"}
    log, policy = write_table(decisions(1000), tmp_path, "log.csv"), tmp_path / "p.npz"
    run("learn", log, "--config", json.dumps(mapping), "--output", policy)
    more = pd.concat([decisions(1000), decisions(300, seed=5)]).sample(frac=1, random_state=0)
    answer = certify(run, policy, write_table(more, tmp_path, "more.csv"))
    assert answer["recognised"] == {"training": 750, "heldout": 250, "new": 300}


def draw(rng, n: int, contexts: int = 6, actions: int = 3) -> pd.DataFrame:
    columns = {"x": rng.integers(0, contexts, n), "a": rng.integers(0, actions, n), "r": rng.integers(0, 2, n)}
    return pd.DataFrame(columns).assign(p=1 / actions, time=np.arange(n) + rng.random(n), id=rng.permutation(n))


DRAWS = {
    "continuous": lambda rng, n: draw(rng, n).assign(x=rng.normal(size=n)),
    "discrete": draw,
    "300 contexts": lambda rng, n: draw(rng, n, 300),
    "20 000 contexts": lambda rng, n: draw(rng, n, 20_000),
    "returning users": lambda rng, n: draw(rng, n).assign(x=np.arange(n) / 7),
    "default context": lambda rng, n: draw(rng, n).assign(x=np.where(rng.random(n) < 0.5, 0, rng.normal(size=n))),
}
UNCLEAR = {"discrete", "300 contexts", "returning users", "default context"}  # unknown unless the order is the same
DISCRETE = {"action": "a", "propensity": "p", "reward": "r", "features": {"numeric": ["x"]}}
CHANGES = {  # the log that the policy was learned from, with its held-out rows, and new rows ↦ another log
    "the same": lambda old, new: old,
    "appended": lambda old, new: pd.concat([old, new]),
    "rolling": lambda old, new: pd.concat([old[500:], new]),
    "held out": lambda old, new: old[old["side"] == 2],
    "two parts": lambda old, new: old.sort_values("side", kind="stable"),
    "propensities": lambda old, new: old.assign(p=0.3),
    "deleted": lambda old, new: old.drop(index=range(7, 1000, 41)),
    "shuffled": lambda old, new: old.sample(frac=1, random_state=1),
    "mixed": lambda old, new: pd.concat([old[old["side"] == 1][:20], new]).sample(frac=1, random_state=1),
    "new": lambda old, new: new,
}


def hashes_of(frame: pd.DataFrame, **keys):
    return hash_log(read_raw_log(frame.drop(columns="side"), DISCRETE | keys))


@cache
def draw_logs(kind: str, key: str | None) -> tuple[LearnedRows, pd.DataFrame, pd.DataFrame]:
    """Return the rows that a policy was learned from, the same with later outcomes, and new rows."""
    rng = np.random.default_rng(len(kind))
    heldout = rng.random(1000) < 0.25
    old = DRAWS[kind](rng, 1000).assign(side=np.where(heldout, 2, 1))
    new = DRAWS[kind](rng, 1000).assign(side=0, time=lambda frame: frame["time"] + 2000, id=np.arange(1000) + 1000)
    late = old.assign(r=np.where(rng.random(1000) < 0.05, 1 - old["r"], old["r"]))
    return LearnedRows.of(hashes_of(old, **({} if key is None else {key: key})), heldout), late, new


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("key", [None, "id", "time"])
@pytest.mark.parametrize("kind", DRAWS)
def test_no_row_learned_from_evaluates_whatever_its_outcome_is_now(kind, key, change):
    """Rows have outcomes that changed. If equal rows are no evidence, no row is marked, and their share is reported."""
    keys = {} if key is None else {key: key}
    learned, late, new = draw_logs(kind, key)
    log = CHANGES[change](late, new)
    recognised = learned.recognise(hashes_of(log, **keys), log["p"].to_numpy())
    side = log["side"].to_numpy()
    if recognised.undecided or recognised.equal:
        assert not keys
        assert kind in UNCLEAR or (kind == "20 000 contexts" and change in ("mixed", "new"))
        assert not (recognised.undecided and change == "new")
        assert change not in ("the same", "appended", "propensities")
        assert not (recognised.training | recognised.heldout).any()
        return
    evaluates = ~recognised.training
    assert not (side[evaluates] == 1).any()
    assert (side[recognised.heldout] == 1).sum() == 0
    assert recognised.heldout[evaluates & (side == 2)].all()
    assert (~evaluates & (side != 1)).mean() < (0.15 if key is None else 1e-9) or key == "time"


@pytest.mark.parametrize("kind", ["discrete", "returning users"])
def test_new_logs_with_the_same_contexts_are_no_evidence(kind):
    """Of 40 independent logs, none is recognised; only the share of equal rows is reported."""
    rng = np.random.default_rng(1)
    learned, *_ = draw_logs(kind, None)
    for _ in range(40):
        recognised = learned.recognise(hashes_of(DRAWS[kind](rng, 1000).assign(side=0)), np.full(1000, 1 / 3))
        assert recognised.counts["new"] == 1000
        assert (recognised.undecided, recognised.equal > 0.2) == (0, True)


@pytest.mark.parametrize("kind", ["continuous", "discrete"])
@pytest.mark.parametrize("change", ["float32", "six digits", "other types"])
def test_a_copy_in_another_number_format_is_recognised(kind, change):
    rng = np.random.default_rng(3)
    old = DRAWS[kind](rng, 1000).assign(side=0).sample(frac=1, random_state=0)
    learned = LearnedRows.of(hashes_of(old), np.arange(1000) >= 800)
    copy = old.sample(frac=1, random_state=1) if kind == "continuous" else old
    if change == "float32":
        copy = copy.astype({"x": np.float32, "p": np.float32})
    elif change == "six digits":
        copy["x"] = [float(f"{x:.6g}") for x in copy["x"]]
    else:
        copy = copy.astype({"a": float, "x": str})
    counts = learned.recognise(hashes_of(copy), np.full(1000, 1 / 3)).counts
    assert counts["new"] <= (60 if change == "six digits" else 0)
    assert counts["training"] >= 750


def test_learn_asks_for_ids_if_equal_rows_are_no_evidence(tmp_path, run):
    rng = np.random.default_rng(0)
    mapping = DISCRETE | {"algorithm": "cips"}
    for kind, words in (("continuous", 0), ("discrete", 1)):
        log = write_table(DRAWS[kind](rng, 1000).drop(columns=["id", "time"]), tmp_path, f"{kind}.csv")
        policy, path = tmp_path / f"{kind}.npz", tmp_path / f"{kind}.json"
        assert run("learn", log, "--config", json.dumps(mapping), "--output", policy, "--json", path)[0] == 0
        cautions = answer_of(path)["verdict"]["cautions"]
        assert sum("Set `id:` to a column" in caution for caution in cautions) == words
        new = write_table(DRAWS[kind](rng, 1000).drop(columns=["id", "time"]), tmp_path, f"new {kind}.csv")
        answer = certify(run, policy, new)
        assert answer["shown"] != "the log cannot say"
        assert sum("cannot tell whether they trained" in caution for caution in answer["verdict"]["cautions"]) == words


def test_ids_that_do_not_identify_rows_are_no_evidence():
    rng = np.random.default_rng(0)
    old, new = (draw(rng, 1000).assign(side=0, id=np.arange(1000)) for _ in range(2))
    learned = LearnedRows.of(hashes_of(old, id="id"), rng.random(1000) < 0.25)
    recognised = learned.recognise(hashes_of(new, id="id"), np.full(1000, 1 / 3))
    assert (recognised.undecided, recognised.counts["new"]) == (0, 1000)
    assert recognised.equal == pytest.approx(1 / 3, abs=0.05)


def test_rows_with_the_context_of_a_training_row_are_left_out_whatever_their_action():
    """Leaving out only equal rows would select new rows by their action."""
    rng = np.random.default_rng(0)
    old, new = (DRAWS["20 000 contexts"](rng, 1000).assign(side=0) for _ in range(2))
    learned = LearnedRows.of(hashes_of(old), np.arange(1000) >= 800)
    log = pd.concat([old[:100], new])
    recognised = learned.recognise(hashes_of(log), log["p"].to_numpy())
    assert (recognised.training == log["x"].isin(old["x"][:800])).all()


def test_hashes_do_not_depend_on_the_number_format_of_a_file(tmp_path):
    frame = decisions(50).assign(city=lambda frame: frame["city"].map({"Bern": 1, "Zürich": 2, "Genf": 30}))
    texts = frame.astype({"age": str, "city": float})
    hashes = []
    for table, name in ((frame, "a.csv"), (frame, "b.parquet"), (texts, "c.parquet"), (frame, "d.csv.gz")):
        hashes.append(hash_log(read_raw_log(write_table(table, tmp_path, name), MAPPING)).rows)
    assert all(np.array_equal(hashes[0], rows) for rows in hashes[1:])
