"""An objective on a log in parts: forward from Θ to the z of each part, sums over all z, and back to the slope in Θ.

What a risk asks of all z are a few sums for each step of its search: see ``Risk.over``. So z are wherever their rows
are, and nothing that is as long as the log is passed on.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from .parts import Part
from .passes import mapped, passed

if TYPE_CHECKING:
    from .objective import Objective

Worst = np.ndarray | Callable[[np.ndarray, np.ndarray], np.ndarray]


class Pieces:
    """z of an objective, and the share that each row has of the log, part by part.

    Of rows that lie on disk z alone is held, and what else a pass forward found is found once more on the way back.

    Parameters
    ----------
    objective : Objective
        With an estimate of which each z is of its row.
    """

    def __init__(self, objective: Objective):
        self._design, self._weight, self._estimate = objective.design, objective.weight, objective.estimate
        self._z, self._found = [None] * len(self._design.parts), [None] * len(self._design.parts)

    def forward(self, coef: np.ndarray) -> tuple[float, float]:
        """Find z at Θ; return the least and the largest, NaN where any is."""
        self._coef = coef.reshape(self._design.shape)
        passed(len(self._design.log.Y))
        ends = np.array(list(mapped(self._forward, range(len(self._z)))))
        return float(ends[:, 0].min()), float(ends[:, 1].max())

    def summed(self, function: Callable[..., np.ndarray], *given) -> np.ndarray:
        """Return Σ function(z, share, *given) over the parts, in their order."""
        share = self._estimate.share
        return reduce(
            np.add, mapped(lambda each: function(self._z[each], share[self._rows(each)], *given), range(len(self._z)))
        )

    def gathered(self) -> tuple[np.ndarray, np.ndarray]:
        """Return all z and shares, (n,), part after part."""
        return np.concatenate(self._z), np.concatenate(
            [self._estimate.share[self._rows(each)] for each in range(len(self._z))]
        )

    def backward(self, worst: Worst) -> np.ndarray:
        """Return the slope in Θ, flat.

        ``worst`` are the slopes in z, (n,), part after part, or a function of (z, share) of some rows that says them.
        """
        if not callable(worst):
            ends = np.cumsum([len(each) for each in self._z])
            of_parts = np.split(worst, ends[:-1])
        return reduce(
            np.add,
            mapped(
                lambda each: self._backward(each, worst if callable(worst) else of_parts[each]), range(len(self._z))
            ),
        ).ravel()

    def _rows(self, number: int):
        return self._design.parts.rows(number)

    def _forward(self, number: int) -> tuple[float, float]:
        part = self._design.parts[number]
        found = self._passed(part)
        _, weight, _, expected, _ = found
        self._z[number] = z = found[0].z(weight, expected)
        self._found[number] = None if self._design.parts.are_stored else found
        return z.min(), z.max()

    def _passed(self, part: Part) -> tuple:
        """A part's estimate, weights, their slopes in log π, the expected modelled costs, and μ."""
        log_prob, expected, mean = self._design.forward_part(part, self._coef)
        weight, slope = self._weight(log_prob, part.log.log_propensity)
        return self._estimate.part(part.rows, part.log.context), weight, slope, expected, mean

    def _backward(self, number: int, worst: Worst) -> np.ndarray:
        part = self._design.parts[number]
        estimate, _, slope, expected, mean = self._found[number] or self._passed(part)
        worst = worst(self._z[number], estimate.share) if callable(worst) else worst
        return self._design.backward_part(part, mean, *estimate.slopes(worst, slope, expected))
