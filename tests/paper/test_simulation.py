"""Losses of true labels and classes, and replayed logs."""

from itertools import product

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.sparse import csr_array

from drcrm import ExponentialPolicy, SoftmaxPolicy
from drcrm.errors import InputError
from drcrm.paper.reference_policies import fit_crf
from drcrm.paper.simulation import (
    ClassTruth,
    LabelTruth,
    as_truth,
    generator,
    hamming_cost,
    heldout_rows,
    replay,
    split_contexts,
)
from drcrm.paper.steps.learn import shifted_rows


@pytest.fixture
def classes():
    """Return 200 contexts with a constant feature, their classes, which depend on them with noise, and a policy."""
    rng = np.random.default_rng(1)
    X = np.column_stack([rng.normal(size=(200, 3)), np.ones(200)])
    right = (X @ rng.normal(size=(4, 3)) + rng.gumbel(size=(200, 3))).argmax(axis=1)
    return X, ClassTruth(right, 3), SoftmaxPolicy(rng.normal(size=(4, 3)))


def test_a_shifted_test_set_has_the_shares_of_classes_that_are_worst_for_the_policy(classes):
    """The shares maximise the loss within the KL divergence, by another optimiser; contexts of a class stay equal."""
    X, truth, policy = (np.tile(classes[0], (50, 1)), ClassTruth(np.tile(classes[1].labels, 50), 3), classes[2])
    rows = shifted_rows(truth, X, policy, 0.1)
    today, shares = (np.bincount(labels) / len(labels) for labels in (truth.labels, truth.labels[rows]))
    loss = np.array([truth[truth.labels == k].losses(policy, X[truth.labels == k])["expected_loss"] for k in range(3)])
    limits = (
        {"type": "eq", "fun": lambda q: q.sum() - 1},
        {"type": "ineq", "fun": lambda q: 0.1 - q @ np.log(q / today)},
    )
    worst = minimize(lambda q: -q @ loss, today, bounds=[(1e-9, 1)] * 3, constraints=limits, tol=1e-12)
    assert shares == pytest.approx(worst.x, abs=2e-4)
    assert truth[rows].losses(policy, X[rows])["expected_loss"] == pytest.approx(-worst.fun, abs=5e-4)
    assert np.diff(np.unique(rows[truth.labels[rows] == 0], return_counts=True)[1]).max() <= 1


def test_label_vectors_are_shifted_by_quarters_of_the_feature_with_the_largest_variance():
    rng = np.random.default_rng(0)
    X, labels = rng.normal(size=(400, 3)) * [1, 5, 2], rng.integers(0, 2, (400, 2))
    stratum = LabelTruth(labels).strata(X)
    assert np.bincount(stratum).tolist() == [100] * 4
    assert (stratum == LabelTruth(labels).strata(csr_array(X))).all()
    assert X[stratum == 3, 1].min() > np.quantile(X[:, 1], 0.74)
    rows = shifted_rows(LabelTruth(labels), X, ExponentialPolicy(rng.normal(size=(3, 2))), 0.2)
    shares = np.bincount(stratum[rows]) / 400
    assert shares @ np.log(shares * 4) == pytest.approx(0.2, abs=0.02)


class TestClasses:
    def test_losses_are_error_rates_of_drawn_and_most_probable_actions(self, classes):
        X, truth, policy = classes
        many = np.tile(np.arange(200), 500)
        drawn = policy.sample(X[many], 0)
        losses = truth.losses(policy, X)
        assert losses["expected_loss"] == pytest.approx((drawn != truth.labels[many]).mean(), abs=0.006)
        assert losses["greedy_loss"] == (policy.marginals(X).argmax(axis=1) != truth.labels).mean()
        assert truth.losses_of_probabilities(policy.marginals(X)) == losses

    @pytest.mark.parametrize("clicks", [(1, 0), (0.7, 0.2)])
    def test_expected_cost_is_the_translated_loss(self, classes, clicks):
        """E c = −(right (1 − L) + wrong L), whose inverse is ``loss``; by sampling."""
        X, truth, policy = classes
        log = replay(policy, X, truth, 500, np.random.default_rng(2), clicks, np.random.default_rng(3))
        assert set(log.cost) == {-1.0, 0.0}
        expected = truth.losses(policy, X)["expected_loss"]
        assert truth.loss(log.cost.mean(), clicks) == pytest.approx(expected, abs=0.012)
        right = truth.labels[log.context] == log.Y
        assert (-log.cost[right].mean(), -log.cost[~right].mean()) == pytest.approx(clicks, abs=0.01)

    def test_certain_clicks_draw_nothing_and_others_leave_the_actions(self, classes):
        X, truth, policy = classes

        def logged(passes, *clicks):
            return replay(policy, X, truth, passes, np.random.default_rng(2), *clicks)

        certain, clicked = logged(2), logged(2, (0.7, 0.2), np.random.default_rng(3))
        assert np.array_equal(certain.cost, -(truth.labels[certain.context] == certain.Y).astype(float))
        assert np.array_equal(certain.Y, clicked.Y)
        longer = logged(5, (0.7, 0.2), np.random.default_rng(3))
        assert np.array_equal(longer.Y[:400], clicked.Y)
        assert np.array_equal(longer.cost[:400], clicked.cost)
        assert np.log(certain.propensity) == pytest.approx(policy.log_prob(X, certain.Y, certain.context))
        assert certain.actions.shape == (3,)

    def test_absent_classes_have_no_context(self):
        assert ClassTruth([0, 2, 2], 4).absent().tolist() == [False, True, False, True]

    def test_a_class_out_of_range_is_an_error(self):
        with pytest.raises(InputError, match="labels is 3 in row 1, expected 0 to 2"):
            ClassTruth([0, 3], 3)


