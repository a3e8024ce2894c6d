"""Policy trees within the limits of a log's mapping, and within other values of one of these limits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import toms748

from drcrm.data.bandit_log import BanditLog
from drcrm.evaluation.policy_terms import doubly_robust_scores
from drcrm.logging_policy import SUPPORT
from drcrm.policies.exponential import SoftmaxPolicy
from drcrm.selection.limits.prices import MixedTree, Problem, best_mixed_tree
from drcrm.selection.limits.training_limits import TrainingLimits, sample_contexts

POINTS = 6  # values of a limit between its ends, besides the one in the mapping
DIGITS, ROUNDING = 3, 0.005  # of these values, and their largest relative error


@dataclass(frozen=True, eq=False)
class TreeLearner:
    """The best trees of a depth for the doubly robust scores of a log.

    Attributes
    ----------
    log : BanditLog
        Log with one of K actions in each row. Trees split the columns of its table.
    depth : int ≥ 0
        With depth 0, a policy takes a single action.
    scores : array (m, K)
        Sums of the scores of each context.
    counts : array (m,)
        Rows of each context.
    limits : TrainingLimits or None
    """

    log: BanditLog
    depth: int
    scores: np.ndarray
    counts: np.ndarray
    limits: TrainingLimits | None

    @classmethod
    def of(cls, log: BanditLog, depth: int, support: float = SUPPORT, explore: float = 0.0) -> TreeLearner:
        """Return the learner on a log; InputError if its actions are not one of K.

        Parameters
        ----------
        log : BanditLog
        depth : int
        support : float
            τ of the support rule.
        explore : float
            Share of uniform actions that will join the policy.
        """
        log.actions.require_classes("a policy tree")
        log = sample_contexts(log)
        scores = doubly_robust_scores(log, support=support)
        counts = np.bincount(log.context, log.count, log.n_contexts)
        return cls(log, depth, scores, counts, TrainingLimits.of(log, explore, support))

    def learn(self) -> SoftmaxPolicy:
        """Return the policy of the best tree, without uniform actions. To meet a limit, leaves may draw actions."""
        if self.limits is None:
            tree, _ = self._search(self.scores)
            return self._policy(tree)
        return self._policy(self._best(self.limits.limits).as_tree())

    def learn_along(self, number: int) -> Iterator[tuple[float, SoftmaxPolicy]]:
        """Yield values of a limit, from tight to the smallest one that binds no tree, and the best tree within each.

        The other limits stay. The value in the mapping is among them, unless it is larger than all others.
        """
        limits: Any = self.limits
        aim, (low, high) = limits.aims[number], limits.ends[number]
        use = self._best(self._limits_with(number, limits.costs[number].max())).costs[number]
        own, values = limits.at_most[number], set()
        if aim(low) < use:
            top = toms748(lambda value: aim(value) - use, low, high)
            top = min(top + ROUNDING * abs(top), high)
            values = {float(f"{value:.{DIGITS}g}") for value in np.linspace(low, top, POINTS + 1)[1:]}
        for value in sorted({*values, *[own] * (own <= max(values, default=np.inf))}):
            yield value, self._policy(self._best(self._limits_with(number, aim(value))).as_tree())

    def _limits_with(self, number: int, value: float) -> np.ndarray:
        limits: Any = self.limits
        return np.where(np.arange(len(limits.limits)) == number, value, limits.limits)

    def _best(self, limits: np.ndarray) -> MixedTree:
        known: Any = self.limits
        problem = Problem(self.scores / self.counts[:, None], known.costs, limits, self.counts)
        return best_mixed_tree(problem, lambda scores: self._search(self.counts[:, None] * scores))

    def _search(self, scores: np.ndarray) -> tuple[Any, np.ndarray]:
        from drcrm.policies.trees.encoded_columns import readable_columns
        from drcrm.policies.trees.search import fit_encoded_tree

        tree = fit_encoded_tree(readable_columns(self.log), self.log.X, scores, self.counts, self.depth)
        return tree, tree.apply_encoded(self.log.X)

    def _policy(self, tree: Any) -> SoftmaxPolicy:
        from drcrm.policies.trees.tree_policy import tree_policy  # imports scikit-learn, which is slow

        return tree_policy(tree, self.log.X)
