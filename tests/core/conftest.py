"""Every risk of the registry, for the tests that all of them must pass: those that take a ``risk``."""

from __future__ import annotations

from itertools import product

import pytest

from drcrm.core.risks import Risk
from drcrm.registry import ESTIMATORS

# A risk whose parameters are all here is tested once it is in the registry; a new name of one needs some values here.
SAMPLES = {
    "variance_penalty": [0.0, 0.7],
    "temperature": [0.2, 2.0],
    "radius": [0.0, 1e-5, 0.3, 1.5],
    "variance": ["mean", "sum"],
    "smoothing": [0.02],
    "sharpness": [1.0],
}
RISKS = {
    " ".join([name, *map(str, values)]): estimator.make_terms(**dict(zip(estimator.names(), values, strict=True))).risk
    for name, estimator in ESTIMATORS.items()
    for values in product(*(SAMPLES[parameter] for parameter in estimator.names()))
}


@pytest.fixture(params=RISKS.values(), ids=RISKS)
def risk(request) -> Risk:
    return request.param
