"""The workers of a Dask cluster, where a command is given one."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from drcrm.data.dask_executor import use_cluster
from drcrm.errors import InputError
from drcrm.logs.mapping import import_extra

PATIENCE = 30  # seconds, for a scheduler that does not answer


@contextmanager
def workers_of(options: argparse.Namespace, tell: Callable[[str], None]) -> Iterator[None]:
    """Within, the workers of the cluster make fits, if ``options`` name a cluster."""
    if options.cluster is None:
        yield
        return
    tell(f"connecting to {options.cluster}")
    distributed = import_extra("distributed", "dask")
    try:
        client = distributed.Client(options.cluster, timeout=PATIENCE, set_as_default=False)
    except (OSError, ValueError) as error:
        raise InputError(f"--cluster {options.cluster} does not answer: {' '.join(str(error).split())}") from None
    with client, use_cluster(client, options.output.parent):
        yield
