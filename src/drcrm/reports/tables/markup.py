"""Table writer: formats numbers, names and whole tables in Markdown, LaTeX (booktabs) or HTML."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape

import numpy as np

from drcrm.reports.figures.style import Names

Rows = Sequence[Sequence[str]]
LATEX_CHARACTERS = {"%": r"\%", "_": r"\_", "&": r"\&", "χ²": r"$\chi^2$", "π0": r"$\pi_0$"}
STYLE = (
    "body { font: 16px/1.4 sans-serif; margin: 1em } table { border-collapse: collapse; display: block; "
    "margin-bottom: 2em; overflow-x: auto } th, td { padding: .2em .8em; text-align: left; white-space: nowrap } "
    "tr:first-child { border-block: 1px solid } tr:last-child { border-bottom: 1px solid } p { max-width: 45em } "
    "@media (min-width: 40em) { td { white-space: normal } }"
)


@dataclass(frozen=True)
class Markup:
    """A language for tables.

    Attributes
    ----------
    table : callable
        Returns a table, given a header of plain text and rows of cells in this language.
    text : callable
        Returns plain text in this language.
    title, bold, italic, power, error : str
        Format strings. ``power`` is a power of ten, ``error`` a standard error after a number.
    form : str
        Format of numbers.
    minus : str
        The minus sign.
    document : callable
        Returns a whole file, given its tables.
    names : Names
    """

    table: Callable[[Sequence[str], Rows], str]
    text: Callable[[str], str]
    title: str
    bold: str
    italic: str
    power: str
    error: str = " ± {:.3f}"
    form: str = ".3f"
    minus: str = "−"
    document: Callable[[str], str] = str
    names: Names = field(default_factory=Names, hash=False)

    def algorithm(self, name: str) -> str:
        """Return the label of an algorithm."""
        return self.text(self.names.label(name))

    def number(self, value: float, form: str = "", missing: str = "missing") -> str:
        """Return a number with a minus sign, or ``missing`` for NaN."""
        return missing if np.isnan(value) else format(value, form or self.form).replace("-", self.minus)

    def power_of_ten(self, value: float) -> str:
        """Return a value as a power of ten if its exponent is a multiple of ½ (3.16 counts as √10)."""
        exponent = round(2 * np.log10(value)) / 2
        if abs(np.log10(value) - exponent) >= 1e-3:
            return f"{value:g}"
        return self.power.format(f"{exponent:g}".replace("-", self.minus.strip("$")))  # powers are LaTeX mathematics

    def with_error(self, number: str, error: float) -> str:
        """Return a formatted number with its standard error, unless the error is NaN."""
        return number if np.isnan(error) else number + self.error.format(error)

    def titled(self, title: str, header: Sequence[str], rows: Rows) -> str:
        """Return a table with its title."""
        return self.title.format(title) + self.table(header, rows)


def _markdown_table(header: Sequence[str], rows: Rows) -> str:
    return "".join("| " + " | ".join(line) + " |\n" for line in [header, ["---"] * len(header), *rows])


def _latex_table(header: Sequence[str], rows: Rows) -> str:
    heads = " & ".join(rf"\textbf{{{_latex_text(name)}}}" if name else "" for name in header)
    body = [" & ".join(row) + r" \\" for row in rows]
    lines = [rf"\begin{{tabular}}{{l{'c' * (len(header) - 1)}}}", r"\toprule", heads + r" \\", r"\midrule", *body]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def _latex_text(text: str) -> str:
    for plain, latex in LATEX_CHARACTERS.items():
        text = text.replace(plain, latex)
    return text


def _html_table(header: Sequence[str], rows: Rows) -> str:
    heads = "".join(f"<th>{escape(name)}</th>" for name in header)
    body = "\n".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table>\n<tr>{heads}</tr>\n{body}\n</table>\n"


def _html_document(body: str) -> str:
    viewport = '<meta name="viewport" content="width=device-width, initial-scale=1">'
    return f'<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n{viewport}\n<style>{STYLE}</style>\n{body}'


MARKDOWN = Markup(
    table=_markdown_table,
    text=lambda text: text.replace("|", r"\|"),
    title="{}\n\n",
    bold="**{}**",
    italic="*{}*",
    power="10^{}",
)
LATEX = Markup(
    table=_latex_table,
    text=_latex_text,
    title="% {}\n",
    bold=r"\textbf{{{}}}",
    italic=r"\textit{{{}}}",
    power="$10^{{{}}}$",
    error=r" {{\scriptsize $\pm$ {:.3f}}}",
    minus="$-$",
)
HTML = Markup(
    table=_html_table,
    text=escape,
    title="<p>{}</p>\n",
    bold="<b>{}</b>",
    italic="<i>{}</i>",
    power="10<sup>{}</sup>",
    document=_html_document,
)
