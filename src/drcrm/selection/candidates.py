"""Candidates of a selection: fits along a grid, with a ridge towards π0, or part of the way from π0, and π0 itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from drcrm.optimization.lbfgs import Fit
from drcrm.selection.heldout_scores import choose, select_improvement
from drcrm.selection.score_names import SCORES

IMPROVEMENT = list(SCORES).index("improvement_bound")
ROUNDING = 1e-9  # a candidate whose noise is below this many standard deviations of the costs equals π0


@dataclass(frozen=True)
class Candidate:
    """A fit for a grid value, possibly with a ridge; or, with a step below 1, a point between π0 and that fit.

    ``sharpness`` is a factor of Θ: a sharpened π0 has step 0, and a factor far above 1 makes a policy greedy.
    """

    value: float
    fit: Fit
    ridge: float = 0.0
    step: float = 1.0
    sharpness: float = 1.0


@dataclass(frozen=True)
class GridFit:
    """The k candidates of an algorithm as arrays.

    If there is no hyper-parameter, the grid has the single value NaN. A safe algorithm has additional candidates after
    the fits along the grid; the last of them is π0.

    Attributes
    ----------
    grid : array (k,)
        Value of the hyper-parameter; NaN for π0.
    ridge : array (k,)
        λ, in units of the standard deviation of the costs.
    step, sharpness : array (k,)
        Position between π0 (0) and a fit (1), and the factor of Θ.
    coef : array (k, d, …)
    objective, iterations, converged : array (k,)
    scores : array (k, s)
        A column for each of ``drcrm.selection.score_names.SCORES``; NaN without held-out rows.
    chosen : array (s,)
        Index of the candidate that each score chooses, −1 if all values of the score are NaN. For a safe algorithm,
        ``select_improvement`` chooses by improvement_bound.
    tilt : array (1,)
        κ of the start; NaN if the start is not tilted.
    """

    grid: np.ndarray
    ridge: np.ndarray
    step: np.ndarray
    sharpness: np.ndarray
    coef: np.ndarray
    objective: np.ndarray
    iterations: np.ndarray
    converged: np.ndarray
    scores: np.ndarray
    chosen: np.ndarray
    tilt: np.ndarray

    @classmethod
    def of(
        cls, candidates: list[Candidate], scores: np.ndarray, robust_end: str, shift: float, tilt: float | None
    ) -> GridFit:
        """Return candidates as arrays, their objectives increased by ``shift``, with the choice of each score."""
        values, fits = np.array([candidate.value for candidate in candidates]), [c.fit for c in candidates]
        chosen = [choose(column, values, robust_end) for column in scores.T]
        return cls(
            grid=values,
            ridge=np.array([candidate.ridge for candidate in candidates]),
            step=np.array([candidate.step for candidate in candidates]),
            sharpness=np.array([candidate.sharpness for candidate in candidates]),
            coef=np.stack([fit.coef for fit in fits]),
            objective=np.array([fit.objective for fit in fits]) + shift,
            iterations=np.array([fit.iterations for fit in fits]),
            converged=np.array([fit.converged for fit in fits]),
            scores=scores,
            chosen=np.array([-1 if index is None else index for index in chosen]),
            tilt=np.array([np.nan if tilt is None else tilt]),
        )

    def choose_safe(self, noise: Callable[[np.ndarray], float], cost_unit: float) -> int:
        """Return the candidate that improvement_bound chooses: π0, unless another one is shown to be better.

        Candidates are tested in the order of their noise on the training rows, which does not depend on the held-out
        rows. A candidate without noise equals π0. It is not tested, because its result would be rounding.
        ``cost_unit`` is the standard deviation of the costs.
        """
        noises = np.array([noise(coef) for coef in self.coef[:-1]])
        tested = np.flatnonzero(noises > ROUNDING * cost_unit)
        index = select_improvement(self.scores[tested, IMPROVEMENT], noises[tested])
        return len(self.coef) - 1 if index is None else int(tested[index])
