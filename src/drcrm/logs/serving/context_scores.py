"""Scores of a single context, a dict: 20 µs, while ``TableEncoding.contexts`` takes 15 ms; and linear scores as JSON.

``TableEncoding`` defines the encoding; the tests compare both. Values of unusual types are left to it. The JSON is for
applications in other languages: ``policy.schema.json`` describes it, and ``docs/examples/score.mjs`` reads it.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import inf, isfinite
from typing import Any

import numpy as np

from drcrm.errors import InputError
from drcrm.logs.encoding.columns import (
    ISO,
    LARGEST,
    MISSING,
    WEEKDAYS,
    as_iso,
    as_text,
    boolean_numbers,
    hour_of,
    weekday_of,
)
from drcrm.logs.encoding.tables import MISSING_INDICATOR, N_COLUMNS, TableEncoding
from drcrm.logs.policy_file import StoredPolicy
from drcrm.policies.base import MixturePolicy

TIME = re.compile(ISO)
CACHED = 2**14  # texts that each categorical feature remembers
FORMAT, VERSION = "drcrm-linear-policy", 3


class UnusualValue(Exception):
    """A value that only ``TableEncoding`` can read, or reject with a message."""


@dataclass(frozen=True)
class Number:
    """A numeric feature.

    Attributes
    ----------
    name : str
        The key in a context.
    mean, scale : float
    column : int
        The column of X.
    missing_column : int or None
        The column of the indicator of missing values, if there is one.
    booleans : mapping
        The numbers of texts in lower case, such as "true".
    """

    name: str
    mean: float
    scale: float
    column: int
    missing_column: int | None
    booleans: Mapping[str, float]

    @property
    def reason(self) -> str:
        """How :meth:`TableEncoding.unseen` names a value without a column."""
        return f"missing value of {self.name!r}"

    def entry(self, value: Any) -> tuple[int | None, float]:
        """Return the column and the entry of X that a value sets; no column for a missing one without indicator."""
        if isinstance(value, str | bool):
            value = self.booleans.get(str(value).strip().lower(), value)
        if isinstance(value, float) or (type(value) is int and -LARGEST < value < LARGEST):
            scaled = (value - self.mean) / self.scale
            if -inf < scaled < inf:
                return self.column, scaled
            if value == value:
                raise UnusualValue
        elif value is not None:
            raise UnusualValue
        return self.missing_column, 1.0


class Category:
    """A categorical feature.

    Parameters
    ----------
    name : str
        The key in a context.
    text_of : callable
        Return the category of a value as text.
    encoding : TableEncoding
    column : str
        The column of the encoding.
    first : int
        Its first column of X.
    """

    def __init__(self, name: str, text_of: Callable[[Any], str], encoding: TableEncoding, column: str, first: int):
        self._arguments = name, text_of, encoding, column, first
        self.name, self.text_of, self.column, self.first = name, text_of, column, first
        self._find = lru_cache(CACHED)(lambda text: encoding.places_of(column, [text])[0])

    def __reduce__(self) -> tuple[type[Category], tuple]:
        """Pickle the arguments, because a cache cannot be pickled."""
        return Category, self._arguments

    @property
    def reason(self) -> str:
        """How :meth:`TableEncoding.unseen` names a value without a column."""
        return f"new value of {self.column!r}"

    def entry(self, value: Any) -> tuple[int | None, float]:
        """Return the column and the entry of X that a value sets; no column for an unknown value."""
        place, sign = self._find(self.text_of(value))
        return (None if place < 0 else self.first + place), sign


def category_text(value: Any) -> str:
    """Return the text of a category, the empty text if it is missing."""
    if value is None or (isinstance(value, float) and value != value):
        return MISSING
    if not isinstance(value, str | int | float | np.bool_):
        raise UnusualValue
    return as_text(value)


def weekday_text(value: Any) -> str:
    """Return the weekday of a time, a text or a datetime."""
    day, _ = _day_and_clock(value)
    return WEEKDAYS[day.weekday() + 1] if day else MISSING


def hour_text(value: Any) -> str:
    """Return the hour of a time, a text or a datetime; the empty text for a date without time of day."""
    _, clock = _day_and_clock(value)
    return clock[:2] if clock else MISSING


def _day_and_clock(value: Any) -> tuple[datetime.date | None, str | None]:
    if value is None:
        return None, None
    match = TIME.match(text) if isinstance(text := as_iso(value), str) else None
    try:
        day, clock, _ = match.groups() if match else ("", None, None)
        if clock:
            datetime.time.fromisoformat(clock[:8])
        return datetime.date.fromisoformat(day), clock
    except ValueError:
        raise UnusualValue from None


def features_of(encoding: TableEncoding) -> list[Number | Category]:
    """Return the features of a table's encoding, with their columns of X; the last column is the constant 1."""
    place = {name: columns.start for name, columns in encoding.columns.items()}
    booleans = boolean_numbers(encoding.booleans)
    numbers = [
        Number(name, mean, scale, place[name], place.get(f"{MISSING_INDICATOR}{name}"), booleans)
        for name, (mean, scale) in encoding.scales.items()
    ]
    parts = (weekday_of, weekday_text), (hour_of, hour_text)
    derived = {column_of(name): (name, text_of) for name in encoding.times for column_of, text_of in parts}
    categories = [
        Category(*derived.get(name, (name, category_text)), encoding, name, place[name]) for name in encoding.known
    ]
    return [*numbers, *categories]


