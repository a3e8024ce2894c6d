"""Marks of identifiers, which are equal for equal ids in all files of a log, whatever the types of their columns."""

from __future__ import annotations

import numpy as np
import pandas as pd

from drcrm.logs.encoding.columns import MISSING, NUMBER, categories, is_missing, reject_rows
from drcrm.rows.row_hashes import hash_texts

EXACT = 2**53  # floats represent all integers below
LAST = np.int64(2**31 - 1)  # the bits of a mark in which integers differ that are the same float
ADVICE = "an integer or a text: a float represents several integers above 2⁵³"


def id_marks(column: pd.Series, label: str, rows: np.ndarray) -> np.ndarray:
    """Return a mark of each row's id, a hash, (n,); InputError for a missing id, and for a rounded integer."""
    reject_rows(is_missing(column), column, label, rows, "an id in every row")
    reject_rounded(column, label, rows)
    codes, values = categories(column, label)
    return hash_texts(values)[codes]


def group_marks(column: pd.Series, name: str) -> np.ndarray:
    """Return a mark of each row's group, (n,); −1 for a row without a group.

    A float beyond 2⁵³ stands for several integers. The last 31 bits of its mark are 0, and its other bits are the same
    as those of all these integers: see :func:`number_marks`.
    """
    codes, values = categories(column, name)
    rounded = hash_texts([_rounded(value) for value in values]) >> np.uint64(1)
    marks = rounded.astype(np.int64) & ~LAST | hash_texts(values).astype(np.int64) & LAST
    marks = np.where([value == MISSING for value in values], -1, marks)[codes]
    return np.where(_is_rounded(column) & (marks >= 0), marks & ~LAST, marks)


def number_marks(marks: np.ndarray) -> np.ndarray:
    """Return the number of each row's group, (n,). A row without a group, marked −1, becomes a separate group.

    If an id is a float beyond 2⁵³, all integers that it may stand for are one group with it.
    """
    if ((marks >= 0) & (marks & LAST == 0)).any():
        marks = marks | LAST
    codes, distinct = pd.factorize(marks)
    return np.where(marks < 0, len(distinct) + np.arange(len(codes)), codes)


def reject_rounded(column: pd.Series, label: str, rows: np.ndarray) -> None:
    """Raise InputError if an identifier is a float beyond 2⁵³, because other identifiers may be the same float."""
    reject_rows(_is_rounded(column), column, label, rows, ADVICE)


def _is_rounded(column: pd.Series) -> np.ndarray:
    """Return which values are floats beyond 2⁵³, or their texts, (n,)."""
    if column.dtype.kind in "biuMm":
        return np.zeros(len(column), dtype=bool)
    codes, texts = pd.factorize(column.astype(object).map(str))
    return np.array([_rounded(text) != text and not text.lstrip("+-").isdigit() for text in texts], dtype=bool)[codes]


def _rounded(text: str) -> str:
    """Return an integer beyond 2⁵³ as the digits of its float; another text unchanged."""
    number = float(text) if NUMBER.fullmatch(text) else 0.0
    return f"{number:.0f}" if abs(number) >= EXACT else text
