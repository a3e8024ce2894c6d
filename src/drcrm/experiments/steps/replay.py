"""Log the actions of π0 on the training contexts, --replay-count times over.

Reads   --train: labelled contexts; --split: which are held out; --policy: π0.
Writes  --output: npz of the log, distinct rows stored once: X with the constant feature, Y, propensity, the translated
        cost, context (a row's context), and how often a row occurs in the training and in the held-out part. With one
        action of K also n_actions, and the costs are −1 and 0, by --click-rates.
"""

import argparse
from pathlib import Path

import numpy as np

from drcrm.experiments.datasets.array_files import read_policy, read_split, write_log
from drcrm.experiments.datasets.truths import read_truth
from drcrm.experiments.simulation.replay import replay
from drcrm.experiments.simulation.split import heldout_rows
from drcrm.experiments.steps import add_clicks, add_shared, fraction, generator, require


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_shared(parser, "train", "split", "split-unit", "replay-count", "dataset", "seed", "output")
    parser.add_argument("--policy", type=Path, required=True, help="npz from log_crf")
    parser.add_argument("--heldout-fraction", type=fraction, help="share of rows held out; for rows alone")
    add_clicks(parser)


def run(options: argparse.Namespace) -> None:
    by_row, share = options.split_unit == "row", options.heldout_fraction
    require(by_row or share is None, "--heldout-fraction is of rows: under --split-unit context the split has decided")
    require(not by_row or share is not None, "--split-unit row needs --heldout-fraction")
    X, truth = read_truth(options.train)
    policy = read_policy(options.policy, truth.actions)
    rng, click_rng = (generator(options.dataset, options.seed, drawn) for drawn in ("replay", "clicks"))
    log = replay(policy, X, truth, options.replay_count, rng, options.click_rates, click_rng)
    if by_row:
        heldout = heldout_rows(log.size, share, generator(options.dataset, options.seed, "heldout"))
    else:
        heldout = np.isin(log.context, read_split(options.split, X.shape[0])["heldout"])
    merged, group = log.merge_duplicates()
    held = np.bincount(group, heldout).astype(int)
    write_log(options.output, merged, train=merged.count - held, heldout=held)
