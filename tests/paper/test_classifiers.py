"""Weights of logged rows and classifiers of rewarded actions."""

import numpy as np
import pytest

from drcrm import KLDRO, BanditLog
from drcrm.errors import InputError
from drcrm.paper.classifiers import action_probabilities, competitor_probabilities
from drcrm.paper.simulation import as_truth
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


def test_a_competitor_of_actions_gets_every_logged_row():
    """Rows occur once, twice and three times; two rows of action 2 are cheaper than 0."""
    probability = competitor_probabilities(
        LOG, np.eye(3), {"fixtures.user_input:Frequencies": {"largest_cost": -0.2}}, 0
    )
    assert probability == pytest.approx(np.tile([1 / 3, 0, 2 / 3, 0], (3, 1)))
    assert competitor_probabilities(LOG, np.eye(3), "fixtures.user_input:Frequencies", 0)[0] == pytest.approx(
        [1 / 6, 0, 5 / 6, 0]
    )


def test_a_competitor_of_labels_has_the_losses_of_its_probabilities():
    labels = np.array([[0, 1], [1, 1], [1, 0], [1, 0]])
    log = BanditLog(np.eye(4), labels, np.full(4, 0.25), [-1.0, -2.0, -1.0, 0.0])
    probability = competitor_probabilities(log, np.eye(4), "fixtures.user_input:Frequencies", 0)
    assert probability == pytest.approx(np.tile([0.75, 0.5], (4, 1)))
    losses = as_truth(labels).losses_of_probabilities(probability)
    assert losses == pytest.approx({"expected_loss": (1.25 + 0.75 + 3 * 0 + 0.75 + 0.75) / 4, "greedy_loss": 3 / 4})


def test_an_estimator_of_drcrm_can_be_a_competitor():
    """It knows actions 0 to 2, because action 3 was not logged."""
    X, rows = np.ones((3, 1)), np.repeat(np.arange(3), LOG.count)
    log = LOG.replace(X=X, propensity=np.full(3, 0.25))
    probability = competitor_probabilities(log, X, {"drcrm:KLDRO": {"radius": 0.1}}, 0)
    logged = {"propensity": log.propensity[rows], "cost": log.cost[rows]}
    fitted = KLDRO(radius=0.1).fit(X[rows], log.Y[rows], **logged)
    np.testing.assert_array_equal(probability, np.column_stack([fitted.predict_proba(X), np.zeros(3)]))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("TooLarge", "probabilities must be from 0 to 1, and those of K actions must add up to 1"),
        ("NarrowMarginals", "probabilities have shape"),
        ("Missing", "has no attribute 'Missing'"),
    ],
)
def test_a_competitor_with_a_fault_is_an_error(name, message):
    labels = np.array([[0, 1], [1, 1], [1, 0], [1, 0]])
    log = BanditLog(np.eye(4), labels, np.full(4, 0.25), [-1.0, -2.0, -1.0, 0.0])
    with pytest.raises(InputError, match=message):
        competitor_probabilities(log, np.eye(4), f"fixtures.user_input:{name}", 0)
