"""L-BFGS on an objective."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from .objective import Objective


@dataclass(frozen=True)
class Fit:
    """What an optimisation found: Θ (d, q), its objective, the iterations it took, and whether it converged."""

    coef: np.ndarray
    objective: float
    iterations: int
    converged: bool


def minimize_risk(objective: Objective, max_iter: int = 1000, tol: float = 1e-6, memory: int = 50) -> Fit:
    """Minimise an objective by L-BFGS-B from Θ = 0.

    Stops when the relative decrease of the objective or the largest gradient entry is at most ``tol``, or after
    ``max_iter`` iterations, which is then said in the result.
    """
    options = {"maxiter": max_iter, "maxfun": 20 * max_iter, "ftol": tol, "gtol": tol, "maxcor": memory}
    start = np.zeros(objective.shape[0] * objective.shape[1])
    found = minimize(objective, start, jac=True, method="L-BFGS-B", options=options)
    return Fit(found.x.reshape(objective.shape), float(found.fun), int(found.nit), bool(found.success))
