"""Executor on the workers of a Dask cluster, each of which holds some of the chunks.

Only functions, their arguments and results travel over the network. The executor writes the chunks to a folder that all
workers see, and each worker reads its chunks once. For a memory-mapped array, it writes the path of the array's file.
If a worker dies, the remaining workers get new shares of the chunks.
"""

import ctypes
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import uuid4
from weakref import WeakKeyDictionary, finalize

import numpy as np

from drcrm.arrays.mapped_arrays import MappedPickler, folder_prefix
from drcrm.data.executors import ChunkExecutor, Chunks, ChunkTask, ThreadExecutor, current_executor, use_executor
from drcrm.errors import InputError
from drcrm.files import locked_folder

FEW = 16  # up to this number of chunks (half a million contexts), this machine is faster than a cluster
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, KEPT = -1, -3, 2**25  # two options of glibc's mallopt, and their value in bytes
ATTEMPTS = 5  # how often a map is tried, each time on the remaining workers
PATIENCE = 60  # seconds to wait for a worker to restart


@contextmanager
def use_cluster(client: Any, folder: str | Path | None = None) -> Iterator[None]:
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
    with locked_folder(folder, folder_prefix()) as name, use_executor(DaskExecutor(client, name)):
        yield


class DaskExecutor(ChunkExecutor):
    """Executor whose workers hold shares of the chunks as actors; see ``use_cluster``.

    A direct call to an actor takes 2 ms; a task that goes through the scheduler takes 20 ms. Work that is too small for
    the cluster stays on this machine, with the executor that was current before.
    """

    def __init__(self, client: Any, folder: str | Path):
        self._client, self._folder, self._local = client, Path(folder).absolute(), current_executor()
        self._shares: WeakKeyDictionary[Chunks, list] = WeakKeyDictionary()

    def run(self, calls: Iterable[Callable[[], object]]) -> Iterator:
        return self._local.run(calls)

    def map_chunks(self, chunks: Chunks, task: ChunkTask, values: Sequence[tuple]) -> Iterator:
        if len(chunks) <= FEW:
            yield from self._local.map_chunks(chunks, task, values)
            return
        for outcome in self._outcomes(chunks, task, values):
            if isinstance(outcome, Exception):
                raise outcome
            yield from outcome

    def _outcomes(self, chunks: Chunks, task: ChunkTask, values: Sequence[tuple]) -> list:
        """Return the results of each share, or the exception that it raised.

        If a worker is lost, distribute all chunks among the remaining workers and repeat the map.
        """
        attempts = 0
        while True:
            if not self._client.nthreads():
                raise InputError("the cluster has no workers, expected at least one")
            try:
                with self._client.as_current():
                    calls = [
                        share.map(task, values[start:stop], threads)
                        for share, start, stop, threads in self._shares_of(chunks)
                    ]
                    return [call.result() for call in calls]
            except MemoryError:
                raise
            except Exception:
                self._shares.pop(chunks, None)
                attempts += 1
                if attempts == ATTEMPTS:
                    raise
                with suppress(TimeoutError):
                    self._client.wait_for_workers(1, timeout=PATIENCE)

    def _shares_of(self, chunks: Chunks) -> list[tuple[Any, int, int, int]]:
        """Return the actor, start, stop and number of threads of each share, which has the chunks start to stop − 1."""
        if chunks not in self._shares:
            workers = sorted(self._client.nthreads().items())
            groups = -(-len(chunks) // chunks.group)
            parts = np.cumsum([0, *(threads for _, threads in workers)]) / sum(threads for _, threads in workers)
            ends = np.minimum(chunks.group * np.round(groups * parts).astype(int), len(chunks)).tolist()
            submit = partial(self._client.submit, _Share, actor=True, pure=False, allow_other_workers=True)
            futures = [
                (submit(self._write_share(chunks, start, stop), workers=[worker]), start, stop, threads)
                for (start, stop), (worker, threads) in zip(pairwise(ends), workers, strict=True)
                if start < stop
            ]
            self._shares[chunks] = [(future.result(), *share) for future, *share in futures]
        return self._shares[chunks]

    def _write_share(self, chunks: Chunks, start: int, stop: int) -> str:
        """Write a share of the chunks to a file and return its path; the file is removed with the chunks."""
        path = self._folder / f"{uuid4().hex}.pickle"
        with path.open("wb") as file:
            MappedPickler(file, protocol=5).dump(chunks[start:stop])
        finalize(chunks, path.unlink, missing_ok=True)
        return str(path)


class _Share:
    """The chunks of one worker."""

    def __init__(self, path: str):
        _keep_freed_memory()
        with open(path, "rb") as file:
            self._chunks = pickle.load(file)

    def map(self, task: ChunkTask, values: Sequence[tuple], threads: int) -> Any:
        """Return the results, or the exception that the function raised."""
        try:
            if threads == 1:
                return task.run(self._chunks, values)
            with ThreadExecutor(threads) as executor:
                return [*executor.map_chunks(Chunks(self._chunks), task, values)]
        except Exception as error:
            return error


def _keep_freed_memory() -> None:
    """Let the C library reuse the memory of temporary arrays.

    Dask starts workers with MALLOC_TRIM_THRESHOLD_=65536, which stops glibc from raising its limits. Each freed array
    above 128 kB would then return its memory to the system, and the next array would request it again. Evaluations
    would take twice as long.
    """
    with suppress(OSError, AttributeError):  # C libraries other than glibc raise these
        for option in (M_TRIM_THRESHOLD, M_MMAP_THRESHOLD):
            ctypes.CDLL(None).mallopt(option, KEPT)
