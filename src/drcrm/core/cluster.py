"""Passes over a log by the workers of a Dask cluster, each of which holds some of its rows.

Of rows nothing travels over the network: workers read what they hold from a folder that all of them see. An evaluation
sends Θ and a few numbers to each share of the rows, and brings back two numbers, some sums for each step of the search
in the ball, and one slope in Θ. A worker that dies is survived: another one reads its rows, and finds z once more.

What is not a fit to all rows, as the cost model and fits to samples, is made where ``learn`` runs.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from ..errors import InputError
from .design import Design
from .estimates import Estimate
from .passes import passed
from .pieces import TOGETHER, Pieces, Worst
from .stored import StoredRows
from .sums import Sums, total
from .weights import Weight

_CLUSTER: ContextVar[Cluster | None] = ContextVar("cluster", default=None)
SHARES = 2  # of the rows for each thread of a worker, so that what a dead one held goes to more than one


@contextmanager
def on_cluster(client: Any, folder: str | Path | None = None) -> Iterator[None]:
    """Within, passes over all rows of large logs are made by the workers of a cluster.

    Of the mean and the KL ball, under "ips" and "dr": of others the worst case is no few sums.

    Parameters
    ----------
    client : distributed.Client
        Its workers have the same version of drcrm.
    folder : str or Path, optional
        One that all workers see under the same name; by default the system's for what is temporary, which they see on
        the same machine alone.
    """
    with TemporaryDirectory(prefix="drcrm-rows-", dir=folder) as name:
        token = _CLUSTER.set(Cluster(client, Path(name).absolute()))
        try:
            yield
        finally:
            _CLUSTER.reset(token)


def pieces_of(design: Design, weight: Weight, estimate: Estimate) -> Pieces | Scattered:
    """Return the pieces of an objective: with the workers, if there are some and it is of all rows, else here."""
    cluster = _CLUSTER.get()
    given = design, weight, estimate
    return Pieces(*given) if cluster is None or design.is_sample else cluster.scattered(*given)


class Cluster:
    """The workers, and what they hold."""

    def __init__(self, client: Any, folder: Path):
        self._client, self._folder, self._held, self._of = client, folder, [], (None, None, None)

    def scattered(self, design: Design, weight: Weight, estimate: Estimate) -> Scattered:
        """Return the pieces of an objective, held by the workers: those of the last one, if they are the same."""
        asked = design, estimate, repr(weight)
        if self._of != asked:
            self._held = self._scatter(design, weight, estimate)
            self._of = asked
        return Scattered(self._client, self._held, len(design.log.Y))

    def _scatter(self, design: Design, weight: Weight, estimate: Estimate) -> list:
        threads = sum(self._client.nthreads().values())
        if not threads:
            raise InputError("the cluster has no workers, expected at least one")
        blocks = np.arange(0, len(design.parts), TOGETHER)
        starts = [int(some[0]) for some in np.array_split(blocks, min(SHARES * threads, len(blocks)))]
        futures = []
        for number, ends in enumerate(pairwise([*starts, len(design.parts)])):
            path = self._folder / f"{number}.pickle"
            with path.open("wb") as file:
                of_design, of_estimate = share_of(design, estimate, *ends)
                pickle.dump((of_design, weight, of_estimate), file, protocol=5)
            futures.append(self._client.submit(_Held, str(path), pure=False))
        return futures


class Scattered:
    """The :class:`drcrm.core.pieces.Pieces` of an objective, of which each worker has some rows."""

    def __init__(self, client: Any, held: list, rows: int):
        self._client, self._held, self._rows = client, held, rows

    def forward(self, coef: np.ndarray) -> tuple[float, float]:
        self._coef = coef
        passed(self._rows)
        low, high = zip(*self._asked(_forward), strict=True)
        return float(np.min(low)), float(np.max(high))

    def summed(self, function: Callable[..., np.ndarray], *given) -> np.ndarray:
        return total(self._asked(_sums, function, *given))

    def gathered(self):
        raise InputError(
            "on a cluster a worst case is found by sums over rows, as those of the mean and the KL ball are, of costs "
            "that are not far beside their differences"
        )

    def backward(self, worst: Worst) -> np.ndarray:
        return total(self._asked(_slopes, worst))

    def _asked(self, function: Callable, *given) -> list:
        """What a function of what each worker holds says, in the order of the rows."""
        asked = [self._client.submit(function, each, self._coef, *given, pure=False) for each in self._held]
        return self._client.gather(asked)


class _Held:
    """A share of the rows, in the memory of a worker, with z at the last Θ that it was asked about."""

    def __init__(self, path: str):
        with open(path, "rb") as file:
            self._given = pickle.load(file)
        self._coef = None

    def at(self, coef: np.ndarray) -> Pieces:
        if self._coef is None or not np.array_equal(coef, self._coef):
            self._pieces = Pieces(*self._given)
            self.ends = self._pieces.forward(coef)
            self._coef = coef
        return self._pieces


def _forward(held: _Held, coef: np.ndarray) -> tuple[float, float]:
    held.at(coef)
    return held.ends


def _sums(held: _Held, coef: np.ndarray, function: Callable, *given) -> Sums:
    return held.at(coef).sums(function, *given)


def _slopes(held: _Held, coef: np.ndarray, worst: Worst) -> Sums:
    return held.at(coef).slopes(worst)


def share_of(design: Design, estimate: Estimate, first: int, last: int) -> tuple[Design, Estimate]:
    """Return design and estimate of the parts from ``first`` to before ``last``; rows keep their shares of all."""
    log, held = design.log, (design.log.X, design.effects)
    contexts, rows = design.parts.between(first, last)
    actions, *found = log.actions.part(contexts, *(None if isinstance(each, StoredRows) else each for each in held))
    place = log.actions.place(contexts)
    X, effects = (
        each.between(place) if isinstance(each, StoredRows) else some for each, some in zip(held, found, strict=True)
    )
    context = log.context[rows] - contexts.start
    starts = design.parts.starts(first, last)
    share = Design(log.some(rows, context, X, actions), effects, design.intercept, design.trains, starts)
    return share, estimate.part(rows, context)
