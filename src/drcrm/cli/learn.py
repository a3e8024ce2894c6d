"""``drcrm learn``: learn a policy from a log, and decide whether it is better than the logging policy."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from drcrm.cli.common.answers import require_separate_outputs, write_answer
from drcrm.cli.common.evaluation import EvaluatedPolicy, Evaluation, evaluate, exit_status, guarded_outcomes
from drcrm.cli.common.shift import mapping_with_shift, require_compatible
from drcrm.cli.evaluate_policy import read_baseline, reference_of
from drcrm.cost_models.support import SupportedModel
from drcrm.data.bandit_log import BanditLog
from drcrm.data.dask_executor import use_cluster
from drcrm.diagnostics.comparison.exploration import describe_exploration
from drcrm.diagnostics.comparison.guardrails import GuardedOutcomes
from drcrm.diagnostics.comparison.verdict import ComparisonSettings
from drcrm.diagnostics.opened_log import OpenedLog, hold_out_by, log_folder, open_log
from drcrm.errors import InputError
from drcrm.files import is_stream, is_terminal
from drcrm.logs.mapping import import_extra
from drcrm.logs.policy_file import StoredPolicy, write_policy
from drcrm.logs.readers.log_files import name_of
from drcrm.policies.exponential import LinearPolicy, make_policy
from drcrm.progress import show_progress
from drcrm.selection.candidates import IMPROVEMENT
from drcrm.selection.grid_search import Learned
from drcrm.selection.multiplicity import PairedDifferences
from drcrm.selection.registry.shipped_algorithms import Entry, as_entry
from drcrm.selection.successive_halving import ROUGH, THOROUGH, fit_entry, halve_entries, is_expensive
from drcrm.version import __version__

DEFAULT = "kl_dro_dr"
WITH_SCORES = "kl_dro_dr_scores"
SHIFT_DEFAULT = "shift_dr"
ESTIMATE = "dr"
MAX_SCORED = 200_000  # contexts; on larger logs learned scores take too long to compete by default
CONNECTION_TIMEOUT = 30  # seconds to wait for a Dask scheduler


def run(options: argparse.Namespace) -> int:
    """Run the command: check the arguments, learn, evaluate the candidates, and write policy and answer."""
    if options.best is None and not is_stream(options.output):
        options.best = options.output.with_suffix(f".candidate{options.output.suffix}")
    require_separate_outputs(options)
    if is_terminal(options.output):
        raise InputError(f"--output {options.output} is a terminal, expected a file or a pipe: a policy is binary")
    mapping = mapping_with_shift(options.config, options)
    require_compatible(mapping.shift, options)
    algorithm_entries(mapping.algorithm, shift=mapping.shift)  # report its errors before the log is read
    with (
        show_progress(options.verbose, options.jobs) as report,
        threadpool_limits(1, "blas"),
        _dask_workers(options, report),
        log_folder(options.log if is_stream(options.output) else options.output) as folder,
    ):
        most = None if options.cluster is None else 0  # with a cluster, keep all rows in files, which the workers read
        baseline = read_baseline(options)
        opened: Any = open_log(
            options.log, mapping, report, folder, select=hold_out_by(options.seed), most=most, baseline=baseline
        )
        _require_several_actions(opened)
        train, groups = opened.train, opened.checks.groups
        has_scores = _can_have_scores(train) and not options.exportable
        entries = algorithm_entries(mapping.algorithm, has_scores=has_scores, shift=mapping.shift)
        if options.exportable:
            _require_exportable(entries)
        units = None if groups is None else groups[opened.recognised.training]
        outcomes = guarded_outcomes(opened, ESTIMATE, opened.units)
        results, effective = fit_candidates(train, opened.log, entries, report, units, mapping.explore, outcomes)
        report("evaluating the candidates")
        evaluation = _evaluate(opened, results, effective, options)
        answer = _answer(evaluation, options)
        keeps_baseline = baseline is not None and not evaluation.is_better
        kept = baseline if keeps_baseline else _stored_policy(evaluation, options, evaluation.is_better)
        write_policy(options.output, kept)
        if options.best and not evaluation.is_better:
            write_policy(options.best, _stored_policy(evaluation, options, is_candidate=True))
    write_answer(answer, options)
    return exit_status(evaluation.verdict, options.fail_unless, evaluation.guardrails)


@contextmanager
def _dask_workers(options: argparse.Namespace, report: Callable[[str], None]) -> Iterator[None]:
    """Run the fits of the ``with`` block on a Dask cluster, if the options name one."""
    if options.cluster is None:
        yield
        return
    report(f"connecting to {options.cluster}")
    distributed = import_extra("distributed", "dask")
    try:
        client = distributed.Client(options.cluster, timeout=CONNECTION_TIMEOUT, set_as_default=False)
    except (OSError, ValueError) as error:
        raise InputError(f"--cluster {options.cluster} does not answer: {' '.join(str(error).split())}") from None
    with client, use_cluster(client, options.output.parent):
        yield


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


def _require_exportable(entries: Sequence[Entry]) -> None:
    """Raise InputError unless all algorithms of a mapping learn linear policies."""
    for entry in entries:
        if entry.features is not None or entry.classifier is not None:
            raise InputError(f"--exportable needs linear policies, but the mapping has the algorithm {entry.name}")


def _can_have_scores(log: BanditLog) -> bool:
    """Return whether learned scores compete by default: for one of K actions, and a log that is not too large."""
    is_small = log.n_contexts <= MAX_SCORED and not is_expensive(log)
    return bool(log.actions.are_classes and is_small and isinstance(log.X, np.ndarray))


def fit_candidates(
    train: BanditLog,
    heldout: BanditLog,
    entries: Sequence[Entry],
    report: Callable[[str], None],
    units: np.ndarray | None = None,
    explore: float = 0.0,
    outcomes: GuardedOutcomes | None = None,
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
    units : array (n,), optional
        Ids of independent units of the training rows.
    explore : float
        Share of the uniform policy in each candidate. Fits do not depend on it, but their scores do.
    outcomes : GuardedOutcomes, optional
        Guardrails on the held-out rows.
    """
    is_halved = is_expensive(train)
    if is_halved:
        entries = halve_entries(train, entries, units, report, explore)
    fitted = []
    for number, entry in enumerate(entries, 1):
        report(f"learning: {entry.label}" + (f" ({number} of {len(entries)})" if len(entries) > 1 else ""))
        lbfgs = THOROUGH if entry.features is None else ROUGH  # with a feature map a fit takes ten times as long
        fitted.append(fit_entry(train, heldout, entry, lbfgs if is_halved else None, units=units, explore=explore))
    joined = PairedDifferences.join([learned.differences for learned, _ in fitted])
    choices = joined.effective_choices()
    parts = [
        _Candidates.of(entry, learned, features, train, explore, outcomes, choices)
        for entry, (learned, features) in zip(entries, fitted, strict=True)
    ]
    rates = np.concatenate([part.rates for part in parts])
    chosen, ends = joined.choose(choices, rates == 2), np.cumsum([len(part.rates) for part in parts])
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

    @classmethod
    def of(
        cls,
        entry: Entry,
        learned: Learned,
        features: Any,
        train: BanditLog,
        explore: float,
        outcomes: GuardedOutcomes | None,
        choices: int,
    ) -> _Candidates:
        """Return the candidates with the share ``explore`` of uniform actions."""
        policies = [
            make_policy(train.actions, coef, features=features).with_exploration(explore) for coef in learned.fits.coef
        ]
        cost_model, rates = replace(learned.cost_model, features=features), np.full(len(policies), 2)
        if outcomes is not None and outcomes.guardrails:
            guarded, settings = outcomes.with_support(cost_model), ComparisonSettings(ESTIMATE, choices=choices)
            rates = np.array([guarded.rate(policy, settings) for policy in policies])
        return cls(entry, learned, policies, cost_model, rates)

    def select(self, choices: int, is_best: bool) -> EvaluatedPolicy:
        """Return the candidate that is chosen for a test, or else the one with the best cautious estimate."""
        fits, rates, has_overlap = self.learned.fits, self.rates, self.learned.differences.has_overlap
        bounds, estimates = fits.scores[:, IMPROVEMENT], self.learned.differences.cautious_estimates
        chosen = self.learned.differences.choose(choices, rates == 2)
        is_shown = chosen is not None
        if chosen is None:
            is_possible = ((fits.step > 0) | (fits.sharpness != 1)) & np.isfinite(bounds)
            preferred = [is_possible & (rates > 0) & has_overlap, is_possible & (rates > 0), is_possible]
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
        )


