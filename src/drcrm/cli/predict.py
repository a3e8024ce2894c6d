"""Choose actions by a learned policy: draw them, or take the most probable ones."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import numpy as np
import pandas as pd

from drcrm.cli.outputs import require_apart
from drcrm.errors import InputError, prefix_errors
from drcrm.files import atomic, is_stream
from drcrm.logs.encoding.columns import escape_formula
from drcrm.logs.mapping import as_mapping, import_extra
from drcrm.logs.policy_file import StoredPolicy, read_policy
from drcrm.logs.readers import log_files as readers
from drcrm.policies.exponential import LinearPolicy
from drcrm.progress import show_progress
from drcrm.reports.log_report.formatting import format_imputed

FORMATS = ".csv", ".parquet"
PROPENSITY = "propensity"


def run(options: argparse.Namespace) -> None:
    require_apart(options)
    if options.output.suffix not in FORMATS and not is_stream(options.output):
        raise InputError(f"{options.output} is no {' or '.join(FORMATS)} file")
    stored = read_policy(options.policy)
    if PROPENSITY in _names(stored):
        raise InputError(f"{options.policy}: its actions would be in the column of the propensities, {PROPENSITY!r}")
    unseen, missing, uncertain = Counter(), Counter(), Counter()
    with _written(options) as write, show_progress() as tell:
        tell(f"choosing actions for {options.contexts.name}")
        for decisions in _decisions(stored, options, unseen, missing, uncertain):
            write(decisions)
    for remark in _remarks(stored, options, unseen, missing, uncertain):
        print(remark, file=sys.stderr)


def _remarks(
    stored: StoredPolicy, options: argparse.Namespace, unseen: Counter, missing: Counter, uncertain: Counter
) -> Iterator[str]:
    """Yield the warnings for the user, a line for one."""
    if missing:
        yield f"{options.contexts}: imputed missing values: {format_imputed(missing)}"
    for what, rows in unseen.items():
        yield f"{options.contexts}: {what} in {rows} rows, which the policy has not seen"
    escape = _escape(options)
    if escaped := sum(escape(name) != name for name in {*_names(stored), *stored.encoding.names}):
        yield (
            f"{options.output}: {escaped} names begin like a formula of a spreadsheet, so they have an apostrophe in "
            "front; --raw-names writes them without it"
        )
    if uncertain[True]:
        yield (
            "the certificate covers actions drawn from the policy, not --greedy: the policy was not certain of its "
            f"action in {uncertain[True]} of {uncertain.total()} contexts"
        )
    if stored.header.get("kept") == "logging":
        yield "the policy is an imitation of the one that logged: none was shown to be better"


def _decisions(
    stored: StoredPolicy, options: argparse.Namespace, unseen: Counter, missing: Counter, uncertain: Counter
) -> Iterator[pd.DataFrame]:
    """Yield the actions of the contexts and their propensities, some at a time.

    ``unseen`` counts rows with values that are new to the policy, ``missing`` imputed values, and with --greedy
    ``uncertain`` counts contexts by whether the policy was uncertain of its action.
    """
    with prefix_errors(options.policy):
        csv_format = as_mapping(stored.header.get("mapping")).csv_format
    rng = np.random.default_rng(options.seed)
    streams = rng, *rng.spawn(2)
    for X, new, lacking in readers.context_batches(options.contexts, stored.encoding, readers.ROWS, csv_format):
        unseen.update(new)
        missing.update(lacking)
        if options.greedy:
            uncertain.update(_is_uncertain(stored.policy, X).tolist())
        actions, propensity = _drawn(stored.policy, X, options, *streams)
        yield pd.DataFrame(_columns(stored, actions, _escape(options)) | {PROPENSITY: propensity})


def _is_uncertain(policy: LinearPolicy, X) -> np.ndarray:
    """Return of each context whether the policy gives actions other than its most probable one more than 10⁻⁶."""
    return policy.log_prob(X, policy.greedy(X)) < np.log1p(-1e-6)


def _escape(options: argparse.Namespace) -> Callable[[object], object]:
    """Return what is done to names: CSV may be opened by a spreadsheet."""
    return escape_formula if _format(options) == ".csv" and not options.raw_names else lambda name: name


def _drawn(
    policy: LinearPolicy,
    X,
    options: argparse.Namespace,
    own: np.random.Generator,
    chance: np.random.Generator,
    other: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Actions, and the probabilities with which they were chosen: (1 − ε) π(a|x) + ε over the number of actions.

    The policy's actions, which of them are left to chance, and what chance has them be are drawn from a stream each: so
    they are the same, however many contexts there are at once.
    """
    uniform = type(policy)(np.zeros_like(policy.coef), features=policy.features)
    actions = best = policy.greedy(X) if options.greedy else policy.sample(X, own)
    if options.explore:
        explores = chance.random(len(best)) < options.explore
        actions = np.where(explores.reshape(-1, *[1] * (best.ndim - 1)), uniform.sample(X, other), best)
    probability = (
        (actions == best).reshape(len(best), -1).all(axis=1) if options.greedy else np.exp(policy.log_prob(X, actions))
    )
    return actions, (1 - options.explore) * probability + options.explore * np.exp(uniform.log_prob(X, actions))


def _names(stored: StoredPolicy) -> list[str]:
    """The columns of the actions."""
    if stored.encoding.kind == "labels":
        return [*map(str, stored.encoding.names)]
    return [stored.header["mapping"].get("action") or "action"]


def _columns(stored: StoredPolicy, actions: np.ndarray, escape: Callable[[object], object]) -> dict[str, np.ndarray]:
    """The actions by the names that they had in the log, escaped."""
    columns = [escape(name) for name in _names(stored)]
    if stored.encoding.kind == "labels":
        return dict(zip(columns, actions.T, strict=True))
    names = np.array([escape(name) for name in stored.encoding.names])
    return {columns[0]: actions if stored.encoding.kind == "lists" else names[actions]}


def _format(options: argparse.Namespace) -> str:
    """Return the suffix of the format to write: a stream without one gets CSV."""
    return options.output.suffix if options.output.suffix in FORMATS else ".csv"


@contextmanager
def _written(options: argparse.Namespace) -> Iterator[Callable[[pd.DataFrame], None]]:
    """Yield what appends a frame to a file, which is there in the end, whole or not at all."""
    with atomic(options.output) as part, ExitStack() as closing:
        if _format(options) == ".csv":
            stream = closing.enter_context(open(part, "w", newline="", encoding="utf-8"))
            yield lambda frame: frame.to_csv(stream, index=False, header=not stream.tell())
            return
        arrow, parquet = import_extra("pyarrow"), import_extra("pyarrow.parquet")
        writers = []

        def write(frame: pd.DataFrame) -> None:
            table = arrow.Table.from_pandas(frame, preserve_index=False)
            if not writers:
                writers.append(closing.enter_context(parquet.ParquetWriter(part, table.schema)))
            writers[0].write_table(table)

        yield write
