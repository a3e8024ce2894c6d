"""Costs on which a risk is evaluated, in one array or in chunks."""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np


class ChunkedCosts(Protocol):
    """Costs z and shares w/n of all rows, stored in chunks."""

    def __len__(self) -> int:
        """Return the number of chunks."""

    def range(self) -> tuple[float, float]:
        """Return the smallest and the largest cost."""

    def sum(self, function: Callable[..., np.ndarray], *arguments: object) -> np.ndarray:
        """Return the sum of ``function(z, share, *arguments)`` over all chunks."""

    def gather(self) -> tuple[np.ndarray, np.ndarray]:
        """Return z and share of all rows."""


class CostArrays:
    """Costs and shares in arrays, which are split into chunks: see :class:`ChunkedCosts`."""

    def __init__(self, z: np.ndarray, share: np.ndarray, n_chunks: int = 1):
        self._z, self._share = z, share
        self.chunks = (
            [(z, share)] if n_chunks == 1 else [*zip(*(np.array_split(a, n_chunks) for a in (z, share)), strict=True)]
        )

    def __len__(self) -> int:
        return len(self.chunks)

    def range(self) -> tuple[float, float]:
        return self._z.min(), self._z.max()

    def sum(self, function: Callable[..., np.ndarray], *arguments: object) -> Any:
        first, *others = (function(*chunk, *arguments) for chunk in self.chunks)
        return sum(others, first)

    def gather(self) -> tuple[np.ndarray, np.ndarray]:
        return self._z, self._share


class UnitCosts:
    """Costs in units of their range, d = (z − largest)/span, of costs z in chunks."""

    def __init__(self, costs: ChunkedCosts, largest: float, span: float):
        self._costs, self._unit = costs, (largest, span)

    def sum(self, function: Callable[..., np.ndarray], *arguments: object) -> np.ndarray:
        """Return the sum of ``function(d, share, *arguments)`` over all chunks."""
        return self._costs.sum(apply_to_unit_costs, function, *self._unit, *arguments)


def apply_to_unit_costs(
    z: np.ndarray, share: np.ndarray, function: Callable, largest: float, span: float, *arguments: object
) -> np.ndarray:
    """Return ``function(d, share, *arguments)`` of costs z."""
    distance = z - largest
    distance /= span
    return function(distance, share, *arguments)
