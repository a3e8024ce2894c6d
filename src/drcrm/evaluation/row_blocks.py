"""Evaluation of a policy that differs between blocks of rows, because each block has the policy learned before it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from drcrm.cost_models.base import TabularModel
from drcrm.data.bandit_log import BanditLog
from drcrm.evaluation.bounds.asymptotic_bounds import LARGEST_SKEWNESS, BlockTerms, bound_blocks
from drcrm.evaluation.certified_terms import CertificateSettings, summarize_block
from drcrm.evaluation.evaluation import Evaluation
from drcrm.policies.tabular import TabularPolicy, known_logging_policy


@dataclass(frozen=True, eq=False)
class RowBlocks:
    """The blocks of the rows of a log.

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

    def certify(self, evaluation: Evaluation, settings: CertificateSettings, sign: int = 1) -> tuple[float, str]:
        """Return an upper (sign 1) or lower (−1) bound on the weighted mean, or ±∞ and why there is none."""
        result = bound_blocks(self.summarize(evaluation, settings, sign), settings.bound.confidence, self.weights)
        if np.isinf(result.bound):
            return sign * np.inf, "the differences do not vary in any block"
        if result.skewness > LARGEST_SKEWNESS:
            skewness = f"{result.skewness:.2g}, and the bound needs at most {LARGEST_SKEWNESS}"
            return sign * np.inf, f"rare, large costs dominate the estimate: the skewness of its mean is {skewness}"
        return sign * result.bound, ""


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
