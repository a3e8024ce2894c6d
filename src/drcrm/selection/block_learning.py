"""Learning in blocks: a policy is learned from the rows before each block, and the block tests it.

Candidates are cross-fitted on the rows before a block. The candidate with the smallest mean difference from π0 plus one
standard error is fitted again to all rows before the block. π0 is not a candidate. The way of learning is thus the same
in each block, and the number of candidates needs no correction: see :mod:`drcrm.evaluation.bounds.asymptotic_bounds`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np

from drcrm.data.bandit_log import BanditLog
from drcrm.data.folds import draw_folds
from drcrm.evaluation.bounds.asymptotic_bounds import LARGEST_SKEWNESS, BlocksBound, BlockTerms, bound_blocks
from drcrm.evaluation.bounds.upper_bound import as_bound
from drcrm.evaluation.certified_terms import CertificateSettings, check_cost_range, summarize_block
from drcrm.logging_policy import LoggingPolicy
from drcrm.policies.base import MixturePolicy
from drcrm.policies.exponential import LinearPolicy
from drcrm.selection.algorithms import Algorithm
from drcrm.selection.candidates import Candidate, Learned, PairedDifferences
from drcrm.selection.fit_settings import SafeCandidates
from drcrm.selection.heldout_scores import compare_robustly

FOLDS = 3  # of the rows before a block
TOLERANCE = 1e-4  # of the fits for the choice
ERRORS = 1.0  # standard errors that are added to a candidate's mean difference

FitAlgorithm = Callable[[BanditLog, BanditLog | None, Algorithm], Learned]


class _Key(NamedTuple):
    """What identifies a candidate of an algorithm in fits to other rows."""

    is_in_grid: bool
    value: float | None
    ridge: float
    step: float
    sharpness: float

    @classmethod
    def of(cls, candidate: Candidate, is_in_grid: bool) -> _Key:
        value = None if np.isnan(candidate.value) else float(candidate.value)
        ridge = 0.0 if is_in_grid else candidate.ridge  # that of a grid value may depend on the number of rows
        return cls(is_in_grid, value, ridge, candidate.step, candidate.sharpness)

    def restrict(self, algorithm: Algorithm) -> Algorithm:
        """Return the algorithm with this candidate as its first one, or as the second one if it is not in the grid."""
        grid = algorithm.grid if self.value is None else (self.value,)
        is_fit, of_logging = self.step == self.sharpness == 1, self.step == 0
        around = SafeCandidates(
            ridges=(self.ridge,) if is_fit and not self.is_in_grid else (),
            steps=(self.step,) if 0 < self.step < 1 else (),
            sharpened=(self.sharpness,) if of_logging else (),
            greedy=None if is_fit or of_logging or self.step < 1 else self.sharpness,
        )
        return replace(algorithm, grid=tuple(grid)[:1]).with_settings(around=around)


@dataclass(frozen=True)
class LearnedPolicy:
    """The chosen candidate of an algorithm, fitted to all rows before a block.

    Attributes
    ----------
    algorithm : Algorithm
        With only the values that the candidate needs.
    learned : Learned
        The fit to these rows; ``selected`` is the candidate's index.
    key : _Key
    """

    algorithm: Algorithm
    learned: Learned
    key: _Key

    @classmethod
    def of(cls, algorithm: Algorithm, learned: Learned, key: _Key) -> Self:
        """Return the candidate with a key in the result of an algorithm."""
        keys = [_Key.of(candidate, index < len(algorithm.values)) for index, candidate in enumerate(learned.candidates)]
        return cls(algorithm, replace(learned, selected=keys.index(key)), key)

    @property
    def policy(self) -> LinearPolicy:
        """The policy of the candidate."""
        return self.learned.candidates[self.learned.selected].policy


@dataclass(frozen=True)
class Learner:
    """A way of learning: it chooses among the candidates of algorithms by cross-fitting, and fits the chosen one.

    Learned scores are fitted once to the rows before a block, and without each of the folds. The fits of the choice and
    the fit of the chosen candidate share them. In a held-out fold, the scores are those of the models without the fold.

    Attributes
    ----------
    algorithms : sequence of Algorithm
    fit : callable
        Function of training rows, held-out rows or None, and an algorithm, such as
        :func:`drcrm.selection.grid_search.learn_with_features`.
    logging : LoggingPolicy, optional
        π0 of learned scores; by default it is cloned from the log.
    begins : dict
        Θ of the last fits by algorithm and fold, at which the fits to more rows begin.
    """

    algorithms: Sequence[Algorithm]
    fit: FitAlgorithm
    logging: LoggingPolicy | None = None
    begins: dict[tuple[int, int], list[np.ndarray]] = field(default_factory=dict)

    def learn(self, log: BanditLog, fold: np.ndarray) -> LearnedPolicy:
        """Return the candidate that is best in the folds, (n,), of a log's rows, fitted to all of these rows."""
        scored: Any = [self._score(log, fold, algorithm) for algorithm in self.algorithms]
        means = {
            (number, key): mean
            for number in range(len(self.algorithms))
            for key, mean in self._cross_fit(number, log, fold, scored[number]).items()
        }
        number, key = min(means, key=lambda name: means[name])
        algorithm = key.restrict(self.algorithms[number])
        learned = scored[number].learn(algorithm) if scored[number] else self.fit(log, None, algorithm)
        return LearnedPolicy.of(algorithm, learned, key)

    def refit(self, log: BanditLog, chosen: LearnedPolicy) -> LearnedPolicy:
        """Return a chosen candidate, fitted to all rows of a log."""
        return LearnedPolicy.of(chosen.algorithm, self.fit(log, None, chosen.algorithm), chosen.key)

    def _score(self, log: BanditLog, fold: np.ndarray, algorithm: Algorithm) -> Any:
        """Return the log with the scores of an algorithm over learned scores, otherwise None.

        With limits or guardrails, models learn from costs that depend on the training rows, so each fit has its own.
        """
        mapping = log.description and log.description.mapping
        if not algorithm.uses_scores or (mapping and (mapping.limits or mapping.guardrails)):
            return None
        from drcrm.selection.learned_scores import ScoredLog  # imports scikit-learn, which takes half a second

        return ScoredLog.of(log, algorithm, self.logging, fold)

    def _cross_fit(self, number: int, log: BanditLog, fold: np.ndarray, scored: Any) -> dict[_Key, float]:
        """Return the mean difference of each candidate from π0 plus one standard error, over all folds."""
        algorithm, parts = self.algorithms[number], []
        lbfgs = algorithm.settings.lbfgs
        rough = algorithm.with_settings(lbfgs=replace(lbfgs, tol=max(lbfgs.tol, TOLERANCE)))
        for place in np.unique(fold).tolist():
            warm = rough.with_settings(begins=self.begins.get((number, place), ()))
            if scored:
                learned = scored.take(fold != place).fit(warm, scored.take(fold == place).listed)
            else:
                train, heldout = (log.recount(log.count * rows) for rows in (fold != place, fold == place))
                learned = self.fit(train, heldout, warm)
            if algorithm.is_linear:
                fits = [candidate.policy for candidate in learned.candidates if candidate.is_fit]
                has_intercept = algorithm.settings.fit_intercept
                self.begins[number, place] = [fit.coef_with_intercept if has_intercept else fit.coef for fit in fits]
            parts.append(
                {
                    _Key.of(candidate, index < len(algorithm.values)): learned.differences.of_candidate(index)
                    for index, candidate in enumerate(learned.candidates)
                    if not candidate.is_logging
                }
            )
        shared = [key for key in parts[0] if all(key in part for part in parts)]
        joined = PairedDifferences.join([PairedDifferences.stack([part[key] for part in parts]) for key in shared])
        means = np.nan_to_num(joined.cautious_means(ERRORS), nan=np.inf)
        return dict(zip(shared, means.tolist(), strict=True))


