"""Propensities of a log that has none: an imitation of π0, cross-fitted and calibrated."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize_scalar

from drcrm.arrays.validation import find_constant_features
from drcrm.data.bandit_log import BanditLog
from drcrm.errors import InputError
from drcrm.logs.encoding.registry import Encoding
from drcrm.logs.records import Records
from drcrm.optimization.behaviour_cloning import clone_behaviour
from drcrm.policies.exponential import LinearPolicy, make_policy

FOLDS = 5
MOST = 2**19  # rows to which an imitation is fitted
TOLERANCE = 1e-4
LARGEST = 3.0  # of the logarithm of the temperature
LEAST = 1e-300


@dataclass(frozen=True)
class Imitation:
    """A model of the logged actions.

    Attributes
    ----------
    own : array (n,)
        Its probability of each logged action that it was fitted to, made without the row's own fold.
    policies : tuple of LinearPolicy
        Of the folds.
    encoding : Encoding
    least : float
        Below which no probability is told from 0.
    """

    own: np.ndarray
    policies: tuple[LinearPolicy, ...]
    encoding: Encoding
    least: float

    def of(self, records: Records) -> np.ndarray:
        """Return the probability of each logged action of other rows, (n,): the mean of all folds'."""
        log = _log(records, np.arange(records.size), self.encoding)
        found = [np.exp(each.log_prob(log.actions.unbind(log.X), log.Y, log.context)) for each in self.policies]
        return np.clip(np.mean(found, axis=0), self.least, 1)


def imitated(records: Records, folds: int = FOLDS, encoding=None, seed: int = 0) -> np.ndarray:
    """Return an imitation's probability of each logged action, (n,): see :func:`imitation`.

    It is fitted to at most 2¹⁹ rows, drawn by contexts or groups; theirs are made without the row's own fold.
    """
    drawn = _drawn(records.contexts if records.groups is None else records.groups)
    fit = imitation(records if drawn.all() else records.take(drawn), folds, encoding, seed)
    ends = np.cumsum(drawn)

    def probabilities(place: slice, block: Records) -> dict[str, np.ndarray]:
        inside, values = drawn[place], np.empty(block.size)
        first = ends[place.start] - inside[0]
        values[inside] = fit.own[first : first + inside.sum()]
        if not inside.all():
            values[~inside] = fit.of(block.take(~inside))
        return {"propensity": values}

    return records.map(probabilities)["propensity"]


def _drawn(units: np.ndarray) -> np.ndarray:
    """Return to which rows an imitation is fitted, of whole units: all if they are few; of two units at least."""
    if len(units) <= MOST:
        return np.ones(len(units), dtype=bool)
    _, unit = np.unique(units, return_inverse=True)
    sizes = np.bincount(unit)
    order = np.random.default_rng(0).permutation(len(sizes))
    drawn = np.zeros(len(sizes), dtype=bool)
    drawn[order[np.cumsum(sizes[order]) <= MOST]] = True
    drawn[order[:2]] = True
    return drawn[unit]


def imitation(records: Records, folds: int = FOLDS, encoding=None, seed: int = 0) -> Imitation:
    """Return an imitation of π0, cross-fitted and calibrated.

    π̂(y|x) ∝ e^{β s(y)}: s of the softmax (of label vectors one logistic regression a label, of lists a conditional
    logit) of largest penalised likelihood on the other folds, β the one number by which the rows left out are most
    likely. Contexts, or groups where there are some, are in one fold. What n rows cannot tell from 0 is 1/n (of label
    vectors, for each label).

    Parameters
    ----------
    records : Records
    folds : int
        At most; there are no more than contexts, or groups.
    encoding : optional
        By default fitted to all rows; it sees no action.
    seed : int
        Of the folds.

    Raises
    ------
    InputError
        A log of a single context or group.
    """
    encoding = records.fit() if encoding is None else encoding
    fold = _folds(records, folds, seed)
    fits = []
    for each in range(fold.max() + 1):
        left_out = np.flatnonzero(fold == each)
        fits.append((left_out, _cloned(_log(records, fold != each, encoding)), _log(records, left_out, encoding)))

    def log_prob(factor: float) -> np.ndarray:
        found = np.empty(records.size)
        for left_out, policy, log in fits:
            scaled = make_policy(log.actions, factor * policy.coef, factor * policy.intercept)
            found[left_out] = scaled.log_prob(log.actions.unbind(log.X), log.Y, log.context)
        return found

    count = np.ones(records.size) if records.count is None else records.count
    best = minimize_scalar(lambda at: -count @ log_prob(np.exp(at)), bounds=(-LARGEST, LARGEST), method="bounded").x
    labels = records.action.shape[1] if records.kind == "labels" else 1
    least, factor = max(float(records.size) ** -labels, LEAST), np.exp(best)
    policies = (make_policy(log.actions, factor * each.coef, factor * each.intercept) for _, each, log in fits)
    return Imitation(np.clip(np.exp(log_prob(factor)), least, 1), tuple(policies), encoding, least)


def _folds(records: Records, folds: int, seed: int) -> np.ndarray:
    """The fold of each row, (n,)."""
    _, unit = np.unique(records.contexts if records.groups is None else records.groups, return_inverse=True)
    many = int(unit.max()) + 1
    if many < 2:
        raise InputError("the log has a single context or group, expected more to imitate its propensities")
    return (np.random.default_rng(seed).permutation(many) % min(folds, many))[unit]


def _log(records: Records, rows: np.ndarray, encoding) -> BanditLog:
    part = records.take(rows)
    return BanditLog(**replace(part, propensity=np.ones(part.size)).arrays(encoding))


def _cloned(log: BanditLog) -> LinearPolicy:
    """Return the policy cloned from a log; few digits are enough, as its temperature is fitted again."""
    intercept = log.actions.has_intercept and not find_constant_features(log.X).any()
    return clone_behaviour(log, intercept, TOLERANCE)
