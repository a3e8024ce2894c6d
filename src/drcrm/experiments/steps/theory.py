"""Tabulate what a lemma says of losses whose law is known: a data set's training contexts are the whole population.

Reads   --train: labelled contexts.
Writes  --output: csv; what is in it, drcrm/experiments/simulation/theory.py says.
"""

import argparse

from drcrm.errors import prefix_errors
from drcrm.experiments.columns import LEMMA_COLUMNS
from drcrm.experiments.datasets.truths import read_truth
from drcrm.experiments.simulation.population import draw_policies, enumerate_losses
from drcrm.experiments.simulation.theory import TABLES
from drcrm.experiments.steps import add_shared, generator, whole
from drcrm.files import write_csv


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_shared(parser, "train", "dataset", "seed", "output")
    parser.add_argument("lemma", choices=TABLES)
    parser.add_argument("--repetitions", type=whole(1), required=True, help="samples of each size, of Lemmas 1 and 2")


def run(options: argparse.Namespace) -> None:
    X, truth = read_truth(options.train)
    with prefix_errors(options.train):
        labels = truth.vectors
        policies = draw_policies(X, labels, generator(options.dataset, options.seed, "theory"))
        populations = enumerate_losses(*policies, X, labels)
        rng = generator(options.dataset, options.seed, options.lemma)
        rows = list(TABLES[options.lemma](populations, options.repetitions, rng))
    write_csv(options.output, LEMMA_COLUMNS[options.lemma], rows)
