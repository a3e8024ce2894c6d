"""Dask clusters: ``with drcrm.cluster.on_cluster(client): …``.

Only functions, their arguments and results travel over the network. The executor writes the chunks of a log to a folder
that all workers see, and each worker reads its shares once. For a memory-mapped array, it writes the path of its file.
"""

import ctypes
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4
from weakref import WeakKeyDictionary, finalize

import numpy as np

from drcrm.arrays.mapped_arrays import MappedPickler
from drcrm.data.chunked_log import ChunkExecutor, Chunks, Task, current_executor, use_executor
from drcrm.errors import InputError

FEW = 16  # up to this number of chunks (half a million contexts), this machine is faster than a cluster
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, KEPT = -1, -3, 2**25  # two options of glibc's mallopt, and their value in bytes
Share = tuple[Any, int, int]  # future of a share of the chunks, and where it starts and stops


@contextmanager
def on_cluster(client: Any, folder: str | Path | None = None) -> Iterator[None]:
    """Compute on the workers of a Dask cluster inside the ``with`` block.

    Inside the block, drcrm works on large logs chunk by chunk on the workers. Logs of up to 16 chunks (half a million
    contexts) stay on this machine, which is faster for them.

    Parameters
    ----------
    client : distributed.Client
        Client of the cluster. Its workers need the same version of drcrm.
    folder : str or Path, optional
        Folder that all workers see under the same name. The default is the system's folder for temporary files, which
        only workers on the same machine see.

    Raises
    ------
    InputError
        Inside the block, if the cluster has no workers.

    Examples
    --------
    >>> with on_cluster(Client("tcp://scheduler:8786"), folder="/shared"):  # doctest: +SKIP
    ...     policy = KLDRO().fit(X, Y, propensity=p, cost=c)
    """
    with TemporaryDirectory(dir=folder, prefix=".drcrm-") as name, use_executor(DaskExecutor(client, name)):
        yield


class DaskExecutor(ChunkExecutor):
    """Executor whose workers hold shares of the chunks, one for each thread; see ``on_cluster``.

    Work that is too small for the cluster stays on this machine, with the executor that was current before. If a worker
    dies, Dask reads its share again on another worker and repeats the tasks.
    """

    def __init__(self, client: Any, folder: str | Path):
        self._client, self._folder, self._local = client, Path(folder).absolute(), current_executor()
        self._shares: WeakKeyDictionary[Chunks, list[Share]] = WeakKeyDictionary()

    def run(self, calls: Iterable[Callable[[], object]]) -> Iterator:
        return self._local.run(calls)

    def map_chunks(self, chunks: Chunks, task: Task, values: Sequence[tuple]) -> Iterator:
        if len(chunks) <= FEW:
            return self._local.map_chunks(chunks, task, values)
        results = self._submit(chunks, task, values)
        return (result for share, *_ in results for result in share.result())

    def transform_chunks(self, chunks: Chunks, task: Task) -> Chunks:
        if len(chunks) <= FEW:
            return super().transform_chunks(chunks, task)
        results = Chunks([None] * len(chunks))  # they stay on the workers
        self._shares[results] = self._submit(chunks, task, [()] * len(chunks))
        return results

    def _submit(self, chunks: Chunks, task: Task, values: Sequence[tuple]) -> list[Share]:
        """Return the future results of a task for each share of the chunks."""
        if chunks not in self._shares:
            workers = [worker for worker, threads in self._client.nthreads().items() for _ in range(threads)]
            if not workers:
                raise InputError("the cluster has no workers, expected at least one")
            ends = np.linspace(0, len(chunks), len(workers) + 1).round().astype(int).tolist()
            submit = partial(self._client.submit, _read_share, pure=False, allow_other_workers=True)
            self._shares[chunks] = [
                (submit(self._write_share(chunks[start:stop], chunks), workers=[worker]), start, stop)
                for worker, (start, stop) in zip(workers, pairwise(ends), strict=True)
            ]
        return [
            (self._client.submit(task, share, values[start:stop], pure=False), start, stop)
            for share, start, stop in self._shares[chunks]
        ]

    def _write_share(self, share: list, chunks: Chunks) -> str:
        """Write a share to a file and return its path; the file is removed with the chunks."""
        path = self._folder / f"{uuid4().hex}.pickle"
        with path.open("wb") as file:
            MappedPickler(file, protocol=5).dump(share)
        finalize(chunks, path.unlink, missing_ok=True)
        return str(path)


def _read_share(path: str) -> list:
    """Return the chunks of a file.

    The C library then reuses the memory of temporary arrays. Dask starts workers with MALLOC_TRIM_THRESHOLD_=65536,
    which stops glibc from raising its limits. Each freed array above 128 kB would return its memory to the system, and
    evaluations would take twice as long.
    """
    with suppress(OSError, AttributeError):  # C libraries other than glibc raise these
        for option in (M_TRIM_THRESHOLD, M_MMAP_THRESHOLD):
            ctypes.CDLL(None).mallopt(option, KEPT)
    with open(path, "rb") as file:
        return pickle.load(file)
