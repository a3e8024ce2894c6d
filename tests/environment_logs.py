"""Small logs of every kind of action, and the doubly robust worst case around the environment, row by row."""

from itertools import product

import numpy as np
from scipy.special import expit, softmax

from drcrm import ActionLists, BanditLog, CostModel, ExponentialPolicy, SoftmaxPolicy

KINDS = ("labels", "single", "lists")
FOLDS, LEAST = 5, 50


def draw_log(kind: str, seed: int = 0, contexts: int = 30, rows: int = 200, effect: float = 1.0) -> BanditLog:
    """Return a log with repeated contexts and counts; lists have 1 to 4 candidates, and some choices are ineligible."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=(contexts, 2)), np.ones(contexts)])
    context = np.append(np.arange(contexts), rng.integers(0, contexts, rows - contexts))
    propensity, count, noise = rng.uniform(0.1, 0.9, rows), rng.integers(1, 4, rows), rng.normal(size=rows)
    if kind == "labels":
        Y = rng.integers(0, 2, (rows, 3))
        return BanditLog(X, Y, propensity, noise + effect * Y @ [1, -1, 0.5] + X[context, 0], context, count)
    sizes = np.full(contexts, 4) if kind == "single" else rng.integers(1, 5, contexts)
    Y = rng.integers(0, sizes[context])
    cost = noise * (1 + Y / 2) + effect * X[context, 0] * Y
    if kind == "single":
        eligible = rng.random((contexts, 4)) < 0.8
        eligible[context, Y] = True
        return BanditLog(X, Y, propensity, cost, context, count, n_actions=4, eligible=eligible)
    starts = np.append(0, np.cumsum(sizes))
    return BanditLog(ActionLists(rng.normal(size=(starts[-1], 3)), starts), Y, propensity, cost, context, count)


def draw_policy(log: BanditLog, seed: int = 5, scale: float = 0.5) -> ExponentialPolicy | SoftmaxPolicy:
    """Return a policy with normal coefficients."""
    kind = ExponentialPolicy if log.Y.ndim == 2 else SoftmaxPolicy
    return kind(scale * np.random.default_rng(seed).normal(size=(log.X.shape[1], *log.actions.shape)))


def choices_of(log: BanditLog, coef: np.ndarray, effects: np.ndarray, k: int) -> list[tuple[object, float, float]]:
    """Return every action of context k with its probability under the policy and its modelled cost."""
    if log.Y.ndim == 2:
        p = expit(log.X[k] @ coef)
        vectors = product((0, 1), repeat=log.Y.shape[1])
        return [
            (y, float(np.prod(np.where(y, p, 1 - p))), float(effects[k, -1] + np.dot(y, effects[k, :-1])))
            for y in vectors
        ]
    if coef.ndim == 1:
        rows = slice(log.actions.starts[k], log.actions.starts[k + 1])
        return [(a, *both) for a, both in enumerate(zip(softmax(log.X[rows] @ coef), effects[rows], strict=True))]
    scores = log.X[k] @ coef
    if log.actions.eligible is not None:
        scores = np.where(log.actions.eligible[k], scores, -np.inf)
    return [(a, *both) for a, both in enumerate(zip(softmax(scores), effects[k], strict=True))]


def cross_fitted_effects(log: BanditLog, fold: np.ndarray, intercept: bool = False) -> np.ndarray:
    """Return the effects of each context, from a model that was fitted to the other folds."""
    effects = None
    for number in range(FOLDS):
        other = log.recount(log.count * (fold[log.context] != number))
        part = CostModel().fit(other, action_intercepts=intercept).effects(log.X, log.actions)
        inside = log.actions.broadcast(fold == number)
        effects = part if effects is None else np.where(inside, part, effects)
    return effects


def moments_by_row(
    log: BanditLog, coef: np.ndarray, effects: np.ndarray, fold: np.ndarray, gamma: float, clip: float = np.inf
) -> dict[str, np.ndarray]:
    """Return w, E = e^{c/γ}, f(x_i, a_i) and E_π f(x_i, ·) of each row, by loops over rows and actions."""
    n = len(log.Y)
    chosen = [tuple(y) if log.Y.ndim == 2 else int(y) for y in log.Y]
    tables = [choices_of(log, coef, effects, k) for k in range(log.n_contexts)]
    modelled, probability = np.empty(n), np.empty(n)
    for i in range(n):
        [(_, probability[i], modelled[i])] = [row for row in tables[log.context[i]] if row[0] == chosen[i]]
    residual, of_row = log.cost - modelled, fold[log.context]
    has_classes = log.Y.ndim == 1 and coef.ndim == 2

    def smear(number: int, action: object) -> float:
        rows = of_row != number
        if has_classes and log.count[of_action := rows & (action == log.Y)].sum() >= LEAST:
            rows = of_action
        return float(np.average(np.exp(residual[rows] / gamma), weights=log.count[rows]))

    f = [[np.exp(c / gamma) * smear(fold[k], a) for a, _, c in table] for k, table in enumerate(tables)]
    expected = [np.dot([p for _, p, _ in table], values) for table, values in zip(tables, f, strict=True)]
    of_rows = [f[k][[a for a, *_ in tables[k]].index(chosen[i])] for i, k in enumerate(log.context)]
    return {
        "weight": np.minimum(probability / log.propensity, clip),
        "exponential": np.exp(log.cost / gamma),
        "modelled": np.array(of_rows),
        "expected": np.array(expected)[log.context],
    }


def doubly_robust_moment(log: BanditLog, moments: dict[str, np.ndarray]) -> float:
    """Return W(γ), the doubly robust estimate of E_π e^{c/γ}."""
    share = log.count * moments["weight"] / (log.count @ moments["weight"])
    gap = share @ (moments["exponential"] - moments["modelled"])
    return float(np.average(moments["expected"], weights=log.count) + gap)
