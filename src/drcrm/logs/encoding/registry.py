"""Encodings as they are kept in a policy file: what makes X of contexts, and the names of the actions.

Each has ``kind``, ``names``, ``n_features``, ``contexts(data) → X``, ``unseen(data)``, and ``as_dict()``.
"""

from __future__ import annotations

from collections.abc import Mapping

from drcrm.errors import InputError
from drcrm.logs.encoding.arrays import ArrayEncoding
from drcrm.logs.encoding.named_features import ListEncoding, NamedEncoding
from drcrm.logs.encoding.tables import TableEncoding

Encoding = TableEncoding | ArrayEncoding | NamedEncoding | ListEncoding
ENCODINGS = {"table": TableEncoding, "arrays": ArrayEncoding, "named": NamedEncoding, "lists": ListEncoding}


def encoding_of(given: object) -> Encoding:
    """Return the encoding of which ``as_dict`` made a map; InputError for any other."""
    kind = given.get("of") if isinstance(given, Mapping) else None
    if not isinstance(kind, str) or kind not in ENCODINGS:
        raise InputError(f"encoding is of {kind!r}, expected one of {', '.join(ENCODINGS)}")
    try:
        return ENCODINGS[kind].of_dict(dict(given))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"encoding is cut off, or from another version: {type(error).__name__} {error}") from None
