"""Fitting along a grid, and choosing among the fits by held-out scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import InputError
from .cost_model import label_effects
from .log import BanditLog, clipping_constant
from .optimiser import minimize_objectives
from .risks import MeanRisk, VariancePenalizedRisk
from .scores import SCORES, UNMODELLED, HeldoutScores, choose
from .terms import Beginning, Terms


@dataclass(frozen=True)
class GridFit:
    """Fits along a grid of k values (one nameless value, NaN, where there is no hyper-parameter).

    ``scores`` has a column for each of the s ``drcrm.core.scores.SCORES``; ``chosen`` the grid index each of them
    chooses, −1 where all its values are NaN; ``tilt`` is NaN where the start is not tilted.
    """

    grid: np.ndarray  # (k,)
    coef: np.ndarray  # (k, d, q)
    objective: np.ndarray  # (k,)
    iterations: np.ndarray  # (k,)
    converged: np.ndarray  # (k,)
    scores: np.ndarray  # (k, s)
    chosen: np.ndarray  # (s,)
    tilt: np.ndarray  # (1,)


@np.errstate(over="ignore", invalid="ignore", divide="ignore")  # what is not finite in the end is said
def fit_grid(
    train: BanditLog,
    heldout: BanditLog,
    terms: Sequence[Terms],
    grid: Sequence[float],
    robust_end: str = "high",
    beginning: Beginning | None = None,
    cost_model=None,
    stopping: str = "scaled",
) -> GridFit:
    """Minimise objectives that differ in the value of a hyper-parameter, and score the fits on the held-out part.

    A fit that has not converged after 200 iterations is given up if each of the four scores without a cost model then
    promises less than a quarter of what the best so far gains on the logged costs: far ends of a grid, which would
    take most of the time.

    Parameters
    ----------
    train, heldout : BanditLog
        Both are clipped with the training part's M.
    terms : sequence of k Terms
    grid : sequence of k floats
        Their values of the hyper-parameter, by which ties are broken.
    robust_end : "low" or "high"
        The end of the grid that is the more robust.
    beginning : Beginning, optional
        Where fits start; by default at Θ = 0.
    cost_model : optional
        That of the training part, for the held-out scores that use one; without it they are NaN.
    stopping : "scaled" or "public_code"
        When L-BFGS stops: see :func:`drcrm.core.optimiser.minimize_objectives`.
    """
    clip = clipping_constant(train)
    beginning = beginning or Beginning(np.zeros((train.X.shape[1], train.Y.shape[1])))
    effects = None if cost_model is None else label_effects(cost_model, heldout.X, heldout.Y.shape[1])
    # From the least robust value on, which is nearest to the mean: there the first fits are good ones to compare with.
    order = sorted(range(len(grid)), key=lambda index: grid[index], reverse=robust_end == "low")
    scores = np.full((len(grid), len(SCORES)), np.nan)
    logged = heldout.count @ heldout.cost / heldout.size

    score = HeldoutScores(heldout, clip, effects)

    def hopeless(coef: np.ndarray) -> bool:
        gained = logged - np.fmin.reduce(scores[:, : len(UNMODELLED)])
        return bool(np.all((gained > 0) & (score.unmodelled(coef) > logged - gained / 4)))

    fits = [None] * len(grid)
    objectives = (terms[index].objective(train, clip, beginning.effects) for index in order)
    found = minimize_objectives(objectives, beginning.coef, hopeless=hopeless, stopping=stopping)
    for index, fit in zip(order, found, strict=True):
        fits[index], scores[index] = fit, score(fit.coef)
    chosen = [choose(column, grid, robust_end) for column in scores.T]
    return GridFit(
        grid=np.asarray(grid, dtype=float),
        coef=np.stack([fit.coef for fit in fits]),
        objective=np.array([fit.objective for fit in fits]),
        iterations=np.array([fit.iterations for fit in fits]),
        converged=np.array([fit.converged for fit in fits]),
        scores=scores,
        chosen=np.array([-1 if index is None else index for index in chosen]),
        tilt=np.array([np.nan if beginning.tilt is None else beginning.tilt]),
    )


def calibrated_penalty(log: BanditLog) -> float:
    """Return λ0 = −c̄ / √(V_n(c)/n), the unit of POEM's grid in the public POEM code; V_n with n − 1.

    Raises InputError where it is not a positive number: costs that are all equal, or positive on average.
    """
    mean, _ = MeanRisk()(log.cost, log.count)
    penalised, _ = VariancePenalizedRisk(1)(log.cost, log.count)
    deviation = penalised - mean
    if deviation <= 0 or mean >= 0:
        raise InputError(
            f"POEM's penalty cannot be calibrated on costs with mean {mean:.6g} and standard error {deviation:.6g}, "
            "expected a negative mean and costs that vary (or variance_penalty_scale: unit)"
        )
    return float(-mean / deviation)
