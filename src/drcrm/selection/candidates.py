"""Candidates of a selection: fits along a grid, with a ridge towards π0, or part of the way from π0, and π0 itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from drcrm.logging_policy import SupportedModel
from drcrm.optimization.objective import Objective
from drcrm.policies.exponential import LinearPolicy
from drcrm.selection.score_names import SCORES

IMPROVEMENT = "improvement_bound"


@dataclass(frozen=True)
class Candidate:
    """A fit for a grid value, possibly with a ridge; or, with a step below 1, a point between π0 and that fit.

    Attributes
    ----------
    policy : LinearPolicy
    value : float
        Value of the hyper-parameter; NaN for π0, and if there is no hyper-parameter.
    objective : float
    iterations : int
    converged : bool
    ridge : float
        λ, in units of the standard deviation of the costs.
    step, sharpness : float
        Position between π0 (0) and a fit (1), and the factor of Θ. A sharpened π0 has step 0, and a factor far above 1
        makes a policy greedy.
    scores : mapping
        Held-out scores by the names in ``drcrm.selection.score_names.SCORES``; NaN without held-out rows.
    """

    policy: LinearPolicy
    value: float = np.nan
    objective: float = np.nan
    iterations: int = 0
    converged: bool = True
    ridge: float = 0.0
    step: float = 1.0
    sharpness: float = 1.0
    scores: Mapping[str, float] = field(default_factory=dict)

    @property
    def is_fit(self) -> bool:
        """Whether the candidate is a fit."""
        return self.step == self.sharpness == 1

    @property
    def is_logging(self) -> bool:
        """Whether the candidate is π0."""
        return self.step == 0 and self.sharpness == 1


@dataclass(frozen=True)
class Learned:
    """Result of ``learn``.

    Attributes
    ----------
    candidates : sequence of Candidate
        One for each value of the grid. A safe algorithm has additional candidates; the last of them is π0.
    chosen : dict
        Index of the candidate that each score chooses, −1 if all values of the score are NaN. For a safe algorithm,
        improvement_bound has the index ``selected``.
    selected : int
        Index of the candidate to use: the first one, or for a safe algorithm the one that
        :meth:`drcrm.selection.multiplicity.PairedDifferences.choose` chooses, else π0.
    objectives : list of Objective
        One for each value of the grid; none over learned scores, whose start is a policy that other models made.
    start : array (d, …)
        Start of the fits, Θ.
    clip : float or None
        M.
    cost_model : SupportedModel or None
    tilt : float or None
        κ of the start; None if the start is not tilted.
    differences : PairedDifferences or None
        Differences of the candidates from π0 on the held-out rows; None without held-out rows or a cost model.
    """

    candidates: Sequence[Candidate]
    chosen: dict[str, int]
    selected: int
    objectives: list[Objective]
    start: np.ndarray
    clip: float | None
    cost_model: SupportedModel | None
    tilt: float | None
    differences: Any

    def as_arrays(self) -> dict[str, np.ndarray]:
        """Return the k candidates as arrays by the names of their fields: grid, coef, scores (k, s) and others.

        ``grid`` has their values, and ``chosen`` and the columns of ``scores`` have the order of ``SCORES``.
        """
        fields, candidates = ("ridge", "step", "sharpness", "objective", "iterations", "converged"), self.candidates
        return {name: np.array([getattr(candidate, name) for candidate in candidates]) for name in fields} | {
            "grid": np.array([candidate.value for candidate in candidates]),
            "coef": np.stack([candidate.policy.coef for candidate in candidates]),
            "scores": np.array([[candidate.scores[name] for name in SCORES] for candidate in candidates]),
            "chosen": np.array([self.chosen[name] for name in SCORES]),
            "tilt": np.array([self.tilt], dtype=float),
        }

    def with_features(self, features: Any) -> Learned:
        """Return the result with policies and a cost model that take features before the map."""
        candidates = [replace(fit, policy=features.pull_back(fit.policy)) for fit in self.candidates]
        return replace(
            self, candidates=candidates, cost_model=self.cost_model and self.cost_model.with_features(features)
        )


def choose(scores: Any, grid: Any, robust_end: str = "high") -> int | None:
    """Return the index of the smallest score, or None if all are NaN; the most robust grid value wins a tie."""
    scores = np.asarray(scores, dtype=float)
    if np.isnan(scores).all():
        return None
    ties = np.flatnonzero(scores == np.nanmin(scores))
    return int((max if robust_end == "high" else min)(ties, key=lambda index: grid[index]))
