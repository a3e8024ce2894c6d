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
SMALLEST = 1e-9  # density at which φ' is compared with s if φ*'(s) is 0
DENSITIES = np.unique(np.round(np.r_[np.geomspace(1e-3, 1e3, 301), 1 + np.linspace(-0.1, 0.1, 41)], 12))
SLOPES = np.linspace(-4, 4, 81)  # with 0 in the middle


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
    is_finite = np.isfinite(values)
    place = f"{t[np.argmin(is_finite)]:.6g}"
    yield is_finite[t <= FINITE_UP_TO].all(), f"φ(t) must be finite for t from 0.001 to 100, got infinity at {place}"
    at_one = float(divergence.phi(np.float64(1)))
    yield abs(at_one) <= 1e-12, f"φ(1) must be 0, got {at_one:.6g}"
    t, values = t[is_finite], values[is_finite]
    low = f"{values.min():.6g} at t = {t[np.argmin(values)]:.6g}"
    advice = "Subtract φ'(1)(t − 1) from φ; this does not change the divergence."
    yield values.min() >= -1e-12, f"φ must be 0 or more, got {low}. {advice}"
    slope = _as_numbers(divergence.slope(t), t, f"{name}.slope")
    fault = derivative_fault(divergence.phi, t, slope, 1e-5, 1e-4)
    yield not fault, f"slope must be the derivative of phi. {fault}"
    rise = np.diff(slope) / (1 + abs(slope[1:]))
    yield rise.min() >= -1e-8, f"φ must be convex, but its slope falls near t = {t[1 + np.argmin(rise)]:.6g}"
    yield from _conditions_of_derivatives(divergence, name, curvature)


def _conditions_of_derivatives(divergence: SmoothDivergence, name: str, curvature: float) -> Iterator[tuple[Any, str]]:
    """Yield whether t = φ*'(s) maximises st − φ(t), where φ'(t) is s or t is 0, and whether φ*'' is its slope at 0."""
    s = SLOPES
    density, rise = (_as_numbers(array, s, f"{name}.derivatives") for array in divergence.derivatives(s))
    for array in divergence.density(1.0, -np.ones(3)):
        _as_numbers(array, -np.ones(3), f"{name}.density")
    at_zero, is_finite = rise[len(s) // 2], np.isfinite(density)
    s, density = s[is_finite], density[is_finite]
    gap = divergence.slope(np.maximum(density, SMALLEST)) - s
    is_wrong = (density < 0) | ~(np.where(density > 0, abs(gap), -gap) <= 1e-8 * (1 + abs(s)))
    place = f"at s = {s[np.argmax(is_wrong)]:.6g}, derivatives returns t = {density[np.argmax(is_wrong)]:.6g}"
    yield not is_wrong.any(), f"derivatives must return the t that maximises s t − φ(t): {place}"
    yield abs(at_zero * curvature - 1) < 1e-6, f"φ*''(0) must be 1/φ''(1) = {1 / curvature:.6g}, got {at_zero:.6g}"


def _as_numbers(values: object, points: np.ndarray, name: str) -> np.ndarray:
    """Return values as floats, or raise InputError if there is not one number for every point."""
    values = np.asarray(values, dtype=float)
    if values.shape != points.shape or np.isnan(values).any():
        raise InputError(f"{name} must return one number for every argument from {points[0]:g} to {points[-1]:g}")
    return values
