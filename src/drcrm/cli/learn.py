"""``drcrm learn``: learn a policy from a log, and decide whether it is better than the logging policy."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from drcrm.cli.answers import require_separate_outputs, write_answer
from drcrm.cli.evaluation import EvaluatedPolicy, Evaluation, evaluate, exit_status
from drcrm.cli.shift import mapping_with_shift, require_compatible
from drcrm.data.bandit_log import BanditLog
from drcrm.data.dask_executor import use_cluster
from drcrm.diagnostics.opened_log import OpenedLog, hold_out_by, log_folder, open_log
from drcrm.diagnostics.verdict import ComparisonSettings
from drcrm.errors import InputError
from drcrm.files import is_stream, is_terminal
from drcrm.logs.mapping import import_extra
from drcrm.logs.policy_file import StoredPolicy, write_policy
from drcrm.logs.readers.log_files import name_of
from drcrm.optimization.lbfgs import LbfgsSettings
from drcrm.policies.exponential import make_policy
from drcrm.progress import show_progress
from drcrm.selection.candidates import IMPROVEMENT
from drcrm.selection.shipped_algorithms import Entry, as_entry
from drcrm.selection.successive_halving import ROUGH, THOROUGH, fit_entry, halve_entries, is_expensive
from drcrm.version import __version__

DEFAULT = "kl_dro_dr"
WITH_MAP = "kl_dro_dr_map"
SHIFT_DEFAULT = "shift_dr"
MAX_MAPPED = 20_000  # contexts; on larger logs a feature map takes too long to compete by default
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
    algorithm_entries(mapping.algorithm, 0, shift=mapping.shift)  # report its errors before the log is read
    with (
        show_progress(options.verbose, options.jobs) as report,
        threadpool_limits(1, "blas"),
        _dask_workers(options, report),
        log_folder(options.log if is_stream(options.output) else options.output) as folder,
    ):
        most = None if options.cluster is None else 0  # with a cluster, keep all rows in files, which the workers read
        opened: Any = open_log(options.log, mapping, report, folder, select=hold_out_by(options.seed), most=most)
        _require_several_actions(opened)
        train, groups = opened.train, opened.checks.groups
        has_maps = not is_expensive(train)
        entries = algorithm_entries(mapping.algorithm, train.n_contexts, has_maps=has_maps, shift=mapping.shift)
        units = None if groups is None else groups[opened.recognised.training]
        results = fit_candidates(train, opened.log, entries, report, units)
        report("evaluating the candidates")
        evaluation = _evaluate(opened, results, options)
        answer = _answer(evaluation, options)
        write_policy(options.output, _stored_policy(evaluation, options, evaluation.is_better))
        if options.best and not evaluation.is_better:
            write_policy(options.best, _stored_policy(evaluation, options, is_candidate=True))
    write_answer(answer, options)
    return exit_status(evaluation.verdict, options.fail_unless)


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
    algorithms: object, n_contexts: int, key: str = "algorithm", has_maps: bool = True, shift: float | None = None
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
        algorithms = [DEFAULT, WITH_MAP] if has_maps and n_contexts <= MAX_MAPPED else [DEFAULT]
    algorithms = algorithms if isinstance(algorithms, list | tuple) else [algorithms]
    if not algorithms:
        raise InputError(f"{key} must name at least one algorithm, got an empty list")
    entries = [as_entry(entry, key) for entry in algorithms]
    return entries if shift is None else [entry.for_shift(shift) for entry in entries]


def fit_candidates(
    train: BanditLog,
    heldout: BanditLog,
    entries: Sequence[Entry],
    report: Callable[[str], None],
    units: np.ndarray | None = None,
) -> list[EvaluatedPolicy]:
    """Return the candidate that each algorithm selects on the held-out rows.

    Candidates are the fits of the algorithm and policies between each fit and the logging policy π0. The setting
    ``step`` is 0 for π0 and 1 for the fit. If no bound is below 0, the candidate with the smallest bound is selected.
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
        results.append(_fit_candidate(train, heldout, entry, lbfgs if is_halved else None, units))
    return results


