"""What can be chosen by name: estimators, with the risk that each minimises, and algorithms of a configuration.

Schema, command line, scikit-learn estimators, tables and documents read them here. A new risk is imported here, and has
a line in ``ESTIMATORS``.
"""

import inspect
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from difflib import get_close_matches
from importlib import import_module

from drcrm.arrays.validation import check_bool, check_choice, check_fraction, check_nonnegative
from drcrm.cost_models.context_effects import as_context_effects
from drcrm.errors import InputError
from drcrm.estimates import ESTIMATES
from drcrm.optimization.objective import Criterion
from drcrm.optimization.starts import STARTS, as_tilt
from drcrm.policies.feature_map_names import parse_feature_map
from drcrm.risks import (
    AdaptiveBoltzmannRisk,
    BoltzmannRisk,
    Chi2Ball,
    CVaRRisk,
    KLBall,
    LogSmoothingRisk,
    LogSumExpRisk,
    MeanRisk,
    PhiBall,
    Risk,
    VariancePenalizedRisk,
)
from drcrm.weights import CLIPPED, WEIGHTS, Weight, as_weight


@dataclass(frozen=True)
class Estimator:
    """An estimator: the risk it minimises, and its names of that risk's arguments.

    Parameters
    ----------
    name : str
    risk : type
        A subclass of ``drcrm.risks.Risk``.
    parameters : tuple of str, optional
        Its names of the risk's arguments in their order; by default those of its constructor.
    hyper_parameter : str, optional
        Which of them is the hyper-parameter; by default the first, None where there are no parameters.
    calibrated : bool
        Whether grids may be in units of ``drcrm.selection.grid_search.calibrated_penalty``.
    likelihood : bool
        Whether its one parameter is the sharpness of a weighted log-likelihood, of which the mean is taken.
    estimates : tuple of str
        Those under which its risk is defined.
    """

    name: str
    risk: type[Risk]
    parameters: tuple[str, ...] | None = None
    hyper_parameter: str | None = None
    calibrated: bool = False
    likelihood: bool = False
    estimates: tuple[str, ...] = tuple(ESTIMATES)

    def __post_init__(self):
        if self.parameters is None:
            object.__setattr__(self, "parameters", tuple(inspect.signature(self.risk).parameters))
        if self.hyper_parameter is None:
            object.__setattr__(self, "hyper_parameter", next(iter(self.parameters), None))

    def criterion(self, estimate: str = "ips", weight: Weight | str = CLIPPED, **values) -> Criterion:
        """Return what is minimised, of values of the parameters.

        ``weight`` is a weight, or the name of a kind, whose parameter then is in ``values`` as ``weight.NAME``.
        InputError for a name that is unknown, or that is missing.
        """
        check_choice(self.estimates, estimate, "estimate")
        weight = as_weight(weight, values=values)
        for name in values:
            if name not in self.parameters:
                expected = ", ".join(self.parameters) or "none"
                raise InputError(f"{self.name} has no parameter {name!r}, expected {expected}")
        own = dict(zip(self.parameters, inspect.signature(self.risk).parameters.values(), strict=False))
        for name in self.parameters:
            optional = name in own and own[name].default is not own[name].empty
            if name not in values and (name == self.hyper_parameter or not optional):
                raise InputError(f"{self.name} needs {name}")
        if self.calibrated or self.likelihood:  # the risk has another name for it, or has it not
            name = self.hyper_parameter
            values[name] = check_nonnegative(values[name], name)
        if self.likelihood:
            if weight is not None:
                raise InputError(f"{self.name} has no weight: it is a likelihood of the actions")
            return Criterion(self.risk(), sharpness=values[self.hyper_parameter])
        return Criterion(self.risk(**{own[name].name: value for name, value in values.items()}), weight, estimate)


ESTIMATORS = {
    each.name: each
    for each in (
        Estimator("CIPS", MeanRisk, ()),
        Estimator("POEM", VariancePenalizedRisk, ("variance_penalty",), calibrated=True),
        Estimator("KLCRM", BoltzmannRisk),
        Estimator("AdaptiveKLCRM", AdaptiveBoltzmannRisk),
        Estimator("KLDRO", KLBall),
        Estimator("Chi2DRO", Chi2Ball),
        Estimator("PhiDRO", PhiBall, hyper_parameter="radius"),
        Estimator("CVaRDRO", CVaRRisk),
        Estimator("LogSmoothing", LogSmoothingRisk, estimates=("ips", "dm")),
        Estimator("LogSumExp", LogSumExpRisk),
        Estimator("WeightedLikelihood", MeanRisk, ("sharpness",), likelihood=True, estimates=("ips",)),
    )
}

RIDGES = 1e-4, 1e-3, 1e-2  # towards π0, of a safe algorithm's additional fits, in units of the deviation of the costs


