"""L-BFGS on the objectives of a log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import count

import numpy as np
from scipy import sparse
from scipy.optimize import minimize

from ..errors import InputError
from .log import BanditLog
from .objective import Objective
from .risks import Risk

PATIENCE = 200  # iterations after which a fit may be given up
MEMORY = 10  # pairs of vectors; 50 reach much the same objectives, and cost up to six times as much


@dataclass(frozen=True)
class Fit:
    """What an optimisation found: Θ (d, q), its objective, the iterations it took, and whether it converged."""

    coef: np.ndarray
    objective: float
    iterations: int
    converged: bool


def minimize_risks(
    log: BanditLog,
    risks: Iterable[Risk],
    clip: float | None,
    max_iter: int = 1000,
    tol: float = 1e-6,
    hopeless: Callable[[np.ndarray], bool] | None = None,
) -> Iterator[Fit]:
    """Minimise each risk of one log by L-BFGS-B from Θ = 0, one after the other.

    Stops when the relative decrease of the objective or the largest gradient entry is at most ``tol``, or after
    ``max_iter`` iterations, or where ``hopeless``, asked of Θ after 200 iterations, says so; the latter two are said in
    the result. A feature that no context has gets no gradient: its coefficients stay 0, and are not carried along.
    """
    seen = _seen_features(log.X)
    narrow = log if seen.all() else log.with_contexts(log.X[:, np.flatnonzero(seen)])

    def widened(x: np.ndarray) -> np.ndarray:
        coef = np.zeros((len(seen), log.Y.shape[1]))
        coef[seen] = x.reshape(-1, log.Y.shape[1])
        return coef

    for risk in risks:
        objective = _followed(Objective(narrow, risk, clip))
        start = np.zeros(narrow.X.shape[1] * log.Y.shape[1])
        options = {"maxiter": max_iter, "maxfun": 20 * max_iter, "ftol": tol, "gtol": tol, "maxcor": MEMORY}
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            value, gradient = objective(start)
            _require_finite(value, gradient, "at Θ = 0")
            found = minimize(
                objective, start, jac=True, method="L-BFGS-B", options=options, callback=_stopping(hopeless, widened)
            )
        _require_finite(found.fun, found.x, f"after {found.nit} iterations")
        yield Fit(widened(found.x), float(found.fun), int(found.nit), bool(found.success))


def _followed(objective: Objective) -> Callable[[np.ndarray], tuple[float, np.ndarray]]:
    """The objective as L-BFGS calls it: the risk's search starts where the last one ended."""
    start = None

    def call(coef: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal start
        value, gradient, start = objective.evaluate(coef, start)
        return value, gradient

    return call


def _require_finite(value: float, array: np.ndarray, where: str) -> None:
    """Raise InputError unless the objective, and its gradient or the coefficients, are finite."""
    if not (np.isfinite(value) and np.isfinite(array).all()):
        raise InputError(f"the risk is not finite {where}: propensities this small need clipped weights")


def _stopping(hopeless: Callable[[np.ndarray], bool] | None, widened: Callable) -> Callable[[np.ndarray], None] | None:
    """What L-BFGS calls after each iteration: it stops where, after ``PATIENCE`` of them, Θ is hopeless."""
    iterations = count(1)

    def stop_if_hopeless(x: np.ndarray) -> None:
        if next(iterations) == PATIENCE and hopeless(widened(x)):
            raise StopIteration

    return stop_if_hopeless if hopeless else None


def _seen_features(X) -> np.ndarray:
    """Which features any context has, a mask (d,); all, where none has any."""
    seen = np.zeros(X.shape[1], dtype=bool)
    if sparse.issparse(X):
        seen[X.indices[X.data != 0]] = True
    else:
        seen[:] = X.any(axis=0)
    return seen if seen.any() else ~seen
