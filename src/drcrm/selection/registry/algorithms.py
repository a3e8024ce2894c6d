"""Registry of the estimators by name, and algorithms: an estimator, the grid of its hyper-parameter, and its options.

The configuration, the command line, scikit-learn estimators, tables and reports read this registry. A new risk gets a
line in ``ESTIMATORS``; its robust end is an attribute of the risk.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from typing import Any

from drcrm.arrays.validation import check_bool, check_choice, check_fraction, check_nonnegative
from drcrm.cost_models.context_effects import as_context_effects
from drcrm.cost_models.support import SUPPORT
from drcrm.errors import InputError, refuse_errors
from drcrm.estimates import ESTIMATES
from drcrm.optimization.criterion import Criterion
from drcrm.optimization.starts import STARTS, as_tilt
from drcrm.policies.feature_map_names import check_feature_option
from drcrm.risks import (
    AdaptiveBoltzmannRisk,
    BoltzmannRisk,
    Chi2Ball,
    CVaRRisk,
    EnvironmentBall,
    KLBall,
    LogSmoothingRisk,
    LogSumExpRisk,
    MeanRisk,
    PhiBall,
    Risk,
    VariancePenalizedRisk,
    check_risk,
)
from drcrm.selection.registry.user_classes import import_class, make_object
from drcrm.weights import CLIPPED, WEIGHTS, Weight, check_weight

RIDGES = 1e-4, 1e-3, 1e-2  # λ of a safe algorithm's fits with a ridge towards π0, in standard deviations of the costs


@dataclass(frozen=True)
class Estimator:
    """Entry of an estimator: the risk that it minimises, and the names that it uses for the risk's arguments.

    Parameters
    ----------
    name : str
    risk : type
        A subclass of ``drcrm.risks.Risk``.
    parameters : tuple of str, optional
        The estimator's names for the risk's arguments, in the order of these arguments; by default the same names.
    hyper_parameter : str, optional
        The parameter with a grid; by default the first one, None if there is none.
    calibrated : bool
        Whether grids may be in units of ``drcrm.selection.grid_search.calibrated_penalty``.
    likelihood : bool
        Whether the only parameter is the sharpness of a weighted log-likelihood.
    estimates : tuple of str
        The estimates that the risk supports.
    """

    name: str
    risk: type[Risk]
    parameters: Any = None
    hyper_parameter: Any = None
    calibrated: bool = False
    likelihood: bool = False
    estimates: tuple[str, ...] = tuple(ESTIMATES)

    def __post_init__(self) -> None:
        if self.parameters is None:
            object.__setattr__(self, "parameters", tuple(inspect.signature(self.risk).parameters))
        if self.hyper_parameter is None:
            object.__setattr__(self, "hyper_parameter", next(iter(self.parameters), None))

    @property
    def robust_end(self) -> str:
        """Which end of the grid is more robust, "low" or "high"."""
        return "low" if self.likelihood else self.risk.robust_end

    def criterion(self, estimate: str | None = None, weight: Any = CLIPPED, **values: Any) -> Criterion:
        """Return the criterion for values of the parameters.

        The default of ``estimate`` is the first one that the risk supports. ``weight`` is a weight or its name. With a
        name, ``values`` has the weight's parameters under ``weight.NAME``.
        Raise InputError if a name is unknown or missing.
        """
        estimate = check_choice(self.estimates, estimate or self.estimates[0], "estimate")
        weight = make_weight(weight, values)
        arguments = self._check_names(values)
        if self.calibrated or self.likelihood:  # the risk's own check is missing, or its message has another name
            values[self.hyper_parameter] = check_nonnegative(values[self.hyper_parameter], self.hyper_parameter)
        if not self.likelihood:
            return Criterion(self.risk(**{arguments[key]: value for key, value in values.items()}), weight, estimate)
        if weight is not None:
            raise InputError(f"{self.name} is a likelihood of the actions and takes no weight")
        return Criterion(self.risk(), sharpness=values[self.hyper_parameter])

    def _check_names(self, values: Mapping[str, object]) -> dict[str, str]:
        """Return the risk's name of each parameter; raise InputError if a value is unknown or missing."""
        for name in values:
            if name not in self.parameters:
                expected = ", ".join(self.parameters) or "none"
                raise InputError(f"{self.name} has no parameter {name!r}, expected {expected}")
        arguments = dict(zip(self.parameters, inspect.signature(self.risk).parameters.values(), strict=False))
        for name in self.parameters:
            is_optional = name in arguments and arguments[name].default is not inspect.Parameter.empty
            if name not in values and (name == self.hyper_parameter or not is_optional):
                raise InputError(f"{self.name} needs {name}")
        return {name: argument.name for name, argument in arguments.items()}


