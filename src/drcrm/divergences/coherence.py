"""What makes φ a coherent divergence, asked of one's own on a grid of numbers."""

import numpy as np

from drcrm.arrays.validation import number
from drcrm.errors import InputError

FINITE_TO = 100  # t to which φ is to be finite; from there on it may overflow


def check_coherent(divergence) -> None:
    """Raise InputError with the reason why a smooth φ is not coherent, or its methods not those of φ, if so."""
    try:
        _check_phi(divergence)
    except InputError:
        raise
    except Exception as error:
        raise InputError(
            f"{type(divergence).__name__}: its methods are to take and return arrays, derivatives and density two of "
            f"them, but there is {type(error).__name__}: {error}"
        ) from error


def _check_phi(divergence) -> None:
    """φ is convex, 0 and least at 1, finite, and has the slope and the curvature that it states."""
    name, curvature = type(divergence).__name__, number(divergence.curvature)
    if not 0 < curvature < np.inf:
        raise InputError(f"{name}: φ''(1) is {divergence.curvature!r}, expected a finite number > 0")
    grid = np.sort(np.r_[np.geomspace(1e-3, 1e3, 301), 1 + np.linspace(-0.1, 0.1, 41)])
    grid = np.unique(np.round(grid, 12))
    with np.errstate(all="ignore"):
        values = _numbers(divergence.phi(grid), grid, f"{name}.phi")
        at_one, inside = float(divergence.phi(np.float64(1))), np.isfinite(values)
        _numbers(divergence.phi(np.zeros(1)), np.zeros(1), f"{name}.phi")
        for each in divergence.density(1.0, -np.ones(3)):
            _numbers(each, -np.ones(3), f"{name}.density")
        t, values = grid[inside], values[inside]
        slopes = np.diff(values) / np.diff(t)
        bent = np.diff(slopes) / (abs(slopes[1:]) + abs(slopes[:-1]) + 1e-6)
        measured = (divergence.phi(1 + 1e-3) - 2 * divergence.phi(1.0) + divergence.phi(1 - 1e-3)) / 1e-6
    if not inside[grid <= FINITE_TO].all():
        at = grid[np.argmin(inside)]
        raise InputError(f"{name}: φ is infinite at t = {at:.6g}, expected a finite number for each t > 0")
    if not abs(at_one) <= 1e-12:
        raise InputError(f"{name}: φ(1) is {at_one:.6g}, expected 0")
    if len(bent) and bent.min() < -1e-6:
        raise InputError(f"{name}: φ is not convex near t = {t[1 + np.argmin(bent)]:.6g}")
    if values.min() < -1e-12:
        raise InputError(
            f"{name}: φ is {values.min():.6g} at t = {t[np.argmin(values)]:.6g}, expected 0 or more; "
            "φ'(1)(t − 1) can be subtracted, which changes no divergence"
        )
    if not abs(measured / curvature - 1) < 0.01:
        raise InputError(f"{name}: curvature is {curvature:.6g}, but φ''(1) is about {measured:.6g}")
    near = np.array([0.5, 0.9, 1.0, 1.1, 2.0])
    with np.errstate(all="ignore"):
        measured = (divergence.phi(near + 1e-5) - divergence.phi(near - 1e-5)) / 2e-5
        wrong = abs(measured - divergence.slope(near)) > 1e-4 * (1 + abs(measured))
    if wrong.any():
        raise InputError(f"{name}: slope is not that of phi at t = {near[np.argmax(wrong)]:g}")
    _check_conjugate(divergence, name, t, values)


def _check_conjugate(divergence, name: str, t: np.ndarray, values: np.ndarray) -> None:
    """φ*(s) = st − φ(t) at t = φ*'(s), and is less at no other t."""
    s = np.linspace(-4, 4, 81)
    with np.errstate(all="ignore"):
        conjugate = _numbers(divergence.conjugate(s), s, f"{name}.conjugate")
        density, slope = (_numbers(each, s, f"{name}.derivatives") for each in divergence.derivatives(s))
        finite = np.isfinite(conjugate) & np.isfinite(density)
        s, conjugate, density = s[finite], conjugate[finite], density[finite]
        attained = s * density - divergence.phi(density)
        least = (np.multiply.outer(s, t) - values).max(axis=1)
    wrong = (abs(attained - conjugate) > 1e-8 * (1 + abs(conjugate))) | (conjugate < least - 1e-8 * (1 + abs(least)))
    wrong |= density < 0
    if not len(s):
        raise InputError(f"{name}: conjugate and derivatives are not finite for any s from -4 to 4")
    if wrong.any():
        at = np.argmax(wrong)
        raise InputError(
            f"{name}: conjugate and derivatives are not those of phi at s = {s[at]:.6g}: conjugate is "
            f"{conjugate[at]:.6g}; s t − φ(t) is {attained[at]:.6g} at the t = {density[at]:.6g} of derivatives, "
            f"and {least[at]:.6g} at some t"
        )
    if not abs(slope[40] * divergence.curvature - 1) < 1e-6:
        raise InputError(f"{name}: φ*''(0) is {slope[40]:.6g}, expected 1/φ''(1), {1 / divergence.curvature:.6g}")


def _numbers(values, at: np.ndarray, name: str) -> np.ndarray:
    values = np.asarray(values, dtype=float)
    if values.shape != at.shape or np.isnan(values).any():
        raise InputError(f"{name} of {at[0]:g} to {at[-1]:g} is not one number for each")
    return values
