"""Settings of fits: options that estimators and entries of a configuration share, and what their callers set.

A configuration can name a user's risk, weight, regressor or classifier by ``module:Class``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from drcrm.arrays.validation import check_bool, check_choice, check_fraction, check_nonnegative, check_positive_integer
from drcrm.cost_models.context_effects import as_context_effects
from drcrm.errors import InputError, refuse_errors
from drcrm.logging_policy import SUPPORT
from drcrm.optimization.lbfgs import LbfgsSettings
from drcrm.optimization.starts import STARTS, as_tilt
from drcrm.policies.trees import DEPTH
from drcrm.weights import CLIPPED, Weight


def import_class(path: str, key: str) -> type:
    """Return the class at ``module:Class``; InputError, which names the key, if it cannot be imported."""
    module, _, name = path.partition(":")
    searched = sys.path
    try:
        sys.path = [*searched, os.getcwd()]  # imports also search the working folder, after all other folders
        with refuse_errors(f"{key} {path}"):
            found_class = getattr(import_module(module), name)
    finally:
        sys.path = searched
    if not isinstance(found_class, type):
        raise InputError(f"{key} {path}: {name} must be a class")
    return found_class


def make_object(value: Any, key: str, method: str) -> Any:
    """Return the object that a value describes: ``"module:Class"``, or ``{"module:Class": {parameter: value}}``.

    Raise InputError, which names the key, for any other value and for a class without the method.
    """
    path, parameters = next(iter(value.items())) if isinstance(value, Mapping) and len(value) == 1 else (value, {})
    if not (isinstance(path, str) and ":" in path and isinstance(parameters, Mapping | None)):
        raise InputError(f"{key} is {value!r}, expected module:Class, or a map of module:Class to its parameters")
    user_class = import_class(path, key)
    if not hasattr(user_class, method):
        raise InputError(f"{key} {path}: the class has no {method}")
    try:
        return user_class(**(parameters or {}))
    except (TypeError, ValueError) as error:
        raise InputError(f"{key} {path}: {error}") from None


def make_regressor(value: Any, key: str = "cost_model") -> Any:
    """Return the regressor of a cost model that a value describes, not yet fitted; None for None."""
    return None if value is None else make_object(value, key, "predict")


@dataclass(frozen=True)
class SafeCandidates:
    """The candidates of a safe algorithm besides its fits and π0.

    Parameters
    ----------
    ridges : sequence of float
        λ of fits with a ridge towards π0, in units of the standard deviation of the costs.
    steps : sequence of float
        Fractions of the way from π0 to a fit.
    sharpened : sequence of float
        Factors of Θ of π0.
    greedy : float, optional
        Factor of Θ of each fit, for a nearly greedy candidate.
    """

    ridges: Sequence[float] = (1e-4, 1e-3, 1e-2)
    steps: Sequence[float] = (0.25, 0.5)
    sharpened: Sequence[float] = ()
    greedy: float | None = None


@dataclass(eq=False, repr=False)
class FitOptions:
    """Options of fits that are parameters of all estimators, too.

    Parameters
    ----------
    estimate : "ips", "snips", "dr" or "dm"
        Estimate of a policy's cost: inverse propensity scoring, the same self-normalised, doubly robust, or the direct
        method, which uses only a cost model. See :mod:`drcrm.estimates`.
    weight : "clipped" or a weight
        Importance weight of a row whose action has propensity p and probability π under the policy. "clipped" is
        min(M, π/p). :mod:`drcrm.weights` has others, such as ``Implicit(0.1)``.
    start : "zero", "logging", "model" or "imitation"
        Where the fit starts:

        - "zero": Θ = 0, the uniform policy.
        - "logging": the logging policy π0.
        - "model": π0, tilted towards actions with a small modelled cost. If π0 is unknown, the cloned policy is tilted.
        - "imitation": the cloned policy, which is fitted to the logged actions (behaviour cloning).
    tilt : float ≥ 0 or "auto"
        Strength κ of the tilt. The start "model" is π ∝ π0 e^{−κ ĉ}, with the modelled cost ĉ. "auto" chooses κ such
        that the effective sample size of the start is a third of the rows. κ is then at most 10 divided by the standard
        deviation of the costs.
    support : float in [0, 1]
        Threshold τ, below which the cost model is not trusted. An action has no support if its probability under the
        logging policy is below τ times the uniform probability, and a label value if it is below τ/2. A large cost
        then replaces the modelled cost: see :mod:`drcrm.logging_policy`. 0 trusts the model everywhere.
    context_effects : bool or "auto"
        Whether the cost model of "dr" and "dm" adds a random effect of each context, estimated from the context's own
        rows: see :mod:`drcrm.cost_models.context_effects`. "auto" does so for label vectors only.
    clip : "auto", float ≥ 1, or None
        Limit M of "clipped" weights. "auto" is the ratio of the 90th to the 10th percentile of the logged propensities,
        but at least e = 2.718. None does not clip.
    fit_intercept : bool
        Whether to fit an intercept for each label or action. If not, X should have a constant column. Lists of actions
        have no intercept.
    features : transformer, dict, "scores" or list of models, optional
        Feature map φ: a scikit-learn transformer, or {"nystroem": 300}. Policy, cost model and start then use
        X' = [X, s φ(X)]. The factor s gives both parts the same mean squared norm. With "scores", φ has
        learned scores of the actions, and the policy is exponential in them: see
        :mod:`drcrm.selection.learned_scores`. A list has the models of the scores: regressors of scikit-learn and
        feature maps, which model the costs together, and, for one of K actions, classifiers.
    """

    _: KW_ONLY
    estimate: str = "ips"
    weight: str | Weight = field(default=CLIPPED, metadata={"check": None})
    start: str = field(default="zero", metadata={"check": partial(check_choice, STARTS)})
    tilt: float | str = field(default=1.0, metadata={"check": as_tilt})
    support: float = field(default=SUPPORT, metadata={"check": check_fraction})
    context_effects: bool | str = field(default="auto", metadata={"check": as_context_effects})
    clip: float | str | None = "auto"
    fit_intercept: bool = False
    features: object = field(default=None, metadata={"check": None})


@dataclass
class FitSettings(FitOptions):
    """All settings of the fits of an algorithm apart from the parameters of its risk.

    An entry of a configuration can set the fields with a ``check``, which may be None, in their metadata. An estimator,
    a command or a step of the pipeline sets the others. ``weight`` may also be the name of a weight.

    Parameters
    ----------
    lbfgs : LbfgsSettings
        Under the stopping rule "scaled", the smallest cost is subtracted from all costs if the estimate is
        translation-equivariant, because costs far from 0 lose digits.
    estimate : str
        "ips", "snips", "dr" or "dm"; by default the first one that the risk supports.
    safe : bool
        Whether the candidates include fits with a ridge towards π0, policies between π0 and a fit, and π0 itself.
    ridge : float ≥ 0
        λ of (λ/2) ‖Θ − start‖², in units of the standard deviation of the costs, with Θ in units of the features.
        Under the stopping rule "public_code" both units are 1.
    cost_model : str or mapping, optional
        ``module:Class`` of a regressor, or ``{"module:Class": {parameter: value}}``. By default the cost model is a
        ridge regression.
    depth : int ≥ 0
        Depth of a policy tree; with 0, it is the best single action.
    weights : str
        How a classifier weights rows: "inverse_propensity" or "none".
    around : SafeCandidates
        Candidates of a safe algorithm between π0 and its fits.
    origin : array (d, …)
        Θ at which the fits start, in place of ``start``.
    begins : sequence of array (d, …)
        Other starts Θ, one for each fit along the grid, and then for each fit with a ridge. The better start is used.
    explore : float
        Share ε of the uniform policy in the candidates. Fits do not depend on it.
    shift : float, optional
        Radius κ, if ``improvement_bound`` compares worst cases around the environment.
    compares : bool
        Whether candidates are compared with π0 on held-out rows, which needs a cost model, even if fits need none.
    fewer_rows : float
        If the log is a sample, the rows of the whole log divided by those of the sample: see ``Risk.for_fewer_rows``.

    Raises
    ------
    InputError
        If the value of an option is invalid.
    """

    lbfgs: LbfgsSettings = field(default_factory=LbfgsSettings)
    _: KW_ONLY
    estimate: str = field(default="", metadata={"check": None})
    safe: bool = field(default=False, metadata={"check": check_bool})
    ridge: float = field(default=0.0, metadata={"check": check_nonnegative})
    cost_model: Any = field(default=None, metadata={"check": make_regressor})
    depth: int = field(default=DEPTH, metadata={"check": lambda value, name: check_positive_integer(value or 1, name)})
    weights: str = "none"
    around: SafeCandidates = field(default_factory=SafeCandidates)
    origin: np.ndarray | None = None
    begins: Sequence[np.ndarray] = ()
    explore: float = 0.0
    shift: float | None = None
    compares: bool = False
    fewer_rows: float = 1.0

    def __post_init__(self) -> None:
        for name, check in ENTRY_OPTIONS.items():
            if check is not None:
                check(getattr(self, name), name)


ENTRY_OPTIONS = {part.name: part.metadata["check"] for part in fields(FitSettings) if "check" in part.metadata}
