"""Candidates of ``drcrm learn``: the algorithms that are fitted, and the choice among all of their policies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from drcrm.data.bandit_log import BanditLog
from drcrm.errors import InputError
from drcrm.evaluation.bounds.independent_units import unit_values
from drcrm.evaluation.evaluation import LOGGING, Evaluation
from drcrm.logs.block_policies import RowBlocks, learn_policies, restrict_policy
from drcrm.logs.decisions.judgement import EvaluatedPolicy
from drcrm.logs.decisions.opened_log import MAX_CHECKED, OpenedLog
from drcrm.logs.diagnostics.comparison.constraints import GuardedOutcomes, LimitedLog
from drcrm.logs.diagnostics.comparison.judged_constraints import effective_numbers, rate
from drcrm.logs.diagnostics.comparison.reference import ComparisonSettings
from drcrm.logs.diagnostics.comparison.words import WAY_OF_LEARNING
from drcrm.logs.row_identity import RecognisedRows
from drcrm.logs.successive_halving import fit_algorithm, halve_algorithms, is_expensive
from drcrm.mapping.log_mapping import MIXTURE, LogMapping
from drcrm.policies.base import MixturePolicy
from drcrm.policies.exponential import LinearPolicy
from drcrm.policies.trees.encoded_columns import readable_columns
from drcrm.selection.algorithms import Algorithm, as_algorithm, shipped_algorithms
from drcrm.selection.candidates import (
    IMPROVEMENT,
    Candidate,
    EffectiveNumbers,
    Learned,
    PairedDifferences,
    effective_number,
)
from drcrm.selection.score_names import COST_BOUND
from drcrm.weights import Clipped

DEFAULT = "kl_dro_dr"
WITH_SCORES = "kl_dro_dr_scores"
SINGLE_ACTION, POLICY_TREE = "single_action", "policy_tree"
SHIFT_DEFAULT = "shift_snips"
ESTIMATE = "dr"
MAX_SCORED = 200_000  # contexts; on larger logs learned scores take too long to compete by default
MAX_CELLS = 5 * 10**7  # contexts times features; boosted trees need them as a dense array, of 0.4 GB


def read_algorithms(mapping: LogMapping, further: Sequence[str] = (), readable: bool = False) -> list[Algorithm]:
    """Return the algorithms that compete, with the share of uniform actions and the shift of a mapping.

    With a shift, candidates are compared by their worst case around the environment, the default is shift_snips, and
    shift_snips learns at the mapping's radius. Otherwise the default is KL-DRO with DR, and ``further`` compete too. If
    ``readable``, the default is the best single action and a policy tree.

    Raises
    ------
    InputError
        If a name is unknown or an entry is invalid, or if an entry must be a tree and is not.
    """
    entries, shift = mapping.algorithm, mapping.shift
    if entries is None:
        entries = [DEFAULT, *further] if shift is None else SHIFT_DEFAULT
        entries = [SINGLE_ACTION, POLICY_TREE] if readable else entries
    algorithms = []
    for entry in entries if isinstance(entries, list) else [entries]:
        algorithm = as_algorithm(entry).with_settings(explore=mapping.explore, shift=shift)
        if readable and not algorithm.is_tree:
            raise InputError(
                f"--readable needs policy trees, but the mapping has the algorithm {algorithm.name}; remove algorithm"
            )
        is_shipped = algorithm.name in shipped_algorithms() and algorithm.estimator == "EnvironmentDRO"
        algorithms.append(replace(algorithm, grid=(shift,)) if is_shipped and shift is not None else algorithm)
    return algorithms


def require_exportable(algorithms: Sequence[Algorithm], mapping: LogMapping) -> None:
    """Raise InputError unless ``drcrm export`` can write the policy of each algorithm: a linear policy, or a tree.

    It cannot write a policy on lists, a mixture, or a tree that splits by the hour or weekday of a time.
    """
    if mapping.list:
        raise InputError("--exportable needs a log without lists: drcrm export cannot write policies on lists")
    if mapping.deploy == MIXTURE:
        raise InputError("--exportable needs deploy: refit, because drcrm export cannot write a mixture of policies")
    for algorithm in algorithms:
        if not algorithm.is_exportable:
            raise InputError(
                f"--exportable needs linear policies or trees, but the mapping has the algorithm {algorithm.name}"
            )
        if algorithm.is_tree and algorithm.name != SINGLE_ACTION and mapping.times:
            raise InputError(
                f"--exportable needs features without times for {algorithm.name}, because drcrm export cannot write "
                "splits by the hour or weekday; write them to columns of their own"
            )


def further_algorithms(log: BanditLog, exportable: bool = False) -> list[str]:
    """Return the names of the algorithms that compete by default with KL-DRO.

    They are learned scores on choices, if there are not too many contexts and features; and the best single action and
    a policy tree on one of K actions. None of them competes if evaluations are expensive. If ``exportable``, only those
    compete that ``drcrm export`` can write.
    """
    if not log.actions.are_choices or is_expensive(log):
        return []
    is_small = log.n_contexts <= MAX_SCORED and np.prod(log.X.shape) <= MAX_CELLS
    names = [WITH_SCORES] if is_small and not exportable else []
    if log.actions.n_classes:
        has_tree = readable_columns(log) and not (exportable and getattr(log.encoding, "times", ()))
        names += [SINGLE_ACTION, *[POLICY_TREE] * bool(has_tree)]
    return names


class Selection(NamedTuple):
    """The candidate of each algorithm, the best of them, and the effective numbers of all candidates.

    With blocks, the only candidate is the policy that has, in each block, the probabilities of the policy learned
    before it. ``refit`` is then the policy learned from all rows, and ``of_blocks`` has the policies of the blocks.
    """

    policies: list[EvaluatedPolicy]
    best: EvaluatedPolicy
    numbers: EffectiveNumbers
    blocks: RowBlocks | None = None
    refit: EvaluatedPolicy | None = None
    of_blocks: Sequence[LinearPolicy] = ()

    @property
    def candidate(self) -> EvaluatedPolicy:
        """The policy for a file."""
        return self.best if self.refit is None else self.refit

    def mix(self, weights: np.ndarray | None) -> Selection:
        """Return the selection with the mixture of the blocks' policies for a file, by default with equal weights."""
        weights = np.full(len(self.of_blocks), 1 / len(self.of_blocks)) if weights is None else weights
        mixture = MixturePolicy(self.of_blocks, weights)
        refit: Any = self.refit
        return self._replace(refit=replace(refit, label="mixture of blocks", policy=mixture, settings={}))


