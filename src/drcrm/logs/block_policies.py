"""Policies that are learned before blocks of a log, as one policy on the rows of all blocks, and its evaluation.

In each row, the probabilities and modelled costs are those of the policy and of the cost model that were learned from
the rows before the row's block. So all estimates of this policy are on rows that did not train it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from drcrm.cost_models.base import TabularModel
from drcrm.data.bandit_log import BanditLog
from drcrm.data.folds import calendar_periods, number_blocks, separate_units
from drcrm.errors import InputError, RareRowsError
from drcrm.evaluation.bounds.asymptotic_bounds import LARGEST_SKEWNESS, BlockTerms, bound_blocks
from drcrm.evaluation.certified_terms import CertificateSettings, summarize_block
from drcrm.evaluation.evaluation import Evaluation
from drcrm.logs.estimated_propensities import estimate_before
from drcrm.logs.successive_halving import fit_algorithm, halve_algorithms, is_expensive
from drcrm.policies.tabular import TabularPolicy, known_logging_policy
from drcrm.selection.algorithms import Algorithm
from drcrm.selection.block_learning import LearnedPolicy, Learner, learn_before_blocks

BLOCKS = 3


@dataclass(frozen=True, eq=False)
class BlockPolicies:
    """Policies that are learned before blocks.

    Attributes
    ----------
    log : BanditLog
        The whole log, in which each context is in one block.
    contexts : int array (m,) or None
        The context of the original log for each context; None if they are the same.
    rows : bool array (n,)
        Rows of the log that are in a tested block.
    blocks : RowBlocks
        Blocks of these rows.
    tested : BanditLog
        The log of these rows.
    policy : TabularPolicy
        The policies as one policy on ``tested``.
    cost_model : SupportedModel
        Their cost models as one model of ``tested``.
    learned : sequence of LearnedPolicy
        The policy of each block.
    final : LearnedPolicy
        The last choice, fitted to all rows.
    """

    log: BanditLog
    contexts: np.ndarray | None
    rows: np.ndarray
    blocks: RowBlocks
    tested: BanditLog
    policy: TabularPolicy
    cost_model: Any
    learned: Sequence[LearnedPolicy]
    final: LearnedPolicy


def learn_policies(
    log: BanditLog, algorithms: Sequence[Algorithm], tell: Callable[[str], None], seed: int = 0
) -> BlockPolicies:
    """Return the policies that are learned before three blocks of a log.

    Blocks are in the order of the column ``time``, or else in a random order of their units. If times are dates, blocks
    end where weeks or days end: see :func:`drcrm.data.folds.calendar_periods`. Estimated propensities come from models
    that are fitted to the rows before the block.

    Parameters
    ----------
    log : BanditLog
    algorithms : sequence of Algorithm
        Those that compete. If evaluations are expensive, they first compete on the rows before the first block.
    tell : callable
        Called with a message about each step.
    seed : int
        Seed of the random order.
    """
    is_dated = log.description is not None and log.description.is_dated
    period = calendar_periods if is_dated else np.zeros_like
    block = number_blocks(log.unit_numbers, BLOCKS, log.column("time"), seed, period=period)
    log, contexts = separate_units(log)
    known = [log] * BLOCKS
    if log.imitated_propensities:
        known = [log.replace(propensity=estimate_before(log, block < number)) for number in range(1, BLOCKS + 1)]
    if is_expensive(log):
        algorithms = halve_algorithms(known[0].take(block == 0), algorithms, tell)
    tell(f"learning before {BLOCKS} blocks")
    learned, final = learn_before_blocks(log, block, Learner(algorithms, fit_algorithm), known)
    rows = block > 0
    tested, number = log.take(rows), block[rows]
    if log.imitated_propensities:
        propensities = [before.propensity[rows] for before in known]
        tested = tested.replace(propensity=np.choose(number - 1, propensities))
    policy, model = _join(tested, number, learned, final)
    return BlockPolicies(log, contexts, rows, RowBlocks(number), tested, policy, model, learned, final)


def _join(
    log: BanditLog, number: np.ndarray, learned: Sequence[LearnedPolicy], final: LearnedPolicy
) -> tuple[TabularPolicy, Any]:
    """Return the policies and the cost models of the blocks, each on its rows."""
    log_prob, mean = np.empty(len(number)), np.empty((log.X.shape[0], *log.actions.shape))
    models: list[Any] = [of_block.learned.cost_model for of_block in (*learned, final)]
    effects: Any = None
    for place, (of_block, cost_model) in enumerate(zip(learned, models, strict=False), 1):
        part, contexts = log.take(number == place), np.zeros(log.n_contexts, dtype=bool)
        contexts[log.context[number == place]] = True
        inside = log.actions.repeat(contexts)
        policy = of_block.policy
        log_prob[number == place] = policy.log_prob_of_rows(part)
        mean[inside] = policy.with_exploration(0.0).marginals_on(part.X, part.actions)
        values = cost_model.effects(part.X, part.actions)
        effects = np.empty((log.X.shape[0], *values.shape[1:])) if effects is None else effects
        effects[inside] = values
    model = replace(models[-1], model=TabularModel(effects))
    return TabularPolicy.for_log(log_prob, mean, log, final.policy.explore), model


def describe_blocks(
    blocks: RowBlocks, terms: Sequence[BlockTerms], log: BanditLog, confidence: float, first: int = 0
) -> list[dict[str, object]]:
    """Return the first and the last time, the rows and the difference of each block.

    Without times, first and last are places in the order of the blocks, after ``first`` rows before the blocks.
    Differences are costs; NaN in a block that says nothing about its policy.
    """
    time, is_dated, entries, end = log.column("time"), log.description.is_dated, [], first
    for number, part in enumerate(terms, 1):
        rows, (low, high) = blocks.number == number, part.interval(confidence)
        count = int(log.copies[rows].sum())
        ends: Any = end + 1, end + count
        if time is not None:
            ends = float(time[rows].min()), float(time[rows].max())
        if is_dated:
            ends = tuple(str(np.datetime64(int(value), "us").astype("datetime64[s]")) for value in ends)
        change = {"change": part.mean, "low": low, "high": high}
        entries.append({"first": ends[0], "last": ends[1], "rows": count, **change})
        end += count
    return entries


@dataclass(frozen=True, eq=False)
class RowBlocks:
    """Blocks of time in a log, each with the policy that was learned before it.

    Attributes
    ----------
    number : int array (n,)
        Block of each row, from 1 to J.
    weights : array (J,), optional
        Weights of the blocks; by default those that stabilise the variance.
    """

    number: np.ndarray
    weights: np.ndarray | None = None

    def summarize(self, evaluation: Evaluation, settings: CertificateSettings, sign: int = 1) -> list[BlockTerms]:
        """Return the summary of the differences from the baseline in each block, times a sign."""
        parts = [restrict(evaluation, self.number == number) for number in range(1, self.number.max() + 1)]
        return [summarize_block(part, settings, sign) for part in parts]

    def certify(
        self, evaluation: Evaluation, settings: CertificateSettings, sign: int = 1
    ) -> tuple[float, InputError | None]:
        """Return an upper (sign 1) or lower (−1) bound on the weighted mean, or ±∞ and why there is none."""
        result = bound_blocks(self.summarize(evaluation, settings, sign), settings.bound.confidence, self.weights)
        if np.isinf(result.bound):
            return sign * np.inf, InputError("the differences do not vary in any block")
        if result.skewness > LARGEST_SKEWNESS:
            reason = (
                f"the skewness of its mean is {result.skewness:.2g}, and the bound needs at most {LARGEST_SKEWNESS}"
            )
            return sign * np.inf, RareRowsError(f"rare, large costs dominate the estimate: {reason}")
        return sign * result.bound, None


def restrict(evaluation: Evaluation, rows: np.ndarray) -> Evaluation:
    """Return the evaluation on selected rows, (n,), of its log, whose policies are tables of probabilities."""
    log = evaluation.log
    part, contexts = log.take(rows), np.unique(log.context[rows])
    effects, unknown = evaluation.effects, replace(evaluation, logging_policy=None)
    restricted = unknown.map_policies(part, lambda policy: restrict_policy(policy, log, rows))
    model = None if effects is None else TabularModel(effects).select(contexts, log.actions)
    known = None if evaluation.logging_policy is None else known_logging_policy(part)
    return replace(restricted, logging_policy=known, cost_model=model)


def restrict_policy(policy: Any, log: BanditLog, rows: np.ndarray) -> TabularPolicy:
    """Return the probabilities of a policy on selected rows, (n,), of a log."""
    selected = policy.select(np.unique(log.context[rows]), log.actions)
    return replace(selected, log_prob=policy.log_prob[rows], Y=policy.Y[rows])
