"""Scales of features, and descriptions of features and costs that make a fit fail."""

import numpy as np
import pytest

from drcrm import BanditLog
from drcrm.data.scaling import describe_extreme_values, describe_unequal_scales


@pytest.mark.parametrize(
    ("scales", "description"),
    [
        ([1, 3, 2000], "column 2 reaches 2e+03, others 1"),
        ([1e3, 5, 0.9], "column 0 reaches 1e+03, others 0.9"),
        ([0, 40, 2e-2, 50, 0], "column 2 reaches only 0.02, others 50"),
        ([1e-9, 1e-9, 1, 1, 1], "columns 0, 1 reach only 1e-09, others 1"),
        ([1.0, *[1e4] * 6, *[2.0] * 8], "columns 1, 2, 3, 4, 5, … reach 1e+04, others 1"),
        ([5e-324, 1e308], "column 1 reaches 1e+308, others 4.94e-324"),
        ([1, 1000], ""),
        ([0, 0], ""),
        ([0, 3e-5], ""),
        ([1e300, 1e299], ""),
    ],
)
def test_the_smaller_group_of_unequal_columns_is_described(scales, description):
    expected = description and f"the scales of features differ by more than 1000: {description}"
    assert describe_unequal_scales(np.array(scales, float)) == expected


@pytest.mark.parametrize(
    ("features", "cost", "propensity", "description"),
    [
        (1e9, -1, 0.5, "features reach 1e+09; scale the features"),
        (1e9, -1e12, 0.5, "costs reach 1e+12; give them in another unit"),
        (1e9, 0, 1e-20, "the smallest propensity is 1e-20; clip the weights"),
        (0, 0, 1, "the hyper-parameters or the start of the fit are too extreme"),
    ],
)
def test_the_most_extreme_values_are_described(features, cost, propensity, description):
    assert describe_extreme_values(BanditLog([[features]], [[1]], [propensity], [cost])) == description
