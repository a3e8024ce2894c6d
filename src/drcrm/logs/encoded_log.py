"""Read and encode logs block by block, and estimate missing propensities."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from drcrm.arrays.mapped_arrays import as_mapped, write_blocks
from drcrm.data.bandit_log import BanditLog
from drcrm.data.executors import report_progress, run_in_order
from drcrm.errors import InputError
from drcrm.logs.encoding.base import Encoding
from drcrm.logs.encoding.columns import reject_values

BLOCK_ROWS, BLOCK_BYTES = 2**17, 2**24  # largest block of rows that is processed at once


def fit_encoding(log: BanditLog, rows: np.ndarray | None = None) -> Encoding:
    """Return the encoding fitted to selected rows of a reader's log, by default to all; it knows all actions' names.

    Parameters
    ----------
    log : BanditLog
        Log whose X is a table of features.
    rows : bool or int array, optional
        Mask or numbers of the rows.
    """
    is_fitted, actions, description = None, log.actions, log.description
    if rows is not None:
        is_fitted = np.zeros(log.n_contexts, dtype=bool)
        is_fitted[log.context[rows]] = True
        is_fitted = actions.repeat(is_fitted)
    return description.encoder(log.X, actions.kind, description.names, is_fitted, actions.starts)


def encode(log: BanditLog, encoding: Encoding, rows: np.ndarray | None = None, path: Path | None = None) -> BanditLog:
    """Return selected rows of a reader's log with encoded features.

    Parameters
    ----------
    log : BanditLog
        Log whose X is a table of features.
    encoding : Encoding
    rows : bool array (n,), optional
        Selected rows; by default all.
    path : Path, optional
        Prefix of the names of memory-mapped files for X; by default the log is in memory.
    """
    if log.propensity is None:
        raise InputError("the file has no propensities; add propensity_model: auto to the mapping")
    if not log.actions.is_like(encoding.actions):
        raise InputError(f"the log has {log.actions.plural}, but its encoding is for {encoding.actions.plural}")
    blocks, cost = blocks_of(log, rows), log.cost
    log = log.replace(X=np.empty((log.X.size, 0)))
    log = _with_names_of(log if rows is None else log.take(rows), encoding)

    def encode_block(block: BanditLog) -> Any:
        report_progress(len(block.Y), "rows", len(log.Y))
        return encoding.encode(block.X)

    X = write_blocks(path, run_in_order(partial(encode_block, block) for _, block in blocks))
    if isinstance(X, np.ndarray):
        X.setflags(write=False)  # then feature maps compute their features once
    names = () if path is None else ("Y", "propensity", "cost", "context", "count")
    arrays = {name: as_mapped(getattr(log, name), cost) for name in names}
    return log.replace(X=X, encoding=encoding, **arrays)


def blocks_of(log: BanditLog, rows: np.ndarray | None = None) -> Iterator[tuple[slice, BanditLog]]:
    """Yield blocks of consecutive rows with their places; a single block if contexts may have several rows.

    Parameters
    ----------
    log : BanditLog
        Log whose X is a table of features.
    rows : bool array (n,), optional
        Selected rows. Blocks have only these rows, and blocks without any are left out.
    """
    n = len(log.Y)
    step = max(min(BLOCK_ROWS, BLOCK_BYTES * n // max(log.X.nbytes, 1)), 1)
    is_whole = n <= step or not log.is_paired
    for start in range(0, n, n if is_whole else step):
        place = slice(start, n if is_whole else min(start + step, n))
        block = log if is_whole else log.take(place)
        if rows is None or rows[place].all():
            yield place, block
        elif rows[place].any():
            yield place, block.take(rows[place])


def _with_names_of(log: BanditLog, encoding: Encoding) -> BanditLog:
    """Return the log with actions as places among the names of an encoding."""
    description, names = log.description, encoding.names
    if description.names == names:
        return log
    if not log.actions.are_choices:
        raise InputError(f"the labels are {_listed(description.names)}, expected {_listed(names)}")
    place = {str(name): at for at, name in enumerate(names)}
    action = np.array([place.get(str(name), -1) for name in description.names], dtype=np.intp)[log.Y]
    if (action < 0).any():
        logged, label = np.array(description.names, dtype=object)[log.Y], description.mapping.label_of("action")
        reject_values(action < 0, logged, label, f"one of {_listed(names)}", log.column("number"))
    return log.replace(Y=action, actions=encoding.actions, description=replace(description, names=names))


def _listed(names: list, most: int = 8) -> str:
    first = ", ".join(repr(name) for name in names[:most])
    return f"{first}, … ({len(names)})" if len(names) > most else first
