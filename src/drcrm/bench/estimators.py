"""Estimators by name, with parameters, or of a user's class.

An estimator has the method ``terms(log, policy, model)``, which returns one number for each row. Their mean is the
estimate, and their standard deviation gives its standard error. ``log`` is a :class:`drcrm.BanditLog` without rows of
count 0. ``policy`` has the probabilities of all actions in the contexts of the log, and ``model`` their modelled costs:
(m, K), or (N,) for lists. The attribute ``uses_model`` says whether it needs the model, by default yes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drcrm.arrays.validation import check_choice
from drcrm.bench.weighted import Weighted
from drcrm.errors import InputError
from drcrm.estimates import EVALUATIONS
from drcrm.selection.registry.user_classes import make_object
from drcrm.weights import Implicit, Shrunk, Subgaussian, Weight

WEIGHTS: dict[str, type[Weight]] = {"implicit": Implicit, "subgaussian": Subgaussian, "dros": Shrunk}
CLASSES = {  # further estimators
    "log_smoothing": "drcrm.bench.weighted:LogarithmicSmoothing",
    "mips": "drcrm.bench.marginal_weights:MarginalWeights",
    "cluster_dr": "drcrm.bench.marginal_weights:ClusterDoublyRobust",
    "mrdr": "drcrm.bench.weighted_model:WeightedModel",
    "slope": "drcrm.bench.selectors:Slope",
    "ocv": "drcrm.bench.selectors:CrossValidation",
}
OF_CLUSTERS = "mips", "cluster_dr"  # estimators with clusters of actions and the logging policy
NAMES = (*EVALUATIONS, *CLASSES)


def make_estimator(value: Any) -> Any:
    """Return an estimator.

    Parameters
    ----------
    value : str, mapping or estimator
        A name such as ``"dros"``, a name with parameters such as ``{"dros": {"shrinkage": 5}}``, a user's class as
        ``"module:Class"`` or ``{"module:Class": {parameter: value}}``, or an object with a method ``terms``.

    Raises
    ------
    InputError
        If there is no such name, class or parameter.
    """
    if hasattr(value, "terms"):
        return value
    name, parameters = next(iter(value.items())) if isinstance(value, Mapping) and len(value) == 1 else (value, None)
    if isinstance(name, str) and ":" in name:
        return make_object(value, "estimator", "terms")
    if check_choice(NAMES, name, "estimator") in CLASSES:
        return make_object({CLASSES[name]: parameters}, "estimator", "terms")
    try:
        if name in WEIGHTS:
            return Weighted(name, WEIGHTS[name](**parameters) if parameters else None)
        return Weighted(name, **(parameters or {}))
    except TypeError as error:
        raise InputError(f"estimator {name}: {error}") from None