def _fit_candidate(
    train: BanditLog, heldout: BanditLog, entry: Entry, lbfgs: LbfgsSettings | None, units: np.ndarray | None
) -> EvaluatedPolicy:
    learned, features = fit_entry(train, heldout, entry, lbfgs, units=units)
    fits, bounds = learned.fits, learned.fits.scores[:, IMPROVEMENT]
    chosen = int(fits.chosen[IMPROVEMENT])
    is_shown = bool(chosen >= 0 and fits.step[chosen] > 0 and bounds[chosen] < 0)
    if not is_shown:
        chosen = int(np.argmin(np.where((fits.step > 0) & np.isfinite(bounds), bounds, np.inf)))
    value = float(fits.grid[chosen])
    settings = {} if np.isnan(value) else {"parameter": entry.algorithm.parameter, "value": value}
    return EvaluatedPolicy(
        name=entry.name,
        label=entry.label,
        policy=make_policy(train.actions, fits.coef[chosen], features=features),
        cost_model=replace(learned.cost_model, features=features),
        clip=learned.clip,
        settings=settings | {"ridge": float(fits.ridge[chosen]), "step": float(fits.step[chosen])},
        bound=float(bounds[chosen]),
        tried=len(fits.grid),
        is_shown=is_shown,
    )


def best_candidate(results: list[EvaluatedPolicy]) -> EvaluatedPolicy:
    """Return the candidate with the smallest bound. A candidate that is shown to be better precedes any that is not."""
    return min(results, key=lambda result: (not result.is_shown, result.bound if np.isfinite(result.bound) else np.inf))


def _require_several_actions(heldout: OpenedLog) -> None:
    """Raise InputError if all rows have the same action."""
    encoding: Any = heldout.log.encoding
    names = encoding.names
    if encoding.kind == "single" and len(names) == 1:
        raise InputError(
            f"{name_of(heldout.path)}: every row has the action {names[0]!r}, so the log cannot say what others cost; "
            "expected at least two actions"
        )


def _evaluate(opened: OpenedLog, results: list[EvaluatedPolicy], options: argparse.Namespace) -> Evaluation:
    """Return the evaluation of all candidates; the verdict says if an estimate of the logging policy is written."""
    choices = sum(result.tried for result in results)
    mapping = opened.records.mapping
    settings = ComparisonSettings(
        "dr", options.confidence, choices, mapping.cost_range, options.sensitivity, mapping.shift
    )
    evaluation = evaluate(opened, results, best_candidate(results), settings)
    verdict = evaluation.verdict
    if verdict.verdict != "not shown":
        return evaluation
    sentence = (
        f"No candidate was shown to beat the logging policy on the {opened.records.size} held-out rows, "
        f"so an estimate of the logging policy is written. {verdict.sentence}"
    )
    return replace(evaluation, verdict=replace(verdict, sentence=sentence))


def _answer(evaluation: Evaluation, options: argparse.Namespace) -> dict:
    opened, is_better = evaluation.opened, evaluation.is_better
    mapping = opened.records.mapping
    made = {"mapping": mapping.as_dict(), "seed": options.seed, "policy": options.output.name}
    answer = evaluation.answer("learn", kept=evaluation.best.name if is_better else "logging", made=made)
    if not is_better:
        logging = {"name": "logging", "label": "π0", "estimates": {"ips": answer["logging"]}, "is_logging": True}
        candidates = [candidate | {"chosen": False} for candidate in answer["candidates"]]
        answer["candidates"] = [logging | {"chosen": True}, *candidates]
    if options.best and not is_better:
        advice = f"The best candidate is in {options.best.name}. Certify it on rows that are logged later."
        answer["verdict"]["changes"] = [*evaluation.verdict.changes, advice]
    rows = opened.checks.propensity.size
    sizes = {"training": rows - opened.records.size, "heldout": opened.records.size, "split": mapping.split}
    answer["log"] |= {"rows": rows, "contexts": opened.n_contexts, **sizes}
    return answer


def _stored_policy(evaluation: Evaluation, options: argparse.Namespace, is_candidate: bool) -> StoredPolicy:
    """Return the policy to write: the best candidate, or else the estimate of the logging policy.

    The estimate is the ``logging_policy`` of the candidate's cost model. It uses the candidate's feature map.
    """
    opened, best = evaluation.opened, evaluation.best
    policy, model = best.policy, best.cost_model
    if not is_candidate:
        policy = make_policy(opened.train.actions, model.logging_policy.coef, features=policy.features)
    header = {
        "version": __version__,
        "mapping": opened.records.mapping.as_dict(),
        "algorithm": {"name": best.name, "label": best.label, **best.settings},
        "digest": opened.digest,
        "seed": options.seed,
        "choices": evaluation.settings.choices,
        "confidence": options.confidence,
        "verdict": asdict(evaluation.verdict),
        "kept": best.name if is_candidate else "logging",
    }
    return StoredPolicy(policy, opened.log.encoding, model, header, opened.learned_rows)
