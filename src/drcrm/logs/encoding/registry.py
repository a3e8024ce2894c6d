"""Encodings by the names that a policy file gives them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drcrm.errors import InputError
from drcrm.logs.encoding.arrays import ArrayEncoding
from drcrm.logs.encoding.base import Encoding
from drcrm.logs.encoding.hashed_features import HashedEncoding
from drcrm.logs.encoding.tables import TableEncoding

ENCODINGS = {"table": TableEncoding, "arrays": ArrayEncoding, "named": HashedEncoding, "lists": HashedEncoding}


def encoding_of(content: Any) -> Encoding:
    """Return the encoding with the content that ``as_dict`` returned; InputError for any other content."""
    name = content.get("of") if isinstance(content, Mapping) else None
    if not isinstance(name, str) or name not in ENCODINGS:
        raise InputError(f"encoding is of type {name!r}, expected one of {', '.join(ENCODINGS)}")
    try:
        return ENCODINGS[name](**{key: value for key, value in content.items() if key != "of"})
    except (TypeError, ValueError, AttributeError) as error:
        raise InputError(f"encoding is truncated or from another version: {type(error).__name__} {error}") from None
