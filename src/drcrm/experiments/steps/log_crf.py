"""Train the logging policy π0 on its share of the training contexts: a CRF, or of one action of K a softmax regression.

Reads   --train: labelled contexts; --split: which of them are π0's.
Writes  --output: npz with coef (features + 1, labels), times --logging-sharpness, and absent, which labels had no
        positive and are logged as 0, or which classes had no context.
"""

import argparse

from drcrm.experiments.datasets.array_files import read_split, write_policy
from drcrm.experiments.datasets.truths import read_truth
from drcrm.experiments.steps import add_shared, positive


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_shared(parser, "train", "split", "output")
    parser.add_argument("--logging-c", type=positive, required=True, help="inverse regularisation C")
    parser.add_argument(
        "--logging-sharpness", type=positive, default=1.0, help="η, by which coefficients are multiplied"
    )


def run(options: argparse.Namespace) -> None:
    X, truth = read_truth(options.train)
    rows = read_split(options.split, X.shape[0])["logging"]
    share = truth[rows]
    policy = share.logging_policy(X[rows], options.logging_c, options.logging_sharpness)
    write_policy(options.output, policy, absent=share.absent())
