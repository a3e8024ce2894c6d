"""What a policy changes: the features that decide its actions, and the contexts whose action changed most surely.

A shallow regression tree is fitted to the policy's own probabilities of the actions. Its leaves are segments of the
contexts. In each, the policy's mean probability of an action is compared with the share of the logged rows that have
the action. The fidelity of the tree is its R² on contexts that did not fit it: the share of the variance of the
policy's probabilities that the tree explains.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from drcrm.data.bandit_log import BanditLog
from drcrm.diagnostics.diagnostic import to_json
from drcrm.diagnostics.log_columns import action_names, row_numbers
from drcrm.diagnostics.weight_checks import PolicyWeights
from drcrm.logs.encoding.base import ReadableColumn

DEPTH, LEAVES = 4, 10
LEAST_SHARE = 0.02  # share of the contexts that a segment has at least
LEAST_GAIN = 0.01  # share of the variance that a split must explain
MAX_CONTEXTS, MAX_ENTRIES = 20_000, 2 * 10**7  # of the features that the tree sees
MAX_ACTIONS = 12
LEAST_CHANGE, STANDARD_ERRORS = 0.01, 2  # smallest change of an action's share in a segment
MAX_CHANGED = 20
ROUNDING = 1e-12  # variance of probabilities that are equal up to rounding


def describe_changes(weights: PolicyWeights) -> dict[str, Any]:
    """Return the changes of a policy as JSON values.

    Empty for lists of actions, and if the policy's probabilities are known only for the logged actions. Else:

    - contexts: those whose most probable action changed most surely, with the actions and their probabilities
    - tree, segments, actions and fidelity: the tree, if the features can be read
    """
    log, mean = weights.log, weights.mean
    if mean is None or not log.actions.are_shared:
        return {}
    names = [*map(str, action_names(log))]
    changes: dict[str, Any] = {"contexts": _changed_contexts(log, mean, weights.logging_mean, names)}
    columns = [] if log.encoding is None else log.encoding.readable_columns
    contexts = _sample_contexts(log, len(columns))
    if columns and len(contexts) >= 2 / LEAST_SHARE:
        changes |= _describe_segments(log, mean, names, columns, contexts)
    return changes


def _changed_contexts(
    log: BanditLog, mean: np.ndarray, logging_mean: np.ndarray, names: list[str]
) -> list[dict[str, Any]]:
    """Return the contexts with another most probable action, by the smaller probability of the two actions.

    For label vectors, the label that changed most surely.
    """
    policy, values = log.actions.decisions(mean, names)
    logging, _ = log.actions.decisions(logging_mean, names)
    before, after, old, new = logging.argmax(-1), policy.argmax(-1), logging.max(-1), policy.max(-1)
    sureness = np.where(before == after, 0.0, np.minimum(old, new))
    surest = sureness.argmax(axis=1)
    first, numbers = np.unique(log.context, return_index=True)[1], row_numbers(log)
    order = np.argsort(-sureness.max(axis=1), kind="stable")[:MAX_CHANGED]
    return [
        {
            "row": int(numbers[first[context]]),
            "before": str(values[decision, before[context, decision]]),
            "after": str(values[decision, after[context, decision]]),
            "logging": float(old[context, decision]),
            "policy": float(new[context, decision]),
        }
        for context, decision in zip(order, surest[order], strict=True)
        if sureness[context, decision] > 0
    ]


def _sample_contexts(log: BanditLog, n_columns: int) -> np.ndarray:
    """Return contexts at equal distances, as many as the tree sees."""
    most = min(MAX_CONTEXTS, MAX_ENTRIES // max(n_columns, 1), log.n_contexts)
    return np.unique(np.linspace(0, log.n_contexts - 1, most).astype(int))


def _describe_segments(
    log: BanditLog, mean: np.ndarray, names: list[str], columns: list[ReadableColumn], contexts: np.ndarray
) -> dict[str, Any]:
    """Return the tree as JSON values."""
    X = _readable_features(log, columns, contexts)
    size, taken = _count_actions(log, contexts)
    change = abs(size @ mean[contexts] - taken.sum(axis=0))
    listed = np.sort(np.argsort(-change, kind="stable")[:MAX_ACTIONS])
    target = mean[contexts][:, listed]
    tree, fidelity = _fit_tree(X, target, size)
    leaf = tree.apply(X)
    nodes = _read_tree(tree.tree_, columns)
    segments = []
    for number in (number for number, node in enumerate(nodes) if "left" not in node):
        members = leaf == number
        rows = size[members].sum()
        logging, policy = taken[members][:, listed].sum(axis=0) / rows, size[members] @ target[members] / rows
        nodes[number]["segment"] = len(segments)
        shares = [{"logging": float(old), "policy": float(new)} for old, new in zip(logging, policy, strict=True)]
        segments.append({"share": float(rows / size.sum()), "rows": int(rows), "shares": shares})
    actions = [
        {
            "action": names[action],
            "logging": float(taken[:, action].sum() / size.sum()),
            "policy": float(size @ mean[contexts][:, action] / size.sum()),
            "fidelity": to_json(fidelity[index]),
            "more": [number for number, part in enumerate(segments) if _is_more(part["shares"][index], part["rows"])],
        }
        for index, action in enumerate(listed)
    ]
    return {"tree": nodes, "segments": segments, "actions": actions, "fidelity": to_json(fidelity[-1])}


def _count_actions(log: BanditLog, contexts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the number of rows of selected contexts, (m,), and how often each action or label was logged, (m, K)."""
    rows = np.flatnonzero(np.isin(log.context, contexts))
    place = np.searchsorted(contexts, log.context[rows])
    counts = sparse.csr_array((log.count[rows].astype(float), (place, np.arange(len(rows)))))
    return counts.sum(axis=1), counts @ log.actions.is_taken(log.Y[rows]).astype(float)


