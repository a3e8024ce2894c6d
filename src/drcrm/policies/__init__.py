"""Policies, and the names of feature maps and of weights of classifiers that a configuration can choose.

The names are apart from the maps, because importing scikit-learn, which the maps need, takes half a second.
"""

from collections.abc import Mapping

from drcrm.arrays.validation import check_positive_integer
from drcrm.errors import InputError

NYSTROEM = "nystroem"
LEARNED_SCORES = "scores"  # in place of a map: see drcrm.selection.learned_scores
CLASSIFIER_WEIGHTS = ("none", "inverse_propensity")


def parse_feature_map(features: object, name: str = "features") -> int:
    """Return the size of a feature map, ``{"nystroem": 300}``; InputError for anything else."""
    if not isinstance(features, Mapping) or {*features} != {NYSTROEM}:
        raise InputError(f"{name} is {features!r}, expected {LEARNED_SCORES!r} or a size like {{'nystroem': 300}}")
    return check_positive_integer(features[NYSTROEM], f"{name}.{NYSTROEM}")


def check_feature_option(features: object, name: str = "features") -> None:
    """Raise InputError unless an option is None, "scores", or the name and the size of a feature map."""
    if not (features is None or (isinstance(features, str) and features == LEARNED_SCORES)):
        parse_feature_map(features, name)
