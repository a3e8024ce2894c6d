"""L-BFGS on the objectives of a log."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.optimize import minimize

from .bandit import BanditLog
from .errors import InputError
from .objective import Objective
from .risks import Risk

MEMORY = 10  # pairs of vectors; 50 reach no better objectives in the same iterations, and cost up to six times as much


@dataclass(frozen=True)
class Fit:
    """What an optimisation found: Θ (d, q), its objective, the iterations it took, and whether it converged."""

    coef: np.ndarray
    objective: float
    iterations: int
    converged: bool


def minimize_risks(
    log: BanditLog, risks: Iterable[Risk], clip: float | None, max_iter: int = 1000, tol: float = 1e-6
) -> list[Fit]:
    """Minimise each risk of one log by L-BFGS-B from Θ = 0.

    Stops when the relative decrease of the objective or the largest gradient entry is at most ``tol``, or after
    ``max_iter`` iterations, which is then said in the result. A feature that no context has gets no gradient: its
    coefficients stay 0, and are not carried along.
    """
    seen = _seen_features(log.X)
    narrow = log if seen.all() else log.with_contexts(log.X[:, np.flatnonzero(seen)])
    return [_minimize(Objective(narrow, risk, clip), seen, max_iter, tol) for risk in risks]


def _minimize(objective: Objective, seen: np.ndarray, max_iter: int, tol: float) -> Fit:
    start = np.zeros(objective.shape[0] * objective.shape[1])
    options = {"maxiter": max_iter, "maxfun": 20 * max_iter, "ftol": tol, "gtol": tol, "maxcor": MEMORY}
    with np.errstate(over="ignore", invalid="ignore"):
        finite = np.isfinite(objective(start)[0])
    if not finite:
        raise InputError("the risk is not finite at Θ = 0: propensities this small need clipped weights")
    found = minimize(objective, start, jac=True, method="L-BFGS-B", options=options)
    coef = np.zeros((len(seen), objective.shape[1]))
    coef[seen] = found.x.reshape(objective.shape)
    return Fit(coef, float(found.fun), int(found.nit), bool(found.success))


def _seen_features(X) -> np.ndarray:
    """Which features any context has, a mask (d,); all, where none has any."""
    seen = np.zeros(X.shape[1], dtype=bool)
    if sparse.issparse(X):
        seen[X.indices[X.data != 0]] = True
    else:
        seen[:] = X.any(axis=0)
    return seen if seen.any() else ~seen
