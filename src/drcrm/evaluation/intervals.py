"""Estimates of an evaluation with their intervals: the value of the policy, and its difference from the baseline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from drcrm.arrays.validation import check_vector
from drcrm.errors import InputError
from drcrm.estimates import ROBUST, UNBIASED
from drcrm.evaluation.bounds.independent_units import Interval
from drcrm.evaluation.terms.overlap import low_weight_warning, summarize_weights
from drcrm.evaluation.terms.policy_on_log import PolicyOnLog
from drcrm.evaluation.terms.policy_terms import Terms, subtract
from drcrm.risks import MeanRisk

if TYPE_CHECKING:
    from drcrm.evaluation.evaluation import Evaluation

ROUNDING = 1e-9  # relative tolerance for an estimate outside the range of costs


def estimate_value(evaluation: Evaluation, confidence: float) -> Interval:
    """Return the estimate of the policy's cost, or of another risk, with an interval and notes."""
    terms, unknown = evaluation.terms, np.full(len(evaluation.log.cost), np.nan)
    z = terms.linear if isinstance(evaluation.risk, MeanRisk) else unknown
    return _interval(evaluation, z, terms.value, confidence, _notes(evaluation, terms))


def estimate_difference(evaluation: Evaluation, confidence: float) -> Interval:
    """Return the estimate of the policy's cost minus the baseline's, from paired differences of the rows."""
    terms, reference = evaluation.terms, evaluation.reference
    z, notes = subtract(terms.linear, reference.linear), _notes(evaluation, terms)
    if not evaluation.has_logged_costs:
        notes += _notes(evaluation, reference)
    return _interval(evaluation, z, terms.value - reference.value if z.any() else 0.0, confidence, notes)


def evaluate_estimator(estimator: Any, evaluation: Evaluation, confidence: float) -> Interval:
    """Return the mean of an estimator's terms, minus those of the baseline, with its interval.

    Parameters
    ----------
    estimator : object with a method ``terms(log, policy, model)``
    evaluation : Evaluation
        Its cost model is cross-fitted if the estimator uses a model and there is none.
    confidence : float
    """
    name = type(estimator).__name__
    if evaluation.log.Y.ndim != 1:
        raise InputError(f"{name} needs one of K actions or lists, the log has {evaluation.log.actions}")
    evaluation = evaluation.by(ROBUST if getattr(estimator, "uses_model", True) else UNBIASED)
    log, model = evaluation.log, evaluation.effects

    def terms_of(side: PolicyOnLog) -> np.ndarray:
        return check_vector(estimator.terms(log, side.mean(name), model), len(log.Y), f"terms of {name}")

    z, *compared = [*map(terms_of, evaluation.sides), *([log.cost] if evaluation.has_logged_costs else [])]
    z = subtract(z, *compared) if compared else z
    return Interval.of(z, log, confidence, **summarize_weights(evaluation.policy.importance, log), estimate=name)


def _interval(
    evaluation: Evaluation, z: np.ndarray, value: float, confidence: float, notes: tuple[str, ...]
) -> Interval:
    terms, log, limit = evaluation.terms, evaluation.log, evaluation.limit
    return Interval.of(
        z,
        log,
        confidence,
        value,
        **summarize_weights(terms.importance, log),
        support=evaluation.unsupported_mass,
        estimate=evaluation.estimate,
        clip=limit,
        clipped=0.0 if limit is None else terms.clipped,
        notes=notes,
    )


def _notes(evaluation: Evaluation, terms: Terms) -> tuple[str, ...]:
    """Return why to doubt a value: a mean weight far below 1, and a value outside the range of the costs."""
    log, value = evaluation.log, terms.value
    low, high = log.cost.min(), log.cost.max()
    tolerance = ROUNDING * max(abs(low), abs(high))
    is_outside = evaluation.risk.monotone and not low - tolerance <= value <= high + tolerance
    messages = (
        low_weight_warning(terms.importance, log) if evaluation.kind.uses_weights else "",
        f"the estimate by {evaluation.estimate!r} is {value:.6g}, outside the range of the logged costs, {low:.6g} to "
        f"{high:.6g}"
        if is_outside
        else "",
    )
    return tuple(filter(None, ["; ".join(filter(None, messages))]))
