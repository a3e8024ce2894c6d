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
from .scales import beyond_reason

PATIENCE = 200  # iterations after which a fit may be given up
FAILED = 2  # scipy's status of a line search that found nothing
MEMORY = 10  # pairs of vectors; 50 reach much the same objectives, and cost up to six times as much


@dataclass(frozen=True)
class Fit:
    """What an optimisation found: Θ (d, q), its objective, the iterations it took, and whether it converged."""

    coef: np.ndarray
    objective: float
    iterations: int
    converged: bool


def minimize_objectives(
    objectives: Iterable[Objective],
    start: np.ndarray,
    max_iter: int = 1000,
    tol: float = 1e-6,
    ridge: float = 0.0,
    hopeless: Callable[[np.ndarray], bool] | None = None,
) -> Iterator[Fit]:
    """Minimise objectives of one log by L-BFGS-B from Θ = ``start``, (d, q), one after the other.

    Stops when the relative decrease of the objective or the largest gradient entry is at most ``tol``, or after
    ``max_iter`` iterations, or where ``hopeless``, asked of Θ after 200 iterations, says so; the latter two are said in
    the result. A feature that no context has gets no gradient: its coefficients stay, and are not carried along. With
    a ``ridge`` λ, (λ/2) ‖Θ − start‖² is added.
    """
    options = {"maxiter": max_iter, "maxfun": 20 * max_iter, "ftol": tol, "gtol": tol, "maxcor": MEMORY}
    for objective in objectives:
        seen = _seen_features(objective.log.X)

        def widened(x: np.ndarray, seen: np.ndarray = seen) -> np.ndarray:
            coef = start.copy()
            coef[seen] = x.reshape(-1, start.shape[1])
            return coef

        narrow = objective if seen.all() else objective.with_features(np.flatnonzero(seen))
        origin = start[seen].ravel()
        evaluate = _followed(narrow, origin, ridge)
        callback = _stopping(hopeless, widened)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            _require_finite(narrow.log, *evaluate(origin), "where the fit starts")
            found = minimize(evaluate, origin, jac=True, method="L-BFGS-B", options=options, callback=callback)
            _require_finite(narrow.log, found.fun, found.x, f"after {found.nit} iterations")
            # Where a line search fails, scipy gives the last Θ accepted with the value of the last Θ tried.
            value = evaluate(found.x)[0] if found.status == FAILED else found.fun
        yield Fit(widened(found.x), float(value), int(found.nit), bool(found.success))


def _followed(objective: Objective, origin: np.ndarray, ridge: float) -> Callable:
    """The objective as L-BFGS calls it: searches inside start where the last ones ended.

    With the ridge added; what is undefined for want of weights is the largest cost.
    """
    start, largest = None, objective.log.cost.max()

    def call(coef: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal start
        value, gradient, start = objective.evaluate(coef, start)
        if np.isnan(value) and not gradient.any():
            value = largest
        if ridge:
            moved = coef - origin
            value, gradient = value + ridge / 2 * (moved @ moved), gradient + ridge * moved
        return value, gradient

    return call


def _require_finite(log: BanditLog, value: float, array: np.ndarray, where: str) -> None:
    """Raise InputError unless the objective, and its gradient or the coefficients, are finite."""
    if not (np.isfinite(value) and np.isfinite(array).all()):
        raise InputError(f"the risk is not finite {where}: {beyond_reason(log)}")


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
