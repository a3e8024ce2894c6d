"""The propensity audit: whether the logged probabilities can be those by which the actions were drawn.

Let p = π0(a|x) be the propensity of the logged action. For every function f of context and action

    E [f(x, a)/p] = E Σ_b f(x, b) 1(π0(b|x) > 0)

q is a model of the logged actions that was fitted to other rows.

likelihood ratio  f = q, or q sharpened. Then E f/p ≤ 1 in every row, so Π (1 − b + b f/p) exceeds 1/α with probability
                  α at most, for every bet b in [0, 1]. It grows if another model predicts the actions better than p:
                  p = 1/K, propensities of other rows, or propensities that are too small.
arithmetic mean   f = q: E q(a|x)/p = 1, over all rows and for each action
harmonic mean     f = 1(a = b): E 1(a = b)/p = 1 for each action b
calibration       means of p and of q over tenths of the rows, by q

A mean above 1 says that propensities are too small. A mean below 1 says that they are too large, or that the logging
policy never takes actions which f counts. It fails only if q explains p: then p has no information that q lacks.

The bound α is exact for rows of one fold. Over all folds it holds in large samples, where 2 (log ratio) is about
χ²_d − 2d for a model of d coefficients.

Sources: Li, Chen, Kleban & Gupta 2015, whose arithmetic mean takes π0 of all actions. Wasserman, Ramdas & Balakrishnan
2020 for likelihood ratios by models of other rows. Waudby-Smith & Ramdas 2024 for the bets.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from drcrm.certificates.independent_units import check_groups, group_means
from drcrm.certificates.intervals import compute_interval
from drcrm.data.bandit_log import BanditLog
from drcrm.data.scaling import has_constant
from drcrm.diagnostics.diagnostic import Diagnostic, worst_level
from drcrm.optimization.behaviour_cloning import clone_behaviour
from drcrm.policies.linear_predictor import policy_marginals

FOLDS = 5
MOST_CONTEXTS = 20_000  # of a fold, from which the model is fitted
LEVEL = 1e-4  # at which a test fails
MATERIAL = 0.8, 1.25  # a mean between these is no fault, however sure
ODD = 0.95, 1.05  # the same for a caution
LEAST_ROWS = 20  # of an action that is tested alone
LEAST_TENTH = 100  # rows of a tenth; a model of fewer is itself off by OFF
LEAST_LOG = 50  # rows below which nothing is tested
CLOSE, EXPLAINED = 0.25, 0.8  # what q leaves of log p, as a deviation; or the share of its variance that q explains
CERTAIN = 0.9
LEAST_EXPLAINED = 50  # rows, of which less certain ones are then some
BETS = 0.1, 0.4, 0.9
SHARPER = 1, 3  # powers of q
REGRET = 0.625  # log likelihood that a coefficient costs: 1/2 for each row that its fold is fitted to
GROSS = 0.2  # log likelihood ratio a row that the audit should detect, about that of 1/K for a soft policy of 5 actions
CLEARLY = 1.25  # times as far
ALL = "all actions"
OFF = 2  # factor between means of p and of q in a tenth of the rows
SOURCE = "Li, Chen, Kleban & Gupta 2015"


class Tested(NamedTuple):
    """A mean whose expectation is 1, with its standard error, and of what it is."""

    mean: float
    error: float
    of: str


def cross_fit_propensities(log: BanditLog, groups=None, folds: int = FOLDS) -> np.ndarray:
    """Return μ of a model of the logged actions, in the shape of scores, each context's by a model of other folds.

    Contexts stay whole, and so do the groups of rows, (n,), that are given. The model is a softmax, or of label vectors
    a logistic regression of each, as ``drcrm.optimization.behaviour_cloning.clone_behaviour`` has it.
    """
    unit = np.arange(log.n_contexts)
    if groups is not None:
        unit[log.context[::-1]] = check_groups(groups, log.replace(count=np.ones_like(log.count)))[::-1]
    _, unit = np.unique(unit, return_inverse=True)
    rng = np.random.default_rng(0)
    fold = rng.permutation(unit.max() + 1)[unit] % min(folds, unit.max() + 1)
    intercept, order = log.actions.has_intercept and not has_constant(log.X), rng.permutation(log.n_contexts)
    probability = None
    for number in range(fold.max() + 1):
        others = order[fold[order] != number] if fold.max() else order
        kept = np.zeros(log.n_contexts, dtype=bool)
        kept[others[:MOST_CONTEXTS]] = True
        rest = log.recount(log.count * kept[log.context]) if (log.count * kept[log.context]).any() else log
        mean = policy_marginals(clone_behaviour(rest, intercept), log, "the audit")
        probability = (
            mean if probability is None else np.where(log.actions.broadcast(fold == number), mean, probability)
        )
    return probability


def audit_propensities(
    log: BanditLog, modelled: np.ndarray, units=None, imitated: bool = False, names=None
) -> tuple[list[Diagnostic], list[dict[str, float]]]:
    """Return the diagnostics of a log's propensities, and the calibration by tenths of the rows.

    Parameters
    ----------
    log : BanditLog
        In which every row occurs.
    modelled : array in the shape of scores
        q of all actions of each context, by a model that was fitted to other rows: ``cross_fitted``.
    units : array (n,), optional
        Which rows belong together.
    imitated : bool
        Whether the propensities are a model of the log themselves, of which no test can say anything.
    names : list, optional
        Of the actions.
    """
    model = np.exp(log.actions.log_prob(modelled, log.Y, log.context))
    model = np.maximum(model, np.finfo(float).tiny)
    tenths = calibration(log, model)
    if imitated:
        return [_untested("they are estimated from the log itself")], tenths
    enough = required_rows(log)
    n, what = (log.size, "rows") if units is None else (len(np.unique(units)), "groups of rows")
    too_few = f"{n} {what} are too few, about {enough} would do"
    if log.size < LEAST_LOG:
        return [_untested(too_few)], tenths
    tests = [
        _arithmetic(log, modelled, model, units, names),
        _harmonic(log, units, names),
        _likelihood_ratio(log, modelled, units),
        _calibrated(tenths),
    ]
    is_blind = n < enough and log_evidence(log, modelled, _uniform(log), units) <= -np.log(LEVEL)
    if is_blind and all(test.level != "fail" for test in tests):
        tests.insert(0, _untested(too_few))
    return tests, tenths


def _untested(why: str) -> Diagnostic:
    sentence = f"the propensities could not be tested: {why}"
    return Diagnostic("propensity audit", None, None, None, "logged propensities", "caution", sentence, SOURCE)


def required_rows(log: BanditLog) -> int:
    """Return how many rows detect a likelihood ratio of e^GROSS a row, by a model of all features."""
    coefficients = log.X.shape[1] * max(sum(log.actions.shape) - (log.Y.ndim == 1), 1)
    needed = np.log(len(BETS) * len(SHARPER) / LEVEL) + REGRET * coefficients
    return max(LEAST_LOG, int(np.ceil(needed / GROSS)))


def _arithmetic(log, modelled, model, units, names) -> Diagnostic:
    ratio = model / log.propensity
    tested = {_tested(ratio, log, units, ALL): np.ones(len(model), dtype=bool)}
    for action, of_action in _by_action(log):
        expected = modelled[log.context, action]
        share = log.count @ expected / log.size
        if share > 0:
            terms = 1 + (of_action * ratio - expected) / share
            tested[_tested(terms, log, units, _name(action, names))] = of_action
    what = "the mean of a fitted model's probabilities over the logged ones, for"
    is_explained = [_explains(log, model, rows) for rows in tested.values()]
    return _of_means("propensity audit, arithmetic mean", [*tested], is_explained, [*tested][:1], what)


def _harmonic(log, units, names) -> Diagnostic:
    by_action = [
        _tested(of_action / log.propensity / _offered(log, action), log, units, _name(action, names))
        for action, of_action in _by_action(log)
    ]
    if not by_action:
        number = 2.0 ** log.actions.shape[0] if log.Y.ndim == 2 else _sizes(log)
        by_action = [_tested(1 / log.propensity / number, log, units, ALL)]
    what, never = "the mean of 1/propensity over rows of", [False] * len(by_action)
    return _of_means("propensity audit, harmonic mean", by_action, never, by_action, what)


def _sizes(log: BanditLog) -> np.ndarray:
    """How many actions the context of each row has, (n,)."""
    return np.broadcast_to(log.actions.count_choices(), log.n_contexts)[log.context]


def _likelihood_ratio(log, modelled, units) -> Diagnostic:
    value = log_evidence(log, modelled, log.log_propensity, units) / np.log(10)
    fails = bool(value > -np.log10(LEVEL))
    sentence = "a model that was fitted to other rows does not predict the logged actions better than the propensities"
    if fails:
        sentence = (
            f"a model that was fitted to other rows predicts the logged actions 10^{value:.0f} times better than "
            "the propensities: they are wrong, they belong to other rows, or a feature depends on the action"
        )
    return Diagnostic(
        "propensity audit, likelihood ratio",
        float(value),
        None,
        None,
        f"at most {-np.log10(LEVEL):g}, the logarithm to base 10",
        worst_level(fails, False),
        sentence,
        "Wasserman, Ramdas & Balakrishnan 2020",
    )


def log_evidence(log: BanditLog, modelled: np.ndarray, log_propensity: np.ndarray, units) -> float:
    """Return the logarithm of what bets on f/p > 1 make of 1, averaged over bets and f; a unit bets once, on its mean.

    Source: Ville's inequality.
    """
    groups, gains = np.arange(len(log.Y)) if units is None else units, []
    for power in SHARPER:
        log_prob = log.actions.log_prob(_sharpened(log, modelled, power), log.Y, log.context)
        with np.errstate(over="ignore"):
            [ratio, _] = group_means(groups, log.count.astype(float), np.exp(log_prob - log_propensity))
            gains += [np.log1p(bet * (ratio - 1)).sum() for bet in BETS]
    return float(np.logaddexp.reduce(gains) - np.log(len(gains)))


def _sharpened(log: BanditLog, modelled: np.ndarray, power: float) -> np.ndarray:
    """Return the probabilities ∝ q^power, in the shape of scores."""
    tiny = np.finfo(float).tiny
    scores = np.log(np.maximum(modelled, tiny))
    if log.Y.ndim == 2:
        scores -= np.log(np.maximum(1 - modelled, tiny))
    return log.actions.log_partition(power * scores)[1]


def calibration(log: BanditLog, model: np.ndarray) -> list[dict[str, float]]:
    """Return mean propensity and mean modelled probability of each tenth of the rows, by the model."""
    order = np.argsort(model, kind="stable")
    tenths = []
    for place, rows in enumerate(np.array_split(order, min(10, len(order)))):
        count = log.count[rows]
        of_rows = {"propensity": log.propensity, "model": model}
        means = {key: float(count @ values[rows] / count.sum()) for key, values in of_rows.items()}
        tenths.append({"decile": place + 1, "rows": int(count.sum()), **means})
    return tenths


def _calibrated(tenths: list[dict[str, float]]) -> Diagnostic:
    worst = max(tenths, key=lambda each: abs(np.log(each["propensity"] / each["model"])))
    ratio = worst["propensity"] / worst["model"]
    sentence = (
        f"in tenth {worst['decile']} of the rows the mean propensity is {worst['propensity']:.3g}, and by a fitted "
        f"model {worst['model']:.3g}"
    )
    is_off = worst["rows"] >= LEAST_TENTH and not 1 / OFF <= ratio <= OFF
    sentence += ": the propensities are off, or the model cannot follow the logging policy" if is_off else ""
    threshold = f"within a factor of {OFF}"
    return Diagnostic(
        "calibration", ratio, None, None, threshold, worst_level(False, is_off), sentence, "calibration by decile"
    )


def _by_action(log: BanditLog):
    """Each action of K that has rows enough, and which rows have it."""
    if log.Y.ndim == 1 and log.actions.shape:
        rows = np.bincount(log.Y, log.count, *log.actions.shape)
        for action in np.flatnonzero(rows >= LEAST_ROWS):
            yield int(action), action == log.Y


def _offered(log: BanditLog, action: int) -> float:
    """The share of rows whose context offers an action."""
    eligible = getattr(log.actions, "eligible", None)
    return 1.0 if eligible is None else float(log.count @ eligible[log.context, action] / log.size)


def _uniform(log: BanditLog) -> np.ndarray:
    """log of the uniform policy's probability, of each row."""
    if log.Y.ndim == 2:
        return np.full(len(log.Y), -log.actions.shape[0] * np.log(2))
    return -np.log(_sizes(log))


