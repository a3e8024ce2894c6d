"""From the training part of a log to candidates: the algorithms compete on the part held out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np

from drcrm.cost_models.support import SupportedModel
from drcrm.data.bandit_log import BanditLog
from drcrm.errors import InputError
from drcrm.policies.exponential import LinearPolicy, make_policy
from drcrm.selection.grid_search import IMPROVEMENT
from drcrm.selection.halving import ROUGH, THOROUGH, fitted, halved, is_expensive
from drcrm.selection.shipped_algorithms import Entry, entry_of

DEFAULT = "kl_dro_dr"
WITH_MAP = "kl_dro_dr_map"
MOST_MAPPED = 20_000  # contexts up to which a feature map competes unasked: there it takes longer than all else


@dataclass(frozen=True)
class AlgorithmResult:
    """What an algorithm chose among its own fits, steps and π0, and by what it may be judged.

    ``bound`` is that of its held-out difference to π0, at 0.95, which chose it; ``tried`` is how many it had to choose
    from.
    """

    entry: Entry
    policy: LinearPolicy
    model: SupportedModel
    clip: float | None
    value: float
    ridge: float
    step: float
    bound: float
    tried: int
    is_shown: bool


def algorithm_entries(asked: object, n_contexts: int, name: str = "algorithm", has_maps: bool = True) -> list[Entry]:
    """Return the algorithms that a mapping asks for: names, or entries as those of a configuration; one, or a list.

    By default KL-DRO with DR; up to 20 000 contexts, if ``has_maps``, the same with a feature map too. InputError for
    an unknown name, or an entry that is none.
    """
    if asked is None:
        asked = [DEFAULT, WITH_MAP] if has_maps and n_contexts <= MOST_MAPPED else [DEFAULT]
    many = asked if isinstance(asked, list | tuple) else [asked]
    if not many:
        raise InputError(f"{name} is an empty list, expected at least one")
    return [entry_of(each, name) for each in many]


def fit_candidates(
    train: BanditLog,
    heldout: BanditLog,
    entries: Iterable[Entry],
    tell: Callable[[str], None],
    units: np.ndarray | None = None,
) -> list[AlgorithmResult]:
    """Return of each algorithm what it chose by the held-out part; ``tell`` hears which is at work.

    If evaluations are expensive, the algorithms first compete on samples of the training rows; ``units`` (n,) says
    which of these belong together. See :mod:`drcrm.selection.halving`.
    """
    entries, found, is_halved = [*entries], [], is_expensive(train)
    if is_halved:
        entries = halved(train, entries, units, tell)
    for number, entry in enumerate(entries, 1):
        tell(f"learning: {entry.label}" + (f" ({number} of {len(entries)})" if len(entries) > 1 else ""))
        limits = THOROUGH if entry.features is None else ROUGH  # with a map an evaluation takes ten times as long
        found.append(_candidate(train, heldout, entry, limits if is_halved else {}))
    return found


def _candidate(train: BanditLog, heldout: BanditLog, entry: Entry, limits: dict) -> AlgorithmResult:
    learned, features = fitted(train, heldout, entry, **limits)
    fits, bounds = learned.fits, learned.fits.scores[:, IMPROVEMENT]
    chosen = int(fits.chosen[IMPROVEMENT])
    is_shown = bool(chosen >= 0 and fits.step[chosen] > 0 and bounds[chosen] < 0)
    if not is_shown:  # what came nearest is judged, and π0 kept
        chosen = int(np.argmin(np.where((fits.step > 0) & np.isfinite(bounds), bounds, np.inf)))
    return AlgorithmResult(
        entry=entry,
        policy=make_policy(train.actions, fits.coef[chosen], features=features),
        model=replace(learned.cost_model, features=features),
        clip=learned.clip,
        value=float(fits.grid[chosen]),
        ridge=float(fits.ridge[chosen]),
        step=float(fits.step[chosen]),
        bound=float(bounds[chosen]),
        tried=len(fits.grid),
        is_shown=is_shown,
    )


def best_candidate(found: list[AlgorithmResult]) -> AlgorithmResult:
    """Return the candidate of the least bound of the difference to π0: of those that are shown to be better, if any."""
    return min(found, key=lambda each: (not each.is_shown, each.bound if np.isfinite(each.bound) else np.inf))
