"""Fetch a file as it is, and check its digest.

Reads   the file of the name of --output, from --folder of the mirror.
Writes  --output: the same bytes.
"""

import argparse
from pathlib import Path

from drcrm.experiments.datasets.sources import Source
from drcrm.experiments.steps import add_shared


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--mirror", default="", help="folder or address")
    parser.add_argument("--folder", required=True, help="folder in the mirror that has the file")
    parser.add_argument("--sha256", required=True, metavar="DIGEST", help="digest that the file must have")
    add_shared(parser, "output")


def run(options: argparse.Namespace) -> None:
    output: Path = options.output
    mirror = f"{options.mirror.rstrip('/')}/{options.folder}" if options.mirror else None
    Source(mirror=mirror, sha256={output.name: options.sha256}).fetch(output.name, output.parent)
