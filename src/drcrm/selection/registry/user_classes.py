"""Classes that a configuration names by ``module:Class``: a user's risk, a regressor, a classifier."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from drcrm.errors import InputError, refuse_errors


def import_class(path: str, key: str) -> type:
    """Return the class at ``module:Class``; InputError, which names the key, if it cannot be imported."""
    module, _, name = path.partition(":")
    searched = sys.path
    try:
        sys.path = [*searched, os.getcwd()]  # imports also search the working folder, after all other folders
        with refuse_errors(f"{key} {path}"):
            found_class = getattr(import_module(module), name)
    finally:
        sys.path = searched
    if not isinstance(found_class, type):
        raise InputError(f"{key} {path}: {name} must be a class")
    return found_class


def make_object(value: Any, key: str, method: str) -> Any:
    """Return the object that a value describes: ``"module:Class"``, or ``{"module:Class": {parameter: value}}``.

    Raise InputError, which names the key, for any other value and for a class without the method.
    """
    path, parameters = next(iter(value.items())) if isinstance(value, Mapping) and len(value) == 1 else (value, {})
    if not (isinstance(path, str) and ":" in path and isinstance(parameters, Mapping | None)):
        raise InputError(f"{key} is {value!r}, expected module:Class, or a map of module:Class to its parameters")
    user_class = import_class(path, key)
    if not hasattr(user_class, method):
        raise InputError(f"{key} {path}: the class has no {method}")
    try:
        return user_class(**(parameters or {}))
    except (TypeError, ValueError) as error:
        raise InputError(f"{key} {path}: {error}") from None


def make_regressor(value: Any, key: str = "cost_model") -> Any:
    """Return the regressor of a cost model that a value describes, not yet fitted; None for None."""
    return None if value is None else make_object(value, key, "predict")