def find_estimator(name: str) -> Estimator:
    """Return an estimator by its name, or one's own by where its risk is, ``module:Class``."""
    if name in ESTIMATORS:
        return ESTIMATORS[name]
    if ":" in name:
        return Estimator(name, _own_risk(name))
    close = get_close_matches(name, ESTIMATORS, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    raise InputError(f"unknown estimator {name!r}{hint} (allowed: {', '.join(ESTIMATORS)}, or module:Class of a risk)")


@dataclass(frozen=True)
class Algorithm:
    """An algorithm as a configuration has it: an estimator, the grid of its hyper-parameter, and its other options.

    Parameters
    ----------
    estimator : str
        One of ``ESTIMATORS``, or ``module:Class`` of a risk.
    parameter : str, optional
        The hyper-parameter, that of the estimator, ``weight.NAME`` of its weight, or ``ridge``; none where there is
        none.
    grid : sequence of k floats
        Its values; none without.
    options : mapping
        Values of the estimator's other parameters; ``estimate``, ``weight`` with ``weight.NAME``, ``start``, ``tilt``,
        ``support``, ``context_effects``, ``safe``; ``ridge``, a λ ≥ 0 in units of the deviation of the costs, of
        (λ/2) ‖Θ − start‖², Θ in units of the features' scales, but under ``stopping="public_code"`` as it is; and
        ``features``, the name and size of a feature map, which whoever calls ``learn`` applies.
    """

    estimator: str
    parameter: str | None = None
    grid: Sequence[float] = ()
    options: Mapping[str, object] = field(default_factory=dict)

    def criteria(self, unit: float = 1) -> list[Criterion]:
        """Return what is minimised along the grid, in a unit; one without. InputError says what does not fit."""
        estimator, options = find_estimator(self.estimator), dict(self.options)
        self._check_grid(estimator)
        check_choice(STARTS, options.pop("start", "zero"), "start")
        as_tilt(options.pop("tilt", "auto"))
        check_fraction(options.pop("support", 0), "support")
        as_context_effects(options.pop("context_effects", "auto"))
        check_bool(options.pop("safe", False), "safe")
        check_nonnegative(options.pop("ridge", 0), "ridge")
        if (features := options.pop("features", None)) is not None:
            parse_feature_map(features)
        if self.parameter == "ridge":
            for each in self.grid:
                check_nonnegative(each, "ridge")
            return [estimator.criterion(**options)] * len(self.grid)
        values = [{self.parameter: unit * value} for value in self.grid] if self.parameter else [{}]
        return [estimator.criterion(**options, **value) for value in values]

    def _check_grid(self, estimator: Estimator) -> None:
        parameter, options = self.parameter, self.options
        if parameter in options:
            raise InputError(f"{parameter!r} is the hyper-parameter of {self.estimator}, no option")
        weight = options.get("weight", CLIPPED)
        kind = None if isinstance(weight, Weight) else WEIGHTS.get(check_choice([CLIPPED, *WEIGHTS], weight, "weight"))
        own = [*filter(None, [estimator.hyper_parameter]), *([f"weight.{kind.parameter}"] if kind else [])]
        free = [name for name in own if name not in options]
        if parameter == "ridge" and not free:
            own = free = ["ridge"]
        if (parameter not in free or not len(self.grid)) if parameter else (free or len(self.grid)):
            given = f"{parameter} and {len(self.grid)} values" if parameter else "none"
            expected = f"{' or '.join(own)} and at least one value" if own else "none"
            instead = "" if parameter or not free else f", or a value of {' or '.join(free)} among the options"
            raise InputError(f"the hyper-parameter of {self.estimator} is {given}, expected {expected}{instead}")

    @property
    def ridges(self) -> list[float]:
        """λ along the grid."""
        if self.parameter == "ridge":
            return list(self.grid)
        return [self.options.get("ridge", 0.0)] * max(1, len(self.grid))

    @property
    def robust_end(self) -> str:
        """Which end of the grid is the more robust: "low" or "high"."""
        if self.parameter == "ridge":
            return "high"
        if self.parameter and self.parameter.startswith("weight."):
            return WEIGHTS[self.options["weight"]].robust_end
        estimator = find_estimator(self.estimator)
        return "low" if estimator.likelihood else estimator.risk.robust_end


@contextmanager
def _working_folder_last() -> Iterator[None]:
    """Import what is found nowhere else from the working folder."""
    folder = os.getcwd()
    if folder in sys.path:
        yield
        return
    sys.path.append(folder)
    try:
        yield
    finally:
        with suppress(ValueError):  # the module may have removed it
            sys.path.remove(folder)


def _own_risk(path: str) -> type[Risk]:
    """The risk at ``module:Class``; InputError says why there is none."""
    module, _, name = path.partition(":")
    try:
        with _working_folder_last():
            risk = getattr(import_module(module), name)
    except Exception as error:  # whatever the module of a user does
        raise InputError(f"estimator {path}: {' '.join(str(error).split()) or type(error).__name__}") from None
    if not (isinstance(risk, type) and hasattr(risk, "robust_end")):
        raise InputError(f"estimator {path}: {name} is no subclass of drcrm.risks.Risk")
    return risk
