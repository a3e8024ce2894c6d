"""φ-divergences against their formulas, and checks of user-defined divergences."""

import math

import numpy as np
import pytest
from fixtures.reference_formulas import CONJUGATES, FORMULAS, SMOOTH

from drcrm.divergences import CVaR, SmoothDivergence
from drcrm.divergences.base import check_coherence
from drcrm.errors import InputError
from drcrm.risks import PhiBall


@pytest.mark.parametrize("name", FORMULAS)
def test_phi(name):
    divergence, phi, curvature = FORMULAS[name]
    t = np.append(np.geomspace(1e-8, 2.5 if name == "CVaR" else 1e4, 200_001), 1.0)
    assert (abs(divergence.phi(t) - phi(t)) <= np.maximum(1e-9 * phi(t), 1e-12)).all()
    assert divergence.curvature == curvature
    assert divergence.phi(1.0) == 0
    if name in SMOOTH:
        check_coherence(divergence)  # balls check only φ of users
    with np.errstate(divide="ignore"):
        at_zero = float(divergence.phi(0.0))
    assert at_zero == pytest.approx(phi(t[0]), rel=1e-3) or (at_zero == np.inf and phi(t[0]) > 15)


@pytest.mark.parametrize("name", SMOOTH)
def test_slopes_are_finite_differences(name):
    divergence, phi, _ = FORMULAS[name]
    t, s, step = np.array([0.2, 0.9, 1.0, 1.7, 30.0]), np.array([-1.5, -0.3, 0.0, 0.2, 0.45]), 1e-6
    assert divergence.slope(t) == pytest.approx((phi(t + step) - phi(t - step)) / (2 * step), rel=1e-6, abs=1e-8)
    density, rise = divergence.derivatives(s)
    conjugate, derivatives = CONJUGATES[name], divergence.derivatives
    assert density == pytest.approx((conjugate(s + step) - conjugate(s - step)) / (2 * step), rel=1e-6)
    assert rise == pytest.approx((derivatives(s + step)[0] - derivatives(s - step)[0]) / (2 * step), rel=1e-6)
    assert divergence.slope(density[density > 0]) == pytest.approx(s[density > 0], abs=1e-12)
    for top in (1.0, 1.3, 1e6):
        plain = SmoothDivergence.density(divergence, top, s - 0.45)
        for derivative, expected in zip(divergence.density(top, s - 0.45), plain, strict=True):
            assert derivative == pytest.approx(expected, rel=1e-3 if top > 2 else 1e-12)


class Cosh(SmoothDivergence):
    """φ(t) = cosh(t − 1) − 1, a user-defined divergence."""

    curvature = 1.0

    def phi(self, t):
        return np.cosh(t - 1) - 1

    def slope(self, t):
        return np.sinh(t - 1)

    def derivatives(self, s):
        t = np.maximum(1 + np.arcsinh(s), 0)
        return t, np.where(t > 0, 1 / np.cosh(t - 1), 0)


def test_a_user_defined_divergence_has_balls():
    z, ball = np.random.default_rng(1).normal(size=30), PhiBall(Cosh(), 0.2)
    worst = ball.worst_case(z)
    assert Cosh().phi(30 * worst.weights).mean() == pytest.approx(0.2, rel=1e-10)
    s = (z - worst.c) / worst.gamma
    t = np.maximum(1 + np.arcsinh(s), 0)
    dual = worst.gamma * 0.2 + worst.c + worst.gamma * (s * t - Cosh().phi(t)).mean()
    assert dual == pytest.approx(worst.value, abs=1e-12)


def make_incoherent(**methods):
    return type("Cosh", (Cosh,), methods)()


