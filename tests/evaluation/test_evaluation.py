"""One evaluation resolves its inputs once, and its lower bounds are upper bounds on the negated costs."""

import warnings
from collections import Counter

import numpy as np
import pytest
from fixtures.reference_formulas import ENVIRONMENT_KINDS, draw_environment_log, draw_policy

from drcrm import BanditLog, CostModel, off_policy_value
from drcrm.certificates import policy_certificate
from drcrm.errors import InputError
from drcrm.evaluation.bounds.upper_bound import as_bound
from drcrm.evaluation.certified_terms import CertificateSettings
from drcrm.evaluation.evaluation import Evaluation
from drcrm.logs.diagnostics.comparison.policy_comparison import compare_with_logging, estimate_values
from drcrm.logs.diagnostics.comparison.robustness import sensitivity_to_propensities
from drcrm.policies.exponential import LinearPolicy


@pytest.mark.filterwarnings("ignore:the (effective sample size|mean weight)")
@pytest.mark.parametrize("kind", ENVIRONMENT_KINDS)
@pytest.mark.parametrize("estimate", ["ips", "snips", "dr"])
@pytest.mark.parametrize("has_policy", [False, True])
def test_a_lower_bound_is_the_upper_bound_on_negated_costs(kind, estimate, has_policy):
    log = draw_environment_log(kind, seed=2, rows=600)
    policy, baseline = draw_policy(log, 0), draw_policy(log, 1) if has_policy else "logging"
    effects = CostModel().fit(log).effects(log.X, log.actions)
    options = {"baseline": baseline, "check_tails": False, "baseline_factor": 1.1}
    costs = log.cost.min() - 1, log.cost.max() + 2
    negated = log.with_cost(-log.cost)
    expected = policy_certificate(
        policy, negated, estimate, cost_model=-effects, cost_range=(-costs[1], -costs[0]), **options
    )
    evaluation = Evaluation.of(policy, log, baseline=baseline, cost_model=effects).by(estimate)
    settings = CertificateSettings.of(
        log, as_bound(0.95, "kl"), 0.95, 1, costs, factor=1.1, check_tails=False, full_support=False
    )
    lower = evaluation.certificate(settings, is_lower=True)
    assert lower.bound == pytest.approx(-expected.bound, abs=1e-9)
    assert lower.value == pytest.approx(-expected.value, abs=1e-9)
    assert lower.missing == expected.missing
    upper = evaluation.certificate(settings)
    assert lower.bound < upper.bound


def test_a_comparison_computes_everything_once(monkeypatch):
    log = draw_environment_log("single", rows=400)
    log = log.replace(count=np.ones(400, dtype=int))
    policy, baseline, model = draw_policy(log, 0), draw_policy(log, 1), CostModel().fit(log)
    calls: Counter[str] = Counter()

    def count(owner: type, name: str) -> None:
        function = getattr(owner, name)

        def counted(self, *arguments, **options):
            calls[name] += 1
            return function(self, *arguments, **options)

        monkeypatch.setattr(owner, name, counted)

    for owner, name in (
        (BanditLog, "without_empty_rows"),
        (LinearPolicy, "log_prob_of_rows"),
        (LinearPolicy, "probabilities"),
        (LinearPolicy, "_unexplored_marginals"),
        (CostModel, "effects"),
    ):
        count(owner, name)
    comparison = compare_with_logging(policy, log, cost_model=model)
    estimate_values(comparison.evaluation), sensitivity_to_propensities(comparison)
    assert calls == {"without_empty_rows": 1, "probabilities": 1, "effects": 1}
    calls.clear()
    evaluation = Evaluation.of(policy, log, cost_model=model, baseline=baseline).by("dr")
    evaluation.value(), evaluation.difference(), evaluation.sensitivity(1.5, 0.95)
    assert calls == {"without_empty_rows": 1, "probabilities": 2, "effects": 1}


def test_results_have_notes_and_only_the_public_functions_warn():
    log = draw_environment_log("single", rows=300)
    far = log.replace(propensity=np.full(300, 1.0))
    rare = np.full(300, 1e-3)
    evaluation = Evaluation.of(rare, far, groups=None).by("snips")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        value = evaluation.value()
    [note] = value.notes
    assert "far below 1" in note
    with pytest.warns(UserWarning, match="far below 1"):
        public = off_policy_value(rare, far, "snips")
    assert public == value
    assert public.notes == value.notes


def test_a_name_is_no_logging_policy():
    log = draw_environment_log("single")
    with pytest.raises(InputError, match="logging_policy is of type str"):
        Evaluation.of(draw_policy(log, 0), log, logging_policy="logging")
