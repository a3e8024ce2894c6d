"""Sample sizes: the textbook's numbers, simulated power, and estimates of the best of several policies."""

import numpy as np
import pytest
from scipy.stats import norm

from drcrm.evaluation.bounds.asymptotic_bounds import (
    bound_quantile,
    required_size,
    shrink_difference,
    smallest_difference,
)


def test_one_look_has_the_textbook_size():
    """One-sided z-test, α = 0.05, power 0.8: n = 6.1826 s²/d² (Cohen 1988)."""
    assert required_size(1.0, 1.0) == pytest.approx(6.182557, abs=1e-6)
    assert required_size(0.5, 3.0) == pytest.approx(36 * 6.182557, rel=1e-6)
    assert required_size(1.0, 1.0, choices=20) == pytest.approx((norm.isf(0.0025) + norm.ppf(0.8)) ** 2, rel=1e-12)
    assert smallest_difference(required_size(0.04, 2.5, 0.9, 300), 2.5, 0.9, 300) == pytest.approx(0.04, rel=1e-12)


@pytest.mark.parametrize(("choices", "confidence"), [(1, 0.95), (20, 0.99)])
def test_the_power_is_that_of_simulated_samples(choices, confidence):
    rng, n = np.random.default_rng(0), 400
    z = rng.normal(-smallest_difference(n, 2.0, confidence, choices), 2.0, size=(4000, n))
    bounds = z.mean(axis=1) + bound_quantile(confidence, choices) * z.std(axis=1, ddof=1) / np.sqrt(n)
    assert np.mean(bounds < 0) == pytest.approx(0.8, abs=0.025)


def test_shrinking_is_the_posterior_mean():
    assert shrink_difference(-2.0, 1.0) == -2.0 * 0.75
    assert shrink_difference(-1.0, 1.5) == shrink_difference(0.0, 1.0) == 0.0
    assert shrink_difference(0.0, 0.0) == shrink_difference(1.0, np.nan) == 0.0
    assert shrink_difference(3.0, 0.0) == 3.0
