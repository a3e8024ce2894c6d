"""Logs of every kind of action that are divided into small blocks, and values that all storages must agree on."""

from itertools import pairwise
from pathlib import Path

import numpy as np
from scipy import sparse

from drcrm import ActionLists, BanditLog
from drcrm.arrays.mapped_arrays import ArrayWriter
from drcrm.cost_models.cross_fitting import FOLDS
from drcrm.cost_models.smearing import smeared_moments
from drcrm.data import chunked_log
from drcrm.optimization.objective import Objective
from drcrm.policies import prepared_log
from drcrm.policies.prepared_log import PreparedLog
from drcrm.risks import Chi2Ball, EnvironmentBall, KLBall, MeanRisk

KINDS = ["labels", "shuffled", "paired", "sparse", "single", "eligible", "many", "lists"]
CRITERIA = [("ips", MeanRisk()), ("snips", KLBall(0.1)), ("dr", KLBall(0.1)), ("dr", Chi2Ball(0.1)), ("dm", MeanRisk())]
CRITERIA += [("snips", EnvironmentBall(0.2)), ("snips", EnvironmentBall(0.2, "chi2"))]


def block_log(kind: str, m: int = 60, seed: int = 0) -> BanditLog:
    """Return a log of m contexts with one or several rows each, whose costs depend on the actions."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=(m, 3)), np.ones(m)])
    context = np.arange(m) if kind == "paired" else np.sort(np.append(np.arange(m), rng.integers(0, m, m)))
    if kind == "shuffled":
        context = rng.permutation(context)
    n = len(context)
    p, noise, count = rng.uniform(0.2, 0.4, n), rng.normal(size=n), rng.integers(1, 4, n)
    if kind == "lists":
        starts = np.append(0, np.cumsum(rng.integers(2, 5, m)))
        lists = ActionLists(rng.normal(size=(starts[-1], 3)), starts)
        Y = rng.integers(0, np.diff(starts)[context])
        return BanditLog(lists, Y, p, noise - 2 * lists.features[starts[context] + Y, 0], context, count)
    if kind in ("single", "eligible", "many"):
        K = 40 if kind == "many" else 4
        eligible = np.ones((m, K), dtype=bool)
        if kind == "eligible":
            eligible[:, 1:] = rng.random((m, K - 1)) < 0.8
        Y = rng.integers(0, K, n)
        Y = np.where(eligible[context, Y], Y, 0)
        cost = noise - 2 * ((X[context, 0] > 0) == Y)
        return BanditLog(X, Y, p, cost, context, count, n_actions=K, eligible=eligible)
    Y = rng.integers(0, 2, (n, 3))
    cost = noise - 2 * Y[:, 0] * np.sign(X[context, 0]) - Y[:, 1]
    return BanditLog(sparse.csr_array(X) if kind == "sparse" else X, Y, p, cost, context, count)


def random_effects(log: BanditLog, seed: int = 1) -> np.ndarray:
    """Return random effects of a cost model for each context or candidate."""
    return np.random.default_rng(seed).normal(size=(log.X.shape[0], *log.actions.effect_shape))


def random_coef(log: BanditLog, seed: int = 2) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(log.X.shape[1], *log.actions.shape))


def evaluate_all(log: BanditLog, effects: np.ndarray) -> list:
    """Return a forward pass, values and gradients of several objectives, and the model of exponentiated costs."""
    prepared, coef = PreparedLog(log, effects), random_coef(log)
    values = [*prepared.forward(coef)]
    for estimate, risk in CRITERIA:
        values += Objective(prepared, risk, estimate=estimate)(coef)
    mean, fold = log.actions.log_partition(log.X @ coef)[1], np.arange(log.n_contexts) % FOLDS
    return [*values, *smeared_moments(prepared.log, effects, mean, fold, 1.3, log.cost.max())]


def use_small_blocks(monkeypatch, size: int = 7) -> None:
    """Divide every log into blocks of ``size`` contexts."""
    monkeypatch.setattr(chunked_log, "LARGE", 1)
    monkeypatch.setattr(chunked_log, "MOST_CONTEXTS", size)


def use_small_samples(monkeypatch, size: int, growth: int = 4) -> None:
    """Treat every log as large, and draw samples of ``size`` contexts and more."""
    for name, value in {"LARGE": 1, "SAMPLE": size, "GROWTH": growth}.items():
        monkeypatch.setattr(prepared_log, name, value)


def write_mapped(array, path: Path):
    """Return the array in mapped files, written in three batches."""
    writer, ends = ArrayWriter(path), np.linspace(0, array.shape[0], 4).astype(int)
    for start, stop in pairwise(ends):
        writer.append(array[start:stop])
    return writer.finish()


def write_mapped_log(log: BanditLog, folder: Path) -> BanditLog:
    folder.mkdir(exist_ok=True)
    vectors = {name: write_mapped(getattr(log, name), folder / name) for name in ("Y", "propensity", "cost", "context")}
    return log.replace(X=write_mapped(log.X, folder / "X"), **vectors)
