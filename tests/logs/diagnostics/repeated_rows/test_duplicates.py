"""Copies of rows are found in any order; logs without copies have none. Triples are found if few features are equal."""

import numpy as np
import pytest
from fixtures.click_logs import draw_actions
from scipy.special import softmax

from drcrm.data.bandit_log import BanditLog
from drcrm.logs.diagnostics.diagnosis import check_rows

ACTIONS = 3
N = 1000


def draw_log(X: np.ndarray, rng, cost=None, scale: float = 1.0) -> BanditLog:
    """Draw actions by a softmax policy; costs are normal by default, whatever the action."""
    scores = scale * (X / max(np.abs(X).max(), 1)) @ np.random.default_rng(7).normal(size=(X.shape[1], ACTIONS))
    p = softmax(scores, axis=1)
    Y = draw_actions(p, rng)
    cost = rng.normal(size=len(X)) if cost is None else cost(X, Y, rng)
    return BanditLog(X, Y, p[np.arange(len(X)), Y], cost, n_actions=ACTIONS)


def take(log: BanditLog, rows: np.ndarray) -> BanditLog:
    return BanditLog(log.X[rows], log.Y[rows], log.propensity[rows], log.cost[rows], n_actions=ACTIONS)


def draw_clicks(X, Y, rng) -> np.ndarray:
    return (rng.random(len(Y)) < 0.3).astype(float)


ORDERS = {
    "concatenated": lambda rows, rng: np.append(rows, rows),
    "shuffled": lambda rows, rng: rng.permutation(np.append(rows, rows)),
    "three times": lambda rows, rng: rng.permutation(np.tile(rows, 3)),
    "30 %, shuffled": lambda rows, rng: rng.permutation(np.append(rows, rows[: 3 * N // 10])),
}
FEATURES = {
    "6 contexts": lambda rng: rng.integers(0, [2, 3], (N, 2)),
    "30": lambda rng: rng.integers(0, [5, 6], (N, 2)),
    "300": lambda rng: rng.integers(0, [15, 20], (N, 2)),
    "continuous": lambda rng: rng.normal(size=(N, 2)),
}


@pytest.mark.parametrize(
    ("features", "order"),
    [
        (features, order)
        for features in FEATURES
        for order in ORDERS
        if order != "three times" or features == "continuous"
    ],
)
def test_copies_are_found_in_any_order(features, order):
    for seed in range(2):
        rng = np.random.default_rng(seed)
        log = draw_log(FEATURES[features](rng).astype(float), rng)
        rows = ORDERS[order](np.arange(N), rng)
        (check, *_), units = check_rows(take(log, rows))
        assert check.level == "caution"
        assert len(np.unique(units)) == N
        assert (rows[np.unique(units, return_index=True)[1]][units] == rows).all()


def draw_prices(X, Y, rng) -> np.ndarray:
    return np.round(np.random.default_rng(3).lognormal(3, 1, 200), 2)[rng.integers(0, 200, len(Y))] + Y


WITHOUT_COPIES = {
    "discrete": (lambda rng, n: rng.integers(0, 6, n), draw_clicks),
    "prices": (lambda rng, n: rng.integers(0, 30, n), draw_prices),
    "determined costs": (lambda rng, n: rng.integers(0, 300, n), lambda X, Y, rng: np.sin(7 * X[:, 0] + Y)),
    "each user twice": (lambda rng, n: np.repeat(rng.normal(size=n // 2), 2), lambda X, Y, rng: np.sin(X[:, 0] + Y)),
    "four times": (lambda rng, n: rng.permutation(np.repeat(rng.normal(size=n // 4), 4)), draw_clicks),
    "bursts": (lambda rng, n: np.repeat(rng.normal(size=n), rng.geometric(0.2, n))[:n], draw_clicks),
}


@pytest.mark.parametrize("kind", WITHOUT_COPIES)
def test_rows_that_are_equal_by_chance_are_no_copies(kind):
    draw_feature, cost = WITHOUT_COPIES[kind]
    for seed in range(5):
        rng = np.random.default_rng(seed)
        log = draw_log(draw_feature(rng, N)[:, None].astype(float), rng, cost, scale=float(rng.choice([0, 1, 4])))
        checks, units = check_rows(log)
        assert [check.level for check in checks] == ["good", "good"]
        assert units is None


def test_equal_contexts_with_new_actions_are_no_copies():
    rng = np.random.default_rng(0)
    X = np.eye(3)[rng.integers(0, 3, 900)]
    for p in (0.25, 1.0):  # with certain actions every row is the same, which shows nothing
        Y = rng.integers(0, 4, 900) if p < 1 else np.zeros(900, int)
        log = BanditLog(X, Y, np.full(900, p), -(rng.random(900) < 0.01).astype(float), n_actions=4)
        (check, _), units = check_rows(log)
        assert (check.level, units) == ("good", None)
        assert check.value > 0.95
    shared = BanditLog(np.eye(3), log.Y, log.propensity, log.cost, X.argmax(axis=1), n_actions=4)
    assert check_rows(shared)[0][0].value == check.value
    fixed = BanditLog(X, X.argmax(axis=1), np.full(900, 0.25), np.zeros(900), n_actions=4)
    assert check_rows(fixed)[0][0].level == "caution"