def fit_candidates(
    opened: OpenedLog, algorithms: Sequence[Algorithm], report: Callable[[str], None], confidence: float = 0.95
) -> Selection:
    """Fit algorithms, and choose among all of their candidates.

    Candidates are the fits of the algorithm and policies between each fit and the logging policy π0. The setting
    ``step`` is 0 for π0 and 1 for the fit. Candidates are compared with π0, or with the baseline of the log.
    :meth:`drcrm.selection.candidates.PairedDifferences.choose` chooses among the candidates of grade 2 for which all
    guardrails and limits hold. If it chooses none, one of the candidates other than π0 is returned. Candidates whose
    estimates are within all margins and limits go first. Among these, the highest grade wins, and then the smallest
    cautious mean.

    If evaluations are expensive, the algorithms first compete on samples of the training rows, also with guardrails:
    see :mod:`drcrm.logs.successive_halving`. These samples use bounds on differences from π0. With a baseline,
    they use bounds on costs.

    Parameters
    ----------
    opened : OpenedLog
        The log with its training rows.
    algorithms : sequence of Algorithm
    report : callable
        Called with a message about each algorithm.
    confidence : float
        Level at which the bounds on all candidates hold together.
    """
    train: Any = opened.train
    if is_expensive(train):
        bound = COST_BOUND if opened.reference.is_baseline else IMPROVEMENT
        algorithms = halve_algorithms(train, algorithms, report, _guard, bound)
    results = []
    for number, algorithm in enumerate(algorithms, 1):
        place = f" ({number} of {len(algorithms)})" if len(algorithms) > 1 else ""
        report(
            f"learning: {algorithm.label}{place}"
            + ("" if algorithm.is_exportable else "; drcrm export cannot write it")
        )
        learned = fit_algorithm(train, opened.evaluated, algorithm)
        results.append(compare_with_baseline(learned, opened) if opened.reference.is_baseline else learned)
    return choose_candidate(opened, algorithms, results, confidence)


def learn_blocks(
    opened: OpenedLog, algorithms: Sequence[Algorithm], report: Callable[[str], None], seed: int
) -> tuple[OpenedLog, Selection]:
    """Return the rows of the tested blocks, and the policies that are learned before them as one candidate.

    The parameters are those of :func:`fit_candidates`, and ``seed`` is that of the order of the blocks. ``opened``
    evaluates all rows.
    """
    parts = learn_policies(opened.evaluated, algorithms, report, seed)
    reference, final = opened.reference, parts.final
    if reference.is_baseline:
        policy = (
            reference.policy if parts.contexts is None else reference.policy.select(parts.contexts, parts.log.actions)
        )
        reference = replace(reference, policy=restrict_policy(policy, parts.log, parts.rows))
    has_whole = len(parts.rows) <= MAX_CHECKED and not parts.log.imitated_propensities
    n = len(opened.checks.propensity)
    tested = replace(
        opened,
        evaluated=parts.tested,
        train=parts.log.take(~parts.rows),
        whole=parts.log if has_whole else None,
        evaluated_rows=parts.rows if has_whole else None,
        reference=reference,
        recognised=RecognisedRows(np.ones(n, dtype=bool), np.zeros(n, dtype=bool)),
    )
    refit = _evaluated(final.algorithm, final.learned, final.learned.candidates[final.learned.selected])
    best = replace(refit, label=WAY_OF_LEARNING, policy=parts.policy, cost_model=parts.cost_model, settings={})
    of_blocks = [learned.policy for learned in parts.learned]
    return tested.mark_missing(), Selection([best], best, EffectiveNumbers(), parts.blocks, refit, of_blocks)


