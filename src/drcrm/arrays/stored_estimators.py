"""Conversion of scikit-learn objects to arrays of bytes by skops, without pickle and only for trusted types.

When an object is loaded, its trees are checked before and after they are built, because scikit-learn's compiled code
does not check them.
"""

import io
import json
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from drcrm.errors import InputError, import_extra, refuse_errors
from drcrm.files import require_small

TREE, HISTOGRAM_TREE = "sklearn.tree._tree.Tree", "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor"
TRUSTED = [  # in addition to the types that skops trusts by itself: public estimators of scikit-learn, and arrays
    *(TREE, HISTOGRAM_TREE, "scipy.sparse._csr.csr_array"),
    *("drcrm.policies.feature_maps.FeatureMap", "drcrm.policies.feature_maps.MedianNystroem"),
    *("drcrm.cost_models.regressor_model.RegressorModel", "drcrm.policies.classifier_policy.LogProbabilities"),
    "drcrm.policies.classifier_policy.MappedLogistic",
    *("drcrm.cost_models.blended_model.BlendedModel", "drcrm.cost_models.blended_model.MappedModel"),
    *("drcrm.cost_models.ridge_model.CostModel", "drcrm.policies.action_scores.ActionScores"),
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
        if not unknown:
            _check_sizes_of_trees(data)
        value = None if unknown else skops_io.loads(data, trusted=TRUSTED)
        is_valid = all(_has_valid_nodes(tree, width) for tree, width in _trees_of(value, np.inf, set()))
    if unknown:
        raise InputError(f"{name} has the type {min(unknown)}, expected only scikit-learn's types that drcrm can load")
    if type(value) is not kind:
        raise InputError(f"{name} is of type {type(value).__name__}, expected {kind.__name__}")
    if not is_valid:
        raise InputError(f"{name} is damaged: a tree refers to a node or a feature that does not exist")
    return value


def _check_sizes_of_trees(data: bytes) -> None:
    """Raise an exception unless the arrays of each tree have the sizes that its constructor and its nodes need."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        require_small(archive)
        for tree in _entries_of(json.loads(archive.read("schema.json")), TREE):
            _, classes, n_outputs = tree["__reduce__"]["args"]["content"]
            state = tree["content"]["content"]
            n_classes = np.load(archive.open(classes["file"]), allow_pickle=False)
            n_nodes = len(np.load(archive.open(state["nodes"]["file"]), allow_pickle=False))
            if n_classes.shape != (int(n_outputs["content"]),) or int(state["node_count"]["content"]) != n_nodes:
                raise InputError("a tree has arrays of the wrong size")


def _entries_of(schema: Any, name: str) -> Iterator[dict]:
    """Yield the entries of a type in the JSON of skops."""
    if isinstance(schema, dict) and f"{schema.get('__module__')}.{schema.get('__class__')}" == name:
        yield schema
    for part in _parts_of(schema):
        yield from _entries_of(part, name)


def _trees_of(value: Any, width: float, visited: set[int]) -> Iterator[tuple[Any, float]]:
    """Yield each tree within an object, and the number of features that the tree's estimators require.

    scikit-learn checks this number before it uses a tree. It is 0 if an estimator has lost it.
    """
    if id(value) in visited:
        return
    visited.add(id(value))
    if f"{type(value).__module__}.{type(value).__qualname__}" in (TREE, HISTOGRAM_TREE):
        yield value, width
        return
    if hasattr(value, "steps"):  # each step of a pipeline can have another number of features
        width = np.inf
    elif hasattr(value, "get_params"):
        number = getattr(value, "n_features_in_", None)
        width = min(width, float(number) if isinstance(number, int | np.integer) else 0)
    if hasattr(value, "_predictors"):
        sizes = {value._baseline_prediction.size, *map(len, value._predictors)}
        if sizes != {value.n_trees_per_iteration_}:
            raise InputError("a boosted model has another number of trees for each iteration than it states")
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
    if not np.isfinite(width):
        return False
    place = np.arange(len(left))
    follows = (place < np.minimum(left, right)) & (np.maximum(left, right) < len(left))
    return bool(len(left) and np.all(is_leaf | (follows & (feature >= 0) & (feature < width))))
