"""Texts of tables and captions in HTML and LaTeX: numbers, marks of cells, special characters, floats, templates."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jinja2 import Template

from drcrm.arrays.formats import typeset_sign

if TYPE_CHECKING:
    import pandas as pd

HEAD = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
body { font: 16px/1.4 sans-serif; margin: 1em }
table { border-collapse: collapse; display: block; margin-bottom: 2em; overflow-x: auto }
th, td { padding: .2em .8em; text-align: left; white-space: nowrap }
thead tr { border-block: 1px solid }
tbody tr:last-child { border-bottom: 1px solid }
p { max-width: 45em }
@media (min-width: 40em) { td { white-space: normal } }
</style>
"""
BOLD, ITALIC, POWER = r"\*\*([+−\d.]+)\*\*", r"^\*([^*]+)\*$", r"10\^(−?)([\d.]+)"  # marks of the cells
HTML = {"&": "&amp;", "<": "&lt;", ">": "&gt;", BOLD: r"<b>\1</b>", ITALIC: r"<i>\1</i>", POWER: r"10<sup>\1\2</sup>"}
GREEK = "αβγδεηθκλμπρστφχψωΓΔΘΛΠΣΦΨΩ"  # letters with a command in LaTeX
SYMBOLS = {
    **{character: f"\\{character}" for character in "%&_#${}"},
    **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"},
    **{"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}"},
    **{"[": "{[}", "*": "{*}"},  # after \\, both would be an argument of the line break
    **{"−": "$-$", "±": r"$\pm$", "×": r"$\times$", "·": r"$\cdot$", "²": "$^2$", "½": r"$\frac12$", "√": r"$\surd$"},
    **{"≤": r"$\leq$", "≥": r"$\geq$", "→": r"$\to$", "←": r"$\leftarrow$", "↑": r"$\uparrow$", "↓": r"$\downarrow$"},
    **{"…": r"\dots{}", "–": "--", "—": "---", "\N{NO-BREAK SPACE}": "~"},
    **{"“": "``", "”": "''", "‘": "`", "’": "'"},
}
IN_LATEX = re.compile(
    rf"{BOLD}|{ITALIC}|{POWER}| ± (?P<error>[\d.]+)| (?P<percent>%)|(?P<greek>[{GREEK}])(?P<script>[0²])?|."
)
LONG = 24  # characters of a cell that LaTeX breaks into lines
FIT = (  # shrinks box 0 to the width of the column and to three quarters of the page's height
    r"\ifdim\wd0>\linewidth\sbox0{\resizebox{\linewidth}{!}{\usebox0}}\fi",
    r"\ifdim\dimexpr\ht0+\dp0\relax>.75\textheight\sbox0{\resizebox*{!}{.75\textheight}{\usebox0}}\fi",
    r"\usebox0",
)


def html(text: str) -> str:
    """Return a text in HTML."""
    for pattern, replacement in HTML.items():
        text = re.sub(pattern, replacement, text)
    return text


def latex(text: str) -> str:
    """Return a text in LaTeX. Letters of Latin alphabets and unknown characters are unchanged."""
    return IN_LATEX.sub(_in_latex, text)


def _in_latex(match: re.Match) -> str:
    bold, italic, sign, power = match.group(1, 2, 3, 4)
    if bold or italic:
        return rf"\text{'bf' if bold else 'it'}{{{latex(bold or italic)}}}"
    if power:
        return f"$10^{{{sign and '-'}{power}}}$"
    if match["error"]:
        return rf" {{\scriptsize $\pm$ {match['error']}}}"
    if match["greek"]:
        name = unicodedata.name(match["greek"]).split()[-1].replace("LAMDA", "LAMBDA")
        script = {"0": "_0", "²": "^2"}.get(match["script"], "")
        return f"$\\{name.lower() if match['greek'].islower() else name.title()}{script}$"
    return "~\\%" if match["percent"] else SYMBOLS.get(match[0], match[0])


def break_lines(cell: str) -> str:
    """Return a cell in LaTeX. A long cell is broken into lines."""
    text = latex(cell)
    return text if len(cell) <= LONG else rf"\parbox[t]{{9em}}{{\raggedright {text}\strut}}"


