"""Algorithm entries, from ``algorithms.yaml`` by name or from a user's mapping with the same keys."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from numbers import Real
from pathlib import Path
from typing import Any

from drcrm.arrays.validation import check_choice
from drcrm.errors import InputError
from drcrm.policies.feature_map_names import CLASSIFIER_WEIGHTS
from drcrm.selection.registry.algorithms import Algorithm, check_algorithm
from drcrm.selection.registry.user_classes import make_object

ALGORITHMS = Path(__file__).with_name("algorithms.yaml")
KEYS = {  # keys of an entry, and descriptions of their values
    "classifier": "module:Class, or a map of it to its parameters",
    "estimator": "a name",
    "grid": "a list of numbers",
    "label": "a text",
    "name": "a text",
    "options": "a map of names to values",
    "parameter": "a name",
    "weights": "a name",
}


@cache
def shipped_algorithms() -> dict[str, dict]:
    """Return the entries of ``algorithms.yaml`` by name. A configuration merges its entries with them."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # CSafeLoader is ten times faster
    return yaml.load(ALGORITHMS.read_text(encoding="utf-8"), Loader=loader)


def as_algorithm(value: Any, name: str = "algorithm") -> Algorithm:
    """Return the shipped algorithm of this name, or that of a mapping with ``KEYS``; InputError if it is invalid.

    It is safe unless its options say otherwise.
    """
    if not isinstance(value, Mapping):
        known = {key: entry for key, entry in shipped_algorithms().items() if "estimator" in entry}
        return _make_algorithm(check_choice(known, value, name), known[value])
    _check_mapping(value, name)
    if value.get("classifier") is not None:
        return _make_classifier(value)
    return _make_algorithm(value.get("name") or value["estimator"], value)


def _check_mapping(mapping: Mapping, name: str) -> None:
    """Raise InputError unless a mapping has the keys and types of an entry."""
    if unknown := mapping.keys() - KEYS:
        raise InputError(f"{name} has the unknown key {min(unknown, key=str)!r}, expected {', '.join(KEYS)}")
    if mapping.get("estimator") is None and mapping.get("classifier") is None:
        raise InputError(f"{name} has neither the key estimator nor the key classifier")
    for key, value in mapping.items():
        if not (value is None or _has_type(key, value)):
            raise InputError(f"{name}.{key} is {value!r}, expected {KEYS[key]}")


def _has_type(key: str, value: Any) -> bool:
    if key == "grid":
        is_list = isinstance(value, list | tuple)
        return is_list and all(isinstance(number, Real) and not isinstance(number, bool) for number in value)
    if key == "options":
        return isinstance(value, Mapping) and all(isinstance(name, str) for name in value)
    return isinstance(value, str) or (key == "classifier" and isinstance(value, Mapping))


def _make_algorithm(name: str, mapping: Mapping) -> Algorithm:
    options = {"safe": True, **(mapping.get("options") or {})}
    grid, label = tuple(mapping.get("grid") or ()), mapping.get("label") or name
    algorithm = Algorithm(mapping["estimator"], mapping.get("parameter"), grid, options, name=name, label=label)
    check_algorithm(algorithm)
    return algorithm


def _make_classifier(mapping: Mapping) -> Algorithm:
    if unused := mapping.keys() - {"classifier", "weights", "name", "label"}:
        raise InputError(f"the key {min(unused)} cannot be used with a classifier")
    classifier = make_object(mapping["classifier"], "classifier", "predict_proba")
    weights = check_choice(CLASSIFIER_WEIGHTS, mapping.get("weights") or "none", "weights")
    name = mapping.get("name") or type(classifier).__name__
    return Algorithm("CIPS", name=name, label=mapping.get("label") or name, classifier=classifier, weights=weights)
