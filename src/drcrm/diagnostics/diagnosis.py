"""All checks of a log, and of a policy on it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from drcrm.arrays.tables import Table
from drcrm.arrays.validation import as_float_array
from drcrm.certificates.independent_units import check_groups
from drcrm.certificates.skewness import tail_residual
from drcrm.certificates.terms.evaluation import EvaluationInputs
from drcrm.certificates.terms.policy_terms import TermBuilder
from drcrm.cost_models.support import SUPPORT, raise_to_support
from drcrm.data.bandit_log import BanditLog, as_log
from drcrm.diagnostics.comparison.policy_changes import describe_changes
from drcrm.diagnostics.comparison.segments import Part, check_parts, estimate_parts, find_parts
from drcrm.diagnostics.diagnostic import Diagnostic
from drcrm.diagnostics.estimated_propensities import check_estimates, correct_along_policy
from drcrm.diagnostics.leakage import check_leakage
from drcrm.diagnostics.log_checks import (
    check_action_drift,
    check_action_names,
    check_cost_drift,
    check_cost_model,
    check_exploration,
    check_gain_drift,
)
from drcrm.diagnostics.propensity_audit import audit_propensities, cross_fit_propensities
from drcrm.diagnostics.repeated_rows.row_checks import check_repeated_rows
from drcrm.diagnostics.weight_checks import PolicyWeights, check_weights, weight_tables
from drcrm.errors import InputError
from drcrm.estimates import RATIO, ROBUST
from drcrm.logs.encoding.base import MATRIX
from drcrm.policies.exponential import LinearPolicy
from drcrm.policies.linear_predictor import select_occurring
from drcrm.policies.tabular import policy_for_log
from drcrm.rows.folds import ranks

TABLES: dict[str, Any] = {"weights": {}, "overlap": {}, "changes": {}}
TABLES |= {name: [] for name in ("calibration", "slices", "periods", "actions", "largest_rows")}


@dataclass(frozen=True)
class LogDetails:
    """Facts about the rows, actions and features of a log that a :class:`BanditLog` does not have.

    Attributes
    ----------
    groups : array (n,), optional
        Ids of independent groups of rows.
    slices : array (n,) or (n, s), optional
        Values of a column, or of s columns. The policy is evaluated separately on the rows of each value.
    slice_columns : sequence of str
        Names of these columns; by default a single column has no name.
    periods : array (n,), optional
        Names of periods, which are in order of time if they are sorted. The policy is evaluated in each.
    row_numbers : integer array (n,), optional
        Numbers of the rows in their file.
    time : array (n,), optional
        Times that order the rows for the drift checks. By default rows are in order.
    action_names : list, optional
        Names of the actions or labels.
    columns : mapping of slice, optional
        Columns of X that encode each feature of the file. By default each column is a feature.
    imitated : bool
        Whether the propensities were estimated.
    row_checks : tuple of Diagnostic, optional
        Results of :func:`check_rows` on the whole log, if this log is only a part. By default this log is checked.
    log_checks : LogChecks, optional
        Results of :func:`check_log` on the whole log, restricted to the rows of this log. By default this log is
        checked.
    """

    groups: Any = None
    slices: Any = None
    slice_columns: Sequence[str] = ()
    periods: Any = None
    row_numbers: Any = None
    time: Any = None
    action_names: list | None = None
    columns: Mapping[str, slice] | None = None
    imitated: bool = False
    row_checks: tuple[Diagnostic, ...] | None = None
    log_checks: LogChecks | None = None

    def restrict_to_counted(self, log: BanditLog) -> LogDetails:
        """Return the details of the rows whose count is positive; raise InputError if an array has another length."""
        actions = log.actions.shape
        if self.action_names is not None and actions and len(self.action_names) != actions[0]:
            raise InputError(f"names has {len(self.action_names)} entries, expected {actions[0]}")
        counted: dict[str, Any] = {}
        for name in ("slices", "periods", "row_numbers", "time"):
            if getattr(self, name) is not None:
                values = np.asarray(getattr(self, name))
                if values.shape[:1] != (expected := log.Y.shape[:1]):
                    raise InputError(f"{name} has shape {values.shape}, expected {expected}")
                counted[name] = values[log.count > 0]
        return replace(self, groups=check_groups(self.groups, log), **counted)

    def parts(self, log: BanditLog) -> list[Part]:
        """Return the slices and periods of a log without rows of count 0."""
        slices: dict[str, np.ndarray] = {}
        if self.slices is not None:
            columns = np.asarray(self.slices).reshape(len(log.Y), -1).T
            slices = dict(zip(self.slice_columns or [""], columns, strict=True))
        return find_parts(log, slices, self.periods)

    def order(self, log: BanditLog) -> np.ndarray:
        """Return the place of each row in the order of time, (n,)."""
        return np.arange(len(log.Y)) if self.time is None else ranks(self.time)


@dataclass(frozen=True)
class LogChecks:
    """Checks of a log that need no policy.

    Attributes
    ----------
    diagnostics : tuple of Diagnostic
    units : array (n,) or None
        Ids of independent units of rows; see :class:`Diagnosis`.
    modelled : array in the shape of scores
        Estimated probabilities of all actions under the logging policy, from models fitted to other rows.
    calibration : list of dict
        Means of logged and of estimated propensities in each tenth of the rows.
    """

    diagnostics: tuple[Diagnostic, ...]
    units: np.ndarray | None
    modelled: np.ndarray
    calibration: list[dict]

    def restrict_to(self, rows: np.ndarray, log: BanditLog) -> LogChecks:
        """Return the checks of the whole ``log`` for an evaluation on selected rows, a mask (n,)."""
        rows = rows[log.count > 0]
        log = log.recount(log.count)
        modelled = _restrict_to_counted(self.modelled, log.replace(count=log.count * rows))
        return replace(self, units=None if self.units is None else self.units[rows], modelled=modelled)


@dataclass(frozen=True)
class Diagnosis:
    """The checks of a log, and of a policy on it.

    Attributes
    ----------
    diagnostics : tuple of Diagnostic
    units : array (n,) or None
        Ids of independent units of rows: the groups, or the distinct rows if the log has copies of rows. Functions
        with a parameter ``groups`` accept them.
    rows : int
    tables : dict
        JSON values for the report: ``TABLES``, which are empty without a policy, and the calibration of the audit.
    """

    diagnostics: tuple[Diagnostic, ...]
    units: np.ndarray | None
    rows: int
    tables: dict[str, Any]

    @property
    def failed(self) -> tuple[str, ...]:
        """Names of the checks that fail."""
        return tuple(check.name for check in self.diagnostics if check.level == "fail")

    def as_dict(self) -> dict[str, object]:
        """Return the checks and tables as JSON values."""
        return {"diagnostics": [check.as_dict() for check in self.diagnostics], **self.tables}


def diagnose(
    log: BanditLog,
    policy: Any = None,
    details: LogDetails | None = None,
    *,
    cost_model: Any = None,
    logging_policy: LinearPolicy | None = None,
    modelled: np.ndarray | None = None,
    confidence: float = 0.95,
) -> Diagnosis:
    """Check a log, and a policy on it.

    Parameters
    ----------
    log : BanditLog
        Rows that did not train the policy, in the order in which they were logged.
    policy : optional
        Any policy that :func:`drcrm.off_policy_value` accepts.
    details : LogDetails, optional
    cost_model : optional
        A cost model fitted to other rows. By default, R² is computed for two models. Each is fitted to half of the
        contexts and predicts the costs of the other half.
    logging_policy : ExponentialPolicy or SoftmaxPolicy, optional
        π0, which determines the unsupported actions. By default ``modelled`` determines them.
    modelled : array in the shape of scores, optional
        Estimated probabilities of all actions under the logging policy, from a model fitted to other rows. The default
        is :func:`drcrm.diagnostics.propensity_audit.cross_fit_propensities`.
    confidence : float in (0, 1)
        Level of the intervals in slices and periods.

    Raises
    ------
    InputError
        If the policy or an array does not match the log.
    """
    log = as_log(log)
    policy = None if policy is None else policy_for_log(policy, log)
    checked = (details or LogDetails()).log_checks or check_log(log, details, modelled)
    details, log = (details or LogDetails()).restrict_to_counted(log), log.recount(log.count)
    of_policy: list[Diagnostic | None] = []
    of_log = [*checked.diagnostics, check_cost_model(log, cost_model)]
    tables = TABLES | {"calibration": checked.calibration}
    if policy is not None:
        with warnings.catch_warnings(action="ignore"):  # the checks report the same problems
            weights = _weigh_policy(log, policy, cost_model, logging_policy, checked.modelled)
            if details.imitated and weights.mean is not None:
                correction = correct_along_policy(log, weights.mean, checked.modelled, checked.units)
                of_log.append(check_estimates(log, weights.mean, checked.modelled, correction, checked.units))
                if correction is not None and logging_policy is None:
                    weights = weights._replace(logging_mean=correction[0])
            parts, names = details.parts(log), details.action_names
            estimates = estimate_parts(weights, parts, checked.units, confidence, names)
            of_policy = [*check_weights(weights, checked.units)]
            of_policy += check_parts(weights, parts, estimates, checked.units, confidence)
            of_log.append(check_gain_drift(log, weights.weight, details.order(log), checked.units))
        tables |= weight_tables(weights, details.action_names, details.row_numbers)
        tables |= {f"{kind}s": [entry for entry in estimates if kind in entry] for kind in ("slice", "period")}
        tables["changes"] = describe_changes(weights, details.action_names, details.row_numbers)
    checks = [check_exploration(log, details.imitated), *of_policy, *of_log]
    known = tuple(check for check in checks if check)
    return Diagnosis(known, checked.units, log.size, tables)


def check_log(log: BanditLog, details: LogDetails | None = None, modelled: np.ndarray | None = None) -> LogChecks:
    """Check the propensities and the rows of a log: audit, copies and dependent rows, drift, and leakage.

    :func:`diagnose` describes the parameters.
    """
    details = (details or LogDetails()).restrict_to_counted(log)
    modelled = None if modelled is None else _restrict_to_counted(as_float_array(modelled, "modelled"), log)
    log = log.recount(log.count).replace(imitated_propensities=details.imitated)
    units, row_checks, order = details.groups, details.row_checks, details.order(log)
    if row_checks is None:
        row_checks, units = check_rows(log, units, details.imitated)
    if modelled is None:
        modelled = cross_fit_propensities(log, units)  # copies of a row are in the same fold
    audit, calibration = audit_propensities(log, modelled, units, details.imitated, details.action_names, order)
    diagnostics = [
        *audit,
        *row_checks,
        check_cost_drift(log, order, units),
        check_action_drift(log, order, details.action_names, units),
        check_action_names(details.action_names),
        check_leakage(log, details.columns, units),
    ]
    return LogChecks(tuple(check for check in diagnostics if check), units, modelled, calibration)


def check_rows(
    log: BanditLog, groups: np.ndarray | None = None, imitated: bool = False
) -> tuple[tuple[Diagnostic, ...], np.ndarray | None]:
    """Check a log for copies of rows and for dependent rows.

    Returns
    -------
    checks : tuple of Diagnostic
    units : array (n,) or None
        Ids of independent units: ``groups``, or the distinct rows if there are no groups and the log has copies.
    """
    table = Table(log.X.shape[0], {MATRIX: log.X})
    checks = check_repeated_rows(log.replace(X=table, rows=None, imitated_propensities=imitated), groups=groups)
    return checks.diagnostics, checks.groups


def _restrict_to_counted(modelled: np.ndarray, log: BanditLog) -> np.ndarray:
    """Return the probabilities of the contexts whose rows have a positive count."""
    if modelled.shape != (expected := (log.X.shape[0], *log.actions.shape)):
        raise InputError(f"modelled has shape {modelled.shape}, expected {expected}")
    return select_occurring(modelled, log)


def _weigh_policy(
    log: BanditLog, policy: Any, cost_model: Any, logging_policy: LinearPolicy | None, modelled: np.ndarray
) -> PolicyWeights:
    has_model = cost_model is not None and policy.knows_all_actions
    inputs = EvaluationInputs(log, policy, cost_model=cost_model)
    terms = TermBuilder(inputs, ROBUST if has_model else RATIO).terms(policy)
    residual = tail_residual(terms.residual, log.cost, log.count) if has_model else np.nan_to_num(terms.residual)
    mean = policy.marginals_on(log.X, log.actions) if policy.knows_all_actions else None
    if logging_policy is None:
        logging_mean = raise_to_support(modelled, log, SUPPORT)
    else:
        logging_mean = logging_policy.marginals_on(log.X, log.actions)
    probability, z = terms.importance * log.propensity, terms.z if has_model else None
    return PolicyWeights(log, probability, terms.importance, mean, logging_mean, residual, z)