def latex_table(tabular: str, caption: str, label: str, note: str = "") -> str:
    """Return a table environment. It shrinks to the column. All texts but the label are LaTeX; the note is below."""
    lines = [r"\begin{table}", r"\centering", rf"\caption{{{caption}}}", _label("tab", label)]
    lines += [r"\par\smallskip\small", r"\setlength{\tabcolsep}{4pt}", rf"\sbox0{{{tabular.strip()}}}", *FIT]
    lines += [r"\par\medskip", rf"\parbox{{\linewidth}}{{\footnotesize {note}}}"] * bool(note)
    return "\n".join([*lines, r"\end{table}", ""])


def latex_figure(picture: str, caption: str, label: str) -> str:
    """Return a figure environment with a picture that fits the column and the page. The caption is plain text."""
    size = r"width=\linewidth,height=.75\textheight,keepaspectratio"
    lines = [r"\begin{figure}", r"\centering", rf"\includegraphics[{size}]{{{picture}}}"]
    return "\n".join([*lines, rf"\caption{{{latex(caption)}}}", _label("fig", label), r"\end{figure}", ""])


def _label(kind: str, name: str) -> str:
    return rf"\label{{{kind}:{re.sub(r'[^A-Za-z0-9]+', '-', name)}}}"


def fill_caption(template: str, words: Mapping, **wildcards: str) -> str:
    """Fill a caption template of the workflow's report as Snakemake does, on one line."""
    job = {"wildcards": wildcards, "params": {"words": words}}
    return " ".join(Template(template).render(snakemake=job).split())


def p_value_text(value: float) -> str:
    """Return a p-value with two digits; empty for NaN."""
    digits, _, exponent = number(value, ".2g", missing="").partition("e")
    return f"{digits}·10^−{exponent.lstrip('−0')}" if exponent else digits


def number(value: float, form: str = ".3f", missing: str = "missing") -> str:
    """Return a number with a minus sign, or ``missing`` for NaN."""
    return missing if np.isnan(value) else typeset_sign(format(value, form))


def with_error(text: str, error: float, decimals: int = 3) -> str:
    """Return a formatted number with its standard error, unless the error is NaN."""
    return text if np.isnan(error) else f"{text} ± {error:.{decimals}f}"


def power_of_ten(value: float) -> str:
    """Return a value as a power of ten if its exponent is a multiple of ½ (3.16 counts as √10)."""
    exponent = round(2 * np.log10(value)) / 2
    return f"10^{number(exponent, 'g')}" if abs(np.log10(value) - exponent) < 1e-3 else f"{value:g}"


@dataclass(frozen=True)
class PrintedTable:
    """A table of texts.

    Attributes
    ----------
    caption : str
        The text above the table.
    frame : DataFrame of str
        Numbers in ``**`` are bold, cells in ``*`` italic, and ``10^`` starts a power.
    note : str
        A text below the table.
    """

    caption: str
    frame: pd.DataFrame
    note: str = ""

    def markdown(self) -> str:
        """Return the table in Markdown."""
        caption, frame, note = self._in(lambda text: text.replace("|", r"\|"))
        lines = [frame.columns, ["---"] * len(frame.columns), *frame.to_numpy()]
        return f"{caption}\n\n" + "".join(f"| {' | '.join(line)} |\n" for line in lines) + (note and f"\n{note}\n")

    def latex(self, label: str) -> str:
        """Return the table as a LaTeX environment that needs booktabs and graphicx."""
        caption, frame, note = self._in(latex)
        frame.iloc[:] = self.frame.map(break_lines)
        heads = [name and rf"\textbf{{{name}}}" for name in frame.columns]
        alignment = "l" + "c" * (len(heads) - 1)
        body = frame.set_axis(heads, axis=1).to_latex(index=False, escape=False, column_format=alignment)
        return latex_table(body, caption, label, note)

    def html(self) -> str:
        """Return the table as part of a page."""
        caption, frame, note = self._in(html)
        body = frame.to_html(index=False, escape=False, border=0, justify="left")
        return f"<p>{caption}</p>\n{body}\n" + (note and f"<p>{note}</p>\n")

    def _in(self, translate: Callable[[str], str]) -> tuple[str, pd.DataFrame, str]:
        """Return caption, frame and note, translated to a language."""
        frame = self.frame.map(translate)
        return translate(self.caption), frame.set_axis(frame.columns.map(translate), axis=1), translate(self.note)
