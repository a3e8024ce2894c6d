"""Inverse propensity scoring: z_i = w_i c_i."""

from drcrm.estimates.base import RowwiseEstimate


class InversePropensity(RowwiseEstimate):
    """R(z) with z_i = w_i c_i. Source: Horvitz & Thompson 1952; eq. 2 of the paper."""

    def z(self, weight, expected):
        return self.cost * weight

    def gradients(self, in_z, slope, expected):
        return in_z * (self.cost * slope), None
