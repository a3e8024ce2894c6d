"""One evaluation: its inputs in every form, a default estimate, terms that are computed once, and lower bounds."""

import warnings
from collections import Counter
from functools import partial

import numpy as np
import pytest
from fixtures.action_logs import ACTION_KINDS, draw_policy, log_and_policy
from fixtures.reference_formulas import ENVIRONMENT_KINDS, draw_environment_log

from drcrm import BanditLog, CostModel, off_policy_value, off_policy_values, policy_support
from drcrm.certificates import policy_certificate
from drcrm.cost_models import cross_fitting
from drcrm.cost_models.cross_fitting import FOLDS
from drcrm.errors import InputError
from drcrm.evaluation.bounds.upper_bound import as_bound
from drcrm.evaluation.certified_terms import CertificateSettings
from drcrm.evaluation.evaluation import Evaluation
from drcrm.logs.diagnostics.comparison.policy_comparison import (
    compare_with_logging,
    estimate_values,
    sensitivity_to_propensities,
)
from drcrm.policies.exponential import LinearPolicy
from drcrm.risks import KLBall

pytestmark = pytest.mark.filterwarnings("ignore:the (estimate by|effective sample size|mean weight)")
K = 10
PENALTY = 1e-3


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


def test_results_have_notes_and_do_not_warn():
    log = draw_environment_log("single", rows=300)
    far = log.replace(propensity=np.full(300, 1.0))
    rare = np.full(300, 1e-3)
    evaluation = Evaluation.of(rare, far, groups=None).by("snips")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        value = evaluation.value()
    [note] = value.notes
    assert "far below 1" in note


@pytest.fixture(autouse=True)
def _fixed_penalty(monkeypatch):
    """Fit default models with a fixed penalty: "auto" takes most of the time, and depends on the number of contexts."""
    monkeypatch.setattr(cross_fitting, "CostModel", partial(CostModel, PENALTY))


def best_action_log(n: int) -> tuple[BanditLog, np.ndarray]:
    """Return a uniform log in which one action of ten costs −1, and a policy that nearly always takes it."""
    action, best = np.random.default_rng(0).integers(0, K, (2, n))
    log = BanditLog(np.eye(K)[best], action, np.full(n, 1 / K), -1.0 * (action == best), n_actions=K)
    return log, 0.9 * np.eye(K)[best] + 0.01


@pytest.mark.parametrize("kind", ACTION_KINDS)
def test_auto_is_dr_or_snips_and_ips_for_other_risks_and_methods(kind):
    log, policy, X = log_and_policy(kind)
    logged = np.exp(policy.log_prob(X, log.Y, log.context))
    for form, expected in ((policy, "dr"), (policy.marginals(X), "dr"), (logged, "snips")):
        value = off_policy_value(form, log)
        assert (value.estimate, value) == (expected, off_policy_value(form, log, expected))
        certificate = policy_certificate(form, log, check_tails=False)
        assert certificate == policy_certificate(form, log, expected, check_tails=False)
        assert certificate.estimate == expected
    assert off_policy_value(policy, log, baseline=logged).estimate == "snips"
    assert off_policy_value(policy, log, risk=KLBall(0.1)).estimate == "ips"
    assert policy_certificate(policy, log, method="student", check_tails=False).estimate == "ips"


