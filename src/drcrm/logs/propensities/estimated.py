"""Estimated propensities of a log without logged ones: behaviour cloning, cross-fitted and calibrated."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from drcrm.arrays.mapped_arrays import scratch_path, write_blocks
from drcrm.arrays.validation import find_constant_features
from drcrm.data.bandit_log import BanditLog
from drcrm.data.executors import run_in_order
from drcrm.errors import InputError
from drcrm.logs.encoded_log import blocks_of, encode, fit_encoding
from drcrm.logs.encoding.base import Encoding
from drcrm.logs.propensities.boosted import boost_propensities, power_of
from drcrm.optimization.behaviour_cloning import clone_behaviour
from drcrm.policies.exponential import LinearPolicy, make_policy
from drcrm.rows.folds import draw_folds

FOLDS = 5
MOST = 2**19  # largest number of rows that the model is fitted to
TOLERANCE = 1e-4  # tolerance of the fits; not tight, because the policies are calibrated afterwards
LARGEST = 3.0  # largest |log β| of the calibration
LEAST = 1e-300  # smallest possible estimate


@dataclass(frozen=True)
class PropensityModel:
    """Cross-fitted, calibrated estimate of the logging policy.

    Attributes
    ----------
    crossfitted : array (n,)
        For each row that the model was fitted to: the probability of its action, by a policy of the other folds.
    policies : tuple of LinearPolicy
        One for each fold.
    encoding : Encoding
    least : float
        Lower bound on the estimates.
    """

    crossfitted: np.ndarray
    policies: tuple[LinearPolicy, ...]
    encoding: Encoding
    least: float

    def predict(self, log: BanditLog) -> np.ndarray:
        """Return the probability of each logged action of a reader's log, (n,), averaged over the folds' policies."""
        log = _encode(log, self.encoding)
        return np.clip(np.mean([np.exp(_log_prob(policy, log)) for policy in self.policies], axis=0), self.least, 1)


def estimate_propensities(log: BanditLog, folds: int = FOLDS) -> np.ndarray:
    """Return the estimated probability of each logged action of a reader's log, (n,).

    The model is fitted to at most 2¹⁹ rows, drawn by contexts or groups. The estimates for these rows are cross-fitted.
    If the mapping has ``propensity_model: trees``, boosted trees correct them; with ``auto`` only if that increases the
    cross-fitted likelihood. Label vectors and larger logs keep the softmax.
    """
    drawn = _draw_rows(log.units)
    model = fit_propensity_model(log if drawn.all() else log.take(drawn), folds)
    name = log.description.mapping.propensity_model
    if name in ("trees", "auto") and log.actions.are_choices and drawn.all():
        boosted = _boost(log, model, folds)
        if name == "trees" or log.count @ np.log(boosted) > log.count @ np.log(model.crossfitted):
            model = replace(model, crossfitted=boosted)
    ends = np.cumsum(drawn)

    def estimate(place: slice, block: BanditLog) -> np.ndarray:
        inside, values = drawn[place], np.empty(len(block.Y))
        first = ends[place.start] - inside[0]
        values[inside] = model.crossfitted[first : first + inside.sum()]
        if not inside.all():
            values[~inside] = model.predict(block.take(~inside))
        return values

    calls = (partial(estimate, place, block) for place, block in blocks_of(log))
    return write_blocks(scratch_path(log.cost), run_in_order(calls))


def fit_propensity_model(log: BanditLog, folds: int = FOLDS) -> PropensityModel:
    """Return the cross-fitted, calibrated model of the logging policy.

    π̂(y|x) ∝ e^{β s(y)}. The scores s have the largest penalised likelihood on the other folds: a softmax, for label
    vectors a logistic regression for each label, for lists a conditional logit. The number β maximises the likelihood
    of the rows left out. All rows of a context, or of a group, are in one fold. Estimates are at least 1/n, or n^{−q}
    for q labels, because n rows cannot distinguish smaller probabilities from 0.

    Parameters
    ----------
    log : BanditLog
        Log of a reader, whose X is a table of features.
    folds : int
        Largest number of folds; at most the number of contexts or groups.

    Raises
    ------
    InputError
        If the log has a single context or group.
    """
    encoding, fold = fit_encoding(log), draw_folds(log.units, folds)
    if not fold.any():
        raise InputError("the log has a single context or group, expected at least two to estimate propensities")
    left_out = [np.flatnonzero(fold == number) for number in range(fold.max() + 1)]
    policies = [_clone(_encode(log.take(fold != number), encoding)) for number in range(len(left_out))]
    logs = [_encode(log.take(rows), encoding) for rows in left_out]

    def log_prob(factor: float) -> np.ndarray:
        values = np.empty(len(log.Y))
        for rows, policy, part in zip(left_out, policies, logs, strict=True):
            values[rows] = _log_prob(_scaled(policy, factor, part), part)
        return values

    bounds = -LARGEST, LARGEST
    best = minimize_scalar(
        lambda log_factor: -log.count @ log_prob(np.exp(log_factor)), bounds=bounds, method="bounded"
    )
    least, factor = max(float(len(log.Y)) ** -log.Y[0].size, LEAST), np.exp(best.x)
    scaled = (_scaled(policy, factor, part) for policy, part in zip(policies, logs, strict=True))
    return PropensityModel(np.clip(np.exp(log_prob(factor)), least, 1), tuple(scaled), encoding, least)


def _boost(log: BanditLog, model: PropensityModel, folds: int) -> np.ndarray:
    """Return the cross-fitted probability of each logged action, (n,), corrected by boosted trees and calibrated."""
    log = _encode(log, model.encoding)
    fold = np.zeros(log.n_contexts, dtype=int)
    fold[log.context] = draw_folds(log.units, folds)
    probability: Any = 0.0
    for number, policy in enumerate(model.policies):
        mean = policy.marginals_on(log.X, log.actions)
        probability = np.where(log.actions.broadcast(fold == number), mean, probability)
    boosted = boost_propensities(log, probability, fold)

    def log_prob(log_power: float) -> np.ndarray:
        return log.actions.log_prob(power_of(log, boosted, np.exp(log_power)), log.Y, log.context)

    bounds = -LARGEST, LARGEST
    best = minimize_scalar(lambda log_power: -log.count @ log_prob(log_power), bounds=bounds, method="bounded")
    return np.clip(np.exp(log_prob(best.x)), model.least, 1)


def _draw_rows(units: np.ndarray) -> np.ndarray:
    """Return the mask of the rows that the model is fitted to: at least two units, at most 2¹⁹ rows if possible."""
    if len(units) <= MOST:
        return np.ones(len(units), dtype=bool)
    _, unit = np.unique(units, return_inverse=True)
    sizes = np.bincount(unit)
    order = np.random.default_rng(0).permutation(len(sizes))
    drawn = np.zeros(len(sizes), dtype=bool)
    drawn[order[np.cumsum(sizes[order]) <= MOST]] = True
    drawn[order[:2]] = True
    return drawn[unit]


def _encode(log: BanditLog, encoding: Encoding) -> BanditLog:
    return encode(log.replace(propensity=np.ones(len(log.Y))), encoding)


def _log_prob(policy: LinearPolicy, log: BanditLog) -> np.ndarray:
    return policy.log_prob(log.actions.unbind(log.X), log.Y, log.context)


def _scaled(policy: LinearPolicy, factor: float, log: BanditLog) -> LinearPolicy:
    return make_policy(log.actions, factor * policy.coef, factor * policy.intercept)


def _clone(log: BanditLog) -> LinearPolicy:
    intercept = log.actions.has_intercept and not find_constant_features(log.X).any()
    return clone_behaviour(log, intercept, TOLERANCE)
