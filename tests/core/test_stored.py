"""Rows on disk are read as they were written, and a log of them is learned from as one in memory."""

import gc
import pickle
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from sklearn.kernel_approximation import RBFSampler

from drcrm import ActionLists, BanditLog, CostModel
from drcrm.core import design, optimiser, parts
from drcrm.core.algorithms import Algorithm
from drcrm.core.learning import learn
from drcrm.core.passes import passes
from drcrm.core.scales import constant_features, largest_entries
from drcrm.core.stored import BLOCK, RowsWriter, StoredRows, stored_beside
from drcrm.errors import InputError
from drcrm.feature_maps import FeatureMap

ALGORITHM = Algorithm(
    "KLDRO", "radius", (0.01, 0.1), {"estimate": "dr", "start": "model", "tilt": "auto", "safe": True}
)


def written(path, X, dtype="float64", blocks=3) -> StoredRows:
    ends = np.linspace(0, X.shape[0], blocks + 1).astype(int)
    with RowsWriter(path, dtype) as rows:
        for start, stop in pairwise(ends):
            rows.append(X[start:stop])
    return rows.rows


def dense(rows):
    return rows.toarray() if sparse.issparse(rows) else rows


@pytest.mark.parametrize("form", ["dense", "sparse"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_rows_are_read_as_they_were_written(dtype, form, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3 * BLOCK // 8 // 64, 64)).astype(dtype).astype(float)
    if form == "sparse":
        X[rng.random(X.shape) < 0.5] = 0
        X[7] = 0
    rows = written(tmp_path / "X.rows", sparse.csr_array(X) if form == "sparse" else X, dtype)
    assert rows.shape == X.shape
    assert rows.size == np.count_nonzero(X)
    assert len([*rows.blocks()]) > 1
    part = rows.between(slice(5, 2000))
    assert len(pickle.dumps(rows.between(slice(5, 6)))) < 1000
    assert part.shape == (1995, 64)
    assert part.size == np.count_nonzero(X[5:2000])
    nothing = np.zeros(0, dtype=int)
    for some in (slice(5, 9), slice(9, 5), slice(0, None, 7), [3, 1, 1, -1], rng.integers(0, 1995, 99), nothing):
        assert np.array_equal(dense(part[some]), X[5:2000][some])
    for some in (slice(None), slice(-3, None), X[:, 0] > 0):
        assert np.array_equal(dense(rows[some]), X[some])
    assert np.array_equal(dense(rows[4]), X[4])
    assert rows[2, 5] == X[2, 5]
    assert rows[:1].dtype == float
    assert np.allclose(rows @ X[0], X @ X[0], rtol=1e-12)
    assert np.array_equal(largest_entries(rows), largest_entries(X))
    assert np.array_equal(largest_entries(part), largest_entries(X[5:2000]))
    assert np.array_equal(dense(rows[:]), X)


def test_a_vector_is_stored_too(tmp_path):
    values = np.random.default_rng(0).normal(size=1000)
    rows = written(tmp_path / "X.rows", values)
    assert rows.shape == (1000,)
    assert np.array_equal(rows[5:9], values[5:9])
    assert np.array_equal(rows[[7, 3]], values[[7, 3]])
    assert np.array_equal(np.asarray(rows), values)


def test_a_constant_is_found_in_rows_on_disk(tmp_path):
    X = np.column_stack([np.random.default_rng(0).normal(size=9), np.ones(9)])
    assert constant_features(written(tmp_path / "X.rows", X)).tolist() == [False, True]


@pytest.mark.parametrize("cut", ["X.rows", "X.columns"])
def test_rows_that_are_cut_off_are_said_to_be(cut, tmp_path):
    X = np.ones((10, 2))
    rows = written(tmp_path / "X.rows", sparse.csr_array(X) if cut == "X.columns" else X)
    (tmp_path / cut).write_bytes(b"")
    with pytest.raises(InputError, match=rf"{cut} is cut off, expected 10 rows"):
        rows[:]


def test_a_disk_that_is_full_is_said_with_the_file():
    with RowsWriter(Path("/dev/full")) as rows, pytest.raises(OSError, match="/dev/full"):
        rows.append(np.ones((4, 2)))


@pytest.mark.parametrize(("block", "files"), [(np.zeros((4, 3)), 1), (sparse.csr_array(np.eye(4, 3)), 2)])
def test_what_was_made_beside_goes_with_what_holds_it(block, files, tmp_path):
    rows = written(tmp_path / "X.rows", np.ones((4, 2)))
    made = stored_beside(rows, [block])
    assert made.shape == (4, 3)
    assert len([*tmp_path.iterdir()]) == 1 + files
    del made
    gc.collect()
    assert [each.name for each in tmp_path.iterdir()] == ["X.rows"]


def logged(kind: str, m: int, rng) -> BanditLog:
    if kind == "lists":
        sizes = rng.integers(1, 5, m)
        starts = np.append(0, np.cumsum(sizes))
        features = sparse.csr_array(np.where(rng.random((starts[-1], 6)) < 0.5, rng.normal(size=(starts[-1], 6)), 0))
        Y = rng.integers(0, sizes)
        cost = features[starts[:-1] + Y] @ rng.normal(size=6) + rng.normal(size=m)
        return BanditLog(ActionLists(features, starts), Y, 1 / sizes, cost)
    X = np.column_stack([rng.normal(size=(m, 3)), np.ones(m)])
    truth = rng.normal(size=(4, 3))
    if kind == "labels":
        Y = rng.integers(0, 2, (m, 3))
        return BanditLog(X, Y, np.full(m, 1 / 8), -((X @ truth > 0) == Y).sum(axis=1) + rng.normal(size=m))
    Y = rng.integers(0, 3, m)
    cost = -(rng.random(m) < np.where((X @ truth).argmax(axis=1) == Y, 0.8, 0.3)).astype(float)
    if kind == "sparse":
        X = sparse.csr_array(np.column_stack([X, np.eye(8)[rng.integers(0, 8, m)]]))
    return BanditLog(X, Y, np.full(m, 1 / 3), cost, n_actions=3)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("kind", ["labels", "single", "sparse", "lists"])
def test_a_log_on_disk_is_learned_from_as_in_memory(kind, dtype, tmp_path, monkeypatch):
    monkeypatch.setattr(optimiser, "ENOUGH", 1e-9)
    monkeypatch.setattr(parts, "LARGE", 500)
    monkeypatch.setattr(design, "LARGE", 500)
    monkeypatch.setattr(design, "SAMPLE", 400)
    monkeypatch.setattr(parts, "MOST", 150)
    rng = np.random.default_rng(0)
    train, heldout = logged(kind, 2000, rng), logged(kind, 400, rng)
    in_memory = learn(train, ALGORITHM, heldout)
    stored = train.derived(X=written(tmp_path / "X.rows", train.X, dtype))
    for jobs in (1, 2):
        with passes(jobs):
            on_disk = learn(stored, ALGORITHM, heldout)
        assert isinstance(on_disk.objectives[0].design.effects, StoredRows)
        if dtype == "float32":  # near its end a fit has many policies that are as good
            assert on_disk.fits.objective == pytest.approx(in_memory.fits.objective, rel=1e-2, nan_ok=True)
            continue
        assert on_disk.fits.coef == pytest.approx(in_memory.fits.coef, rel=1e-10, abs=1e-10)
        assert on_disk.fits.scores == pytest.approx(in_memory.fits.scores, rel=1e-10, abs=1e-10, nan_ok=True)


def test_a_feature_map_is_not_fitted_to_rows_on_disk(tmp_path):
    X = np.random.default_rng(0).normal(size=(9, 2))
    with pytest.raises(InputError, match="a feature map is not fitted to a log on disk"):
        FeatureMap(RBFSampler(), written(tmp_path / "X.rows", X))


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("kind", ["labels", "single", "sparse", "lists"])
def test_a_cost_model_of_many_coefficients_is_fitted_by_passes(kind, large, tmp_path, monkeypatch):
    log = logged(kind, 1500, np.random.default_rng(0))
    stored = log.derived(X=written(tmp_path / "X.rows", log.X))
    whole = CostModel().fit_log(log)
    monkeypatch.setattr("drcrm.core.moments.MOST_COLUMNS", 0)
    monkeypatch.setattr(parts, "LARGE", 500)
    monkeypatch.setattr(parts, "MOST", 150)
    if large:
        monkeypatch.setattr(design, "SAMPLE", 300)
        monkeypatch.setattr("drcrm.core.cost_model.LARGE_TOLERANCE", 1e-12)
    in_memory, on_disk = (CostModel().fit_log(each) for each in (log, stored))
    assert on_disk.penalty_ == in_memory.penalty_
    assert on_disk.coef_ == pytest.approx(in_memory.coef_, rel=1e-10, abs=1e-10)
    again = CostModel(in_memory.penalty_).fit_log(log)
    assert on_disk.coef_ == pytest.approx(again.coef_, rel=1e-8, abs=1e-8)
    if not large:
        assert on_disk.penalty_ == whole.penalty_
    gc.collect()
    assert not [*tmp_path.glob("made-*")]
