"""Readers of npz files and of the dictionary of the Open Bandit Pipeline (OBP).

An npz file has the arrays of a ``BanditLog``, or the arrays of OBP.

Source of OBP: https://zr-obp.readthedocs.io (Saito, Aihara, Matsutani & Narita 2021).
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from drcrm.actions import infer_actions
from drcrm.actions.base import Actions
from drcrm.actions.one_of_many import ActionLists
from drcrm.arrays.mapped_arrays import Features
from drcrm.arrays.tables import Table
from drcrm.arrays.validation import (
    append_constant,
    check_context,
    check_costs,
    check_features,
    check_integers,
    check_vector,
)
from drcrm.errors import InputError, prefix_errors, refuse_errors
from drcrm.logs.batches import Batch, LogDescription
from drcrm.logs.encoding.base import ArrayEncoding, Contexts, array_contexts
from drcrm.logs.encoding.columns import id_marks
from drcrm.logs.readers.base import Reader
from drcrm.mapping.log_mapping import LogMapping

REQUIRED = ("action", "reward", "context")  # keys of OBP's dictionary
NEEDED = {*REQUIRED, "X", "Y", "id", "starts", "propensity", "cost", "count"}
OPTIONAL = {"pscore", "position", "n_actions", "n_rounds"}  # OBP may have None, an array of objects, in their place


def read_arrays(path: Path) -> dict[str, Any]:
    """Return the arrays of an npz file, None for those that no log needs. An array without dimensions becomes a number.

    Optional arrays of objects count as absent.
    """
    try:
        file = path.open("rb")
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}") from None
    arrays: dict[str, Any] = {}
    with file, refuse_errors("is not a readable npz file"), np.load(file, allow_pickle=False) as archive:
        for name in archive.files:
            try:
                arrays[name] = archive[name] if name in NEEDED | OPTIONAL else None
            except ValueError:  # an array of objects
                if name in NEEDED:
                    expected = "expected numbers: convert the array before it is saved"
                    raise InputError(f"{name} has Python objects, {expected}") from None
    return {
        name: array.item() if np.ndim(array) == 0 and array is not None else array for name, array in arrays.items()
    }


class NpzReader(Reader):
    """Reader of npz, with the arrays of OBP, or X, Y, propensity, and either cost or reward.

    The arrays context, count, n_actions and id are optional. For lists of actions, starts has the first row of each
    list in X.
    """

    name, title, suffixes = "npz", "an npz file", (".npz",)
    encodings = (ArrayEncoding,)
    is_single_file = True

    def read_batches(self, file: Path) -> Iterator[Batch]:
        arrays = read_arrays(file)
        yield feedback_batch(arrays, self.mapping, self.name) if "action" in arrays else self._batch(arrays)

    def read_contexts(self, file: Path, encoding: Any, keep: Sequence[str]) -> Iterator[tuple[Contexts, Any]]:
        yield encoding.read(npz_contexts(read_arrays(file))), None

    def _batch(self, arrays: Mapping[str, Any]) -> Batch:
        mapping, is_reward = self.mapping.require_no_columns(self.title), "reward" in arrays
        if not {"X", "Y"} <= arrays.keys() or is_reward == ("cost" in arrays):
            present = ", ".join(arrays) or "none"
            raise InputError(
                f"has the arrays {present}, expected X, Y, propensity, and cost or reward; or those of OBP"
            )
        X = npz_contexts(arrays)
        _, actions, action = infer_actions(X, arrays["Y"], arrays.get("n_actions"))
        n, m = len(action), X.shape[0]
        if "context" not in arrays and n != m:
            raise InputError(f"Y has {n} rows, expected {m}, the number of contexts")
        count = check_integers(arrays["count"], n, "count") if "count" in arrays else None
        cost = check_costs(arrays["reward" if is_reward else "cost"], n, 1 if count is None else count)
        ids = id_marks(pd.Series(arrays["id"]), "id") if np.shape(arrays.get("id")) == (n,) else None
        columns = {
            "action": action,
            "cost": 0 - cost if is_reward else cost,
            "propensity": _logged_propensities(arrays, "propensity", n, mapping),
            "context": check_context(arrays["context"], n, m) if "context" in arrays else None,
            "number": np.arange(n),
            "count": count,
            "ids": ids,
        }
        return _batch(self.name, mapping, actions, X, columns, is_reward=is_reward)


def npz_contexts(arrays: Mapping[str, object]) -> Features | ActionLists:
    """Return X, the lists of actions in X, or OBP's contexts with a constant 1 appended."""
    if "X" in arrays:
        return ActionLists(arrays["X"], arrays["starts"]) if "starts" in arrays else check_features(arrays["X"])
    if "context" not in arrays:
        raise InputError(f"has the arrays {', '.join(arrays) or 'none'}, expected X, or OBP's context")
    return append_constant(check_features(arrays["context"], "context"))


def feedback_batch(feedback: Mapping[str, Any], mapping: LogMapping, form: str = "obp") -> Batch:
    """Return the rows of OBP's dictionary. A constant 1 is appended to the contexts.

    Raises
    ------
    InputError
        If a key is missing, or an array is invalid. The message names the row.
    """
    mapping = mapping.require_no_columns("OBP's feedback")
    if lacking := [key for key in REQUIRED if feedback.get(key) is None]:
        raise InputError(f"feedback has no {lacking[0]!r}, expected the keys {', '.join(REQUIRED)} and pscore")
    X = check_features(feedback["context"], "context")
    n, rounds = X.shape[0], feedback.get("n_rounds")
    if rounds is not None and rounds != n:
        raise InputError(f"n_rounds is {rounds}, expected {n}, the number of rows of context")
    action = check_integers(feedback["action"], n, "action")
    with prefix_errors("action"):
        X, actions, action = infer_actions(append_constant(X), action, feedback.get("n_actions"))
    columns = {
        "action": action,
        "cost": 0 - check_costs(feedback["reward"], n),
        "propensity": _logged_propensities(feedback, "pscore", n, mapping),
        "number": np.arange(n),
    }
    values = {}
    if feedback.get("position") is not None:
        positions, columns["slice 0"] = np.unique(
            check_integers(feedback["position"], n, "position"), return_inverse=True
        )
        values["slice 0"] = positions.tolist()
    return _batch(form, mapping, actions, X, columns, values, is_reward=True)


def _batch(
    form: str,
    mapping: LogMapping,
    actions: Actions,
    X: Features | ActionLists,
    columns: dict[str, Any],
    values: Mapping[str, list] | None = None,
    **facts: Any,
) -> Batch:
    facts |= {"format": form, "mapping": mapping, "kind": actions.kind, "encoder": ArrayEncoding.fit}
    description = LogDescription(names=[*range(*actions.shape)] if actions.shape else [], **facts)
    return Batch(description, array_contexts(X), Table(len(columns["number"]), columns, values or {})).validated()


def _logged_propensities(arrays: Mapping[str, object], name: str, n: int, mapping: LogMapping) -> np.ndarray | None:
    """Return the logged propensities; None if the mapping has other ones."""
    if mapping.lacks_propensities:
        return None
    if arrays.get(name) is None:
        raise InputError(f"has no {name}; add it, or set propensity: null and propensity_model: auto in the mapping")
    return check_vector(arrays[name], n, name)
