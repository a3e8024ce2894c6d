"""Estimates of a policy's risk from a log: inverse propensity, self-normalised, doubly robust and direct."""

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
# Estimates for evaluation, and the weight with a limit M that an estimate uses in place of π/p.
EVALUATIONS: dict[str, tuple[type[Estimate], type[Clipped] | None]] = {
    "ips": (InversePropensity, None),
    "clipped_ips": (InversePropensity, Clipped),
    "snips": (SelfNormalised, None),
    "clipped_snips": (SelfNormalised, Clipped),
    "dr": (DoublyRobust, None),
    "clipped_dr": (DoublyRobust, Clipped),
    "sndr": (SelfNormalisedDoublyRobust, None),
    "switch_dr": (DoublyRobust, Switched),
    "dm": (DirectMethod, None),
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
    "InversePropensity",
    "SelfNormalised",
    "SelfNormalisedDoublyRobust",
    "find_estimate",
]
