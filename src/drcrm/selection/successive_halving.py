"""Successive halving: choose the algorithms and settings to fit to all rows of a log with many actions.

With many actions every evaluation is expensive, so only a few fits can use all rows. All fits compete on a small sample
of the training rows. The best go on to a larger sample, and the winner is fitted to all training rows. A third of the
training units (contexts or groups), at most 2¹⁴, is in no sample. The fits of each stage are scored on these units. The
held-out rows are not used here. They test only the winner, the logging policy, and policies between these two.

The radius of a risk's ball is enlarged on samples, because means of fewer rows are noisier. If several radii give the
same fit, the smallest radius goes on.

No fit is warm-started from the fit to a smaller sample. In a measurement with 45 000 contexts and 300 actions, such
fits took more iterations. Their policies were 1 to 10 % worse, because they had overfitted the smaller sample.

``fit_entry`` fits one algorithm with its settings, to a sample or to all training rows. It also serves logs on which
all fits use all rows, without successive halving.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

import numpy as np

from drcrm.data.bandit_log import BanditLog
from drcrm.optimization.lbfgs import PAIRS, LbfgsSettings
from drcrm.selection.grid_search import Learned, LearnSettings, score_policy
from drcrm.selection.learned_scores import learn_with_features
from drcrm.selection.registry.shipped_algorithms import Entry
from drcrm.selection.score_names import SCORES

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
BOUND, DOUBLY_ROBUST, RATIO = (list(SCORES).index(name) for name in ("improvement_bound", "dr", "snips_bound"))


@dataclass(frozen=True)
class Trial:
    """A fit to a sample, with its grid value or its ridge, and its scores on other training rows.

    ``bound`` is the smallest ``improvement_bound`` of the fit and of the policies between it and the logging policy.
    ``cost`` is the doubly robust cost of the fit. Without a cost model, it is the bound on the fit's self-normalised
    cost.
    """

    entry: Entry
    value: float | None
    ridge: float | None
    bound: float
    cost: float


def is_expensive(log: BanditLog) -> bool:
    """Return whether a log has so many contexts and actions that not all fits can use all of its rows."""
    scores = log.X.shape[0] * int(np.prod(log.actions.shape))
    return scores >= max(MANY_SCORES, MANY_ACTIONS * log.n_contexts)


def fit_entry(
    train: BanditLog,
    heldout: BanditLog,
    entry: Entry,
    lbfgs: LbfgsSettings | None = None,
    fewer_rows: float = 1.0,
    units: np.ndarray | None = None,
    explore: float = 0.0,
) -> tuple[Learned, Callable | None]:
    """Fit an entry to a log and score the fits on held-out rows; return the result and the feature map or None.

    ``explore`` is that of ``LearnSettings``.
    """
    lbfgs = lbfgs or LbfgsSettings()
    if entry.classifier is not None:
        from drcrm.policies.classifier_policy import classifier_policy  # imported here: it imports scikit-learn

        policy = classifier_policy(train, entry.classifier, entry.weights)
        mapped, scored = (part.replace(X=policy.map_features(part.X)) for part in (train, heldout))
        return score_policy(policy.coef, mapped, scored, explore, entry.shift), policy.features
    n_mapped = sum(entry.features.values()) if isinstance(entry.features, Mapping) else 0
    if (train.X.shape[1] + n_mapped) * np.prod(train.actions.shape) > MANY_COEFFICIENTS:
        lbfgs = replace(lbfgs, pairs=PAIRS)
    settings = LearnSettings(
        ridges=entry.ridges,
        fewer_rows=fewer_rows,
        explore=explore,
        shift=entry.shift,
        has_differences=True,
        lbfgs=lbfgs,
    )
    return learn_with_features(train, entry.algorithm, heldout, entry.features, settings=settings, units=units)


def halve_entries(
    train: BanditLog,
    entries: Iterable[Entry],
    units: np.ndarray | None,
    tell: Callable[[str], None],
    explore: float = 0.0,
) -> list[Entry]:
    """Return the entries to fit to all training rows, each with only the grid values and ridges to fit.

    With fewer than 1000 units, return all entries unchanged.

    Parameters
    ----------
    train : BanditLog
    entries : iterable of Entry
    units : array (n,), optional
        Unit of each row; rows of a unit stay together. By default the units are the contexts.
    tell : callable
        Called with a message about each entry that is being fitted.
    explore : float
        See ``LearnSettings``.
    """
    entries = [*entries]
    _, unit = np.unique(train.context if units is None else units, return_inverse=True)
    n = int(unit.max()) + 1
    if n < FEW_UNITS:
        return entries
    place = np.random.default_rng(0).permutation(n)[unit]
    scored = train.recount(train.count * (place >= n - min(int(VALIDATION * n), LARGEST_SAMPLE)))
    for share, n_kept in STAGES:
        sample = train.recount(train.count * (place < min(int(share * n), LARGEST_SAMPLE)))
        trials = []
        for entry in entries:
            tell(f"choosing on {len(sample.Y)} training rows: {entry.label}")
            learned, _ = fit_entry(sample, scored, entry, ROUGH, train.size / sample.size, explore=explore)
            trials += _make_trials(entry, learned)
        entries = _keep_best(entries, trials, n_kept)
    return entries


def _make_trials(entry: Entry, learned: Learned) -> list[Trial]:
    """Return the fits of an entry to a sample."""
    fits, trials = learned.fits, []
    scores = np.nan_to_num(fits.scores, nan=np.inf)
    costs = scores[:, DOUBLY_ROBUST if np.isfinite(scores[:, DOUBLY_ROBUST]).any() else RATIO]
    for index in np.flatnonzero((fits.step == 1) & (fits.sharpness == 1)):
        is_in_grid = index < max(1, len(entry.algorithm.grid))
        value, ridge = (float(fits.grid[index]), None) if is_in_grid else (None, float(fits.ridge[index]))
        is_step = (fits.step > 0) & (fits.step < 1) & ((fits.grid == value) | np.isnan(fits.grid)) & is_in_grid
        bound = scores[is_step | (np.arange(len(scores)) == index), BOUND].min()
        trials.append(Trial(entry, value, ridge, float(bound), float(costs[index])))
    return trials


def _keep_best(entries: list[Entry], trials: list[Trial], n_kept: int) -> list[Entry]:
    """Return the entries of the best trials, with only the values and ridges of these trials.

    An entry that is kept only for a ridge also keeps its best grid value. Trials are ranked by cost and bound in turn:
    smallest cost, smallest bound, second smallest cost, and so on. On samples, the bound favours policies close to the
    logging policy, while a few rows with large weights can decide the cost.
    """
    by_cost, by_bound = (sorted(trials, key=attrgetter(name)) for name in ("cost", "bound"))
    ordered = list({id(trial): trial for pair in zip(by_cost, by_bound, strict=True) for trial in pair}.values())
    reduced = []
    for entry in entries:
        kept = [trial for trial in ordered[:n_kept] if trial.entry is entry]
        if not kept:
            continue
        in_grid = [trial for trial in ordered if trial.entry is entry and trial.ridge is None]
        values: list[Any] = [trial.value for trial in kept if trial.ridge is None] or [in_grid[0].value]
        algorithm = replace(entry.algorithm, grid=tuple(sorted(values)) if entry.algorithm.parameter else ())
        ridges = tuple(trial.ridge for trial in kept if trial.ridge is not None)
        reduced.append(replace(entry, algorithm=algorithm, ridges=ridges))
    return reduced