@np.errstate(over="ignore", invalid="ignore")
def _tested(z, log, units, of: str) -> Tested:
    mean = float(log.count @ z / log.size)
    error = compute_interval(mean, z, log, units, 0.95)["standard_error"]
    return Tested(mean, error if np.isfinite(error) else np.inf, of)


def _is_off(tested: Tested, sure: float, between: tuple[float, float], counts_below: bool) -> bool:
    """Return whether a mean is surely above what is no fault; or below it, if that counts."""
    low, high = between
    is_below = tested.mean + sure * tested.error < min(low, 1) and counts_below
    return bool(tested.mean - sure * tested.error > high or is_below)


def _worst(tested: list[Tested]) -> Tested:
    """That with the mean farthest from 1; of all actions, unless one is clearly farther."""
    return max(tested, key=lambda each: abs(np.log(max(each.mean, 1e-300))) * (CLEARLY if each.of == ALL else 1))


def _of_means(name: str, tested: list[Tested], below: list[bool], usual: list[Tested], what: str) -> Diagnostic:
    """Return the diagnostic of the worst mean; ``below`` says which ones fail if they are too small.

    If all means are good, it is the worst of the ``usual`` ones.
    """
    sure = ndtri(1 - LEVEL / (2 * len(tested)))
    fails = [mean for mean, counts in zip(tested, below, strict=True) if _is_off(mean, sure, MATERIAL, counts)]
    odd = [mean for mean in tested if _is_off(mean, sure, ODD, True)]
    worst, level = _worst(fails or odd or usual), worst_level(bool(fails), bool(odd))
    sentence = f"{what} {worst.of}, is {worst.mean:.3g}, and is 1 of the propensities that drew the actions"
    if level != "good":
        direction = "too small" if worst.mean > 1 else "too large"
        factor = max(worst.mean, 1 / max(worst.mean, 1e-300))
        sentence += f": they are {direction} by about {factor:.2g} ×"
        sentence += ", or actions are not available for reasons that no feature has" if worst.mean < 1 else ""
    ends = worst.mean - 1.96 * worst.error, worst.mean + 1.96 * worst.error
    threshold = f"not surely outside {MATERIAL[0]:g} to {MATERIAL[1]:g}"
    return Diagnostic(name, worst.mean, *ends, threshold, level, sentence, SOURCE)


def _explains(log: BanditLog, model: np.ndarray, rows: np.ndarray) -> bool:
    """Return whether log q explains log p of some rows, up to a line: never where the policy is mostly certain."""
    part = log.replace(count=log.count * rows)
    if part.size < LEAST_EXPLAINED or np.median(log.propensity[rows]) > CERTAIN:
        return False
    known, logged = (values - part.count @ values / part.size for values in (np.log(model), log.log_propensity))
    variance = part.count @ known**2
    slope = min(part.count @ (known * logged) / variance, 1) if variance > 0 else 0.0
    left = _deviation(logged - slope * known, part)
    return left <= max(CLOSE, (1 - EXPLAINED) ** 0.5 * _deviation(logged, part))


def _deviation(values: np.ndarray, log: BanditLog) -> float:
    return float(np.sqrt(log.count @ (values - log.count @ values / log.size) ** 2 / log.size))


def _name(action: int, names) -> str:
    return f"action {action if names is None else names[action]}"
