"""The propensity audit: can the logged propensities be the probabilities that the actions were drawn with?

Let p = π0(a|x) be the propensity of the logged action a in context x. For every function f ≥ 0 of context and action,

    E [f(x, a)/p] = E Σ_b f(x, b) 1(π0(b|x) > 0).

The audit tests this identity. Let q(b|x) be a model of the logged actions that was fitted to other rows: a softmax, or
the softmax corrected by boosted trees.

likelihood ratio  f = q, or q sharpened. Then E f/p ≤ 1 in every row. For every bet β in [0, 1], the product
                  Π (1 − β + β f/p) over rows exceeds 1/α with probability at most α. It grows if q predicts the
                  actions better than p does, for example if p = 1/K, if p belongs to other rows, if p is too small,
                  or if the draw followed a rule that p ignores.
mean ratio        f = q: E q(a|x)/p = 1, over all rows and for each action

The mean ratio asks whether q follows the logging policy. If p is uniform, up to rounding, q has nothing to learn, and
with many features it differs much from p by chance. Then f is the uniform policy, so the mean of an action is its share
of the rows, divided by p.

A mean above 1 shows that propensities are too small. A mean below 1 has two possible reasons: propensities are too
large, or the logging policy never takes actions that f counts. To exclude the second reason, f does not count an action
in long gaps between its rows. A mean below 1 fails only if q predicts p, so that p has no information that q lacks.

If the log has π0 of all actions, each action's share of the rows, divided by its mean probability, is one more mean.

The level α is exact for the rows of one fold, and holds over all folds in large samples. In these, twice the log ratio
is about χ²_d − 2d for a model with d coefficients.

If the logger dropped events, the identity holds for the rows with their weights h. A row then bets h/h_max times as
much, and counts once in every number of rows.

Sources: Li, Chen, Kleban & Gupta 2015 for the means; the shares are their arithmetic mean. Wasserman, Ramdas &
Balakrishnan 2020 for likelihood ratios with models of other rows. Waudby-Smith & Ramdas 2024 for the bets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from drcrm.arrays.formats import format_number
from drcrm.data.bandit_log import BanditLog
from drcrm.data.folds import context_folds
from drcrm.evaluation.bounds.independent_units import Interval, group_means, mean_and_deviation
from drcrm.logs.diagnostics.check import LEVEL, Check, Consequence, action_names, time_order, worst_level
from drcrm.logs.estimated_propensities import boost_propensities, power_of
from drcrm.optimization.starts import clone_folds, marginals_of_folds

FOLDS = 5
MAX_CONTEXTS = 20_000  # contexts that the softmax of a fold is fitted to
MATERIAL = 0.8, 1.25  # a significant mean outside of these fails
NOTABLE = 0.95, 1.05  # a significant mean outside of these is a caution
ROUNDED = 0.05  # relative error of propensities of two digits, such as 0.33 for 1/3
MIN_ACTION_ROWS = 20  # rows of an action that is tested separately
MIN_ROWS = 50  # logs with fewer rows are not tested
LONG_GAP = 10  # an action is absent between two of its rows if q expects this many; by chance with probability e⁻¹⁰
CLOSE, EXPLAINED = 0.25, 0.8  # largest residual deviation, or least explained variance, of log p if q explains p
CERTAIN = 0.9
MIN_EXPLAINED_ROWS = 50
BETS = 0.1, 0.4, 0.9
POWERS = 1, 3  # powers of q that sharpen it
REGRET = 0.625  # log likelihood that each coefficient costs: 1/2, over the share of rows that a fold is fitted to
GROSS = 0.2  # log likelihood ratio per row that the audit should detect; p = 1/K of 5 actions has about this ratio
TINY = 1e-9  # of a mean: rounding
PREFERENCE = 1.25  # the mean over all actions is reported unless |log mean| of an action exceeds its own by this factor
ALL = "all actions"
LIKELIHOOD_RATIO = "propensity audit, likelihood ratio"
SOURCE = "Li, Chen, Kleban & Gupta 2015"


class TestedMean(NamedTuple):
    """A mean with expectation 1, its standard error, the actions of its rows, and whether it can fail below 1."""

    mean: float
    error: float
    actions: str
    fails_below: bool = True

    @property
    def distance(self) -> float:
        """|log mean|, times PREFERENCE for the mean of all actions."""
        return abs(np.log(max(self.mean, 1e-300))) * (PREFERENCE if self.actions == ALL else 1)

    def fails(self, limits: tuple[float, float], quantile: float) -> bool:
        """Return whether the mean is significantly above the second limit, or below the first if that can fail."""
        width = quantile * self.error
        return bool(self.mean - width > limits[1] or (self.mean + width < limits[0] and self.fails_below))


def cross_fit_propensities(log: BanditLog, folds: int = FOLDS) -> np.ndarray:
    """Estimate the logging policy's probabilities of all actions by models fitted to other folds.

    The model of :mod:`drcrm.optimization.starts` is a softmax, or a logistic regression for each label. All
    rows of a context, and of a unit, are in one fold. Return an array in the shape of scores.
    """
    fold = context_folds(log, folds)
    return marginals_of_folds(log, clone_folds(log, fold, most=MAX_CONTEXTS), fold)


def boost_model(log: BanditLog, modelled: np.ndarray) -> np.ndarray:
    """Return the model of :func:`cross_fit_propensities`, corrected by boosted trees in the same folds."""
    return boost_propensities(log, modelled, context_folds(log, FOLDS))


def audit_propensities(
    log: BanditLog,
    modelled: np.ndarray,
    boosted: np.ndarray | None = None,
) -> list[Check]:
    """Test a log's propensities. Propensities that were estimated from the log itself cannot be tested.

    Parameters
    ----------
    log : BanditLog
        A log without rows of count 0.
    modelled : array in the shape of scores
        q of all actions of each context, from :func:`cross_fit_propensities`.
    boosted : array in the shape of scores, optional
        The result of :func:`boost_model`, which does not depend on the propensities; computed by default.
    """
    if log.imitated_propensities:
        return [_untested("they are estimated from the log itself")]
    needed = required_rows(log)
    size = int(log.copies.sum())
    n, kind = (size, "rows") if log.units is None else (len(np.unique(log.units)), "groups of rows")
    too_few = _untested(f"about {needed} {kind} are needed, got {n}")
    if size < MIN_ROWS:
        return [too_few]
    boosted = boost_model(log, modelled) if boosted is None else boosted
    models = [*(power_of(log, modelled, power) for power in POWERS), boosted]
    uniform, uniform_log_prob, is_uniform = uniform_policy(log, modelled)
    tests = [
        _check_means(log, uniform, []) if is_uniform else _check_means(log, modelled, _action_shares(log)),
        _check_likelihood_ratio(log, models, uniform_log_prob if is_uniform else log.log_propensity),
    ]
    lacks_power = n < needed and log_evidence(log, models, uniform_log_prob) <= -np.log(LEVEL)
    is_accused = any(test.level == "fail" for test in tests)
    return [too_few, *tests] if lacks_power and not is_accused else tests


def uniform_policy(log: BanditLog, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray, bool]:
    """Return the uniform policy's probabilities of all actions, the logs of the logged ones, and whether it logged.

    It logged if all propensities are uniform, up to rounding. ``scores`` have the shape of the first result.
    """
    uniform = log.actions.log_partition(np.zeros_like(scores))[1]
    log_prob = log.actions.log_prob(uniform, log.Y, log.context)
    is_uniform = np.abs(log.propensity / np.exp(log_prob) - 1).max() <= ROUNDED
    return uniform, log_prob, bool(is_uniform and not log.imitated_propensities)


def _model_of_rows(log: BanditLog, modelled: np.ndarray) -> np.ndarray:
    """Return the model's probability of each logged action, (n,), at least the smallest positive float."""
    return np.maximum(np.exp(log.actions.log_prob(modelled, log.Y, log.context)), np.finfo(float).tiny)


