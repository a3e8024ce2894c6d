"""The split of the contexts, and logs from labelled data."""

from itertools import product

import numpy as np
import pytest

from drcrm.paper.simulation.replay import generator, heldout_rows, replay, split_contexts


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
