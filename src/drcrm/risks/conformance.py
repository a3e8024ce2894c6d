"""Checks that a risk keeps the promises of its interface."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from drcrm.arrays.numerics import derivative_fault
from drcrm.risks.base import Risk, check_weighted_costs

STEP = 1e-6  # step of finite differences, in units of the largest cost


def check_risk(risk: Risk, z: ArrayLike | None = None) -> None:
    """Check a risk on example costs; use it in the tests of a subclass of :class:`Risk`.

    Parameters
    ----------
    risk : Risk
        Risk to check.
    z : array (n,), optional
        Costs without ties. By default 25 costs from −17 to 0.

    Raises
    ------
    AssertionError
        If one of these holds:

        - The gradient differs from finite differences.
        - A row with weight 2 differs from two equal rows.
        - A monotone risk has a negative gradient.
        - ``evaluate`` changes z.
        - ``evaluate_sums`` differs from ``evaluate``.
    InputError
        If the risk is not finite, for example of equal costs.

    Examples
    --------
    >>> check_risk(KLBall(0.1))
    """
    rng = np.random.default_rng(0)
    z, _ = check_weighted_costs(-rng.exponential(4, 25) if z is None else z, None)
    weights, before = rng.integers(0, 4, len(z)), z.copy()
    weights[0] = 2
    value, gradient = risk(z, weights)
    assert np.array_equal(z, before), "evaluate must not change z"
    units = np.eye(len(z), dtype=bool)
    fault = derivative_fault(
        lambda x: [risk(np.where(unit, x, z), weights)[0] for unit in units], z, gradient, STEP * abs(z).max(), 1e-6
    )
    assert not fault, f"the gradient must be the derivative of the value. {fault}"
    repeated, by_copy = risk(np.repeat(z, weights))
    sums = np.bincount(np.repeat(np.arange(len(z)), weights), by_copy, len(z))
    _assert_close([value, *gradient], [repeated, *sums], "a weight 2 must count like two equal rows", 1e-9)
    assert not risk.monotone or gradient.min() >= 0, "a monotone risk must not have a negative gradient"
    risk(np.full(3, z[0]))  # it raises InputError unless the risk is finite
    share = weights / weights.sum()
    used = share > 0
    costs = _Chunks(z[used], share[used])
    in_chunks, slope, _ = risk.evaluate_chunks(costs, float(weights.sum()))
    slopes = np.concatenate([slope(*chunk) for chunk in costs.chunks]) if callable(slope) else slope
    _assert_close([in_chunks, *slopes], [value, *gradient[used]], "evaluate_sums must agree with evaluate", 1e-8)


def _assert_close(actual: Any, expected: Any, message: str, tolerance: float) -> None:
    actual, expected = np.asarray(actual), np.asarray(expected)
    error = np.abs(actual - expected).max()
    assert np.allclose(actual, expected, rtol=tolerance, atol=tolerance), f"{message}; the largest error is {error:.3g}"


class _Chunks:
    """Costs and shares in two chunks: see :class:`drcrm.risks.base.ChunkedCosts`."""

    def __init__(self, z: np.ndarray, share: np.ndarray):
        half = len(z) // 2
        self.z, self.share, self.chunks = z, share, [(z[:half], share[:half]), (z[half:], share[half:])]

    def __len__(self) -> int:
        return len(self.chunks)

    def range(self) -> tuple[float, float]:
        return self.z.min(), self.z.max()

    def sum(self, function: Callable[..., np.ndarray], *arguments: object) -> np.ndarray:
        return np.asarray(sum(function(*chunk, *arguments) for chunk in self.chunks))

    def gather(self) -> tuple[np.ndarray, np.ndarray]:
        return self.z, self.share