def _untested(reason: str) -> Check:
    sentence = f"the propensities could not be tested: {reason}"
    expected = "logged propensities"
    return Check("audit", "caution", Consequence.UNTESTED, "propensity audit", None, expected, sentence, SOURCE)


def required_rows(log: BanditLog) -> int:
    """Return how many rows the audit needs to detect a log likelihood ratio of GROSS per row."""
    coefficients = log.X.shape[1] * max(sum(log.actions.shape) - log.actions.are_choices, 1)
    needed = np.log(len(BETS) * len(POWERS) / LEVEL) + REGRET * coefficients
    return max(MIN_ROWS, int(np.ceil(needed / GROSS)))


def _check_likelihood_ratio(log: BanditLog, models: list[np.ndarray], log_propensity: np.ndarray) -> Check:
    value = log_evidence(log, models, log_propensity) / np.log(10)
    fails = bool(value > -np.log10(LEVEL))
    sentence = "a model fitted to other rows does not predict the logged actions better than the propensities do"
    if fails:
        sentence = (
            f"a model fitted to other rows predicts the logged actions 10^{value:.0f} times better than the "
            "propensities do. The propensities are wrong or belong to other rows, or a feature depends on the action"
        )
    return Check(
        "audit_likelihood_ratio",
        worst_level(fails, False),
        Consequence.WRONG_OR_DEPENDENT,
        LIKELIHOOD_RATIO,
        float(value),
        f"at most {-np.log10(LEVEL):g} (logarithm to base 10)",
        sentence,
        "Wasserman, Ramdas & Balakrishnan 2020",
    )