@dataclass(frozen=True)
class TestedBlock:
    """The policy that was learned from the rows before a block, and its test on the block.

    Attributes
    ----------
    first, last : int
        Places of the block's first and last row among the rows in the order of blocks, from 1.
    rows : int
        Number of rows of the block.
    change : float
        Estimated cost of the policy minus that of the reference, per row.
    low, high : float
        Ends of the 95 % interval of the change.
    weight : float
        ω, the share of the policy in the mixture.
    policy : LinearPolicy
    """

    first: int
    last: int
    rows: int
    change: float
    low: float
    high: float
    weight: float
    policy: LinearPolicy


@dataclass(frozen=True)
class LearnedBlocks:
    """Policies that were learned and tested block by block, and the policy that was learned from all rows.

    Attributes
    ----------
    blocks : list of TestedBlock
    bound : BlocksBound
        Upper bound on the weighted mean of the changes.
    final : LearnedPolicy
        Learned from all rows.
    """

    blocks: list[TestedBlock]
    bound: BlocksBound
    final: LearnedPolicy

    @property
    def improvement_bound(self) -> float:
        """The bound; infinite if the estimate is too skewed for it."""
        return self.bound.bound if self.bound.skewness <= LARGEST_SKEWNESS else np.inf

    @property
    def mixture(self) -> MixturePolicy:
        """The mixture of the blocks' policies with their weights."""
        return MixturePolicy([block.policy for block in self.blocks], [block.weight for block in self.blocks])


