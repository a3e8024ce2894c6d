"""Reject estimated propensities if they are wrong where a policy moves its mass.

Let q be a model of the logged actions, and π a policy that was learned from other rows. Boosted trees learn to
distinguish logged actions from actions drawn from q, as in :mod:`drcrm.logs.estimated_propensities`. Their features are
x, log π(b|x)/q(b|x), and the rank of this ratio among the actions of x, so they see where π moves its mass. Their log
odds h correct the model: f ∝ q e^h. If the logging policy never takes some action that π prefers, f is far below q
there, even if no rule in x alone is simple.

The check fails if f predicts the logged actions better than the estimates do, by the likelihood ratio of
:func:`drcrm.logs.diagnostics.propensities.audit.log_evidence`, and π has much of its mass on actions with f < q/2. The
second condition is needed because every estimate is rejected with enough rows. The trees of a row are fitted to other
folds.
On large logs, both use a random sample of the contexts; f = q elsewhere.

Another check compares the forecasts of costs before and after weighting: the prognostic scores of Hansen 2008.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from drcrm.arrays.number_formats import format_number, percent
from drcrm.data.bandit_log import BanditLog
from drcrm.data.chunked_log import limit_openmp
from drcrm.data.folds import context_folds
from drcrm.evaluation.bounds.independent_units import Interval
from drcrm.logs.context_trees import MAX_ROWS, dense_features, draw_rows
from drcrm.logs.diagnostics.check import LEVEL, Check, Consequence, worst_level
from drcrm.logs.diagnostics.propensities.audit import FOLDS, log_evidence
from drcrm.logs.estimated_propensities import (
    FORECASTS,
    MAX_SCORES,
    MIN_CONTEXTS,
    power_of,
)

NAME = "overlap of estimated propensities"
UNBALANCED = 3  # standard errors
DRAWS = 4  # actions drawn from q for each logged action
TREES: dict[str, Any] = {"max_iter": 30, "max_leaf_nodes": 4, "min_samples_leaf": 100, "early_stopping": False}
HALF = 0.5  # an action with f below this share of q is overestimated
MATERIAL = 0.05  # the check fails if the policy has more mass than this on overestimated actions


def correct_along_policy(
    log: BanditLog, mean: np.ndarray, modelled: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return f of all actions of each context, in the shape of scores, and which contexts were corrected, (m,).

    None for label vectors, and for logs that are too small for trees.

    Parameters
    ----------
    log : BanditLog
        A log of one action per context, or of lists, without rows of count 0.
    mean : array in the shape of scores
        The policy's probabilities of all actions.
    modelled : array in the shape of scores
        q of all actions.
    """
    fold = context_folds(log, FOLDS)
    if not log.actions.are_choices or log.n_contexts < MIN_CONTEXTS or not fold.any():
        return None
    from sklearn.ensemble import HistGradientBoostingClassifier  # its import takes a second

    rng, X = np.random.default_rng(3), dense_features(log.X)
    context = _contexts_of(log, modelled)
    is_kept = np.zeros(log.n_contexts, dtype=bool)
    is_kept[rng.permutation(log.n_contexts)[: MAX_SCORES * log.n_contexts // modelled.size + 1]] = True
    kept = np.flatnonzero(is_kept[context])  # cells
    movement = _movement(mean.ravel(), modelled.ravel(), context)[kept]
    features = np.column_stack([X[context[kept] if log.actions.are_shared else kept], movement])
    order, logit = draw_rows(log, rng), np.zeros(modelled.size)
    order = order[is_kept[log.context[order]]]
    with limit_openmp():
        for number in range(fold.max() + 1):
            rows = order[fold[log.context[order]] != number][: MAX_ROWS // (1 + DRAWS)]
            contexts = log.context[rows]
            drawn = [log.actions.sample(modelled, rng)[contexts] for _ in range(DRAWS)]
            cells = np.concatenate([_cell(log, modelled, actions, contexts) for actions in (log.Y[rows], *drawn)])
            is_logged = np.arange(len(cells)) < len(rows)
            trees = HistGradientBoostingClassifier(**TREES, random_state=0)
            trees.fit(features[np.searchsorted(kept, cells)], is_logged)  # DRAWS shifts all log odds alike
            inside = fold[context[kept]] == number
            if inside.any():
                logit[kept[inside]] = trees.decision_function(features[inside])
    return power_of(log, modelled, 1, logit.reshape(modelled.shape)), is_kept


def check_balance(log: BanditLog, weight: np.ndarray) -> Check | None:
    """Check that a policy's weights w do not move the forecasts f of the costs: E (w − 1)(f − f̄) = 0.

    A forecast depends on the context only, so right propensities pass. None if the log has no forecasts.
    """
    if (forecasts := log.column(FORECASTS)) is None:
        return None
    forecast = forecasts[:, 0] - log.count @ forecasts[:, 0] / log.size
    moved = Interval.of((weight - 1) * forecast, log, 0.95)
    ratio = float(moved) / moved.standard_error if moved.standard_error > 0 else 0.0
    sentence = (
        f"weights by the estimated propensities move the forecast of the cost by {format_number(ratio)} standard "
        "errors, expected 0 because it depends on the context only"
    )
    if fails := abs(ratio) > UNBALANCED:
        sentence += ". The propensity model misses how the logging policy depends on the context"
    return Check(
        "balance",
        worst_level(fails, False),
        Consequence.UNBALANCED,
        "balance of estimated propensities",
        ratio,
        f"from {format_number(-UNBALANCED)} to {UNBALANCED} standard errors",
        sentence,
        "Hansen 2008",
    )


def check_overlap(log: BanditLog, mean: np.ndarray, modelled: np.ndarray) -> tuple[Check, np.ndarray | None]:
    """Check estimated propensities where a policy moves its mass, and return f of :func:`correct_along_policy`.

    The policy may have been learned from some of the rows: the trees of a row are fitted to other folds, and a policy
    with few coefficients hardly depends on the row.
    """
    correction = correct_along_policy(log, mean, modelled)
    threshold = f"at most {percent(MATERIAL)} of the policy, if the estimates are rejected"
    if correction is None:
        reason = f"the check needs {MIN_CONTEXTS} contexts, got {log.n_contexts}"
        reason = reason if log.actions.are_choices else "the check is not for label vectors"
        sentence = f"the overlap of the estimated propensities was not checked, because {reason}"
        return _overlap("caution", None, threshold, sentence), None
    corrected, is_kept = correction
    evidence = log_evidence(log, [corrected], log.log_propensity)
    context = _contexts_of(log, modelled)
    count = np.bincount(log.context, log.count) * is_kept
    overestimated = float(count[context] @ (mean * (corrected < HALF * modelled)).ravel() / count.sum())
    is_rejected = bool(evidence > -np.log(LEVEL))
    fails = is_rejected and overestimated > MATERIAL
    sentence = f"the policy has {percent(overestimated, 1)} of its mass on actions whose propensities look too large"
    if is_rejected:
        sentence = (
            "a model fitted to other rows, which knows the policy, predicts the logged actions "
            f"10^{evidence / np.log(10):.0f} times better than the estimated propensities do, and {sentence}"
        )
    return _overlap(worst_level(fails, is_rejected), overestimated, threshold, sentence), corrected


def _overlap(level: str, value: float | None, threshold: str, sentence: str) -> Check:
    source = "Wasserman, Ramdas & Balakrishnan 2020"
    return Check("estimated_overlap", level, Consequence.UNUSABLE, NAME, value, threshold, sentence, source)


def _contexts_of(log: BanditLog, modelled: np.ndarray) -> np.ndarray:
    """Return the context of each cell, an action in a context."""
    return np.broadcast_to(log.actions.broadcast(np.arange(log.n_contexts)), modelled.shape).ravel()


def _cell(log: BanditLog, modelled: np.ndarray, actions: np.ndarray, context: np.ndarray) -> np.ndarray:
    """Return the cells of actions, in the order of scores."""
    numbers = np.arange(modelled.size).reshape(modelled.shape)
    return log.actions.row_map(actions, context, log.n_contexts).to_rows(numbers, None)


def _movement(mean: np.ndarray, modelled: np.ndarray, context: np.ndarray) -> np.ndarray:
    """Return log π/q of each cell and its rank in the context, 0 for the largest, (cells, 2)."""
    tiny = np.finfo(float).tiny
    ratio = np.log(np.maximum(mean, tiny)) - np.log(np.maximum(modelled, tiny))
    order, rank = np.lexsort((-ratio, context)), np.empty(len(ratio))
    starts = np.flatnonzero(np.diff(context, prepend=-1))
    rank[order] = np.arange(len(ratio)) - starts[context]
    return np.column_stack([ratio, rank])
