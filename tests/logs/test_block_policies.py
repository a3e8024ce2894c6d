"""A policy that differs between blocks of rows: its terms are those of the blocks' policies."""

import numpy as np
import pytest
from fixtures.action_logs import block_log, random_coef, random_effects

from drcrm import BanditLog, ExponentialPolicy, SoftmaxPolicy, off_policy_value
from drcrm.cost_models.base import TabularModel
from drcrm.evaluation.bounds.asymptotic_bounds import LARGEST_SKEWNESS, bound_blocks
from drcrm.evaluation.bounds.upper_bound import as_bound
from drcrm.evaluation.certified_terms import CertificateSettings
from drcrm.evaluation.evaluation import Evaluation
from drcrm.logs.block_policies import RowBlocks
from drcrm.policies.tabular import TabularPolicy

pytestmark = pytest.mark.filterwarnings("ignore:the (estimate by|mean weight|effective)")


def blocks_of(log: BanditLog) -> np.ndarray:
    """Return a block, 1 or 2, for each row; the rows of a context are in one block."""
    return 1 + log.context % 2


@pytest.mark.parametrize("kind", ["labels", "shuffled", "single", "eligible", "lists"])
def test_blocks_have_the_differences_of_their_policies(kind):
    log = block_log(kind, 100)
    number, effects = blocks_of(log), random_effects(log)
    make = SoftmaxPolicy if log.actions.are_choices else ExponentialPolicy
    policies = [make(random_coef(log, seed) / 3) for seed in (1, 2)]
    log_probs = [policy.log_prob_of_rows(log) for policy in policies]
    means = [policy.marginals_on(log.X, log.actions) for policy in policies]
    is_first = log.actions.broadcast(np.arange(log.n_contexts) % 2 == 0)
    joint = TabularPolicy.for_log(np.where(number == 1, *log_probs), np.where(is_first, *means), log)
    evaluation = Evaluation.of(joint, log, baseline="logging", cost_model=TabularModel(effects)).by("dr")
    settings = CertificateSettings.of(log, as_bound(0.95, "student"), 0.95, 1, None, full_support=True)
    terms = RowBlocks(number).summarize(evaluation, settings)
    for place, (policy, part) in enumerate(zip(policies, terms, strict=True), 1):
        rows = number == place
        of_block = log.take(rows)
        known = TabularModel(log.actions.select(np.unique(log.context[rows]), effects)[1])
        value = off_policy_value(policy, of_block, "dr", cost_model=known, baseline="logging")
        assert part.n == of_block.count.sum()
        assert part.mean >= float(value) - 1e-12
        if not np.isclose(part.mean, float(value)):  # actions beyond every logged weight are charged
            assert kind in ("labels", "shuffled")
    bound, refusal = RowBlocks(number).certify(evaluation, settings)
    result = bound_blocks(terms, 0.95)
    assert refusal or bound == result.bound
    lower, no_lower = RowBlocks(number).certify(evaluation, settings, -1)
    assert refusal or no_lower or lower < result.value < bound
    weights = np.array([0.9, 0.1])
    weighted = bound_blocks(terms, 0.95, weights)
    assert weighted.value == pytest.approx(weights @ [part.mean for part in terms])
    error = np.sqrt(sum(w**2 * part.deviation**2 / part.n for w, part in zip(weights, terms, strict=True)))
    assert weighted.standard_error == pytest.approx(error)


def test_a_block_in_which_the_policy_takes_no_logged_action_is_left_out():
    log = block_log("single", 100)
    number = blocks_of(log)
    policy = SoftmaxPolicy(random_coef(log) / 3)
    mean = policy.marginals_on(log.X, log.actions)
    log_prob = np.where(number == 2, -np.inf, policy.log_prob_of_rows(log))
    table = TabularPolicy.for_log(log_prob, mean, log)
    evaluation = Evaluation.of(table, log, baseline="logging", cost_model=TabularModel(random_effects(log))).by("dr")
    settings = CertificateSettings.of(log, as_bound(0.95, "student"), 0.95, 1, None)
    known, unknown = RowBlocks(number).summarize(evaluation, settings)
    assert unknown.deviation == np.inf
    result = bound_blocks([known], 0.95)
    expected = result.bound if result.skewness <= LARGEST_SKEWNESS else np.inf
    assert RowBlocks(number).certify(evaluation, settings)[0] == expected
