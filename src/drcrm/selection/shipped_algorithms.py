"""Algorithms by name, as they come with the package, and entries of a user's mapping, in the same form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from pathlib import Path

from drcrm.arrays.validation import check_choice
from drcrm.errors import InputError
from drcrm.policies.feature_map_names import parse_feature_map
from drcrm.selection.algorithms import RIDGES, Algorithm

ALGORITHMS = Path(__file__).with_name("algorithms.yaml")
TYPES = {  # the keys of an entry: their types, and the names of these in errors
    "estimator": (str, "a name"),
    "grid": ((list, tuple), "a list of numbers"),
    "label": (str, "a text"),
    "name": (str, "a text"),
    "options": (Mapping, "a map of names to values"),
    "parameter": (str, "a name"),
}


@dataclass(frozen=True)
class Entry:
    """An algorithm that competes, what it is called in print, its feature map, if any, and its ridges towards π0."""

    name: str
    label: str
    algorithm: Algorithm
    features: object = None
    ridges: Sequence[float] = RIDGES


def shipped_algorithms() -> dict[str, dict]:
    """Return the entries of ``algorithms.yaml``; a configuration's ``algorithms:`` replace those of the same name."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the former takes a tenth of the time
    return yaml.load(ALGORITHMS.read_text(encoding="utf-8"), Loader=loader)


def entry_of(asked: object, name: str = "algorithm") -> Entry:
    """Return an algorithm by its name, or of an entry as a configuration has it; InputError says what is wrong."""
    if not isinstance(asked, Mapping):
        known = {key: entry for key, entry in shipped_algorithms().items() if "estimator" in entry}
        return _entry(check_choice(known, asked, name), known[asked])
    if odd := asked.keys() - TYPES:
        raise InputError(f"{name} has {min(odd, key=str)!r}, expected {', '.join(TYPES)}")
    if asked.get("estimator") is None:
        raise InputError(f"{name} has no estimator")
    for key, value in asked.items():
        kind, called = TYPES[key]
        if not (value is None or isinstance(value, kind)):
            raise InputError(f"{name}.{key} is {value!r}, expected {called}")
    for value in asked.get("grid") or ():
        if isinstance(value, bool) or not isinstance(value, Real):
            raise InputError(f"{name}.grid has {value!r}, expected numbers")
    for key in asked.get("options") or ():
        if not isinstance(key, str):
            raise InputError(f"{name}.options has the key {key!r}, expected a name")
    return _entry(asked.get("name") or asked["estimator"], asked)


def _entry(key: str, given: Mapping) -> Entry:
    options = {"safe": True, **(given.get("options") or {})}
    features = options.pop("features", None)
    if features is not None:
        parse_feature_map(features)
    algorithm = Algorithm(given["estimator"], given.get("parameter"), tuple(given.get("grid") or ()), options)
    algorithm.criteria()
    return Entry(key, given.get("label") or key, algorithm, features)
