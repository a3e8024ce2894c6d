"""Logs larger than memory: read and encoded in a folder, which is removed when they were learned from, or judged by."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from ..errors import InputError, located
from ..files import is_stream
from ..logs.chunk_store import ChunkStore
from ..logs.chunks import bytes_in_memory, format_of
from ..logs.encoding import Encoding
from ..logs.log import log_of
from ..logs.mapping import LogMapping
from ..logs.policy_file import digest
from ..logs.split import held_out
from ..logs.stored_log import Select, imitated_store, split_log, whole_log
from ..progress import Progress
from .opening import About, Opened, Split, opened, require_range, split

LARGE = 2**29  # bytes of a log's numbers from which it is stored unasked


@contextmanager
def split_of(options: argparse.Namespace, mapping: LogMapping, tell: Progress) -> Iterator[Split]:
    """Give the log of a command, of which a part is held out: in memory, or where it is large, stored.

    Its folder is removed when all within is done, and where the log is none; else it stays, and the same command goes
    on with it.
    """
    with ExitStack() as closing:
        folder = _folder(options, mapping, closing)
        if folder is None:
            yield split(options.log, mapping, options.seed, tell)
            return
        store = ChunkStore(folder, options.log, mapping)
        closing.enter_context(store.held())
        tell(f"reading {options.log.name}")
        store.fill()
        yield _stored(store, options, tell)
        store.remove()


def _folder(options: argparse.Namespace, mapping: LogMapping, closing: ExitStack) -> Path | None:
    """Return where a log is stored, if it is; if the output is a stream, a folder beside the log that is removed."""
    if options.store and not _is_storable(options.log):
        raise InputError(f"{options.log}: is npz, which is not stored, expected a file of another format")
    if options.store or not _is_large(options.log, mapping):
        return options.store
    if is_stream(options.output):
        return Path(closing.enter_context(_folder_beside(options.log)))
    return options.output.with_name(f"{options.output.name}.store")


def _is_storable(path: Path) -> bool:
    with located(path):
        return format_of(path) != "npz"


def _is_large(path: Path, mapping: LogMapping) -> bool:
    return _is_storable(path) and bytes_in_memory(path, mapping) > LARGE


@contextmanager
def rows_that_judge(
    path: Path,
    mapping: LogMapping,
    tell: Progress,
    encoding: Encoding | None = None,
    select: Select | None = None,
) -> Iterator[Opened]:
    """Give the rows of a log that judge: in memory, or the features of a large log on disk.

    A large log is read into a folder, which is removed in the end, whatever happens.

    Parameters
    ----------
    path : Path
    mapping : LogMapping
    tell : Progress
    encoding : Encoding, optional
        Of a policy; by default it is fitted to all rows.
    select : callable, optional
        The checks of all rows, and a function from a seed to the rows that it holds out ↦ the rows that a policy was
        learned from. They do not judge; without any, all rows do.
    """
    if not _is_large(path, mapping):
        part = opened(path, mapping, tell, lambda records: records.fit() if encoding is None else encoding)
        known = None if select is None else select(part.checks, partial(held_out, part.records))
        if known is not None and known.training.any():
            part = part.part(~known.training)
        unseen = {} if encoding is None else encoding.unseen(part.records.data)
        yield replace(part, unseen=unseen, recognised=known)
        return
    with _folder_beside(path) as folder:
        store = ChunkStore(Path(folder), path, mapping)
        tell(f"reading {path.name}")
        store.fill()
        propensity = _imitated(store, path, tell)
        with located(path):
            tell("encoding")
            whole = whole_log(store, propensity, encoding, select)
        yield Opened(
            path,
            digest(path),
            whole.records,
            whole.propensity,
            whole.log,
            whole.checks,
            whole.unseen,
            whole.recognised,
        )


def _folder_beside(path: Path) -> TemporaryDirectory:
    """A folder that is removed in the end: beside a log, where one may be made there."""
    try:
        return TemporaryDirectory(dir=path.absolute().parent, prefix=f".{path.name}.")
    except OSError:
        return TemporaryDirectory(prefix="drcrm-")


def _imitated(store: ChunkStore, path: Path, tell: Progress) -> np.ndarray | None:
    """The propensities of an imitation, where none are logged; InputError where costs are outside of their range."""
    first = store[0]
    require_range(path, first.mapping, first.reward, *store.costs)
    if first.propensity is not None:
        return None
    tell("imitating the logging policy")
    with located(path):
        return imitated_store(store)


def _stored(store: ChunkStore, options: argparse.Namespace, tell: Progress) -> Split:
    propensity = _imitated(store, options.log, tell)
    with located(options.log):
        tell("encoding")
        dtype = "float32" if options.float32 else "float64"
        found = split_log(store, options.seed, dtype, propensity)
    records, known = found.heldout, digest(options.log)
    about = About(
        path=options.log,
        digest=known,
        format=records.format,
        mapping=records.mapping,
        reward=records.reward,
        rows=found.size,
        contexts=found.size,
        kind=str(found.train.actions),
        encoding=found.encoding,
        skipped=records.skipped,
        imitated=found.train.imitated_propensities,
        imputed=records.missing,
    )
    heldout = log_of(records, found.encoding, found.propensity)
    part = Opened(options.log, known, records, found.propensity, heldout, found.checks)
    return Split(about, found.train, part, found.checks.learned(found.held))
