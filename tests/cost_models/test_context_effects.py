"""Context effects against their definition: every V_k dense, in loops, with scipy's normal likelihood."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from drcrm import ActionLists, BanditLog
from drcrm.cost_models import context_effects as module
from drcrm.cost_models.context_effects import ContextEffects, check_variances, context_effects
from drcrm.errors import InputError

both_kinds = pytest.mark.parametrize("kind", ["labels", "choices"])


def make_log(
    kind: str, m: int = 25, rows: int = 6, seed: int = 0, noise: float = 0.5, has_counts: bool = False
) -> tuple[BanditLog, np.ndarray, np.ndarray]:
    """Return a log, effects and the true δ: costs are effects, correlated random effects and noise.

    A context has 1 to ``rows`` rows. With counts, rows repeat, some do not occur, and some contexts have none.
    """
    rng, labels = np.random.default_rng(seed), 3
    r = labels + 1 if kind == "labels" else labels
    context = rng.permutation(np.repeat(np.arange(m), rng.integers(1, rows + 1, m)))
    n = len(context)
    Y = (rng.random((n, labels)) < 0.4).astype(int) if kind == "labels" else rng.integers(0, labels, n)
    effects, root = rng.normal(size=(m, r)), rng.normal(size=(r, r))
    delta = rng.normal(size=(m, r)) @ root
    cost = (dense_loadings(Y, r) * (effects + delta)[context]).sum(axis=1) + np.sqrt(noise) * rng.normal(size=n)
    count = rng.integers(0, 4, n) * (context % 7 > 0) if has_counts else np.ones(n, dtype=int)
    options = {} if kind == "labels" else {"n_actions": labels}
    return BanditLog(np.ones((m, 1)), Y, np.full(n, 0.5), cost, context, count, **options), effects, delta


def dense_loadings(Y: np.ndarray, r: int) -> np.ndarray:
    """Return (y_i, 1), or one-hot actions."""
    Y = np.asarray(Y)
    return np.column_stack([Y, np.ones(len(Y))]) if Y.ndim == 2 else np.eye(r)[Y]


def rows_by_context(log: BanditLog, effects: np.ndarray) -> list[tuple[int, np.ndarray, np.ndarray]]:
    """Return the number, the loadings and the residuals of each context with rows; rows repeat by their count."""
    A = dense_loadings(log.Y, effects.shape[1])
    residual = log.cost - (A * effects[log.context]).sum(axis=1)
    rows = np.repeat(np.arange(len(A)), log.count)
    return [(k, A[at], residual[at]) for k in range(log.n_contexts) if len(at := rows[log.context[rows] == k])]


def log_likelihood(log: BanditLog, effects: np.ndarray, covariance: np.ndarray, noise: float) -> float:
    return sum(
        multivariate_normal.logpdf(residual, cov=A @ covariance @ A.T + noise * np.eye(len(A)))
        for _, A, residual in rows_by_context(log, effects)
    )


def maximise_by_definition(log: BanditLog, effects: np.ndarray) -> ContextEffects:
    """Run EM as in the definition, with every row as often as it occurs."""
    data = rows_by_context(log, effects)
    residuals, loadings = np.concatenate([r for *_, r in data]), np.concatenate([A for _, A, _ in data])
    noise = np.mean(residuals**2) / 2
    covariance, last = noise * np.eye(loadings.shape[1]) / (loadings**2).sum(axis=1).mean(), -np.inf
    for rounds in range(51):
        value, delta = log_likelihood(log, effects, covariance, noise), np.zeros(effects.shape)
        second, squares = np.zeros(covariance.shape), []
        for k, A, residual in data:
            gain = covariance @ A.T @ np.linalg.inv(A @ covariance @ A.T + noise * np.eye(len(A)))
            delta[k] = gain @ residual
            S = covariance - gain @ A @ covariance
            second += np.outer(delta[k], delta[k]) + S
            squares.append((residual - A @ delta[k]) ** 2 + np.einsum("ij,jk,ik->i", A, S, A))
        if rounds == 50 or value - last < 1e-3 * len(data):
            break
        last, covariance = value, second / len(data)
        noise = max(np.concatenate(squares).mean(), 0.01 * np.mean(residuals**2))
    return ContextEffects(delta, covariance, noise, rounds)


def assert_same(effects: ContextEffects, expected: ContextEffects, rel: float = 1e-8) -> None:
    assert effects.rounds == expected.rounds
    for name in ("delta", "covariance"):
        array = getattr(expected, name)
        assert getattr(effects, name) == pytest.approx(array, rel=rel, abs=rel * np.abs(array).max(initial=0)), name
    assert effects.noise == pytest.approx(expected.noise, rel=rel)


@both_kinds
@pytest.mark.parametrize("has_counts", [False, True], ids=["once", "counts"])
@pytest.mark.parametrize(("m", "rows"), [(25, 1), (25, 3), (25, 30), (1, 3), (4, 150)])
def test_results_are_those_of_the_definition(kind, m, rows, has_counts):
    log, effects, _ = make_log(kind, m, rows, has_counts=has_counts and m > 1)
    assert_same(context_effects(log, effects), maximise_by_definition(log, effects))


def test_action_lists_have_only_noise():
    rng = np.random.default_rng(0)
    lists = ActionLists(rng.normal(size=(10, 2)), [0, 4, 7, 10])
    log = BanditLog(lists, [0, 2, 1], np.ones(3), rng.normal(size=3), count=[1, 0, 2])
    fitted, costs = context_effects(log, np.zeros(10)), np.repeat(log.cost, log.count)
    assert (fitted.delta.tolist(), fitted.covariance.shape) == ([0.0] * 10, (0, 0))
    assert fitted.noise == pytest.approx(np.mean(costs**2))


def test_small_batches_add_up_to_the_whole_log(monkeypatch):
    log, effects, _ = make_log("labels", rows=12, has_counts=True)
    whole = context_effects(log, effects)
    monkeypatch.setattr(module, "BATCH_SIZE", 10)
    assert_same(context_effects(log, effects), whole, rel=1e-10)


@both_kinds
def test_known_variances_are_not_estimated(kind):
    log, effects, _ = make_log(kind, has_counts=True)
    estimated = context_effects(log, effects)
    known = context_effects(log, effects, (estimated.covariance, estimated.noise))
    assert known.rounds == 0
    assert_same(replace(known, rounds=estimated.rounds), estimated, rel=1e-9)
    assert not context_effects(log, effects, (0 * estimated.covariance, estimated.noise)).delta.any()


@pytest.mark.parametrize(
    ("covariance", "noise", "message"),
    [
        (np.eye(2), 1.0, r"covariance has shape \(2, 2\), expected a symmetric one of \(3, 3\)"),
        (np.triu(np.ones((3, 3))), 1.0, r"covariance has shape \(3, 3\), expected a symmetric one"),
        *(
            (matrix, noise, "must be finite, with variances ≥ 0")
            for matrix, noise in ((-np.eye(3), 1.0), (np.eye(3), 0.0))
        ),
        (np.eye(3), None, "must be finite, with variances ≥ 0 and a noise > 0"),
    ],
)
def test_invalid_variances_are_refused(covariance, noise, message):
    with pytest.raises(InputError, match=message):
        check_variances(covariance, noise, 3)


def test_too_many_actions_and_infinite_costs_are_refused():
    many = BanditLog(np.ones((2, 1)), [0, 1], [0.5, 0.5], [1.0, 2.0], n_actions=5001)
    with pytest.raises(InputError, match="the log has 5001 actions or labels, expected at most 5000"):
        context_effects(many, np.zeros((2, 5001)))
    log, effects, _ = make_log("labels")
    with pytest.raises(InputError, match="beyond the range of numbers"), np.errstate(all="ignore"):
        context_effects(log, np.full(effects.shape, 1e308))
