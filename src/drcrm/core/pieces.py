"""An objective on a log in parts: forward from Θ to the z of each part, sums over all z, and back to the slope in Θ.

What a risk asks of all z are a few sums for each step of its search: see ``Risk.over``. So z are wherever their rows
are, and nothing that is as long as the log is passed on.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .design import Design
from .estimates import Estimate
from .parts import Part
from .passes import mapped, passed
from .sums import Sums, total, twofold
from .weights import Weight

Worst = np.ndarray | Callable[[np.ndarray, np.ndarray], np.ndarray]


TOGETHER = 4  # parts whose z are summed at once: threads wait for each other over fewer


class Pieces:
    """z of an objective, and the share that each row has of the log, in the order of its parts.

    Of rows that lie on disk z alone is held, and what else a pass forward found is found once more on the way back.

    Parameters
    ----------
    design : Design
    weight : Weight
    estimate : Estimate
        Of which each z is of its row.
    """

    def __init__(self, design: Design, weight: Weight, estimate: Estimate):
        self._design, self._weight, self._estimate = design, weight, estimate
        parts = self._design.parts
        self._z, self._found = np.empty(len(self._estimate.share)), [None] * len(parts)
        self._share = self._estimate.share if parts.order is None else self._estimate.share[parts.order]

    def forward(self, coef: np.ndarray) -> tuple[float, float]:
        """Find z at Θ; return the least and the largest, NaN where any is."""
        self._coef = coef.reshape(self._design.shape)
        passed(len(self._z))
        low, high = zip(*mapped(self._forward, range(len(self._found))), strict=True)
        return float(np.min(low)), float(np.max(high))

    def summed(self, function: Callable[..., np.ndarray], *given) -> np.ndarray:
        """Return Σ function(z, share, *given) over blocks of rows."""
        return total([self.sums(function, *given)])

    def sums(self, function: Callable[..., np.ndarray], *given) -> Sums:
        """Return the same as a ``twofold`` sum, to which those of other rows may be added."""

        def of_block(first: int) -> np.ndarray:
            block = self._design.parts.places(first, first + TOGETHER)
            return function(self._z[block], self._share[block], *given)

        return twofold(mapped(of_block, range(0, len(self._found), TOGETHER)))

    def gathered(self) -> tuple[np.ndarray, np.ndarray]:
        """Return all z and shares, (n,)."""
        return self._z, self._share

    def backward(self, worst: Worst) -> np.ndarray:
        """Return the slope in Θ, flat.

        ``worst`` are the slopes in z, (n,), or a function of (z, share) of some rows that says them.
        """
        return total([self.slopes(worst)])

    def slopes(self, worst: Worst) -> Sums:
        """Return the same as a ``twofold`` sum."""
        high, low = twofold(mapped(lambda number: self._backward(number, worst), range(len(self._found))))
        return high.ravel(), low.ravel()

    def _forward(self, number: int) -> tuple[float, float]:
        part = self._design.parts[number]
        estimate, weight, _, expected, _ = found = self._passed(part)
        self._found[number] = None if self._design.parts.are_stored else found
        self._z[part.place] = z = estimate.z(weight, expected)
        return z.min(), z.max()

    def _passed(self, part: Part) -> tuple:
        """A part's estimate, weights, their slopes in log π, the expected modelled costs, and μ."""
        log_prob, expected, mean = self._design.forward_part(part, self._coef)
        weight, slope = self._weight(log_prob, part.log.log_propensity)
        return self._estimate.part(part.rows, part.context), weight, slope, expected, mean

    def _backward(self, number: int, worst: Worst) -> np.ndarray:
        part = self._design.parts[number]
        estimate, _, slope, expected, mean = self._found[number] or self._passed(part)
        worst = worst(self._z[part.place], estimate.share) if callable(worst) else worst[part.place]
        return self._design.backward_part(part, mean, *estimate.slopes(worst, slope, expected))
