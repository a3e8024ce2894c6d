"""Doubly robust estimates: a cost model corrected by the weighted residuals of the log."""

from typing import Any

from drcrm.estimates.base import Estimate, Evaluation, RowwiseEstimate
from drcrm.estimates.snips import SelfNormalised
from drcrm.risks import Risk


class DoublyRobust(RowwiseEstimate):
    """Risk of z_i = m(x_i) + w_i (c_i − ĉ(x_i, y_i)), where ĉ is the modelled cost and m its mean under the policy.

    Source: Dudík, Langford & Li 2011.
    """

    uses_model = is_translation_equivariant = True

    def model_and_residual(self, weight: Any, expected: Any) -> tuple[Any, Any]:
        return expected if self.context is None else expected[self.context], self.residual


class SelfNormalisedDoublyRobust(Estimate):
    """Mean of m(x) plus Σ w (c − ĉ)/Σ w, or another risk of the linearised terms. It has no gradient.

    Source: Thomas & Brunskill 2016.
    """

    uses_model = is_ratio = True

    def evaluate(self, risk: Risk, weight: Any, slope: Any, expected: Any, guess: Any) -> Evaluation:
        return risk.evaluate(self.terms(weight, expected), self.share, self.size)[0], None, None, None

    def model_and_residual(self, weight: Any, expected: Any) -> tuple[Any, Any]:
        ratio, centred = SelfNormalised(self.residual, self.share).model_and_residual(weight)
        return expected[self.context] + ratio, centred
