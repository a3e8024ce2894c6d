"""Candidates of a selection, the choice of one of them on held-out rows, and the effective number of candidates.

Candidates are fits along a grid, fits with a ridge towards π0, policies part of the way from π0 to a fit, and π0. If
the rows choose the best of k candidates, the bounds on all of them must hold together. Bonferroni divides δ by k. This
is too much for the candidates of one log, which are strongly correlated. The max-t method takes the 1 − δ quantile c of
max_j T_j, where the T_j are normal and correlated like the candidates' differences. The effective number of candidates,
δ/P(T_1 > c), is between 1 and k. It grows with the confidence 1 − δ. Each outcome has its own number, because
candidates can differ in one outcome and agree in another. Source: Westfall & Young 1993; Chernozhukov, Chetverikov &
Kato 2013.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.special import ndtr, stdtrit

from drcrm.arrays.validation import to_float
from drcrm.errors import InputError
from drcrm.logging_policy import SupportedModel
from drcrm.optimization.objective import Objective
from drcrm.policies.exponential import LinearPolicy
from drcrm.selection.score_names import SCORES

DRAWS = 2**15  # of the maximum; the effective number then has a standard error of about 3 %
LEVELS = 0.5, 0.8, 0.9, 0.95, 0.98, 0.99  # confidence at which effective numbers are stored, besides the one in use
CAUTION = 0.25  # standard errors that are added to estimates to rank candidates without a bound below 0
MOST_CERTAIN = 0.999  # highest level at which the draws determine an effective number
MOST_VALUES = 2**26  # with more differences, correlations are not computed, and Bonferroni's number is used
IMPROVEMENT = "improvement_bound"


@dataclass(frozen=True)
class EffectiveNumber:
    """Effective number of candidates for bounds on one outcome, at several confidence levels.

    Attributes
    ----------
    candidates : int
        Number k of candidates.
    by_level : mapping
        Effective numbers by confidence, which do not fall with it.
    """

    candidates: int
    by_level: Mapping[float, int]

    def at(self, confidence: float) -> int:
        """Return the number at a confidence, or at the next higher level that is known; k beyond all of them."""
        levels = [level for level in self.by_level if level >= confidence]
        return self.by_level[min(levels)] if levels else self.candidates

    @classmethod
    def of_list(cls, candidates: int, pairs: Any) -> EffectiveNumber:
        """Return the number from the pairs of :meth:`as_list`; InputError if they are none of this many candidates."""
        is_valid = isinstance(pairs, list) and all(
            isinstance(pair, list)
            and len(pair) == 2
            and 0 < to_float(pair[0]) < 1
            and type(pair[1]) is int
            and 1 <= pair[1] <= candidates
            for pair in pairs
        )
        if not is_valid:
            raise InputError(
                f"the effective numbers of candidates are {pairs!r}, expected pairs of a confidence and a whole number "
                f"from 1 to the number of candidates, {candidates}"
            )
        return cls(candidates, dict(pairs))

    def as_list(self) -> list[list[float]]:
        """Return pairs of a level and its number."""
        return [[level, number] for level, number in self.by_level.items()]


@dataclass(frozen=True)
class EffectiveNumbers:
    """Effective numbers of the candidates that competed on the same rows; by default a single one.

    Attributes
    ----------
    main : EffectiveNumber
        For bounds on the main outcome.
    of_guardrails : mapping
        For bounds on the outcome of each guardrail, by its name.
    """

    main: EffectiveNumber = field(default_factory=lambda: EffectiveNumber(1, {}))
    of_guardrails: Mapping[str, EffectiveNumber] = field(default_factory=dict)

    @property
    def candidates(self) -> int:
        """Number of candidates."""
        return self.main.candidates


@dataclass(frozen=True)
class PairedDifferences:
    """Differences z(π) − z(π0) of k candidates in n independent units of held-out rows.

    Without groups, units are rows. With groups, the values of a unit are those of
    :func:`drcrm.evaluation.bounds.independent_units.grouped_values`.

    Attributes
    ----------
    valid : array (n, k)
        With unclipped weights, so that bounds on the means are valid.
    clipped : array (n, k)
        With weights clipped at M.
    grade : int array (k,)
        How well the log can judge the candidate: see :func:`drcrm.evaluation.policy_on_log.grade_overlap`.
    count : array (n,)
        Multiplicity of each unit.
    """

    valid: np.ndarray
    clipped: np.ndarray
    grade: np.ndarray
    count: np.ndarray

    @classmethod
    def of(cls, valid: np.ndarray, clipped: np.ndarray, grade: int, count: np.ndarray) -> PairedDifferences:
        """Return the differences of one candidate, from arrays (n,)."""
        return cls(valid[:, None], clipped[:, None], np.array([grade]), count)

    @classmethod
    def join(cls, parts: Sequence[PairedDifferences]) -> PairedDifferences:
        """Return the differences of the candidates of all parts, in the same units."""
        return cls(
            np.hstack([part.valid for part in parts]),
            np.hstack([part.clipped for part in parts]),
            np.hstack([part.grade for part in parts]),
            parts[0].count,
        )

    @classmethod
    def stack(cls, parts: Sequence[PairedDifferences]) -> PairedDifferences:
        """Return the differences of the same candidates in the units of all parts; each has its least grade."""
        grades = np.min([part.grade for part in parts], axis=0)
        valid, clipped = np.vstack([part.valid for part in parts]), np.vstack([part.clipped for part in parts])
        return cls(valid, clipped, grades, np.concatenate([part.count for part in parts]))

    def of_candidate(self, index: int) -> PairedDifferences:
        """Return the differences of one candidate."""
        return PairedDifferences.of(self.valid[:, index], self.clipped[:, index], self.grade[index], self.count)

    def cautious_means(self, errors: float = CAUTION) -> np.ndarray:
        """Return the means of the clipped differences plus a number of standard errors, by default a quarter, (k,).

        They rank the candidates if no bound is below 0. The smallest bound would pick a candidate close to π0, and the
        smallest mean often one with a few very large weights. The correction for the choice shrinks all candidates by
        nearly the same factor, because truth and noise both grow with the distance from π0. In 147 logs with a weak
        effect, the candidates gain 0.021 on average, with a whole standard error 0.016, and without it 0.022.
        """
        return _bounds(self.clipped, self.count, errors)[1]

    def effective_choices(self, confidence: float = 0.95) -> int:
        """Return the effective number of candidates at a confidence: see :func:`effective_number`."""
        return effective_number(self.valid, self.count, confidence).at(confidence)

    def choose(self, choices: int, allowed: np.ndarray | bool = True, confidence: float = 0.95) -> int | None:
        """Return the candidate to test for an improvement, or None if no bound is below 0.

        A candidate is eligible if it is allowed, (k,), and the bound on its clipped difference is below 0. The eligible
        candidate with the best clipped estimate is chosen, if its valid bound is below 0 too. Otherwise, it is the
        eligible one with the smallest valid bound, if this is below 0. Bounds have error δ/``choices``. They
        use Student's distribution, because there may be few groups.
        """
        quantile = -stdtrit(max(self.count.sum() - 1, 1), (1 - confidence) / choices)
        means, clipped_bounds = _bounds(self.clipped, self.count, quantile)
        _, valid_bounds = _bounds(self.valid, self.count, quantile)
        eligible = np.flatnonzero((clipped_bounds < 0) & allowed & np.isfinite(valid_bounds))
        if not eligible.size:
            return None
        best = eligible[np.argmin(means[eligible])]
        if valid_bounds[best] >= 0:
            best = eligible[np.argmin(valid_bounds[eligible])]
        return int(best) if valid_bounds[best] < 0 else None


def _bounds(differences: np.ndarray, count: np.ndarray, quantile: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the means of differences, (k,), and their upper bounds."""
    n = count.sum()
    means = count @ differences / n
    variances = count @ (differences - means) ** 2 / max(n - 1, 1)
    return means, means + quantile * np.sqrt(variances / n)


