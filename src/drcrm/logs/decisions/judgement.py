"""Evaluate policies on rows of a log that did not train them: estimates, comparisons, checks and a verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from drcrm.arrays.formats import Units
from drcrm.data.bandit_log import BanditLog
from drcrm.errors import InputError
from drcrm.evaluation import EVALUATIONS, UNBIASED
from drcrm.evaluation.bounds.independent_units import Interval
from drcrm.evaluation.bounds.upper_bound import ANYTIME, SEQUENCE
from drcrm.evaluation.off_policy_value import off_policy_value
from drcrm.evaluation.policy_on_log import summarize_weights
from drcrm.logs.block_policies import describe_blocks
from drcrm.logs.decisions.every_look import Watch, WatchedOutcome, watch, watched_costs
from drcrm.logs.decisions.opened_log import OpenedLog
from drcrm.logs.diagnostics.comparison.constraints import LimitedLog
from drcrm.logs.diagnostics.comparison.judged_constraints import JudgedGuardrail
from drcrm.logs.diagnostics.comparison.policy_comparison import (
    Comparison,
    compare_with_logging,
    estimate_values,
    find_breakeven_shift,
    sensitivity_to_propensities,
)
from drcrm.logs.diagnostics.comparison.reference import ComparisonSettings
from drcrm.logs.diagnostics.comparison.verdict import BETTER, CHARGED, Bounds, Evidence, Verdict, decide
from drcrm.logs.diagnostics.comparison.words import ESTIMATED, MORE_ROWS, Statement, state
from drcrm.logs.diagnostics.diagnosis import Diagnosis, check_log, diagnose, restrict_scores
from drcrm.logs.diagnostics.propensity_trees import check_overlap
from drcrm.logs.diagnostics.weight_checks import EQUAL
from drcrm.logs.report.answer import Answer
from drcrm.logs.report.candidate import Candidate
from drcrm.policies.tabular import policy_for_log

ONE_LOGGER = [
    "Pass only the files that the policy which runs now logged.",
    "Or compare with the file of that policy on all rows: --baseline FILE.",
]
LOOK_AGAIN = [
    f"{MORE_ROWS}, and look again.",
    "Or leave out --asymptotic: that bound needs cost_range in the mapping, except for 0 and 1, or 0 and -1.",
]


@dataclass(frozen=True, eq=False)
class EvaluatedPolicy:
    """A policy with its cost model, and its name and settings for the answer.

    Attributes
    ----------
    name, label : str
        The policy's name in the answer's JSON, and its name in sentences.
    policy : any policy that :func:`drcrm.off_policy_value` accepts
    cost_model : optional
    clip : float, "auto" or None
        The clipping constant of the estimate "clipped_ips".
    settings : mapping
        The hyper-parameter of the algorithm, the ridge penalty and the step, for the answer.
    is_shown : bool
        Whether the choice among the algorithm's own candidates shows this one to be better. The study ``obd`` reads it.
    may_have_logged : bool
        Whether it existed before the log, so that it may be the logging policy.
    """

    name: str
    label: str
    policy: object
    cost_model: object = None
    clip: float | str | None = "auto"
    settings: Mapping[str, object] = field(default_factory=dict)
    is_shown: bool = False
    may_have_logged: bool = False


@dataclass(frozen=True)
class Judgement:
    """Comparisons of policies with the reference on the same rows, and the verdict on one of the policies.

    Attributes
    ----------
    opened : OpenedLog
        The rows.
    policies : sequence of EvaluatedPolicy
    best : EvaluatedPolicy
        The policy that the verdict is about.
    comparisons : list of Comparison
        One for each policy.
    settings : ComparisonSettings
    evidence : Evidence
        Results that decide the verdict.
    verdict : Verdict
    statement : Statement
        The verdict in words.
    breakeven_shift : float or None
        κ* of a better policy: see :func:`find_breakeven_shift`.
    watched : WatchedOutcome or None
        The estimates of the best policy by the terms of the bounds that hold at every look.
    """

    opened: OpenedLog
    policies: Sequence[EvaluatedPolicy]
    best: EvaluatedPolicy
    comparisons: list[Comparison]
    settings: ComparisonSettings
    evidence: Evidence
    verdict: Verdict
    statement: Statement
    breakeven_shift: float | None = None
    watched: WatchedOutcome | None = None

    def answer(self, command: str, **further: object) -> Answer:
        """Return the answer of a command, with further keys."""
        settings, opened, evidence = self.settings, self.opened, self.evidence
        blocks, candidate = None, None
        if settings.blocks is not None:
            of_blocks = settings.blocks, evidence.comparison.tested_blocks, opened.evaluated, settings.confidence
            train: Any = opened.train
            blocks = describe_blocks(*of_blocks, int(train.copies.sum()))
        if opened.reference.is_baseline:  # its cost model is that of the policy
            estimates = estimate_values(evidence.comparison.evaluation.of_baseline, confidence=settings.confidence)
            if self.watched is not None:
                estimates[evidence.running["estimate"]] = self.watched.baseline_cost
            label = settings.reference.name.removeprefix("the ")
            candidate = Candidate("baseline", label, estimates, units=evidence.units, is_baseline=True)
        return replace(
            describe_log(command, opened, evidence.diagnosis, settings.confidence),
            verdict=self.verdict,
            statement=self.statement,
            candidates=self.candidates(),
            choices=settings.choices,
            effective_choices=settings.divisor,
            reference=replace(settings.reference, policy=None),
            reference_candidate=candidate,
            blocks=blocks,
            gain=evidence.as_dict(),
            running=evidence.running,
            sensitivity=evidence.sensitivity,
            breakeven_shift=self.breakeven_shift,
            further=further,
            is_trusted=not self.statement.assumption or opened.mapping.trusts_propensities,
        )

    def candidates(self) -> list[Candidate]:
        """Return the estimates and the comparison of each policy."""
        candidates, settings = [], self.settings
        is_corrected = self.statement.verdict == BETTER and settings.choices > 1
        for policy, comparison in zip(self.policies, self.comparisons, strict=True):
            values = estimate_values(comparison.evaluation, policy.clip, settings.confidence)
            results = comparison.as_dict()
            if self.watched is not None:
                running: Any = self.evidence.running
                values[running["estimate"]] = self.watched.cost
                certificate = {"confidence": settings.confidence, "choices": settings.choices}
                certificate |= {key: running[key] for key in ("estimate", "value", "bound", "n", "by")}
                difference = results["difference"] | {"bound": running["difference_bound"]}
                results |= {"certificate": certificate, "difference": difference}
            is_best = policy is self.best
            candidates.append(
                Candidate(
                    policy.name,
                    policy.label,
                    values,
                    results,
                    policy.settings,
                    self.evidence.units,
                    is_chosen=is_best,
                    is_best=is_best,
                    is_corrected=is_corrected,
                )
            )
        return candidates


def judge(
    opened: OpenedLog,
    policies: Sequence[EvaluatedPolicy],
    best: EvaluatedPolicy,
    settings: ComparisonSettings,
    watching: Watch | None = None,
) -> Judgement:
    """Compare policies with the reference, and reach a verdict on one of them.

    Parameters
    ----------
    opened : OpenedLog
        Rows that trained none of the policies.
    policies : sequence of EvaluatedPolicy
    best : EvaluatedPolicy
        One of ``policies``, which the checks and the verdict are about.
    settings : ComparisonSettings
        ``settings.choices`` counts all candidates that competed on these rows.
    watching : Watch, optional
        How ``best``, the only policy, is watched at every look. By default, bounds are for one look.
    """
    settings = replace(settings, reference=opened.reference)
    diagnosis, log = diagnose_log(opened, best, settings.confidence), opened.evaluated
    comparisons = [
        compare_with_logging(policy.policy, log, settings, cost_model=policy.cost_model) for policy in policies
    ]
    comparison = comparisons[policies.index(best)]
    units = Units(log.description.is_reward, log.description.outcome)
    evidence = Evidence(comparison, diagnosis, label=best.label, units=units, rows_per_week=opened.rows_per_week)
    bounds, watched = Bounds.of(comparison), None
    if watching is not None:
        evidence, bounds, watched = _watch(opened, best, settings, watching, evidence)
    if settings.blocks is not None:  # the guardrails are about the same mixture
        settings = replace(settings, blocks=replace(settings.blocks, weights=comparison.block_weights))
    every_look = "" if watching is None else SEQUENCE if watching.is_asymptotic else ANYTIME
    constraints: Sequence[Any] = bounds.constraints
    if watching is None:
        outcomes = opened.guarded_outcomes(comparison.difference.estimate)
        constraints = outcomes.with_support(best.cost_model).judge(best.policy, settings)
    bounds = replace(bounds, constraints=[*constraints, *LimitedLog.of(log).judge(best.policy, settings, every_look)])
    comparisons = [evidence.comparison if part is comparison else part for part in comparisons]
    may_have_logged = best.may_have_logged and not opened.reference.is_baseline
    is_own_log = may_have_logged and _has_logged(evidence.comparison.difference, log)
    reference = replace(settings.reference, is_same_policy=is_own_log)
    verdict = decide(diagnosis.diagnostics, bounds, reference)
    breakeven = None
    if watching is None:
        evidence = replace(evidence, sensitivity=_sensitivity(evidence, verdict.is_better))
        if verdict.is_better:
            breakeven = find_breakeven_shift(comparison)
    statement = state(verdict, evidence, ESTIMATED if log.imitated_propensities else "")
    results = comparisons, settings, evidence, verdict, statement, breakeven, watched
    return Judgement(opened, policies, best, *results)


def _has_logged(difference: Interval, log: BanditLog) -> bool:
    """Return whether a policy has the logged propensities, by its weights, which are 1."""
    n = summarize_weights(np.ones(len(log.Y)), log)["effective_size"]
    return abs(difference.mean_weight - 1) <= EQUAL and n - difference.effective_size <= EQUAL**2 * n


def _sensitivity(evidence: Evidence, is_better: bool) -> Any:
    """Return the sensitivity to wrong propensities, of a better policy or by request; None if it has no meaning.

    It compares mean costs with the logged costs.
    """
    settings = evidence.comparison.settings
    is_requested = settings.gamma is not None and evidence.comparison.certificate is not None
    if not (is_better or is_requested) or settings.reference.is_baseline or evidence.radius is not None:
        return None
    return sensitivity_to_propensities(evidence.comparison)


def _watch(
    opened: OpenedLog, best: EvaluatedPolicy, settings: ComparisonSettings, watching: Watch, evidence: Evidence
) -> tuple[Evidence, Bounds, WatchedOutcome | None]:
    """Return the evidence with bounds that hold at every look, these bounds, and the estimates by their terms.

    Bounds that are not asymptotic need no overlap. If another check fails, or an asymptotic bound is refused, the
    answer has the estimates by their terms but no bound, because the bounds of the comparison hold at one look only.
    Guardrails are treated alike.
    """
    comparison, is_asymptotic, running = evidence.comparison, watching.is_asymptotic, None
    uses_model = is_asymptotic and EVALUATIONS[comparison.difference.estimate].kind.uses_model
    watching = replace(watching, cost_model=best.cost_model if uses_model else None)
    refusal, guarded = "", opened.guarded_outcomes(UNBIASED)
    remedies: list[str] = []
    failed = [c.name for c in evidence.diagnosis.failed if is_asymptotic or c.consequence not in CHARGED]
    if failed:
        refusal = f"failed checks: {', '.join(sorted(failed))}"
    elif opened.has_policy_change:
        refusal, remedies = "several policies made the log, and the bounds need a single one", ONE_LOGGER
    else:
        try:
            running, outcomes = watch(opened, guarded, best.policy, watching)
        except InputError as error:
            if not is_asymptotic:
                raise
            refusal, remedies = str(error), LOOK_AGAIN
    if running is None:
        costs = watched_costs(opened, guarded, best.policy, watching)
        outcomes = [part.estimate(over, (-np.inf, np.inf), refusal) for part, over, _ in costs]
        unknown = {"certificate": None, "cost_certificate": None, "lower_bound": -np.inf}
        comparison = replace(comparison, refusals=[InputError(refusal)], **unknown)
    main, *rails = outcomes
    estimates = {name: getattr(main, name) for name in ("difference", "reference", "relative_error")}
    comparison = replace(comparison, **estimates)
    judged = [
        JudgedGuardrail.of(rail, outcome, settings.choices_of(rail.name))
        for (rail, _), outcome in zip(guarded, rails, strict=True)
    ]
    evidence = replace(evidence, comparison=comparison, running=running, remedies=remedies)
    bounds = Bounds.of(comparison) if running is None else Bounds(*main.bounds)
    bounds = replace(bounds, needs_overlap=is_asymptotic, constraints=judged)
    return evidence, bounds, None if running is None else main


def diagnose_log(opened: OpenedLog, policy: EvaluatedPolicy | None = None, confidence: float = 0.95) -> Diagnosis:
    """Check a log, and optionally a policy on it. The checks that need no policy use the whole log."""
    whole, rows, overlap = opened.whole, opened.evaluated_rows, None
    checks = check_log(opened.evaluated if whole is None else whole, row_checks=opened.checks.diagnostics)
    if whole is not None and rows is not None:
        if policy is not None and whole.imitated_propensities:
            mean = policy_for_log(policy.policy, whole).marginals_on(whole.X, whole.actions)
            check, corrected = check_overlap(whole, mean, checks.modelled)
            overlap = check, None if corrected is None else restrict_scores(corrected, rows, whole)
        checks = checks.restrict_to(rows, whole)
    if policy is None:
        return diagnose(opened.evaluated, checks=checks)
    options = {"cost_model": policy.cost_model, "confidence": confidence, "overlap": overlap}
    options["reference"] = opened.reference
    return diagnose(opened.evaluated, policy.policy, checks, **options)


def describe_log(command: str, opened: OpenedLog, diagnosis: Diagnosis, confidence: float) -> Answer:
    """Return the answer of a command without a verdict: the log, its mean cost and the checks."""
    log, description = opened.evaluated, opened.evaluated.description
    logging = off_policy_value(log.propensity, log, "ips", confidence=confidence)
    units = Units(description.is_reward, description.outcome)
    return Answer(command, opened.as_dict(), units, confidence, logging, diagnosis.diagnostics, diagnosis.tables)
