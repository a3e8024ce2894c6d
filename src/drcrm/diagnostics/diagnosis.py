"""Diagnostics of a log and of a policy on it, with thresholds and tables."""

from __future__ import annotations

import warnings
from dataclasses import asdict, dataclass, field

import numpy as np

from drcrm.arrays.validation import as_float_array
from drcrm.certificates.independent_units import check_groups
from drcrm.certificates.off_policy_value import off_policy_value
from drcrm.certificates.skewness import tail_residual
from drcrm.cost_models.ridge_model import action_effects
from drcrm.data.bandit_log import BanditLog, as_log
from drcrm.diagnostics.diagnostic import Diagnostic, to_json_number
from drcrm.diagnostics.leakage import check_leakage
from drcrm.diagnostics.log_checks import check_cost_model, check_drift, check_exploration, check_gain_drift
from drcrm.diagnostics.propensity_audit import audit_propensities, cross_fit_propensities
from drcrm.diagnostics.repeated_rows.dependence import check_independence, tested_rows_of_log
from drcrm.diagnostics.repeated_rows.duplicates import check_copies
from drcrm.diagnostics.repeated_rows.row_hashes import hash_log
from drcrm.diagnostics.weight_checks import PolicyWeights, check_weights, weight_tables
from drcrm.errors import InputError
from drcrm.logs.split import ranks
from drcrm.policies.linear_predictor import forward_policy, importance_weights, modelled_cost
from drcrm.policies.tabular import TabularPolicy, policy_for_log

MOST_SLICES = 50  # in a table: those with the most rows


@dataclass(frozen=True)
class Diagnosis:
    """The diagnostics of a log, and of a policy on it; tables as they go into JSON, empty without a policy.

    Attributes
    ----------
    diagnostics : tuple of Diagnostic
    units : array (n,) or None
        Which rows belong together, for ``groups=`` elsewhere: groups, or rows that are told more than once.
    weights, overlap : dict
    calibration, slices, actions, largest_rows : list of dict
    rows : int
    """

    diagnostics: tuple[Diagnostic, ...]
    units: np.ndarray | None
    rows: int
    weights: dict = field(default_factory=dict)
    overlap: dict = field(default_factory=dict)
    calibration: list[dict] = field(default_factory=list)
    slices: list[dict] = field(default_factory=list)
    actions: list[dict] = field(default_factory=list)
    largest_rows: list[dict] = field(default_factory=list)

    @property
    def failed(self) -> tuple[str, ...]:
        """The names of diagnostics that fail."""
        return tuple(each.name for each in self.diagnostics if each.level == "fail")

    def as_dict(self) -> dict[str, object]:
        """Return diagnostics and tables as they go into JSON."""
        found = asdict(self) | {"diagnostics": [each.as_dict() for each in self.diagnostics]}
        return {key: value for key, value in found.items() if key not in ("units", "rows")}


def diagnose(
    log: BanditLog,
    policy=None,
    *,
    cost_model=None,
    logging_policy=None,
    modelled: np.ndarray | None = None,
    slices=None,
    groups=None,
    imitated: bool = False,
    names=None,
    rows=None,
    time=None,
    checks: tuple[Diagnostic, ...] | None = None,
    columns=None,
) -> Diagnosis:
    """Return what a log can say of a policy, and of itself.

    Parameters
    ----------
    log : BanditLog
        Rows that the policy was not made from, in the order in which they were logged.
    policy : any, as :func:`drcrm.off_policy_value` takes them, optional
    cost_model : optional
        One that was fitted to other rows; by default one is, to half of these for the other half.
    logging_policy : ExponentialPolicy or SoftmaxPolicy, optional
        π0; by default the model of the logged actions takes its place.
    modelled : array in the shape of scores, optional
        The probabilities of all actions by a model of the logged actions that was fitted to other rows; by default
        ``drcrm.diagnostics.propensity_audit.cross_fit_propensities``.
    slices, groups : array (n,), optional
        Values by which rows are told apart, and ids of rows that belong together.
    imitated : bool
        Whether the propensities were estimated.
    names : list, optional
        Of the actions, or labels.
    rows : integer array (n,), optional
        The rows' numbers in their file.
    time : array (n,), optional
        By which the rows are ordered for drift; by default they are in order.
    checks : tuple of Diagnostic, optional
        The checks for copies and for dependent rows, if a caller made them on more rows than these.
    columns : mapping of slice, optional
        Where the columns of X are that belong to each feature of the file; by default each column is a feature.

    Raises
    ------
    InputError
        A policy or arrays that are none of the log's.
    """
    log = as_log(log)
    policy = None if policy is None else policy_for_log(policy, log)
    slices, rows, time = (
        _of_rows(each, log, name) for each, name in ((slices, "slices"), (rows, "rows"), (time, "time"))
    )
    _check_names(names, log)
    modelled = None if modelled is None else _aligned(modelled, log)
    groups, log = check_groups(groups, log), log.recount(log.count)
    last = None if time is None else ranks(time) >= len(time) // 2
    units = groups
    if checks is None:
        checks, units = check_rows(log, groups, imitated)
    modelled = cross_fit_propensities(log, units) if modelled is None else modelled
    audited, calibration = audit_propensities(log, modelled, units, imitated, names)
    found = [
        check_exploration(log, imitated),
        *audited,
        *checks,
        *check_drift(log, names, units, last),
        check_cost_model(log, cost_model),
        check_leakage(log, columns, units),
    ]
    if policy is None:
        return Diagnosis(tuple(each for each in found if each), units, log.size, calibration=calibration)
    with warnings.catch_warnings(action="ignore"):  # the diagnostics report the same
        each = _weighed(log, policy, cost_model, logging_policy, modelled)
        of_policy, by_slice = check_weights(each, units), _by_slice(each, slices, units)
        found.append(check_gain_drift(log, each.weight, units, last))
    if by_slice:
        of_policy.append(_overlap_by_slice(by_slice))
    found = (found[0], *of_policy, *(each for each in found[1:] if each))
    return Diagnosis(
        found,
        units,
        log.size,
        calibration=calibration,
        slices=by_slice[:MOST_SLICES],
        **weight_tables(each, names, rows),
    )


