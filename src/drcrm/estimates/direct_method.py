"""Direct method: the expected modelled cost of each context, without the logged costs."""

from typing import Any

import numpy as np

from drcrm.estimates.base import Estimate, Evaluation
from drcrm.risks import Risk


class DirectMethod(Estimate):
    """R(z) with z_k = m(x_k), taken over the m contexts, each with the share of its rows."""

    uses_weights = False
    uses_model = True

    def __init__(
        self,
        cost: np.ndarray,
        count: np.ndarray,
        modelled: np.ndarray | None = None,
        context: np.ndarray | None = None,
    ):
        super().__init__(cost, count)
        self.share = np.bincount(np.asarray(context), self.share)

    def evaluate(self, risk: Risk, weight: Any, slope: Any, expected: Any, guess: Any) -> Evaluation:
        value, in_expected, guess = risk.evaluate(expected, self.share, self.size, guess)
        return value, None, in_expected, guess
