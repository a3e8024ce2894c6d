"""What can be chosen by name, each said once: estimators, held-out scores, losses, and the parts that algorithms play.

Schema, command line, tables and documents read it, or are tested against it. A risk stands by the name of its class and
is imported where it is used, so that tables and figures do not depend on the numerics.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module

from .errors import InputError


@dataclass(frozen=True)
class Estimator:
    """An estimator: the risk it minimises, and its names of that risk's arguments.

    Parameters
    ----------
    name : str
    risk : str
        Where the risk's class is, ``module:Class``: a subclass of ``drcrm.core.risks.Risk``.
    parameters : tuple of str, optional
        Names of the risk's arguments in their order, the hyper-parameter first; by default those of its constructor.
    calibrated : bool
        Whether grids may be in units of ``drcrm.core.selection.calibrated_penalty``.
    """

    name: str
    risk: str
    parameters: tuple[str, ...] | None = None
    calibrated: bool = False

    def risk_class(self) -> type:
        """The risk's class; InputError says why there is none."""
        module, _, name = self.risk.partition(":")
        try:
            found = getattr(import_module(module), name)
        except (ImportError, AttributeError, SyntaxError, TypeError, ValueError) as error:
            raise InputError(f"estimator {self.name}: {error}") from None
        if not (isinstance(found, type) and hasattr(found, "robust_end")):
            raise InputError(f"estimator {self.name}: {name} is no subclass of drcrm.core.risks.Risk")
        return found

    def names(self) -> tuple[str, ...]:
        """The names of its parameters, the hyper-parameter first."""
        if self.parameters is not None:
            return self.parameters
        return tuple(name for name in inspect.signature(self.risk_class()).parameters if name != "self")

    def make_risk(self, **values):
        """Build the risk from the estimator's parameters; InputError for a name that it does not have."""
        names = self.names()
        for name in values:
            if name not in names:
                raise InputError(f"{self.name} has no parameter {name!r}, expected {', '.join(names) or 'none'}")
        return self.risk_class()(*(values[name] for name in names if name in values))

    def along(self, parameter: str | None, grid: Sequence[float], options: Mapping[str, object]) -> list:
        """Build the risks along a grid of the hyper-parameter; one without. InputError says what does not fit."""
        first = self.names()[:1]
        if tuple(filter(None, [parameter])) != first or len(grid) < len(first):
            expected = f"{first[0]} and at least one value" if first else "none"
            found = f"{parameter} and {len(grid)} values" if parameter else "none"
            raise InputError(f"the hyper-parameter of {self.name} is {found}, expected {expected}")
        if parameter in options:
            raise InputError(f"{parameter!r} is the hyper-parameter of {self.name}, no option")
        settings = [{parameter: value} for value in grid] if parameter else [{}]
        return [self.make_risk(**setting, **options) for setting in settings]


ESTIMATORS = {
    each.name: each
    for each in (
        Estimator("CIPS", "drcrm.core.risks:MeanRisk", ()),
        Estimator("POEM", "drcrm.core.risks:VariancePenalizedRisk", ("variance_penalty",), calibrated=True),
        Estimator("KLCRM", "drcrm.core.risks:BoltzmannRisk", ("temperature",)),
        Estimator("AdaptiveKLCRM", "drcrm.core.risks:AdaptiveBoltzmannRisk", ("radius", "variance")),
        Estimator("KLDRO", "drcrm.core.risks:KLBall", ("radius",)),
        Estimator("Chi2DRO", "drcrm.core.risks:Chi2Ball", ("radius",)),
    )
}


def find_estimator(name: str) -> Estimator:
    """Return an estimator by its name, or one's own by where its risk is, ``module:Class``."""
    if name in ESTIMATORS:
        return ESTIMATORS[name]
    if ":" in name:
        return Estimator(name, name)
    close = get_close_matches(name, ESTIMATORS, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    raise InputError(f"unknown estimator {name!r}{hint} (allowed: {', '.join(ESTIMATORS)}, or module:Class of a risk)")


@dataclass(frozen=True)
class Look:
    """A label, a colour the colour-blind can tell apart, a marker and a line."""

    label: str
    colour: str
    marker: str = ""
    line: str = "-"


GREY = "#666666"

# The parts that are played beside the algorithms of the configuration, and by some of those.
LOGGING, SKYLINE = "logging", "skyline"
ROLES = {LOGGING: Look("π0", GREY, line=":"), SKYLINE: Look("CRF", GREY, line="--")}
BASELINE = "cips"  # the plain estimate, beside which figures are scaled
REFERENCE = "poem"  # the one that others are compared with, seed by seed
UNCHOSEN = (*ROLES, BASELINE)  # without a hyper-parameter that a held-out score would choose

SCORES = {
    "ips": Look("IPS", GREY, "s"),
    "clipped_ips": Look("clipped IPS", GREY, "D"),
    "snips": Look("SNIPS", GREY, "o"),
    "clipped_snips": Look("clipped SNIPS", GREY, "^"),
}

LOSSES = {"expected_loss": "Expected Hamming loss", "greedy_loss": "Greedy Hamming loss"}
