"""Draw the contexts that train π0, and those held out.

Reads   --train: labelled contexts.
Writes  --output: npz with the context numbers logging, train and heldout. Under --split-unit context the logging
        contexts come from the training part, under row from all.
"""

import argparse

from drcrm.errors import prefix_errors
from drcrm.experiments.datasets.array_files import read_contexts
from drcrm.experiments.simulation.split import split_contexts
from drcrm.experiments.steps import add_shared, fraction, generator
from drcrm.files import write_npz


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_shared(parser, "train", "split-unit", "dataset", "seed", "output")
    parser.add_argument("--logging-fraction", type=fraction, required=True, help="share of contexts that train π0")
    parser.add_argument("--heldout-fraction", type=fraction, required=True, help="share that is held out")


def run(options: argparse.Namespace) -> None:
    X, _ = read_contexts(options.train)
    rng = generator(options.dataset, options.seed, "split")
    shares = options.logging_fraction, options.heldout_fraction
    with prefix_errors(options.train):
        split = split_contexts(X.shape[0], options.split_unit, *shares, rng)
    write_npz(options.output, **split)
