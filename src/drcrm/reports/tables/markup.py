"""Printed tables: one frame of texts, written in Markdown, LaTeX (booktabs) or HTML."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
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
LATEX: dict[str, Any] = {
    **{"%": r"\\%", "_": r"\\_", "&": r"\\&", "χ²": r"$\\chi^2$", "π0": r"$\\pi_0$"},
    **{BOLD: r"\\textbf{\1}", ITALIC: r"\\textit{\1}", POWER: lambda match: f"$10^{{{match[1] and '-'}{match[2]}}}$"},
    **{r" ± ([\d.]+)": r" {\\scriptsize $\\pm$ \1}", "−": "$-$"},
}
HTML = {"&": "&amp;", "<": "&lt;", ">": "&gt;", BOLD: r"<b>\1</b>", ITALIC: r"<i>\1</i>", POWER: r"10<sup>\1\2</sup>"}


def number(value: float, form: str = ".3f", missing: str = "missing") -> str:
    """Return a number with a minus sign, or ``missing`` for NaN."""
    return missing if np.isnan(value) else format(value, form).replace("-", "−")


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
    frame: pd.DataFrame = field(default_factory=pd.DataFrame)
    note: str = ""

    def markdown(self) -> str:
        """Return the table in Markdown."""
        caption, frame, note = self._in({r"\|": r"\\|"})
        lines = [frame.columns, ["---"] * len(frame.columns), *frame.to_numpy()] if len(frame.columns) else []
        return f"{caption}\n\n" + "".join(f"| {' | '.join(line)} |\n" for line in lines) + (note and f"\n{note}\n")

    def latex(self) -> str:
        """Return the table in LaTeX, with the caption and the note as comments."""
        caption, frame, note = self._in(LATEX)
        heads = [name and rf"\textbf{{{name}}}" for name in frame.columns]
        alignment = "l" + "c" * (len(heads) - 1)
        body = frame.set_axis(heads, axis=1).to_latex(index=False, escape=False, column_format=alignment)
        return f"% {caption}\n" + (body if heads else "") + (note and f"\n% {note}\n")

    def html(self) -> str:
        """Return the table as part of a page."""
        caption, frame, note = self._in(HTML)
        body = frame.to_html(index=False, escape=False, border=0, justify="left")
        return f"<p>{caption}</p>\n{body}\n" + (note and f"<p>{note}</p>\n")

    def _in(self, patterns: Mapping[str, Any]) -> tuple[str, pd.DataFrame, str]:
        """Return caption, frame and note with the marks and characters of a language."""

        def translate(text: str) -> str:
            for pattern, replacement in patterns.items():
                text = re.sub(pattern, replacement, text)
            return text

        frame = self.frame.map(translate)
        return translate(self.caption), frame.set_axis(frame.columns.map(translate), axis=1), translate(self.note)
