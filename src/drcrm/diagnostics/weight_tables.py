"""Tables of a policy's importance weights on a log for the report: quantiles, overlap, actions and largest rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from drcrm.arrays.numerics import weighted_quantiles
from drcrm.cost_models.support import SUPPORT
from drcrm.data.bandit_log import BanditLog
from drcrm.diagnostics.diagnostic import to_json
from drcrm.diagnostics.weight_checks import PolicyWeights

QUANTILES = (0.5, 0.9, 0.99, 1.0)
LARGEST_ROWS = 20
SMALLEST_SHOWN = 1e-4  # weights below this share of the largest weight are in the first bin
BINS = 20


def weight_tables(
    weights: PolicyWeights, names: Sequence | None = None, rows: np.ndarray | None = None
) -> dict[str, object]:
    """Return the tables as JSON values: weights, overlap, actions and largest_rows.

    Parameters
    ----------
    weights : PolicyWeights
    names : list, optional
        Names of the actions or labels.
    rows : integer array (n,), optional
        Numbers of the rows in their file.

    Returns
    -------
    dict
        Empty if no weight is positive, or their sum overflows.
    """
    log, weight = weights.log, weights.weight
    if not 0 < log.count @ weight < np.inf:
        return {}
    quantiles = weighted_quantiles(weight, log.count, QUANTILES)
    return {
        "weights": {
            "quantiles": {f"{q:g}": float(quantile) for q, quantile in zip(QUANTILES, quantiles, strict=True)},
            "histogram": _histogram(weight, log.count),
        },
        "overlap": _overlap(weights),
        "actions": _actions(weights, names),
        "largest_rows": _largest_rows(log, weight, np.arange(len(weight)) if rows is None else rows),
    }


def _histogram(weight: np.ndarray, count: np.ndarray) -> dict[str, list[float]]:
    """Return a histogram of log₁₀ w, with the rows and the share of the weight in each bin."""
    logs = np.log10(np.maximum(weight, weight.max() * SMALLEST_SHOWN))
    edges = np.histogram_bin_edges(logs, BINS)
    share = np.histogram(logs, edges, weights=count * (weight / (count @ weight)))[0]
    return {
        "edges": edges.tolist(),
        "rows": np.histogram(logs, edges, weights=count)[0].tolist(),
        "share": share.tolist(),
    }


def _overlap(weights: PolicyWeights) -> dict[str, list[float]]:
    """Return histograms of the probabilities of the logged actions under both policies."""
    edges = np.linspace(0, 1, BINS + 1)
    probabilities = {"logged": weights.log.propensity, "policy": weights.probability}
    histograms = {
        name: np.histogram(values, edges, weights=weights.log.count)[0].tolist()
        for name, values in probabilities.items()
    }
    return {"edges": edges.tolist(), **histograms}


def _actions(weights: PolicyWeights, names: Sequence | None) -> list[dict[str, object]]:
    """Return how often each action or label was logged, and its probability under the policy; empty for lists."""
    log = weights.log
    if not log.actions.are_shared:
        return []
    is_chosen = log.actions.is_taken(log.Y)
    policy = unsupported = np.full(log.actions.shape, np.nan)
    if weights.mean is not None:
        context_share = np.bincount(log.context, log.count / log.size, log.n_contexts)
        policy = context_share @ weights.mean
        unsupported = context_share @ log.actions.unsupported_mass(weights.mean, weights.logging_mean, SUPPORT)
    rows, costs = log.count @ is_chosen, (log.count * log.cost) @ is_chosen
    return [
        {
            "action": str(action if names is None else names[action]),
            "rows": int(rows[action]),
            "logging": float(rows[action] / log.size),
            "policy": to_json(policy[action]),
            "unsupported": to_json(unsupported[action]),
            "cost": to_json(costs[action] / rows[action]) if rows[action] else None,
        }
        for action in range(*log.actions.shape)
    ]


def _largest_rows(log: BanditLog, weight: np.ndarray, numbers: np.ndarray) -> list[dict[str, object]]:
    """Return the rows with the largest w |c|, on which the estimate depends most. Ties are broken by the larger w."""
    total = log.count @ weight
    order = np.lexsort([-weight, -weight * np.abs(log.cost)])[:LARGEST_ROWS]
    return [
        {
            "row": int(numbers[row]),
            "weight": float(weight[row]),
            "cost": float(log.cost[row]),
            "share": float(weight[row] / total),
        }
        for row in order
    ]
