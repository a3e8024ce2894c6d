"""Fitting an algorithm along its grid and scoring every fit on the held-out part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..algorithms import ALGORITHMS
from ..errors import InputError
from .log import BanditLog, clipping_constant
from .optimiser import minimize_risks
from .policies import ExponentialPolicy
from .scores import SCORES, choose, log_weights, off_policy_scores


@dataclass(frozen=True)
class GridFit:
    """An algorithm's fits along its grid of k values (one nameless value, NaN, where it has no hyper-parameter).

    ``scores`` has a column for each of ``drcrm.core.scores.SCORES``; ``chosen`` the grid index each of them chooses, −1
    where all its values are NaN.
    """

    grid: np.ndarray  # (k,)
    coef: np.ndarray  # (k, d, q)
    objective: np.ndarray  # (k,)
    iterations: np.ndarray  # (k,)
    converged: np.ndarray  # (k,)
    scores: np.ndarray  # (k, 4)
    chosen: np.ndarray  # (4,)


def fit_grid(
    train: BanditLog,
    heldout: BanditLog,
    estimator: str,
    parameter: str | None = None,
    grid: Sequence[float] = (),
    options: Mapping[str, object] | None = None,
    scale: float = 1.0,
) -> GridFit:
    """Fit an estimator for every value of its hyper-parameter, and score the fits on the held-out part.

    A fit that has not converged after 200 iterations is given up if each of its four scores then promises less than
    a quarter of what the best so far gains on the logged costs: far ends of a grid, which would take most of the time.

    Parameters
    ----------
    train, heldout : BanditLog
        Both are clipped with the training part's M.
    estimator : str
        A name in ``drcrm.algorithms.ALGORITHMS``.
    parameter, grid, options
        The hyper-parameter's name and values, and the estimator's other parameters.
    scale : float
        What a grid value is multiplied with to give the hyper-parameter (POEM's λ0).
    """
    algorithm = ALGORITHMS[estimator]
    _check_parameters(estimator, parameter, grid, options or {})
    clip = clipping_constant(train)
    settings = [{parameter: scale * value} for value in grid] if parameter else [{}]
    grid = np.asarray(grid, dtype=float) if parameter else np.array([np.nan])
    # From the least robust value on, which is nearest to CIPS: there the first fits are good ones to compare with.
    order = sorted(range(len(grid)), key=lambda index: grid[index], reverse=algorithm.risk.most_robust is min)
    risks = (algorithm.make_risk(**settings[index], **(options or {})) for index in order)
    scores = np.full((len(grid), len(SCORES)), np.nan)
    logged = heldout.count @ heldout.cost / heldout.size

    def score(coef: np.ndarray) -> list[float]:
        weight = np.exp(log_weights(ExponentialPolicy(coef), heldout))
        return list(off_policy_scores(weight, heldout.cost, clip, heldout.count).values())

    def hopeless(coef: np.ndarray) -> bool:
        best = np.fmin.reduce(scores)
        gained = logged - best
        return bool(np.all((gained > 0) & (score(coef) > logged - gained / 4)))

    fits = [None] * len(grid)
    for index, fit in zip(order, minimize_risks(train, risks, clip, hopeless=hopeless), strict=True):
        fits[index], scores[index] = fit, score(fit.coef)
    chosen = [choose(column, grid, algorithm.risk.most_robust) for column in scores.T]
    return GridFit(
        grid=grid,
        coef=np.stack([fit.coef for fit in fits]),
        objective=np.array([fit.objective for fit in fits]),
        iterations=np.array([fit.iterations for fit in fits]),
        converged=np.array([fit.converged for fit in fits]),
        scores=scores,
        chosen=np.array([-1 if index is None else index for index in chosen]),
    )


def _check_parameters(estimator: str, parameter: str | None, grid: Sequence[float], options: Mapping) -> None:
    """Raise InputError unless the hyper-parameter, with a grid, and the options are the estimator's own."""
    first, others = ALGORITHMS[estimator].parameters[:1], ALGORITHMS[estimator].parameters[1:]
    if tuple(filter(None, [parameter])) != first or len(grid) < len(first):
        expected = f"{first[0]} and at least one value" if first else "none"
        found = f"{parameter} and {len(grid)} values" if parameter else "none"
        raise InputError(f"the hyper-parameter of {estimator} is {found}, expected {expected}")
    for name in options:
        if name not in others:
            raise InputError(f"unknown option {name!r} of {estimator}, expected {', '.join(others) or 'none'}")
