"""Policies, and the arrays and classes of their files: those of the pipeline, and those of ``drcrm learn``."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from drcrm.arrays.stored_estimators import from_bytes, to_bytes
from drcrm.policies.exponential import ExponentialPolicy, LinearPolicy, SoftmaxPolicy

POLICY_CLASSES: dict[str, type[LinearPolicy]] = {
    policy.__name__: policy for policy in (ExponentialPolicy, SoftmaxPolicy)
}
FEATURES = "features"  # the array of a feature map


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
