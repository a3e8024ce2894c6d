"""Memory, mapped files, threads and the workers of a cluster give the same values, gradients and learned policies."""

from __future__ import annotations

import io
import os
import pickle
import signal
from contextlib import nullcontext
from itertools import count, pairwise

import numpy as np
import pytest
from scipy import sparse

from drcrm import ActionLists, BanditLog
from drcrm.arrays import mapped_arrays
from drcrm.arrays.mapped_arrays import ArrayWriter, MappedPickler, map_rows, scratch_folder, slice_rows, take_rows
from drcrm.data import chunked_log, dask_executor, executors
from drcrm.data.dask_executor import use_cluster
from drcrm.data.executors import use_threads
from drcrm.errors import InputError
from drcrm.optimization import objective
from drcrm.optimization.lbfgs import minimize_objectives
from drcrm.optimization.objective import Objective
from drcrm.policies import linear_predictor as design
from drcrm.policies.linear_predictor import LinearPredictor
from drcrm.risks import Chi2Ball, KLBall, MeanRisk
from drcrm.selection.algorithms import Algorithm
from drcrm.selection.grid_search import learn

KINDS = ["labels", "single", "eligible", "lists", "sparse", "many", "shuffled"]
ALGORITHM = Algorithm(
    "KLDRO", "radius", (0.01, 0.1), {"estimate": "dr", "start": "model", "tilt": "auto", "safe": True}
)


