"""Judge the constraints of a mapping, guardrails and limits, on rows that trained no policy.

**Guardrails** are outcomes that a better policy must not worsen by more than a margin.
For each guardrail, let d be the policy's mean cost minus that of the reference, and m its margin. The reference is the
logging policy, or a baseline. The guardrail holds if the upper bound on d is below m. All guardrails must hold for the
verdict *better*, so the verdict is false only if one bound is false: the bounds need no correction for the number of
guardrails. With several candidates, each bound has the level δ/k, where k is the effective number of candidates for its
outcome: see :mod:`drcrm.selection.candidates`. If the margin is a share q of the reference's mean cost v0, the
guardrail holds if the upper bound on d − q v0 is below 0. This bound comes from the terms z − (1 + q) c of the rows,
with the terms of a baseline in place of c, so it also covers the error of v0.

The estimate is that of the verdict. Each outcome has its own cost model, which is cross-fitted on the same rows. It is
trusted for the same actions as the main outcome's cost model; the other actions have the largest logged cost.

**Limits** bound a policy's mean price of actions. With the price A(a) of each action, row i has the term z_i = Σ_a
π(a|x_i) A(a), with the policy's share of uniform actions. It needs no weights and no outcomes. The limit holds if the
upper bound on the mean of z is at most the limit. The bound is that of :mod:`drcrm.evaluation.bounds.asymptotic_bounds`
with the skewness of z. The log can lack the contexts in which actions cost the most. Their share is at most 1 − δ^{1/n}
if none of n units has one. The bound is at least the mean plus one standard error plus the cost of this share. In
blocks, the bound is on the mean with the weights of the verdict.

A verdict is false only if one of its bounds is. So the bounds share no δ with the main outcome, and like those of
guardrails they have the level δ/k. Prices count as known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from drcrm.cost_models.base import TabularModel, action_effects
from drcrm.data.bandit_log import BanditLog
from drcrm.errors import InputError
from drcrm.evaluation.bounds.asymptotic_bounds import BlockTerms, bound_blocks, corrected_bound
from drcrm.evaluation.bounds.betting_mixture import BettingMixture, BettingUnits
from drcrm.evaluation.bounds.independent_units import Interval, mean_and_deviation, unit_values
from drcrm.evaluation.bounds.upper_bound import ANYTIME, as_bound
from drcrm.evaluation.evaluation import Evaluation
from drcrm.logging_policy import SupportedModel
from drcrm.logs.block_policies import RowBlocks
from drcrm.logs.diagnostics.check import infer_cost_range, time_order
from drcrm.logs.diagnostics.comparison.judged_constraints import JudgedGuardrail, JudgedLimit
from drcrm.logs.diagnostics.comparison.policy_comparison import compare
from drcrm.logs.diagnostics.comparison.reference import ComparisonSettings, Reference
from drcrm.logs.diagnostics.comparison.verdict import ROUNDING
from drcrm.logs.estimated_propensities import FORECASTS
from drcrm.logs.training_limits import action_prices
from drcrm.mapping.entries import ActionLimit, Guardrail
from drcrm.policies.tabular import policy_for_log


@dataclass(frozen=True, eq=False)
class GuardedOutcomes:
    """The guardrails of a log, each with the log of its outcome and a cost model of it.

    Attributes
    ----------
    guardrails : sequence of Guardrail
    evaluations : list of Evaluation
        One for each guardrail. Their policy is a placeholder.
    estimate : str
    """

    guardrails: Sequence[Guardrail]
    evaluations: list[Evaluation]
    estimate: str

    @classmethod
    def of(cls, log: BanditLog, estimate: str, reference: Reference | None = None) -> GuardedOutcomes:
        """Return the outcomes of the guardrails in the mapping of a log.

        Parameters
        ----------
        log : BanditLog
            Rows that did not train the policies. A log that no file describes has no guardrails.
        estimate : "dr", "snips" or "ips"
            The estimate of the verdict.
        reference : Reference, optional
            Reference of the comparison; by default the logging policy.
        """
        guardrails = () if log.description is None else log.description.mapping.guardrails
        make = (reference or Reference()).evaluation
        logs = [_with_outcome(log, place) for place in range(len(guardrails))]
        return cls(guardrails, [make(log.propensity, part).by(estimate) for part in logs], estimate)

    def __iter__(self) -> Iterator[tuple[Guardrail, Evaluation]]:
        return zip(self.guardrails, self.evaluations, strict=True)

    def with_support(self, model: Any) -> GuardedOutcomes:
        """Return the outcomes with cost models that obey the support rule of ``model``, a cost model of a policy."""
        if not isinstance(model, SupportedModel) or any(part.cost_model is None for part in self.evaluations):
            return self
        return replace(self, evaluations=[_restrict_model(part, model) for part in self.evaluations])

    def with_margin(self, number: int, margin: float) -> GuardedOutcomes:
        """Return one of the guardrails, with another margin."""
        guardrail = replace(self.guardrails[number], margin=margin)
        return replace(self, guardrails=[guardrail], evaluations=[self.evaluations[number]])

    def unit_terms(self, policy: Any) -> dict[str, Any]:
        """Return the terms whose means the bounds of guardrails are on, by independent units, and their counts."""
        return {
            rail.key: unit_values(part.log, part.of_policy(policy).terms.z - rail.baseline_factor * part.reference.z)
            for rail, part in self
        }

    def judge(self, policy: Any, settings: ComparisonSettings) -> list[JudgedGuardrail]:
        """Return the result of each guardrail for a policy; ``settings`` are those of the main outcome."""
        settings = replace(settings, estimate=self.estimate)
        return [_judge(guardrail, evaluation, policy, settings) for guardrail, evaluation in self]


def require_ranges(log: BanditLog) -> None:
    """Raise InputError if the outcome of a guardrail is outside of its range."""
    for place, guardrail in enumerate(log.description.mapping.guardrails):
        outcome = guardrail.sign * np.asarray(log.column("guardrails")[:, place]) + 0.0
        low, high = guardrail.as_dict().get("range", (-np.inf, np.inf))
        if not low <= outcome.min() <= outcome.max() <= high:
            raise InputError(
                f"{guardrail.label} must be in its range, [{low:g}, {high:g}]; its values are from "
                f"{outcome.min():g} to {outcome.max():g}"
            )


def require_keys(log: BanditLog) -> None:
    """Raise InputError that names all keys that the mapping lacks for bounds by betting, with values of these rows."""
    mapping, lacking = log.description.mapping, []
    if log.units is not None and mapping.most_rows is None:
        largest = np.bincount(log.unit_numbers, log.count).max()
        lacking.append(
            "most_rows in the mapping, the largest number of rows that a group can have, or the largest weight "
            f"1/(1 - pdrop) of a row (here {largest:g})"
        )
    costs = "costs, which are negated rewards" if log.description.is_reward else "costs"
    outcomes = [("cost_range in the mapping", costs, mapping.cost_range, log.description.is_reward, log.cost, 1)]
    for place, rail in enumerate(mapping.guardrails):
        key, cost = f"range in the {rail.label.rstrip(',')}", np.asarray(log.column("guardrails")[:, place])
        outcomes.append((key, "outcomes", rail.cost_range, rail.is_reward, cost, rail.sign))
    for key, name, known, is_reward, cost, sign in outcomes:
        if infer_cost_range(known, cost, is_reward) is None:
            ends = sorted(0.0 + sign * float(end) for end in (cost.min(), cost.max()))
            lacking.append(f"{key}: [least, largest], the possible {name} (here {ends})")
    if lacking:
        raise InputError(
            f"--anytime needs {'; '.join(lacking)}. The values must hold for later rows, too. Or add --asymptotic, "
            "whose bounds need none of them"
        )


def _with_outcome(log: BanditLog, place: int) -> BanditLog:
    """Return the log with the costs of a guardrail, and their forecasts, which come after those of the main outcome."""
    log, forecasts = log.with_cost(np.array(log.column("guardrails")[:, place])), log.column(FORECASTS)
    if forecasts is None or log.rows is None:
        return log
    return log.replace(rows=log.rows.assign(**{FORECASTS: forecasts[:, [place + 1]]}))


def _judge(guardrail: Guardrail, evaluation: Evaluation, policy: Any, settings: ComparisonSettings) -> JudgedGuardrail:
    """Return the result of the comparison of a guardrail's outcome."""
    choices = settings.choices_of(guardrail.name)
    settings = replace(
        settings,
        cost_range=guardrail.cost_range,
        reference=Reference(factor=guardrail.baseline_factor),
        effective_choices=choices,
    )
    judged = evaluation.of_policy(policy_for_log(policy, evaluation.log))
    comparison = compare(judged, settings, certifies_cost=False)
    rounding = ROUNDING * float(np.abs(evaluation.log.cost).max())
    return JudgedGuardrail.of(guardrail, comparison, choices, rounding)


