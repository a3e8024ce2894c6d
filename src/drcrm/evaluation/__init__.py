"""A policy on a log: estimates of its cost by name, their terms, upper confidence bounds and sensitivity."""

from collections.abc import Callable
from typing import NamedTuple

from drcrm.estimates import (
    DirectMethod,
    DoublyRobust,
    Estimate,
    InversePropensity,
    SelfNormalised,
    SelfNormalisedDoublyRobust,
)
from drcrm.weights import Clipped, Implicit, Shrunk, Subgaussian, Switched, Weight


class EvaluationEstimate(NamedTuple):
    """An estimate for evaluation, and what it needs.

    Attributes
    ----------
    kind : subclass of Estimate
    limited : subclass of Clipped, optional
        Weight with a limit M that the estimate uses in place of π/p.
    least_size : int, optional
        Effective sample size below which bounds failed too often in simulations. None if it has no certificate.
    normalised : subclass of Estimate, optional
        Its form that divides by the mean weight, which worst cases under a shift or wrong propensities use. None if
        there is no such form.
    default_weight : callable
        Its weight, as a function of the number of rows, if the caller gives none.
    """

    kind: type[Estimate]
    limited: type[Clipped] | None = None
    least_size: int | None = None
    normalised: type[Estimate] | None = None
    default_weight: Callable[[float], Weight] = lambda n: Clipped(None)


EVALUATIONS = {
    "ips": EvaluationEstimate(InversePropensity, least_size=25),
    "clipped_ips": EvaluationEstimate(InversePropensity, Clipped, least_size=25),
    "snips": EvaluationEstimate(SelfNormalised, least_size=10, normalised=SelfNormalised),
    "clipped_snips": EvaluationEstimate(SelfNormalised, Clipped),
    "dr": EvaluationEstimate(DoublyRobust, least_size=10, normalised=SelfNormalisedDoublyRobust),
    "clipped_dr": EvaluationEstimate(DoublyRobust, Clipped),
    "sndr": EvaluationEstimate(SelfNormalisedDoublyRobust),
    "switch_dr": EvaluationEstimate(DoublyRobust, Switched),
    "dm": EvaluationEstimate(DirectMethod),
}
PLAIN = [*EVALUATIONS]  # the estimates that a table of all estimates shows

# Smooth weights. By default no weight is above √n, so the bias vanishes as n grows (Ionides 2008).
EVALUATIONS |= {
    "implicit": EvaluationEstimate(InversePropensity, default_weight=lambda n: Implicit(n**-0.5)),
    "subgaussian": EvaluationEstimate(InversePropensity, default_weight=lambda n: Subgaussian(n**-0.5)),
    "dros": EvaluationEstimate(DoublyRobust, default_weight=lambda n: Shrunk(4 * n)),
}

AUTO = "auto"  # the default estimate: "dr" if all that it needs is known
UNBIASED, RATIO, ROBUST = "ips", "snips", "dr"  # defaults: for risks, without a cost model, and with one
NORMALISED = [name for name, entry in EVALUATIONS.items() if entry.normalised]


def default_estimate(has_model: bool, without_model: str = RATIO) -> str:
    """Return the name of the default estimate with a cost model, or without one."""
    return ROBUST if has_model else without_model
