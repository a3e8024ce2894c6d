"""Estimates of a policy's risk from a log: inverse propensity, self-normalised, doubly robust and direct."""

from drcrm.arrays.validation import check_choice
from drcrm.estimates.base import Estimate
from drcrm.estimates.direct_method import DirectMethod
from drcrm.estimates.doubly_robust import DoublyRobust
from drcrm.estimates.ips import InversePropensity
from drcrm.estimates.snips import SelfNormalised

ESTIMATES: dict[str, type[Estimate]] = {
    "ips": InversePropensity,
    "snips": SelfNormalised,
    "dr": DoublyRobust,
    "dm": DirectMethod,
}


def find_estimate(name: str) -> type[Estimate]:
    """Return the class of an estimate by its name; raise InputError if there is no such name."""
    return ESTIMATES[check_choice(ESTIMATES, name, "estimate")]


__all__ = [
    "ESTIMATES",
    "DirectMethod",
    "DoublyRobust",
    "Estimate",
    "InversePropensity",
    "SelfNormalised",
    "find_estimate",
]
