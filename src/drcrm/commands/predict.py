"""Choose actions by a learned policy: drawn from it, or its most probable ones; perhaps a share of them at random.

Reads   POLICY: the file of a learned policy; CONTEXTS: a file, or folder, as the log was, of which the features
        are read alone, a chunk at a time.
Writes  --output: CSV or Parquet with a row for each context: the action, in the column that it had in the log and under
        its own name (of label vectors a column for each label, of lists the place in the list, from 0), and its
        propensity, by which what comes of it can be learned from again.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pandas as pd

from ..core.policies import LinearPolicy
from ..errors import InputError, located
from ..files import atomic
from ..logs import chunks as reading
from ..logs.mapping import as_mapping, import_extra
from ..logs.policy_file import StoredPolicy, read_policy
from ..logs.readers import context_chunks
from ..report.log_words import imputed_in
from .arguments import add_seed, require_apart, share

FORMATS = ".csv", ".parquet"
PROPENSITY = "propensity"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("policy", metavar="POLICY", type=Path, help="npz from learn")
    parser.add_argument("contexts", metavar="CONTEXTS", type=Path, help="a file of the log's format")
    parser.add_argument("--output", required=True, type=Path, metavar="FILE", help="CSV or Parquet to write")
    parser.add_argument("--greedy", action="store_true", help="take the most probable actions")
    what = "leave this share of the decisions to chance, so that what is logged can be learned from again (0)"
    parser.add_argument("--explore", type=share, default=0.0, metavar="SHARE", help=what)
    add_seed(parser, "of the actions that are drawn")


def run(options: argparse.Namespace) -> None:
    require_apart(options)
    if options.output.suffix not in FORMATS:
        raise InputError(f"{options.output} is no {' or '.join(FORMATS)} file")
    stored = read_policy(options.policy)
    if PROPENSITY in _names(stored):
        raise InputError(f"{options.policy}: its actions would be in the column of the propensities, {PROPENSITY!r}")
    unseen, missing = Counter(), Counter()
    with _written(options.output) as write:
        for decisions in _decisions(stored, options, unseen, missing):
            write(decisions)
    if missing:
        print(f"{options.contexts}: imputed missing values: {imputed_in(missing)}", file=sys.stderr)
    for what, rows in unseen.items():
        print(f"{options.contexts}: {what} in {rows} rows, which the policy has not seen", file=sys.stderr)
    if stored.header.get("kept") == "logging":
        print("the policy is an imitation of the one that logged: none was shown to be better", file=sys.stderr)


def _decisions(
    stored: StoredPolicy, options: argparse.Namespace, unseen: Counter, missing: Counter
) -> Iterator[pd.DataFrame]:
    """The actions of the contexts, and their propensities, some at a time; new and missing values are counted."""
    with located(options.policy):
        csv_format = as_mapping(stored.header.get("mapping")).csv_format
    rng = np.random.default_rng(options.seed)
    streams = rng, *rng.spawn(2)
    for X, new, lacking in context_chunks(options.contexts, stored.encoding, reading.ROWS, csv_format):
        unseen.update(new)
        missing.update(lacking)
        actions, propensity = _drawn(stored.policy, X, options, *streams)
        yield pd.DataFrame(_columns(stored, actions) | {PROPENSITY: propensity})


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


def _columns(stored: StoredPolicy, actions: np.ndarray) -> dict[str, np.ndarray]:
    """The actions by the names that they had in the log."""
    if stored.encoding.kind == "labels":
        return dict(zip(_names(stored), actions.T, strict=True))
    [column] = _names(stored)
    return {column: actions if stored.encoding.kind == "lists" else np.array(stored.encoding.names)[actions]}


@contextmanager
def _written(path: Path) -> Iterator[Callable[[pd.DataFrame], None]]:
    """Give what appends a frame to a file, which is there in the end, whole or not at all."""
    with atomic(path) as part, ExitStack() as closing:
        if path.suffix == ".csv":
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
