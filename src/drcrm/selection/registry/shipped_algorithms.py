"""Algorithm entries, from ``algorithms.yaml`` by name or from a user's mapping with the same keys."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from drcrm.arrays.validation import check_choice
from drcrm.errors import InputError
from drcrm.policies import CLASSIFIER_WEIGHTS
from drcrm.selection.registry.algorithms import TREE, Algorithm, check_algorithm
from drcrm.selection.registry.fit_settings import FitSettings
from drcrm.selection.registry.user_classes import make_object

TREES: dict[str, dict] = {  # of drcrm learn, not of experiments
    "single_action": {"estimator": TREE, "label": "best single action", "options": {"depth": 0}},
    "policy_tree": {"estimator": TREE, "label": "policy tree"},
}
ALGORITHMS = Path(__file__).with_name("algorithms.yaml")


@cache
def shipped_algorithms() -> dict[str, dict]:
    """Return the entries of ``algorithms.yaml`` by name. A configuration merges its entries with them."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # CSafeLoader is ten times faster
    return yaml.load(ALGORITHMS.read_text(encoding="utf-8"), Loader=loader)


def as_algorithm(value: Any) -> Algorithm:
    """Return the shipped algorithm of this name, or the algorithm of a map that the schema of mappings has checked.

    Raise InputError if the name or an option is unknown. The algorithm is safe unless its options say otherwise.
    """
    if not isinstance(value, Mapping):
        known = {key: entry for key, entry in shipped_algorithms().items() if "estimator" in entry}
        known |= TREES
        return _make_algorithm(check_choice(known, value, "algorithm"), known[value])
    if value.get("classifier") is not None:
        return _make_classifier(value)
    return _make_algorithm(value.get("name") or value["estimator"], value)


def _make_algorithm(name: str, mapping: Mapping) -> Algorithm:
    options = {"safe": True, **(mapping.get("options") or {})}
    entry = {**mapping, "grid": tuple(mapping.get("grid") or ()), "options": options}
    algorithm = Algorithm.of_entry(entry, name=name, label=mapping.get("label") or name)
    check_algorithm(algorithm)
    return algorithm


def _make_classifier(mapping: Mapping) -> Algorithm:
    if unused := mapping.keys() - {"classifier", "weights", "name", "label"}:
        raise InputError(f"the key {min(unused)} cannot be used with a classifier")
    classifier = make_object(mapping["classifier"], "classifier", "predict_proba")
    weights = check_choice(CLASSIFIER_WEIGHTS, mapping.get("weights") or "none", "weights")
    name = mapping.get("name") or type(classifier).__name__
    settings = FitSettings(weights=weights)
    return Algorithm("CIPS", settings=settings, name=name, label=mapping.get("label") or name, classifier=classifier)
