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
from ...simulation.losses import expected_hamming, greedy_hamming
from ..artifacts import read_contexts, read_policy
from ..columns import COLUMNS, GRID_COLUMNS, SCORES
from ..files import read_npz, write_csv
from . import add_seed_arguments, assignment, whole


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

    def losses(policy: ExponentialPolicy, tossed: np.ndarray | None = None) -> dict[str, float]:
        """Both losses; a label of the mask ``tossed`` counts ½ in each, whatever the policy does."""
        judged = np.ones(labels.shape[1], dtype=bool) if tossed is None else ~tossed
        part, truth, coins = ExponentialPolicy(policy.coef[:, judged]), labels[:, judged], 0.5 * (~judged).sum()
        return {
            "expected_loss": expected_hamming(part, X, truth) + coins,
            "greedy_loss": greedy_hamming(part, X, truth) + coins,
        }

    run_of = {"dataset": options.dataset, "replay_count": options.replay_count, "seed": options.seed}
    rows, grid_rows = [], []

    def add(algorithm: str, selection: str, **values) -> None:
        rows.append({**dict.fromkeys(COLUMNS), **run_of, "algorithm": algorithm, "selection": selection, **values})

    tossed = read_npz(options.logging, ["absent"])["absent"] if options.absent_label_score == "half" else None
    of_logging = losses(read_policy(options.logging), tossed)
    of_skyline = losses(read_policy(options.skyline))
    for selection in options.selection:
        add("logging", selection, **of_logging)
    for algorithm, path in options.fit:
        fits = read_npz(path, ["grid", "coef", "iterations", "converged", "scores", "chosen"])
        of_grid = [
            {
                **losses(ExponentialPolicy(coef)),
                "hyperparameter": float(value),
                "iterations": int(iterations),
                "converged": bool(converged),
            }
            for value, coef, iterations, converged in zip(
                fits["grid"], fits["coef"], fits["iterations"], fits["converged"], strict=True
            )
        ]
        for found, scores in zip(of_grid, fits["scores"], strict=True):
            scores = dict(zip(SCORES, map(float, scores), strict=True))
            grid_rows.append({**run_of, "algorithm": algorithm, **scores, **found})
        for selection in options.selection:
            score = SCORES.index(selection)
            chosen = int(fits["chosen"][score])
            if np.isnan(fits["grid"]).all():
                chosen = 0  # no hyper-parameter, nothing to choose
            if chosen < 0:
                add(algorithm, selection)
            else:
                add(algorithm, selection, **of_grid[chosen], score=float(fits["scores"][chosen, score]))
    for selection in options.selection:
        add("skyline", selection, **of_skyline)
    if options.output_grids:
        write_csv(options.output_grids, GRID_COLUMNS, grid_rows)
    write_csv(options.output, COLUMNS, rows)
