"""A weight and competitors as users write them, and ones with a fault."""

import numpy as np

from drcrm.weights import Weight


class Tempered(Weight):
    """Importance weight (π/p)^power; power 1 gives π/p."""

    robust_end = "low"

    def __init__(self, power: float, scale: float = 1.0):
        self.power, self.scale = power, scale

    def __call__(self, log_prob, log_propensity):
        weight = self.scale * np.exp(self.power * (log_prob - log_propensity))
        return weight, self.power * weight


class WrongSlope(Tempered):
    def __call__(self, log_prob, log_propensity):
        weight, slope = super().__call__(log_prob, log_propensity)
        return weight, 1.01 * slope


class Frequencies:
    """A competitor that ignores the contexts: each label or action is as frequent as among the cheap rows."""

    def __init__(self, largest_cost: float = np.inf):
        self.largest_cost = largest_cost

    def fit(self, X, Y, propensity, cost):
        assert len(X) == len(Y) == len(propensity) == len(cost)
        self.Y = Y[cost <= self.largest_cost]
        if self.Y.ndim == 1:
            self.classes_ = np.unique(self.Y)
        return self

    def predict_proba(self, X):
        share = self.Y.mean(axis=0) if self.Y.ndim == 2 else np.mean(self.Y[:, None] == self.classes_, axis=0)
        return np.tile(share, (len(X), 1))


class TooLarge(Frequencies):
    def predict_proba(self, X):
        return 2 * super().predict_proba(X)


class NarrowMarginals(Frequencies):
    def marginals(self, X):
        return self.predict_proba(X)[:, :1]
