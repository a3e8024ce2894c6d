"""Inverse propensity scoring: z_i = w_i c_i."""

from typing import Any

import numpy as np

from drcrm.estimates.base import Gradient, RowwiseEstimate


class InversePropensity(RowwiseEstimate):
    """Risk of the importance-weighted costs z_i = w_i c_i. Source: Horvitz & Thompson 1952; eq. 2 of the paper."""

    def z(self, weight: Any, expected: Any = None) -> np.ndarray:
        return self.cost * weight

    def gradients(self, in_z: np.ndarray, slope: Any, expected: Any) -> tuple[Gradient, Gradient]:
        return in_z * (self.cost * slope), None
