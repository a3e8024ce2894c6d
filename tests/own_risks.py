"""Risks as a user writes them: an entropic one, and ones with a fault."""

import numpy as np

from drcrm.risks import Risk


class EntropicRisk(Risk):
    """γ log mean e^{z/γ}; γ → ∞ gives the mean."""

    monotone = True
    robust_end = "low"

    def __init__(self, temperature: float = 1.0):
        self.temperature = temperature

    def evaluate(self, z, share, n, guess=None):
        largest = z.max()
        tilted = share * np.exp((z - largest) / self.temperature)
        return largest + self.temperature * np.log(tilted.sum()), tilted / tilted.sum(), None


class WrongGradient(EntropicRisk):
    def evaluate(self, z, share, n, guess=None):
        value, gradient, _ = super().evaluate(z, share, n)
        return value, 1.001 * gradient, None


class UnitCosts(EntropicRisk):
    """It is defined for costs in [−1, 0] only."""

    def evaluate(self, z, share, n, guess=None):
        value, gradient, _ = super().evaluate(z, share, n)
        return (value if z.min() >= -1 else np.nan), gradient, None


class WrongShape(EntropicRisk):
    def evaluate(self, z, share, n, guess=None):
        value, gradient, _ = super().evaluate(z, share, n)
        return value, gradient[:-1], None


class WrongAtHighTemperature(WrongGradient):
    def evaluate(self, z, share, n, guess=None):
        find = super().evaluate if self.temperature > 0.5 else EntropicRisk(self.temperature).evaluate
        return find(z, share, n)


class CountsRows(EntropicRisk):
    """It depends on the number of distinct rows."""

    def evaluate(self, z, share, n, guess=None):
        value, gradient, _ = super().evaluate(z, share, n)
        return value + len(z), gradient, None


class NegativeGradient(Risk):
    monotone = True

    def evaluate(self, z, share, n, guess=None):
        return -(share @ z), -share, None
