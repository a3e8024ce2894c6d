"""Policies as arrays of their files, and scikit-learn's objects as arrays of bytes.

skops converts the objects, without pickle and only for trusted types. The bytes are a zip archive, whose checksums show
damage. Do not load the file of a policy from people you do not trust: scikit-learn's compiled code does not check the
nodes of its trees.
"""

import re
from collections.abc import Mapping
from io import BytesIO
from typing import Any
from zipfile import ZipFile, ZipInfo

import numpy as np

from drcrm.errors import InputError, import_extra, refuse_errors
from drcrm.policies.exponential import ExponentialPolicy, LinearPolicy, SoftmaxPolicy

SCHEMA = "schema.json"  # the member of skops's archives that describes the objects
TRUSTED = [  # in addition to the types that skops trusts by itself: public estimators of scikit-learn, and arrays
    *("sklearn.tree._tree.Tree", "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor"),
    "scipy.sparse._csr.csr_array",
    *("drcrm.arrays.boosted_trees.BoostedClassifier", "drcrm.arrays.boosted_trees.BoostedRegressor"),
    *("drcrm.policies.feature_maps.FeatureMap", "drcrm.policies.feature_maps.MedianNystroem"),
    *("drcrm.cost_models.regressor_model.RegressorModel", "drcrm.policies.classifier_policy.LogProbabilities"),
    "drcrm.policies.classifier_policy.MappedLogistic",
    *("drcrm.cost_models.blended_model.BlendedModel", "drcrm.cost_models.blended_model.MappedModel"),
    *("drcrm.policies.trees.tree_policy.LeafActions", "drcrm.policies.trees.tree.ActionTree"),
    *("drcrm.policies.trees.tree.Node", "drcrm.policies.trees.encoded_columns.EncodedColumn"),
    *("drcrm.cost_models.ridge_model.CostModel", "drcrm.policies.action_scores.ActionScores"),
]
POLICY_CLASSES: dict[str, type[LinearPolicy]] = {
    policy.__name__: policy for policy in (ExponentialPolicy, SoftmaxPolicy)
}
FEATURES = "features"  # the array of a feature map


def to_bytes(value: Any, name: str) -> np.ndarray:
    """Return an object as bytes, (n,), that ``from_bytes`` reads; InputError if it would not read them.

    Equal objects have equal bytes.
    """
    skops_io = import_extra("skops.io")  # imported here: it takes more than a second

    with refuse_errors(f"{name} cannot be stored"):
        content = np.frombuffer(_without_addresses(skops_io.dumps(value)), dtype=np.uint8)
    from_bytes(content, type(value), name)
    return content


def _without_addresses(archive: bytes) -> bytes:
    """Return skops's archive without times, and with numbers from 0 in place of the addresses of objects in memory."""
    numbers: dict[str, str] = {}
    with ZipFile(BytesIO(archive)) as read:
        members = {name: read.read(name) for name in read.namelist()}
    schema = re.sub(
        r'("__id__": |"file": ")(\d+)',
        lambda found: found[1] + numbers.setdefault(found[2], str(len(numbers))),
        members.pop(SCHEMA).decode(),
    )
    stream = BytesIO()
    with ZipFile(stream, "w") as written:
        for name, content in [*members.items(), (SCHEMA, schema.encode())]:
            stem, dot, suffix = name.partition(".")
            written.writestr(ZipInfo(f"{numbers.get(stem, stem)}{dot}{suffix}"), content)
    return stream.getvalue()


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
    return value


def arrays_of(policy: LinearPolicy, prefix: str = "") -> dict[str, np.ndarray]:
    """Return the coefficients of a policy, and its feature map as bytes if it has one, by the names in a file."""
    arrays = {f"{prefix}coef": policy.coef}
    if policy.features:
        arrays[f"{prefix}{FEATURES}"] = to_bytes(policy.features, "the feature map")
    return arrays


def features_of(arrays: Mapping[str, np.ndarray], prefix: str = "") -> Any:
    """Return the feature map in the arrays of a file, or None."""
    if f"{prefix}{FEATURES}" not in arrays:
        return None
    from drcrm.policies.feature_maps import FeatureMap  # imported here: scikit-learn takes half a second

    return from_bytes(arrays[f"{prefix}{FEATURES}"], FeatureMap, "the feature map")
