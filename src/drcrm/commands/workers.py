"""The workers of a Dask cluster, where a command is given one."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager

from ..core.cluster import on_cluster
from ..errors import InputError
from ..logs.mapping import import_extra

PATIENCE = 30  # seconds, for a scheduler that does not answer


def add_cluster(parser: argparse.ArgumentParser) -> None:
    what = "of a Dask scheduler, tcp://HOST:PORT, whose workers pass over large logs; they see the output's folder"
    parser.add_argument("--cluster", metavar="ADDRESS", help=what)


@contextmanager
def workers_of(options: argparse.Namespace) -> Iterator[None]:
    """Within, fits are made by the workers of the cluster that was asked for, if one was."""
    if options.cluster is None:
        yield
        return
    distributed = import_extra("distributed", "dask")
    try:
        client = distributed.Client(options.cluster, timeout=PATIENCE, set_as_default=False)
    except (OSError, ValueError) as error:
        raise InputError(f"--cluster {options.cluster} does not answer: {' '.join(str(error).split())}") from None
    with client, on_cluster(client, options.output.parent):
        yield
