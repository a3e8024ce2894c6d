"""The Open Bandit Pipeline: its dictionary of logged feedback, and the csv of the Open Bandit Dataset."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from drcrm.actions.action_lists import ActionLists
from drcrm.arrays.validation import (
    check_actions,
    check_context,
    check_costs,
    check_features,
    check_integers,
    check_positive_integer,
    check_vector,
)
from drcrm.errors import InputError
from drcrm.logs.encoding.arrays import Arrays
from drcrm.logs.mapping import LogMapping
from drcrm.logs.records import Records

DATASET = {"item_id", "position", "click", "propensity_score"}
USER = "user_feature_"
FEEDBACK = ("action", "reward", "pscore", "context", "position", "n_actions", "n_rounds")


def dataset_mapping(header: list[str], mapping: LogMapping) -> LogMapping:
    """Return a mapping, of the Open Bandit Dataset's csv with what it does not say: item, click, user and position."""
    columns = (mapping.action, mapping.labels, mapping.reward, mapping.cost, mapping.numeric, mapping.propensity)
    if not set(header) >= DATASET or any(each is not None for each in columns):
        return mapping
    user = tuple(name for name in header if name.startswith(USER))
    return replace(
        mapping,
        action="item_id",
        reward="click",
        propensity=None if mapping.propensity_model else "propensity_score",
        numeric=(),
        categorical=(*user, "position"),
        slice=mapping.slice or "position",
    )


def records_of_feedback(feedback: object, mapping: LogMapping | None = None, form: str = "obp") -> Records:
    """Return the rows of OBP's dictionary, its contexts with a constant 1 appended.

    Raises
    ------
    InputError
        A key that is missing, or an array that is not as OBP has it, with its row.
    """
    if not isinstance(feedback, Mapping):
        raise InputError(f"feedback is of type {type(feedback).__name__}, expected OBP's dictionary")
    mapping = (LogMapping() if mapping is None else mapping).require_no_columns("OBP's feedback")
    lacking = [key for key in ("action", "reward", "context") if feedback.get(key) is None]
    if lacking:
        raise InputError(f"feedback has no {lacking[0]!r}, expected the keys {', '.join(FEEDBACK)}")
    if np.ndim(feedback["context"]) != 2:
        raise InputError(f"context has {np.ndim(feedback['context'])} dimensions, expected (rows, features)")
    X = check_features(feedback["context"], "context")
    n = X.shape[0]
    rounds = feedback.get("n_rounds")
    if rounds is not None and rounds != n:
        raise InputError(f"n_rounds is {rounds}, expected {n}, the rows of context")
    action = check_integers(feedback["action"], n, "action")
    names = _numbered(action, feedback.get("n_actions"))
    position = feedback.get("position")
    return Records(
        format=form,
        mapping=mapping,
        kind="single",
        names=names,
        data=Arrays(_with_constant(X)),
        action=action,
        cost=0 - check_costs(feedback["reward"], n),
        reward=True,
        propensity=_propensities(feedback.get("pscore"), n, mapping, "pscore"),
        rows=np.arange(n),
        **_slices(position, n),
    ).validated()


def records_of_arrays(arrays: Mapping[str, object], mapping: LogMapping) -> Records:
    """Return the rows of an npz file: OBP's arrays, or those of a ``BanditLog``, under its names (Y, or A).

    X, Y or A, propensity, cost or reward; context, n_actions and count where they are needed; lists of actions with
    ``starts`` beside X.
    """
    if "action" in arrays:
        return records_of_feedback(_scalars(arrays), mapping, "npz")
    mapping = mapping.require_no_columns("an npz file")
    for one, other in (("X", "X"), ("Y", "A"), ("cost", "reward")):
        if (one in arrays) + (other in arrays) != 1 + (one == other):
            called = one if one == other else f"{one}, or {other}"
            raise InputError(f"has the arrays {', '.join(arrays) or 'of none'}, expected one {called}, or those of OBP")
    given = _scalars(arrays)
    Y = given.get("Y", given.get("A"))
    X = lists_or_contexts(given)
    kind = "lists" if "starts" in given else ("labels" if np.ndim(Y) == 2 else "single")
    action = check_actions(Y) if kind == "labels" else check_integers(Y, len(np.atleast_1d(Y)), "Y")
    n, m = len(action), X.shape[0]
    names = {"lists": lambda: [], "labels": lambda: list(range(action.shape[1]))}.get(
        kind, lambda: _numbered(action, given.get("n_actions"))
    )()
    if "context" not in given and n != m:
        raise InputError(f"Y has {n} rows, expected {m}")
    is_reward = "reward" in given
    cost = check_costs(given["reward" if is_reward else "cost"], n)
    return Records(
        format="npz",
        mapping=mapping,
        kind=kind,
        names=names,
        data=Arrays(X),
        action=action,
        cost=0 - cost if is_reward else cost,
        reward=is_reward,
        propensity=_propensities(given.get("propensity"), n, mapping, "propensity"),
        context=check_context(given["context"], n, m) if "context" in given else None,
        rows=np.arange(n),
        count=check_integers(given["count"], n, "count") if "count" in given else None,
    ).validated()


def lists_or_contexts(arrays: Mapping[str, object]) -> np.ndarray | ActionLists:
    """Return the contexts of an npz file, or of OBP's dictionary, of which a policy chooses."""
    if "X" not in arrays and "context" in arrays:
        return _with_constant(check_features(arrays["context"], "context"))
    if "X" not in arrays:
        raise InputError(f"has the arrays {', '.join(arrays) or 'of none'}, expected X, or OBP's context")
    return ActionLists(arrays["X"], arrays["starts"]) if "starts" in arrays else check_features(arrays["X"])


def _propensities(given: object, n: int, mapping: LogMapping, name: str) -> np.ndarray | None:
    if mapping.propensity_model:
        return None
    if given is None:
        raise InputError(f"has no {name}, expected it, or propensity: null with propensity_model: softmax")
    return check_vector(given, n, name)


def _slices(position: object, n: int) -> dict:
    """The slices of OBP's rows: their positions."""
    if position is None:
        return {}
    values, slices = np.unique(check_integers(position, n, "position"), return_inverse=True)
    return {"slices": slices, "slice_values": [str(value) for value in values]}


def _numbered(action: np.ndarray, n_actions: object) -> list[int]:
    """The names of numbered actions."""
    largest = int(action.max(initial=-1))
    many = largest + 1 if n_actions is None else int(check_positive_integer(n_actions, "n_actions"))
    if action.min(initial=0) < 0 or largest >= many:
        bad = int(np.argmax((action < 0) | (action >= many)))
        raise InputError(f"action is {action[bad]} in row {bad}, expected one of {many}, numbered from 0")
    if many > 1000 and many > 10 * len(action):
        raise InputError(f"actions reach {many} in {len(action)} rows, expected them numbered from 0")
    return list(range(many))


def _with_constant(X: np.ndarray) -> np.ndarray:
    return np.hstack([X, np.ones((len(X), 1))])


def _scalars(arrays: Mapping[str, object]) -> dict:
    """Arrays, those without a dimension as numbers."""
    return {
        name: array.item() if isinstance(array, np.ndarray) and array.ndim == 0 else array
        for name, array in arrays.items()
    }
