"""The study's divergences: one coherent φ, and worst cases in closed form and by a linear program."""

import numpy as np
import pytest
from other_divergences import CressieRead3, TotalVariation
from scipy.optimize import linprog

from drcrm.risks import PhiBall


def test_cressie_and_read_with_k_3_is_coherent_and_has_a_closed_form():
    divergence, share = CressieRead3(), np.array([0.4, 0.6])
    t = np.geomspace(1e-3, 1e3, 50)
    assert divergence.phi(t) == pytest.approx((t**3 - 3 * t + 2) / 6, rel=1e-9, abs=1e-9)
    divergence.check()
    for smaller in (1e-6, 0.03, 0.3):
        density = np.array([(1 - 0.6 * smaller) / 0.4, smaller])
        value, worst = PhiBall(divergence, share @ divergence.phi(density))([0.0, -1.0], share)
        assert value == pytest.approx(-0.6 * smaller, abs=1e-12)
        assert worst == pytest.approx(share * density, abs=1e-12)


@pytest.mark.parametrize("radius", [0.01, 0.3, 1.9])
def test_total_variation_is_a_linear_program(radius):
    """q = 1/n + up − down with Σ up + Σ down ≤ radius."""
    z = np.random.default_rng(0).normal(size=20)
    ones, bounds = np.ones(20), [(0, None)] * 20 + [(0, 1 / 20)] * 20
    solution = linprog(np.r_[-z, z], [np.r_[ones, ones]], [radius], [np.r_[ones, -ones]], [0], bounds)
    assert PhiBall(TotalVariation(), radius)(z)[0] == pytest.approx(z.mean() - solution.fun, abs=1e-8)
