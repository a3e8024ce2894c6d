"""The public bandit log: core's, made of users' files too."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from ..core import log as core
from .encoding import Encoding
from .readers import read_records, records_of_frame
from .records import Records


class BanditLog(core.BanditLog):
    __doc__ = f"""{core.BanditLog.__doc__}
    Attributes
    ----------
    encoding : Encoding or None
        What made X of a file's columns.
    skipped : mapping of int
        How many rows of a file were not read, by reason.
    imitated_propensities : bool
        Whether p are of an imitation of π0, not logged.
    """

    encoding: Encoding | None = None
    skipped: Mapping[str, int] = MappingProxyType({})
    imitated_propensities: bool = False

    @classmethod
    def from_frame(cls, frame, mapping) -> BanditLog:
        """Return the log of a table's rows.

        Parameters
        ----------
        frame : pandas.DataFrame
        mapping : dict, path of YAML or JSON, or LogMapping
            What the columns are: ``{"action": "item", "propensity": "p", "reward": "click", "features": {"numeric":
            ["age"], "categorical": ["city"]}}``; a reward is negated.

        Raises
        ------
        InputError
            A column that is missing, or a value that is none of what it should be, with its row, from 0.
        """
        return log_of(records_of_frame(frame, mapping))


def log_of(records: Records, encoding: Encoding | None = None, propensity: np.ndarray | None = None) -> BanditLog:
    """Return the log of records, row by row.

    Parameters
    ----------
    records : Records
    encoding : Encoding, optional
        By default fitted to these rows.
    propensity : array (n,), optional
        Of an imitation of π0, in place of those logged.
    """
    encoding = records.fit() if encoding is None else encoding
    log = BanditLog(**records.arrays(encoding, propensity))
    changes = {"encoding": encoding, "skipped": records.skipped, "imitated_propensities": propensity is not None}
    return log.derived(**changes)


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