def logged(kind: str, m: int = 600, seed: int = 0) -> BanditLog:
    """A log of m contexts, one or several rows each, whose actions matter."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=(m, 3)), np.ones(m)])
    context = np.sort(np.append(np.arange(m), rng.integers(0, m, m // 2)))
    if kind == "shuffled":
        context = rng.permutation(context)
    n = len(context)
    p, noise = rng.uniform(0.2, 0.4, n), rng.normal(size=n)
    if kind == "lists":
        starts = np.append(0, np.cumsum(rng.integers(2, 5, m)))
        X = ActionLists(rng.normal(size=(starts[-1], 3)), starts)
        Y = rng.integers(0, np.diff(starts)[context])
        return BanditLog(X, Y, p, noise - 2 * X.features[starts[context] + Y, 0], context)
    if kind in ("labels", "sparse", "shuffled"):
        Y = rng.integers(0, 2, (n, 3))
        X = sparse.csr_array(X) if kind == "sparse" else X
        return BanditLog(X, Y, p, noise - 2 * Y[:, 0] * np.sign(rng.normal(size=n)) - Y[:, 1], context)
    K = 40 if kind == "many" else 4
    eligible = np.ones((m, K), dtype=bool)
    if kind == "eligible":
        eligible[:, 1:] = rng.random((m, K - 1)) < 0.8
    Y = np.where(eligible[context, (drawn := rng.integers(0, K, n))], drawn, 0)
    return BanditLog(X, Y, p, noise - 2 * ((X[context, 0] > 0) == Y), context, n_actions=K, eligible=eligible)


def mapped(array, path):
    """Return the array in mapped files, written in three batches."""
    writer, ends = ArrayWriter(path), np.linspace(0, array.shape[0], 4).astype(int)
    for start, stop in pairwise(ends):
        writer.append(array[start:stop])
    return writer.finish()


def mapped_log(log: BanditLog, folder) -> BanditLog:
    folder.mkdir(exist_ok=True)
    vectors = {name: mapped(getattr(log, name), folder / name) for name in ("Y", "propensity", "cost", "context")}
    return log.replace(X=mapped(log.X, folder / "X"), **vectors)


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr(chunked_log, "LARGE", 100)
    monkeypatch.setattr(chunked_log, "MOST_CONTEXTS", 32)
    monkeypatch.setattr(chunked_log, "MANY_SCORES", 2000)
    monkeypatch.setattr(chunked_log, "BLOCK_SCORES", 1000)
    monkeypatch.setattr(chunked_log, "GROUP_SCORES", 4000)


@pytest.fixture(autouse=True)
def no_chunks_are_few(monkeypatch):
    monkeypatch.setattr(dask_executor, "FEW", 0)


@pytest.fixture(scope="module")
def client():
    distributed = pytest.importorskip("distributed", reason="the extra drcrm[dask] is not installed")
    options = {"dashboard_address": ":0", "processes": True, "threads_per_worker": 1}
    with distributed.LocalCluster(n_workers=2, **options) as cluster, distributed.Client(cluster) as client:
        yield client


def evaluated(log: BanditLog, coef: np.ndarray, effects: np.ndarray) -> list:
    built = LinearPredictor(log, effects, trains=True)
    values = [built.forward(coef)[0]]
    for estimate in ("ips", "snips", "dr", "dm"):
        for risk in (MeanRisk(), KLBall(0.1), Chi2Ball(0.1)):
            values += Objective(built, risk, estimate=estimate)(coef)
    return values


@pytest.mark.parametrize("kind", ["labels", "single", "lists"])
def test_what_is_not_kept_is_computed_again(kind, small_chunks, monkeypatch):
    log, rng = logged(kind), np.random.default_rng(1)
    coef = rng.normal(size=(log.X.shape[1], *log.actions.shape))
    effects = rng.normal(size=(log.X.shape[0], *log.actions.effect_space.shape))
    expected = evaluated(log, coef, effects)
    monkeypatch.setattr(objective, "MAX_KEPT_SCORES", 0)
    for value, known in zip(evaluated(log, coef, effects), expected, strict=True):
        assert value == pytest.approx(known, rel=1e-12, abs=1e-13)


@pytest.mark.parametrize("kind", KINDS)
def test_values_and_gradients_do_not_depend_on_storage_chunks_or_workers(kind, client, tmp_path, small_chunks):
    log, rng = logged(kind), np.random.default_rng(1)
    coef = rng.normal(size=(log.X.shape[1], *log.actions.shape))
    effects = rng.normal(size=(log.X.shape[0], *log.actions.effect_space.shape))
    with pytest.MonkeyPatch.context() as whole:
        whole.setattr(chunked_log, "LARGE", 10**6)
        whole.setattr(chunked_log, "MANY_SCORES", 10**9)
        assert len(LinearPredictor(log).chunked.blocks) == 1
        expected = evaluated(log, coef, effects)
    on_disk, effects_on_disk = mapped_log(log, tmp_path), mapped(effects, tmp_path / "effects")
    assert len(LinearPredictor(on_disk).chunked.blocks) > 8
    for contexts in (nullcontext(), use_threads(2), use_cluster(client, tmp_path)):
        with contexts:
            for stored, of_stored in ((log, effects), (on_disk, effects_on_disk)):
                for value, known in zip(evaluated(stored, coef, of_stored), expected, strict=True):
                    assert value == pytest.approx(known, rel=1e-10, abs=1e-11)


@pytest.mark.parametrize("sample", [10**6, 100], ids=["no sample", "samples"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_same_policy_is_learned(kind, sample, client, tmp_path, small_chunks, monkeypatch):
    monkeypatch.setattr(design, "SAMPLE", sample)
    monkeypatch.setattr(design, "LARGE", 100)
    train, heldout = logged(kind), logged(kind, 200, seed=1)
    alone = learn(train, ALGORITHM, heldout)
    on_disk, held_on_disk = mapped_log(train, tmp_path / "train"), mapped_log(heldout, tmp_path / "heldout")
    for executor in (nullcontext(), use_threads(2), use_cluster(client, tmp_path)):
        with executor, scratch_folder(tmp_path):
            together = learn(on_disk, ALGORITHM, held_on_disk)
        assert np.array_equal(together.fits.chosen, alone.fits.chosen)
        assert together.fits.scores == pytest.approx(alone.fits.scores, rel=1e-6, abs=1e-6, nan_ok=True)
        assert together.fits.coef == pytest.approx(alone.fits.coef, rel=1e-6, abs=1e-6)


def test_workers_do_all_passes_over_the_training_rows(client, tmp_path, small_chunks, monkeypatch):
    """The cost model, its effects, samples and the fit: nothing maps over their chunks in this process."""
    monkeypatch.setattr(design, "SAMPLE", 100)
    train, heldout = logged("single"), logged("single", 200, seed=1)
    with use_cluster(client, tmp_path):
        monkeypatch.setattr(executors, "deque", None)  # ChunkExecutor.run fails here
        assert learn(train, ALGORITHM, heldout).fits.chosen.size


def test_a_worker_that_dies_is_survived(client, tmp_path, small_chunks):
    log = logged("single")
    minimised = Objective(LinearPredictor(log, trains=True), KLBall(0.1))
    [alone] = minimize_objectives([minimised], np.zeros(minimised.design.shape))
    workers, calls = client.run(os.getpid), count()

    class Dying(KLBall):
        def evaluate_sums(self, *arguments):
            if next(calls) == 5:
                os.kill(min(workers.values()), signal.SIGKILL)
            return super().evaluate_sums(*arguments)

    minimised.risk = Dying(0.1)
    with use_cluster(client, tmp_path):
        [found] = minimize_objectives([minimised], np.zeros(minimised.design.shape))
    assert next(calls) > 6
    assert found.coef == pytest.approx(alone.coef, rel=1e-8, abs=1e-8)


def test_a_cluster_without_workers_is_refused(tmp_path, small_chunks):
    class Empty:
        def nthreads(self) -> dict:
            return {}

    minimised = Objective(LinearPredictor(logged("single"), trains=True), KLBall(0.1))
    with use_cluster(Empty(), tmp_path), pytest.raises(InputError, match="no workers"):
        minimised(np.zeros(minimised.design.shape))


@pytest.mark.parametrize("form", ["dense", "sparse", "vector"])
def test_mapped_arrays_are_what_was_written(form, tmp_path, monkeypatch):
    monkeypatch.setattr(mapped_arrays, "BLOCK_BYTES", 500)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(101, 6)) * (rng.random((101, 6)) < 0.5)
    X = sparse.csr_array(X) if form == "sparse" else X[:, 0] if form == "vector" else X
    dense = X.toarray() if form == "sparse" else X
    stored = mapped(X, tmp_path / "X")

    def same(array, expected) -> bool:
        return np.array_equal(array.toarray() if sparse.issparse(array) else array, expected)

    assert type(stored) is type(X)
    assert same(stored, dense)
    assert same(slice_rows(stored, slice(5, 70)), dense[5:70])
    rows = np.array([3, 1, 99, 3])
    assert same(take_rows(stored, rows), dense[rows])
    assert same(map_rows(stored, lambda block: 2 * block), 2 * dense)
    for part in (stored, slice_rows(stored, slice(50, 101))):
        file = io.BytesIO()
        MappedPickler(file, 5).dump(part)
        assert same(pickle.loads(file.getvalue()), part.toarray() if form == "sparse" else part)
        if form != "sparse":
            assert len(file.getvalue()) < 400
    before = {*tmp_path.iterdir()}
    with scratch_folder(tmp_path):
        derived = [take_rows(stored, rows), map_rows(stored, lambda block: 2 * block), take_rows(stored, rows[:0])]
        assert isinstance(map_rows(X, lambda block: 2 * block), type(X))
    assert len({*tmp_path.iterdir()} - before) == (9 if form == "sparse" else 3)
    for array, expected in zip(derived, (dense[rows], 2 * dense, dense[:0]), strict=True):
        assert same(array, expected)


def test_a_full_disk_is_named(tmp_path):
    writer = ArrayWriter(tmp_path / "X")
    (tmp_path / "X.npy").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space") as error:
        writer.append(np.ones(5))
    assert error.value.filename == str(tmp_path / "X.npy")
    writer.close()
