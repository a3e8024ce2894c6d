"""Inverse propensity scoring: z_i = w_i c_i."""

from typing import Any

from drcrm.estimates.base import RowwiseEstimate


class InversePropensity(RowwiseEstimate):
    """Risk of the importance-weighted costs z_i = w_i c_i. Source: Horvitz & Thompson 1952; eq. 2 of the paper."""

    def model_and_residual(self, weight: Any, expected: Any) -> tuple[Any, Any]:
        return 0.0, self.cost
