"""How a page on a log prints names and numbers: whatever a file may have called its columns, whatever came out."""

import math
import unicodedata
from collections.abc import Iterable, Mapping
from html import escape

DASH = "–"
THIN = "\u202f"  # between thousands
BREAKS = {"Cc", "Cf", "Cs", "Zl", "Zp"}  # kinds of characters that steer a terminal or a line, or that UTF-8 lacks
JOINERS = "\u200c\u200d"  # of these kinds, but they hold scripts and emoji together
LONGEST = 40  # of a name, in characters
SHOWN_COLUMNS = 8  # with missing values
TOO_LARGE = 1e100  # sums and squares of smaller numbers are finite


def clean(text: object) -> str:
    """Text on one line, without control characters, marks that turn the direction of writing, and lone surrogates.

    A dash where there is none.
    """
    if text is None or (isinstance(text, float) and not math.isfinite(text)):
        return DASH
    said = "".join(
        " " if each in "\t\n\r\u2028\u2029" else each if keeps(each) else "\N{REPLACEMENT CHARACTER}"
        for each in str(text)
    )
    return " ".join(said.split())


def keeps(character: str) -> bool:
    """Whether a character may stand in a line as it is."""
    return character in JOINERS or unicodedata.category(character) not in BREAKS


def short(text: object, longest: int = LONGEST) -> str:
    """A name of at most this many characters, its middle left out: beginnings and ends tell names apart."""
    said = clean(text)
    if len(said) <= longest:
        return said or "(no name)"
    tail = (longest - 1) // 3
    return f"{said[: longest - 1 - tail]}…{said[len(said) - tail :]}"


def name(text: object, longest: int = LONGEST) -> str:
    """A name in HTML, escaped and apart from the direction of the text around it; the whole on pointing at it."""
    said, whole = short(text, longest), clean(text)
    title = f' title="{escape(whole)}"' if len(whole) > longest else ""
    return f"<bdi{title}>{escape(said)}</bdi>"


def sentence(text: object) -> str:
    """A text in HTML, escaped and whole: only names are shortened."""
    return escape(clean(text)) if text else ""


def known(value: object) -> bool:
    """Whether a value is a number that one can reckon with."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < TOO_LARGE


def finite(values: Iterable[object]) -> list[float]:
    """The known numbers among values."""
    return [float(value) for value in values if known(value)]


def number(value: object, decimals: int | None = None, sign: bool = False) -> str:
    """A number with a true minus sign; as many decimals as said, else three digits; a dash for what is none."""
    if not known(value):
        return DASH
    size, plus = abs(value), "+" if sign else ""
    if size >= 1e9 or (value and size < 1e-4 and decimals is None):
        said = f"{value:{plus}.2e}"
    elif decimals is None:
        digits = 0 if size >= 100 or value == int(value) else max(0, 2 - math.floor(math.log10(size)))
        said = f"{value:{plus},.{digits}f}"
        said = said.rstrip("0").rstrip(".") if "." in said else said
    else:
        said = f"{value:{plus},.{decimals}f}"
    if not any(digit in said for digit in "123456789"):
        said = said.lstrip("+-")
    return said.replace("-", "−").replace(",", THIN)


def decimals_for(errors: Iterable[object], values: Iterable[object] = ()) -> int:
    """Decimals at which numbers that are compared stand: two digits of their smallest error, at most 6.

    Where no error is known, three digits of the largest value.
    """
    sizes = [abs(each) for each in finite(errors) if each]
    if sizes:
        return min(6, max(0, 1 - math.floor(math.log10(min(sizes)))))
    sizes = [abs(each) for each in finite(values) if each]
    return min(6, max(0, 2 - math.floor(math.log10(max(sizes))))) if sizes else 2


def count(value: object) -> str:
    """A number of rows, its thousands apart."""
    return f"{round(value):,}".replace(",", THIN) if known(value) else DASH


def percent(share: object) -> str:
    """A share in percent: one decimal below ten, and never 0 where there is something."""
    if not known(share):
        return DASH
    if 0 < abs(share) < 0.001:
        return "< 0.1 %" if share > 0 else "> −0.1 %"
    if abs(share) >= 100:
        return f"{number(100 * share)} %"
    return f"{100 * share:.{1 if abs(share) < 0.0995 and share else 0}f} %".replace("-", "−")


def plural(value: object, what: str) -> str:
    """A number of things."""
    return f"{count(value)} {what}{'' if value == 1 else 's'}"


def imputed_in(counts: Mapping) -> str:
    """How many values of which columns were missing."""
    names = sorted(counts, key=lambda name: -counts[name] if known(counts[name]) else 0)
    shown = [f"{short(name)} in {plural(counts[name], 'row')}" for name in names[:SHOWN_COLUMNS]]
    more = len(names) - SHOWN_COLUMNS
    return ", ".join([*shown, *([plural(more, "other column")] if more > 0 else [])])


def columns(text: str) -> int:
    """How many columns of a terminal a text takes."""
    return sum(
        0 if unicodedata.combining(each) or each in JOINERS else 1 + (unicodedata.east_asian_width(each) in "WF")
        for each in text
    )


def padded(text: str, width: int, right: bool = False) -> str:
    """A text filled with spaces to this many columns of a terminal."""
    space = " " * (width - columns(text))
    return space + text if right else text + space
