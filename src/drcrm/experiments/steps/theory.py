"""Tabulate the paper's lemmas for losses with a known distribution."""

from collections.abc import Mapping
from typing import Any

from drcrm.errors import prefix_errors
from drcrm.experiments.columns import LEMMA_COLUMNS
from drcrm.experiments.datasets.array_files import read_truth
from drcrm.experiments.lemmas import TABLES
from drcrm.experiments.simulation.population import draw_policies, enumerate_losses
from drcrm.experiments.simulation.random_generators import generator
from drcrm.files import write_csv


def theory_table(inputs: Mapping[str, str], outputs: Mapping[str, str], parameters: Mapping[str, Any]) -> None:
    """Tabulate a ``lemma``. The training contexts of the data set are the whole population.

    Reads ``train``. Writes ``table``: csv with columns that :mod:`drcrm.experiments.lemmas` describes.
    Lemma 1 draws ``repetitions`` samples of each size, and Lemma 2 as many but at most 50.
    """
    lemma, dataset, seed = parameters["lemma"], parameters["dataset"], parameters["seed"]
    X, truth = read_truth(inputs["train"])
    with prefix_errors(inputs["train"]):
        labels = truth.vectors
        policies = draw_policies(X, labels, generator(dataset, seed, "theory"))
        populations = enumerate_losses(*policies, X, labels)
        rows = list(TABLES[lemma](populations, parameters["repetitions"], generator(dataset, seed, lemma)))
    write_csv(outputs["table"], LEMMA_COLUMNS[lemma], rows)
