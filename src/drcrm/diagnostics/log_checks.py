"""What the rows of a log say of it, whatever the policy: drift, and costs that a model explains."""

from __future__ import annotations

import warnings

import numpy as np
from scipy.special import chdtrc, ndtr

from drcrm.certificates.intervals import compute_interval
from drcrm.cost_models.ridge_model import CostModel, action_effects
from drcrm.data.bandit_log import BanditLog
from drcrm.data.scaling import has_constant
from drcrm.diagnostics.diagnostic import Diagnostic, worst_level
from drcrm.logs.split import halves
from drcrm.policies.linear_predictor import modelled_cost

LEVEL = 1e-4  # at which a drift is no chance
CERTAIN = 1 - 1e-9  # a logged propensity
NEARLY_CERTAIN = 0.99  # an estimated propensity
HARDLY, HARDLY_ANY = 0.5, 0.99  # of the rows
NEARLY_ALL, LEAST_MEAN = 0.75, 0.94  # of the rows, and the mean, of estimated propensities
ROUNDING = 1e-9  # of the largest cost
NO_DRIFT = f"0 in its {1 - LEVEL:.2%} interval"
LEAST_ROWS = 40
LEAST_EXPLAINED = -0.02
LEAST_SHARE = 5  # expected rows of an action in each half


def check_exploration(log: BanditLog, imitated: bool = False) -> Diagnostic:
    """Return whether the logging policy varies its action for similar contexts.

    A model of a deterministic rule is unsure near the rule's boundaries. So of estimated propensities most must be near
    1, and so must their mean: it is not where some of the decisions are randomised.
    """
    certain = float(log.count @ (log.propensity >= (NEARLY_CERTAIN if imitated else CERTAIN)) / log.size)
    what, threshold = "propensity 1", f"at most half of the rows; fails from {HARDLY_ANY:.0%}"
    fails = certain >= HARDLY_ANY
    if imitated:
        what = f"an estimated propensity of at least {NEARLY_CERTAIN:g}"
        threshold = f"at most half of the rows; fails from {NEARLY_ALL:.0%}, if the mean is at least {LEAST_MEAN:g}"
        fails = certain >= NEARLY_ALL and log.count @ log.propensity / log.size >= LEAST_MEAN
    level = worst_level(bool(fails), certain > HARDLY)
    sentence = f"{certain:.1%} of the rows have {what}"
    if level != "good":
        sentence += ": there the logging policy hardly ever varies its action for similar contexts"
        sentence += ", so the log says nothing about other actions"
    return Diagnostic("exploration", certain, None, None, threshold, level, sentence, "this project")


def check_drift(log: BanditLog, names=None, units=None, last=None) -> list[Diagnostic]:
    """Return whether costs, and actions, differ between the first and the last half of the rows.

    ``last`` is the mask of the last half, by default in the order of the rows.
    """
    if log.size < LEAST_ROWS or len(log.Y) < LEAST_ROWS:
        return []
    last = np.arange(len(log.Y)) >= len(log.Y) // 2 if last is None else last
    return [each for each in (_cost_drift(log, last, units), _action_drift(log, last, names)) if each]


def _cost_drift(log, last, units) -> Diagnostic:
    moved, ends, is_moved, (first, then) = _moved(log.cost, log, last, units)
    sentence = f"the mean cost is {first:.4g} in the first half of the rows and {then:.4g} in the last"
    sentence += ": it drifts, and the estimate is of the rows logged, not of those to come" if is_moved else ""
    return Diagnostic("drift of costs", moved, *ends, NO_DRIFT, worst_level(False, is_moved), sentence, "Welch 1947")


def check_gain_drift(log: BanditLog, weight: np.ndarray, units=None, last=None) -> Diagnostic | None:
    """Return whether what a policy gains, self-normalised, differs between the first and the last half of the rows.

    It fails where the policy gains nothing in the last half.
    """
    total = log.count @ weight
    if log.size < LEAST_ROWS or len(log.Y) < LEAST_ROWS or not 0 < total < np.inf:
        return None
    ratio = log.count @ (weight * log.cost) / total
    terms = ratio + weight * (log.cost - ratio) * log.size / total - log.cost
    last = np.arange(len(log.Y)) >= len(log.Y) // 2 if last is None else last
    moved, ends, is_moved, (first, then) = _moved(terms, log, last, units)
    sentence = (
        f"the policy costs {first:+.4g} beside what logged in the first half of the rows, {then:+.4g} in the last"
    )
    sentence += ": what it gains drifts" if is_moved else ""
    level = worst_level(is_moved and then >= 0 > first, is_moved)
    threshold = f"{NO_DRIFT}; fails if nothing is gained in the last half"
    return Diagnostic("drift of the gain", moved, *ends, threshold, level, sentence, "Welch 1947")


