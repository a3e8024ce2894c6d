"""Train the skyline on full supervision, as π0 is, with C from 10^-2 … 10^2 by greedy loss on the held-out contexts,
climbed until that loss rises.

Reads   --train: labelled contexts; --split: which are trained on and which held out.
Writes  --output: npz with coef (features + 1, labels), and C, the chosen value.
"""

import argparse

import numpy as np

from drcrm.experiments.datasets.array_files import read_split, write_policy
from drcrm.experiments.datasets.truths import read_truth
from drcrm.experiments.steps import add_shared

GRID = tuple(10.0**k for k in range(-2, 3))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_shared(parser, "train", "split", "output")


def run(options: argparse.Namespace) -> None:
    X, truth = read_truth(options.train)
    split = read_split(options.split, X.shape[0])
    train, heldout = split["train"], split["heldout"]
    policy, C = truth[train].skyline(X[train], X[heldout], truth[heldout], GRID)
    write_policy(options.output, policy, C=np.array(C))
