"""φ-divergences against their formulas written out, their conjugates against the supremum, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
from formulas import FORMULAS, SMOOTH

from drcrm.certificates import upper_bound
from drcrm.divergences import (
    KL,
    Chi2,
    CressieRead,
    CVaR,
    ReverseKL,
    SmoothDivergence,
    SquaredHellinger,
    TotalVariation,
)
from drcrm.errors import InputError
from drcrm.risks.balls.phi import PhiBall


@pytest.mark.parametrize("name", FORMULAS)
def test_phi_and_its_conjugate(name):
    divergence, phi, curvature = FORMULAS[name]
    t = np.append(np.geomspace(1e-8, 2.5 if name == "CVaR" else 1e4, 200_001), 1.0)
    assert (abs(divergence.phi(t) - phi(t)) <= np.maximum(1e-9 * phi(t), 1e-12)).all()
    assert divergence.curvature == curvature
    assert divergence.phi(1.0) == 0
    with np.errstate(divide="ignore"):
        at_zero = float(divergence.phi(0.0))
    assert at_zero == pytest.approx(phi(t[0]), rel=1e-3) or (at_zero == np.inf and phi(t[0]) > 15)
    for s in (-3.0, -1.0, -0.2, 0.0, 0.1, 0.4):
        assert divergence.conjugate(s) == pytest.approx((s * t - phi(t)).max(), rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("name", SMOOTH)
def test_slopes_are_finite_differences(name):
    divergence, phi, _ = FORMULAS[name]
    t, s, step = np.array([0.2, 0.9, 1.0, 1.7, 30.0]), np.array([-1.5, -0.3, 0.0, 0.2, 0.45]), 1e-6
    assert divergence.slope(t) == pytest.approx((phi(t + step) - phi(t - step)) / (2 * step), rel=1e-6, abs=1e-8)
    density, rise = divergence.derivatives(s)
    conjugate, derivatives = divergence.conjugate, divergence.derivatives
    assert density == pytest.approx((conjugate(s + step) - conjugate(s - step)) / (2 * step), rel=1e-6)
    assert rise == pytest.approx((derivatives(s + step)[0] - derivatives(s - step)[0]) / (2 * step), rel=1e-6)
    assert divergence.slope(density[density > 0]) == pytest.approx(s[density > 0], abs=1e-12)
    for top in (1.0, 1.3, 1e6):
        plain = SmoothDivergence.density(divergence, top, s - 0.45)
        for found, expected in zip(divergence.density(top, s - 0.45), plain, strict=True):
            assert found == pytest.approx(expected, rel=1e-3 if top > 2 else 1e-12)


def test_conjugates_are_infinite_where_no_t_is_largest():
    for divergence, pole in ((SquaredHellinger(), 1), (ReverseKL(), 1), (CressieRead(0.5), 2), (TotalVariation(), 1)):
        assert np.isfinite(divergence.conjugate(pole - 1e-9))
        assert divergence.conjugate(pole + 1e-9) == np.inf


@pytest.mark.parametrize(
    ("k", "same", "factor"), [(1, KL(), 1), (0, ReverseKL(), 1), (2, Chi2(), 0.5), (0.5, SquaredHellinger(), 2)]
)
def test_the_family_of_cressie_and_read(k, same, factor):
    t, s = np.geomspace(1e-3, 1e3, 50), np.linspace(-3, 0.9, 40)
    assert CressieRead(k).phi(t) == pytest.approx(factor * same.phi(t), rel=1e-9, abs=1e-12)
    assert CressieRead(k).conjugate(s) == pytest.approx(factor * same.conjugate(s / factor), rel=1e-9, abs=1e-12)
    assert CressieRead(k).slope(t) == pytest.approx(factor * same.slope(t), rel=1e-9, abs=1e-12)
    z = np.random.default_rng(0).normal(size=20)
    assert PhiBall(CressieRead(k), 0.1 * factor)(z)[0] == pytest.approx(PhiBall(same, 0.1)(z)[0], rel=1e-10)


class Own(SmoothDivergence):
    """cosh(t − 1) − 1, which is none of ours."""

    curvature = 1.0

    def phi(self, t):
        return np.cosh(t - 1) - 1

    def slope(self, t):
        return np.sinh(t - 1)

    def conjugate(self, s):
        t = self.derivatives(s)[0]
        return s * t - self.phi(t)

    def derivatives(self, s):
        t = np.maximum(1 + np.arcsinh(s), 0)
        return t, np.where(t > 0, 1 / np.cosh(t - 1), 0)


def test_ones_own_is_a_ball_like_any_other():
    z, ball = np.random.default_rng(1).normal(size=30), PhiBall(Own(), 0.2)
    found = ball.worst_case(z)
    assert Own().phi(30 * found.weights).mean() == pytest.approx(0.2, rel=1e-10)
    dual = found.gamma * 0.2 + found.c + found.gamma * Own().conjugate((z - found.c) / found.gamma).mean()
    assert dual == pytest.approx(found.value, abs=1e-12)


class Neyman(SmoothDivergence):
    """5 (t − 1)²/t, whose φ*' has no value beyond 5, and whose repr has text."""

    curvature = 10.0

    def __init__(self, name: str = "Neyman's"):
        self.name = name

    def phi(self, t):
        return 5 * (t - 1) ** 2 / t

    def slope(self, t):
        return 5 - 5 / t**2

    def conjugate(self, s):
        return 10 - 10 * np.sqrt(1 - s / 5)

    def derivatives(self, s):
        return (1 - s / 5) ** -0.5, 0.1 * (1 - s / 5) ** -1.5


