"""Measure the Hamming losses of all policies of one run (data set, seed, replay count) on the test contexts.

Reads   --test: labelled contexts; --logging: π0 from log_crf; --skyline; --fit: npz of each algorithm, NAME=FILE.
Writes  --output: csv with a row for each algorithm and selection; --output-grids, if given: csv with a row for each
        value of each algorithm's grid, its held-out scores beside its losses.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from ...core.policies import ExponentialPolicy
from ...core.validation import check_actions
from ...errors import located
from ...registry import LOGGING, SCORES, SKYLINE
from ...simulation.losses import hamming_losses
from ..artifacts import read_contexts, read_policy
from ..columns import COLUMNS, GRID_COLUMNS
from ..files import read_npz, write_csv
from ..fits import COLUMNS as FITTED
from ..fits import read_fits
from . import add_seed_arguments, assignment, require, whole


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--test", type=Path, required=True, help="npz from fetch")
    parser.add_argument("--logging", type=Path, required=True, help="npz from log_crf")
    parser.add_argument("--skyline", type=Path, required=True, help="npz from skyline")
    parser.add_argument("--fit", nargs="+", type=assignment, required=True, metavar="NAME=FILE", help="npz from fit")
    parser.add_argument("--selection", nargs="+", choices=SCORES, required=True, help="scores that choose")
    parser.add_argument(
        "--absent-label-score",
        choices=("logged", "half"),
        required=True,
        help="how π0's loss counts a label that its training contexts lack: as logged (0), or as a coin toss",
    )
    parser.add_argument("--replay-count", type=whole(1), required=True)
    add_seed_arguments(parser)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--output-grids", type=Path)


def run(options: argparse.Namespace) -> None:
    X, labels = read_contexts(options.test)
    absent = _absent(options.logging, labels.shape[1]) if options.absent_label_score == "half" else None
    key = {"dataset": options.dataset, "replay_count": options.replay_count, "seed": options.seed}
    grids = {algorithm: _grid(path, X, labels) for algorithm, path in options.fit}
    grid_rows = [{**key, "algorithm": algorithm, **row} for algorithm, (rows, _) in grids.items() for row in rows]
    chosen = {
        LOGGING: dict.fromkeys(options.selection, _losses(options.logging, X, labels, absent)),
        **{algorithm: _chosen(*grid, options.selection) for algorithm, grid in grids.items()},
        SKYLINE: dict.fromkeys(options.selection, _losses(options.skyline, X, labels)),
    }
    rows = [
        {**dict.fromkeys(COLUMNS), **key, "algorithm": algorithm, "selection": selection, **found}
        for algorithm, by_selection in chosen.items()
        for selection, found in by_selection.items()
    ]
    if options.output_grids:
        write_csv(options.output_grids, GRID_COLUMNS, grid_rows)
    write_csv(options.output, COLUMNS, rows)


def _absent(path: Path, n_labels: int) -> np.ndarray:
    """Which labels π0's training contexts lack, a mask (q,)."""
    absent = read_npz(path, ["absent"])["absent"]
    with located(path):
        require(np.shape(absent) == (n_labels,), f"absent has shape {np.shape(absent)}, expected ({n_labels},)")
        return check_actions(absent[None], name="absent")[0].astype(bool)


def _losses(path: Path, X, labels: np.ndarray, absent: np.ndarray | None = None) -> dict:
    """The losses of a policy in a file."""
    policy = read_policy(path)
    with located(path):
        return hamming_losses(policy, X, labels, absent)


def _grid(path: str, X, labels: np.ndarray) -> tuple[list[dict], dict[str, int]]:
    """The fits of a grid with their losses and held-out scores, a row each, and the row that each score chooses."""
    fits = read_fits(path, len(SCORES))
    with located(path):
        rows = [
            {
                "hyperparameter": float(value),
                **dict(zip(SCORES, map(float, scores), strict=True)),
                **hamming_losses(ExponentialPolicy(coef), X, labels),
                "iterations": int(iterations),
                "converged": bool(converged),
                "tilt": float(fits["tilt"][0]),
            }
            for value, coef, iterations, converged, scores in zip(*(fits[name] for name in FITTED), strict=True)
        ]
    chosen = np.zeros(len(SCORES), dtype=int) if np.isnan(fits["grid"]).all() else fits["chosen"]
    return rows, dict(zip(SCORES, map(int, chosen), strict=True))


def _chosen(rows: list[dict], chosen: dict[str, int], selections: list[str]) -> dict[str, dict]:
    """What each selection chooses of a grid, with the score it has; nothing where no value has a score."""
    picked = {}
    for selection in selections:
        row = rows[chosen[selection]] if chosen[selection] >= 0 else {}
        picked[selection] = {name: value for name, value in row.items() if name in COLUMNS}
        if row:
            picked[selection]["score"] = row[selection]
    return picked
