"""Numerical check that a user's φ is convex with minimum 0 at 1, and that its methods belong to one φ."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from drcrm.arrays.validation import to_float
from drcrm.errors import InputError, refuse_errors

if TYPE_CHECKING:
    from drcrm.divergences.base import SmoothDivergence


FINITE_UP_TO = 100  # φ must be finite up to this t and may overflow beyond


def check_coherence(divergence: SmoothDivergence) -> None:
    """Raise InputError with the reason if a smooth φ is not coherent or its methods do not agree."""
    with refuse_errors(
        f"{type(divergence).__name__}: methods must take and return arrays, and derivatives and density must return "
        "two arrays, but a method failed"
    ):
        _check_phi(divergence)


def _check_phi(divergence: SmoothDivergence) -> None:
    """Check that φ is convex and finite, has its minimum 0 at 1, and has the stated slope and curvature."""
    name, curvature = type(divergence).__name__, to_float(divergence.curvature)
    if not 0 < curvature < np.inf:
        raise InputError(f"{name}: curvature must be φ''(1), a finite number above 0, got {divergence.curvature!r}")
    grid = np.sort(np.r_[np.geomspace(1e-3, 1e3, 301), 1 + np.linspace(-0.1, 0.1, 41)])
    grid = np.unique(np.round(grid, 12))
    with np.errstate(all="ignore"):
        values = _as_numbers(divergence.phi(grid), grid, f"{name}.phi")
        at_one, is_finite = float(divergence.phi(np.float64(1))), np.isfinite(values)
        _as_numbers(divergence.phi(np.zeros(1)), np.zeros(1), f"{name}.phi")
        for array in divergence.density(1.0, -np.ones(3)):
            _as_numbers(array, -np.ones(3), f"{name}.density")
        t, values = grid[is_finite], values[is_finite]
        slopes = np.diff(values) / np.diff(t)
        bend = np.diff(slopes) / (abs(slopes[1:]) + abs(slopes[:-1]) + 1e-6)
        measured = (divergence.phi(1 + 1e-3) - 2 * divergence.phi(1.0) + divergence.phi(1 - 1e-3)) / 1e-6
    if not is_finite[grid <= FINITE_UP_TO].all():
        raise InputError(
            f"{name}: φ(t) must be finite for t from 0.001 to 100, got infinity at {grid[np.argmin(is_finite)]:.6g}"
        )
    if not abs(at_one) <= 1e-12:
        raise InputError(f"{name}: φ(1) must be 0, got {at_one:.6g}")
    if len(bend) and bend.min() < -1e-6:
        raise InputError(f"{name}: φ must be convex, but it is not near t = {t[1 + np.argmin(bend)]:.6g}")
    if values.min() < -1e-12:
        raise InputError(
            f"{name}: φ must be 0 or more, got {values.min():.6g} at t = {t[np.argmin(values)]:.6g}. Subtract "
            "φ'(1)(t − 1) from φ; this does not change the divergence."
        )
    if not abs(measured / curvature - 1) < 0.01:
        raise InputError(f"{name}: curvature must be φ''(1), about {measured:.6g}, got {curvature:.6g}")
    near = np.array([0.5, 0.9, 1.0, 1.1, 2.0])
    with np.errstate(all="ignore"):
        measured = (divergence.phi(near + 1e-5) - divergence.phi(near - 1e-5)) / 2e-5
        wrong = abs(measured - divergence.slope(near)) > 1e-4 * (1 + abs(measured))
    if wrong.any():
        raise InputError(
            f"{name}: slope must be the derivative of phi, but it is not at t = {near[np.argmax(wrong)]:g}"
        )
    _check_conjugate(divergence, name, t, values)


def _check_conjugate(divergence: SmoothDivergence, name: str, t: np.ndarray, values: np.ndarray) -> None:
    """Check that φ*(s) = st − φ(t) at t = φ*'(s), and that no other t gives more."""
    s = np.linspace(-4, 4, 81)
    with np.errstate(all="ignore"):
        conjugate = _as_numbers(divergence.conjugate(s), s, f"{name}.conjugate")
        density, slope = (_as_numbers(array, s, f"{name}.derivatives") for array in divergence.derivatives(s))
        is_finite = np.isfinite(conjugate) & np.isfinite(density)
        s, conjugate, density = s[is_finite], conjugate[is_finite], density[is_finite]
        attained = s * density - divergence.phi(density)
        supremum = (np.multiply.outer(s, t) - values).max(axis=1)
    tolerance = 1e-8 * (1 + abs(supremum))
    wrong = (abs(attained - conjugate) > 1e-8 * (1 + abs(conjugate))) | (conjugate < supremum - tolerance)
    wrong |= density < 0
    if not len(s):
        raise InputError(f"{name}: conjugate and derivatives must be finite for some s from -4 to 4")
    if wrong.any():
        i = np.argmax(wrong)
        raise InputError(
            f"{name}: conjugate and derivatives do not match phi. At s = {s[i]:.6g}, conjugate returns "
            f"{conjugate[i]:.6g}, but the maximum of s t − φ(t) over a grid is {supremum[i]:.6g}. derivatives returns "
            f"t = {density[i]:.6g}, at which s t − φ(t) is {attained[i]:.6g}"
        )
    if not abs(slope[40] * divergence.curvature - 1) < 1e-6:
        raise InputError(f"{name}: φ*''(0) must be 1/φ''(1) = {1 / divergence.curvature:.6g}, got {slope[40]:.6g}")


def _as_numbers(values: object, points: np.ndarray, name: str) -> np.ndarray:
    """Return values as floats, or raise InputError if there is not one number for every point."""
    values = np.asarray(values, dtype=float)
    if values.shape != points.shape or np.isnan(values).any():
        raise InputError(f"{name} must return one number for every argument from {points[0]:g} to {points[-1]:g}")
    return values