def learn_before_blocks(
    log: BanditLog, block: np.ndarray, learner: Learner, known: Sequence[BanditLog] = ()
) -> tuple[list[LearnedPolicy], LearnedPolicy]:
    """Return the policy that is learned from the rows before each block, and the last choice, fitted to all rows.

    Parameters
    ----------
    log : BanditLog
        Log without rows of count 0.
    block : int array (n,)
        Block of each row: see :func:`drcrm.data.folds.number_blocks`.
    learner : Learner
    known : sequence of BanditLog, optional
        The log as it is known before each block. By default it is the log.
    """
    fold, policies = np.empty(len(block), dtype=int), []
    for number in range(block.max() + 1):  # all folds are in each block
        fold[block == number] = draw_folds(log.unit_numbers[block == number], FOLDS)
    for number in range(1, block.max() + 1):
        is_before = block < number
        prefix = (known[number - 1] if known else log).recount(log.count * is_before)
        policies.append(learner.learn(prefix, fold[is_before]))
    return policies, learner.refit(log, policies[-1])


def learn_in_blocks(log: BanditLog, block: np.ndarray, learner: Learner, confidence: float = 0.95) -> LearnedBlocks:
    """Learn a policy from the rows before each block, test it on the block, and learn one from all rows.

    ``confidence`` is the level of the bound and of the intervals. The other parameters are those of
    :func:`learn_before_blocks`.
    """
    policies, final = learn_before_blocks(log, block, learner)
    costs = check_cost_range(None, log.cost)
    terms = [
        evaluate_on_block(learned, log.recount(log.count * (block == number)), costs, confidence)
        for number, learned in enumerate(policies, 1)
    ]
    bound = bound_blocks(terms, confidence)
    ends = np.cumsum(np.bincount(block, log.count)).astype(int).tolist()
    tested = [
        TestedBlock(start + 1, end, end - start, part.mean, *part.interval(confidence), float(weight), learned.policy)
        for (start, end), part, weight, learned in zip(pairwise(ends), terms, bound.weights, policies, strict=True)
    ]
    return LearnedBlocks(tested, bound, final)


def evaluate_on_block(
    learned: LearnedPolicy, log: BanditLog, costs: tuple[float, float], confidence: float
) -> BlockTerms:
    """Return the summary of a policy's differences from π0 on rows that it was not learned from."""
    algorithm, model = learned.algorithm, learned.learned.cost_model
    assert model is not None
    evaluation = compare_robustly(learned.policy, log, model, algorithm.settings)
    settings = CertificateSettings.of(log, as_bound(confidence, "student"), confidence, 1, costs)
    return summarize_block(evaluation, settings)
