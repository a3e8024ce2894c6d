"""Logarithmic smoothing against its formula."""

import numpy as np
import pytest

from drcrm.risks import LogSmoothingRisk


@pytest.mark.parametrize("smoothing", [1e-6, 0.1, 1.0, 30.0])
def test_value_and_gradient_are_the_formula(smoothing):
    """Also at a positive cost below 1/λ. For costs of at most 0 the risk is at least their mean."""
    z = np.append(-np.random.default_rng(24).exponential(4, 25), 0.9 / smoothing)
    count = np.append(np.random.default_rng(25).integers(0, 4, 25), 1)
    value, gradient = LogSmoothingRisk(smoothing)(z, count)
    assert value == pytest.approx(-(count @ np.log(1 - smoothing * z)) / (smoothing * count.sum()), rel=1e-9)
    assert gradient == pytest.approx(count / count.sum() / (1 - smoothing * z), rel=1e-12)
    assert LogSmoothingRisk(smoothing)(z[:-1])[0] >= z[:-1].mean()