@pytest.mark.parametrize("n", [3, 200])
def test_a_search_ends_where_derivatives_have_no_value(n):
    """The worst case of two costs is that of one unknown; and it is a bound's, by its name."""
    z = np.tile([0.0, -1], n)[:n]
    found = PhiBall(Neyman(), 0.1).worst_case(z)
    assert Neyman().phi(n * found.weights).mean() == pytest.approx(0.1, rel=1e-9)
    assert repr(Neyman()) == 'Neyman("Neyman\'s")'
    assert np.isfinite(upper_bound(z, method=Neyman()))


def changed(**methods):
    return type("Own", (Own,), methods)()


@pytest.mark.parametrize(
    ("divergence", "reason"),
    [
        (changed(phi=lambda self, t: np.cosh(t - 1)), r"Own: φ\(1\) is 1, expected 0"),
        (changed(phi=lambda self, t: np.sin(t - 1) ** 2), "Own: φ is not convex near t = "),
        (
            changed(phi=lambda self, t: np.cosh(t - 1) - t),
            r"Own: φ is .*; φ'\(1\)\(t − 1\) can",
        ),
        (changed(curvature=0.0), r"Own: φ''\(1\) is 0.0, expected a finite number > 0"),
        (changed(curvature=-1), r"Own: φ''\(1\) is -1, expected"),
        (changed(curvature="x"), r"Own: φ''\(1\) is 'x', expected"),
        (changed(curvature=2.0), r"Own: curvature is 2, but φ''\(1\) is about 1"),
        (changed(phi=lambda self, t: (t - 1) ** 4), r"Own: curvature is 1, but φ''\(1\) is about 2e-06"),
        (changed(conjugate=lambda self, s: np.expm1(s)), "Own: conjugate and derivatives are not those of phi at s = "),
        (changed(derivatives=lambda self, s: (np.exp(s), np.exp(s))), "Own: conjugate and derivatives are not"),
        (
            changed(derivatives=lambda self, s: (Own().derivatives(s)[0], 2 * Own().derivatives(s)[1])),
            r"Own: φ\*''\(0\) is 2, expected 1/φ''\(1\), 1",
        ),
        (changed(slope=lambda self, t: t - 1), "Own: slope is not that of phi at t = "),
        (
            changed(phi=lambda self, t: np.full(np.shape(t), np.nan)),
            "Own.phi of 0.001 to 1000 is not one number",
        ),
        (changed(phi=lambda self, t: np.where(t > 3, np.inf, np.cosh(t - 1) - 1)), "Own: φ is infinite at t = 3.01995"),
        (changed(phi=lambda self, t: math.cosh(t - 1) - 1), "Own: its methods are to take and return arrays, .* Type"),
        (changed(derivatives=lambda self, s: (s, s, s)), "Own: its methods are to .* derivatives and density two of"),
        (changed(conjugate=lambda self, s: "none"), "Own: its methods are to take and return arrays, .* ValueError"),
        (changed(density=lambda self, top, drop: (1.0, 1.0)), "Own.density of -1 to -1 is not one number for each"),
    ],
)
def test_what_is_no_coherent_divergence_is_refused_with_the_reason(divergence, reason):
    with pytest.raises(InputError, match=reason):
        PhiBall(divergence, 0.1)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: CressieRead("x"), "k is 'x', expected a number from −10 to 10"),
        (lambda: CressieRead(11), "k is 11, expected a number from −10 to 10"),
        (lambda: CressieRead(1 + 1e-9), "not within 0.0001 of 0 or 1"),
        (lambda: CVaR(0), "alpha is 0, expected a finite number > 0"),
        (lambda: CVaR(1.5), "alpha is 1.5, expected at most 1"),
        (lambda: PhiBall(CVaR(0.5), 0.1), r"radius is 0.1, but CVaR\(0.5\) has none"),
        (lambda: PhiBall("kl"), "radius is None, expected a finite number ≥ 0"),
        (lambda: PhiBall("kl", -1), "radius is -1, expected a finite number ≥ 0"),
        (lambda: PhiBall("kl", "auto", 0.5), "confidence is 0.5, expected a number above ½ and below 1"),
        (lambda: PhiBall("total_variation", "auto"), r"radius is 'auto', but TotalVariation\(\) has no φ''\(1\) > 0"),
        (lambda: PhiBall("kullback", 1), "divergence is 'kullback', expected one of kl, chi2, squared_hellinger, rev"),
        (lambda: PhiBall("cressie_read", 1), "divergence is 'cressie_read', expected one of .* with a parameter"),
        (lambda: PhiBall({"kl": 1}, 1), "divergence is {'kl': 1}, expected one of"),
        (lambda: PhiBall({"kl": 1, "chi2": 2}, 1), "divergence is {'kl'"),
        (lambda: PhiBall(None, 1), "divergence is None"),
    ],
)
def test_wrong_parameters(make, reason):
    with pytest.raises(InputError, match=reason):
        make()
