"""Mapped files and workers of a cluster give the same values, gradients and policies as arrays in memory."""

import json
import os
import signal
from contextlib import nullcontext
from itertools import count

import numpy as np
import pytest
from fixtures.action_logs import (
    block_log,
    evaluate_all,
    random_effects,
    use_small_samples,
    write_mapped,
    write_mapped_log,
)
from fixtures.user_logs import MAPPING, close, decisions

from drcrm import cluster
from drcrm.arrays.mapped_arrays import scratch_folder
from drcrm.cluster import on_cluster
from drcrm.data import chunked_log
from drcrm.errors import InputError
from drcrm.optimization.lbfgs import minimize_objectives
from drcrm.optimization.objective import Objective
from drcrm.policies import prepared_log
from drcrm.policies.prepared_log import PreparedLog
from drcrm.risks import KLBall
from drcrm.selection.algorithms import Algorithm
from drcrm.selection.grid_search import learn

OPTIONS = {"estimate": "dr", "start": "model", "tilt": "auto", "safe": True}
ALGORITHM = Algorithm("KLDRO", "radius", (0.01, 0.1), OPTIONS)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """Divide every log into many chunks, all of which go to the workers."""
    sizes = {"LARGE": 100, "MOST_CONTEXTS": 32, "MANY_SCORES": 2000, "BLOCK_SCORES": 1000}
    for name, value in sizes.items():
        monkeypatch.setattr(chunked_log, name, value)
    monkeypatch.setattr(cluster, "FEW", 0)


@pytest.fixture(scope="module")
def client():
    distributed = pytest.importorskip("distributed", reason="the extra drcrm[dask] is not installed")
    options = {"dashboard_address": ":0", "processes": True, "threads_per_worker": 1}
    with distributed.LocalCluster(n_workers=2, **options) as cluster, distributed.Client(cluster) as client:
        yield client


@pytest.mark.parametrize("kind", ["sparse", "lists"])
def test_values_and_gradients_do_not_depend_on_storage_or_workers(kind, client, tmp_path):
    log = block_log(kind, 300)
    effects = random_effects(log)
    expected = evaluate_all(log, effects)
    on_disk, effects_on_disk = write_mapped_log(log, tmp_path), write_mapped(effects, tmp_path / "effects")
    assert len(PreparedLog(on_disk).chunked.blocks) > 8
    for executor, *arguments in (
        (nullcontext(), on_disk, effects_on_disk),
        (on_cluster(client, tmp_path), log, effects),
        (on_cluster(client, tmp_path), on_disk, effects_on_disk),
    ):
        with executor:
            for value, known in zip(evaluate_all(*arguments), expected, strict=True):
                assert value == pytest.approx(known, rel=1e-10, abs=1e-11)


@pytest.mark.slow
def test_a_fit_survives_the_death_of_a_worker(client, tmp_path):
    objective = Objective(PreparedLog(block_log("single", 300)), KLBall(0.1))
    start = np.zeros(objective.prepared.shape)
    [expected] = minimize_objectives([objective], start)
    workers, calls = client.run(os.getpid), count()

    class KillingBall(KLBall):
        def evaluate_sums(self, *arguments):
            if next(calls) == 5:
                os.kill(min(workers.values()), signal.SIGKILL)
            return super().evaluate_sums(*arguments)

    objective.risk = KillingBall(0.1)
    with on_cluster(client, tmp_path):
        [result] = minimize_objectives([objective], start)
    assert next(calls) > 6
    assert result.coef == pytest.approx(expected.coef, rel=1e-8, abs=1e-8)


def test_learn_gives_the_same_answer_on_a_cluster(client, answer, tmp_path, monkeypatch):
    monkeypatch.undo()  # small sums stay in the process
    for module, name in ((chunked_log, "LARGE"), (prepared_log, "LARGE"), (chunked_log, "MOST_CONTEXTS")):
        monkeypatch.setattr(module, name, 256)
    decisions(1200).to_csv(tmp_path / "log.csv", index=False)
    arguments = "learn", tmp_path / "log.csv", "--config", json.dumps(MAPPING), "--output", tmp_path / "p.npz"
    local, of_workers = (answer(*arguments, *words) for words in ((), ("--cluster", client.scheduler.address)))
    close(of_workers[0], local[0])
    assert {path.name for path in tmp_path.iterdir()} - {"p.candidate.npz"} == {"answer.json", "log.csv", "p.npz"}


def test_a_cluster_needs_workers(tmp_path):
    class EmptyClient:
        def nthreads(self) -> dict:
            return {}

    objective = Objective(PreparedLog(block_log("single", 300)), KLBall(0.1))
    with on_cluster(EmptyClient(), tmp_path), pytest.raises(InputError, match="no workers"):
        objective(np.zeros(objective.prepared.shape))


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "sample"), [("shuffled", 10**6), ("lists", 100)])
def test_workers_learn_the_same_policy(kind, sample, client, tmp_path, monkeypatch):
    use_small_samples(monkeypatch, sample, 8)
    train, heldout = block_log(kind, 420), block_log(kind, 150, seed=1)
    expected = learn(train, ALGORITHM, heldout).as_arrays()
    on_disk = [write_mapped_log(log, tmp_path / name) for name, log in (("train", train), ("heldout", heldout))]
    with on_cluster(client, tmp_path), scratch_folder(tmp_path):
        result = learn(on_disk[0], ALGORITHM, on_disk[1]).as_arrays()
    assert np.array_equal(result["chosen"], expected["chosen"])
    assert result["scores"] == pytest.approx(expected["scores"], rel=1e-6, abs=1e-6, nan_ok=True)
    assert result["coef"] == pytest.approx(expected["coef"], rel=1e-6, abs=1e-6)
