"""Weights of logged rows and classifiers of rewarded actions."""

from __future__ import annotations

import numpy as np
import pytest

from drcrm import BanditLog
from drcrm.errors import InputError
from drcrm.experiments.classifiers import action_probabilities
from drcrm.policies.classifier_policy import row_weights

LOG = BanditLog(np.eye(3), [0, 2, 2], [0.5, 0.001, 0.25], [-1.0, -0.5, 0.5], count=[1, 2, 3], n_actions=4)


def test_weights_are_distances_from_the_largest_cost_divided_by_the_propensity():
    """At most 100 for each occurrence of a row."""
    assert row_weights(LOG, "none").tolist() == [1.5, 2, 0]
    assert row_weights(LOG, "inverse_propensity").tolist() == [3, 200, 0]


@pytest.mark.parametrize("classifier", ["linear", "trees"])
def test_an_action_without_a_rewarded_row_has_probability_0(classifier):
    probability = action_probabilities(LOG, np.eye(3), classifier, "none", 0)
    assert (probability[:, [1, 3]] == 0).all()
    assert probability.sum(axis=1) == pytest.approx(np.ones(3))


def test_a_single_rewarded_action_is_certain():
    log = BanditLog(np.eye(2), [1, 0], [0.5, 0.5], [-1.0, 0.0], n_actions=3)
    assert action_probabilities(log, np.ones((2, 2)), "linear", "none", 0).tolist() == [[0, 1, 0]] * 2


def test_equal_costs_are_an_error():
    log = BanditLog(np.eye(2), [1, 0], [0.5, 0.5], [-1.0, -1.0], n_actions=3)
    with pytest.raises(InputError, match="costs must differ to weight the rows, but every logged cost is -1"):
        action_probabilities(log, np.ones((2, 2)), "linear", "none", 0)
