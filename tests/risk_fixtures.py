"""Fixture ``risk``: every registered risk with several values of its parameters."""

from collections.abc import Callable
from inspect import signature
from itertools import product

import numpy as np
import pytest

from drcrm.risks import BoltzmannRisk, LogSmoothingRisk, LogSumExpRisk, Risk
from drcrm.selection.registry.algorithms import ESTIMATORS

# A registered risk is tested if all of its parameters are listed here.
PARAMETER_VALUES = {
    "variance_penalty": [0.0, 0.7],
    "temperature": [0.2, 2.0],
    "radius": [0.0, 1e-5, 0.3, 1.5],
    "confidence": [0.95],
    "divergence": ["kl", "chi2", "squared_hellinger", "reverse_kl"],
    "alpha": [0.3, 1.0],
    "variance": ["mean", "sum"],
    "smoothing": [0.02],
    "sharpness": [1.0],
}
RISKS = {
    " ".join([name, *map(str, values)]): kind(*values)
    for name, kind in ESTIMATORS.items()
    for values in product(*(PARAMETER_VALUES[name] for name in signature(kind).parameters if name != "atom"))
}
NOT_TRANSLATION_EQUIVARIANT = (LogSmoothingRisk,)
NOT_HOMOGENEOUS = (LogSmoothingRisk, BoltzmannRisk, LogSumExpRisk)


@pytest.fixture(params=RISKS.values(), ids=RISKS)
def risk(request) -> Risk:
    return request.param


@pytest.fixture
def is_translation_equivariant(risk) -> bool:
    """Whether risk(z + a) = risk(z) + a."""
    return not isinstance(risk, NOT_TRANSLATION_EQUIVARIANT)


@pytest.fixture
def is_homogeneous(risk) -> bool:
    """Whether risk(s z) = s risk(z) for s > 0."""
    return not isinstance(risk, NOT_HOMOGENEOUS)


@pytest.fixture
def risk_of_constant(risk, is_translation_equivariant) -> Callable[[float], tuple[float, float]]:
    """Return the risk of equal costs and the sum of its gradient."""
    if is_translation_equivariant:
        return lambda cost: (cost, 1.0)
    return lambda cost: (-np.log1p(-risk.smoothing * cost) / risk.smoothing, 1 / (1 - risk.smoothing * cost))
