"""Every risk of the registry, for the tests that all of them must pass: those that take a ``risk``."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest

from drcrm.risks.base import BoltzmannRisk, LogSmoothingRisk, LogSumExpRisk, Risk
from drcrm.selection.algorithms import ESTIMATORS

# A risk whose parameters are all here is tested once it is in the registry; a new name of one needs some values here.
SAMPLES = {
    "variance_penalty": [0.0, 0.7],
    "temperature": [0.2, 2.0],
    "radius": [0.0, 1e-5, 0.3, 1.5],
    "confidence": [0.95],
    "divergence": ["kl", "chi2", "squared_hellinger", "reverse_kl", {"cressie_read": 1.5}, "total_variation"],
    "alpha": [0.3, 1.0],
    "variance": ["mean", "sum"],
    "smoothing": [0.02],
    "sharpness": [1.0],
}
RISKS = {
    " ".join([name, *map(str, values)]): estimator.criterion(
        **dict(zip(estimator.parameters, values, strict=True))
    ).risk
    for name, estimator in ESTIMATORS.items()
    for values in product(*(SAMPLES[parameter] for parameter in estimator.parameters))
}
# What most risks have, and these have not; tests see that they have not.
CURVED = (LogSmoothingRisk,)  # not risk(z + a) = risk(z) + a
OWN_UNIT = (LogSmoothingRisk, BoltzmannRisk, LogSumExpRisk)  # not risk(s z) = s risk(z)


@pytest.fixture(params=RISKS.values(), ids=RISKS)
def risk(request) -> Risk:
    return request.param


@pytest.fixture
def moves_with_costs(risk) -> bool:
    """Whether a constant added to all costs is added to the risk."""
    return not isinstance(risk, CURVED)


@pytest.fixture
def grows_with_costs(risk) -> bool:
    """Whether costs in another unit give the risk in that unit."""
    return not isinstance(risk, OWN_UNIT)


@pytest.fixture
def of_constant(risk, moves_with_costs) -> Callable[[float], tuple[float, float]]:
    """The risk of costs that are all equal, and what its gradient then adds up to."""
    if moves_with_costs:
        return lambda cost: (cost, 1.0)
    return lambda cost: (-np.log1p(-risk.smoothing * cost) / risk.smoothing, 1 / (1 - risk.smoothing * cost))
