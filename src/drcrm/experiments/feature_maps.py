"""Feature maps of the pipeline: files have their names, and they are fitted to the log's training contexts again."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from drcrm.policies.feature_maps import FeatureMap


def feature_map(features: dict, X) -> FeatureMap:
    """Return the map that an algorithm's option names, fitted to contexts: the same for the same contexts."""
    from drcrm.policies.feature_maps import FeatureMap, as_transformer

    return FeatureMap(as_transformer(features), X)
