"""Train the logging policy π0, a CRF, on its share of the training contexts.

Reads   --train: labelled contexts; --split: which of them are π0's.
Writes  --output: npz with coef (features + 1, labels), and absent, which labels had no positive and are logged as 0.
"""

import argparse

from ...simulation.crf import absent_labels, fit_crf
from ..formats import read_contexts, read_split, write_policy
from . import add_shared, positive


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_shared(parser, "train", "split", "output")
    parser.add_argument("--logging-c", type=positive, required=True, help="inverse regularisation C of the CRF")


def run(options: argparse.Namespace) -> None:
    X, labels = read_contexts(options.train)
    rows = read_split(options.split, X.shape[0])["logging"]
    policy = fit_crf(X[rows], labels[rows], options.logging_c)
    write_policy(options.output, policy, absent=absent_labels(labels[rows]))