def log_evidence(log: BanditLog, models: Sequence[np.ndarray], log_propensity: np.ndarray) -> float:
    """Return the log of the capital, 1 at the start, after bets on f/p > 1 in every unit of rows.

    The capital is the mean over the values of BETS and over the models f, arrays in the shape of scores. A unit bets
    once, on its mean ratio f/p; without units, each copy of a row bets. By Ville's inequality, the capital exceeds 1/α
    with probability at most α if the propensities are right.
    """
    weight, gains = log.relative_weight / np.max(log.relative_weight), []
    for model in models:
        log_prob, copies = log.actions.log_prob(model, log.Y, log.context), log.copies.astype(float)
        with np.errstate(over="ignore"):
            excess = weight * np.expm1(log_prob - log_propensity)
            if log.units is not None:
                excess, copies = group_means(log.units, copies, excess)
            gains += [copies @ np.log1p(bet * excess) for bet in BETS]
    return float(np.logaddexp.reduce(gains) - np.log(len(gains)))


def _check_means(log: BanditLog, modelled: np.ndarray, shares: list[TestedMean]) -> Check:
    """Check E q/p = 1 for all actions and for each one, and report the worst mean.

    A mean that is too large fails. A mean that is too small fails only if q explains p. ``shares`` are further means.
    """
    model = _model_of_rows(log, modelled)
    ratio, means = model / log.propensity, []
    for action, is_action, expected, occurring in _tested_actions(log, modelled):
        name = ALL if action is None else f"action {action_names(log)[action]}"
        tested = _estimate_mean(is_action * ratio, expected, log, name)
        if tested.mean < 1:
            tested = _estimate_mean(is_action * ratio, occurring, log, name)
            tested = tested._replace(mean=min(tested.mean, 1.0))
        means.append(tested._replace(fails_below=_explains(log, model, is_action)))
    means += shares
    quantile = ndtri(1 - LEVEL / (2 * len(means)))
    failed = [tested for tested in means if tested.fails(MATERIAL, quantile)]
    notable = [tested for tested in means if tested._replace(fails_below=True).fails(NOTABLE, quantile)]
    mean, error, actions, _ = max(failed or notable or means[:1], key=lambda tested: tested.distance)
    level = worst_level(bool(failed), bool(notable))
    sentence = (
        f"for {actions}, the mean ratio of modelled to logged propensities is {format_number(mean)}; "
        "correct propensities give 1"
    )
    if level != "good":
        direction = "too small" if mean > 1 else "too large"
        factor = format_number(max(mean, 1 / max(mean, 1e-99)), digits=2)
        sentence += f". They are {direction} by a factor of about {factor}" if mean > TINY else ". It never occurs"
        sentence += ", or actions are unavailable for reasons that no feature shows" if mean < 1 else ""
    return Check(
        "audit_mean_ratio",
        level,
        Consequence.WRONG_PROPENSITIES,
        "propensity audit, mean ratio",
        mean,
        f"not significantly outside {MATERIAL[0]:g} to {MATERIAL[1]:g}",
        sentence,
        SOURCE,
        low=mean - 1.96 * error,
        high=mean + 1.96 * error,
    )


