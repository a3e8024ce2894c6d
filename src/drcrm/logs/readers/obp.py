"""Open Bandit Pipeline (OBP): its dictionary of logged feedback, and the columns of the Open Bandit Dataset's csv.

Source: https://zr-obp.readthedocs.io (Saito, Aihara, Matsutani & Narita 2021).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from drcrm.arrays.validation import (
    append_constant,
    check_costs,
    check_features,
    check_integers,
    check_positive_integer,
    check_vector,
)
from drcrm.errors import InputError
from drcrm.logs.encoding.arrays import Arrays
from drcrm.logs.mapping import LogMapping
from drcrm.logs.records import Batch, LogSource, Records

DATASET = {"item_id", "position", "click", "propensity_score"}
USER = "user_feature_"
REQUIRED = ("action", "reward", "context")


def dataset_mapping(header: list[str], mapping: LogMapping) -> LogMapping:
    """Return a mapping that names the columns of the Open Bandit Dataset's csv if the file is one.

    Other files, and mappings that name an action, reward, propensity or features, keep their mapping.
    """
    columns = (mapping.action, mapping.labels, mapping.reward, mapping.cost, mapping.numeric, mapping.propensity)
    if not set(header) >= DATASET or any(column is not None for column in columns):
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


def feedback_batch(feedback: object, mapping: LogMapping | None = None, form: str = "obp") -> Batch:
    """Return the rows of OBP's dictionary, its contexts with a constant 1 appended.

    Raises
    ------
    InputError
        A missing key, or an invalid array, with its row.
    """
    if not isinstance(feedback, Mapping):
        raise InputError(f"feedback is of type {type(feedback).__name__}, expected OBP's dictionary")
    mapping = (LogMapping() if mapping is None else mapping).require_no_columns("OBP's feedback")
    if lacking := [key for key in REQUIRED if feedback.get(key) is None]:
        raise InputError(f"feedback has no {lacking[0]!r}, expected the keys {', '.join(REQUIRED)} and pscore")
    X = check_features(feedback["context"], "context")
    n, rounds = X.shape[0], feedback.get("n_rounds")
    if rounds is not None and rounds != n:
        raise InputError(f"n_rounds is {rounds}, expected {n}, the number of rows of context")
    action = check_integers(feedback["action"], n, "action")
    names, places = number_actions(action, feedback.get("n_actions"))
    position = feedback.get("position")
    positions, slices = np.empty(0), None
    if position is not None:
        positions, slices = np.unique(check_integers(position, n, "position"), return_inverse=True)
    records = Records(
        source=LogSource(form, mapping, "single", is_reward=True, first_action=0),
        names=names,
        data=Arrays(append_constant(X)),
        action=places,
        cost=0 - check_costs(feedback["reward"], n),
        propensity=logged_propensities(feedback, "pscore", n, mapping),
        rows=np.arange(n),
        slices=slices,
        slice_values=[str(value) for value in positions],
    )
    return Batch(records.validated())


def logged_propensities(arrays: Mapping[str, object], name: str, n: int, mapping: LogMapping) -> np.ndarray | None:
    """Return the logged propensities; None if the mapping asks for estimated ones."""
    if mapping.propensity_model:
        return None
    if arrays.get(name) is None:
        raise InputError(f"has no {name}, expected it, or propensity: null with propensity_model: softmax")
    return check_vector(arrays[name], n, name)


def number_actions(action: np.ndarray, n_actions: object = None) -> tuple[list[int], np.ndarray]:
    """Return the numbers of the actions that occur and of the last one, and the actions as places among them."""
    last = int(action.max(initial=0)) if n_actions is None else int(check_positive_integer(n_actions, "n_actions")) - 1
    bad = (action < 0) | (action > last)
    if bad.any():
        row = int(np.argmax(bad))
        raise InputError(f"action is {action[row]} in row {row}, expected one of {last + 1}, numbered from 0")
    names, places = np.unique(np.append(action, last), return_inverse=True)
    return names.tolist(), places[:-1]
