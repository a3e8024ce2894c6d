"""Off-policy evaluation: estimate a policy's cost, or another risk, from a log."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from drcrm.arrays.validation import check_fraction, check_open_fraction, check_vector
from drcrm.data.bandit_log import BanditLog
from drcrm.errors import InputError, warn_all
from drcrm.estimates import SelfNormalised
from drcrm.evaluation import AUTO, EVALUATIONS, PLAIN, ROBUST, UNBIASED
from drcrm.evaluation.bounds.independent_units import Interval
from drcrm.evaluation.evaluation import Evaluation
from drcrm.evaluation.policy_on_log import PolicyOnLog, PolicySupport, summarize_weights
from drcrm.evaluation.policy_terms import check_radius, subtract
from drcrm.logging_policy import SUPPORT
from drcrm.risks import MeanRisk, Risk
from drcrm.weights import Weight

if TYPE_CHECKING:
    import pandas as pd

SHIFTED = [name for name, entry in EVALUATIONS.items() if entry.kind is SelfNormalised]  # around the environment


def off_policy_value(
    policy: Any,
    log: BanditLog,
    estimate: Any = AUTO,
    risk: Risk | None = None,
    weight: Weight | None = None,
    clip: float | str | None = None,
    cost_model: Any = None,
    support: float = 0.0,
    logging_policy: Any = None,
    confidence: float = 0.95,
    groups: Any = None,
    baseline: Any = None,
    shift: float | None = None,
) -> Interval:
    """Return an estimate of a policy's cost, or of another risk, from a log.

    Parameters
    ----------
    policy : ExponentialPolicy, SoftmaxPolicy, a fitted estimator, array, object or function
        Policy to evaluate. It may also be:

        - an array (n,) with the probability π(a_i|x_i) of each row's logged action;
        - an array with the probabilities of all actions of each context, (m, K) for one of K actions, (m, q) for labels
          and (N,) for lists. "dr", "sndr", "switch_dr" and "dm" need all actions;
        - an object with a method ``log_prob(X, A)`` for logged actions, or ``marginals(X)`` or ``predict_proba(X)`` for
          all actions. The classes of a classifier are the actions 0, 1, 2 …, or their names in the log's file;
        - a function of X that returns the probabilities of all actions.
    log : BanditLog
        Log, usually of rows that the policy was not learned from.
    estimate : str or estimator
        One of the estimates below. By default ("auto") it is "dr" if the policy's probabilities of all actions are
        known, otherwise "snips". For a risk other than the mean it is "ips". An estimator is an object with a method
        ``terms(log, policy, model)``, see :func:`drcrm.make_estimator`, for one of K actions or lists.
    risk : Risk, optional
        Risk of :mod:`drcrm.risks`; by default the mean.
    weight : Weight, optional
        Importance weight of :mod:`drcrm.weights` in place of π/p, for estimates that do not clip.
    clip : float ≥ 1 or "auto", optional
        Limit M of the weights, for "clipped_ips", "clipped_snips", "clipped_dr" and "switch_dr". By default ("auto") it
        is computed from the logged propensities, like the estimators do.
    cost_model : optional
        Cost model for "dr", "sndr", "switch_dr" and "dm": a fitted ``CostModel`` or
        :class:`drcrm.RegressorModel`. Fit it to other rows. An array, or a function of X, has the modelled costs of all
        actions: (m, K), (N,) for lists, or (m, q + 1) for labels, like ``CostModel.effects``. A regressor of
        scikit-learn, fitted or not, is cloned and cross-fitted on five folds of the groups, or of the rows. By
        default, this is done with a ``CostModel``.
    support : float in [0, 1]
        Threshold τ. The cost model is not used for actions that π0 takes with less than τ times the uniform
        probability: see :mod:`drcrm.logging_policy`. 0 uses the cost model everywhere.
    logging_policy : optional
        Logging policy π0, for ``support``, in the forms of ``policy`` with the probabilities of all actions. By default
        it is estimated from this log.
    confidence : float in (0, 1)
        Two-sided level of the interval.
    groups : array (n,), optional
        Ids of independent groups of rows; by default those of the log, or else its rows. If rows share contexts, pass
        ``log.context``, so that the interval covers new contexts. How X is stored does not change the units.
    baseline : any policy, or "logging", optional
        Policy to compare with: estimate how much more ``policy`` costs than this one, from paired differences of the
        rows. "logging" uses the logged costs. A baseline needs the mean as risk.
    shift : float > 0, optional
        Radius κ: estimate the worst case R_κ = sup {E_Q c : KL(Q‖P_π) ≤ κ} around the law P_π of context, action and
        cost under the policy, by "dr" or "snips". R_κ bounds the mean cost on every subpopulation with a share of at
        least e^{−κ} of the traffic. See :class:`drcrm.risks.EnvironmentBall`.

    Returns
    -------
    Interval
        A float in the units of the cost, with its estimate's name, standard error, interval, effective sample size,
        mean weight, clipped share of the weights, and support. It is NaN for "snips" if every weight is 0.

    Raises
    ------
    InputError
        If the policy does not fit the log, or an argument is invalid, such as ``clip`` for "ips".

    Warns
    -----
    UserWarning
        If the estimate of a mean or of a worst case is NaN or outside the range of the logged costs. Also if the mean
        weight is below 0.1 and more than five standard errors below 1.

    Notes
    -----
    With the weight w = π/p, the modelled cost ĉ of the logged action and its mean m(x) under the policy, the estimates
    are the following. A prefix "clipped\\_" replaces w by min(M, w). That has less variance, but a bias towards 0 for
    "clipped_ips".

    - "ips": mean of w c.
    - "snips": Σ w c/Σ w.
    - "dr": mean of m(x) + w (c − ĉ).
    - "sndr": mean of m(x), plus Σ w (c − ĉ)/Σ w.
    - "switch_dr": "dr" with weight 0 in rows with w > M.
    - "implicit", "subgaussian": "ips" with the weight :class:`drcrm.Implicit` or :class:`drcrm.Subgaussian`. "dros" is
      "dr" with :class:`drcrm.Shrunk`. By default the limit of these weights is √n.
    - "dm": mean of m(x). Its interval does not include the error of the cost model. So it can miss the true cost in
      nearly every log, even with a cross-fitted model.
    """
    evaluation = Evaluation.of(
        policy, log, baseline=baseline, groups=groups, logging_policy=logging_policy, cost_model=cost_model
    )
    if not isinstance(risk, Risk | None):
        raise InputError(f"risk is {risk!r}, expected a risk such as KLBall(0.1), or None")
    if hasattr(estimate, "terms"):
        if any(option is not None for option in (risk, weight, clip, shift)) or support:
            raise InputError("an estimator has its own options: leave out risk=, weight=, clip=, support= and shift=")
        return evaluate_estimator(estimate, evaluation, check_open_fraction(confidence, "confidence"))
    is_mean, radius = isinstance(risk, MeanRisk | None), None
    if shift is not None:
        radius = check_radius(shift, estimate)
        if not (risk is None and weight is None and clip is None):
            raise InputError("shift= cannot be combined with risk=, weight= or clip=; leave them out")
    if risk is not None and risk.is_shift and estimate not in SHIFTED:
        raise InputError(f"{risk!r} needs one of the estimates {', '.join(SHIFTED)}, got {estimate!r}; or use shift=")
    if not (baseline is None or is_mean):
        raise InputError("baseline can be used only with the mean, because other risks have no paired differences")
    confidence, threshold = check_open_fraction(confidence, "confidence"), check_fraction(support, "support")
    options: dict[str, Any] = {"clip": clip, "weight": weight, "risk": risk, "radius": radius, "threshold": threshold}
    evaluation = evaluation.by(estimate, prefers_ips=not is_mean, **options)
    value = evaluation.value(confidence) if baseline is None else evaluation.difference(confidence)
    for note in value.notes:
        warn_all(note)
    return value


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


def off_policy_values(
    policy: Any,
    log: BanditLog,
    clip: float | str | None = None,
    cost_model: Any = None,
    confidence: float = 0.95,
    groups: Any = None,
    baseline: Any = None,
) -> pd.DataFrame:
    """Return all estimates of a policy's cost from a log, side by side.

    If estimates disagree by more than their intervals, doubt the cost model or the propensities.

    Parameters
    ----------
    policy : any policy that :func:`off_policy_value` accepts
        Policy to evaluate.
    log : BanditLog
        Log, usually of rows that the policy was not learned from.
    clip : float ≥ 1 or "auto", optional
        Limit M of the weights in the clipped estimates and "switch_dr", by default "auto".
    cost_model : optional
        Cost model, as in :func:`off_policy_value`; by default cross-fitted.
    confidence : float in (0, 1)
        Two-sided level of the intervals.
    groups : array (n,), optional
        Ids of independent groups of rows; by default those of the log, or else its rows.
    baseline : any policy, or "logging", optional
        Policy to compare with, as in :func:`off_policy_value`.

    Returns
    -------
    DataFrame
        One row for each estimate: "ips", "clipped_ips", "snips", "clipped_snips", "dr", "clipped_dr", "sndr",
        "switch_dr" and "dm". The columns are "value", "standard_error", "low" and "high". The last five are NaN for a
        policy with unknown probabilities of the actions that were not logged.

    Raises
    ------
    InputError
        If the policy does not fit the log, or an argument is invalid.

    Warns
    -----
    UserWarning
        As :func:`off_policy_value` does, but each warning only once.
    """
    import pandas as pd  # imported here: it takes a third of a second

    evaluation = Evaluation.of(policy, log, baseline=baseline, groups=groups, cost_model=cost_model)
    values = evaluate_each(PLAIN, evaluation, clip, confidence)
    warn_all(*dict.fromkeys(note for value in values.values() for note in value.notes))
    columns = ["value", "standard_error", "low", "high"]
    rows = {name: [float(value), value.standard_error, *value.interval] for name, value in values.items()}
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns).reindex(PLAIN)


def evaluate_each(
    names: Iterable[str], evaluation: Evaluation, clip: float | str | None, confidence: float
) -> dict[str, Interval]:
    """Return the named estimates, without those that need unknown probabilities of the policy."""
    confidence, has_all = check_open_fraction(confidence, "confidence"), evaluation.policy.knows_all_actions
    values: dict[str, Interval] = {}
    for name in names:
        kind, limited, *_ = EVALUATIONS[name]
        if has_all or not kind.uses_model:
            evaluation = evaluation.by(name, clip=clip if limited else None)
            values[name] = (
                evaluation.value(confidence) if evaluation.baseline is None else evaluation.difference(confidence)
            )
    return values


def policy_support(policy: Any, log: BanditLog, logging_policy: Any = None, support: float = SUPPORT) -> PolicySupport:
    """Return how much of a policy's probability is on actions that the logging policy hardly takes.

    Parameters
    ----------
    policy : any policy that :func:`off_policy_value` accepts
        Policy to examine. An array must have the probabilities of all actions.
    log : BanditLog
        Log to examine.
    logging_policy : optional
        Logging policy π0, in the forms of ``policy``; by default a policy cloned from the log. Actions whose logged
        propensities are all at least τ times the uniform probability then have support, unless the log refutes it.
    support : float in [0, 1]
        Threshold τ: an action is unsupported if π0 takes it with less than τ times the uniform probability.

    Returns
    -------
    PolicySupport
        Probability of unsupported actions (``mass``) and mean importance weight (``mean_weight``). ``mass_by_action``
        and ``mean_weight_by_action`` have a value for each label or action.

    Raises
    ------
    InputError
        If the policy has other actions or features than the log, or τ is outside [0, 1].
    """
    support = check_fraction(support, "support")
    return Evaluation.of(policy, log, logging_policy=logging_policy).support(support)
