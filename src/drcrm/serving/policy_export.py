"""A linear policy on a table as JSON, for applications that are not written in Python.

``policy.schema.json`` describes the content, and ``docs/examples/score.mjs`` reads it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from drcrm.errors import InputError
from drcrm.logs.encoding.tables import N_COLUMNS, TableEncoding
from drcrm.logs.policy_file import StoredPolicy
from drcrm.serving.context_scores import Number, features_of, hour_text, weekday_text

FORMAT, VERSION = "drcrm-linear-policy", 2
TYPES = {hour_text: "hour", weekday_text: "weekday"}  # of categorical features that are parts of a time


def export_policy(stored: StoredPolicy) -> dict[str, Any]:
    """Return the content of the JSON; InputError for a policy of another kind."""
    policy, encoding = stored.policy, stored.encoding
    if not isinstance(encoding, TableEncoding):
        raise InputError("only a policy on a table can be exported, without lists: its log has lists or another format")
    if policy.features is not None:
        raise InputError(
            "only a linear policy, without a feature map or learned scores, can be exported: run drcrm learn "
            "--exportable"
        )
    return {
        "format": FORMAT,
        "version": VERSION,
        "kind": encoding.kind,
        "names": list(encoding.names),
        "explore": policy.explore,
        "intercept": (policy.coef[-1] + policy.intercept).tolist(),
        "features": [_feature(feature, policy.coef, encoding) for feature in features_of(encoding)],
    }


def _feature(feature: Any, coef: np.ndarray, encoding: TableEncoding) -> dict[str, Any]:
    """Return a feature with the coefficients of its columns."""
    if isinstance(feature, Number):
        missing = None if feature.missing_column is None else coef[feature.missing_column].tolist()
        content = {"type": "number", "mean": feature.mean, "scale": feature.scale}
        return {"name": feature.name, **content, "coef": coef[feature.column].tolist(), "missing": missing}
    kind = "hashed" if encoding.is_hashed(feature.column) else TYPES.get(feature.text_of, "category")
    places = encoding.places[feature.column]
    columns = {str(value): coef[feature.first + place].tolist() for value, place in places.items()}
    return {"name": feature.name, "type": kind, "coef": columns} | ({"columns": N_COLUMNS} if kind == "hashed" else {})
