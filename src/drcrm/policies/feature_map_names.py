"""Names of the feature maps, and of the weights of classifiers, that a configuration can choose.

They are apart from the maps, because importing scikit-learn, which the maps need, takes half a second.
"""

from collections.abc import Mapping

from drcrm.arrays.validation import check_positive_integer
from drcrm.errors import InputError

FEATURE_MAPS = ("nystroem", "random_trees")
CLASSIFIER_WEIGHTS = ("none", "inverse_propensity")


def parse_feature_map(features: object, name: str = "features") -> tuple[str, int]:
    """Return the name and the size of a feature map, ``{"nystroem": 300}``; InputError for anything else."""
    if not isinstance(features, Mapping) or len(features) != 1 or not features.keys() <= {*FEATURE_MAPS}:
        raise InputError(
            f"{name} is {features!r}, expected one of {', '.join(FEATURE_MAPS)} with its size, like {{'nystroem': 300}}"
        )
    [(kind, size)] = features.items()
    return kind, check_positive_integer(size, f"{name}.{kind}")