@pytest.mark.parametrize("kind", ACTION_KINDS)
@pytest.mark.parametrize("grouped", [False, True])
def test_modelled_costs_come_from_the_other_folds(kind, grouped):
    """Doubly robust estimates equal a computation row by row, with models fitted to the other folds."""
    log, policy, _ = log_and_policy(kind)
    log = log.without_empty_rows()
    groups = np.arange(len(log.Y)) // 3 if grouped else None  # rows of one context are in several groups
    unit = np.arange(len(log.Y)) if groups is None else groups
    fold = (np.random.default_rng(0).permutation(unit.max() + 1) % FOLDS)[unit]
    expected, modelled = np.empty((2, len(log.Y)))
    for number in range(FOLDS):
        model = CostModel(PENALTY).fit(log.recount(log.count * (fold != number)))
        effects, inside = model.effects(log.X, log.actions), fold == number
        contexts = log.actions.expected_cost(policy.marginals(log.actions.unbind(log.X)), effects)
        expected[inside] = contexts[log.context[inside]]
        modelled[inside] = log.actions.costs_of_rows(log.row_map, effects)[inside]
    weight = np.exp(policy.log_prob(log.actions.unbind(log.X), log.Y, log.context)) / log.propensity
    residual, count = log.cost - modelled, log.count / log.count.sum()
    correct = {
        "dr": count @ (expected + weight * residual),
        "sndr": count @ expected + count @ (weight * residual) / (count @ weight),
        "switch_dr": count @ (expected + weight * (weight <= 1.5) * residual),
        "clipped_dr": count @ (expected + np.minimum(weight, 1.5) * residual),
        "dm": count @ expected,
    }
    table = off_policy_values(policy, log, clip=1.5, groups=groups)
    assert table.value[[*correct]].to_dict() == pytest.approx(correct, rel=1e-9)
    mean = policy.marginals(log.actions.unbind(log.X))
    assert off_policy_value(mean, log, "dr", groups=groups) == pytest.approx(correct["dr"], rel=1e-9)
    z = expected + weight * residual
    of_units = np.repeat(z, log.count)
    if grouped:
        of_units = np.bincount(unit, log.count * (z - count @ z)) * (unit.max() + 1) / log.count.sum()
    error = of_units.std(ddof=1) / np.sqrt(len(of_units))
    assert table.standard_error["dr"] == pytest.approx(error, rel=1e-9)


def test_self_normalised_estimates_ignore_a_constant_and_switching_drops_large_weights():
    log, policy = best_action_log(500)
    for name in ("snips", "sndr", "dr", "dm", "switch_dr"):
        shifted = off_policy_value(policy, log.with_cost(log.cost + 7), name)
        assert shifted == pytest.approx(7 + off_policy_value(policy, log, name), abs=1e-9)
    modelled = np.full((500, K), -0.25)
    options = {"cost_model": modelled}
    assert off_policy_value(policy, log, "switch_dr", clip=9.2, **options) == off_policy_value(policy, log, **options)
    small = off_policy_value(policy, log, "switch_dr", clip=5, **options)  # the weights are 9.1 and 0.1
    assert small == pytest.approx((-0.25 + 0.1 * 0.25 * (log.cost == 0)).mean())
    with pytest.warns(UserWarning, match="nan"):
        assert np.isnan(off_policy_value(np.zeros(500), log, "snips").low)


@pytest.mark.parametrize("kind", ACTION_KINDS)
def test_logging_policies_and_modelled_costs_have_every_form(kind):
    log, policy, X = log_and_policy(kind)
    logging = type(policy)(0.5 * policy.coef)
    mean, model = logging.marginals(X), CostModel(0.1).fit(log)
    effects = model.effects(log.X, log.actions)

    class Classifier:
        def predict_proba(self, contexts):
            return logging.marginals(contexts)

    expected = policy_support(policy, log, logging, 0.5)
    options = {"estimate": "dr", "cost_model": model, "support": 0.5}
    value = off_policy_value(policy, log, **options, logging_policy=logging)
    settings = {"estimate": "dr", "check_tails": False}
    bound = policy_certificate(policy, log, cost_model=model, logging_policy=logging, **settings).bound
    for form in (mean, mean.tolist(), Classifier(), logging.marginals):
        support = policy_support(policy, log, form, 0.5)
        assert support.mass == pytest.approx(expected.mass, rel=1e-12)
        assert support.mean_weight_by_action == pytest.approx(expected.mean_weight_by_action)
        result = off_policy_value(policy, log, **options, logging_policy=form)
        assert (result, result.support) == pytest.approx((value, value.support), rel=1e-9)
        certificate = policy_certificate(policy, log, cost_model=model, logging_policy=form, **settings)
        assert certificate.bound == pytest.approx(bound, rel=1e-9)
    for form in (effects, effects.tolist(), lambda contexts: model.effects(contexts)):
        result = off_policy_value(policy, log, "dr", cost_model=form)
        assert result == pytest.approx(off_policy_value(policy, log, "dr", cost_model=model), rel=1e-12)
    with pytest.raises(InputError, match=r"cost_model has shape .*, expected .*, the modelled costs of"):
        off_policy_value(policy, log, "dr", cost_model=effects[1:])
    with pytest.raises(InputError, match="not finite"):
        off_policy_value(policy, log, "dr", cost_model=np.full(effects.shape, np.nan))
    with pytest.raises(InputError, match=r"needs the policy's probabilities of all|has shape"):
        policy_support(policy, log, np.full(len(log.Y), 0.5))