def _moved(values: np.ndarray, log: BanditLog, last: np.ndarray, units) -> tuple:
    """Return the difference of the means of two parts, its interval, whether that excludes 0, and both means."""
    first_n, last_n = log.count @ ~last, log.count @ last
    first, then = log.count @ (values * ~last) / first_n, log.count @ (values * last) / last_n
    terms = np.where(last, (values - then) * log.size / last_n, -(values - first) * log.size / first_n)
    moved = float(then - first)
    interval = compute_interval(moved, terms, log, units, 1 - LEVEL)
    low, high = interval["low"], interval["high"]
    return moved, (low, high), low > 0 or high < 0, (first, then)


def _action_drift(log, last, names) -> Diagnostic | None:
    if not log.actions.shape:
        return None
    chosen = log.Y if log.Y.ndim == 2 else log.Y[:, None] == np.arange(*log.actions.shape)
    halves = np.array([(log.count * part) @ chosen for part in (~last, last)])
    sizes = np.array([log.count @ ~last, log.count @ last])
    usual = halves.sum(axis=0) / log.size
    tested = (np.outer(sizes, usual).min(axis=0) >= LEAST_SHARE) & (usual < 1)
    if not tested.any():
        return None
    shares = halves[:, tested] / sizes[:, None]
    usual = usual[tested]
    z = (shares[1] - shares[0]) / np.sqrt(usual * (1 - usual) * (1 / sizes).sum())
    if log.Y.ndim == 1:
        p = float(chdtrc(max(tested.sum() - bool(tested.all()), 1), (z**2 * (1 - usual)).sum()))
    else:
        p = float(min(2 * ndtr(-np.abs(z).max()) * len(z), 1))
    worst = int(np.argmax(np.abs(z)))
    action = np.flatnonzero(tested)[worst]
    change = float(shares[1][worst] - shares[0][worst])
    sentence = (
        f"{'label' if log.Y.ndim == 2 else 'action'} {action if names is None else names[action]} has "
        f"{shares[0][worst]:.1%} of the first half of the rows and {shares[1][worst]:.1%} of the last (p = {p:.2g})"
    )
    sentence += ": what was logged drifts" if p < LEVEL else ""
    level, threshold = worst_level(False, p < LEVEL), f"p at least {LEVEL:g} if the logging policy does not drift"
    return Diagnostic("drift of actions", change, None, None, threshold, level, sentence, "Pearson 1900")


def check_cost_model(log: BanditLog, cost_model=None) -> Diagnostic | None:
    """Return R² of a cost model on rows that it was not fitted to; by default of one for each half of the contexts."""
    total = log.count @ (log.cost - log.count @ log.cost / log.size) ** 2
    rounding = log.size * (ROUNDING * np.abs(log.cost).max()) ** 2
    if not total > rounding or (cost_model is None and log.n_contexts < LEAST_ROWS):
        return None
    missed = _missed_by_halves(log) if cost_model is None else _missed(cost_model, log)
    explained = float(1 - missed / total)
    sentence = f"a model explains {explained:.1%} of the variance of costs on rows that it was not fitted to"
    is_worse = explained < LEAST_EXPLAINED
    sentence += ": it is worse than their mean, and a doubly robust estimate is no surer by it" if is_worse else ""
    level, threshold = worst_level(False, is_worse), f"at least {LEAST_EXPLAINED:g}, noise about 0"
    return Diagnostic("R² of the cost model", explained, None, None, threshold, level, sentence, "out of fold")


def _missed(model, log: BanditLog) -> float:
    """The squares of what a cost model misses, added up."""
    return log.count @ (log.cost - modelled_cost(log, action_effects(model, log.X, log.actions))) ** 2


def _missed_by_halves(log: BanditLog) -> float:
    """The same of a cost model of each half of the contexts, on the other half; one of them is in memory at a time."""
    half, missed = halves(log.context), 0.0
    intercepts = log.actions.has_intercept and not has_constant(log.X)
    for fold in (0, 1):
        with warnings.catch_warnings(action="ignore"):
            model = CostModel().fit_log(log.recount(log.count * (half != fold)), intercepts)
        missed += _missed(model, log.recount(log.count * (half == fold)))
    return missed
