"""Candidates of ``drcrm learn``: the algorithms that are fitted, and the choice among all of their policies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from drcrm.cli.common.evaluation import EvaluatedPolicy
from drcrm.data.bandit_log import BanditLog
from drcrm.diagnostics.comparison.guardrails import GuardedOutcomes
from drcrm.diagnostics.comparison.policy_comparison import ComparisonSettings
from drcrm.errors import InputError
from drcrm.selection.candidates import IMPROVEMENT, Learned
from drcrm.selection.multiplicity import PairedDifferences
from drcrm.selection.registry.algorithms import Algorithm
from drcrm.selection.registry.shipped_algorithms import as_algorithm, shipped_algorithms
from drcrm.selection.successive_halving import ROUGH, THOROUGH, fit_algorithm, halve_algorithms, is_expensive

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


def read_algorithms(
    algorithms: object, key: str = "algorithm", has_scores: bool = False, shift: float | None = None
) -> list[Algorithm]:
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
    read = [as_algorithm(entry, key) for entry in algorithms]
    return read if shift is None else [_at_shift(algorithm, shift) for algorithm in read]


def _at_shift(algorithm: Algorithm, radius: float) -> Algorithm:
    """Return the algorithm with comparisons at the radius κ, at which the shipped algorithms for shift also learn."""
    is_shipped = algorithm.name in shipped_algorithms() and algorithm.estimator == "EnvironmentDRO"
    return replace(algorithm, grid=(radius,) if is_shipped else algorithm.grid, shift=radius)


def require_exportable(algorithms: Sequence[Algorithm]) -> None:
    """Raise InputError unless all algorithms of a mapping learn linear policies."""
    for algorithm in algorithms:
        if algorithm.features is not None or algorithm.classifier is not None:
            raise InputError(f"--exportable needs linear policies, but the mapping has the algorithm {algorithm.name}")


def can_have_scores(log: BanditLog) -> bool:
    """Return whether learned scores compete by default: for one of K actions, and a log that is not too large."""
    is_small = log.n_contexts <= MAX_SCORED and not is_expensive(log)
    return bool(log.actions.are_classes and is_small and isinstance(log.X, np.ndarray))


class Selection(NamedTuple):
    """The candidate of each algorithm, the best of them, and the number and the effective number of all candidates."""

    policies: list[EvaluatedPolicy]
    best: EvaluatedPolicy
    tried: int
    choices: int


def fit_candidates(
    train: BanditLog,
    heldout: BanditLog,
    algorithms: Sequence[Algorithm],
    report: Callable[[str], None],
    settings: CandidateSettings | None = None,
) -> Selection:
    """Fit algorithms, and choose among all of their candidates.

    Candidates are the fits of the algorithm and policies between each fit and the logging policy π0. The setting
    ``step`` is 0 for π0 and 1 for the fit. :meth:`drcrm.selection.multiplicity.PairedDifferences.choose` chooses among
    the candidates for which all guardrails hold. If it chooses none, the candidate with the best cautious estimate is
    returned. Candidates whose estimates are beyond the margin of a guardrail are returned only if all are. If
    evaluations are expensive, the algorithms first compete on samples of the training rows. See
    :mod:`drcrm.selection.successive_halving`.

    Parameters
    ----------
    train, heldout : BanditLog
    algorithms : sequence of Algorithm
    report : callable
        Called with a message about each algorithm.
    settings : CandidateSettings, optional
    """
    settings, is_halved = settings or CandidateSettings(), is_expensive(train)
    algorithms = [replace(algorithm, explore=settings.explore) for algorithm in algorithms]
    if is_halved:
        algorithms = halve_algorithms(train, algorithms, settings.units, report)
    results = []
    for number, algorithm in enumerate(algorithms, 1):
        report(f"learning: {algorithm.label}" + (f" ({number} of {len(algorithms)})" if len(algorithms) > 1 else ""))
        if is_halved:  # with a feature map a fit takes ten times as long
            algorithm = replace(algorithm, lbfgs=THOROUGH if algorithm.features is None else ROUGH)
        results.append(fit_algorithm(train, heldout, algorithm, settings.units))
    joined = PairedDifferences.join([learned.differences for learned in results])
    choices = joined.effective_choices(settings.confidence, settings.heldout_units)
    rates = [_rate(learned, settings, choices) for learned in results]
    chosen = joined.choose(choices, np.concatenate(rates) == 2, settings.confidence)
    selected, ranks = zip(
        *(
            _select(algorithm, learned, of_candidates, choices, settings.confidence)
            for algorithm, learned, of_candidates in zip(algorithms, results, rates, strict=True)
        ),
        strict=True,
    )
    ends = np.cumsum([len(learned.candidates) for learned in results])
    best = int(np.searchsorted(ends, chosen, side="right")) if chosen is not None else ranks.index(min(ranks))
    return Selection([*selected], selected[best], int(ends[-1]), choices)


def _rate(learned: Learned, settings: CandidateSettings, choices: int) -> np.ndarray:
    """Return the result of the guardrails for each candidate: see ``GuardedOutcomes.rate``."""
    outcomes = settings.outcomes
    if outcomes is None or not outcomes.guardrails:
        return np.full(len(learned.candidates), 2)
    guarded, compared = (
        outcomes.with_support(learned.cost_model),
        ComparisonSettings(ESTIMATE, settings.confidence, choices),
    )
    return np.array([guarded.rate(candidate.policy, compared) for candidate in learned.candidates])


def _select(
    algorithm: Algorithm, learned: Learned, rates: np.ndarray, choices: int, confidence: float
) -> tuple[EvaluatedPolicy, tuple[bool, int, float]]:
    """Return the candidate that is chosen for a test, or else the one with the best cautious estimate; and its rank.

    The rank is whether it is beyond the margin of a guardrail, minus its grade by the log, and its estimate.
    """
    candidates, differences = learned.candidates, learned.differences
    estimates, shown = differences.cautious_estimates, differences.choose(choices, rates == 2, confidence)
    index = shown
    if index is None:
        is_possible = np.array([not c.is_logging and np.isfinite(c.scores[IMPROVEMENT]) for c in candidates])
        preferred = [is_possible & (rates > 0) & (differences.grade >= least) for least in (2, 1, 0)]
        among = next((mask for mask in preferred if mask.any()), is_possible)
        index = int(np.argmin(np.where(among, estimates, np.inf)))
    chosen = candidates[index]
    settings = {} if np.isnan(chosen.value) else {"parameter": algorithm.parameter, "value": float(chosen.value)}
    settings |= {name: float(getattr(chosen, name)) for name in ("ridge", "step", "sharpness")}
    policy = EvaluatedPolicy(
        algorithm.name,
        algorithm.label,
        chosen.policy,
        learned.cost_model,
        learned.clip,
        settings,
        is_shown=shown is not None,
    )
    return policy, (not rates[index], -int(differences.grade[index]), float(estimates[index]))
