"""Classify logged actions, one of K, weighted by their rewards: what peers do in place of an estimate and a risk.

Reads   --log: npz from replay, whose training part is classified; --test: labelled contexts.
Writes  --output: npz with probability (contexts, actions), of each action in each test context.

The rows are weighted by c_max − c, c_max the largest logged cost, or with --weights inverse_propensity by that over
their propensities, up to 100. An action without such a row has probability 0.
"""

import argparse
from pathlib import Path

from drcrm.errors import prefix_errors
from drcrm.experiments.classifiers import CLASSIFIERS, WEIGHTS, classified
from drcrm.experiments.datasets.array_files import read_contexts, read_log
from drcrm.experiments.steps import add_shared, generator, require
from drcrm.files import write_npz


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_shared(parser, "log", "dataset", "seed", "output")
    parser.add_argument("--test", type=Path, required=True, help="npz from fetch")
    parser.add_argument("--classifier", choices=CLASSIFIERS, required=True, help="logistic regression or boosted trees")
    parser.add_argument("--weights", choices=WEIGHTS, default=WEIGHTS[0], help="of the rows, beside their rewards")


def run(options: argparse.Namespace) -> None:
    train, _ = read_log(options.log)
    X, _ = read_contexts(options.test)
    with prefix_errors(options.log):
        require("n_actions" in train.actions.log_options, f"it has {train.actions}, expected one action of K a row")
        said = f"it has {train.X.shape[1]} features, expected {X.shape[1]} as in {options.test}"
        require(train.X.shape[1] == X.shape[1], said)
        seed = int(generator(options.dataset, options.seed, "classify").integers(2**31))
        probability = classified(train, X, options.classifier, options.weights, seed)
    write_npz(options.output, probability=probability)
