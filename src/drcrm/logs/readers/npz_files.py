"""npz files: the arrays of a ``BanditLog`` under its names, or those of the Open Bandit Pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from drcrm.actions.action_lists import ActionLists
from drcrm.arrays.mapped_arrays import Features
from drcrm.arrays.validation import (
    append_constant,
    check_actions,
    check_context,
    check_costs,
    check_features,
    check_integers,
)
from drcrm.errors import InputError
from drcrm.logs.encoding.arrays import Arrays
from drcrm.logs.mapping import LogMapping
from drcrm.logs.readers.obp import feedback_batch, logged_propensities, number_actions
from drcrm.logs.records import Batch, LogSource, Records


def read_arrays(path: Path) -> dict[str, object]:
    """Return the arrays of an npz file without pickles; arrays without dimensions as numbers."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except (FileNotFoundError, IsADirectoryError, PermissionError) as error:
        raise InputError(f"cannot be read: {error.strerror}") from None
    except Exception as error:  # damaged bytes can raise anything
        message = " ".join(str(error).split())[:200] or type(error).__name__
        raise InputError(f"is not a readable npz file: {message}") from None
    return {name: array if array.ndim else array.item() for name, array in arrays.items()}


def npz_batch(arrays: Mapping[str, Any], mapping: LogMapping) -> Batch:
    """Return the rows of an npz file.

    Its arrays are those of OBP, or X, Y, propensity, and cost or reward; optional are context, count, n_actions, and
    starts, the first row of each list of actions in X.
    """
    if "action" in arrays:
        return feedback_batch(arrays, mapping, "npz")
    mapping = mapping.require_no_columns("an npz file")
    is_reward = "reward" in arrays
    if not {"X", "Y"} <= arrays.keys() or is_reward == ("cost" in arrays):
        present = ", ".join(arrays) or "none"
        raise InputError(f"has the arrays {present}, expected X, Y, propensity, and cost or reward; or those of OBP")
    X, Y = npz_contexts(arrays), arrays["Y"]
    kind = "lists" if "starts" in arrays else "labels" if np.ndim(Y) == 2 else "single"
    action = check_actions(Y) if kind == "labels" else check_integers(Y, len(np.atleast_1d(Y)), "Y")
    n, m = len(action), X.shape[0]
    if "context" not in arrays and n != m:
        raise InputError(f"Y has {n} rows, expected {m}, the number of contexts")
    names = list(range(action.shape[1])) if kind == "labels" else []
    if kind == "single":
        names, action = number_actions(action, arrays.get("n_actions"))
    cost = check_costs(arrays["reward" if is_reward else "cost"], n)
    records = Records(
        source=LogSource("npz", mapping, kind, is_reward, first_action=0 if kind == "single" else None),
        names=names,
        data=Arrays(X),
        action=action,
        cost=0 - cost if is_reward else cost,
        propensity=logged_propensities(arrays, "propensity", n, mapping),
        context=check_context(arrays["context"], n, m) if "context" in arrays else None,
        rows=np.arange(n),
        count=check_integers(arrays["count"], n, "count") if "count" in arrays else None,
    )
    return Batch(records.validated())


def npz_contexts(arrays: Mapping[str, object]) -> Features | ActionLists:
    """Return the contexts of an npz file."""
    if "X" in arrays:
        return ActionLists(arrays["X"], arrays["starts"]) if "starts" in arrays else check_features(arrays["X"])
    if "context" not in arrays:
        raise InputError(f"has the arrays {', '.join(arrays) or 'none'}, expected X, or OBP's context")
    return append_constant(check_features(arrays["context"], "context"))
