"""Fit the algorithms of a mapping to the training rows; each one selects its candidate on the held-out rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from drcrm.cli.evaluation import EvaluatedPolicy
from drcrm.data.bandit_log import BanditLog
from drcrm.errors import InputError
from drcrm.optimization.lbfgs import LbfgsSettings
from drcrm.policies.exponential import make_policy
from drcrm.selection.candidates import IMPROVEMENT
from drcrm.selection.shipped_algorithms import Entry, as_entry
from drcrm.selection.successive_halving import ROUGH, THOROUGH, fit_entry, halve_entries, is_expensive

DEFAULT = "kl_dro_dr"
WITH_MAP = "kl_dro_dr_map"
MAX_MAPPED = 20_000  # contexts; on larger logs a feature map takes too long to compete by default


@dataclass(frozen=True, eq=False, kw_only=True)
class AlgorithmResult(EvaluatedPolicy):
    """The candidate that an algorithm selected on the held-out rows.

    Candidates are the fits of the algorithm and policies between each fit and the logging policy π0. The setting
    ``step`` is 0 for π0 and 1 for the fit.

    Attributes
    ----------
    entry : Entry
        The algorithm.
    bound : float
        Selection criterion: the upper bound at 0.95 on the candidate's cost minus the logging policy's cost, on the
        held-out rows.
    tried : int
        Number of candidates of the algorithm.
    is_shown : bool
        Whether the bound is below 0, so that the candidate is shown to be better. If no bound is below 0, the candidate
        with the smallest bound is selected.
    """

    entry: Entry
    bound: float
    tried: int
    is_shown: bool


def algorithm_entries(
    algorithms: object, n_contexts: int, key: str = "algorithm", has_maps: bool = True
) -> list[Entry]:
    """Return the algorithms of a mapping.

    Parameters
    ----------
    algorithms : str, dict, list or None
        A name, an entry like those of the configuration, or a list of names and entries. The default is KL-DRO with DR.
        On up to 20 000 contexts, KL-DRO with DR and a feature map is the second default.
    n_contexts : int
    key : str
        Key of the mapping, for error messages.
    has_maps : bool
        Whether a default algorithm may have a feature map.

    Raises
    ------
    InputError
        If a name is unknown, an entry is invalid or the list is empty.
    """
    if algorithms is None:
        algorithms = [DEFAULT, WITH_MAP] if has_maps and n_contexts <= MAX_MAPPED else [DEFAULT]
    algorithms = algorithms if isinstance(algorithms, list | tuple) else [algorithms]
    if not algorithms:
        raise InputError(f"{key} must name at least one algorithm, got an empty list")
    return [as_entry(entry, key) for entry in algorithms]


def fit_candidates(
    train: BanditLog,
    heldout: BanditLog,
    entries: Sequence[Entry],
    report: Callable[[str], None],
    units: np.ndarray | None = None,
) -> list[AlgorithmResult]:
    """Return the candidate that each algorithm selects on the held-out rows.

    If evaluations are expensive, the algorithms first compete on samples of the training rows. See
    :mod:`drcrm.selection.successive_halving`.

    Parameters
    ----------
    train, heldout : BanditLog
    entries : sequence of Entry
    report : callable
        Called with a message about each algorithm.
    units : array (n,), optional
        Ids of independent units of the training rows.
    """
    is_halved = is_expensive(train)
    if is_halved:
        entries = halve_entries(train, entries, units, report)
    results = []
    for number, entry in enumerate(entries, 1):
        report(f"learning: {entry.label}" + (f" ({number} of {len(entries)})" if len(entries) > 1 else ""))
        lbfgs = THOROUGH if entry.features is None else ROUGH  # with a feature map a fit takes ten times as long
        results.append(_fit_candidate(train, heldout, entry, lbfgs if is_halved else None))
    return results


def _fit_candidate(train: BanditLog, heldout: BanditLog, entry: Entry, lbfgs: LbfgsSettings | None) -> AlgorithmResult:
    learned, features = fit_entry(train, heldout, entry, lbfgs)
    fits, bounds = learned.fits, learned.fits.scores[:, IMPROVEMENT]
    chosen = int(fits.chosen[IMPROVEMENT])
    is_shown = bool(chosen >= 0 and fits.step[chosen] > 0 and bounds[chosen] < 0)
    if not is_shown:
        chosen = int(np.argmin(np.where((fits.step > 0) & np.isfinite(bounds), bounds, np.inf)))
    value = float(fits.grid[chosen])
    settings = {} if np.isnan(value) else {"parameter": entry.algorithm.parameter, "value": value}
    return AlgorithmResult(
        name=entry.name,
        label=entry.label,
        policy=make_policy(train.actions, fits.coef[chosen], features=features),
        cost_model=replace(learned.cost_model, features=features),
        clip=learned.clip,
        settings=settings | {"ridge": float(fits.ridge[chosen]), "step": float(fits.step[chosen])},
        entry=entry,
        bound=float(bounds[chosen]),
        tried=len(fits.grid),
        is_shown=is_shown,
    )


def best_candidate(results: list[AlgorithmResult]) -> AlgorithmResult:
    """Return the candidate with the smallest bound. A candidate that is shown to be better precedes any that is not."""
    return min(results, key=lambda result: (not result.is_shown, result.bound if np.isfinite(result.bound) else np.inf))
