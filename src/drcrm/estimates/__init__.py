"""Estimates of a policy's risk from a log: inverse propensity, self-normalised, doubly robust and direct."""

from typing import NamedTuple

from drcrm.arrays.validation import check_choice
from drcrm.estimates.base import Estimate
from drcrm.estimates.direct_method import DirectMethod
from drcrm.estimates.doubly_robust import DoublyRobust, SelfNormalisedDoublyRobust
from drcrm.estimates.ips import InversePropensity
from drcrm.estimates.snips import SelfNormalised
from drcrm.weights import Clipped, Switched

# Estimates that an algorithm can minimise. The algorithm chooses the weight.
ESTIMATES: dict[str, type[Estimate]] = {
    "ips": InversePropensity,
    "snips": SelfNormalised,
    "dr": DoublyRobust,
    "dm": DirectMethod,
}


class EvaluationEstimate(NamedTuple):
    """An estimate for evaluation, and what it needs.

    Attributes
    ----------
    kind : subclass of Estimate
    limited : subclass of Clipped, optional
        Weight with a limit M that the estimate uses in place of π/p.
    least_size : int, optional
        Effective sample size below which bounds failed too often in simulations. None if it has no certificate.
    """

    kind: type[Estimate]
    limited: type[Clipped] | None = None
    least_size: int | None = None


EVALUATIONS = {
    "ips": EvaluationEstimate(InversePropensity, least_size=25),
    "clipped_ips": EvaluationEstimate(InversePropensity, Clipped, least_size=25),
    "snips": EvaluationEstimate(SelfNormalised, least_size=10),
    "clipped_snips": EvaluationEstimate(SelfNormalised, Clipped),
    "dr": EvaluationEstimate(DoublyRobust, least_size=10),
    "clipped_dr": EvaluationEstimate(DoublyRobust, Clipped),
    "sndr": EvaluationEstimate(SelfNormalisedDoublyRobust),
    "switch_dr": EvaluationEstimate(DoublyRobust, Switched),
    "dm": EvaluationEstimate(DirectMethod),
}


def find_estimate(name: str) -> type[Estimate]:
    """Return the class of an estimate by its name; raise InputError if there is no such name."""
    return ESTIMATES[check_choice(ESTIMATES, name, "estimate")]


__all__ = [
    "ESTIMATES",
    "EVALUATIONS",
    "DirectMethod",
    "DoublyRobust",
    "Estimate",
    "EvaluationEstimate",
    "InversePropensity",
    "SelfNormalised",
    "SelfNormalisedDoublyRobust",
    "find_estimate",
]
