"""The paper's lemmas in numbers: python studies/theory.py table … and python studies/theory.py figure …

    python studies/theory.py table --lemma lemma1 --dataset digits --seed 0 --repetitions 2000 --train NPZ --output CSV
    python studies/theory.py figure --figure width --table CSV --output PDF SVG PNG

``table`` tabulates a lemma, as :mod:`lemma_tables` describes. The training contexts of the data set are the whole
population. ``figure`` draws a figure of ``theory.yaml`` from the table of its lemma.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import yaml

from drcrm.errors import InputError, prefix_errors

LEMMA_FIGURES = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))


def write_table(options: argparse.Namespace) -> None:
    """Write the table of a lemma. Lemma 1 draws ``repetitions`` samples of each size, and Lemma 2 at most 50."""
    from lemma_tables import LEMMA_COLUMNS, TABLES
    from population import draw_policies, enumerate_losses

    from drcrm.files import write_csv
    from drcrm.paper.array_files import read_truth
    from drcrm.paper.simulation import generator

    X, truth = read_truth(options.train)
    with prefix_errors(options.train):
        labels = truth.labels
        policies = draw_policies(X, labels, generator(options.dataset, options.seed, "theory"))
        populations = enumerate_losses(*policies, X, labels)
        rng = generator(options.dataset, options.seed, options.lemma)
        rows = list(TABLES[options.lemma](populations, options.repetitions, rng))
    write_csv(options.output, LEMMA_COLUMNS[options.lemma], rows)


def write_figure(options: argparse.Namespace) -> None:
    """Draw a figure, and write it in the format of each suffix."""
    from lemma_figures import FIGURES
    from lemma_tables import LEMMA_COLUMNS

    from drcrm.files import read_csv
    from drcrm.paper.reports import figures

    table = read_csv(options.table, LEMMA_COLUMNS[LEMMA_FIGURES[options.figure]["lemma"]])
    figures.write_figure(FIGURES[options.figure], table, options.output)


def parse_arguments(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    table = commands.add_parser("table")
    table.set_defaults(write=write_table)
    table.add_argument("--lemma", choices={figure["lemma"] for figure in LEMMA_FIGURES.values()}, required=True)
    for name, kind in (("dataset", str), ("seed", int), ("repetitions", int), ("train", str), ("output", str)):
        table.add_argument(f"--{name}", type=kind, required=True)
    figure = commands.add_parser("figure")
    figure.set_defaults(write=write_figure)
    figure.add_argument("--figure", choices=LEMMA_FIGURES, required=True)
    figure.add_argument("--table", required=True)
    figure.add_argument("--output", nargs="+", required=True)
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> None:
    # numpy reads these variables when it is imported. A small fit is several times slower with two BLAS threads.
    os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))
    options = parse_arguments(arguments)
    options.write(options)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (InputError, OSError) as error:
        sys.exit(f"theory: {error}")
