"""Algorithms: what a fit minimises, the grid of its hyper-parameter, and everything else that decides its result.

The configuration, the command line, scikit-learn estimators, tables and reports read this module. A new risk gets a
line in ``ESTIMATORS``; its parameters, its robust end and the estimates that it supports are attributes of the risk.
Entries of algorithms are those of ``algorithms.yaml`` by name, or a user's mapping with the same keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from functools import cache
from inspect import Parameter
from pathlib import Path
from typing import Any, Self

import numpy as np

from drcrm.arrays.formats import constructor_parameters
from drcrm.arrays.validation import check_choice, check_nonnegative
from drcrm.errors import InputError, refuse_errors
from drcrm.estimates import ESTIMATES, Estimate
from drcrm.optimization.objective import Objective, WeightedLikelihoodRisk, make_objective
from drcrm.policies import CLASSIFIER_WEIGHTS, LEARNED_SCORES, check_feature_option
from drcrm.policies.prepared_log import PreparedLog
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
from drcrm.selection.fit_settings import ENTRY_OPTIONS, FitSettings, import_class, make_object
from drcrm.weights import CLIPPED, WEIGHTS, Weight, check_weight

ESTIMATORS: dict[str, type[Risk]] = {
    "CIPS": MeanRisk,
    "POEM": VariancePenalizedRisk,
    "KLCRM": BoltzmannRisk,
    "AdaptiveKLCRM": AdaptiveBoltzmannRisk,
    "KLDRO": KLBall,
    "Chi2DRO": Chi2Ball,
    "PhiDRO": PhiBall,
    "CVaRDRO": CVaRRisk,
    "EnvironmentDRO": EnvironmentBall,
    "LogSmoothing": LogSmoothingRisk,
    "LogSumExp": LogSumExpRisk,
    "WeightedLikelihood": WeightedLikelihoodRisk,
}
TREE = "PolicyTree"  # estimator of an entry that learns a policy tree, in place of a fit
TREES: dict[str, dict] = {  # of drcrm learn, not of experiments
    "single_action": {"estimator": TREE, "label": "best single action", "options": {"depth": 0}},
    "policy_tree": {"estimator": TREE, "label": "policy tree"},
}
ALGORITHMS = Path(__file__).with_name("algorithms.yaml")


@dataclass(frozen=True)
class Algorithm:
    """A risk with an estimate and a weight, the grid of a hyper-parameter, and all other settings of the fits.

    Parameters
    ----------
    estimator : str or class
        A key of ``ESTIMATORS``, a risk, as a class or as ``module:Class``, or "PolicyTree".
    parameter : str, optional
        Name of the hyper-parameter: a parameter of the risk, ``weight.NAME`` for the weight, or ``ridge``.
    grid : sequence of k floats
        Values of the hyper-parameter; empty if there is none.
    options : mapping
        Values of the risk's other parameters and of ``weight.NAME``. Values of the settings' options, such as
        ``estimate``, become those of ``settings``.
    settings : FitSettings
        All other settings of the fits.
    name, label : str
        Name in configurations and answers; name in tables, figures and reports.
    classifier : classifier, optional
        Competitor in place of the fits: see :func:`drcrm.policies.classifier_policy.classifier_policy`.

    Raises
    ------
    InputError
        If a value is invalid, or a name is unknown or missing.
    """

    estimator: Any
    parameter: str | None = None
    grid: Sequence[float] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    settings: FitSettings = field(default_factory=FitSettings)
    name: str = ""
    label: str = ""
    classifier: Any = None

    def __post_init__(self) -> None:
        supported, options = self.risk_class.estimates, dict(self.options)
        chosen = {name: options.pop(name) for name in ENTRY_OPTIONS if name in options and name != self.parameter}
        chosen["estimate"] = estimate = chosen.get("estimate") or self.settings.estimate or supported[0]
        if self.risk_class.is_shift and estimate == "dr":
            raise InputError(
                f"the estimate of {self.title} must be 'snips', got 'dr', whose fits ended in poor local minima. Learn "
                "with 'snips', then evaluate and certify the policy with the estimate 'dr' and shift=κ"
            )
        check_choice(supported, estimate, "estimate")
        object.__setattr__(self, "options", options)
        object.__setattr__(self, "settings", replace(self.settings, **chosen))
        for ridge in self.fit_ridges:
            check_nonnegative(ridge, "ridge")
        self._check_grid()
        self.variants()

    @classmethod
    def of_entry(cls, entry: Mapping, **others: Any) -> Self:
        """Return the algorithm of an entry of a configuration, with other values of the fields."""
        known = {part.name: entry[part.name] for part in fields(cls) if entry.get(part.name) is not None}
        return cls(**{**known, **others})

    def with_settings(self, **changes: Any) -> Self:
        """Return the algorithm with other values of the settings, by their names."""
        return replace(self, settings=replace(self.settings, **changes))

    @property
    def risk_class(self) -> type[Risk]:
        """Class of the risk."""
        return find_risk(self.estimator)

    @property
    def is_tree(self) -> bool:
        """Whether the algorithm learns a policy tree."""
        return isinstance(self.estimator, str) and self.estimator == TREE

    @property
    def is_linear(self) -> bool:
        """Whether the algorithm fits coefficients of a policy that is linear in X."""
        return self.settings.features is None and self.classifier is None and not self.is_tree

    @property
    def uses_scores(self) -> bool:
        """Whether the features of the policy are learned scores: see :mod:`drcrm.selection.learned_scores`."""
        features = self.settings.features
        return isinstance(features, list | tuple) or (isinstance(features, str) and features == LEARNED_SCORES)

    @property
    def is_exportable(self) -> bool:
        """Whether ``drcrm export`` can write the algorithm's policies: linear ones, and trees."""
        return self.is_linear or self.is_tree

    @property
    def title(self) -> str:
        """Name of the estimator in messages."""
        return self.estimator if isinstance(self.estimator, str) else self.estimator.__qualname__

    @property
    def kind(self) -> type[Estimate]:
        """Class of the estimate."""
        return ESTIMATES[self.settings.estimate]

    @property
    def values(self) -> np.ndarray:
        """Values of the hyper-parameter; NaN if there is none."""
        return np.array(self.grid if self.parameter else [np.nan], dtype=float)

    @property
    def fit_ridges(self) -> list[float]:
        """λ of the fit for each value of the hyper-parameter."""
        return list(self.grid) if self.parameter == "ridge" else [self.settings.ridge] * max(1, len(self.grid))

    @property
    def robust_end(self) -> str:
        """Which end of the grid is more robust, "low" or "high"."""
        if self.parameter and self.parameter.startswith("weight."):
            return find_weight(self.settings.weight).robust_end
        return "high" if self.parameter == "ridge" else self.risk_class.robust_end

    @property
    def uses_model(self) -> bool:
        """Whether a fit needs a cost model, for the estimate, the start, or the comparison of candidates."""
        settings = self.settings
        return self.kind.uses_model or settings.start == "model" or settings.safe or settings.compares

    def variants(self) -> list[tuple[Risk, Weight | None]]:
        """Return the risk and the weight for each value of the hyper-parameter; the weight "clipped" is None."""
        if self.settings.weight != CLIPPED and issubclass(self.risk_class, WeightedLikelihoodRisk):
            raise InputError(f"{self.title} is a likelihood of the actions and takes no weight")
        return [self._variant(value) for value in self.values]

    def _variant(self, value: float) -> tuple[Risk, Weight | None]:
        values = dict(self.options) if self.parameter in (None, "ridge") else {**self.options, self.parameter: value}
        weight, weight_class = self.settings.weight, find_weight(self.settings.weight)
        if not isinstance(weight, Weight):
            names = [name for name in values if weight_class and name.startswith("weight.")]
            arguments = {name.removeprefix("weight."): values.pop(name) for name in names}
            weight = weight_class and _make(weight_class, arguments, f"weight {weight}")
        return _make(self.risk_class, values, self.title, hyper_parameter(self.risk_class)), weight

    def make_objectives(self, prepared: PreparedLog, clip: float | None) -> list[Objective]:
        """Return the objective on a log for each value of the hyper-parameter, with clipped weights at most M.

        Around the environment, weights are multiplicities. There, "auto" is no limit: clipping at M lost robust reward.
        """
        settings = self.settings
        limit = None if self.risk_class.is_shift and settings.clip == "auto" else clip
        return [
            make_objective(prepared, risk.for_fewer_rows(settings.fewer_rows), weight, settings.estimate, limit)
            for risk, weight in self.variants()
        ]

    def _check_grid(self) -> None:
        """Raise InputError unless the hyper-parameter that has no value in the options, and only it, has a grid."""
        parameter, options, weight = self.parameter, self.options, self.settings.weight
        if parameter in options:
            raise InputError(f"{parameter!r} is the hyper-parameter of {self.title} and cannot be an option too")
        allowed = [name for name in [hyper_parameter(self.risk_class)] if name]
        if not isinstance(weight, Weight) and (weight_class := find_weight(weight)):
            allowed += [f"weight.{name}" for name in constructor_parameters(weight_class)][:1]
        free = [name for name in allowed if name not in options]
        if parameter == "ridge" and not free:
            allowed = free = ["ridge"]
        is_valid = (parameter in free and len(self.grid) > 0) if parameter else not (free or len(self.grid))
        if not is_valid:
            actual = f"{parameter} and {len(self.grid)} values" if parameter else "none"
            expected = f"{' or '.join(allowed)} and at least one value" if allowed else "none"
            instead = "" if parameter or not free else f", or a value of {' or '.join(free)} among the options"
            raise InputError(f"the hyper-parameter of {self.title} is {actual}, expected {expected}{instead}")


