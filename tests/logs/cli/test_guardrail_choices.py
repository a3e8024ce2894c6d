"""The choice among candidates with a guardrail: its bound is adjusted for candidates that differ in its outcome."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from drcrm import BanditLog
from drcrm.arrays.tables import Table
from drcrm.cost_models.ridge_model import CostModel
from drcrm.logging_policy import restrict_to_support
from drcrm.logs.batches import LogDescription
from drcrm.logs.decisions.candidates import ESTIMATE, choose_candidate
from drcrm.logs.decisions.opened_log import OpenedLog
from drcrm.logs.diagnostics.comparison.policy_comparison import compare_with_logging
from drcrm.logs.diagnostics.comparison.reference import ComparisonSettings
from drcrm.mapping.log_mapping import as_mapping
from drcrm.policies.exponential import class_for
from drcrm.selection.algorithms import as_algorithm
from drcrm.selection.candidates import Candidate, Learned
from drcrm.selection.grid_search import _score
from drcrm.selection.heldout_scores import HeldoutScores

ACTIONS, FEATURES = 4, 6
RAIL = {"returned": {"cost": "returned", "at_most": 0.0}}


def draw_log(rng: np.random.Generator, rows: int) -> BanditLog:
    """Return a log of uniform actions. Only the first one does not sell; 30 % return, whatever the action."""
    X = np.column_stack([rng.normal(size=(rows, FEATURES)), np.ones(rows)])
    action = rng.integers(ACTIONS, size=rows)
    sales = (action > 0) + 0.05 * rng.normal(size=rows)
    returned = (rng.random((rows, 1)) < 0.3).astype(float)
    log = BanditLog(X, action, np.full(rows, 1 / ACTIONS), -sales, n_actions=ACTIONS)
    mapping = as_mapping({"guardrails": RAIL, "least_propensity": 0.1})
    description = LogDescription(format="csv", mapping=mapping, kind="single", encoder=None)
    return log.replace(rows=Table(rows, {"guardrails": returned}), description=description)


def learn_and_judge(seed: int, rows: int = 600, n_candidates: int = 85):
    """Return the selection among random policies that avoid the first action, and whether the best one is *better*."""
    rng = np.random.default_rng(seed)
    train, log = draw_log(rng, rows), draw_log(rng, rows)
    make_policy = class_for(log.actions)
    logging = make_policy(np.zeros((FEATURES + 1, ACTIONS)), None)
    model = restrict_to_support(CostModel().fit(train), train, logging, 0.05)
    model = replace(model, logging=replace(model.logging, is_cloned=True))
    coefs = rng.normal(size=(n_candidates, FEATURES + 1, ACTIONS))
    coefs[:, -1, 0] -= 6
    candidates, differences = _score(
        [Candidate(make_policy(coef, None)) for coef in coefs], HeldoutScores(log, None, model)
    )
    learned = Learned(candidates, {}, 0, [], coefs[0], None, model, None, differences)
    opened = OpenedLog(Path(), "", log.n_contexts, log, None)
    selection = choose_candidate(opened, [as_algorithm("kl_dro_dr")], [learned])
    settings = ComparisonSettings(
        ESTIMATE,
        choices=selection.numbers.candidates,
        effective_choices=selection.numbers.main.at(0.95),
        guardrail_choices={name: number.at(0.95) for name, number in selection.numbers.of_guardrails.items()},
        full_support=True,
    )
    best = selection.best
    comparison = compare_with_logging(best.policy, log, settings, cost_model=model)
    [rail] = opened.guarded_outcomes(ESTIMATE).with_support(model).judge(best.policy, settings)
    return selection, comparison.certificate.bound < 0 and rail.status == "holds"


def test_candidates_that_agree_in_the_main_outcome_can_differ_in_a_guardrail():
    """All policies avoid the action that never sells, so the noise of the logged sales is common to them."""
    selection, _ = learn_and_judge(0, 300, 16)
    of_rail = selection.numbers.of_guardrails["returned"]
    assert (selection.numbers.main.candidates, of_rail.candidates) == (16, 16)
    assert selection.numbers.main.at(0.95) <= 8 < 12 <= of_rail.at(0.95) <= 16
    assert of_rail.at(0.8) <= of_rail.at(0.95) <= of_rail.at(0.99) <= of_rail.at(0.999) == 16


@pytest.mark.slow
def test_better_is_seldom_said_with_a_guardrail_at_its_margin():
    """No policy changes the returns, so each is at the margin. At the main outcome's number, 15 of 40 are better."""
    assert sum(learn_and_judge(seed)[1] for seed in range(40)) <= 5
