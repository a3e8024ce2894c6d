"""Conversion of scikit-learn objects to arrays of bytes by skops, without pickle and only for trusted types.

When an object is loaded, the nodes of its trees are checked, because scikit-learn's compiled code does not check them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from drcrm.errors import InputError, import_extra, refuse_errors

TREE, HISTOGRAM_TREE = "sklearn.tree._tree.Tree", "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor"
TRUSTED = [  # in addition to the types that skops trusts by itself: public estimators of scikit-learn, and arrays
    *(TREE, HISTOGRAM_TREE, "scipy.sparse._csr.csr_array"),
    *("drcrm.policies.feature_maps.FeatureMap", "drcrm.policies.feature_maps.MedianNystroem"),
    *("drcrm.cost_models.regressor_model.RegressorModel", "drcrm.policies.classifier_policy.LogProbabilities"),
]


def to_bytes(value: Any, name: str) -> np.ndarray:
    """Return an object as bytes, (n,), that ``from_bytes`` reads; InputError if it would not read them."""
    skops_io = import_extra("skops.io")  # imported here: it takes more than a second

    with refuse_errors(f"{name} cannot be stored"):
        content = np.frombuffer(skops_io.dumps(value), dtype=np.uint8)
    from_bytes(content, type(value), name)
    return content


def from_bytes(content: np.ndarray, kind: type, name: str) -> Any:
    """Return the object of a kind that ``to_bytes`` stored.

    Raises
    ------
    InputError
        Damaged bytes, an object of another kind, or one with a type that is not trusted.
    """
    skops_io = import_extra("skops.io")

    with refuse_errors(f"{name} is damaged"):
        data = content.tobytes()
        unknown = {*skops_io.get_untrusted_types(data=data)} - {*TRUSTED}
        value = None if unknown else skops_io.loads(data, trusted=TRUSTED)
    if unknown:
        raise InputError(f"{name} has the type {min(unknown)}, expected only scikit-learn's types that drcrm can load")
    if type(value) is not kind:
        raise InputError(f"{name} is of type {type(value).__name__}, expected {kind.__name__}")
    for tree, width in _trees_of(value, np.inf, set()):
        if not _has_valid_nodes(tree, width):
            raise InputError(f"{name} is damaged: a tree refers to a node or a feature that does not exist")
    return value


def _trees_of(value: Any, width: float, visited: set[int]) -> Iterator[tuple[Any, float]]:
    """Yield each tree within an object, and the number of features that the tree's estimator requires."""
    if id(value) in visited:
        return
    visited.add(id(value))
    if f"{type(value).__module__}.{type(value).__qualname__}" in (TREE, HISTOGRAM_TREE):
        yield value, width
        return
    if hasattr(value, "steps"):  # each step of a pipeline can have another number of features
        width = np.inf
    elif isinstance(number := getattr(value, "n_features_in_", None), int | np.integer):
        width = min(width, float(number))
    for part in _parts_of(value):
        yield from _trees_of(part, width, visited)


def _parts_of(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return value.values()
    if isinstance(value, list | tuple | set):
        return value
    if isinstance(value, np.ndarray):
        return value.ravel() if value.dtype == object else ()
    return vars(value).values() if hasattr(value, "__dict__") and not isinstance(value, type) else ()


def _has_valid_nodes(tree: Any, width: float) -> bool:
    """Return whether children come after their parents, and features are below the width."""
    if hasattr(tree, "nodes"):
        nodes = tree.nodes
        left, right, feature = (nodes[name].astype(np.int64) for name in ("left", "right", "feature_idx"))
        is_leaf = nodes["is_leaf"] != 0
        if nodes["is_categorical"].any():  # such nodes refer to tables of bits, which are not checked
            return False
    else:
        left, right, feature = tree.children_left, tree.children_right, tree.feature
        is_leaf, width = (left == -1) & (right == -1), min(width, tree.n_features)
    place = np.arange(len(left))
    follows = (place < np.minimum(left, right)) & (np.maximum(left, right) < len(left))
    return bool(len(left) and np.all(is_leaf | (follows & (feature >= 0) & (feature < width))))
