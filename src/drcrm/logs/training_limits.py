"""Limits of a log's mapping on the rows that train a policy, and policies and trees within them.

A limit must be shown on other rows, so policies are learned within a narrower one. Let sd be the largest standard
deviation that prices can have if their mean is the limit and they are from the smallest to the largest price. With n
units that train, and a third as many that test, the slack is

    sd (z_0.95/√(n/3) + z_0.9 √(3/n + 1/n))

A policy that just meets the narrower limit is then shown to meet its limit with probability 0.9. A guardrail's slack
uses the standard deviation of the doubly robust costs of single actions. Its narrower margin never requires that the
outcome improves, unless the margin does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.optimize import toms748
from scipy.special import ndtri

from drcrm.arrays.validation import find_constant_features
from drcrm.cost_models.ridge_model import CostModel
from drcrm.data.bandit_log import BanditLog
from drcrm.errors import InputError
from drcrm.evaluation.policy_terms import doubly_robust_scores
from drcrm.logging_policy import SUPPORT
from drcrm.mapping.entries import ActionLimit
from drcrm.optimization.prices import MixedTree, Problem, best_mixed_tree, find_prices, solve_mixture
from drcrm.policies.exponential import SoftmaxPolicy

MOST_CONTEXTS = 2**20  # of a search, evenly spaced if there are more
MOST_ACTIONS = 32  # with more, guardrails only test policies, because their scores would take too long
TESTED = 1 / 3  # units that test, in units of those that train
CONFIDENCE, POWER = 0.95, 0.9
GREEDY = 1e3  # spread of the logits of a policy that takes the actions of the least cost
POINTS = 6  # values of a limit between its ends, besides the one in the mapping
DIGITS, ROUNDING = 3, 0.005  # of these values, and their largest relative error


def action_prices(limit: ActionLimit, log: BanditLog) -> np.ndarray:
    """Return the prices of all actions of a log, (K,); InputError if a limit names other actions.

    The price of an action from a column is its mean over the rows with the action, with weights 1/p.
    """
    names = [str(name) for name in log.encoding.names]
    limited = [str(limit.action)] if limit.action else [*(limit.prices or ())]
    unknown = [name for name in limited if name not in names]
    if unknown:
        key = "limits" if limit.prices is None else "budget.prices"
        raise InputError(f"{key} has the action {unknown[0]!r}, expected actions of the log: {', '.join(names)}")
    if limit.column is not None:
        weights = log.count / log.propensity
        price, total = (np.bincount(log.Y, weights * v, len(names)) for v in (log.column("prices"), 1.0))
        return price / np.where(total > 0, total, 1)
    if limit.prices is None:
        return np.array([float(name == limit.action) for name in names])
    if absent := [name for name in names if name not in limit.prices]:
        raise InputError(f"budget.prices lacks the action {absent[0]!r}; write the prices of all actions, 0 if free")
    return np.array([limit.prices[name] for name in names])


def require_attainable(log: BanditLog) -> None:
    """Raise InputError unless a policy with the share of uniform actions of a log's mapping can meet all limits."""
    mapping = log.description.mapping
    if not mapping.limits:
        return
    log.actions.require_classes("limits and budget")
    prices = np.array([action_prices(limit, log) for limit in mapping.limits])
    limits = np.array([limit.at_most for limit in mapping.limits])
    explored = (1 - mapping.explore) * prices + mapping.explore * prices.mean(axis=1, keepdims=True)
    weights, _, _ = solve_mixture(np.zeros(prices.shape[1]), explored, limits, np.ones((1, prices.shape[1])))
    least = explored @ weights
    if beyond := np.flatnonzero(least > limits + 1e-7 * np.abs(limits)).tolist():
        limit = mapping.limits[beyond[0]]
        raise InputError(
            f"no policy can keep the {limit.name} at {limit.at_most:g}: with the other limits, and explore: "
            f"{mapping.explore:g}, it is at least {least[beyond[0]]:g}. Allow more, or explore less"
        )


