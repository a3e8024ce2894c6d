"""Certificates: upper confidence bounds on a mean and on a policy's cost, and their sensitivity to wrong propensities.

The bound holds if the policy, and the cost model of a doubly robust estimate, were fitted to other rows. The default
bound is asymptotic: it is Student's, corrected for skewness. Actions that the log lacks are charged the largest cost:

- If the logging policy is known, these are the actions that it hardly takes: see
  :mod:`drcrm.evaluation.policy_terms`.
- Otherwise a test on the rows decides whether some are missing: see :mod:`drcrm.evaluation.policy_on_log`.
  In a marked log, actions are charged in the cells that lack them: see :mod:`drcrm.cost_models.missing_cells`.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from drcrm.arrays.validation import check_choice, check_confidence, check_nonnegative, check_positive, to_float
from drcrm.data.bandit_log import BanditLog, as_log
from drcrm.errors import InputError, warn_all
from drcrm.evaluation import AUTO, EVALUATIONS, NORMALISED
from drcrm.evaluation.bounds.betting_mixture import check_most_rows
from drcrm.evaluation.bounds.betting_terms import choose_betting_estimate
from drcrm.evaluation.bounds.independent_units import require_single_rows
from drcrm.evaluation.bounds.upper_bound import ANYTIME, ASYMPTOTIC, BALL, SEQUENCE, Bound, as_bound, upper_bound
from drcrm.evaluation.certified_terms import MOST_CHOICES, CertificateSettings
from drcrm.evaluation.evaluation import Evaluation
from drcrm.evaluation.policy_terms import check_radius
from drcrm.evaluation.results import Certificate, Sensitivity

__all__ = ["Certificate", "Sensitivity", "policy_certificate", "sensitivity", "upper_bound"]

UNITS = ("row", "context")


@np.errstate(over="ignore", invalid="ignore")  # results that are not finite raise InputError
def policy_certificate(
    policy: Any,
    log: BanditLog,
    estimate: str = AUTO,
    confidence: float = 0.95,
    method: Any = ASYMPTOTIC,
    by: str = "row",
    choices: int = 1,
    clip: float | str | None = None,
    cost_model: Any = None,
    low: float | None = None,
    high: float | None = None,
    smoothing: float | None = None,
    baseline: Any = None,
    cost_range: tuple[float, float] | None = None,
    logging_policy: Any = None,
    groups: Any = None,
    check_tails: bool = True,
    largest_weight: float | None = None,
    baseline_factor: float = 1.0,
    shift: float | None = None,
    full_support: bool = False,
    least_propensity: float | None = None,
    most_rows: float | None = None,
) -> Certificate:
    """Return an upper confidence bound on the expected cost of a fixed policy.

    Parameters
    ----------
    policy : any policy that :func:`drcrm.off_policy_value` accepts
        Policy to certify. The certificate is on actions drawn from it, not on its most probable actions. Probabilities
        of the logged actions are enough for "ips" and "snips" without ``logging_policy``.
    log : BanditLog
        Held-out rows: neither the policy nor the cost model may have been fitted to them.
    estimate : "auto", "ips", "clipped_ips", "snips" or "dr"
        Inverse propensity scoring, the same with clipped weights, self-normalised, or doubly robust. "auto" is "dr" if
        the policy's probabilities of all actions are known, otherwise "snips". If the method is neither "asymptotic"
        nor a divergence, "auto" is "ips", and "snips" needs a baseline. "dm" has no certificate, because no bound
        covers the error of the model.
    confidence : float in (½, 1)
        Probability that the bound holds.
    method : str or Divergence
        "asymptotic" is the larger of the bound of a KL ball and Student's bound, corrected for skewness: see
        :mod:`drcrm.evaluation.bounds.asymptotic_bounds`. "student", or a divergence such as "chi2", replaces the KL
        ball by another bound. "kl" is the same as "asymptotic". "betting", for one look, and "anytime", for every
        number of rows together, are mixtures of bets with terms of their own: see
        :mod:`drcrm.evaluation.bounds.betting_terms`. They need ``cost_range``, and hold for every number of rows. Other
        methods are those of :func:`upper_bound`, for the terms z of the estimate or their paired differences.
    by : "row" or "context"
        Independent unit. "context" is short for ``groups=log.context``: all rows of a context are one observation. Use
        it if rows share contexts. The bound then also holds for new contexts, provided that no row of a held-out
        context was in training. With "row", it is conditional on the logged contexts. Both bound the mean over rows.
    choices : int
        Number K of policies from which this one was selected on these rows. The bound holds at level δ/K.
    clip : float ≥ 1 or "auto", optional
        Upper limit of the weights of "clipped_ips". It needs costs of at most 0, because clipping then only raises
        the bound. By default ("auto") it is computed from the logged propensities. A method that holds for every n
        needs a number.
    cost_model : CostModel, object, array or function
        For "dr": a cost model fitted to other rows, as for :func:`drcrm.off_policy_value`. By default, a model is
        cross-fitted on this log, and so is a regressor of scikit-learn; both need an asymptotic method. The
        ``cost_model_`` of a fit with a ``logging_policy`` contains this logging policy. For label vectors, an
        unsupported label is charged the cost of the most expensive labels.
    low, high, smoothing : float, optional
        As in :func:`upper_bound`. "betting" with ``low`` is that of :func:`upper_bound`, on the terms z.
    baseline : any policy, or "logging", optional
        Fixed policy to compare with: bound how much more ``policy`` costs, by paired differences of the rows. A bound
        below 0 shows that ``policy`` is better. "logging" uses the logged costs. With a baseline, "snips" allows every
        asymptotic method.
    cost_range : (least, largest), optional
        Known range of the costs of all actions; by default the range of the logged costs and 0. Expensive actions can
        be missing from the log, so pass the range unless the largest possible cost is 0. "anytime" and "betting" need
        it.
    logging_policy : optional
        Logging policy π0, if it is known, in the forms of ``policy``; it replaces the logging policy of the cost model.
        Do not pass a policy that was estimated from the log.
    groups : array (n,), optional
        Ids of independent groups of rows, instead of ``by``; by default those of the log, or else its rows. The bound
        is still on the mean over rows. "anytime" and "betting" need ``most_rows``. Other methods that hold for every n
        need groups with equally many rows, and a log without weights of rows.
    check_tails : bool
        Whether to check the tail of the costs. If so, an asymptotic bound is corrected for the skewness of the
        estimate. There is no certificate if all logged costs are equal or the skewness exceeds 0.3, because rare, large
        costs then make bounds too low. False returns the bound of the method without correction and checks, to compare
        methods. For "asymptotic", that is the bound of the KL ball, and the certificate has the method "kl".
    largest_weight : float > 0, optional
        For "anytime" and "betting" with a policy as the baseline: a known limit W_b on the baseline's weights. By
        default it follows from ``least_propensity``. Without a limit, missing actions of the baseline count as the
        smallest cost.
    baseline_factor : float ≥ 0
        Multiple of the baseline's cost that is subtracted. With 1.05, a bound below 0 shows "at most 5 % more".
    shift : float > 0, optional
        Radius κ: bound the worst case R_κ around the environment, as in :func:`drcrm.off_policy_value`, by its
        influence function. It needs "dr" or "snips", an asymptotic method, and κ < −log P(c = max) under the policy:
        beyond that R_κ is the largest cost. With a baseline, both have their worst case.
    full_support : bool
        Whether the logging policy is known to take every action with a positive probability in every context. Then no
        test for missing actions is made, and nothing is charged if π0 is unknown. Such a test finds missing actions in
        a few per cent of the logs that lack none.
    least_propensity : float in (0, 1], optional
        For "anytime" and "betting": a known lower bound on the probability with which the logging policy takes any
        action of a context. It limits the weights by W, which makes bounds narrower, and permits "dr".
    most_rows : float ≥ 1, optional
        For "anytime" and "betting": the largest number of rows that a group, or a context, can have, known beforehand.
        For rows with weights, it is their largest weight, or the largest sum of the weights of a group.

    Returns
    -------
    Certificate
        Estimate and bound, with diagnostics.

    Raises
    ------
    InputError
        If an argument is invalid, no row has a weight above 0, or rare and large costs dominate. Also if the rows lack
        actions of the policy and the method is not asymptotic.

    Warns
    -----
    UserWarning
        If the effective sample size is below 10 (25 for "ips" with costs above 0), so that asymptotic bounds can be too
        low. Also if the mean weight is below 0.1 and more than five standard errors below 1. There is no warning for
        "ips" with costs of at most 0, whose bound is too high in these cases.

    Notes
    -----
    The terms z are w c for "ips" and m(x) + w (c − ĉ) for "dr". Here w is the weight π/p, ĉ the modelled cost and m(x)
    its mean under the policy. "snips" bounds the ratio Σ w c/Σ w by the v at which the worst mean of w (c − v) is 0.
    With a baseline, the terms of "snips" are v̂ + w (c − v̂), for this ratio v̂.

    Missing actions are charged the largest cost a: the terms a + w (c − a) replace z. This happens if the rows show
    that the log lacks actions of the policy. With a known π0, it happens if ``mean_weight`` of the certificate is as
    low as in the warning above.
    """
    _check_settings(estimate, by, choices)
    log = as_log(log)
    if is_by_context := by == "context" and groups is None:
        groups = log.context
    evaluation = Evaluation.of(
        policy, log, baseline=baseline, groups=groups, logging_policy=logging_policy, cost_model=cost_model
    )
    level = 1 - (1 - check_confidence(confidence, "confidence")) / choices
    name = BALL if isinstance(method, str) and method == ASYMPTOTIC else method
    bound = as_bound(level, name, low, high, smoothing)
    radius = None if shift is None else check_radius(shift, estimate)
    if radius is not None and not bound.asymptotic:
        raise InputError(f"shift= needs an asymptotic method, got {bound.name}: leave one of them out")
    known = _check_limits(largest_weight=largest_weight, least_propensity=least_propensity)
    if bound.is_mixture:
        estimate = choose_betting_estimate(evaluation, estimate, cost_range, least_propensity)
    estimate = evaluation.choose_estimate(estimate, prefers_ips=bound.ball is None)
    _check_bound(bound, evaluation, estimate, clip, radius is not None)
    evaluation = evaluation.by(estimate, clip=clip, radius=radius)
    settings = CertificateSettings.of(
        evaluation.log,
        bound,
        confidence,
        choices,
        cost_range,
        factor=check_nonnegative(baseline_factor, "baseline_factor"),
        check_tails=check_tails,
        full_support=full_support,
        most_rows=check_most_rows(most_rows),
        **known,
    )
    certificate = evaluation.certificate(settings)
    if is_by_context:
        certificate = replace(certificate, by=by)
    for note in certificate.notes:
        warn_all(note)
    return certificate


def sensitivity(
    policy: Any,
    log: BanditLog,
    gamma: float = 1.5,
    estimate: str = AUTO,
    cost_model: Any = None,
    confidence: float = 0.95,
    groups: Any = None,
) -> Sensitivity:
    """Return the worst case of a policy's cost if the odds of every propensity are off by at most a factor Γ.

    Parameters
    ----------
    policy : any policy that :func:`drcrm.off_policy_value` accepts
        Policy to evaluate.
    log : BanditLog
        Rows that neither the policy nor the cost model was learned from.
    gamma : float ≥ 1
        Factor Γ. With Γ = 1, the propensities are exact.
    estimate : "auto", "snips" or "dr"
        "snips" is the self-normalised estimate Σ w c/Σ w. "dr" is doubly robust and normalised in the same way: the
        mean of m(x) plus Σ w (c − ĉ)/Σ w. "auto" is "dr" if the policy's probabilities of all actions are known.
    cost_model : optional
        Cost model for "dr", as in :func:`drcrm.off_policy_value`; by default cross-fitted.
    confidence : float in (½, 1)
        Level of the bounds.
    groups : array (n,), optional
        Ids of independent groups of rows; by default those of the log, or else its rows.

    Returns
    -------
    Sensitivity
        Worst case and bound at Γ, break-even Γ*, and a curve, in the units of the cost.

    Raises
    ------
    InputError
        If an argument is invalid, or every row has weight 0.

    Notes
    -----
    In the worst case, the rows with the largest costs (for "dr", residuals) have their largest possible weights, and
    the others their smallest. One sort and one threshold find them. The worst case is not sharp: it ignores that true
    weights must have mean 1 given x. The logging policy's cost is the mean of the log and needs no propensities. A row
    has the paired difference w (c − R)/w̄ − (c − c̄), with its worst weight w and the worst case R. Bounds use these
    differences.
    """
    check_choice([AUTO, *NORMALISED], estimate, "estimate")
    evaluation = Evaluation.of(policy, log, groups=groups, cost_model=cost_model).by(estimate)
    return evaluation.sensitivity(gamma, confidence)


def _check_bound(bound: Bound, evaluation: Evaluation, estimate: str, clip: Any, is_shifted: bool) -> None:
    """Raise InputError if the method does not fit the estimate or the log."""
    kind, limited, *_ = EVALUATIONS[estimate]
    if bound.is_mixture and bound.high is not None:
        raise InputError(f"high= does not apply to the method {bound.name} here; it follows from cost_range=")
    if bound.name in (ANYTIME, SEQUENCE):
        require_single_rows(evaluation.log)
    if kind.uses_model and evaluation.cost_model is None and not bound.asymptotic:
        raise InputError(f"{estimate!r} by {bound.name} needs cost_model=, a cost model that was fitted to other rows")
    if kind.is_ratio and evaluation.baseline is None and bound.ball is None and not is_shifted:
        raise InputError(f"{estimate!r} needs the method 'asymptotic', a divergence or a baseline, got {bound.name}")
    if kind.is_ratio and not bound.asymptotic:
        raise InputError(f"baseline with {estimate!r} needs an asymptotic method, got {bound.name}")
    if limited and (evaluation.log.cost > 0).any():
        raise InputError(f"{estimate!r} needs costs of at most 0, because clipping hides positive costs")
    if limited and not bound.asymptotic and not to_float(clip) >= 1:
        raise InputError(f"{estimate!r} by {bound.name} needs clip=, a number that does not depend on the log")


def _check_limits(**limits: Any) -> dict[str, float | None]:
    """Return known limits of weights and propensities as floats; InputError unless they are possible."""
    checked = {name: None if value is None else check_positive(value, name) for name, value in limits.items()}
    if (checked["least_propensity"] or 0) > 1:
        raise InputError(f"least_propensity is {checked['least_propensity']:g}, expected a probability, at most 1")
    return checked


def _check_settings(estimate: Any, by: Any, choices: Any) -> None:
    entry = EVALUATIONS.get(estimate) if isinstance(estimate, str) else None
    if entry and not entry.kind.uses_weights:
        raise InputError(
            f"estimate is {estimate!r}, which has no certificate: no bound covers the error of a cost model"
        )
    check_choice([AUTO, *(name for name, entry in EVALUATIONS.items() if entry.least_size)], estimate, "estimate")
    check_choice(UNITS, by, "by")
    if not (1 <= to_float(choices) <= MOST_CHOICES and choices == int(choices)):
        raise InputError(f"choices is {choices!r}, expected a whole number from 1 to {MOST_CHOICES}")