def best_candidate(results: list[EvaluatedPolicy]) -> EvaluatedPolicy:
    """Return the candidate that all algorithms together choose, or else the one with the best cautious estimate.

    Candidates whose estimates are beyond the margin of a guardrail come last.
    """
    return min(results, key=lambda result: (not result.is_best, not result.rate, result.difference))


def _require_several_actions(heldout: OpenedLog) -> None:
    """Raise InputError if all rows have the same action."""
    encoding: Any = heldout.log.encoding
    names = encoding.names
    if encoding.kind == "single" and len(names) == 1:
        raise InputError(
            f"{name_of(heldout.path)}: every row has the action {names[0]!r}, so the log cannot say what others cost; "
            "expected at least two actions"
        )


def _evaluate(
    opened: OpenedLog, results: list[EvaluatedPolicy], effective: int, options: argparse.Namespace
) -> Evaluation:
    """Return the evaluation of all candidates; the verdict says if another policy is written than a candidate."""
    settings = ComparisonSettings(
        estimate=ESTIMATE,
        confidence=options.confidence,
        choices=sum(result.tried for result in results),
        effective_choices=effective,
        cost_range=opened.records.mapping.cost_range,
        gamma=options.sensitivity,
        reference=reference_of(options),
        shift=opened.records.mapping.shift,
    )
    evaluation = evaluate(opened, results, best_candidate(results), settings)
    verdict = evaluation.verdict
    if verdict.verdict != "not shown":
        return evaluation
    written = "an estimate of the logging policy" if opened.baseline is None else "the baseline"
    within = " within all guardrails" if evaluation.guardrails else ""
    sentence = (
        f"No candidate was shown to beat {settings.reference}{within} on the {opened.records.size} held-out rows, "
        f"so {written} is written. {verdict.sentence}"
    )
    return replace(evaluation, verdict=replace(verdict, sentence=sentence))


