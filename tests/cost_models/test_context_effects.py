"""Context effects against their definition: each V_k dense, in loops, and its likelihood by scipy."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import drcrm.cost_models.context_effects as module
from drcrm import ActionLists, BanditLog
from drcrm.cost_models import random_effect_solvers
from drcrm.cost_models.context_effects import (
    ContextEffects,
    check_variances,
    context_effects,
)
from drcrm.cost_models.random_effect_solvers import DensePairs, SparsePairs
from drcrm.errors import InputError

KINDS = ["labels", "choices"]
Made = tuple[BanditLog, np.ndarray, np.ndarray]  # a log, effects, and the true δ


def made(kind: str, m=25, most=6, seed=0, noise=0.5, counts=False, labels=3, scale=1.0) -> Made:
    """A log whose costs are effects, random effects of the contexts, which hang together, and noise, at 1 to ``most``
    rows a context; with ``counts``, rows that repeat, some that do not occur, and contexts without rows."""
    rng = np.random.default_rng(seed)
    r = labels + 1 if kind == "labels" else labels
    context = rng.permutation(np.repeat(np.arange(m), rng.integers(1, most + 1, m)))
    n = len(context)
    Y = (rng.random((n, labels)) < 0.4).astype(int) if kind == "labels" else rng.integers(0, labels, n)
    effects, root = rng.normal(size=(m, r)), rng.normal(size=(r, r))
    delta = scale * rng.normal(size=(m, r)) @ root
    cost = (dense_loadings(Y, r) * (effects + delta)[context]).sum(axis=1) + np.sqrt(noise) * rng.normal(size=n)
    count = rng.integers(0, 4, n) * (context % 7 > 0) if counts else np.ones(n, dtype=int)
    known = {} if kind == "labels" else {"n_actions": labels}
    return BanditLog(np.ones((m, 1)), Y, np.full(n, 0.5), cost, context, count, **known), effects, delta


def dense_loadings(Y: np.ndarray, r: int) -> np.ndarray:
    """(y_i, 1), or one-hot."""
    Y = np.asarray(Y)
    return np.column_stack([Y, np.ones(len(Y))]) if Y.ndim == 2 else np.eye(r)[Y]


def rows_by_context(log: BanditLog, effects: np.ndarray) -> list[tuple[int, np.ndarray, np.ndarray]]:
    """Each context that has some, its loadings and residuals, every row as often as it occurs."""
    A = dense_loadings(log.Y, effects.shape[1])
    residual = log.cost - (A * effects[log.context]).sum(axis=1)
    rows = np.repeat(np.arange(len(A)), log.count)
    return [(k, A[here], residual[here]) for k in range(log.n_contexts) if len(here := rows[log.context[rows] == k])]


def likelihood(log: BanditLog, effects: np.ndarray, covariance: np.ndarray, noise: float) -> float:
    """log N(r_k; 0, A_k Σ A_kᵀ + σ²), added up."""
    return sum(
        multivariate_normal.logpdf(residual, cov=A @ covariance @ A.T + noise * np.eye(len(A)))
        for _, A, residual in rows_by_context(log, effects)
    )


def reference(log: BanditLog, effects: np.ndarray, rounds=50, gain=1e-3) -> ContextEffects:
    """EM as the definition has it, every row as often as it occurs."""
    data = rows_by_context(log, effects)
    pooled, loadings = np.concatenate([r for *_, r in data]), np.concatenate([A for _, A, _ in data])
    noise = np.mean(pooled**2) / 2
    covariance, last = noise * np.eye(loadings.shape[1]) / (loadings**2).sum(axis=1).mean(), -np.inf
    for done in range(rounds + 1):
        value, delta = likelihood(log, effects, covariance, noise), np.zeros(effects.shape)
        second, squares = np.zeros(covariance.shape), []
        for k, A, residual in data:
            gain_of = covariance @ A.T @ np.linalg.inv(A @ covariance @ A.T + noise * np.eye(len(A)))
            delta[k] = gain_of @ residual
            S = covariance - gain_of @ A @ covariance
            second += np.outer(delta[k], delta[k]) + S
            squares.append((residual - A @ delta[k]) ** 2 + np.einsum("ij,jk,ik->i", A, S, A))
        if done == rounds or value - last < gain * len(data):
            break
        last, covariance = value, second / len(data)
        noise = max(np.concatenate(squares).mean(), 0.01 * np.mean(pooled**2))
    return ContextEffects(delta, covariance, noise, done, value)


def assert_same(one: ContextEffects, other: ContextEffects, rel: float = 1e-8) -> None:
    assert one.rounds == other.rounds
    for name in ("delta", "covariance"):
        there = getattr(other, name)
        assert getattr(one, name) == pytest.approx(there, rel=rel, abs=rel * np.abs(there).max(initial=0)), name
    assert (one.noise, one.log_likelihood) == pytest.approx((other.noise, other.log_likelihood), rel=rel)


@pytest.mark.parametrize("counts", [False, True], ids=["once", "counts"])
@pytest.mark.parametrize("most", [1, 3, 30], ids=["one row", "few rows", "many rows"])
@pytest.mark.parametrize("kind", KINDS)
def test_rounds_are_those_of_the_definition(kind, most, counts):
    log, effects, _ = made(kind, most=most, counts=counts)
    assert_same(context_effects(log, effects), reference(log, effects))


@pytest.mark.parametrize("kind", KINDS)
def test_contexts_of_hundreds_of_rows(kind):
    log, effects, _ = made(kind, m=4, most=400, counts=True)
    assert_same(context_effects(log, effects), reference(log, effects))


@pytest.mark.parametrize("noise", [0.5, 0.0], ids=["noise", "none"])
@pytest.mark.parametrize("most", [2, 12])
@pytest.mark.parametrize("kind", KINDS)
def test_the_likelihood_never_falls(kind, most, noise, monkeypatch):
    log, effects, _ = made(kind, most=most, noise=noise, counts=True)
    monkeypatch.setattr(module, "MIN_GAIN", -np.inf)
    values = []
    for rounds in [*range(8), 20, 50, 200]:
        monkeypatch.setattr(module, "MAX_ROUNDS", rounds)
        fitted = context_effects(log, effects)
        values.append(likelihood(log, effects, fitted.covariance, fitted.noise))
        assert fitted.rounds == rounds
        assert fitted.log_likelihood == pytest.approx(values[-1], rel=1e-7, abs=1e-6)
        assert np.linalg.eigvalsh(fitted.covariance).min() > -1e-9 * np.abs(fitted.covariance).max()
    assert all(after > before - 1e-6 for before, after in pairwise(values))
    if noise == 0:  # rows that repeat without noise: a hundredth of the mean squared residual
        pooled = np.concatenate([residual for *_, residual in rows_by_context(log, effects)])
        assert fitted.noise == pytest.approx(0.01 * np.mean(pooled**2), rel=1e-9)


@pytest.mark.parametrize("most", [4, 20])
@pytest.mark.parametrize("kind", KINDS)
def test_what_made_a_large_sample_is_recovered(kind, most, monkeypatch):
    """Σ and σ² to 5 %; and δ̂ is the mean of δ given the rows: the regression of δ on it has slope 1."""
    monkeypatch.setattr(module, "MAX_ROUNDS", 200)
    monkeypatch.setattr(module, "MIN_GAIN", 1e-6)
    log, effects, delta = made(kind, m=4000, most=most, seed=1)
    fitted = context_effects(log, effects)
    true = delta.T @ delta / len(delta)
    assert fitted.covariance == pytest.approx(true, abs=0.05 * np.trace(true))
    assert fitted.noise == pytest.approx(0.5, rel=0.05)
    slopes = (delta * fitted.delta).sum(axis=0) / (fitted.delta**2).sum(axis=0)
    assert slopes == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize("scale", [1e-120, 1e-9, 3.7, 1e9, 1e120])
@pytest.mark.parametrize("kind", KINDS)
def test_costs_in_another_unit_have_effects_in_that_unit(kind, scale):
    log, effects, _ = made(kind, counts=True, most=8)
    plain, constant = context_effects(log, effects), 5.0
    moved = scale * effects
    log.actions.effect_space.add_constant(moved, scale * constant)
    fitted = context_effects(log.with_cost(scale * (log.cost + constant)), moved)
    assert fitted.rounds == plain.rounds
    assert fitted.delta / scale == pytest.approx(plain.delta, rel=1e-10, abs=1e-12)
    if abs(np.log10(scale)) < 100:
        assert fitted.covariance / scale**2 == pytest.approx(plain.covariance, rel=1e-10, abs=1e-12)
        assert fitted.noise == pytest.approx(scale**2 * plain.noise, rel=1e-10)
        shift = -log.size * np.log(scale)
        assert fitted.log_likelihood == pytest.approx(plain.log_likelihood + shift, rel=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_effects_survive_units_whose_squares_are_no_numbers(kind):
    log, effects, _ = made(kind)
    plain = context_effects(log, effects).delta
    for scale in (1e-250, 1e250):
        fitted = context_effects(log.with_cost(scale * log.cost), scale * effects)
        assert fitted.delta / scale == pytest.approx(plain, rel=1e-10, abs=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_the_order_of_rows_and_of_contexts_does_not_matter(kind):
    log, effects, _ = made(kind, most=9, counts=True)
    rng = np.random.default_rng(3)
    rows, contexts = rng.permutation(len(log.Y)), rng.permutation(log.n_contexts)
    given = (each[rows] for each in (log.Y, log.propensity, log.cost))
    place = np.argsort(contexts)
    other = BanditLog(log.X[contexts], *given, place[log.context[rows]], log.count[rows], **log.actions.log_options)
    plain, fitted = context_effects(log, effects), context_effects(other, effects[contexts])
    assert_same(ContextEffects(plain.delta[contexts], *list(vars(plain).values())[1:]), fitted, rel=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_a_count_is_as_many_equal_rows(kind):
    log, effects, _ = made(kind, most=5, counts=True)
    rows = np.repeat(np.arange(len(log.Y)), log.count)
    given = (each[rows] for each in (log.Y, log.propensity, log.cost, log.context))
    repeated = BanditLog(log.X, *given, **log.actions.log_options)
    assert_same(context_effects(log, effects), context_effects(repeated, effects), rel=1e-9)
    assert_same(context_effects(repeated.merge_duplicates()[0], effects), context_effects(log, effects), rel=1e-9)


@pytest.mark.parametrize("most", [6, 20])
@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_occur_a_billion_times(kind, most, monkeypatch):
    """They count 10⁴ times; the likelihood does not fall for them, and the prediction of their costs is exact."""
    log, effects, _ = made(kind, m=100, most=most, noise=0.0)
    often = np.random.default_rng(1).random(len(log.Y)) < 0.5
    values = []
    for rounds in (5, 20, 50, 150):
        monkeypatch.setattr(module, "MAX_ROUNDS", rounds)
        fitted = context_effects(log.replace(count=np.where(often, 10**9, 1)), effects)
        values.append(fitted.log_likelihood)
    assert all(after >= before - 1e-9 * abs(before) for before, after in pairwise(values))
    assert_same(fitted, context_effects(log.replace(count=np.where(often, 10**4, 1)), effects), rel=1e-12)
    predicted = (dense_loadings(log.Y, effects.shape[1]) * (effects + fitted.delta)[log.context]).sum(axis=1)
    assert predicted[often] == pytest.approx(log.cost[often], abs=1e-3)


def test_contexts_without_rows_have_no_effect():
    log, effects, _ = made("labels", counts=True)
    without = np.bincount(log.context, log.count, log.n_contexts) == 0
    fitted = context_effects(log, effects)
    assert without.any()
    assert not fitted.delta[without].any()
    assert fitted.delta[~without].all()
    kept = context_effects(log.recount(log.count), effects[~without])
    assert_same(ContextEffects(fitted.delta[~without], *list(vars(fitted).values())[1:]), kept, rel=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_of_an_exact_model_there_are_none(kind):
    log, effects, _ = made(kind)
    exact = log.with_cost((dense_loadings(log.Y, effects.shape[1]) * effects[log.context]).sum(axis=1))
    fitted = context_effects(exact, effects)
    assert np.abs(fitted.delta).max() < 1e-14
    none = context_effects(log.with_cost(np.zeros(len(log.Y))), 0 * effects)
    assert not none.delta.any()
    assert (none.noise, none.rounds, none.log_likelihood) == (0, 0, np.inf)
    assert not none.covariance.any()


@pytest.mark.parametrize("kind", KINDS)
def test_one_context(kind):
    for most in (1, 3, 50):
        log, effects, _ = made(kind, m=1, most=most, seed=4)
        assert_same(context_effects(log, effects), reference(log, effects))


def test_a_label_never_logged_has_no_effect_and_one_always_logged_that_of_the_constant():
    log, effects, _ = made("labels", most=6)
    zeros = np.zeros((len(log.Y), 1), dtype=int)
    plain = context_effects(log, effects)
    never = log.replace(**vars(BanditLog(log.X, np.hstack([zeros, log.Y]), log.propensity, log.cost, log.context)))
    fitted = context_effects(never, np.column_stack([effects[:, 0], effects]))
    assert not fitted.delta[:, 0].any()
    assert fitted.delta[:, 1:] == pytest.approx(plain.delta, rel=1e-10, abs=1e-12)
    always = BanditLog(log.X, np.hstack([log.Y, 1 - zeros]), log.propensity, log.cost, log.context)
    given = np.insert(effects, -1, 0, axis=1)
    fitted = context_effects(always, given)
    assert_same(fitted, reference(always, given))
    assert fitted.delta[:, -2] == pytest.approx(fitted.delta[:, -1], rel=1e-10)


def test_a_thousand_actions_of_one_row_a_context():
    """δ̂ is r Σ_aa/(Σ_aa + σ²) for the action logged, and 0 for the others."""
    rng = np.random.default_rng(0)
    m, K = 3000, 1000
    A, cost = rng.integers(0, K, m), rng.normal(size=m)
    fitted = context_effects(BanditLog(np.ones((m, 1)), A, np.ones(m), cost, n_actions=K), np.zeros((m, K)))
    of_action = np.diag(fitted.covariance)[A]
    assert fitted.delta[np.arange(m), A] == pytest.approx(cost * of_action / (of_action + fitted.noise), rel=1e-10)
    assert np.count_nonzero(fitted.delta) == m


def test_more_actions_than_a_covariance_can_have_are_refused():
    log = BanditLog(np.ones((2, 1)), [0, 1], [0.5, 0.5], [1.0, 2.0], n_actions=5001)
    with pytest.raises(InputError, match="allow at most 5000 actions or labels, the log has 5001"):
        context_effects(log, np.zeros((2, 5001)))


def test_costs_beyond_the_range_of_numbers_are_refused():
    log, effects, _ = made("labels")
    with pytest.raises(InputError, match="beyond the range of numbers"), np.errstate(all="ignore"):
        context_effects(log, np.full(effects.shape, 1e308))


def test_lists_have_no_actions_in_common():
    """All is noise, whose likelihood is that of independent rows."""
    rng = np.random.default_rng(0)
    lists = ActionLists(rng.normal(size=(10, 2)), [0, 4, 7, 10])
    log = BanditLog(lists, [0, 2, 1], np.ones(3), rng.normal(size=3), count=[1, 0, 2])
    fitted = context_effects(log, np.zeros(10))
    assert not fitted.delta.any()
    assert fitted.delta.shape == (10,)
    assert fitted.covariance.shape == (0, 0)
    logged = np.repeat(log.cost, log.count)
    assert fitted.noise == pytest.approx(np.mean(logged**2))
    expected = multivariate_normal.logpdf(logged, cov=fitted.noise * np.eye(3))
    assert fitted.log_likelihood == pytest.approx(expected)


@pytest.mark.parametrize("pairs", [DensePairs, SparsePairs])
@pytest.mark.parametrize("kind", KINDS)
def test_products_of_rows_are_a_map_and_its_transpose(pairs, kind):
    rng = np.random.default_rng(0)
    p, m = 3, 7
    log, effects, _ = made(kind, m=1, most=1)
    Y = rng.integers(0, 2, (p * m, 3)) if kind == "labels" else rng.integers(0, 3, p * m)
    loadings = log.actions.effect_space.loadings(log.actions.check(Y))
    A = dense_loadings(Y, effects.shape[1])
    assert loadings.toarray() == pytest.approx(A, abs=0)
    each = A.reshape(p, m, -1)
    root, W = rng.normal(size=(A.shape[1], A.shape[1])), rng.normal(size=(p, p, m))
    covariance, W = root @ root.T, W + W.transpose(1, 0, 2)
    here = pairs(loadings, p, m)
    by_loops = np.stack([each[:, k] @ covariance @ each[:, k].T for k in range(m)], axis=2)
    assert here.forward(covariance) == pytest.approx(by_loops, rel=1e-12)
    sums = sum(each[:, k].T @ W[:, :, k] @ each[:, k] for k in range(m))
    assert here.backward(W) == pytest.approx(sums, rel=1e-12, abs=1e-12)
    assert np.vdot(here.forward(covariance), W) == pytest.approx(np.vdot(covariance, here.backward(W)), rel=1e-12)


def test_parts_of_the_contexts_add_up_to_all(monkeypatch):
    log, effects, _ = made("labels", most=12, counts=True)
    whole = context_effects(log, effects)
    monkeypatch.setattr(random_effect_solvers, "BATCH_SIZE", 10)
    assert_same(context_effects(log, effects), whole, rel=1e-10)
    monkeypatch.setattr(random_effect_solvers, "SPARSE_RATIO", 0)
    assert_same(context_effects(log, effects), whole, rel=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_variances_that_are_known_are_not_estimated(kind):
    log, effects, _ = made(kind, counts=True)
    estimated = context_effects(log, effects)
    known = context_effects(log, effects, (estimated.covariance, estimated.noise))
    assert known.delta == pytest.approx(estimated.delta, rel=1e-9, abs=1e-12)
    assert known.rounds == 0
    assert known.log_likelihood == pytest.approx(estimated.log_likelihood, rel=1e-12)
    flat = context_effects(log, effects, (0 * estimated.covariance, estimated.noise))
    assert not flat.delta.any()


@pytest.mark.parametrize(
    ("covariance", "noise", "message"),
    [
        (np.eye(2), 1.0, "covariance has shape (2, 2), expected a symmetric one of (3, 3)"),
        (np.triu(np.ones((3, 3))), 1.0, "covariance has shape (3, 3), expected a symmetric one of (3, 3)"),
        (-np.eye(3), 1.0, "covariance and noise must be finite, with variances ≥ 0 and a noise > 0"),
        (np.eye(3), 0.0, "covariance and noise must be finite, with variances ≥ 0 and a noise > 0"),
        (np.eye(3), None, "covariance and noise must be finite, with variances ≥ 0 and a noise > 0"),
    ],
)
def test_what_is_no_variance_is_refused(covariance, noise, message):
    with pytest.raises(InputError) as error:
        check_variances(covariance, noise, 3)
    assert str(error.value) == message
