"""Logs larger than memory: read and encoded in a folder, which is removed when they were learned from."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import InputError, located
from ..logs.chunk_store import ChunkStore
from ..logs.chunks import TABLES, bytes_in_memory, format_of
from ..logs.log import log_of
from ..logs.mapping import LogMapping
from ..logs.policy_file import digest
from ..logs.stored_log import imitated_store, split_log
from ..progress import Progress
from .opening import About, Opened, Split, require_range, split

LARGE = 2**29  # bytes of a log's numbers from which it is stored unasked


def add_store(parser: argparse.ArgumentParser) -> None:
    what = "encode the log in this folder, not in memory; by default beside the output, where the log is large"
    parser.add_argument("--store", type=Path, metavar="FOLDER", help=what)
    parser.add_argument("--float32", action="store_true", help="store features in 4 bytes each, where they are stored")


@contextmanager
def split_of(options: argparse.Namespace, mapping: LogMapping, tell: Progress) -> Iterator[Split]:
    """Give the log of a command, of which a part is held out: in memory, or where it is large, stored.

    Its folder is removed when all within is done, and where the log is none; else it stays, and the same command goes
    on with it.
    """
    folder = _folder(options, mapping)
    if folder is None:
        yield split(options.log, mapping, options.seed, tell)
        return
    store = ChunkStore(folder, options.log, mapping)
    with store.held():
        tell(f"reading {options.log.name}")
        store.fill(tell.read)
        yield _stored(store, options, tell)
        store.remove()


def _folder(options: argparse.Namespace, mapping: LogMapping) -> Path | None:
    """Where a log is stored, if it is."""
    with located(options.log):
        is_table = format_of(options.log) in TABLES
        if options.store and not is_table:
            raise InputError("is to be stored, expected CSV or Parquet")
    if options.store or not (is_table and bytes_in_memory(options.log, mapping) > LARGE):
        return options.store
    return options.output.with_name(f"{options.output.name}.store")


def _stored(store: ChunkStore, options: argparse.Namespace, tell: Progress) -> Split:
    first = store[0]
    require_range(options.log, first.mapping, first.reward, *store.costs)
    with located(options.log):
        propensity = None
        if first.propensity is None:
            tell("imitating the logging policy")
            propensity = imitated_store(store)
        tell("encoding")
        dtype = "float32" if options.float32 else "float64"
        found = split_log(store, options.seed, dtype, tell.read, propensity)
    records, known = found.heldout, digest(options.log)
    about = About(
        options.log,
        known,
        records.format,
        records.mapping,
        records.reward,
        found.size,
        found.size,
        str(found.train.actions),
        found.encoding,
        records.skipped,
        found.train.imitated_propensities,
    )
    heldout = log_of(records, found.encoding, found.propensity)
    return Split(about, found.train, Opened(options.log, known, records, found.propensity, heldout))