class TestLabels:
    def test_losses_are_those_of_drawn_and_most_probable_labels(self, labelled, random_policy):
        (X, labels), policy = labelled(n=120, features=5, labels=3), random_policy(0, 5, 3)
        many, truth = np.repeat(np.arange(120), 1000), as_truth(labels)
        wrong, greedy = policy.sample(X[many], 1) != labels[many], policy.greedy(X) != labels
        losses = truth.losses(policy, X)
        assert losses["expected_loss"] == pytest.approx(wrong.sum(axis=1).mean(), abs=0.01)
        assert losses["greedy_loss"] == pytest.approx(greedy.sum(axis=1).mean())
        assert truth.losses_of_probabilities(policy.marginals(X)) == losses
        absent = np.array([False, True, False])
        assert truth.losses(policy, X, absent)["greedy_loss"] == pytest.approx(greedy[:, ~absent].sum() / 120 + 0.5)
        assert truth.losses(policy, X, ~absent & absent) == losses

    def test_costs_are_hamming_distances_minus_q_and_the_policy_is_the_crf(self, labelled):
        X, labels = labelled(n=120, features=5, labels=3)
        truth = as_truth(labels)
        assert hamming_cost(np.array([[1, 0, 1], [0, 0, 0]]), np.array([[1, 1, 1], [0, 0, 0]])).tolist() == [-2, -3]
        assert np.array_equal(truth.cost(1 - labels, np.arange(120)), np.zeros(120))
        assert truth.loss(-1.25) == 1.75
        assert np.array_equal(truth.fit_policy(X, 0.1).coef, fit_crf(X, labels, 0.1).coef)


def test_replay_logs_actions_propensities_and_costs_of_the_policy(labelled, random_policy):
    (X, labels), policy = labelled(n=40), random_policy()
    log = replay(policy, X, labels, 500, np.random.default_rng(2))
    assert log.size == 40 * 500
    assert np.log(log.propensity) == pytest.approx(policy.log_prob(X[log.context], log.Y), rel=1e-12)
    assert np.array_equal(log.cost, (labels[log.context] != log.Y).sum(axis=1) - 2)
    shares = log.Y.reshape(500, 40, 2).mean(axis=0)
    assert shares == pytest.approx(policy.marginals(X), abs=4.5 * 0.5 / np.sqrt(500))
    prefix = replay(policy, X, labels, 3, np.random.default_rng(2))
    assert np.array_equal(prefix.Y, log.Y[:120])


@pytest.mark.parametrize("unit", ["row", "context"])
def test_split_rounds_up_and_draws_logging_contexts_from_the_right_part(unit):
    split = split_contexts(103, unit, 0.05, 0.25, np.random.default_rng(4))
    assert len(split["heldout"]) == 26
    assert len(split["logging"]) == {"row": 6, "context": 4}[unit]
    assert sorted([*split["train"], *split["heldout"]]) == list(range(103))
    if unit == "context":
        assert set(split["logging"]) <= set(split["train"])
    draws = [split_contexts(20, unit, 0.2, 0.5, np.random.default_rng(seed))["logging"] for seed in range(200)]
    assert set(np.concatenate(draws)) == set(range(20))


@pytest.mark.parametrize(
    ("n", "fraction", "expected"), [(7, 1e-12, 1), (20, 0.05, 1), (21, 0.05, 2), (4, 0.25, 1), (100, 0.07, 7)]
)
def test_heldout_rows_round_up_without_floating_point_surprises(n, fraction, expected):
    assert heldout_rows(n, fraction, np.random.default_rng(0)).sum() == expected


def test_every_data_set_seed_and_step_has_draws_of_its_own():
    axes = [*product(("toy", "digits"), (0, 1), ("split", "replay"))]
    assert len({generator(*values).random() for values in axes}) == len(axes)