def find_risk(estimator: Any) -> type[Risk]:
    """Return the class of a risk from the name of an estimator, a class or ``module:Class``; InputError for others."""
    if isinstance(estimator, str) and ":" not in estimator:
        if estimator in (*ESTIMATORS, TREE):
            return ESTIMATORS.get(estimator, MeanRisk)
        close = get_close_matches(estimator, ESTIMATORS, n=1)
        hint, names = f"; did you mean {close[0]!r}?" if close else "", ", ".join(ESTIMATORS)
        raise InputError(f"unknown estimator {estimator!r}{hint} (allowed: {names}, or module:Class of a risk)")
    risk: Any = import_class(estimator, "estimator") if isinstance(estimator, str) else estimator
    if not hasattr(risk, "robust_end"):
        raise InputError(f"estimator {estimator}: {risk.__name__} must be a subclass of drcrm.risks.Risk")
    return risk


def hyper_parameter(risk: type[Risk]) -> str | None:
    """Return the name of a risk's parameter that has a grid; None if there is none."""
    return risk.hyper_parameter or next(iter(constructor_parameters(risk)), None)


def find_weight(name: object) -> Any:
    """Return the class of a weight from an object, its name or a user's ``module:Class``; None for "clipped"."""
    if isinstance(name, Weight):
        return type(name)
    if not (isinstance(name, str) and ":" in name):
        return WEIGHTS.get(check_choice([CLIPPED, *WEIGHTS], name, "weight"))
    weight_class = import_class(name, "weight")
    if not issubclass(weight_class, Weight):
        raise InputError(f"weight {name}: {weight_class.__name__} must be a subclass of drcrm.weights.Weight")
    return weight_class


