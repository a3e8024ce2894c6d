"""Run a study, by hand or from a Snakemake rule.

    python studies coverage --repetitions 0 5 --output ROWS
    python studies obd --repetitions 0 1 --resources resources/studies/obd --options JSON --output ROWS
    python studies support --run RUN --resources RESOURCES --dataset scene --seed 0 --options JSON --output ROWS
    python studies support --rows ROWS … --output TABLE

The first three commands measure repetitions, here 0 to 4, or a finished run. RUN is the folder of the run
(results/sharpness/runs/scene/seed0), RESOURCES that of its data set (resources/scene). The options are the study's
entry in config.yaml, with the entries of its algorithms. The last command joins the rows, writes the study's table and
prints its summary. A study is a module of this folder with the function ``measure``. Its docstring describes the table.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import json
import os
import sys
import warnings
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from drcrm.errors import InputError

if TYPE_CHECKING:
    import pandas as pd


def questions() -> dict[str, str]:
    """Return the question of each study, the first line of its docstring, by name."""
    texts = {path.stem: path.read_text(encoding="utf-8") for path in sorted(Path(__file__).parent.glob("[a-z]*.py"))}
    studies = {name: ast.get_docstring(ast.parse(text)) for name, text in texts.items() if "\ndef measure(" in text}
    return {name: (text or name).splitlines()[0] for name, text in studies.items()}


def parse_arguments(arguments: list[str]) -> argparse.Namespace:
    studies = questions()
    parser = argparse.ArgumentParser(
        "studies",
        description=__doc__,
        epilog="\n".join(f"{name:24}{question}" for name, question in studies.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", choices=studies)
    parser.add_argument("--repetitions", type=int, nargs=2, default=(0, 1), metavar=("FIRST", "END"))
    parser.add_argument("--run", type=Path, help="folder of a finished run, with its logging policy")
    parser.add_argument("--resources", type=Path, help="folder of the run's data set, or of the files that are read")
    parser.add_argument("--dataset", help="name of the data set")
    parser.add_argument("--seed", type=int, help="number of the run")
    parser.add_argument("--rows", type=Path, nargs="+", metavar="CSV", help="measured rows, to be joined")
    parser.add_argument("--options", type=json.loads, default={}, metavar="JSON")
    parser.add_argument("--output", type=Path, required=True, metavar="CSV")
    return parser.parse_args(arguments)


def measure(options: argparse.Namespace) -> Iterator[dict]:
    """Yield the rows of a run, or of some repetitions."""
    study, settings = import_module(options.name), dict(options.options)
    if options.run:
        finished = import_module("finished")  # imported here, since only these studies depend on it
        places = [finished.read_run(options.run, options.resources, options.dataset, options.seed)]
    else:
        places = range(*options.repetitions)
        settings |= {"resources": options.resources} if options.resources else {}
    try:
        inspect.signature(study.measure).bind(places[0], **settings)
    except TypeError as error:
        raise InputError(f"studies.{options.name}: {error}; its options are the parameters of measure") from None
    with warnings.catch_warnings(action="ignore"):  # the tables measure what they warn about
        for place in places:
            yield from study.measure(place, **settings)


def tabulate(name: str, rows: pd.DataFrame) -> pd.DataFrame:
    """Return the table of a study. Without a function ``tabulate`` in its module, these are the rows."""
    return getattr(import_module(name), "tabulate", lambda rows: rows)(rows)


def summarise(name: str, table: pd.DataFrame, function: str = "summary") -> pd.DataFrame:
    """Return the table that pages include, the whole one if the study's module has no function ``summary``."""
    return getattr(import_module(name), function, lambda table: table)(table)


def main(arguments: list[str]) -> None:
    # numpy reads these variables when it is imported. A small fit is several times slower with two BLAS threads.
    os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))
    options = parse_arguments(arguments)
    import pandas as pd

    from drcrm.files import atomic, read_csv

    if options.rows:
        rows = pd.concat([read_csv(path, []) for path in options.rows], ignore_index=True)
        table = tabulate(options.name, rows)
        print(summarise(options.name, table).to_string(index=False))
    else:
        table = pd.DataFrame(measure(options))
    with atomic(options.output) as part:
        table.to_csv(part, index=False, float_format="%.6g" if options.rows else None)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (InputError, OSError) as error:
        sys.exit(f"studies: {error}")
