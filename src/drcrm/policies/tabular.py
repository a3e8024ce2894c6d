"""Tabular policies: policies that are known by their probabilities, from arrays or from objects with methods.

=====================  ========================================================================================
input                  meaning
=====================  ========================================================================================
(n,)                   π(a_i|x_i) of the logged actions
(m, K), (m, q)         μ: probabilities of all actions, or of each label
(N,)                   μ of all N candidates, list after list
(N, 1), (m, K, 1)      the same with one more axis, which is never read as logged actions
object                 method ``log_prob(X, A)`` for log π(a_i|x_i), or ``marginals(X)`` or ``predict_proba(X)`` for μ
function               X ↦ μ
=====================  ========================================================================================
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from drcrm.actions.base import Actions
from drcrm.arrays.mapped_arrays import Features
from drcrm.arrays.validation import as_float_array, check_column_names, check_vector, reject_rows
from drcrm.data.bandit_log import BanditLog
from drcrm.errors import InputError
from drcrm.policies.base import Policy
from drcrm.policies.exponential import as_policy
from drcrm.policies.prepared_log import select_occurring

ROUNDING = 1e-5  # tolerance for probabilities outside [0, 1] and for sums other than 1
LOGGING_POLICY = "logging_policy"  # role of π0 in an evaluation
MEAN_METHODS = ("marginals", "predict_proba")  # methods that return μ


@dataclass(frozen=True, eq=False)
class TabularPolicy(Policy):
    """Probabilities of a policy on a log, for the rows with non-zero counts and their contexts.

    Attributes
    ----------
    log_prob : array (n,)
        log π(a_i|x_i); −∞ if the probability is 0.
    mean : array in the shape of the log's scores, or None
        μ without exploration; None if only the probabilities of the logged actions are known.
    Y : array (n, q) or (n,)
        Logged actions of the rows, which identify the log.
    explore : float
        Share of the uniform policy, which draws all labels of a row together. It is part of ``log_prob``.
    """

    log_prob: np.ndarray
    mean: np.ndarray | None
    Y: np.ndarray
    explore: float = 0.0

    @classmethod
    def for_log(cls, log_prob: np.ndarray, mean: np.ndarray | None, log: BanditLog, explore: float = 0.0) -> Self:
        """Return the policy without rows of count 0 and their contexts, from values for the whole log."""
        occurs = log.count > 0
        mean = None if mean is None else select_occurring(mean, log)
        return cls(np.minimum(log_prob[occurs], 0), mean, log.Y[occurs], explore)

    @property
    def knows_all_actions(self) -> bool:  # type: ignore[override]
        """Whether μ is known."""
        return self.mean is not None

    def check_log(self, log: BanditLog, name: str) -> None:
        """Raise InputError if the probabilities are for another log; logs with the same actions count as one."""
        if not np.array_equal(self.Y, log.Y[log.count > 0]):
            raise InputError(
                f"the {name} has the probabilities of {len(self.Y)} rows of another log; compute them for this log"
            )

    def log_prob_of_rows(self, log: BanditLog, name: str = "policy") -> np.ndarray:
        self.check_log(log, name)
        return self.log_prob

    def probabilities(self, log: BanditLog, name: str = "policy") -> tuple[np.ndarray, list[tuple[float, np.ndarray]]]:
        log_prob = self.log_prob_of_rows(log, name)
        return log_prob, [] if self.mean is None else [*self.components(log.X, log.actions, "the support rule")]

    def _unexplored_marginals(self, X: Features, actions: Actions, name: str, purpose: str) -> np.ndarray:
        if self.mean is None:
            raise InputError(
                f"{purpose} needs the policy's probabilities of all actions of each context, but only those of the "
                "logged actions were given"
            )
        if self.mean.shape != (expected := (X.shape[0], *actions.shape)):
            raise InputError(f"the {name} has probabilities of shape {self.mean.shape}, expected {expected}")
        return self.mean

    def select(self, contexts: np.ndarray, actions: Actions) -> Self:
        return self if self.mean is None else replace(self, mean=actions.select(contexts, self.mean)[1])


def policy_for_log(policy: Any, log: BanditLog, name: str = "policy") -> Policy:
    """Return a policy that can be evaluated on a log; InputError for other objects or invalid probabilities."""
    check_column_names(policy, log.feature_names_in_, name)
    known = policy if isinstance(policy, Policy) else getattr(policy, "policy_", None)
    if isinstance(known, Policy):
        known.check_log(log, name)
        return known
    if is_array(policy):
        return _from_array(policy, log, name)
    methods = "log_prob", "__call__", *MEAN_METHODS
    if isinstance(policy, type) or not any(hasattr(policy, method) for method in methods):
        return as_policy(policy, name)
    return _from_object(policy, log, name)


def policies_for_log(given: Mapping[str, Any], log: BanditLog) -> dict[str, Policy]:
    """Return policies that can be evaluated on a log by their roles; the first role must have one, others may be None.

    The log's own π0 has the role "logging_policy" if no other policy has it and all know the probabilities of all
    actions.
    """
    first, policies = next(iter(given)), {}
    for role, policy in given.items():
        if role == first or policy is not None:
            policies[role] = policy_for_log(policy, log, role)
    known = known_logging_policy(log) if all(policy.knows_all_actions for policy in policies.values()) else None
    return policies if known is None else {LOGGING_POLICY: known} | policies


def known_logging_policy(log: BanditLog) -> TabularPolicy | None:
    """Return π0 of a log that has the probabilities of all actions; else None."""
    mean = log.actions.logging_mean
    return None if mean is None else TabularPolicy.for_log(log.log_propensity, mean, log)


def is_array(values: object) -> bool:
    """Return whether an object is an array or can be converted to one."""
    return isinstance(values, list | tuple) or (hasattr(values, "__array__") and not isinstance(values, type))


def _from_array(values: Any, log: BanditLog, name: str) -> TabularPolicy:
    """Return the policy of an array: probabilities of the logged actions, or μ."""
    values = as_float_array(values, name)
    row_shape, mean_shape = (len(log.Y),), (log.X.shape[0], *log.actions.shape)
    if values.shape == (*mean_shape, 1):
        return _from_mean(values[..., 0], log, name)
    if values.shape not in (row_shape, mean_shape):
        raise InputError(
            f"{name} has shape {values.shape}, expected {row_shape}, the probability of each row's logged action, or "
            f"{mean_shape}, the probabilities of all actions of each context ({log.actions})"
        )
    if values.shape != row_shape:
        return _from_mean(values, log, name)
    if row_shape == mean_shape and log.n_contexts < len(log.Y) and _sums_to_one(values, log.actions).all():
        raise InputError(
            f"{name} has shape {row_shape}, which is ambiguous: the log has as many rows as candidates, and the values "
            f"add up to 1 in each list. Give the candidates' probabilities as {(*mean_shape, 1)}"
        )
    probability = check_vector(values, *row_shape, name)
    is_bad = ~((probability >= -ROUNDING) & (probability <= 1 + ROUNDING))
    reject_rows(is_bad, probability, name, "a probability from 0 to 1")
    with np.errstate(divide="ignore"):
        return TabularPolicy.for_log(np.log(np.clip(probability, 0, 1)), None, log)


def _from_object(policy: Any, log: BanditLog, name: str) -> TabularPolicy:
    """Return the probabilities that an object or a function computes for the contexts and rows of a log."""
    contexts: Any = log.actions.unbind(log.X)
    if log.feature_names_in_ is not None and hasattr(policy, "feature_names_in_"):
        from pandas import DataFrame  # slow to import

        contexts = DataFrame(contexts, columns=log.feature_names_in_)
    methods = [method for method in MEAN_METHODS if hasattr(policy, method)]
    mean = None
    if methods or not hasattr(policy, "log_prob"):
        mean_name, compute = (f"{methods[0]} of the {name}", getattr(policy, methods[0])) if methods else (name, policy)
        mean = as_float_array(compute(contexts), mean_name)
        mean = _order_columns(mean, getattr(policy, "classes_", None), log, name)
        if mean.shape != (expected := (log.X.shape[0], *log.actions.shape)):
            raise InputError(f"{mean_name} has shape {mean.shape}, expected {expected}")
        if not hasattr(policy, "log_prob"):
            return _from_mean(mean, log, mean_name)
        mean = _check_mean(mean, log.actions, mean_name)
    is_paired = np.array_equal(log.context, np.arange(log.n_contexts))
    log_prob_name = f"log_prob of the {name}"
    log_prob = as_float_array(policy.log_prob(contexts if is_paired else contexts[log.context], log.Y), log_prob_name)
    if log_prob.shape != log.Y.shape[:1]:
        raise InputError(f"{log_prob_name} has shape {log_prob.shape}, expected {log.Y.shape[:1]}")
    reject_rows(~(log_prob <= ROUNDING), log_prob, log_prob_name, "at most 0")
    return TabularPolicy.for_log(log_prob, mean, log)


def _order_columns(mean: np.ndarray, classes: Any, log: BanditLog, name: str) -> np.ndarray:
    """Return a classifier's probabilities, with their columns in the order of the actions.

    The classes are the actions 0, 1, 2 … in order, or the names of the actions in the log's file in any order. Raise
    InputError for other classes.
    """
    shape = log.actions.shape
    if classes is None or not shape or np.ndim(classes) != 1 or list(classes) == list(range(*shape)):
        return mean
    column = {str(name): number for number, name in enumerate(classes)}
    names = [str(action) for action in getattr(log.encoding, "names", ())]
    if sorted(names) == sorted(column):
        return mean[:, [column[action] for action in names]]
    raise InputError(
        f"the {name}'s classes_ are {list(classes)[:5]} …, expected 0 to {shape[0] - 1} in order, or the names of the "
        "log's actions; fit the classifier to the numbers of the actions"
    )


def _from_mean(mean: np.ndarray, log: BanditLog, name: str) -> TabularPolicy:
    mean = _check_mean(mean, log.actions, name)
    return TabularPolicy.for_log(log.actions.log_prob(mean, log.Y, log.context), mean, log)


def _check_mean(mean: np.ndarray, actions: Actions, name: str) -> np.ndarray:
    """Return μ, clipped to [0, 1]; InputError unless it is a distribution over the available actions."""
    flat = mean.ravel()
    is_bad = ~((flat >= -ROUNDING) & (flat <= 1 + ROUNDING))
    if is_bad.any():
        row, *columns = np.unravel_index(np.argmax(is_bad), mean.shape)
        place = f"row {row}" + "".join(f", column {column}" for column in columns)
        raise InputError(f"{name} is {flat[np.argmax(is_bad)]} in {place}, expected a probability from 0 to 1")
    is_distribution = _sums_to_one(mean, actions)
    if not is_distribution.all():
        context = int(np.argmin(is_distribution))
        total = actions.total_probability(mean)[context]
        raise InputError(f"{name} adds up to {total:.6g} over the available actions of context {context}, expected 1")
    if actions.eligible is not None:
        is_bad = ~actions.eligible & (mean > ROUNDING)
        if is_bad.any():
            context, action = np.argwhere(is_bad)[0]
            raise InputError(
                f"{name} is {mean[context, action]:.6g} for action {action} in context {context}, expected 0, because "
                "the action is not eligible there; set it to 0, and divide the others by their sum"
            )
        mean = np.where(actions.eligible, mean, 0)
    return np.clip(mean, 0, 1)


def _sums_to_one(mean: np.ndarray, actions: Actions) -> np.ndarray:
    """Return whether μ sums to 1 over the available actions of each context, (m,)."""
    return np.abs(actions.total_probability(mean) - 1) <= ROUNDING
