"""The public bandit log: core's, made of users' files too."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from drcrm.actions.listed_actions import ListedActions
from drcrm.arrays.array_collector import ArrayCollector
from drcrm.data.bandit_log import BanditLog
from drcrm.data.executors import run_in_order
from drcrm.data.listeners import report_progress
from drcrm.logs.encoding.registry import Encoding
from drcrm.logs.propensities import imitated
from drcrm.logs.readers.log_files import read_records
from drcrm.logs.readers.obp import records_of_feedback
from drcrm.logs.readers.table_records import records_of_frame
from drcrm.logs.records import Records


def log_of_frame(frame, mapping) -> BanditLog:
    """Return the log of a table's rows; see :meth:`BanditLog.from_frame`."""
    return log_of(records_of_frame(frame, mapping))


def log_of_feedback(feedback) -> BanditLog:
    """Return the log of OBP's dictionary; see :meth:`BanditLog.from_obp`."""
    return log_of(records_of_feedback(feedback))


def log_of(records: Records, encoding: Encoding | None = None, propensity: np.ndarray | None = None) -> BanditLog:
    """Return the log of records, row by row.

    Parameters
    ----------
    records : Records
    encoding : Encoding, optional
        By default fitted to these rows.
    propensity : array (n,), optional
        Estimated ones in place of those logged; by default, where none are logged, :func:`imitated`.
    """
    if propensity is None and records.propensity is None:
        propensity = imitated(records)
    encoding = records.fit() if encoding is None else encoding
    log = encoded(records if propensity is None else replace(records, propensity=propensity), encoding)
    return log.replace(imitated_propensities=propensity is not None)


def encoded(
    records: Records, encoding: Encoding, rows: np.ndarray | None = None, path: Path | None = None
) -> BanditLog:
    """Return the log of rows with propensities, encoded block by block.

    Parameters
    ----------
    records : Records
    encoding : Encoding
    rows : bool array (n,), optional
        Which rows; by default all.
    path : Path, optional
        Where the names of memory-mapped files begin; by default the log is in memory.
    """
    collector, sizes, n = ArrayCollector(path), [], 0
    try:
        for log in run_in_order(partial(_block_log, block, encoding) for block in records.blocks_of(rows)):
            arrays = {name: getattr(log, name) for name in ("X", "Y", "propensity", "cost", "count")}
            collector.append(arrays | {"context": log.context + n})
            sizes += [log.actions.count_choices()] if isinstance(log.actions, ListedActions) else []
            n += log.n_contexts
            report_progress(len(log.Y), "rows", records.size)
        changes = collector.finish()
    finally:
        collector.close()
    if sizes:
        changes["actions"] = ListedActions(np.append(0, np.cumsum(np.concatenate(sizes))))
    return log.replace(encoding=encoding, skipped=records.skipped, imitated_propensities=records.is_imitated, **changes)


def _block_log(records: Records, encoding: Encoding) -> BanditLog:
    return BanditLog(**records.arrays(encoding))


def read_log(path, mapping=None) -> BanditLog:
    """Return the log of a file: CSV, Parquet, npz, dsjson, Vowpal Wabbit's text, or the Open Bandit Dataset's csv.

    Parameters
    ----------
    path : str or Path
    mapping : dict, path of YAML or JSON, or LogMapping, optional
        What the columns of a table are: see :meth:`BanditLog.from_frame`.

    Raises
    ------
    InputError
        What is wrong with the file or the mapping, in one line that begins with its path.
    """
    return log_of(read_records(path, mapping))
