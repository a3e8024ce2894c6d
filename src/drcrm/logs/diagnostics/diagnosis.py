"""All checks of a log, and of a policy on it."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from drcrm.arrays.mapped_arrays import read_only
from drcrm.arrays.tables import Table
from drcrm.data.bandit_log import BanditLog, as_log
from drcrm.evaluation import RATIO, ROBUST
from drcrm.evaluation.bounds.asymptotic_bounds import tail_residual
from drcrm.evaluation.evaluation import Evaluation
from drcrm.evaluation.policy_on_log import PolicyOnLog
from drcrm.logging_policy import SUPPORT, raise_to_support
from drcrm.logs.diagnostics.check import Check
from drcrm.logs.diagnostics.comparison.reference import Reference
from drcrm.logs.diagnostics.comparison.segments import check_differences, estimate_parts, explain, find_parts
from drcrm.logs.diagnostics.leakage import check_feature_order, check_leakage
from drcrm.logs.diagnostics.log_checks import (
    check_action_drift,
    check_action_names,
    check_cost_drift,
    check_cost_model,
    check_exploration,
    check_gain_drift,
)
from drcrm.logs.diagnostics.propensity_audit import audit_propensities, cross_fit_propensities, uniform_policy
from drcrm.logs.diagnostics.propensity_trees import check_balance, check_overlap
from drcrm.logs.diagnostics.repeated_rows import check_repeated_rows
from drcrm.logs.diagnostics.weight_checks import PolicyWeights, check_weights, weight_tables
from drcrm.logs.encoding.base import MATRIX
from drcrm.policies.prepared_log import select_occurring
from drcrm.policies.tabular import policy_for_log

TABLES: dict[str, Any] = {"weights": {}, "overlap": {}, "explanation": None}
TABLES |= {name: [] for name in ("slices", "periods", "leaves", "actions", "largest_rows")}


@dataclass(frozen=True)
class Diagnosis:
    """The checks of a log, and perhaps of a policy on it.

    Attributes
    ----------
    diagnostics : tuple of Check
    units : array (n,) or None
        Ids of independent units of rows: the groups, or the distinct rows if the log has copies of rows. Functions
        with a parameter ``groups`` accept them.
    rows : int
    tables : dict
        JSON values for the report, ``TABLES``; they are empty without a policy.
    modelled : array in the shape of scores
        Estimated probabilities of all actions under the logging policy, from models fitted to other rows.
    """

    diagnostics: tuple[Check, ...]
    units: np.ndarray | None
    rows: int
    tables: dict[str, Any]
    modelled: np.ndarray

    @property
    def failed(self) -> tuple[Check, ...]:
        """The checks that fail."""
        return tuple(check for check in self.diagnostics if check.has_failed)

    def restrict_to(self, rows: np.ndarray, log: BanditLog) -> Diagnosis:
        """Return the checks of the whole ``log`` for selected rows, a mask (n,)."""
        units = None if self.units is None else self.units[rows]
        return replace(self, units=units, modelled=restrict_scores(self.modelled, rows, log))


def restrict_scores(values: np.ndarray, rows: np.ndarray, log: BanditLog) -> np.ndarray:
    """Return values in the shape of scores for the contexts of selected rows, a mask (n,), of a log."""
    return select_occurring(values, log.replace(count=log.count * rows))


def diagnose(
    log: BanditLog,
    policy: Any = None,
    checks: Diagnosis | None = None,
    *,
    cost_model: Any = None,
    confidence: float = 0.95,
    overlap: tuple[Check, np.ndarray | None] | None = None,
    reference: Reference | None = None,
) -> Diagnosis:
    """Check a log, and a policy on it.

    Parameters
    ----------
    log : BanditLog
        Rows that did not train the policy, in the order in which they were logged. Groups, times, slices and names of
        actions are those of its file. It has no rows of count 0.
    policy : optional
        Any policy that :func:`drcrm.off_policy_value` accepts.
    checks : Diagnosis, optional
        Result of :func:`check_log` on this log, or on a larger log, restricted to the rows of this log. By default
        this log is checked.
    cost_model : optional
        A cost model fitted to other rows. By default, R² is computed for two models. Each is fitted to half of the
        contexts and predicts the costs of the other half.
    confidence : float in (0, 1)
        Level of the intervals in slices and periods.
    overlap : optional
        Result of :func:`check_overlap` on a larger log, restricted to the contexts of this log. By default this log is
        checked.
    reference : Reference, optional
        What the policy is compared with, by default the logging policy. The difference of their costs must not drift.

    Raises
    ------
    InputError
        If the policy does not match the log.
    """
    log = as_log(log)
    policy = None if policy is None else policy_for_log(policy, log)
    checks = checks or check_log(log)
    log, modelled = log.with_groups(checks.units), checks.modelled
    log = log.replace(X=read_only(log.X))
    of_policy: list[Check | None] = []
    of_log = [*checks.diagnostics, check_cost_model(log, cost_model)]
    tables = dict(checks.tables)
    if policy is not None:
        with warnings.catch_warnings(action="ignore"):  # the checks report the same problems
            weights = _weigh_policy(log, policy, cost_model, modelled)
            if log.imitated_propensities and weights.mean is not None:
                check, corrected = overlap or check_overlap(log, weights.mean, modelled)
                of_log += [check, check_balance(log, weights.weight)]
                if corrected is not None:
                    weights = weights._replace(logging_mean=corrected)
            parts = find_parts(log)
            estimates = estimate_parts(weights, parts, confidence)
            if explanation := explain(policy, log, weights.mean):
                tables["explanation"] = explanation.as_dict()
                tables["leaves"] = estimate_parts(weights, explanation.leaves, confidence)
            of_policy = [*check_weights(weights), check_differences(parts, estimates, confidence)]
            is_logging = reference is None or not reference.is_baseline
            compared = None if is_logging else PolicyOnLog(policy_for_log(reference.policy, log), log).importance
            of_log.append(check_gain_drift(log, weights.weight, compared))
        tables |= weight_tables(weights)
        tables |= {f"{kind}s": [entry for entry in estimates if kind in entry] for kind in ("slice", "period")}
    results = tuple(check for check in [check_exploration(log), *of_policy, *of_log] if check)
    return replace(checks, diagnostics=results, rows=log.size, tables=tables)


def check_log(log: BanditLog, row_checks: tuple[Check, ...] | None = None) -> Diagnosis:
    """Check the propensities and the rows of a log: audit, copies and dependent rows, drift, and leakage.

    ``row_checks`` are the results of :func:`check_rows` on all rows of the file; by default this log is checked.
    """
    if row_checks is None:
        row_checks, copies = check_rows(log)
        log = log.with_groups(copies)
    modelled = cross_fit_propensities(log)  # copies of a row are in the same fold
    diagnostics = [
        *audit_propensities(log, modelled),
        *row_checks,
        check_cost_drift(log),
        check_action_drift(log),
        check_action_names(log),
        check_leakage(log),
        check_feature_order(log),
    ]
    results = tuple(check for check in diagnostics if check)
    return Diagnosis(results, log.units, log.size, TABLES, modelled)


def check_rows(log: BanditLog) -> tuple[tuple[Check, ...], np.ndarray | None]:
    """Check a log for copies of rows and for dependent rows.

    Returns
    -------
    checks : tuple of Check
    units : array (n,) or None
        Ids of independent units: the groups, or the distinct rows if there are no groups and the log has copies.
    """
    table = Table(log.X.shape[0], {MATRIX: log.X})
    checks = check_repeated_rows(log.replace(X=table, rows=None, description=None).with_groups(log.column("groups")))
    return checks.diagnostics, checks.groups


def _weigh_policy(log: BanditLog, policy: Any, cost_model: Any, modelled: np.ndarray) -> PolicyWeights:
    has_model = cost_model is not None and policy.knows_all_actions
    side = PolicyOnLog(policy, log)
    terms = Evaluation(log, side, cost_model=cost_model, estimate=ROBUST if has_model else RATIO).terms
    residual = tail_residual(terms.residual, log.cost, log.count) if has_model else np.nan_to_num(terms.residual)
    mean = side.mean() if policy.knows_all_actions else None
    uniform, _, is_uniform = uniform_policy(log, modelled)
    logging_mean = log.actions.logging_mean
    if logging_mean is None:
        logging_mean = uniform if is_uniform else raise_to_support(modelled, log, SUPPORT)
    return PolicyWeights(log, terms.importance, mean, logging_mean, residual, terms.z if has_model else None)
