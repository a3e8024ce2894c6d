"""The result of a certification: an estimate of a policy's cost and an upper confidence bound on it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from drcrm.estimates import UNBIASED
from drcrm.evaluation.bounds.betting_terms import bound_by_betting
from drcrm.evaluation.certified_terms import CertificateSettings, CertifiedTerms
from drcrm.evaluation.overlap import summarize_weights

if TYPE_CHECKING:
    from drcrm.evaluation.evaluation import Evaluation


@dataclass(frozen=True)
class Certificate:
    """An estimate of a policy's cost and an upper confidence bound on it.

    Attributes
    ----------
    value, bound : float
        Estimate and bound, in the units of the cost. With a baseline, they are for the policy's cost minus the
        baseline's.
    confidence : float
        Probability 1 − δ with which the bounds on all ``choices`` policies hold together.
    method, estimate : str
        Method of the bound, and estimate of the cost. "asymptotic" is a bound that was corrected for skewness.
    by : str
        Independent unit: "row", "context" or "group".
    n : int
        Number of independent units.
    choices : int
        Number K of policies that were compared. The bound on each holds at level δ/K.
    effective_size : float
        Kish's effective sample size (Σ w)²/Σ w², in rows.
    mean_weight : float
        Mean of the importance weights w. If the logging policy is known, the probability of unsupported actions
        replaces the weights of rows with such an action. If the mean is far from 1, propensities are wrong or the log
        lacks actions of the policy.
    asymptotic : bool
        Whether the bound holds only as n → ∞.
    baseline : bool
        Whether the certificate is for the cost difference from a baseline.
    missing : bool
        Whether the rows show that the log lacks actions of the policy. These actions then count with the largest of
        ``costs``, and missing actions of a baseline with the smallest.
    unsupported : float or None
        Probability that the policy takes actions that the logging policy hardly takes. They are charged the same way.
        None if the logging policy is unknown.
    costs : (float, float)
        Range of the costs.
    skewness : float or None
        Skewness γ of the estimate, if the bound was corrected for it, otherwise None. See
        :mod:`drcrm.evaluation.bounds.asymptotic_bounds`.
    clip : float or None
        Limit of the weights of "clipped_ips".
    clipped : float
        Share of the total weight that the limit removes.
    notes : tuple of str
        Reasons to doubt the bound, which ``policy_certificate`` warns of.
    """

    value: float
    bound: float
    confidence: float
    method: str
    estimate: str
    by: str
    n: int
    choices: int
    effective_size: float
    mean_weight: float
    asymptotic: bool
    baseline: bool
    missing: bool
    unsupported: float | None
    costs: tuple[float, float]
    skewness: float | None
    clip: float | None = None
    clipped: float = 0.0
    notes: tuple[str, ...] = field(default=(), compare=False)

    def __repr__(self) -> str:
        share = (1 - self.confidence) / self.choices
        level = f" (error probability {share:.4g} for each of {self.choices} choices)" if self.choices > 1 else ""
        level += ", as n → ∞" if self.asymptotic else ""
        quantity = "cost difference" if self.baseline else "cost"
        low, high = self.costs
        charge = f"the worst of the costs {low:.6g} to {high:.6g}" if self.baseline else f"a cost of {high:.6g}"
        overlap = f", missing actions charged {charge}" if self.missing else ""
        overlap += f", {self.unsupported:.3g} without support" if round(self.unsupported or 0, 3) else ""
        return (
            f"{quantity} at most {self.bound:.6g} with probability {self.confidence!r}{level} "
            f"({self.estimate} {self.value:.6g}; {self.method} by {self.by}, n = {self.n}; "
            f"effective size {self.effective_size:.6g} rows, mean weight {self.mean_weight:.4g}{overlap})"
        )


@np.errstate(over="ignore", invalid="ignore")  # results that are not finite raise InputError
def certify(
    evaluation: Evaluation, settings: CertificateSettings, is_paired: bool, sign: int, is_charged: bool
) -> Certificate:
    """Return the certificate of an evaluation: see :meth:`drcrm.evaluation.evaluation.Evaluation.certificate`."""
    log = evaluation.log
    if settings.bound.is_mixture:
        terms, results = evaluation.by(UNBIASED).terms, bound_by_betting(evaluation, settings, sign, is_paired)
        notes: tuple[str, ...] = ()  # the method needs no overlap
    else:
        certified = CertifiedTerms(evaluation, settings, is_paired, sign, is_charged)
        terms, results, notes = certified.policy, certified.certify(), certified.notes()
        results |= {"value": sign * results["value"], "bound": sign * results["bound"]}
    results |= summarize_weights(terms.weight, log) | {"mean_weight": float(log.count @ terms.counted / log.size)}
    return Certificate(
        **results,
        confidence=settings.confidence,
        method=settings.method,
        estimate=evaluation.estimate,
        by="row" if log.column("groups") is None else "group",
        choices=settings.choices,
        asymptotic=settings.bound.asymptotic,
        baseline=is_paired,
        unsupported=terms.unsupported,
        costs=settings.costs,
        clip=evaluation.limit,
        clipped=0.0 if evaluation.limit is None else terms.clipped,
        notes=notes,
    )