def _restrict_model(evaluation: Evaluation, model: SupportedModel) -> Evaluation:
    log, fitted = evaluation.log, evaluation.cost_model
    limits = log.actions.cost_limits(log.cost, action_effects(fitted, log.X, log.actions))
    effects = replace(model, model=fitted, limits=limits).effects(log.X, log.actions)
    return replace(evaluation, cost_model=TabularModel(effects))


@dataclass(frozen=True, eq=False)
class LimitedLog:
    """The rows that test policies, with the limits of their mapping.

    Attributes
    ----------
    log : BanditLog
    limits : sequence of ActionLimit
    prices : list of array (K,)
    """

    log: BanditLog
    limits: Sequence[ActionLimit]
    prices: list[np.ndarray]

    @classmethod
    def of(cls, log: BanditLog) -> LimitedLog:
        """Return the rows of a log; InputError if a limit names an action that the log does not know."""
        limits = () if log.description is None else log.description.mapping.limits
        return cls(log, limits, [action_prices(limit, log) for limit in limits])

    def with_limit(self, number: int, at_most: float) -> LimitedLog:
        """Return the rows with one of the limits, at another value."""
        return LimitedLog(self.log, [replace(self.limits[number], at_most=at_most)], [self.prices[number]])

    def terms(self, policy: Any) -> list[np.ndarray]:
        """Return z of each limit, (n,); InputError if the policy's probabilities of all actions are unknown."""
        if not self.limits:
            return []
        known = policy_for_log(policy, self.log)
        mean = known.marginals_on(self.log.X, self.log.actions, purpose="a limit on actions")
        return [(mean @ prices)[self.log.context] for prices in self.prices]

    def unit_terms(self, policy: Any) -> dict[str, Any]:
        """Return the terms of limits by independent units, and their counts."""
        terms = zip(self.limits, self.terms(policy), strict=True)
        return {limit.key: unit_values(self.log, z) for limit, z in terms}

    def judge(self, policy: Any, settings: Any, watched: str = "") -> list[JudgedLimit]:
        """Return the result of each limit for a policy.

        Parameters
        ----------
        policy : any policy that :func:`drcrm.off_policy_value` accepts
        settings : ComparisonSettings
        watched : str
            With bounds at every look, their method: "anytime" or "confidence_sequence".
        """
        try:
            terms: Sequence[Any] = self.terms(policy)
        except InputError as error:
            unknown = Interval.of(np.full(len(self.log.Y), np.nan), self.log, settings.confidence)
            return [
                JudgedLimit(limit, unknown, limit.at_most, refusal=str(error), prices=self._names(prices))
                for limit, prices in zip(self.limits, self.prices, strict=True)
            ]
        return [self._judge(place, z, settings, watched) for place, z in enumerate(terms)]

    def _judge(self, place: int, z: np.ndarray, settings: Any, watched: str) -> JudgedLimit:
        limit, prices, refusal, ends = self.limits[place], self.prices[place], "", [np.inf, np.inf]
        choices = settings.choices_of(limit.key)
        error, mean = (1 - settings.confidence) / choices, Interval.of(z, self.log, settings.confidence)
        range_ = float(prices.min()), float(prices.max())
        try:
            for side, sign in enumerate((1, -1)):
                high, level = max(sign * end for end in range_), 1 - error / (side + 1)
                if watched:
                    low = min(sign * end for end in range_)
                    ends[side] = _bound_at_every_look(sign * z, self.log, level, watched, low, high)
                elif settings.blocks is None:
                    ends[side] = _bound(sign * z, self.log, level, high)
                else:
                    ends[side] = _bound_in_blocks(sign * z, self.log, level, high, settings.blocks)
        except InputError as raised:
            refusal = str(raised)
        if settings.blocks is not None and settings.blocks.weights is not None:
            means = [block.mean for block in _summarize(z, self.log, range_[1], 0.5, settings.blocks)]
            mean = mean.shifted(float(settings.blocks.weights @ means - mean))
        names = self._names(prices)
        return JudgedLimit(limit, mean, limit.at_most, ends[0], -ends[1], refusal, choices, names)

    def _names(self, prices: np.ndarray) -> dict[str, float]:
        return dict(zip(map(str, self.log.encoding.names), prices.tolist(), strict=True))