def _evaluated(algorithm: Algorithm, learned: Learned, candidate: Candidate) -> EvaluatedPolicy:
    """Return a candidate with its hyper-parameter, its ridge and its place between π0 and a fit, for the answer."""
    settings = {} if np.isnan(candidate.value) else {"parameter": algorithm.parameter, "value": float(candidate.value)}
    settings |= {name: float(getattr(candidate, name)) for name in ("ridge", "step", "sharpness")}
    known = learned.cost_model, learned.clip, settings
    return EvaluatedPolicy(algorithm.name, algorithm.label, candidate.policy, *known)


def choose_candidate(
    opened: OpenedLog, algorithms: Sequence[Algorithm], results: Sequence[Learned], confidence: float = 0.95
) -> Selection:
    """Return the choice among all candidates of the results of algorithms: see :func:`fit_candidates`."""
    joined = PairedDifferences.join([learned.differences for learned in results])
    number = effective_number(joined.valid, joined.count, confidence)
    choices = number.at(confidence)
    outcomes = opened.guarded_outcomes(ESTIMATE)
    guarded = [outcomes.with_support(learned.cost_model) for learned in results]
    policies = [[candidate.policy for candidate in learned.candidates] for learned in results]
    limited = LimitedLog.of(opened.evaluated)
    pairs = [(part, policy) for part, candidates in zip(guarded, policies, strict=True) for policy in candidates]
    of_guardrails = effective_numbers(
        [part.unit_terms(policy) | limited.unit_terms(policy) for part, policy in pairs], confidence
    )
    settings = ComparisonSettings(
        ESTIMATE,
        confidence,
        effective_choices=choices,
        full_support=opened.mapping.has_full_support,
        guardrail_choices={name: of_rail.at(confidence) for name, of_rail in of_guardrails.items()},
    )
    rates = [
        np.array([rate([*outcomes.judge(p, settings), *limited.judge(p, settings)]) for p in candidates])
        for outcomes, candidates in zip(guarded, policies, strict=True)
    ]
    chosen = joined.choose(choices, (np.concatenate(rates) == 2) & (joined.grade == 2), confidence)
    selected, ranks = zip(
        *(
            _select(algorithm, learned, of_candidates, choices, confidence)
            for algorithm, learned, of_candidates in zip(algorithms, results, rates, strict=True)
        ),
        strict=True,
    )
    ends = np.cumsum([len(learned.candidates) for learned in results])
    best = int(np.searchsorted(ends, chosen, side="right")) if chosen is not None else ranks.index(min(ranks))
    return Selection([*selected], selected[best], EffectiveNumbers(number, of_guardrails))


def compare_with_baseline(learned: Learned, opened: OpenedLog) -> Learned:
    """Return the result with differences from the baseline of the log instead of those from the logging policy."""
    differences, radius = learned.differences, opened.reference.radius
    known = {"baseline": LOGGING, "cost_model": learned.cost_model}
    evaluation = Evaluation.of(opened.reference.policy, opened.evaluated, **known).by(ESTIMATE, radius=radius)
    limited = evaluation if radius is not None else replace(evaluation, weight=Clipped(learned.clip))
    valid, clipped = (part.terms.z - evaluation.reference.z for part in (evaluation, limited))
    valid, clipped, _ = unit_values(evaluation.log, valid, clipped)
    moved = {"valid": differences.valid - valid[:, None], "clipped": differences.clipped - clipped[:, None]}
    return replace(learned, differences=replace(differences, **moved))


def _guard(log: BanditLog) -> Callable[[LinearPolicy], bool]:
    """Return a test of policies: whether an estimate on the rows of a log is beyond a guardrail's margin.

    The estimate "snips" needs no cost models of the outcomes, which are expensive with many actions.
    """
    settings = ComparisonSettings("snips")
    outcomes = GuardedOutcomes.of(log, "snips")
    return lambda policy: rate(outcomes.judge(policy, settings)) == 0


def _select(
    algorithm: Algorithm, learned: Learned, rates: np.ndarray, choices: int, confidence: float
) -> tuple[EvaluatedPolicy, tuple[bool, int, float]]:
    """Return a candidate and its rank: the one chosen for a test, or else the one with the smallest cautious mean.

    The rank has three parts: whether it breaks a guardrail, its grade times −1, and its cautious mean.
    """
    candidates, differences = learned.candidates, learned.differences
    is_allowed = (rates == 2) & (differences.grade == 2)
    means, index = differences.cautious_means(), differences.choose(choices, is_allowed, confidence)
    is_shown = index is not None
    if not is_shown:
        is_possible = np.array([not c.is_logging and np.isfinite(c.scores[IMPROVEMENT]) for c in candidates])
        preferred = [is_possible & (rates > 0) & (differences.grade >= least) for least in (2, 1, 0)]
        among = next((mask for mask in preferred if mask.any()), is_possible)
        index = int(np.argmin(np.where(among, means, np.inf)))
    chosen = candidates[index]
    policy = replace(_evaluated(algorithm, learned, chosen), is_shown=is_shown)
    return policy, (not rates[index], -int(differences.grade[index]), float(means[index]))
