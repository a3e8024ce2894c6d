"""Numbers as texts for people: the formats of checks, verdicts, warnings, the report, the terminal and figures.

JSON and CSV files have plain numbers, and error messages show an argument as Python writes it.
"""

import math
from collections.abc import Iterable
from numbers import Real
from typing import TypeGuard

DASH = "–"
THOUSANDS_SEPARATOR = "\u202f"
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
DIGITS = 3
MAX_DECIMALS = 6
MAX_VALUE = 1e100  # sums and squares of smaller numbers are finite


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
