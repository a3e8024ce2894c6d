"""Copies of rows are found in any order, and honest logs have none."""

from __future__ import annotations

import numpy as np
import pytest

from drcrm.data.bandit_log import BanditLog
from drcrm.diagnostics.diagnosis import check_rows
from drcrm.diagnostics.repeated_rows.agreement import log_capital, pair_equal_values

ACTIONS = 3
N = 1000


def log_of_contexts(X: np.ndarray, rng, cost=None, sharp: float = 1.0) -> BanditLog:
    """Actions drawn with their propensities; costs are normal by default, whatever the action."""
    scores = sharp * (X / max(np.abs(X).max(), 1)) @ np.random.default_rng(7).normal(size=(X.shape[1], ACTIONS))
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    Y = (p.cumsum(axis=1) > rng.random(len(X))[:, None]).argmax(axis=1)
    cost = rng.normal(size=len(X)) if cost is None else cost(X, Y, rng)
    return BanditLog(X, Y, p[np.arange(len(X)), Y], cost, n_actions=ACTIONS)


def taken(log: BanditLog, rows: np.ndarray) -> BanditLog:
    return BanditLog(log.X[rows], log.Y[rows], log.propensity[rows], log.cost[rows], n_actions=ACTIONS)


def clicks(X, Y, rng) -> np.ndarray:
    return (rng.random(len(Y)) < 0.3).astype(float)


ORDERS = {
    "cat log log": lambda rows, rng: np.append(rows, rows),
    "shuffled": lambda rows, rng: rng.permutation(np.append(rows, rows)),
    "three times": lambda rows, rng: rng.permutation(np.tile(rows, 3)),
    "the first 10 % appended": lambda rows, rng: np.append(rows, rows[: N // 10]),
    "any 10 % appended": lambda rows, rng: np.append(rows, rng.choice(rows, N // 10, replace=False)),
    "30 %, shuffled": lambda rows, rng: rng.permutation(np.append(rows, rows[: 3 * N // 10])),
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("values", [(2, 3), (5, 6), (15, 20)], ids=["6 contexts", "30", "300"])
def test_copies_are_found_in_any_order(values, order):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        log = log_of_contexts(np.column_stack([rng.integers(0, many, N) for many in values]).astype(float), rng)
        rows = ORDERS[order](np.arange(N), rng)
        (check, _), units = check_rows(taken(log, rows))
        assert check.level == "caution"
        assert len(np.unique(units)) == N
        assert (rows[np.unique(units, return_index=True)[1]][units] == rows).all()


def test_copies_of_a_log_that_is_all_discrete():
    rng = np.random.default_rng(0)
    log = log_of_contexts(rng.integers(0, 6, (N, 1)).astype(float), rng, clicks)
    assert check_rows(log)[0][0].level == "good"
    twice = rng.permutation(np.append(np.arange(N), np.arange(N)))
    assert check_rows(taken(log, twice))[0][0].level == "caution"


def prices(X, Y, rng) -> np.ndarray:
    return np.round(np.random.default_rng(3).lognormal(3, 1, 200), 2)[rng.integers(0, 200, len(Y))] + Y


HONEST = {
    "discrete": (lambda rng, n: rng.integers(0, 6, n), clicks),
    "prices": (lambda rng, n: rng.integers(0, 30, n), prices),
    "determined costs": (lambda rng, n: rng.integers(0, 300, n), lambda X, Y, rng: np.sin(7 * X[:, 0] + Y)),
    "each user twice": (lambda rng, n: np.repeat(rng.normal(size=n // 2), 2), lambda X, Y, rng: np.sin(X[:, 0] + Y)),
    "four times": (lambda rng, n: rng.permutation(np.repeat(rng.normal(size=n // 4), 4)), clicks),
    "bursts": (lambda rng, n: np.repeat(rng.normal(size=n), rng.geometric(0.2, n))[:n], clicks),
}


@pytest.mark.parametrize("kind", HONEST)
def test_rows_that_are_equal_by_chance_are_no_copies(kind):
    draw, cost = HONEST[kind]
    for seed in range(30):
        rng = np.random.default_rng(seed)
        log = log_of_contexts(draw(rng, N)[:, None].astype(float), rng, cost, sharp=float(rng.choice([0, 1, 4])))
        checks, units = check_rows(log)
        assert [each.level for each in checks] == ["good", "good"]
        assert units is None


def test_rows_that_an_old_rule_determined_show_nothing():
    X = np.random.default_rng(0).integers(0, 6, (N, 1)).astype(float)
    log = BanditLog(X, (X[:, 0] % ACTIONS).astype(int), np.ones(N), np.sin(X[:, 0]), n_actions=ACTIONS)
    assert [each.level for each in check_rows(log)[0]] == ["good", "good"]


def test_the_capital_is_that_of_bets():
    agrees, chance = np.array([True, True, False]), np.array([0.5, 0.25, 0.5])
    made = [np.cumprod([1 + bet, 1 + 3 * bet, 1 - bet]) for bet in (0.03, 0.1, 0.3, 0.9)]
    expected = np.mean(made, axis=0)
    assert log_capital(agrees, chance) == (pytest.approx(np.log(expected.max())), 2)


def test_pairs_are_disjoint_and_in_order():
    first, second = pair_equal_values(np.array([3, 1, 3, 1, 3, 3, 2, 1]))
    assert [first.tolist(), second.tolist()] == [[0, 1, 4], [2, 3, 5]]
