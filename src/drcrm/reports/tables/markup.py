"""The languages that tables are printed in: Markdown, LaTeX (booktabs) and HTML."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape

import numpy as np

from drcrm.reports.figures.style import Names

Rows = Sequence[Sequence[str]]


@dataclass(frozen=True)
class Markup:
    """How a table is written: whole, and the parts of its cells."""

    heading: str
    table: Callable[[Sequence[str], Rows], str]  # from a header of plain text, and rows in this markup
    text: Callable[[str], str]  # plain text in this markup
    bold: str
    italic: str
    power: str
    error: str = " ± {:.3f}"
    form: str = ".3f"  # of numbers
    minus: str = "−"
    document: Callable[[str], str] = str
    names: Names = field(default_factory=Names, hash=False)

    def algorithm(self, name: str) -> str:
        """The name of an algorithm in print."""
        return self.text(self.names.look(name).label)

    def number(self, value: float, form: str = "", absent: str = "missing") -> str:
        """A number with a minus sign in place of a hyphen; ``absent`` for NaN."""
        return absent if np.isnan(value) else format(value, form or self.form).replace("-", self.minus)

    def power_of_ten(self, value: float) -> str:
        """A value as a power of ten where its exponent is a whole or half number (3.16 counts as √10)."""
        exponent = round(2 * np.log10(value)) / 2
        if abs(np.log10(value) - exponent) >= 1e-3:
            return f"{value:g}"
        return self.power.format(f"{exponent:g}".replace("-", self.minus.strip("$")))  # LaTeX's powers are mathematics

    def with_error(self, number: str, error: float) -> str:
        """A number as it is printed, with its standard error if that is known."""
        return number if np.isnan(error) else number + self.error.format(error)

    def titled(self, title: str, header: Sequence[str], rows: Rows) -> str:
        """A table under what is said of it."""
        return self.heading.format(title) + self.table(header, rows)


def _markdown_table(header: Sequence[str], rows: Rows) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def _latex_table(header: Sequence[str], rows: Rows) -> str:
    heads = " & ".join(rf"\textbf{{{LATEX.text(name)}}}" if name else "" for name in header)
    lines = [rf"\begin{{tabular}}{{l{'c' * (len(header) - 1)}}}", r"\toprule", heads + r" \\", r"\midrule"]
    lines += [" & ".join(row) + r" \\" for row in rows]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def _latex_text(text: str) -> str:
    for plain, latex in {"%": r"\%", "_": r"\_", "&": r"\&", "χ²": r"$\chi^2$", "π0": r"$\pi_0$"}.items():
        text = text.replace(plain, latex)
    return text


def _html_table(header: Sequence[str], rows: Rows) -> str:
    heads = "".join(f"<th>{escape(name)}</th>" for name in header)
    body = "\n".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table>\n<tr>{heads}</tr>\n{body}\n</table>\n"


def _html_page(body: str) -> str:
    style = (
        "body { font: 16px/1.4 sans-serif; margin: 1em } table { border-collapse: collapse; display: block; "
        "margin-bottom: 2em; overflow-x: auto } th, td { padding: .2em .8em; text-align: left; white-space: nowrap } "
        "tr:first-child { border-block: 1px solid } tr:last-child { border-bottom: 1px solid } p { max-width: 45em } "
        "@media (min-width: 40em) { td { white-space: normal } }"
    )
    view = '<meta name="viewport" content="width=device-width, initial-scale=1">'
    return f'<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n{view}\n<style>{style}</style>\n{body}'


MARKDOWN = Markup(
    heading="{}\n\n",
    table=_markdown_table,
    text=lambda text: text.replace("|", r"\|"),
    bold="**{}**",
    italic="*{}*",
    power="10^{}",
)
LATEX = Markup(
    heading="% {}\n",
    table=_latex_table,
    text=_latex_text,
    bold=r"\textbf{{{}}}",
    italic=r"\textit{{{}}}",
    error=r" {{\scriptsize $\pm$ {:.3f}}}",
    power="$10^{{{}}}$",
    minus="$-$",
)
HTML = Markup(
    document=_html_page,
    heading="<p>{}</p>\n",
    table=_html_table,
    text=escape,
    bold="<b>{}</b>",
    italic="<i>{}</i>",
    power="10<sup>{}</sup>",
)
