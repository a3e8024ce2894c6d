"""Warnings of a fit: data on which it can go wrong silently, and a minimiser that did not converge or move."""

from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning

from drcrm.data.bandit_log import BanditLog
from drcrm.data.scaling import describe_extreme_values, describe_offset_features, has_constant
from drcrm.errors import warn
from drcrm.estimates import find_estimate
from drcrm.optimization.flat_starts import explain_flat_start
from drcrm.selection.candidates import Learned


def warn_of_data(estimator: BaseEstimator, log: BanditLog, is_likelihood: bool) -> None:
    """Warn of data on which a fit can go wrong silently.

    - There is no intercept: ``fit_intercept`` is False, and no columns of X add up to a constant.
    - A feature, such as a year, has a mean far from 0 compared with its standard deviation.
    - The estimate is "ips", and no cost is below 0.
    """
    if log.actions.has_intercept and not estimator.fit_intercept and not has_constant(log.X):
        warn("X has no constant column and the policy has no intercept: set fit_intercept=True, or append a constant")
    if columns := describe_offset_features(log.X, getattr(estimator, "feature_names_in_", None)):
        warn(f"{columns}: standardise all columns of X except a constant")
    kind = find_estimate(estimator.estimate)
    is_safe = is_likelihood or kind.is_translation_equivariant or not kind.uses_weights
    if not is_safe and log.cost.min() >= 0 < log.cost.max():
        warn(
            f"no cost is below 0, the smallest is {log.cost.min():.6g}: with 'ips' a policy that avoids all logged "
            "actions has the smallest risk; subtract the largest cost, or use estimate='snips' or 'dr'"
        )


def warn_of_result(estimator: BaseEstimator, log: BanditLog, learned: Learned) -> None:
    """Warn with a ConvergenceWarning if L-BFGS stopped at ``max_iter``, or the fit ended at its start."""
    name = type(estimator).__name__
    if not estimator.converged_:
        hint = "" if estimator.n_iter_ else f" ({describe_extreme_values(log)})"
        warn(f"{name} did not converge in {estimator.n_iter_} iterations; see converged_{hint}", ConvergenceWarning)
    elif not estimator.n_iter_ and learned.objectives:
        reason = explain_flat_start(learned.objectives[0], learned.start)
        warn(f"{name} ends where it began: {reason}", ConvergenceWarning)
