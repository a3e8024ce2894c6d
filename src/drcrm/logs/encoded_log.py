"""Build bandit logs from records: encode the features block by block, and estimate missing propensities."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from drcrm.actions.listed_actions import ListedActions
from drcrm.arrays.array_collector import ArrayCollector
from drcrm.data.bandit_log import BanditLog
from drcrm.data.executors import run_in_order
from drcrm.data.listeners import report_progress
from drcrm.logs.encoding.base import Encoding
from drcrm.logs.propensities.estimated import estimate_propensities
from drcrm.logs.readers.log_files import Source, read_records
from drcrm.logs.records import Records


def read_log(path: Source | pd.DataFrame | Mapping, mapping: Any = None) -> BanditLog:
    """Return the log in a file: CSV, Parquet, npz, dsjson, Vowpal Wabbit's text, or the Open Bandit Dataset's csv.

    Parameters
    ----------
    path : str, Path or sequence of them; DataFrame; or mapping
        Log file; or files and folders of one format other than npz; or a table in memory; or a dictionary of the Open
        Bandit Pipeline, see :meth:`BanditLog.from_obp`.
    mapping : dict, path of YAML or JSON, or LogMapping, optional
        Meaning of the columns of CSV and Parquet: see :meth:`BanditLog.from_frame`. Other formats need none.

    Returns
    -------
    BanditLog
        Log with encoded features. With ``propensity_model`` in the mapping, the propensities are estimated.

    Raises
    ------
    InputError
        If the file or the mapping is invalid. The message is one line that begins with the path of the invalid file.
    """
    return log_of(read_records(path, mapping))


def log_of(records: Records) -> BanditLog:
    """Return the log of records. Fit its encoding to them, and estimate propensities that were not logged."""
    if records.propensity is None:
        records = replace(records, propensity=estimate_propensities(records))
    return encode(records, records.fit())


def encode(records: Records, encoding: Encoding, rows: np.ndarray | None = None, path: Path | None = None) -> BanditLog:
    """Return the log of rows with propensities, encoded block by block.

    Parameters
    ----------
    records : Records
    encoding : Encoding
    rows : bool array (n,), optional
        Selected rows; by default all.
    path : Path, optional
        Prefix of the names of memory-mapped files; by default the log is in memory.
    """
    sizes, n_contexts = [], 0
    with closing(ArrayCollector(path)) as collector:
        for log in run_in_order(partial(block.encoded, encoding) for block in records.blocks_of(rows)):
            arrays = {name: getattr(log, name) for name in ("X", "Y", "propensity", "cost", "count")}
            collector.append(arrays | {"context": log.context + n_contexts})
            sizes += [] if log.actions.are_shared else [log.actions.count_choices()]
            n_contexts += log.n_contexts
            report_progress(len(log.Y), "rows", records.size)
        changes: dict[Any, Any] = collector.finish()
    if sizes:
        changes["actions"] = ListedActions(np.append(0, np.cumsum(np.concatenate(sizes))))
    if isinstance(changes["X"], np.ndarray):
        changes["X"].setflags(write=False)  # then feature maps compute their features once
    return log.replace(encoding=encoding, skipped=records.skipped, imitated_propensities=records.is_imitated, **changes)
