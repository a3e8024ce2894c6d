"""Gather the metrics of an experiment's runs in one table.

Reads   the csv files of evaluate.
Writes  --output: one csv with all their rows, in the order given.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

from ..files import write_csv
from . import require
from .evaluate import COLUMNS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("metrics", nargs="+", type=Path, metavar="FILE", help="csv from evaluate")
    parser.add_argument("--output", type=Path, required=True)


def run(options: argparse.Namespace) -> None:
    rows = []
    for path in options.metrics:
        require(path.is_file(), f"{path}: no such file")
        with open(path, newline="", encoding="utf-8", errors="replace") as stream:
            reader = csv.DictReader(stream)
            require(reader.fieldnames == COLUMNS, f"{path}: columns {reader.fieldnames}, expected {COLUMNS}")
            rows.extend(reader)
    write_csv(options.output, COLUMNS, rows)
