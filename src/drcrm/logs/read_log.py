"""Read the file of a log as a bandit log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from drcrm.data.bandit_log import BanditLog
from drcrm.logs.encoded_log import encode, fit_encoding
from drcrm.logs.propensities.estimated import estimate_propensities
from drcrm.logs.readers.log_files import Source, read_raw_log


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
    log = read_raw_log(path, mapping)
    if log.propensity is None:
        log = log.replace(propensity=estimate_propensities(log))
    return encode(log, fit_encoding(log))
