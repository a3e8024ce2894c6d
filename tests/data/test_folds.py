"""Folds: their numbers, the logs that train their models, and their merged values."""

import numpy as np
import pytest
from block_logs import KINDS, block_log, random_effects

from drcrm import BanditLog
from drcrm.data.folds import context_folds, merge_folds
from drcrm.optimization.behaviour_cloning import clone_folds


def test_a_fold_whose_other_contexts_have_no_rows_trains_on_the_whole_log():
    log, fold = block_log("single", 20), np.arange(20) % 2
    log = log.replace(count=log.count * (fold[log.context] == 0))
    [whole] = clone_folds(log, np.zeros(20, dtype=int))
    for policy in clone_folds(log, fold):
        assert policy.coef == pytest.approx(whole.coef, abs=1e-4)


def test_fold_numbers_have_no_gaps_if_units_share_contexts():
    log = BanditLog(np.ones((2, 1)), np.zeros(6), np.ones(6), -np.arange(6.0), np.repeat([0, 1], 3), n_actions=2)
    for folds in range(2, 7):
        assert np.unique(context_folds(log, np.arange(6), folds)).tolist() in ([0], [0, 1])


@pytest.mark.parametrize("kind", KINDS)
def test_merged_values_of_no_contexts_have_the_shape_of_values(kind):
    log = block_log(kind)
    actions, _, effects = log.actions.select(np.arange(0), log.X, random_effects(log))
    assert merge_folds(np.arange(0), actions, lambda number: effects).shape == effects.shape
