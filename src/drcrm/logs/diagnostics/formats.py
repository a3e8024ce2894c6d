"""Values for readers: names and other texts on one line, and costs in the units of the user's outcome."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from drcrm.arrays.number_formats import DASH, is_number, plural
from drcrm.evaluation.bounds.independent_units import Interval

UNSAFE = {"Cc", "Cf", "Cs", "Zl", "Zp"}  # control and direction characters, lone surrogates, line separators
JOINERS = "\u200c\u200d"  # of category Cf, but scripts and emoji need them
LINE_BREAKS = "\t\n\r\u2028\u2029"
MAX_NAME_LENGTH = 60
MAX_COLUMNS = 8  # largest number of columns that the sentence about missing values names


def sanitize(text: object) -> str:
    """Return text without control characters, direction overrides and lone surrogates; a dash for None and NaN."""
    if text is None or (isinstance(text, float) and not math.isfinite(text)):
        return DASH
    plain = str(text)
    return plain if plain.isprintable() else "".join(map(_sanitize_character, plain))


def _sanitize_character(character: str) -> str:
    if character in LINE_BREAKS:
        return " "
    is_unsafe = unicodedata.category(character) in UNSAFE and character not in JOINERS
    return "\N{REPLACEMENT CHARACTER}" if is_unsafe else character


def clean(text: object) -> str:
    """Return sanitized text on one line, with single spaces."""
    return " ".join(sanitize(text).split())


def quote_label(label: str) -> str:
    """Return the label of a policy in quotation marks if it has a comma, so that it does not read like a list."""
    return f'"{label}"' if "," in label else label


def clean_name(text: object) -> str:
    """Return a clean name, which is never empty."""
    return clean(text) or "(no name)"


def shorten(text: object, longest: int = MAX_NAME_LENGTH) -> str:
    """Return a clean name of at most ``longest`` characters. The middle is cut, since ends tell names apart."""
    name = clean_name(text)
    if len(name) <= longest:
        return name
    tail = (longest - 1) // 3
    return f"{name[: longest - 1 - tail]}…{name[len(name) - tail :]}"


def capitalize(text: str) -> str:
    """Return a text with a capital first letter; the rest is unchanged."""
    return text[:1].upper() + text[1:]


def format_imputed(counts: Mapping) -> str:
    """Return in how many rows each column had missing values that were imputed, most first."""
    names = sorted(counts, key=lambda name: -counts[name] if is_number(counts[name]) else 0)
    parts = [f"{shorten(name)} in {plural(counts[name], 'row')}" for name in names[:MAX_COLUMNS]]
    if len(names) > MAX_COLUMNS:
        parts.append(plural(len(names) - MAX_COLUMNS, "other column"))
    return ", ".join(parts)


class ConfidenceInterval(NamedTuple):
    """An estimate with its confidence interval; None for unknown numbers."""

    value: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def is_bounded(self) -> bool:
        """Whether both ends are known."""
        return is_number(self.low) and is_number(self.high)


@dataclass(frozen=True)
class Units:
    """Convert costs, which answers contain, to rewards if the log has rewards."""

    is_reward: bool = False
    outcome: str = ""

    @property
    def name(self) -> str:
        """The name of the outcome, by default reward or cost."""
        return clean(self.outcome) or ("reward" if self.is_reward else "cost")

    @property
    def title(self) -> str:
        """The name with a capital letter, for titles."""
        return self.name[:1].upper() + self.name[1:]

    @property
    def sign(self) -> int:
        """The factor of a cost that gives the outcome."""
        return -1 if self.is_reward else 1

    @property
    def side(self) -> str:
        """The direction of a certificate: costs have upper bounds, rewards lower bounds."""
        return "at least" if self.is_reward else "at most"

    @property
    def other_side(self) -> str:
        """The direction of a lower bound on a cost."""
        return "at most" if self.is_reward else "at least"

    def convert(self, cost: object) -> float | None:
        """Return a cost in the reader's units."""
        if not is_number(cost):
            return None
        return 0.0 - float(cost) if self.is_reward else float(cost)

    def interval(self, estimate: Mapping | None) -> ConfidenceInterval:
        """Return the value, low and high of a mapping in the reader's units."""
        value, low, high = (self.convert((estimate or {}).get(key)) for key in ("value", "low", "high"))
        return ConfidenceInterval(value, high, low) if self.is_reward else ConfidenceInterval(value, low, high)

    def estimate(self, cost: Interval | None) -> ConfidenceInterval:
        """Return an estimate and its interval in the reader's units."""
        return self.interval({} if cost is None else {"value": cost, "low": cost.low, "high": cost.high})
