"""Names, numbers and shares as text: the formats of checks, verdicts, reports and the terminal."""

import math
import unicodedata
from collections.abc import Iterable, Mapping
from typing import TypeGuard

DASH = "–"
THOUSANDS_SEPARATOR = "\u202f"
UNSAFE = {"Cc", "Cf", "Cs", "Zl", "Zp"}  # control and direction characters, lone surrogates, line separators
JOINERS = "\u200c\u200d"  # of category Cf, but scripts and emoji need them
LINE_BREAKS = "\t\n\r\u2028\u2029"
MAX_NAME_LENGTH = 60
MAX_COLUMNS = 8  # largest number of columns that the sentence about missing values names
MAX_DECIMALS = 6
MAX_VALUE = 1e100  # sums and squares of smaller numbers are finite


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


def is_number(value: object) -> TypeGuard[float]:
    """Return whether the value is a number below 1e100 in size."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < MAX_VALUE


def numbers(values: Iterable[object]) -> list[float]:
    """Return the values that are numbers."""
    return [float(value) for value in values if is_number(value)]


def format_number(value: object, decimals: int | None = None, sign: bool = False) -> str:
    """Return a number with the given decimals, by default three digits; a dash for other values."""
    if not is_number(value):
        return DASH
    value = 0.0 if abs(value) < 1 / MAX_VALUE else value
    size, plus = abs(value), "+" if sign else ""
    if size >= 1e9 or 0 < size < {None: 1e-4, MAX_DECIMALS: 1e-5}.get(decimals, 0):
        text = f"{value:{plus}.2e}"
    elif decimals is None:
        digits = 0 if size >= 100 or value == int(value) else max(0, 2 - math.floor(math.log10(size)))
        text = f"{value:{plus},.{digits}f}"
        text = text.rstrip("0").rstrip(".") if "." in text else text
    else:
        text = f"{value:{plus},.{decimals}f}"
    if not any(digit in text for digit in "123456789"):
        text = text.lstrip("+-")
    return text.replace("-", "−").replace(",", THOUSANDS_SEPARATOR)


def decimals_for(errors: Iterable[object], values: Iterable[object] = ()) -> int:
    """Return decimals that show two digits of the smallest error, or three digits of the largest value; at most 6."""
    sizes = [abs(error) for error in numbers(errors) if error]
    if sizes:
        return min(MAX_DECIMALS, max(0, 1 - math.floor(math.log10(min(sizes)))))
    sizes = [abs(value) for value in numbers(values) if value]
    return min(MAX_DECIMALS, max(0, 2 - math.floor(math.log10(max(sizes))))) if sizes else 2


def format_signed(value: float) -> str:
    """Return a difference with its sign and four digits, for sentences; 0 has no sign."""
    return f"+{format_digits(value)}" if value > 0 else format_digits(value)


def format_digits(value: float) -> str:
    """Return a number with four digits, for sentences; whole numbers below 10⁹ have all their digits."""
    return f"{value:.0f}" if 1e4 <= abs(value) < 1e9 else f"{value + 0.0:.4g}"  # never −0


def percent(share: float, decimals: int = 0) -> str:
    """Return a share in per cent, with the given decimals."""
    return f"{100 * share:.{decimals}f} %"


def with_confidence(level: float) -> str:
    """Return a confidence level in words, with all its digits: "with 99.5 % confidence"."""
    return f"with {100 * level:.10g} % confidence"


def capitalize(text: str) -> str:
    """Return a text with a capital first letter; the rest is unchanged."""
    return text[:1].upper() + text[1:]


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
    return f"{100 * share:.{1 if abs(share) < 0.0995 and share else 0}f} %".replace("-", "−")


def format_level(share: float) -> str:
    """Return a chosen share in percent with all its digits, such as a confidence level."""
    return f"{100 * share:g} %"


def plural(value: object, noun: str) -> str:
    """Return a number with its noun."""
    return f"{format_count(value)} {noun}{'' if value == 1 else 's'}"


def format_imputed(counts: Mapping) -> str:
    """Return in how many rows each column had missing values that were imputed, most first."""
    names = sorted(counts, key=lambda name: -counts[name] if is_number(counts[name]) else 0)
    parts = [f"{shorten(name)} in {plural(counts[name], 'row')}" for name in names[:MAX_COLUMNS]]
    if len(names) > MAX_COLUMNS:
        parts.append(plural(len(names) - MAX_COLUMNS, "other column"))
    return ", ".join(parts)