def _action_shares(log: BanditLog) -> list[TestedMean]:
    """Return each action's number of rows, divided by the number that known probabilities of all actions expect."""
    known, names = log.actions.logging_mean, action_names(log)
    if known is None:
        return []
    expected = known[log.context]
    return [
        _estimate_mean((action == log.Y).astype(float), expected[:, action], log, f"action {names[action]}")
        for action in np.flatnonzero(log.copies @ expected >= MIN_ACTION_ROWS)
    ]


def _tested_actions(log: BanditLog, modelled: np.ndarray) -> list[tuple]:
    """Return None for all actions, and each single action with enough rows. For labels and lists, return only None.

    Also return the mask of its rows, q of the action in each row, and the same without rows in which it is absent.
    """
    everywhere, order = np.ones(len(log.Y)), time_order(log)
    actions, absent_share = [], np.zeros(len(log.Y))
    if log.actions.n_classes:
        for action in np.flatnonzero(np.bincount(log.Y, log.copies, *log.actions.shape) >= MIN_ACTION_ROWS):
            is_action, expected = action == log.Y, modelled[log.context, action]
            rate = log.copies @ is_action / (log.count @ is_action)  # the kept rows for each logged row
            absent = expected * _is_absent(is_action, rate * log.count * expected, order)
            absent_share += absent
            actions += [(int(action), is_action, expected, expected - absent)] if expected.any() else []
    return [(None, everywhere > 0, everywhere, everywhere - absent_share), *actions]


def _is_absent(is_action: np.ndarray, expected: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Return the rows, (n,), of long gaps without the action, in which its expected number is large."""
    place, is_absent = np.argsort(order), np.empty(len(order), dtype=bool)
    gap = np.cumsum(is_action[place])
    is_long = np.bincount(gap, (expected * ~is_action)[place]) > LONG_GAP
    is_absent[place] = is_long[gap]
    return is_absent & ~is_action


@np.errstate(over="ignore", invalid="ignore")
def _estimate_mean(ratio: np.ndarray, expected: np.ndarray, log: BanditLog, actions: str) -> TestedMean:
    """Return the sum of ratios, divided by the sum of their expected values."""
    terms = 1 + (ratio - expected) * log.size / (log.count @ expected)
    mean = Interval.of(terms, log, 0.95)
    error = mean.standard_error
    return TestedMean(float(mean), error if np.isfinite(error) else np.inf, actions)


def _explains(log: BanditLog, model: np.ndarray, rows: np.ndarray) -> bool:
    """Return whether a linear function of log q explains log p on the rows; False if most propensities are near 1."""
    part = log.replace(count=log.count * rows)
    if part.size < MIN_EXPLAINED_ROWS or np.median(log.propensity[rows]) > CERTAIN:
        return False
    log_model, logged = (values - part.count @ values / part.size for values in (np.log(model), log.log_propensity))
    variance = part.count @ log_model**2
    slope = min(part.count @ (log_model * logged) / variance, 1) if variance > 0 else 0.0
    (_, unexplained), (_, total) = (
        mean_and_deviation(values, part.count, part.size) for values in (logged - slope * log_model, logged)
    )
    return unexplained <= max(CLOSE, (1 - EXPLAINED) ** 0.5 * total)