@np.errstate(over="ignore", invalid="ignore")
def effective_number(differences: np.ndarray, count: np.ndarray, confidence: float = 0.95) -> EffectiveNumber:
    """Return the effective number of candidates, rounded up, for bounds on their means that hold together.

    Parameters
    ----------
    differences : array (n, k)
        Terms of the candidates, whose means are bounded, in n independent units.
    count : array (n,)
        Multiplicity of each unit.
    confidence : float
        Level that is added to ``LEVELS``, up to ``MOST_CERTAIN``; beyond it, the number is k.
    """
    k = differences.shape[1]
    levels = sorted(level for level in {*LEVELS, confidence} if level <= MOST_CERTAIN)
    if differences.size > MOST_VALUES:
        return EffectiveNumber(k, {level: k for level in levels})
    deviations = differences - count @ differences / count.sum()
    deviations *= np.sqrt(count)[:, None]
    scale = np.sqrt((deviations**2).sum(axis=0))
    varying = deviations[:, (scale > 0) & np.isfinite(scale)]
    if varying.shape[1] < 2:
        return EffectiveNumber(k, {level: 1 for level in levels})
    varying /= np.linalg.norm(varying, axis=0)
    values, vectors = np.linalg.eigh(varying.T @ varying)
    root = vectors * np.sqrt(np.maximum(values, 0))
    largest = (np.random.default_rng(0).standard_normal((DRAWS, len(root))) @ root.T).max(axis=1)
    single = ndtr(-np.quantile(largest, levels))
    numbers = [min(k, max(1, math.ceil((1 - level) / share))) for level, share in zip(levels, single, strict=True)]
    growing = [max(numbers[: place + 1]) for place in range(len(numbers))]
    return EffectiveNumber(k, dict(zip(levels, growing, strict=True)))


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
        :meth:`drcrm.selection.candidates.PairedDifferences.choose` chooses, else π0.
    objectives : list of Objective
        One for each value of the grid; none for a fit over learned scores.
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
