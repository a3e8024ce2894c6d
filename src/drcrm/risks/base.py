"""Interface of all risks, ``risk(z, weights)`` with a value and its gradient in z, and the check of a risk.

The costs z already contain the importance weights. ``weights``, written w, are multiplicities: the cost z_i counts w_i
times. With n = Σ w, the mean is (1/n) Σ w z. The gradient consists of the derivatives with respect to z_i, so each
entry has a factor w_i.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike

from drcrm.arrays.formats import constructor_repr
from drcrm.arrays.numerics import derivative_fault
from drcrm.arrays.validation import check_magnitude, check_vector, reject_rows
from drcrm.errors import InputError

Evaluation = tuple[Any, np.ndarray, Any]  # value, gradient, start for the next search
STEP = 1e-6  # step of finite differences, in units of the largest cost


class ChunkedCosts(Protocol):
    """Costs z and shares w/n of all rows, stored in chunks."""

    def __len__(self) -> int:
        """Return the number of chunks."""

    def range(self) -> tuple[float, float]:
        """Return the smallest and the largest cost."""

    def sum(self, function: Callable[..., np.ndarray], *arguments: object) -> np.ndarray:
        """Return the sum of ``function(z, share, *arguments)`` over all chunks."""

    def gather(self) -> tuple[np.ndarray, np.ndarray]:
        """Return z and share of all rows."""


class Risk(ABC):
    """Base class of risks. ``risk(z, weights)`` returns the risk of costs z and its gradient.

    A subclass must implement ``evaluate``. If it has a hyper-parameter, that is the first argument of the constructor.
    It may set the attributes. If it implements ``evaluate_sums``, a large log needs no array of all
    costs. :func:`drcrm.risks.check_risk` tests a subclass.

    Attributes
    ----------
    monotone : bool
        Whether the risk is a worst case over distributions of the rows. Such a risk never falls as a cost rises.
    robust_end : "low" or "high"
        Which end of a grid of the hyper-parameter is more pessimistic.
    hyper_parameter : str or None
        Name of the hyper-parameter, if it is not the first argument of the constructor.
    estimates : tuple of str
        Names of the estimates that the risk supports, the default first.
    is_shift : bool
        Whether the risk is a worst case over environments instead of logs. Importance weights are then multiplicities
        of the costs, and not part of z: see ``EnvironmentBall.evaluate_weighted``.
    """

    monotone = False
    is_shift = False
    robust_end: Literal["low", "high"] = "high"
    hyper_parameter: str | None = None
    estimates: tuple[str, ...] = ("ips", "snips", "dr", "dm")
    __repr__ = constructor_repr

    def __call__(self, z: ArrayLike, weights: ArrayLike | None = None) -> tuple[float, np.ndarray]:
        """Return the risk and its gradient in z.

        Parameters
        ----------
        z : array of shape (n,)
            Counterfactual costs.
        weights : array of shape (n,), optional
            How often each cost occurs, at least 0. By default each occurs once.

        Returns
        -------
        value : float
            In the unit of z.
        gradient : array of shape (n,)

        Raises
        ------
        InputError
            If z or weights are not finite vectors of one length, if a weight is negative or all are 0, or if the
            result exceeds the range of floating-point numbers.
        """
        z, weights = check_weighted_costs(z, weights)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            n = weights.sum()
            support, share = weights > 0, weights / n
            gradient, value = np.zeros(len(z)), np.nan
            if share[support].min() >= np.finfo(float).tiny:  # otherwise the weights differ too much: the risk is NaN
                value, gradient[support], _ = self.evaluate(z[support], share[support], n)
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            raise InputError(
                f"the risk must be a finite number, got {value} for costs from {z.min():.6g} to {z.max():.6g} with "
                f"weights from {weights[support].min():.6g} to {weights.max():.6g}. Rescale the costs or the weights."
            )
        return float(value), gradient

    def for_fewer_rows(self, factor: float) -> "Risk":
        """Return the risk to use on a sample of a log, so that it is as robust as this one on the whole log.

        A sample has noisier means, so some risks need another hyper-parameter. By default the risk stays the same.

        Parameters
        ----------
        factor : float
            Rows of the whole log divided by rows of the sample.

        Returns
        -------
        Risk
            Risk for the sample.
        """
        return self

    @abstractmethod
    def evaluate(self, z: np.ndarray, share: np.ndarray, n: float, guess: Any = None) -> Evaluation:
        """Evaluate the formula without checks.

        The cost z_i occurs w_i times, and n = Σ w.

        Parameters
        ----------
        z : array (n,)
            Finite costs.
        share : array (n,)
            Shares w/n, all positive, with sum 1.
        n : float
            Sum of w.
        guess : object, optional
            Start of the search for the worst case. It affects only the last digits of the result.

        Returns
        -------
        value : float
            Risk of z.
        gradient : array (n,)
            Derivatives of the risk with respect to each z.
        guess : object
            Start for the next search with similar z; None if the risk needs no search.
        """

    def evaluate_chunks(self, costs: ChunkedCosts, n: float, guess: Any = None) -> tuple:
        """Evaluate the risk of costs that are stored in chunks.

        A risk that cannot be computed from sums gathers all costs first, which takes 16 bytes per row.

        Parameters
        ----------
        costs : ChunkedCosts
            Costs z and shares w/n of all rows.
        n : float
            Sum of w.
        guess : object, optional
            As in ``evaluate``.

        Returns
        -------
        value : float
            Risk of z.
        gradient : array (n,) or callable
            Gradient, or a function of (z, share) that returns it for one chunk.
        guess : object
            As in ``evaluate``.
        """
        from_sums = None if len(costs) == 1 else self.evaluate_sums(costs, n, guess)
        if from_sums is None:
            return self.evaluate(*costs.gather(), n, guess)
        return from_sums

    def evaluate_sums(self, costs: ChunkedCosts, n: float, guess: Any = None) -> tuple | None:
        """Evaluate the risk from sums over chunks, if that is possible.

        Parameters
        ----------
        costs : ChunkedCosts
            Costs z and shares w/n of all rows.
        n : float
            Sum of w.
        guess : object, optional
            As in ``evaluate``.

        Returns
        -------
        tuple or None
            Results in the form of ``evaluate_chunks``; None if sums do not suffice.
        """
        return None


def check_weighted_costs(z: ArrayLike, weights: ArrayLike | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return costs and weights as vectors of one length, or raise InputError."""
    z = check_vector(z, np.size(z), "z")
    if weights is None:
        weights = np.ones(len(z))
    weights = check_vector(weights, len(z), "weights")
    reject_rows(weights < 0, weights, "weights", "0 or more")
    check_magnitude(z, "z", weights)
    if not weights.any():
        raise InputError(f"at least one cost must have a positive weight, got none among {len(z)} costs")
    return z, weights


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
