"""Action spaces, and their inference from a user's contexts X and actions Y."""

from typing import Any

import numpy as np

from drcrm.actions.base import Actions
from drcrm.actions.label_vectors import LabelVectors
from drcrm.actions.one_of_many import ActionLists, ListedActions, SingleChoice
from drcrm.arrays.mapped_arrays import Features
from drcrm.arrays.validation import as_integer_vector, check_actions, check_features, check_positive_integer
from drcrm.errors import InputError

MANY_ACTIONS = 1000  # action numbers from here on may be identifiers
SPARSE_NUMBERING = 10  # identifiers are assumed if the largest number is this many times the number of distinct actions
MOST_ACTIONS = 10_000_000
ACTIONS: dict[str, type[Actions]] = {space.kind: space for space in (LabelVectors, SingleChoice, ListedActions)}


def infer_actions(
    X: object, Y: Any, n_actions: int | None = None, eligible: object = None
) -> tuple[Features, Actions, np.ndarray]:
    """Return the checked features of contexts, their action space and the checked logged actions.

    K is ``n_actions``, else the number of columns of ``eligible``, else the largest entry of Y plus one.
    """
    actions: Actions
    if isinstance(X, ActionLists):
        actions = ListedActions()
        if n_actions is not None:
            raise InputError("n_actions cannot be used with lists of actions, but X is an ActionLists")
    elif is_vector(Y):
        actions = SingleChoice(_count_actions(Y, n_actions, eligible))
    else:
        n, q = check_actions(Y).shape
        actions = LabelVectors(q)
        if n_actions is not None:
            raise InputError(
                f"Y has shape {(n, q)}, expected (rows,), because with n_actions each row has a single action"
            )
    X, actions = actions.bind(X, eligible)
    return X, actions, actions.check(Y, owner="the log")


def split_contexts(X: Any) -> tuple[Features, np.ndarray | None]:
    """Return the checked features of contexts, or of all candidates of lists, and the starts of the lists, or None."""
    return (X.features, X.starts) if isinstance(X, ActionLists) else (check_features(X), None)


def is_vector(Y: Any) -> bool:
    """Return whether Y has one dimension."""
    try:
        return np.ndim(Y) == 1
    except ValueError:  # ragged lists, which are not an array
        return False


def _count_actions(Y: Any, n_actions: int | None, eligible: object) -> int:
    """Return K."""
    if n_actions is not None:
        if check_positive_integer(n_actions, "n_actions") > MOST_ACTIONS:
            raise InputError(f"n_actions is {n_actions}, expected at most {MOST_ACTIONS}")
        return int(n_actions)
    if eligible is not None:
        return check_actions(eligible, name="eligible", columns="action").shape[1]
    Y = as_integer_vector(Y, "Y")
    largest = int(Y.max(initial=0))
    if largest >= MANY_ACTIONS and largest >= SPARSE_NUMBERING * (distinct := len(np.unique(Y))):
        raise InputError(
            f"the largest action of Y is {largest}, but Y has only {distinct} different actions: number the actions "
            "from 0, or pass how many there are as n_actions="
        )
    return largest + 1
