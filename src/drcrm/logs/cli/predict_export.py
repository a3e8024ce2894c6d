"""Commands that put a policy to use: ``predict`` chooses actions, and ``export`` writes it for other systems."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from drcrm.arrays.formats import format_imputed
from drcrm.errors import InputError, import_extra, prefix_errors
from drcrm.files import atomic, is_stream, require_separate_outputs, write_text
from drcrm.logs import read_log
from drcrm.logs.encoding.columns import as_text, escape_formula
from drcrm.logs.encoding.listed_tables import ListedTableEncoding
from drcrm.logs.encoding.tables import TableEncoding
from drcrm.logs.policy_file import StoredPolicy, read_policy
from drcrm.logs.serving.served_policy import load_policy
from drcrm.progress import show_progress

FORMATS = ".csv", ".parquet"
PROPENSITY = "propensity"
Counts = dict[str, Counter]
CERTAIN = 0.99  # a log whose propensities mostly exceed it has little information about other actions
UNCERTAIN = 1e-6  # the policy is certain of an action if the other actions together have at most this probability


@dataclass(frozen=True)
class Options:
    """The options of ``predict``."""

    policy: Path
    contexts: Any
    output: Path
    keep: list[str]
    greedy: bool
    escape_formulas: bool
    explore: float | None
    seed: int

    @property
    def is_parquet(self) -> bool:
        """Whether the output is Parquet, and not CSV."""
        return self.output.suffix.lower() == ".parquet"

    def write_name(self, name: object) -> object:
        """Return a name or a text as the output has it: CSV may escape what looks like a formula."""
        return escape_formula(name) if self.escape_formulas and not self.is_parquet else name


def export(policy: Path, output: Path, format: str) -> None:
    """Write a policy for other systems."""
    require_separate_outputs(policy=policy, output=output)
    served = load_policy(policy)
    with prefix_errors(policy):
        content = served.export(format)
    write_text(output, content + "\n")


def predict(**settings: Any) -> None:
    """Draw actions from a learned policy, or choose the most probable ones."""
    require_separate_outputs(**settings)
    options = Options(**settings)
    if options.output.suffix.lower() not in FORMATS and not is_stream(options.output):
        raise InputError(f"--output must be a {' or '.join(FORMATS)} file, got {options.output}")
    stored = read_policy(options.policy)
    if isinstance(stored.encoding, ListedTableEncoding):
        options = replace(options, keep=list(dict.fromkeys([stored.encoding.list_id, *options.keep])))
    _require_new_columns(stored, options)
    counts: Counts = {name: Counter() for name in ("unseen", "missing", "uncertain", "certain")}
    with _open_output(options) as write, show_progress() as report:
        report(f"choosing actions for {read_log.name_of(options.contexts)}")
        for decisions in _choose_actions(stored, options, counts):
            write(decisions)
    for remark in _remarks(stored, options, counts):
        print(remark, file=sys.stderr)


def _require_new_columns(stored: StoredPolicy, options: Options) -> None:
    """Raise InputError if two columns of the output would have the same name, or if the log has no columns to keep."""
    written = [*_action_columns(stored), PROPENSITY]
    if PROPENSITY in written[:-1]:
        raise InputError(
            f"{options.policy}: its actions are in a column {PROPENSITY!r}, which the output needs for the "
            "propensities; rename the column and learn again"
        )
    for name in options.keep:
        if name in written or options.keep.count(name) > 1:
            raise InputError(f"--keep {name}: the output has a column {name!r} already")
    if options.keep and not isinstance(stored.encoding, TableEncoding | ListedTableEncoding):
        raise InputError(f"--keep needs a log in CSV or Parquet, but {options.policy} was learned from another format")


def _remarks(stored: StoredPolicy, options: Options, counts: Counts) -> Iterator[str]:
    """Yield lines that warn the user about the written actions."""
    if missing := counts["missing"]:
        yield f"{read_log.name_of(options.contexts)}: imputed missing values: {format_imputed(missing)}"
    for reason, rows in counts["unseen"].items():
        yield f"{read_log.name_of(options.contexts)}: {reason} in {rows} rows; the policy has not seen it"
    if uncertain := counts["uncertain"][True]:
        yield (
            "the certificate covers actions drawn from the policy, not --greedy: the policy was not certain of its "
            f"action in {uncertain} of {counts['uncertain'].total()} contexts"
        )
    certified, share = stored.policy.explore, options.explore
    if not options.greedy and share not in (None, certified):
        yield (
            f"the certificate covers the policy's own share of uniform actions, {certified:g}, not --explore {share:g}"
        )
    if (certain := counts["certain"][True]) > counts["certain"].total() / 2:
        yield (
            f"{certain} of {counts['certain'].total()} propensities exceed {CERTAIN:g}: this log will say little about "
            "other actions; --explore 0.05 draws 5 % of the actions uniformly"
        )
    if stored.header.get("kept") == "logging":
        yield "the policy is an estimate of the logging policy: no candidate was shown to be better"


def _choose_actions(stored: StoredPolicy, options: Options, counts: Counts) -> Iterator[pd.DataFrame]:
    """Yield the actions and their propensities, one chunk of contexts at a time.

    Increase the counts of four kinds: rows with values that the policy has not seen, imputed values by feature,
    contexts by whether their propensity exceeds ``CERTAIN``, and, with --greedy, contexts by whether the policy was
    uncertain of its action.
    """
    with prefix_errors(options.policy):
        mapping = stored.mapping
    rng, write_column = np.random.default_rng(options.seed), _column_writer(options)
    default = 0.0 if options.greedy else stored.policy.explore
    policy = stored.policy.with_exploration(default if options.explore is None else options.explore)
    batches = read_log.context_batches(options.contexts, stored.encoding, read_log.ROWS, mapping, options.keep)
    for X, unseen, missing, kept in batches:
        counts["unseen"].update(unseen)
        counts["missing"].update(missing)
        if options.greedy:
            log_prob = policy.with_exploration(0.0).log_prob(X, policy.greedy(X))
            counts["uncertain"].update((log_prob < np.log1p(-UNCERTAIN)).tolist())
        actions, propensity = policy.draw(X, rng, options.greedy)
        counts["certain"].update((propensity > CERTAIN).tolist())
        if kept is not None:
            _, bound = policy.actions.bind(X)
            kept = kept.take(bound.feature_rows(actions, np.arange(len(actions))))
        columns = {options.write_name(name): write_column(name, kept[name]) for name in options.keep}
        yield pd.DataFrame(columns | _name_actions(stored, actions, options) | {PROPENSITY: propensity})


def _action_columns(stored: StoredPolicy) -> list[str]:
    """Return the names of the columns of the actions."""
    column = stored.mapping.action or "action"
    return stored.policy.actions.name_columns(stored.encoding.names, column)


def _name_actions(stored: StoredPolicy, actions: np.ndarray, options: Options) -> dict[object, np.ndarray]:
    """Return the columns to write, by name. Actions have the names that they have in the log."""
    values = stored.policy.actions.named(actions, [*map(options.write_name, stored.encoding.names)])
    return dict(zip(map(options.write_name, _action_columns(stored)), np.atleast_2d(values.T), strict=True))


def _column_writer(options: Options) -> Callable[[str, Any], pd.Series]:
    """Return a function that maps a column to keep, in Arrow, to the column to write.

    Parquet has the column's type, or the joint type of the files; CSV has the text of each value.
    """
    arrow, types = import_extra("pyarrow"), {}
    if options.keep and options.is_parquet:
        with prefix_errors("--keep"):
            types = read_log.kept_types(options.contexts, options.keep)

    def write(name: str, column: Any) -> pd.Series:
        try:
            if options.is_parquet:
                return pd.Series(pd.arrays.ArrowExtensionArray(column.cast(types.get(name, column.type))))
            if arrow.types.is_floating(column.type):
                return column.to_pandas()
            values = column.to_pylist()
        except (ValueError, OverflowError) as error:  # such as a year after 9999, or an integer as float
            raise InputError(f"--keep {name}: {error}") from None
        texts = [options.write_name(as_text(value) if isinstance(value, bytes) else value) for value in values]
        return pd.Series(texts, dtype=object)

    return write


@contextmanager
def _open_output(options: Options) -> Iterator[Callable[[pd.DataFrame], None]]:
    """Yield a function that appends a frame to the output file. After an error, no incomplete file remains."""
    with atomic(options.output) as part, ExitStack() as stack:
        if not options.is_parquet:
            stream = stack.enter_context(open(part, "w", newline="", encoding="utf-8"))
            yield lambda frame: frame.to_csv(stream, index=False, header=not stream.tell())
            return
        arrow, parquet = import_extra("pyarrow"), import_extra("pyarrow.parquet")
        writers: list[Any] = []

        def write(frame: pd.DataFrame) -> None:
            table = arrow.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata()
            if not writers:
                writers.append(stack.enter_context(parquet.ParquetWriter(part, table.schema)))
            writers[0].write_table(table)

        yield write
