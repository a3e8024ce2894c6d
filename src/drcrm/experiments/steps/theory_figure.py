"""Draw a lemma of the paper at work.

Reads   --table: csv from theory.
Writes  each --output, in the format of its suffix (pdf, svg, png).
"""

import argparse
from pathlib import Path

from drcrm.experiments.columns import LEMMA_COLUMNS
from drcrm.files import read_csv, write_bytes
from drcrm.reports.figures.image_files import render
from drcrm.reports.figures.style import LEMMA_FIGURES
from drcrm.reports.figures.theory_figures import FIGURES


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("figure", choices=FIGURES)
    parser.add_argument("--table", type=Path, required=True, help="csv from theory, of the figure's lemma")
    parser.add_argument("--output", nargs="+", type=Path, required=True)


def run(options: argparse.Namespace) -> None:
    table = read_csv(options.table, LEMMA_COLUMNS[LEMMA_FIGURES[options.figure].lemma])
    for path, content in render(FIGURES[options.figure], table, options.output).items():
        write_bytes(path, content)
