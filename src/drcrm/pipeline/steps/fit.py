"""Fit an algorithm for every value of its grid, and score every fit on the held-out part.

Reads   --log: npz from replay.
Writes  --output: npz with, for the k grid values: grid (k,), coef (k, features, labels), objective, iterations,
        converged (k,), scores (k, 4) in the order ips, clipped_ips, snips, clipped_snips, and chosen (4,), the grid
        index that each score chooses.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from pathlib import Path

from ...algorithms import ALGORITHMS, calibrated_penalty
from ...core.selection import fit_grid
from ...errors import located
from ..artifacts import read_log
from ..files import write_npz
from . import assignment, require


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--log", type=Path, required=True, help="npz from replay")
    parser.add_argument("--estimator", choices=ALGORITHMS, required=True)
    parser.add_argument("--parameter", default="", help="name of the hyper-parameter (none for CIPS)")
    parser.add_argument("--grid", nargs="*", type=float, default=[], metavar="VALUE", help="its values")
    parser.add_argument(
        "--option", nargs="*", type=assignment, default=[], metavar="NAME=VALUE", help="other parameters"
    )
    parser.add_argument(
        "--variance-penalty-scale",
        choices=("calibrated", "unit"),
        help="for POEM alone: its grid in units of λ0 = −mean cost ÷ its standard error (the public code, the default),"
        " or as it is (the paper)",
    )
    parser.add_argument("--output", type=Path, required=True)


def run(options: argparse.Namespace) -> None:
    is_poem, unit = options.estimator == "POEM", options.variance_penalty_scale
    require(is_poem or unit is None, f"--variance-penalty-scale is POEM's, not {options.estimator}'s")
    train, heldout = read_log(options.log)
    with located(options.log):
        scale = calibrated_penalty(train) if is_poem and unit != "unit" else 1.0
    fits = fit_grid(
        train,
        heldout,
        options.estimator,
        options.parameter or None,
        options.grid,
        dict(options.option),
        scale,
    )
    write_npz(options.output, **asdict(fits))
    failed = [f"{options.parameter} {value:g}" if options.parameter else "all" for value in fits.grid[~fits.converged]]
    if failed:
        print(f"{options.estimator}: no convergence: {', '.join(failed)}", file=sys.stderr)