def check_rows(log: BanditLog, groups=None, imitated: bool = False) -> tuple[tuple[Diagnostic, ...], np.ndarray | None]:
    """Return the checks for copies and for dependent rows, and which rows belong together: groups, or copies."""
    marks = hash_log(log, imitated)
    repeats, copies = check_copies(*marks, log.propensity)
    units = copies if groups is None else groups
    return (repeats, check_independence(tested_rows_of_log(log, marks.features), units, imitated=imitated)), units


def _of_rows(values, log: BanditLog, name: str) -> np.ndarray | None:
    """Values of the rows that occur."""
    if values is None:
        return None
    values = np.asarray(values)
    if values.shape != (expected := log.Y.shape[:1]):
        raise InputError(f"{name} has shape {values.shape}, expected {expected}")
    return values[log.count > 0]


def _check_names(names, log: BanditLog) -> None:
    if names is not None and log.actions.shape and len(names) != log.actions.shape[0]:
        raise InputError(f"names has {len(names)} entries, expected {log.actions.shape[0]}")


def _aligned(modelled, log: BanditLog) -> np.ndarray:
    """μ of the contexts that occur."""
    modelled, expected = as_float_array(modelled, "modelled"), (log.X.shape[0], *log.actions.shape)
    if modelled.shape != expected:
        raise InputError(f"modelled has shape {modelled.shape}, expected {expected}")
    return TabularPolicy.for_log(np.zeros(len(log.Y)), modelled, log).mean


def _weighed(log: BanditLog, policy, cost_model, logging_policy, modelled: np.ndarray) -> PolicyWeights:
    has_model = cost_model is not None and getattr(policy, "mean", policy) is not None
    design, log_prob, _ = forward_policy(policy, log)
    weight = importance_weights(log_prob, log)
    if has_model:
        modelled_costs = modelled_cost(design.log, action_effects(cost_model, log.X, log.actions))
        residual = tail_residual(log.cost - modelled_costs, log.cost, log.count)
    else:
        total = log.count @ weight
        residual = log.cost - (log.count @ (weight * log.cost) / total if total > 0 else 0.0)
    mean = (
        policy.mean
        if isinstance(policy, TabularPolicy)
        else policy.marginals(log.actions.unbind(log.X), *_eligible(log))
    )
    known = modelled if logging_policy is None else logging_policy.marginals(log.actions.unbind(log.X), *_eligible(log))
    return PolicyWeights(log, np.exp(np.minimum(log_prob, 0)), weight, mean, known, residual)


def _eligible(log: BanditLog) -> tuple:
    """Return the mask of eligible actions as an argument of policies; nothing if the log has none."""
    eligible = getattr(log.actions, "eligible", None)
    return () if eligible is None else (eligible,)


def _by_slice(each: PolicyWeights, slices, units) -> list[dict]:
    """Estimate a policy in each slice by SNIPS without clipping; the slice with the most rows comes first."""
    if slices is None:
        return []
    values, index = np.unique(slices.astype(str), return_inverse=True)
    log, found = each.log.replace(X=np.zeros((each.log.X.shape[0], 1))), []  # probabilities are known without X
    for place in np.argsort(-np.bincount(index, log.count), kind="stable"):
        inside = index == place
        part = log.recount(log.count * inside)
        of_units = None if units is None else units[inside]
        value = off_policy_value(each.probability[inside], part, "snips", clip=None, groups=of_units)
        said = value.as_dict()
        found.append(
            {
                "slice": str(values[place]),
                "rows": part.size,
                "effective_size": to_json_number(value.effective_size),
                "logging": float(part.count @ part.cost / part.size),
                "policy": said["value"],
                "low": said["low"],
                "high": said["high"],
            }
        )
    return found


def _overlap_by_slice(by_slice: list[dict]) -> Diagnostic:
    worst = min(by_slice, key=lambda each: each["effective_size"] / each["rows"])
    share = worst["effective_size"] / worst["rows"]
    said = f"slice {worst['slice']!r} has as much as {worst['effective_size']:.3g} effective rows of {worst['rows']}"
    level = "caution" if share < 0.1 or worst["effective_size"] < 10 else "good"
    threshold = "at least 10 % of the rows of each slice, and 10"
    return Diagnostic("overlap by slice", share, None, None, threshold, level, said, "Kish 1965")