def has_fast_scores(features: Any) -> bool:
    """Return whether a feature map has learned scores that ``ContextScores`` computes."""
    return bool(getattr(features.transformer, "has_fast_trees", False))


class ContextScores:
    """Scores of contexts, one at a time.

    Parameters
    ----------
    encoding : TableEncoding
    coef : array (d, K) or (d, q)
        Coefficients of a linear policy.
    intercept : array (K,) or (q,)
    features : FeatureMap, optional
        Map to learned scores, for which ``has_fast_scores`` is true.
    report : callable, optional
        It receives the number of contexts with a value that the policy has not seen, by reason.
    """

    def __init__(
        self,
        encoding: TableEncoding,
        coef: np.ndarray,
        intercept: np.ndarray,
        features: Any = None,
        report: Callable[[dict[str, int]], None] | None = None,
    ):
        self._features = [(feature.name, feature.entry, feature.reason) for feature in features_of(encoding)]
        self._report = report
        width = encoding.n_features
        self._coef, self._constant, self._width = coef, coef[width - 1] + intercept, width
        self._learned: Any = None
        if features is not None:
            from drcrm.policies.action_scores import SingleContextScores  # imports scikit-learn, which is slow

            self._learned = SingleContextScores(features.transformer), features.scale * coef[width:]

    def __call__(self, context: Mapping[str, Any]) -> np.ndarray | None:
        """Return the scores u of a context; None if its values need ``TableEncoding`` or are out of range."""
        columns, entries, unseen = [], [], []
        try:
            for name, entry, reason in self._features:
                column, value = entry(context[name])
                if column is None:
                    unseen.append(reason)
                else:
                    columns.append(column)
                    entries.append(value)
        except (KeyError, UnusualValue):
            return None
        scores = np.array(entries) @ self._coef.take(columns, axis=0) + self._constant
        if self._learned is not None:
            x = np.zeros(self._width)
            x[columns], x[-1] = entries, 1.0
            learned_scores, mapped_coef = self._learned
            scores = scores + learned_scores(x) @ mapped_coef
        if not isfinite(scores.sum()):
            return None
        if unseen and self._report is not None:
            self._report(dict.fromkeys(unseen, 1))
        return scores


TYPES = {hour_text: "hour", weekday_text: "weekday"}  # of categorical features that are parts of a time


def export_policy(stored: StoredPolicy) -> dict[str, Any]:
    """Return the content of the JSON; InputError for a policy of another kind."""
    policy, encoding = stored.policy, stored.encoding
    if not isinstance(encoding, TableEncoding):
        raise InputError("only a policy on a table can be exported, without lists: its log has lists or another format")
    if isinstance(policy, MixturePolicy):
        raise InputError("only a single policy can be exported: run drcrm learn with deploy: refit")
    if policy.features is not None:
        raise InputError(
            "only a linear policy, without a feature map or learned scores, can be exported: run drcrm learn "
            "--exportable"
        )
    return {
        "format": FORMAT,
        "version": VERSION,
        "kind": encoding.kind,
        "names": list(encoding.names),
        "explore": policy.explore,
        "intercept": (policy.coef[-1] + policy.intercept).tolist(),
        "features": [_feature(feature, policy.coef, encoding) for feature in features_of(encoding)],
    }


def _feature(feature: Any, coef: np.ndarray, encoding: TableEncoding) -> dict[str, Any]:
    """Return a feature with the coefficients of its columns."""
    if isinstance(feature, Number):
        missing = None if feature.missing_column is None else coef[feature.missing_column].tolist()
        content = {"type": "number", "mean": feature.mean, "scale": feature.scale}
        return {"name": feature.name, **content, "coef": coef[feature.column].tolist(), "missing": missing}
    kind = "hashed" if encoding.is_hashed(feature.column) else TYPES.get(feature.text_of, "category")
    places = encoding.places[feature.column]
    columns = {str(value): coef[feature.first + place].tolist() for value, place in places.items()}
    return {"name": feature.name, "type": kind, "coef": columns} | ({"columns": N_COLUMNS} if kind == "hashed" else {})