@dataclass(frozen=True, eq=False)
class TrainingLimits:
    """Limits on a policy without its share ε of uniform actions, on the contexts of a log.

    Attributes
    ----------
    log : BanditLog
        Training rows without rows of count 0.
    costs : list of L arrays (K,) or (m, K)
        Price of each action, or doubly robust costs of a guardrail's outcome.
    at_most : list of L floats
        Limits and margins of the mapping.
    models : list of CostModel or None
        Linear model of each guardrail's outcome; None for prices.
    places : list of int
        Place of each guardrail's outcome in the log's column of guardrails; −1 for prices.
    aims : list of callable
        The narrower limit for each value of a limit or margin.
    ends : list of (float, float)
        The smallest value of each limit or margin that a policy can meet, and one that binds no policy.
    counts : array (m,)
        Rows of each context.
    """

    log: BanditLog
    costs: list[np.ndarray]
    at_most: list[float]
    models: list[CostModel | None]
    places: list[int]
    aims: list[Callable[[float], float]]
    ends: list[tuple[float, float]]
    counts: np.ndarray

    @classmethod
    def of(cls, log: BanditLog, explore: float, support: float = SUPPORT) -> TrainingLimits | None:
        """Return the narrower limits of a log's mapping; None without limits and guardrails of one of K actions."""
        mapping = log.description and log.description.mapping
        has_rails = bool(mapping and mapping.guardrails) and (log.actions.n_classes or np.inf) <= MOST_ACTIONS
        if not log.actions.n_classes or not (has_rails or (mapping and mapping.limits)):
            return None
        log = sample_contexts(log)
        counts = np.bincount(log.context, log.count, log.n_contexts)
        parts: list[Any] = [_price_limit(limit, log, explore) for limit in mapping.limits]
        rails = range(len(mapping.guardrails) if has_rails else 0)
        parts += filter(None, (_guardrail_limit(place, log, explore, support, counts) for place in rails))
        if not parts:
            return None
        costs, at_most, models, places, aims, ends = zip(*parts, strict=True)
        return cls(log, [*costs], [*at_most], [*models], [*places], [*aims], [*ends], counts)

    @cached_property
    def limits(self) -> np.ndarray:
        """The narrower limits, (L,)."""
        return np.array([aim(value) for aim, value in zip(self.aims, self.at_most, strict=True)])

    @cached_property
    def modelled(self) -> list[np.ndarray]:
        """Prices of the actions, (K,), and modelled costs of the guardrails' outcomes, (m, K)."""
        return [
            cost if model is None else model.effects(self.log.X, self.log.actions)
            for cost, model in zip(self.costs, self.models, strict=True)
        ]

    def price(self, log: BanditLog) -> BanditLog:
        """Return a log of the same kind whose costs include the prices, or the log itself if they are 0.

        At these prices the actions of the least cost, by a ridge regression of the costs, meet the limits.
        """
        effects = CostModel().fit(self.log).effects(self.log.X, self.log.actions)
        unit = (np.ptp(effects) or 1.0) / GREEDY
        prices = unit * find_prices(-effects / unit, self.modelled, self.limits, self.counts)
        if not prices.any():
            return log
        cost = np.array(log.cost, dtype=float)
        for price, of_actions, place in zip(prices, self.costs, self.places, strict=True):
            cost += price * (of_actions[log.Y] if place < 0 else np.asarray(log.column("guardrails")[:, place]))
        return log.with_cost(cost)

    def adjust(self, policy: Any) -> SoftmaxPolicy:
        """Return the policy within the limits that is closest to a policy: see :mod:`.prices`.

        A guardrail's price multiplies the linear model of its outcome, so the result has the same form. The limit on
        the modelled costs is moved by the mean error of the model at the policy.
        """
        X, actions = self.log.X, self.log.actions
        probability, logits = policy.with_exploration(0.0).marginals_on(X, actions), policy.decision_function(X)
        logits = logits if actions.eligible is None else np.where(actions.eligible, logits, -np.inf)
        share = self.counts / self.counts.sum()
        means = np.array([share @ (probability * cost).sum(axis=1) for cost in self.costs])
        if (means <= self.limits).all():
            return policy
        errors = means - [share @ (probability * cost).sum(axis=1) for cost in self.modelled]
        prices = find_prices(logits, self.modelled, self.limits - errors, self.counts)
        coef, intercept = policy.coef.copy(), policy.intercept.copy()
        constant = np.flatnonzero(find_constant_features(X, self.log.feature_range))[-1:]
        for price, cost, model in zip(prices, self.costs, self.models, strict=True):
            change = cost if model is None else model.intercept_
            if model is not None:
                coef[: len(model.coef_)] -= price * model.coef_
            if constant.size:  # files of policies have no intercepts
                coef[constant] -= price * change / X[:1, constant].sum()
            else:
                intercept -= price * change
        return SoftmaxPolicy(coef, intercept, policy.features).with_exploration(policy.explore)


def sample_contexts(log: BanditLog) -> BanditLog:
    """Return a log with at most ``MOST_CONTEXTS`` evenly spaced contexts."""
    if log.n_contexts <= MOST_CONTEXTS:
        return log
    is_used = np.arange(log.n_contexts) % -(-log.n_contexts // MOST_CONTEXTS) == 0
    return log.recount(log.count * is_used[log.context])


def _price_limit(limit: ActionLimit, log: BanditLog, explore: float) -> tuple[Any, ...]:
    """Return the prices of the actions, the limit, no model and no place, the aim, and the ends."""
    prices = action_prices(limit, log)
    low, high = float(prices.min()), float(prices.max())

    def aim(at_most: float) -> float:
        slack = _slack(np.sqrt(max(at_most - low, 0.0) * max(high - at_most, 0.0)), log)
        return max((at_most - slack - explore * prices.mean()) / max(1 - explore, 1e-9), low)

    return prices, limit.at_most, None, -1, aim, (explore * prices.mean() + (1 - explore) * low, high)


def _guardrail_limit(
    place: int, log: BanditLog, explore: float, support: float, counts: np.ndarray
) -> tuple[Any, ...] | None:
    """Return the doubly robust costs of a guardrail, the margin, a model, the place, the aim, and the ends.

    It is None if the margin is relative to a mean that is not positive. The test then explains why it cannot hold.
    """
    guardrail, share = log.description.mapping.guardrails[place], counts / counts.sum()
    outcome = log.with_cost(np.array(log.column("guardrails")[:, place]))
    mean = float(log.count @ outcome.cost / log.size)
    try:
        unit = replace(guardrail, margin=1.0).margin_of(mean)
    except InputError:
        return None
    costs = -doubly_robust_scores(outcome, support=support) / counts[:, None]
    slack = _slack(np.sqrt((share @ (costs - share @ costs) ** 2).mean()), log)
    explored = explore * float(share @ costs.mean(axis=1))

    def aim(margin: float) -> float:
        target = mean + max(unit * margin - slack, min(unit * margin, 0.0))
        return (target - explored) / max(1 - explore, 1e-9)

    ends = min(guardrail.margin, 0.0), float(np.ptp(costs) + slack) / unit
    return costs, guardrail.margin, CostModel().fit(outcome), place, aim, ends


def _slack(deviation: float, log: BanditLog) -> float:
    n = int(log.unit_numbers.max()) + 1
    errors = ndtri(CONFIDENCE) / np.sqrt(TESTED * n) + ndtri(POWER) * np.sqrt((1 + 1 / TESTED) / n)
    return float(deviation * errors)


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
