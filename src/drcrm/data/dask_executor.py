"""Executor on the workers of a Dask cluster, each of which holds some of the chunks.

Chunks do not travel over the network: the executor writes them to a folder that all workers see, with mapped arrays as
the paths of their files, and each worker reads its own once. Functions, their arguments and results travel. If a worker
dies, another one reads its chunks.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4
from weakref import WeakKeyDictionary, finalize

import numpy as np

from ..errors import InputError
from .executors import ChunkExecutor, Chunks, using
from .mapped_arrays import MappedPickler, folder_prefix

FEW = 16  # chunks that are mapped over faster here: half a million contexts
SHARES = 2  # of the chunks for each thread of a worker, so that the share of a dead worker goes to several others


@contextmanager
def using_cluster(client: Any, folder: str | Path | None = None) -> Iterator[None]:
    """Map functions over chunks by the workers of a Dask cluster inside the ``with`` block.

    Parameters
    ----------
    client : distributed.Client
        Its workers have the same version of drcrm.
    folder : str or Path, optional
        A folder that all workers see under the same name; by default the system's folder for temporary files, which
        only workers on the same machine see.

    Raises
    ------
    InputError
        A cluster without workers.
    """
    with TemporaryDirectory(prefix=folder_prefix(), dir=folder) as name, using(DaskExecutor(client, name)):
        yield


class DaskExecutor(ChunkExecutor):
    """Executor whose workers hold shares of the chunks; see ``using_cluster``."""

    def __init__(self, client: Any, folder: str | Path):
        self._client, self._folder = client, Path(folder).absolute()
        self._shares: WeakKeyDictionary[Chunks, list] = WeakKeyDictionary()

    def submit(self, function: Callable, /, *arguments, **keywords):
        return self._client.submit(function, *arguments, **keywords, pure=False)

    def map_chunks(
        self, chunks: Chunks, mapped: Callable, function: Callable, arguments: tuple, values: list[tuple] | None
    ) -> Iterator:
        if len(chunks) <= FEW:
            yield from super().map_chunks(chunks, mapped, function, arguments, values)
            return
        futures = [
            self.submit(mapped, share, function, arguments, values and values[start:stop])
            for share, start, stop in self._shares_of(chunks)
        ]
        for results in self._client.gather(futures):
            yield from results

    def run(self, calls: Iterable[Callable[[], object]]) -> Iterator:
        return (call() for call in calls)

    def _shares_of(self, chunks: Chunks) -> list[tuple[Any, int, int]]:
        """Return a future of each share of the chunks, which a worker holds, and where the share starts and stops."""
        if chunks not in self._shares:
            threads = self._client.nthreads()
            if not threads:
                raise InputError("the cluster has no workers, expected at least one")
            workers = [worker for worker, count in sorted(threads.items()) for _ in range(SHARES * count)]
            groups = -(-len(chunks) // chunks.group)
            shares = min(len(workers), groups)
            ends = chunks.group * np.linspace(0, groups, shares + 1).astype(int)
            ends = np.minimum(ends, len(chunks)).tolist()
            self._shares[chunks] = [
                (self._held(chunks, slice(start, stop), workers[number * len(workers) // shares]), start, stop)
                for number, (start, stop) in enumerate(pairwise(ends))
            ]
        return self._shares[chunks]

    def _held(self, chunks: Chunks, share: slice, worker: str):
        """Return a future of a share of the chunks; its file is removed with the chunks."""
        path = self._folder / f"{uuid4().hex}.pickle"
        with path.open("wb") as file:
            MappedPickler(file, protocol=5).dump(chunks[share])
        finalize(chunks, path.unlink, missing_ok=True)
        return self._client.submit(_load, str(path), pure=False, workers=[worker], allow_other_workers=True)


def _load(path: str) -> list:
    with open(path, "rb") as file:
        return pickle.load(file)
