"""What can be chosen by name, each said once: estimators, held-out scores, losses, and the parts that algorithms play.

Schema, command line, tables and documents read it, or are tested against it. A risk stands by the name of its class and
is imported where it is used, so that tables and figures do not depend on the numerics.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from numbers import Real

from .errors import InputError


@dataclass(frozen=True)
class WeightKind:
    """A kind of importance weight: where its class is, ``module:Class``, and the name of its parameter."""

    path: str
    parameter: str


WEIGHTS = {
    "implicit": WeightKind("drcrm.core.weights:Implicit", "exploration"),
    "smoothed": WeightKind("drcrm.core.weights:Smoothed", "exponent"),
    "shrunk": WeightKind("drcrm.core.weights:Shrunk", "shrinkage"),
}
LARGEST = sys.float_info.max  # whole numbers can be larger
CLIPPED = "clipped"  # the kind of weight that has no parameter: min(M, w)
ESTIMATES = {"ips": "IPS", "snips": "self-normalised", "dr": "doubly robust", "dm": "direct method"}
STARTS = {
    "zero": "Θ = 0",
    "logging": "the logging policy",
    "model": "the logging policy tilted by the cost model",
    "imitation": "an imitation of the log",
}
STOPPING = ("scaled", "public_code")  # the units of L-BFGS's tolerances: those of the log, or none
BEGINNING = ("start", "tilt")  # options of a fit that are no term of its objective


@dataclass(frozen=True)
class Estimator:
    """An estimator: the risk it minimises, and its names of that risk's arguments.

    Parameters
    ----------
    name : str
    risk : str
        Where the risk's class is, ``module:Class``: a subclass of ``drcrm.core.risks.Risk``.
    parameters : tuple of str, optional
        Its names of the risk's arguments in their order; by default those of its constructor.
    hyper : str, optional
        Which of them is the hyper-parameter; by default the first.
    calibrated : bool
        Whether grids may be in units of ``drcrm.core.selection.calibrated_penalty``.
    likelihood : bool
        Whether its one parameter is the sharpness of a weighted log-likelihood, of which the mean is taken.
    estimates : tuple of str
        Those under which its risk is defined.
    """

    name: str
    risk: str
    parameters: tuple[str, ...] | None = None
    hyper: str | None = None
    calibrated: bool = False
    likelihood: bool = False
    estimates: tuple[str, ...] = tuple(ESTIMATES)

    def risk_class(self) -> type:
        """The risk's class; InputError says why there is none."""
        found = _imported(self.risk, f"estimator {self.name}")
        if not (isinstance(found, type) and hasattr(found, "robust_end")):
            raise InputError(
                f"estimator {self.name}: {self.risk.partition(':')[2]} is no subclass of drcrm.core.risks.Risk"
            )
        return found

    def names(self) -> tuple[str, ...]:
        """The names of its parameters, in their order."""
        if self.parameters is not None:
            return self.parameters
        return tuple(name for name in inspect.signature(self.risk_class()).parameters if name != "self")

    def hyper_parameter(self) -> str | None:
        """The name of its hyper-parameter; None where it has no parameters."""
        return self.hyper or next(iter(self.names()), None)

    def make_terms(self, estimate: str = "ips", weight=CLIPPED, **values):
        """Build the terms of an objective, ``drcrm.core.terms.Terms``, from the estimator's parameters.

        ``weight`` is a weight, or the name of a kind, whose parameter then is in ``values`` as ``weight.NAME``.
        InputError for a name that is unknown, or that is missing.
        """
        _one_of(self.estimates, estimate, "estimate")
        if isinstance(weight, str):
            _one_of([CLIPPED, *WEIGHTS], weight, "weight")
            kind = WEIGHTS.get(weight)
            key = f"weight.{kind.parameter}" if kind else None
            if kind and key not in values:
                raise InputError(f"the weight {weight!r} needs {key}")
            weight = _imported(kind.path, "weight")(values.pop(key)) if kind else None
        names = self.names()
        for name in values:
            if name not in names:
                raise InputError(f"{self.name} has no parameter {name!r}, expected {', '.join(names) or 'none'}")
        hyper = self.hyper_parameter()
        if hyper and hyper not in values:
            raise InputError(f"{self.name} needs {hyper}")
        terms = import_module("drcrm.core.terms").Terms
        if self.calibrated or self.likelihood:  # the risk has another name for it, or has it not
            values[hyper] = import_module("drcrm.core.validation").at_least_zero(values[hyper], hyper)
        if self.likelihood:
            if weight is not None:
                raise InputError(f"{self.name} has no weight: it is a likelihood of the actions")
            return terms(self.risk_class()(), sharpness=values[hyper])
        own = dict(zip(names, inspect.signature(self.risk_class()).parameters.values(), strict=True))
        for name, argument in own.items():
            if argument.default is argument.empty and name not in values:
                raise InputError(f"{self.name} needs {name}")
        return terms(self.risk_class()(**{own[name].name: value for name, value in values.items()}), weight, estimate)

    def along(self, parameter: str | None, grid: Sequence[float], options: Mapping[str, object]) -> list:
        """Build the terms along a grid of the hyper-parameter; one without. InputError says what does not fit."""
        if parameter in options:
            raise InputError(f"{parameter!r} is the hyper-parameter of {self.name}, no option")
        weight = options.get("weight", CLIPPED)
        _one_of([CLIPPED, *WEIGHTS], weight, "weight")
        own, kind = self.hyper_parameter(), WEIGHTS.get(weight)
        allowed = [*([own] if own else []), *([f"weight.{kind.parameter}"] if kind else [])]
        expected = f"{' or '.join(allowed)} and at least one value" if allowed else "none"
        found = f"{parameter} and {len(grid)} values" if parameter else "none"
        free = [name for name in allowed if name not in options]
        if (parameter not in free or not len(grid)) if parameter else (free or len(grid)):
            instead = "" if parameter or not free else f", or a value of {' or '.join(free)} among the options"
            raise InputError(f"the hyper-parameter of {self.name} is {found}, expected {expected}{instead}")
        _one_of(STARTS, options.get("start", "zero"), "start")
        tilt = options.get("tilt", "auto")
        if not (tilt == "auto" or (isinstance(tilt, Real) and 0 <= tilt <= LARGEST)):
            raise InputError(f"tilt is {tilt!r}, expected 'auto' or a finite number ≥ 0")
        values = {name: value for name, value in options.items() if name not in BEGINNING}
        return [self.make_terms(**values, **({parameter: value} if parameter else {})) for value in grid or [None]]

    def robust_end(self, parameter: str | None, options: Mapping[str, object]) -> str:
        """Which end of a grid is the more robust: "low" or "high"."""
        if parameter and parameter.startswith("weight."):
            return _imported(WEIGHTS[options["weight"]].path, "weight").robust_end
        return "low" if self.likelihood else self.risk_class().robust_end


