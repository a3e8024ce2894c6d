"""Certificates that hold at every number of rows together, without a limit on the importance weights.

The terms z of a policy are at most B, which is known. Given the earlier rows, each z has a mean of at least the
policy's cost. The mean equals the cost if the logging policy takes every action that the policy takes. Otherwise the
missing rows count as the largest cost. So no test of overlap is needed, and the logging policy may change with earlier
rows. With the reward r = c_max − c ≥ 0 and the weight w = π/p:

======================  ====================================================================  =================
estimate                z                                                                     B
======================  ====================================================================  =================
ips                     c_max − w r                                                           c_max
ips, paired             (1 − w) r                                                             c_max − c_min
dr                      c_max − w (r − min(r̂, k/w)) − Σ_a π(a) min(r̂(a), k/w(a))              c_max + k
dr, paired              z of dr minus c                                                       c_max − c_min + k
ips, with a baseline    (w_b − w) r                                                           M (c_max − c_min)
======================  ====================================================================  =================

Here w(a) = π(a)/π0(a), r̂ is the modelled reward within [0, c_max − c_min], and k = 2 (c_max − c_min). "Paired" is the
difference from the logged costs. A baseline π_b has the weight w_b = π_b/p ≤ M. M must be known, and the logging policy
must take every action that the baseline takes: rewards of missing actions would make the baseline look too bad. The
bound is the method "anytime" of :func:`drcrm.certificates.upper_bound`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from drcrm.arrays.number_formats import format_number
from drcrm.arrays.validation import check_choice
from drcrm.cost_models.base import action_effects
from drcrm.errors import InputError
from drcrm.estimates import AUTO, EVALUATIONS, ROBUST, UNBIASED, default_estimate
from drcrm.evaluation.terms.policy_on_log import PolicyOnLog
from drcrm.logging_policy import SupportedModel, misses_propensities
from drcrm.policies.prepared_log import modelled_cost

if TYPE_CHECKING:
    from drcrm.evaluation.evaluation import Evaluation

ROUNDING = 1e-6  # relative, of weights
TRUNCATION = 2  # k in units of the range of the costs


def choose_anytime_estimate(
    evaluation: Evaluation, estimate: Any, cost_range: Any, largest_weight: float | None = None
) -> str:
    """Return the estimate, "ips" or "dr".

    "auto" is "dr" if π0, a cost model and the policy's probabilities of all actions are known, and the baseline is not
    a policy.

    Raise InputError without a range of costs, for another estimate, for a baseline without a largest weight, and if
    "dr" lacks something that it needs.
    """
    if cost_range is None:
        raise InputError("the method anytime needs cost_range=, the least and the largest possible cost")
    has_policy = isinstance(evaluation.baseline, PolicyOnLog)
    if has_policy and largest_weight is None:
        raise InputError(
            "the method anytime needs largest_weight=, a known limit on the baseline's importance weights: their "
            "largest value in the log is not such a limit. Or set baseline='logging'"
        )
    estimate = check_choice([AUTO, UNBIASED, ROBUST], estimate, "estimate of the method anytime")
    lacking = ""
    if not evaluation.log.actions.are_choices:
        lacking = "one of K actions or lists of actions, not label vectors"
    elif evaluation.cost_model is None:
        lacking = "cost_model=, a cost model that was fitted to earlier rows"
    elif _logging_policy(evaluation) is None:
        lacking = (
            "logging_policy=, the policy that logged the rows: that of the cost model is unknown, or has other "
            "probabilities than the propensities of the log"
        )
    elif misses := misses_propensities(_logging_policy(evaluation), evaluation.log):
        lacking = (
            f"logging_policy= with the propensities of the log, which differ by up to {format_number(misses)} times"
        )
    elif not evaluation.policy.knows_all_actions:
        lacking = "the policy's probabilities of all actions"
    elif has_policy:
        lacking = "baseline='logging' or None"
    if estimate == AUTO:
        return default_estimate(not lacking, UNBIASED)
    if EVALUATIONS[estimate].kind.uses_model and lacking:
        raise InputError(f"the estimate {estimate!r} by anytime needs {lacking}")
    return estimate


def anytime_terms(
    evaluation: Evaluation, costs: tuple[float, float], largest_weight: float | None = None, factor: float = 1.0
) -> tuple[np.ndarray, float]:
    """Return the terms of the policy, or of its difference from the baseline, (n,), and their largest value B.

    ``largest_weight`` is M, for a baseline that is a policy. The costs of the baseline are multiplied by ``factor`` f,
    at least 0: z is (f w_b − w) r + (1 − f) c_max for a policy.
    """
    log, (least, largest), baseline = evaluation.log, costs, evaluation.baseline
    weight, reward, span = evaluation.policy.importance, largest - log.cost, largest - least
    z, high = largest - weight * reward, largest
    if EVALUATIONS[evaluation.estimate].kind.uses_model:
        high += TRUNCATION * span
        z += _control_variate(evaluation, weight, costs)
    if isinstance(baseline, str):
        z, high = z - factor * log.cost, high - factor * least
    elif baseline is not None and largest_weight is not None:
        of_baseline = baseline.importance
        if (of_baseline > largest_weight * (1 + ROUNDING)).any():
            row = int(of_baseline.argmax())
            raise InputError(
                f"the baseline's weight is {of_baseline[row]:.6g} in row {row}, expected at most the known limit "
                f"{largest_weight:.6g}"
            )
        rest = (1 - factor) * largest
        z = (factor * np.minimum(of_baseline, largest_weight) - weight) * reward + rest
        high = factor * largest_weight * span + rest
    return np.minimum(z, high), high


def _control_variate(evaluation: Evaluation, weight: np.ndarray, costs: tuple[float, float]) -> np.ndarray:
    """Return w t(x, a) − Σ_b π(b) t(x, b) of each row, (n,), where t = min(r̂, k/w) is the truncated modelled reward."""
    log, actions, (least, largest) = evaluation.log, evaluation.log.actions, costs
    limit = TRUNCATION * (largest - least)
    effects = action_effects(evaluation.cost_model, log.X, actions)
    reward = np.clip(largest - effects, 0, largest - least)
    mean = evaluation.policy.mean("the modelled reward")
    logging_mean = _logging_policy(evaluation).marginals_on(log.X, actions, "logging policy", "the modelled reward")
    with np.errstate(divide="ignore", invalid="ignore"):
        truncated = np.where(mean > 0, np.minimum(reward, limit * logging_mean / mean), reward)
        of_rows = weight * np.minimum(modelled_cost(log, reward), np.where(weight > 0, limit / weight, np.inf))
    return of_rows - actions.expected_cost(mean, truncated)[log.context]


def _logging_policy(evaluation: Evaluation) -> Any:
    """Return π0 from the argument, or from the cost model; None if it is unknown, estimated, or not that of the log."""
    model = evaluation.cost_model
    if evaluation.logging_policy is None and isinstance(model, SupportedModel):
        known = None if getattr(model.logging.policy, "features", None) else model.logging.known_on(evaluation.log)
        return known and known.policy
    return evaluation.logging_policy
