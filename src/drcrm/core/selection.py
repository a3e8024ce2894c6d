"""Fitting risks along a grid, and choosing among the fits by held-out scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import InputError
from .log import BanditLog, clipping_constant
from .optimiser import minimize_risks
from .policies import ExponentialPolicy
from .risks import MeanRisk, Risk, VariancePenalizedRisk
from .scores import SCORES, choose, log_weights, off_policy_scores


@dataclass(frozen=True)
class GridFit:
    """Fits along a grid of k values (one nameless value, NaN, where there is no hyper-parameter).

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


def fit_grid(train: BanditLog, heldout: BanditLog, risks: Sequence[Risk], grid: Sequence[float]) -> GridFit:
    """Minimise risks that differ in the value of their hyper-parameter, and score the fits on the held-out part.

    A fit that has not converged after 200 iterations is given up if each of its four scores then promises less than
    a quarter of what the best so far gains on the logged costs: far ends of a grid, which would take most of the time.

    Parameters
    ----------
    train, heldout : BanditLog
        Both are clipped with the training part's M.
    risks : sequence of k risks
    grid : sequence of k floats
        Their values of the hyper-parameter, by which ties are broken and the most robust end is told.
    """
    clip, robust_end = clipping_constant(train), risks[0].robust_end
    # From the least robust value on, which is nearest to the mean: there the first fits are good ones to compare with.
    order = sorted(range(len(grid)), key=lambda index: grid[index], reverse=robust_end == "low")
    scores = np.full((len(grid), len(SCORES)), np.nan)
    logged = heldout.count @ heldout.cost / heldout.size

    def score(coef: np.ndarray) -> list[float]:
        weight = np.exp(log_weights(ExponentialPolicy(coef), heldout))
        return list(off_policy_scores(weight, heldout.cost, clip, heldout.count).values())

    def hopeless(coef: np.ndarray) -> bool:
        gained = logged - np.fmin.reduce(scores)
        return bool(np.all((gained > 0) & (score(coef) > logged - gained / 4)))

    fits = [None] * len(grid)
    found = minimize_risks(train, (risks[index] for index in order), clip, hopeless=hopeless)
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
