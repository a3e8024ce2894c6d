"""Direct method: the risk of a policy's modelled costs. It uses neither weights nor logged costs."""

from functools import cached_property
from typing import Any

import numpy as np

from drcrm.estimates.base import Estimate, Evaluation
from drcrm.risks import Risk


class DirectMethod(Estimate):
    """Risk of z_k = m(x_k), the expected modelled cost of context k.

    Each context has the share of its rows in the log.
    """

    uses_weights = False
    uses_model = True

    @cached_property
    def context_share(self) -> np.ndarray:
        """Share of the rows of each context, (m,)."""
        return np.bincount(np.asarray(self.context), self.share)

    def evaluate(self, risk: Risk, weight: Any, slope: Any, expected: Any, guess: Any) -> Evaluation:
        value, in_expected, guess = risk.evaluate(expected, self.context_share, self.size, guess)
        return value, None, in_expected, guess

    def model_and_residual(self, weight: Any, expected: Any) -> tuple[Any, Any]:
        return expected[self.context], np.zeros(len(self.cost))
