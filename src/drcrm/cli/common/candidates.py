"""Candidates of ``drcrm learn``: the algorithms that are fitted, and the choice among all of their policies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from drcrm.cli.common.evaluation import EvaluatedPolicy
from drcrm.cost_models.support import SupportedModel
from drcrm.data.bandit_log import BanditLog
from drcrm.diagnostics.comparison.guardrails import GuardedOutcomes
from drcrm.diagnostics.comparison.policy_comparison import ComparisonSettings
from drcrm.errors import InputError
from drcrm.policies.exponential import LinearPolicy, make_policy
from drcrm.selection.candidates import IMPROVEMENT
from drcrm.selection.grid_search import Learned
from drcrm.selection.multiplicity import PairedDifferences
from drcrm.selection.registry.shipped_algorithms import Entry, as_entry
from drcrm.selection.successive_halving import ROUGH, THOROUGH, fit_entry, halve_entries, is_expensive

DEFAULT = "kl_dro_dr"
WITH_SCORES = "kl_dro_dr_scores"
SHIFT_DEFAULT = "shift_dr"
ESTIMATE = "dr"
MAX_SCORED = 200_000  # contexts; on larger logs learned scores take too long to compete by default


@dataclass(frozen=True)
class CandidateSettings:
    """What the candidates are, and how they are compared with the logging policy.

    Attributes
    ----------
    explore : float
        Share of the uniform policy in each candidate. Fits do not depend on it, but their scores do.
    confidence : float
        Level at which the bounds on all candidates hold together.
    units, heldout_units : array (n,), optional
        Ids of independent units of the training rows, and of the held-out rows.
    outcomes : GuardedOutcomes, optional
        Guardrails on the held-out rows.
    """

    explore: float = 0.0
    confidence: float = 0.95
    units: np.ndarray | None = None
    heldout_units: np.ndarray | None = None
    outcomes: GuardedOutcomes | None = None


def algorithm_entries(
    algorithms: object, key: str = "algorithm", has_scores: bool = False, shift: float | None = None
) -> list[Entry]:
    """Return the algorithms of a mapping.

    Parameters
    ----------
    algorithms : str, dict, list or None
        A name, an entry like those of the configuration, or a list of names and entries. The default is KL-DRO with DR.
    key : str
        Key of the mapping, for error messages.
    has_scores : bool
        Whether KL-DRO with DR and learned scores is the second default.
    shift : float, optional
        Radius κ of the mapping. If it is set, candidates are compared by their worst case, and the default is shift_dr.

    Raises
    ------
    InputError
        If a name is unknown, an entry is invalid or the list is empty.
    """
    if algorithms is None and shift is not None:
        algorithms = SHIFT_DEFAULT
    if algorithms is None:
        algorithms = [DEFAULT, WITH_SCORES] if has_scores else [DEFAULT]
    algorithms = algorithms if isinstance(algorithms, list | tuple) else [algorithms]
    if not algorithms:
        raise InputError(f"{key} must name at least one algorithm, got an empty list")
    entries = [as_entry(entry, key) for entry in algorithms]
    return entries if shift is None else [entry.for_shift(shift) for entry in entries]


def require_exportable(entries: Sequence[Entry]) -> None:
    """Raise InputError unless all algorithms of a mapping learn linear policies."""
    for entry in entries:
        if entry.features is not None or entry.classifier is not None:
            raise InputError(f"--exportable needs linear policies, but the mapping has the algorithm {entry.name}")


def can_have_scores(log: BanditLog) -> bool:
    """Return whether learned scores compete by default: for one of K actions, and a log that is not too large."""
    is_small = log.n_contexts <= MAX_SCORED and not is_expensive(log)
    return bool(log.actions.are_classes and is_small and isinstance(log.X, np.ndarray))


def fit_candidates(
    train: BanditLog,
    heldout: BanditLog,
    entries: Sequence[Entry],
    report: Callable[[str], None],
    settings: CandidateSettings | None = None,
) -> tuple[list[EvaluatedPolicy], int]:
    """Return the candidate of each algorithm, and the effective number of all candidates.

    Candidates are the fits of the algorithm and policies between each fit and the logging policy π0. The setting
    ``step`` is 0 for π0 and 1 for the fit. :meth:`drcrm.selection.multiplicity.PairedDifferences.choose` chooses among
    the candidates for which all guardrails hold. If it chooses none, the candidate with the best cautious estimate is
    returned. Candidates whose estimates are beyond the margin of a guardrail are returned only if all are. If
    evaluations are expensive, the algorithms first compete on samples of the training rows. See
    :mod:`drcrm.selection.successive_halving`.

    Parameters
    ----------
    train, heldout : BanditLog
    entries : sequence of Entry
    report : callable
        Called with a message about each algorithm.
    settings : CandidateSettings, optional
    """
    settings, is_halved = settings or CandidateSettings(), is_expensive(train)
    shared = {"units": settings.units, "explore": settings.explore}
    if is_halved:
        entries = halve_entries(train, entries, tell=report, **shared)
    fitted = []
    for number, entry in enumerate(entries, 1):
        report(f"learning: {entry.label}" + (f" ({number} of {len(entries)})" if len(entries) > 1 else ""))
        lbfgs = THOROUGH if entry.features is None else ROUGH  # with a feature map a fit takes ten times as long
        fitted.append(fit_entry(train, heldout, entry, lbfgs if is_halved else None, **shared))
    joined = PairedDifferences.join([learned.differences for learned, _ in fitted])
    choices = joined.effective_choices(settings.confidence, settings.heldout_units)
    parts = [
        _Candidates.of(entry, learned, features, train, settings, choices)
        for entry, (learned, features) in zip(entries, fitted, strict=True)
    ]
    rates = np.concatenate([part.rates for part in parts])
    chosen, ends = (
        joined.choose(choices, rates == 2, settings.confidence),
        np.cumsum([len(part.rates) for part in parts]),
    )
    owner = None if chosen is None else int(np.searchsorted(ends, chosen, side="right"))
    return [part.select(choices, owner == number) for number, part in enumerate(parts)], choices


@dataclass(frozen=True)
class _Candidates:
    """All candidates of an algorithm, with the results of the guardrails for each: see ``GuardedOutcomes.rate``."""

    entry: Entry
    learned: Learned
    policies: list[LinearPolicy]
    cost_model: SupportedModel
    rates: np.ndarray
    confidence: float

    @classmethod
    def of(
        cls,
        entry: Entry,
        learned: Learned,
        features: Any,
        train: BanditLog,
        settings: CandidateSettings,
        choices: int,
    ) -> _Candidates:
        """Return the candidates with their share of uniform actions."""
        policies = [make_policy(train.actions, coef, None, features) for coef in learned.fits.coef]
        outcomes = settings.outcomes
        policies = [policy.with_exploration(settings.explore) for policy in policies]
        cost_model, rates = replace(learned.cost_model, features=features), np.full(len(policies), 2)
        if outcomes is not None and outcomes.guardrails:
            guarded = outcomes.with_support(cost_model)
            compared = ComparisonSettings(ESTIMATE, settings.confidence, choices)
            rates = np.array([guarded.rate(policy, compared) for policy in policies])
        return cls(entry, learned, policies, cost_model, rates, settings.confidence)

    def select(self, choices: int, is_best: bool) -> EvaluatedPolicy:
        """Return the candidate that is chosen for a test, or else the one with the best cautious estimate."""
        fits, rates, differences = self.learned.fits, self.rates, self.learned.differences
        bounds, estimates = fits.scores[:, IMPROVEMENT], differences.cautious_estimates
        chosen = differences.choose(choices, rates == 2, self.confidence)
        is_shown = chosen is not None
        if chosen is None:
            is_possible = ((fits.step > 0) | (fits.sharpness != 1)) & np.isfinite(bounds)
            preferred = [is_possible & (rates > 0) & (differences.grade >= least) for least in (2, 1, 0)]
            among = next((mask for mask in preferred if mask.any()), is_possible)
            chosen = int(np.argmin(np.where(among, estimates, np.inf)))
        value = float(fits.grid[chosen])
        settings = {} if np.isnan(value) else {"parameter": self.entry.algorithm.parameter, "value": value}
        settings |= {name: float(getattr(fits, name)[chosen]) for name in ("ridge", "step", "sharpness")}
        return EvaluatedPolicy(
            name=self.entry.name,
            label=self.entry.label,
            policy=self.policies[chosen],
            cost_model=self.cost_model,
            clip=self.learned.clip,
            settings=settings,
            difference=float(estimates[chosen]),
            tried=len(fits.grid),
            is_shown=is_shown,
            is_best=is_best,
            rate=int(rates[chosen]),
            grade=int(differences.grade[chosen]),
        )


def best_candidate(results: list[EvaluatedPolicy]) -> EvaluatedPolicy:
    """Return the candidate that all algorithms together choose, or else the one with the best cautious estimate.

    Candidates whose estimates are beyond the margin of a guardrail come last, after those that the log cannot judge.
    """
    return min(results, key=lambda result: (not result.is_best, not result.rate, -result.grade, result.difference))