def find_weight(name: object) -> type[Weight] | None:
    """Return the class of a weight from its name or a user's ``module:Class``; None for "clipped"."""
    if not (isinstance(name, str) and ":" in name):
        return WEIGHTS.get(check_choice([CLIPPED, *WEIGHTS], name, "weight"))
    weight_class = import_class(name, "weight")
    if not issubclass(weight_class, Weight):
        raise InputError(f"weight {name}: {weight_class.__name__} must be a subclass of drcrm.weights.Weight")
    return weight_class


def make_weight(weight: Any, values: dict[str, Any]) -> Weight | None:
    """Return a weight from its name and its parameters, which are removed from ``values``; None for "clipped"."""
    if isinstance(weight, Weight):
        return weight
    weight_class = find_weight(weight)
    if weight_class is None:
        return None
    parameters = inspect.signature(weight_class).parameters
    known = {name: values.pop(f"weight.{name}") for name in parameters if f"weight.{name}" in values}
    for name, parameter in parameters.items():
        if name not in known and parameter.default is inspect.Parameter.empty:
            raise InputError(f"the weight {weight!r} needs weight.{name}")
    return weight_class(**known)


ESTIMATORS = {
    estimator.name: estimator
    for estimator in (
        Estimator("CIPS", MeanRisk, ()),
        Estimator("POEM", VariancePenalizedRisk, ("variance_penalty",), calibrated=True),
        Estimator("KLCRM", BoltzmannRisk),
        Estimator("AdaptiveKLCRM", AdaptiveBoltzmannRisk),
        Estimator("KLDRO", KLBall),
        Estimator("Chi2DRO", Chi2Ball),
        Estimator("PhiDRO", PhiBall, ("divergence", "radius", "confidence"), "radius"),
        Estimator("CVaRDRO", CVaRRisk),
        Estimator("EnvironmentDRO", EnvironmentBall, estimates=("dr", "snips")),
        Estimator("LogSmoothing", LogSmoothingRisk, estimates=("ips", "dm")),
        Estimator("LogSumExp", LogSumExpRisk),
        Estimator("WeightedLikelihood", MeanRisk, ("sharpness",), likelihood=True, estimates=("ips",)),
    )
}


