"""Marks of identifiers, which are equal for equal ids in all files of a log, whatever the types of their columns."""

from __future__ import annotations

import numpy as np
import pandas as pd

from drcrm.logs.encoding.columns import MISSING, NUMBER, categories, is_missing, reject_rows
from drcrm.rows.row_hashes import hash_texts

EXACT = 2**53  # floats represent all integers below
NONE = 2**64 - 1  # mark of a missing id
ADVICE = "an integer or a text: a float represents several integers above 2⁵³"


def id_marks(column: pd.Series, label: str, optional: bool = False) -> np.ndarray:
    """Return a mark of each row's id, a hash, (n,); InputError for a rounded integer, and for a missing id.

    If ``optional``, the mark of a missing id is ``NONE``.
    """
    if not optional:
        reject_rows(is_missing(column), column, label, "an id in every row")
    reject_rounded(column, label)
    codes, values = categories(column, label)
    marks = hash_texts(values)
    marks[[value == MISSING for value in values]] = NONE
    return marks[codes]


def number_marks(marks: np.ndarray) -> np.ndarray:
    """Return the number of each row's group, (n,). A row without a group becomes a separate group."""
    codes, distinct = pd.factorize(marks)
    return np.where(marks == NONE, len(distinct) + np.arange(len(codes)), codes)


def reject_rounded(column: pd.Series, label: str) -> None:
    """Raise InputError if an identifier is a float beyond 2⁵³, because other identifiers may be the same float."""
    if column.dtype.kind in "biuMm":
        return
    codes, texts = pd.factorize(column.astype(object).map(str))
    is_rounded = [
        NUMBER.fullmatch(text) and abs(float(text)) >= EXACT and not text.lstrip("+-").isdigit() for text in texts
    ]
    reject_rows(np.array(is_rounded, dtype=bool)[codes], column, label, ADVICE)