def _answer(evaluation: Evaluation, options: argparse.Namespace) -> dict:
    opened, is_better = evaluation.opened, evaluation.is_better
    mapping = opened.records.mapping
    made = {"mapping": mapping.as_dict(), "seed": options.seed, "policy": options.output.name}
    kept = "logging" if opened.baseline is None else "baseline"
    answer = evaluation.answer("learn", kept=evaluation.best.name if is_better else kept, made=made)
    if not is_better:
        label, estimates = "π0", {"ips": answer["logging"]}
        if opened.baseline is not None:
            label, estimates = answer["baseline"]["name"].removeprefix("the "), answer["baseline"]["estimates"]
        reference = {"name": kept, "label": label, "estimates": estimates, f"is_{kept}": True, "chosen": True}
        answer["candidates"] = [reference, *(candidate | {"chosen": False} for candidate in answer["candidates"])]
    if options.best and not is_better:
        advice = f"The best candidate is in {options.best.name}. Certify it on rows that are logged later."
        answer["verdict"]["changes"] = [*evaluation.verdict.changes, advice]
    rows = opened.checks.propensity.size
    if is_better or opened.baseline is None:
        models = {"cost_model": evaluation.best.cost_model, "groups": evaluation.diagnosis.units}
        policy = _policy_to_write(evaluation, is_better)
        answer["exploration"] = describe_exploration(policy, opened.log, rows, **models, confidence=options.confidence)
    sizes = {"training": rows - opened.records.size, "heldout": opened.records.size, "split": mapping.split}
    answer["log"] |= {"rows": rows, "contexts": opened.n_contexts, **sizes}
    return answer


def _stored_policy(evaluation: Evaluation, options: argparse.Namespace, is_candidate: bool) -> StoredPolicy:
    """Return the content of the file of the best candidate, or else of the estimate of the logging policy."""
    opened, best = evaluation.opened, evaluation.best
    header = {
        "version": __version__,
        "mapping": opened.records.mapping.as_dict(),
        "algorithm": {"name": best.name, "label": best.label, **best.settings},
        "digest": opened.digest,
        "seed": options.seed,
        "choices": evaluation.settings.choices,
        "effective_choices": evaluation.settings.effective_choices,
        "confidence": options.confidence,
        "verdict": asdict(evaluation.verdict),
        "kept": best.name if is_candidate else "logging",
    }
    policy = _policy_to_write(evaluation, is_candidate)
    return StoredPolicy(policy, opened.log.encoding, best.cost_model, header, opened.learned_rows)


def _policy_to_write(evaluation: Evaluation, is_candidate: bool) -> LinearPolicy:
    """Return the best candidate, or else the estimate of the logging policy, with exploration.

    The estimate is the ``logging_policy`` of the candidate's cost model. It uses the candidate's feature map.
    """
    opened, policy, model = evaluation.opened, evaluation.best.policy, evaluation.best.cost_model
    if is_candidate:
        return policy
    logging_policy = make_policy(opened.train.actions, model.logging_policy.coef, features=policy.features)
    return logging_policy.with_exploration(opened.records.mapping.explore)