def find_estimator(name: str | type[Risk]) -> Estimator:
    """Return the estimator of this name, or an estimator for a user's risk, a class or ``module:Class``."""
    if not isinstance(name, str):
        return Estimator(name.__qualname__, _check_risk_class(name, name.__qualname__))
    if name in ESTIMATORS:
        return ESTIMATORS[name]
    if ":" in name:
        return Estimator(name, _check_risk_class(import_class(name, "estimator"), name))
    close = get_close_matches(name, ESTIMATORS, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    raise InputError(f"unknown estimator {name!r}{hint} (allowed: {', '.join(ESTIMATORS)}, or module:Class of a risk)")


@dataclass(frozen=True)
class FitOptions:
    """Options of an algorithm that do not depend on its risk.

    Parameters
    ----------
    start : str
        A key of ``drcrm.optimization.starts.STARTS``.
    tilt : float ≥ 0 or "auto"
        κ of the start "model".
    support : float in [0, 1]
        τ; see :mod:`drcrm.cost_models.support`.
    context_effects : bool or "auto"
        Whether the training costs are modelled with context effects under "dr" and "dm".
    safe : bool
        Whether the candidates include fits with a ridge towards π0, policies between π0 and a fit, and π0 itself.
    ridge : float ≥ 0
        λ of (λ/2) ‖Θ − start‖², in units of the standard deviation of the costs, with Θ in units of the features.
        Under the stopping rule "public_code" both units are 1.
    features : mapping or "scores", optional
        Name and size of a feature map; ``learn`` expects logs with mapped features. "scores" are learned scores.
    cost_model : str or mapping, optional
        ``module:Class`` of a regressor, or ``{"module:Class": {parameter: value}}``. By default the cost model is a
        ridge regression.
    """

    start: str = "zero"
    tilt: float | str = 1.0
    support: float = SUPPORT
    context_effects: bool | str = "auto"
    safe: bool = False
    ridge: float = 0.0
    features: Mapping[str, int] | str | None = None
    cost_model: Any = None

    def __post_init__(self) -> None:
        for name, check in _OPTION_CHECKS.items():
            check(getattr(self, name), name)
        check_feature_option(self.features)
        self.make_regressor()

    def make_regressor(self) -> Any:
        """Return the regressor of the cost model, not yet fitted; None for the default, a ridge regression."""
        return None if self.cost_model is None else make_object(self.cost_model, "cost_model", "predict")


_OPTION_CHECKS: dict[str, Callable[[Any, str], object]] = {
    "start": lambda value, name: check_choice(STARTS, value, name),
    "tilt": as_tilt,
    "support": check_fraction,
    "context_effects": as_context_effects,
    "safe": check_bool,
    "ridge": check_nonnegative,
}
_OPTION_NAMES = {option.name for option in fields(FitOptions)}


@dataclass(frozen=True)
class Algorithm:
    """An algorithm of a configuration: an estimator, the grid of its hyper-parameter, and its other options.

    Parameters
    ----------
    estimator : str or class
        A key of ``ESTIMATORS``, or a risk, as a class or as ``module:Class``.
    parameter : str, optional
        Name of the hyper-parameter: a parameter of the estimator, ``weight.NAME`` for its weight, or ``ridge``.
    grid : sequence of k floats
        Values of the hyper-parameter; empty if there is none.
    options : mapping
        Values of the estimator's other parameters, of ``estimate``, ``weight`` and ``weight.NAME``, and of
        ``FitOptions``.
    """

    estimator: Any
    parameter: str | None = None
    grid: Sequence[float] = ()
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def fit_options(self) -> FitOptions:
        """The options that do not depend on the risk, checked."""
        return FitOptions(**{name: value for name, value in self.options.items() if name in _OPTION_NAMES})

    def criteria(self, unit: float = 1) -> list[Criterion]:
        """Return a criterion for each value of the grid, times ``unit``; raise InputError for an invalid algorithm."""
        estimator = find_estimator(self.estimator)
        self._check_grid(estimator)
        _ = self.fit_options
        options = {name: value for name, value in self.options.items() if name not in _OPTION_NAMES}
        if self.parameter == "ridge":
            for value in self.grid:
                check_nonnegative(value, "ridge")
            return [estimator.criterion(**options)] * len(self.grid)
        values: list[dict[str, Any]] = (
            [{self.parameter: unit * value} for value in self.grid] if self.parameter else [{}]
        )
        return [estimator.criterion(**options, **value) for value in values]

    def _check_grid(self, estimator: Estimator) -> None:
        """Raise InputError unless the hyper-parameter that has no value in the options, and only it, has a grid."""
        parameter, options = self.parameter, self.options
        if parameter in options:
            raise InputError(f"{parameter!r} is the hyper-parameter of {estimator.name} and cannot be an option too")
        weight = options.get("weight", CLIPPED)
        weight_class = None if isinstance(weight, Weight) else find_weight(weight)
        allowed = [estimator.hyper_parameter] if estimator.hyper_parameter else []
        allowed += (
            [f"weight.{name}" for name in [*inspect.signature(weight_class).parameters][:1]] if weight_class else []
        )
        free = [name for name in allowed if name not in options]
        if parameter == "ridge" and not free:
            allowed = free = ["ridge"]
        is_valid = (parameter in free and len(self.grid) > 0) if parameter else not (free or len(self.grid))
        if not is_valid:
            actual = f"{parameter} and {len(self.grid)} values" if parameter else "none"
            expected = f"{' or '.join(allowed)} and at least one value" if allowed else "none"
            instead = "" if parameter or not free else f", or a value of {' or '.join(free)} among the options"
            raise InputError(f"the hyper-parameter of {estimator.name} is {actual}, expected {expected}{instead}")

    @property
    def ridges(self) -> list[float]:
        """λ of each value of the grid."""
        if self.parameter == "ridge":
            return list(self.grid)
        return [self.options.get("ridge", 0.0)] * max(1, len(self.grid))

    @property
    def robust_end(self) -> str:
        """Which end of the grid is more robust, "low" or "high"."""
        if self.parameter == "ridge":
            return "high"
        if self.parameter and self.parameter.startswith("weight."):
            weight_class = find_weight(self.options["weight"])
            return weight_class.robust_end if weight_class else "high"
        return find_estimator(self.estimator).robust_end


def check_algorithm(algorithm: Algorithm) -> None:
    """Raise InputError for an invalid algorithm, and for a user's risk or weight that fails its check."""
    criteria, weight = algorithm.criteria(), str(algorithm.options.get("weight", CLIPPED))
    for criterion in criteria:
        if ":" in weight and criterion.weight is not None:
            with refuse_errors(f"weight {weight} fails drcrm.weights.check_weight"):
                check_weight(criterion.weight)
    for criterion in criteria if algorithm.estimator not in ESTIMATORS else []:
        # The risk may be undefined for the costs of the check.
        with refuse_errors(f"estimator {algorithm.estimator} fails drcrm.risks.check_risk"), suppress(InputError):
            check_risk(criterion.risk)


def _check_risk_class(risk: Any, name: str) -> type[Risk]:
    """Return the class of a risk; raise InputError for other classes."""
    if not hasattr(risk, "robust_end"):
        raise InputError(f"estimator {name}: {risk.__name__} must be a subclass of drcrm.risks.Risk")
    return risk
