"""Policies that are known by their probabilities alone: arrays of them, and objects that say them.

(n,)                       π(a_i|x_i) of the logged actions
(m, K), (m, q), (N,)       μ of each context: probabilities of all actions, of each label, of each listed candidate
log_prob(X, A)             of an object: log π(a_i|x_i); beside it, or alone, ``marginals(X)`` or ``predict_proba(X)``
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from drcrm.actions.base import Actions
from drcrm.arrays.validation import as_float_array, check_vector, reject_rows
from drcrm.data.bandit_log import BanditLog
from drcrm.errors import InputError
from drcrm.policies.exponential import LinearPolicy, as_policy

ROUNDING = 1e-5  # by which probabilities may leave [0, 1], and their sums 1
ASKED = ("marginals", "predict_proba")  # methods that say μ


@dataclass(frozen=True, eq=False)
class TabularPolicy:
    """What a policy says of a log's rows and contexts, of those that occur: the log may be recounted, this stays.

    Attributes
    ----------
    log_prob : array (n,)
        log π(a_i|x_i), −∞ for what is never done.
    mean : array in the shape of the log's scores, or None
        μ; None where the policy is known by the logged actions alone.
    """

    log_prob: np.ndarray
    mean: np.ndarray | None

    @classmethod
    def for_log(cls, log_prob: np.ndarray, mean: np.ndarray | None, log: BanditLog) -> TabularPolicy:
        """Return the policy of what occurs in a log, from values of all of it."""
        occurs = log.count > 0
        if mean is not None:
            used = np.bincount(log.context[occurs], minlength=log.n_contexts) > 0
            _, mean = log.actions.select(used, mean)
        return cls(np.minimum(log_prob[occurs], 0), mean)

    def require_marginals(self, what: str) -> np.ndarray:
        """Return μ; InputError, which says what needs it, where the policy is known by the logged actions alone."""
        if self.mean is None:
            raise InputError(
                f"{what} needs the policy's probabilities of all actions of each context, not of those logged alone"
            )
        return self.mean


AnyPolicy = LinearPolicy | TabularPolicy


def policy_for_log(policy, log: BanditLog, name: str = "policy") -> AnyPolicy:
    """Return what can be judged by a log; InputError for anything else, or probabilities that are none of its."""
    if isinstance(policy, TabularPolicy):
        return policy
    if isinstance(policy, list | tuple) or (hasattr(policy, "__array__") and not isinstance(policy, type)):
        return _of_array(policy, log, name)
    if isinstance(policy, LinearPolicy) or not _answers(policy):
        return as_policy(policy, name)
    return _of_object(policy, log, name)


def _answers(policy) -> bool:
    """Whether an object says probabilities: a class does not, nor an estimator of ours, nor one that is not fitted."""
    if isinstance(policy, type) or isinstance(getattr(policy, "policy_", None), LinearPolicy):
        return False
    is_fitted = not hasattr(policy, "fit") or any(each.endswith("_") for each in vars(policy))
    return is_fitted and any(hasattr(policy, each) for each in ("log_prob", *ASKED))


def _of_array(values, log: BanditLog, name: str) -> TabularPolicy:
    """The policy of an array: by its shape of the logged actions, or of all."""
    values = as_float_array(values, name)
    rows, everything = (len(log.Y),), (log.X.shape[0], *log.actions.shape)
    if len(everything) == 1 and values.shape == (*everything, 1):
        return _of_mean(values[:, 0], log, name)
    if values.shape == rows == everything and log.n_contexts < rows[0] and _adds_up(values, log.actions):
        raise InputError(
            f"{name} has shape {rows}, as many logged rows as candidates, and adds up to 1 in each list: give the "
            f"candidates' probabilities as {(*everything, 1)}"
        )
    if values.shape == rows:
        values = check_vector(values, *rows, name)
        return TabularPolicy.for_log(_log(_probabilities(values, name)), None, log)
    if values.shape == everything:
        return _of_mean(values, log, name)
    raise InputError(
        f"{name} has shape {values.shape}, expected {rows}, the probability of each row's logged action, or "
        f"{everything}, those of {_all_of(log.actions)}"
    )


def _of_object(policy, log: BanditLog, name: str) -> TabularPolicy:
    """The policy of an object, asked about the contexts and rows of the log."""
    contexts = log.actions.unbind(log.X)
    said = next((each for each in ASKED if hasattr(policy, each)), None)
    mean = None
    if said:
        _check_classes(policy, log.actions, name)
        mean = as_float_array(getattr(policy, said)(contexts), f"{said} of the {name}")
        if mean.shape != (expected := (log.X.shape[0], *log.actions.shape)):
            raise InputError(f"{said} of the {name} has shape {mean.shape}, expected {expected}")
        if not hasattr(policy, "log_prob"):
            return _of_mean(mean, log, f"{said} of the {name}")
        mean = _checked_mean(mean, log.actions, f"{said} of the {name}")
    is_whole = np.array_equal(log.context, np.arange(log.n_contexts))
    of_rows = contexts if is_whole else contexts[log.context]
    found = f"log_prob of the {name}"
    log_prob = as_float_array(policy.log_prob(of_rows, log.Y), found)
    if log_prob.shape != log.Y.shape[:1]:
        raise InputError(f"{found} has shape {log_prob.shape}, expected {log.Y.shape[:1]}")
    reject_rows(~(log_prob <= ROUNDING), log_prob, found, "at most 0")
    return TabularPolicy.for_log(log_prob, mean, log)


def _check_classes(policy, actions: Actions, name: str) -> None:
    """InputError for a classifier whose columns are not the actions from 0 on."""
    classes = getattr(policy, "classes_", None)
    if len(actions.shape) == 1 and classes is not None and np.ndim(classes) == 1:
        numbers = np.arange(*actions.shape)
        if np.asarray(classes).dtype.kind in "biuf" and not np.array_equal(classes, numbers):
            raise InputError(f"the {name}'s classes_ are {list(classes)[:5]} …, expected 0 to {numbers[-1]} in order")


def _of_mean(mean: np.ndarray, log: BanditLog, name: str) -> TabularPolicy:
    mean = _checked_mean(mean, log.actions, name)
    return TabularPolicy.for_log(log.actions.log_prob(mean, log.Y, log.context), mean, log)


def _checked_mean(mean: np.ndarray, actions: Actions, name: str) -> np.ndarray:
    """μ, from 0 to 1; InputError where it is not, or is no distribution over the actions that contexts have."""
    flat = mean.ravel()
    bad = ~((flat >= -ROUNDING) & (flat <= 1 + ROUNDING))
    if bad.any():
        row, *column = np.unravel_index(np.argmax(bad), mean.shape)
        place = f"row {row}" + "".join(f", column {each}" for each in column)
        raise InputError(f"{name} is {flat[np.argmax(bad)]} in {place}, expected a probability from 0 to 1")
    total = actions.total_probability(mean)
    odd = np.flatnonzero(np.abs(total - 1) > ROUNDING)
    if odd.size:
        raise InputError(
            f"{name} adds up to {total[odd[0]]:.6g} over the actions of context {odd[0]}, expected 1"
            + (", over those that are eligible" if getattr(actions, "eligible", None) is not None else "")
        )
    return np.clip(mean, 0, 1)


def _adds_up(values: np.ndarray, actions: Actions) -> bool:
    return bool((np.abs(actions.total_probability(values) - 1) <= ROUNDING).all())


def _probabilities(values: np.ndarray, name: str) -> np.ndarray:
    reject_rows(~((values >= -ROUNDING) & (values <= 1 + ROUNDING)), values, name, "a probability from 0 to 1")
    return np.clip(values, 0, 1)


def _log(values: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return np.log(values)


def _all_of(actions: Actions) -> str:
    return f"all of each context ({actions})"