ESTIMATORS = {
    each.name: each
    for each in (
        Estimator("CIPS", "drcrm.core.risks:MeanRisk", ()),
        Estimator("POEM", "drcrm.core.risks:VariancePenalizedRisk", ("variance_penalty",), calibrated=True),
        Estimator("KLCRM", "drcrm.core.risks:BoltzmannRisk", ("temperature",)),
        Estimator("AdaptiveKLCRM", "drcrm.core.risks:AdaptiveBoltzmannRisk", ("radius", "variance")),
        Estimator("KLDRO", "drcrm.core.risks:KLBall", ("radius", "confidence")),
        Estimator("Chi2DRO", "drcrm.core.risks:Chi2Ball", ("radius", "confidence")),
        Estimator("PhiDRO", "drcrm.core.phi_ball:PhiBall", ("divergence", "radius", "confidence"), hyper="radius"),
        Estimator("CVaRDRO", "drcrm.core.phi_ball:CVaRRisk", ("alpha",)),
        Estimator("LogSmoothing", "drcrm.core.risks:LogSmoothingRisk", ("smoothing",), estimates=("ips", "dm")),
        Estimator("LogSumExp", "drcrm.core.risks:LogSumExpRisk", ("temperature",)),
        Estimator(
            "WeightedLikelihood", "drcrm.core.risks:MeanRisk", ("sharpness",), likelihood=True, estimates=("ips",)
        ),
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


def _imported(path: str, place: str) -> type:
    """The class at ``module:Class``; InputError says why there is none."""
    module, _, name = path.partition(":")
    try:
        return getattr(import_module(module), name)
    except Exception as error:  # whatever the module of a user does
        raise InputError(f"{place}: {' '.join(str(error).split()) or type(error).__name__}") from None


def _one_of(allowed, name: object, kind: str) -> None:
    if not (isinstance(name, str) and name in allowed):
        raise InputError(f"{kind} is {name!r}, expected one of {', '.join(map(repr, allowed))}")


# The parts that are played beside the algorithms of the configuration, and by some of those.
LOGGING, SKYLINE = "logging", "skyline"
ROLES = (LOGGING, SKYLINE)
BASELINE = "cips"  # the plain estimate, beside which figures are scaled
REFERENCE = "poem"  # the one that others are compared with, seed by seed
PAPERS = ("cips", "poem", "kl_crm", "akl_crm", "akl_crm_sum", "kl_dro", "chi2_dro")  # what an experiment has by default
UNCHOSEN = (*ROLES, BASELINE)  # without a hyper-parameter that a held-out score would choose

SCORES = {
    "ips": "IPS",
    "clipped_ips": "clipped IPS",
    "snips": "SNIPS",
    "clipped_snips": "clipped SNIPS",
    "dr": "DR",
    "dr_bound": "DR bound",
    "snips_bound": "SNIPS bound",
    "ls_bound": "LS bound",
}

LOSSES = {"expected_loss": "Expected Hamming loss", "greedy_loss": "Greedy Hamming loss"}
