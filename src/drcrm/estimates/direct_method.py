"""Direct method: the expected modelled cost of each context, without the logged costs."""

import numpy as np

from drcrm.estimates.base import Estimate


class DirectMethod(Estimate):
    """R(z) with z_k = m(x_k), taken over the m contexts, each with the share of its rows."""

    uses_weights = False
    uses_model = True

    def __init__(self, cost, count, modelled=None, context=None):
        super().__init__(cost, count)
        self.share = np.bincount(context, self.share)

    def evaluate(self, risk, weight, slope, expected, guess):
        value, in_expected, guess = risk.evaluate(expected, self.share, self.size, guess)
        return value, None, in_expected, guess