def check_algorithm(algorithm: Algorithm) -> None:
    """Raise InputError for an unknown feature map, and for a user's risk or weight that fails its check."""
    check_feature_option(algorithm.settings.features)
    for risk, weight in algorithm.variants():
        if weight is not None and ":" in str(algorithm.settings.weight):
            with refuse_errors(f"weight {algorithm.settings.weight} fails drcrm.weights.check_weight"):
                check_weight(weight)
        if algorithm.estimator not in (*ESTIMATORS, TREE):
            # The risk may be undefined for the costs of the check.
            with refuse_errors(f"estimator {algorithm.estimator} fails drcrm.risks.check_risk"), suppress(InputError):
                check_risk(risk)


def _make(kind: type, values: Mapping[str, Any], title: str, needed: str | None = None) -> Any:
    """Return a risk or a weight; raise InputError if a value is unknown or missing."""
    parameters = constructor_parameters(kind)
    for name in values:
        if name not in parameters:
            raise InputError(f"{title} has no parameter {name!r}, expected {', '.join(parameters) or 'none'}")
    for name, parameter in parameters.items():
        if name not in values and (name == needed or parameter.default is Parameter.empty):
            raise InputError(f"{title} needs {name}")
    return kind(**values)


@cache
def shipped_algorithms() -> dict[str, dict]:
    """Return the entries of ``algorithms.yaml`` by name. A configuration merges its entries with them."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # CSafeLoader is ten times faster
    return yaml.load(ALGORITHMS.read_text(encoding="utf-8"), Loader=loader)


def as_algorithm(value: Any) -> Algorithm:
    """Return the shipped algorithm of this name, or the algorithm of a map that the schema of mappings has checked.

    Raise InputError if the name or an option is unknown. The algorithm is safe unless its options say otherwise.
    """
    if not isinstance(value, Mapping):
        known = {key: entry for key, entry in shipped_algorithms().items() if "estimator" in entry}
        known |= TREES
        return _make_algorithm(check_choice(known, value, "algorithm"), known[value])
    if value.get("classifier") is not None:
        return _make_classifier(value)
    return _make_algorithm(value.get("name") or value["estimator"], value)


def _make_algorithm(name: str, mapping: Mapping) -> Algorithm:
    options = {"safe": True, **(mapping.get("options") or {})}
    entry = {**mapping, "grid": tuple(mapping.get("grid") or ()), "options": options}
    algorithm = Algorithm.of_entry(entry, name=name, label=mapping.get("label") or name)
    check_algorithm(algorithm)
    return algorithm


def _make_classifier(mapping: Mapping) -> Algorithm:
    if unused := mapping.keys() - {"classifier", "weights", "name", "label"}:
        raise InputError(f"the key {min(unused)} cannot be used with a classifier")
    classifier = make_object(mapping["classifier"], "classifier", "predict_proba")
    weights = check_choice(CLASSIFIER_WEIGHTS, mapping.get("weights") or "none", "weights")
    name = mapping.get("name") or type(classifier).__name__
    settings = FitSettings(weights=weights)
    return Algorithm("CIPS", settings=settings, name=name, label=mapping.get("label") or name, classifier=classifier)
