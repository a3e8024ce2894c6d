"""Numerical check that a user's φ is convex with minimum 0 at 1, and that its methods belong to one φ."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from drcrm.arrays.numerics import derivative_fault
from drcrm.arrays.validation import to_float
from drcrm.errors import InputError, refuse_errors

if TYPE_CHECKING:
    from drcrm.divergences.base import SmoothDivergence


FINITE_UP_TO = 100  # φ must be finite up to this t and may overflow beyond
DENSITIES = np.unique(np.round(np.r_[np.geomspace(1e-3, 1e3, 301), 1 + np.linspace(-0.1, 0.1, 41)], 12))
NEAR_ONE = np.array([0.5, 0.9, 1.0, 1.1, 2.0])


def check_coherence(divergence: SmoothDivergence) -> None:
    """Raise InputError with the reason if a smooth φ is not coherent or its methods do not agree."""
    name = type(divergence).__name__
    failed = (
        f"{name}: methods must take and return arrays, and derivatives and density must return two arrays, but a "
        "method failed"
    )
    with refuse_errors(failed), np.errstate(all="ignore"):
        for is_sound, fault in _conditions(divergence, name):
            if not is_sound:
                raise InputError(f"{name}: {fault}")


def _conditions(divergence: SmoothDivergence, name: str) -> Iterator[tuple[Any, str]]:
    """Yield whether each condition holds, and what to say if not; later conditions rely on earlier ones."""
    curvature, t = to_float(divergence.curvature), DENSITIES
    yield 0 < curvature < np.inf, f"curvature must be φ''(1), a finite number above 0, got {divergence.curvature!r}"
    values = _as_numbers(divergence.phi(t), t, f"{name}.phi")
    _as_numbers(divergence.phi(np.zeros(1)), np.zeros(1), f"{name}.phi")
    for array in divergence.density(1.0, -np.ones(3)):
        _as_numbers(array, -np.ones(3), f"{name}.density")
    is_finite = np.isfinite(values)
    place = f"{t[np.argmin(is_finite)]:.6g}"
    yield is_finite[t <= FINITE_UP_TO].all(), f"φ(t) must be finite for t from 0.001 to 100, got infinity at {place}"
    at_one = float(divergence.phi(np.float64(1)))
    yield abs(at_one) <= 1e-12, f"φ(1) must be 0, got {at_one:.6g}"
    t, values = t[is_finite], values[is_finite]
    slopes = np.diff(values) / np.diff(t)
    bend = np.diff(slopes) / (abs(slopes[1:]) + abs(slopes[:-1]) + 1e-6)
    yield bend.min() >= -1e-6, f"φ must be convex, but it is not near t = {t[1 + np.argmin(bend)]:.6g}"
    low = f"{values.min():.6g} at t = {t[np.argmin(values)]:.6g}"
    advice = "Subtract φ'(1)(t − 1) from φ; this does not change the divergence."
    yield values.min() >= -1e-12, f"φ must be 0 or more, got {low}. {advice}"
    measured = (divergence.phi(1 + 1e-3) - 2 * divergence.phi(1.0) + divergence.phi(1 - 1e-3)) / 1e-6
    yield abs(measured / curvature - 1) < 0.01, f"curvature must be φ''(1), about {measured:.6g}, got {curvature:.6g}"
    fault = derivative_fault(divergence.phi, NEAR_ONE, divergence.slope(NEAR_ONE), 1e-5, 1e-4)
    yield not fault, f"slope must be the derivative of phi. {fault}"
    yield from _conditions_of_conjugate(divergence, name, t, values)


def _conditions_of_conjugate(
    divergence: SmoothDivergence, name: str, t: np.ndarray, values: np.ndarray
) -> Iterator[tuple[Any, str]]:
    """Yield whether φ*(s) = st − φ(t) at t = φ*'(s), and whether no other t gives more."""
    s = np.linspace(-4, 4, 81)
    conjugate = _as_numbers(divergence.conjugate(s), s, f"{name}.conjugate")
    density, slope = (_as_numbers(array, s, f"{name}.derivatives") for array in divergence.derivatives(s))
    at_zero, is_finite = slope[40], np.isfinite(conjugate) & np.isfinite(density)
    yield is_finite.any(), "conjugate and derivatives must be finite for some s from -4 to 4"
    s, conjugate, density = s[is_finite], conjugate[is_finite], density[is_finite]
    attained, supremum = s * density - divergence.phi(density), (np.multiply.outer(s, t) - values).max(axis=1)
    wrong = (abs(attained - conjugate) > 1e-8 * (1 + abs(conjugate))) | (density < 0)
    wrong |= conjugate < supremum - 1e-8 * (1 + abs(supremum))
    i = np.argmax(wrong)
    fault = (
        f"conjugate and derivatives do not match phi. At s = {s[i]:.6g}, conjugate returns {conjugate[i]:.6g}, but the "
        f"maximum of s t − φ(t) over a grid is {supremum[i]:.6g}. derivatives returns t = {density[i]:.6g}, at which "
        f"s t − φ(t) is {attained[i]:.6g}"
    )
    yield not wrong.any(), fault
    yield (
        abs(at_zero * divergence.curvature - 1) < 1e-6,
        f"φ*''(0) must be 1/φ''(1) = {1 / divergence.curvature:.6g}, got {at_zero:.6g}",
    )


def _as_numbers(values: object, points: np.ndarray, name: str) -> np.ndarray:
    """Return values as floats, or raise InputError if there is not one number for every point."""
    values = np.asarray(values, dtype=float)
    if values.shape != points.shape or np.isnan(values).any():
        raise InputError(f"{name} must return one number for every argument from {points[0]:g} to {points[-1]:g}")
    return values
