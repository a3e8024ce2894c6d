"""Values as texts for people: numbers, names on one line, costs in the units of the user's outcome, and objects.

Checks, verdicts, warnings, the report, the terminal and figures use these formats. JSON and CSV files have plain
numbers, and error messages show an argument as Python writes it.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from inspect import Parameter, signature
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard

if TYPE_CHECKING:
    from drcrm.evaluation.bounds.independent_units import Interval

DASH = "–"
THOUSANDS_SEPARATOR = "\u202f"
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
DIGITS = 3
MAX_DECIMALS = 6
MAX_VALUE = 1e100  # sums and squares of smaller numbers are finite
UNSAFE = {"Cc", "Cf", "Cs", "Zl", "Zp"}  # control and direction characters, lone surrogates, line separators
JOINERS = "\u200c\u200d"  # of category Cf, but scripts and emoji need them
LINE_BREAKS = "\t\n\r\u2028\u2029"
MAX_NAME_LENGTH = 60
MAX_COLUMNS = 8  # largest number of columns that the sentence about missing values names


def is_number(value: object) -> TypeGuard[float]:
    """Return whether the value is a number below 1e100 in size."""
    return isinstance(value, Real) and not isinstance(value, bool) and abs(float(value)) < MAX_VALUE


def numbers(values: Iterable[object]) -> list[float]:
    """Return the values that are numbers."""
    return [float(value) for value in values if is_number(value)]


def format_number(value: object, decimals: int | None = None, sign: bool = False, digits: int = DIGITS) -> str:
    """Return a number with the given decimals, by default with significant digits; a dash for other values.

    Significant digits end with no zero after the decimal point, and whole numbers below 10⁹ have all their digits. So
    the relative error is at most 0.5 · 10^(1 − digits). Numbers from 10⁹ and below 10⁻⁴ have a power of ten.
    """
    if not is_number(value):
        return DASH
    value = 0.0 if abs(value) < 1 / MAX_VALUE else value
    size, plus = abs(value), "+" if sign else ""
    if size >= 1e9 or 0 < size < {None: 1e-4, MAX_DECIMALS: 1e-5}.get(decimals, 0):
        mantissa, exponent = f"{value:{plus}.{digits - 1}e}".split("e")
        return typeset_sign(f"{_strip_zeros(mantissa)} × 10{str(int(exponent)).translate(SUPERSCRIPTS)}")
    if decimals is None:
        places = 0 if value == int(value) else max(0, digits - 1 - math.floor(math.log10(size)))
        text = _strip_zeros(f"{value:{plus},.{places}f}")
    else:
        text = f"{value:{plus},.{decimals}f}"
    return typeset_sign(text).replace(",", THOUSANDS_SEPARATOR)


def _strip_zeros(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text


def typeset_sign(text: str) -> str:
    """Return a number in a text with the minus sign U+2212; 0 has no sign."""
    if not any(digit in text for digit in "123456789"):
        text = text.lstrip("+-")
    return text.replace("-", "−")


def decimals_for(errors: Iterable[object], values: Iterable[object] = ()) -> int:
    """Return decimals that show two digits of the smallest error, or three digits of the largest value; at most 6."""
    sizes = [abs(error) for error in numbers(errors) if error]
    if sizes:
        return min(MAX_DECIMALS, max(0, 1 - math.floor(math.log10(min(sizes)))))
    sizes = [abs(value) for value in numbers(values) if value]
    return min(MAX_DECIMALS, max(0, 2 - math.floor(math.log10(max(sizes))))) if sizes else 0


def format_signed(value: float) -> str:
    """Return a difference with its sign, for sentences; 0 has no sign."""
    return format_number(value, sign=True)


def percent(share: float, decimals: int = 0, sign: bool = False) -> str:
    """Return a share in per cent, with the given decimals."""
    return f"{format_number(100 * share, decimals, sign)} %"


def with_confidence(level: float) -> str:
    """Return a confidence level in words, with all its digits: "with 99.5 % confidence"."""
    return f"with {format_level(level)} confidence"


def format_count(value: object) -> str:
    """Return a rounded number with separated thousands."""
    return f"{round(value):,}".replace(",", THOUSANDS_SEPARATOR) if is_number(value) else DASH


def format_share(share: object) -> str:
    """Return a share in percent: one decimal below 10 %, and never 0 % for a positive share."""
    if not is_number(share):
        return DASH
    if 0 < abs(share) < 0.001:
        return "< 0.1 %" if share > 0 else "> −0.1 %"
    if abs(share) >= 100:
        return f"{format_number(100 * share)} %"
    return percent(share, 1 if abs(share) < 0.0995 and share else 0)


def format_level(share: float) -> str:
    """Return a chosen share in percent with all its digits, such as a confidence level."""
    return f"{100 * share:.10g} %"


def plural(value: object, noun: str) -> str:
    """Return a number with its noun."""
    return f"{format_count(value)} {noun}{'' if value == 1 else 's'}"


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


@cache
def constructor_parameters(kind: Any) -> Mapping[str, Parameter]:
    """Return the parameters of a class's constructor by name; cached, because a fit asks for them in every step."""
    return signature(kind).parameters


def constructor_repr(self: Any) -> str:
    """Return the class name with all constructor arguments that differ from their defaults: ``KLBall(radius=0.1)``."""
    parameters = constructor_parameters(self.__class__)
    arguments = {name: value for name, value in vars(self).items() if name in parameters}
    changed = (f"{name}={value!r}" for name, value in arguments.items() if value != parameters[name].default)
    return f"{type(self).__name__}({', '.join(changed)})"