def _is_more(shares: dict[str, float], rows: int) -> bool:
    """Return whether the policy takes an action more often than it was logged, beyond chance."""
    error = np.sqrt(shares["logging"] * (1 - shares["logging"]) / rows)
    return shares["policy"] - shares["logging"] > max(LEAST_CHANGE, STANDARD_ERRORS * error)


def _readable_features(log: BanditLog, columns: list[ReadableColumn], contexts: np.ndarray) -> np.ndarray:
    """Return the readable columns of X in the units of the file, (m, d)."""
    X: Any = log.X[contexts][:, [column.place for column in columns]]
    X = X.toarray() if sparse.issparse(X) else np.asarray(X, dtype=float)
    return X * [column.scale for column in columns] + [column.mean for column in columns]


def _fit_tree(X: np.ndarray, target: np.ndarray, size: np.ndarray) -> tuple[Any, np.ndarray]:
    """Return the tree, fitted to half of the contexts, and R² on the others: of each action and last of all, (K + 1,).

    R² is NaN for an action whose probability does not vary.
    """
    from sklearn.metrics import r2_score  # imported here: both take half a second
    from sklearn.tree import DecisionTreeRegressor

    is_test = np.random.default_rng(0).permutation(len(X)) % 2 == 1
    train, test = ~is_test, is_test
    variance = np.average((target[train] - np.average(target[train], axis=0, weights=size[train])) ** 2, axis=0)
    tree = DecisionTreeRegressor(
        max_depth=DEPTH,
        max_leaf_nodes=LEAVES,
        min_weight_fraction_leaf=LEAST_SHARE,
        min_impurity_decrease=max(LEAST_GAIN * variance.mean(), ROUNDING),
        random_state=0,
    ).fit(X[train], target[train], sample_weight=size[train])
    predicted = tree.predict(X[test]).reshape(target[test].shape)
    fidelity = [
        r2_score(target[test], predicted, sample_weight=size[test], multioutput=kind)
        for kind in ("raw_values", "variance_weighted")
    ]
    varies = np.ptp(target[test], axis=0) ** 2 > ROUNDING
    return tree, np.where(np.append(varies, varies.any()), np.hstack(fidelity), np.nan)


def _read_tree(tree: Any, columns: list[ReadableColumn]) -> list[dict[str, Any]]:
    """Return the nodes, the root first: a feature and its threshold or category, and the places of both branches.

    The left branch has numbers up to the threshold, or contexts with the category.
    """
    nodes: list[dict[str, Any]] = []
    for number in range(tree.node_count):
        if tree.children_left[number] < 0:
            nodes.append({})
            continue
        column, branches = columns[tree.feature[number]], (tree.children_left[number], tree.children_right[number])
        node: dict[str, Any] = {"feature": column.feature, "category": column.category}
        node["threshold"] = None if column.category is not None else float(tree.threshold[number])
        left, right = branches if column.category is None else branches[::-1]
        nodes.append(node | {"left": int(left), "right": int(right)})
    return nodes
