"""Gather the metrics, or the grids, of an experiment's runs in one table.

Reads   the csv files of evaluate.
Writes  --output: one csv with all their rows, in the order given.
"""

import argparse
import csv
from pathlib import Path

from drcrm.errors import InputError
from drcrm.experiments.columns import COLUMNS, GRID_COLUMNS
from drcrm.experiments.steps import add_shared, require
from drcrm.files import write_csv


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_shared(parser, "output")
    parser.add_argument("runs", nargs="+", type=Path, metavar="FILE", help="csv from evaluate")


def run(options: argparse.Namespace) -> None:
    rows, columns = [], None
    for path in options.runs:
        require(path.is_file(), f"{path}: no such file")
        with open(path, newline="", encoding="utf-8", errors="replace") as stream:
            reader = csv.DictReader(stream)
            expected = [columns] if columns else [COLUMNS, GRID_COLUMNS]
            try:
                require(reader.fieldnames in expected, f"{path}: columns {reader.fieldnames}, expected {expected[0]}")
                columns = reader.fieldnames
                for row in reader:
                    whole = None not in row and None not in row.values()
                    require(whole, f"{path}: line {reader.line_num} has not a cell for each of {len(columns)} columns")
                    rows.append(row)
            except csv.Error as error:
                raise InputError(f"{path}: line {reader.line_num + 1}: {error}") from None
    write_csv(options.output, columns, rows)
