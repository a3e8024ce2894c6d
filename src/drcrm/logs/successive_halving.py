"""Successive halving: choose the algorithms and settings to fit to all rows of a log with many actions.

With many actions every evaluation is expensive, so only a few fits can use all rows. All fits compete on a small sample
of the training rows. The best go on to a larger sample, and the winner is fitted to all training rows. A third of the
training units (groups or rows), at most 2¹⁴, is in no sample. The fits of each stage are scored on these units. The
held-out rows are not used here. They test only the winner, the logging policy, and policies between these two.

The radius of a risk's ball is enlarged on samples, because means of fewer rows are noisier. If several radii give the
same fit, the smallest radius goes on.

No fit is warm-started from the fit to a smaller sample. In a measurement with 45 000 contexts and 300 actions, such
fits took more iterations. Their policies were 1 to 10 % worse, because they had overfitted the smaller sample.

``fit_algorithm`` fits one algorithm, to a sample or to all training rows. It also serves logs on which all fits use all
rows, without successive halving.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from drcrm.data.bandit_log import BanditLog
from drcrm.logs.training_limits import TrainingLimits, TreeLearner
from drcrm.optimization.lbfgs import PAIRS, LbfgsSettings
from drcrm.policies.exponential import LinearPolicy
from drcrm.selection.algorithms import Algorithm
from drcrm.selection.candidates import IMPROVEMENT, Candidate, Learned
from drcrm.selection.grid_search import learn_with_features, score_candidates, score_policy
from drcrm.selection.score_names import COST

MANY_SCORES = 2**20  # fits are expensive if they compute at least this many policy scores, one per context and action
MANY_ACTIONS = 32  # all fits use all rows if contexts have fewer actions on average
MANY_COEFFICIENTS = 2**15  # with more coefficients, products with 50 pairs of vectors dominate the cost of L-BFGS
FEW_UNITS = 1000  # with fewer units in the log, samples would be too small
STAGES = (1 / 8, 3), (1 / 4, 1)  # share of the units in the sample, and number of fits that go on
LARGEST_SAMPLE = 2**14  # units
VALIDATION = 1 / 3  # share of the units on which fits are scored, equal to the default share of held-out rows
ROUGH = LbfgsSettings(tol=1e-4, pairs=50)  # on samples
# On all rows. Policies are better than at tol=1e-6 with 10 pairs, and take half the time.
THOROUGH = LbfgsSettings(tol=3e-6, pairs=50)


def is_expensive(log: BanditLog) -> bool:
    """Return whether a log has so many contexts and actions that not all fits can use all of its rows."""
    scores = log.X.shape[0] * int(np.prod(log.actions.shape))
    return scores >= max(MANY_SCORES, MANY_ACTIONS * log.n_contexts)


def fit_algorithm(train: BanditLog, heldout: BanditLog | None, algorithm: Algorithm) -> Learned:
    """Fit an algorithm to a log, and compare its candidates with π0 on held-out rows, if there are any.

    Candidates are within the limits of the log's mapping on the training rows: see :mod:`drcrm.logs.training_limits`.
    """
    settings = algorithm.settings
    if algorithm.is_tree:
        policy = TreeLearner.of(train, settings.depth, settings.support, settings.explore).learn()
        return score_policy(policy, train, heldout, algorithm)
    limits = TrainingLimits.of(train, settings.explore, settings.support)
    priced = train if limits is None else limits.price(train)
    learned = _fit(priced, heldout if priced is train else None, algorithm)
    if limits is None:
        return learned
    candidates = [
        fit if fit.is_logging else replace(fit, policy=limits.adjust(fit.policy)) for fit in learned.candidates
    ]
    pairs = zip(candidates, learned.candidates, strict=True)
    if priced is train and all(new.policy is old.policy for new, old in pairs):
        return learned
    return score_candidates(candidates, train, heldout, algorithm)


def _fit(train: BanditLog, heldout: BanditLog | None, algorithm: Algorithm) -> Learned:
    """Return the result of an algorithm without limits."""
    settings = algorithm.settings
    if algorithm.classifier is not None:
        from drcrm.policies.classifier_policy import classifier_policy  # imported here: it imports scikit-learn

        policy = classifier_policy(train, algorithm.classifier, settings.weights)
        return score_policy(policy, train, heldout, algorithm)
    n_mapped = sum(settings.features.values()) if isinstance(settings.features, Mapping) else 0
    if (train.X.shape[1] + n_mapped) * np.prod(train.actions.shape) > MANY_COEFFICIENTS:
        algorithm = algorithm.with_settings(lbfgs=replace(settings.lbfgs, pairs=PAIRS))
    return learn_with_features(train, algorithm.with_settings(compares=True), heldout)


def halve_algorithms(
    train: BanditLog,
    algorithms: Sequence[Algorithm],
    tell: Callable[[str], None],
    guard: Callable[[BanditLog], Callable[[LinearPolicy], bool]] | None = None,
    bound: str = IMPROVEMENT,
) -> Sequence[Algorithm]:
    """Return the algorithms to fit to all training rows, each with only the grid values and ridges to fit.

    Their fits need fewer iterations. With fewer than 1000 units, return all algorithms, with all values and ridges.

    Parameters
    ----------
    train : BanditLog
        Rows of a group stay together.
    algorithms : sequence of Algorithm
    tell : callable
        Called with a message about each algorithm that is being fitted.
    guard : callable, optional
        It returns, for the rows that score the fits, a function of a policy that returns whether its estimates are
        beyond the margin of a guardrail. Such fits go on only if too few others do.
    bound : str
        Score that bounds a fit: by default "improvement_bound", on its difference from the logging policy. "dr_bound",
        on its cost, compares with no policy.
    """
    unit = train.unit_numbers
    n = int(unit.max()) + 1
    # With a feature map a fit takes ten times as long.
    algorithms = [part.with_settings(lbfgs=ROUGH if part.settings.features else THOROUGH) for part in algorithms]
    if n < FEW_UNITS:
        return algorithms
    place = np.random.default_rng(0).permutation(n)[unit]
    scored = train.recount(train.count * (place >= n - min(int(VALIDATION * n), LARGEST_SAMPLE)))
    is_beyond = None if guard is None else guard(scored)
    for share, n_kept in STAGES:
        sample = train.recount(train.count * (place < min(int(share * n), LARGEST_SAMPLE)))
        trials: list[_Trial] = []
        for number, algorithm in enumerate(algorithms):
            tell(f"choosing on {len(sample.Y)} training rows: {algorithm.label}")
            on_sample = algorithm.with_settings(lbfgs=ROUGH, fewer_rows=train.size / sample.size)
            candidates = fit_algorithm(sample, scored, on_sample).candidates
            trials += _make_trials(number, algorithm, candidates, bound, is_beyond)
        algorithms = _keep_best(algorithms, trials, n_kept)
    return algorithms


class _Trial(NamedTuple):
    """A fit to a sample, and its scores on other training rows.

    ``bound`` is the smallest bound of the fit and of the policies between it and the logging policy. ``cost`` is the
    doubly robust cost of the fit. ``is_beyond`` says whether the fit is beyond the margin of a guardrail.
    """

    algorithm: int
    fit: Candidate
    is_in_grid: bool
    bound: float
    cost: float
    is_beyond: bool


def _make_trials(
    number: int,
    algorithm: Algorithm,
    candidates: Sequence[Candidate],
    bound: str,
    is_beyond: Callable[[LinearPolicy], bool] | None,
) -> list[_Trial]:
    """Return the fits of an algorithm to a sample."""
    trials = []
    for index, fit in enumerate(candidates):
        if not fit.is_fit:
            continue
        is_in_grid = index < len(algorithm.values)
        same = [
            candidate
            for candidate in candidates
            if is_in_grid and 0 < candidate.step < 1 and (candidate.value == fit.value or np.isnan(candidate.value))
        ]
        bounds = np.nan_to_num([candidate.scores[bound] for candidate in [fit, *same]], nan=np.inf)
        cost = float(np.nan_to_num(fit.scores[COST], nan=np.inf))
        beyond = is_beyond is not None and is_beyond(fit.policy)
        trials.append(_Trial(number, fit, is_in_grid, float(bounds.min()), cost, beyond))
    return trials


def _keep_best(algorithms: Sequence[Algorithm], trials: list[_Trial], n_kept: int) -> list[Algorithm]:
    """Return the algorithms of the best trials, with only the values and ridges of these trials.

    An algorithm that is kept only for a ridge also keeps its best grid value. Trials are ranked by cost and bound in
    turn: smallest cost, smallest bound, second smallest cost, and so on. Trials beyond a guardrail are last. On
    samples, the bound favours policies with little noise, by default those close to the logging policy, while a few
    rows with large weights can decide the cost.
    """
    by_cost, by_bound = (sorted(trials, key=attrgetter("is_beyond", name)) for name in ("cost", "bound"))
    ordered = list({id(trial): trial for pair in zip(by_cost, by_bound, strict=True) for trial in pair}.values())
    reduced = []
    for number, algorithm in enumerate(algorithms):
        kept = [trial for trial in ordered[:n_kept] if trial.algorithm == number]
        if not kept:
            continue
        in_grid = [trial.fit.value for trial in ordered if trial.algorithm == number and trial.is_in_grid]
        values = [trial.fit.value for trial in kept if trial.is_in_grid] or in_grid[:1]
        grid = tuple(sorted(values)) if algorithm.parameter else ()
        ridges = tuple(trial.fit.ridge for trial in kept if not trial.is_in_grid)
        around = replace(algorithm.settings.around, ridges=ridges)
        reduced.append(replace(algorithm, grid=grid).with_settings(around=around))
    return reduced