def _bound(z: np.ndarray, log: BanditLog, level: float, high: float) -> float:
    """Return the upper bound on the mean of terms of at most ``high``."""
    values, count = unit_values(log, z)
    skewness, charge = _tails(values, count, level, high)
    return corrected_bound(values, count, level, skewness, charge)


def _tails(values: np.ndarray, count: np.ndarray, level: float, high: float) -> tuple[float, float]:
    """Return the skewness of the mean of units, at least 0, and the cost of contexts that the units lack."""
    n = count.sum()
    if n < 2:
        raise InputError(f"a bound on a limit needs at least two independent units, got {n:.0f}")
    mean, deviation = mean_and_deviation(values, count, n)
    third = float(count @ (values - mean) ** 3 / n)
    skewness = max(third, 0.0) / deviation**3 / np.sqrt(n) if deviation > 0 else 0.0
    return float(skewness), max(high - mean, 0.0) * float(-np.expm1(np.log1p(-level) / n))


def _summarize(z: np.ndarray, log: BanditLog, high: float, level: float, blocks: RowBlocks) -> list[BlockTerms]:
    parts = []
    for number in range(1, int(blocks.number.max()) + 1):
        rows = blocks.number == number
        values, count = unit_values(log.take(rows), z[rows])
        parts.append(BlockTerms.of(values, count, *_tails(values, count, level, high)))
    return parts


def _bound_in_blocks(z: np.ndarray, log: BanditLog, level: float, high: float, blocks: RowBlocks) -> float:
    """Return the upper bound on the weighted mean of the blocks; if no block's terms vary, that of all rows."""
    bound = bound_blocks(_summarize(z, log, high, level, blocks), level, blocks.weights).bound
    return bound if np.isfinite(bound) else _bound(z, log, level, high)


def _bound_at_every_look(z: np.ndarray, log: BanditLog, level: float, method: str, low: float, high: float) -> float:
    """Return the upper bound on the mean per row of terms from ``low`` to ``high``; groups need bets in their order."""
    if method == ANYTIME and log.units is not None and low < high:
        order = np.argsort(time_order(log), kind="stable")
        units = BettingUnits.of(log, True, log.description.mapping.most_rows, order)
        rewards = units.sums((high - z[units.rows]) / (high - low))[None]
        sizes = {"sizes": units.sizes, "largest_size": units.largest_size}
        mixture = BettingMixture(rewards, np.zeros_like(rewards), 1 - level, True, **sizes)
        return high - (high - low) * mixture.lower_bound()
    values, count = unit_values(log, z)
    return float(as_bound(level, method, high=high + ROUNDING if method == ANYTIME else None)(values, count))