@pytest.mark.parametrize(
    ("divergence", "reason"),
    [
        (make_incoherent(phi=lambda self, t: np.cosh(t - 1)), r"Cosh: φ\(1\) must be 0, got 1"),
        (
            make_incoherent(phi=lambda self, t: np.sin(t - 1) ** 2 / 2, slope=lambda self, t: np.sin(2 * t - 2) / 2),
            "Cosh: φ must be convex, but its slope falls near t = ",
        ),
        (
            make_incoherent(phi=lambda self, t: np.cosh(t - 1) - t),
            r"Cosh: φ must be 0 or more, got .*. Subtract φ'\(1\)\(t − 1\)",
        ),
        (make_incoherent(curvature=0.0), "Cosh: curvature must be .* got 0.0"),
        (make_incoherent(curvature=-1), "Cosh: curvature must be .* got -1"),
        (make_incoherent(curvature="x"), "Cosh: curvature must be .* got 'x'"),
        (make_incoherent(curvature=2.0), r"Cosh: φ\*''\(0\) must be 1/φ''\(1\) = 0.5, got 1"),
        (make_incoherent(phi=lambda self, t: (t - 1) ** 4), "Cosh: slope must be the derivative of phi"),
        (
            make_incoherent(derivatives=lambda self, s: (np.exp(s), np.exp(s))),
            "Cosh: derivatives must return the t that maximises s t − φ.*: at s = -4, derivatives returns t = 0.0183",
        ),
        (
            make_incoherent(derivatives=lambda self, s: (1 + np.arcsinh(s), 1 / np.cosh(np.arcsinh(s)))),
            "Cosh: derivatives must return .* at s = -4, derivatives returns t = -1",
        ),
        (
            make_incoherent(derivatives=lambda self, s: (np.maximum(Cosh().derivatives(s)[0], 0.1), np.ones_like(s))),
            "Cosh: derivatives must return .* at s = -4, derivatives returns t = 0.1",
        ),
        (
            make_incoherent(derivatives=lambda self, s: (Cosh().derivatives(s)[0], 2 * Cosh().derivatives(s)[1])),
            r"Cosh: φ\*''\(0\) must be 1/φ''\(1\) = 1, got 2",
        ),
        (make_incoherent(slope=lambda self, t: t - 1), "Cosh: slope must be the derivative of phi"),
        (
            make_incoherent(phi=lambda self, t: np.full(np.shape(t), np.nan)),
            "Cosh.phi must return one number for every argument from 0.001 to 1000",
        ),
        (
            make_incoherent(phi=lambda self, t: np.where(t > 3, np.inf, np.cosh(t - 1) - 1)),
            r"Cosh: φ\(t\) must be finite .* got infinity at 3.01995",
        ),
        (
            make_incoherent(phi=lambda self, t: math.cosh(t - 1) - 1),
            "Cosh: methods must take and return arrays, .* a method failed: ",
        ),
        (
            make_incoherent(derivatives=lambda self, s: (s, s, s)),
            "Cosh: methods must .* derivatives and density must return two",
        ),
        (make_incoherent(slope=lambda self, t: "text"), "Cosh: methods must .* failed: could not convert string"),
        (
            make_incoherent(density=lambda self, top, drop: (1.0, 1.0)),
            "Cosh.density must return one number for every argument from -1 to -1",
        ),
    ],
)
def test_an_incoherent_divergence_is_an_error_with_the_reason(divergence, reason):
    with pytest.raises(InputError, match=reason):
        PhiBall(divergence, 0.1)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: CVaR(0), "alpha.* 0"),
        (lambda: CVaR(1.5), "alpha must be at most 1, got 1.5"),
        (lambda: PhiBall(CVaR(0.5), 0.1), r"radius must be None for CVaR\(0.5\), which has no radius, got 0.1"),
        (lambda: PhiBall("kl"), "radius.* None"),
        (lambda: PhiBall("kl", -1), "radius.* -1"),
        (lambda: PhiBall("kl", "auto", 0.5), "confidence.* 0.5"),
        (lambda: PhiBall("kullback", 1), "divergence must be one of kl, chi2, squared_hellinger, rev.* got 'kullback'"),
        (
            lambda: PhiBall("cvar"),
            "divergence must be one of .* got 'cvar'. cvar takes a parameter",
        ),
        (lambda: PhiBall({"kl": 1}, 1), "got {'kl': 1}"),
        (lambda: PhiBall({"kl": 1, "chi2": 2}, 1), "got {'kl'"),
        (lambda: PhiBall(None, 1), "got None"),
    ],
)
def test_invalid_parameters(make, reason):
    with pytest.raises(InputError, match=reason):
        make()
