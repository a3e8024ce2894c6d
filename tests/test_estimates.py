"""Estimates, weights and risks together, for every kind of action: 50 digits, formulas and finite differences."""

import json
from pathlib import Path

import numpy as np
import pytest
from fixtures.action_logs import (
    RISKS,
    WEIGHTS,
    Choices,
    cost_model,
    evaluation_of,
    every_form,
    expand,
    make_coef,
    make_log,
    make_objective,
    normal_coef,
    numeric_gradient,
)
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from drcrm import BanditLog, CostModel, ExponentialPolicy, SoftmaxPolicy, off_policy_value
from drcrm.cost_models.base import action_effects
from drcrm.errors import InputError
from drcrm.estimates import ESTIMATES
from drcrm.logging_policy import restrict_to_support
from drcrm.optimization.objective import Objective
from drcrm.optimization.starts import cloned_coefficients
from drcrm.policies.prepared_log import PreparedLog
from drcrm.risks import (
    Chi2Ball,
    KLBall,
    MeanRisk,
)
from drcrm.weights import Clipped, Shrunk, clipping_constant

REFERENCE = json.loads((Path(__file__).parent / "data/estimate_values.json").read_text())
REFERENCE_RISKS = {"mean": lambda radius: MeanRisk(), "kl_ball": KLBall, "chi2_ball": Chi2Ball}
OF_CHOICES = json.loads((Path(__file__).parent / "data/softmax_values.json").read_text())
every_estimate = pytest.mark.parametrize("estimate", ESTIMATES)
every_risk = pytest.mark.parametrize(
    "formula", RISKS, ids=lambda risk: f"{type(risk).__name__}{[*vars(risk).values()]}"
)
kinds = pytest.mark.parametrize("kind", ["single", "listed"])
ignore_overlap = pytest.mark.filterwarnings("ignore:the estimate by", "ignore:the mean weight is")


@pytest.mark.filterwarnings("ignore:the estimate by")
@pytest.mark.parametrize("entry", REFERENCE)
@pytest.mark.parametrize("form", [np.array, sparse.csr_array], ids=["dense", "csr"])
def test_values_and_gradients_agree_with_50_digits(entry, form):
    log = BanditLog(form(entry["X"]), entry["Y"], entry["propensity"], entry["cost"], entry["context"], entry["count"])
    coef, model = np.array(entry["coef"]), CostModel()
    model.coef_ = np.array(entry["B"])
    prepared = PreparedLog(log, action_effects(model, log.X, log.actions))
    for case in entry["found"]:
        risk = REFERENCE_RISKS[case["risk"]](case["radius"])
        value, gradient = Objective(prepared, risk, Clipped(case["clip"]), case["estimate"])(coef)
        assert value == pytest.approx(case["value"], rel=1e-9, abs=1e-9)
        assert gradient == pytest.approx(np.array(case["gradient"]), rel=1e-9, abs=1e-9)
        name, clip = evaluation_of(case)
        arguments = name, risk, None, clip, model
        assert off_policy_value(ExponentialPolicy(coef), log, *arguments) == pytest.approx(value, rel=1e-13)


@pytest.mark.parametrize("risk", RISKS, ids=repr)
@pytest.mark.parametrize("estimate", ESTIMATES)
def test_gradient_is_the_finite_difference(risk, estimate):
    log, coef = make_log(1), make_coef(2, 0.5).ravel()
    for weight, _ in WEIGHTS:
        objective = make_objective(log, risk, weight, estimate)
        assert objective(coef)[1] == pytest.approx(numeric_gradient(objective, coef), abs=5e-7)


@pytest.mark.parametrize("risk", RISKS, ids=repr)
@pytest.mark.parametrize("estimate", ESTIMATES)
def test_repeated_contexts_equal_the_log_row_by_row(risk, estimate):
    log, coef = make_log(3), make_coef(4)
    for weight in (Clipped(2.0), Shrunk(4.0)):
        value, gradient = make_objective(log, risk, weight, estimate)(coef)
        for same in (expand(log), log.merge_duplicates()[0]):
            same_value, same_gradient = make_objective(same, risk, weight, estimate)(coef)
            assert same_value == pytest.approx(value, rel=1e-10)
            assert same_gradient == pytest.approx(gradient, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("estimate", ["ips", "snips"])
def test_only_clipped_estimates_clip_and_they_do_it_like_fits(estimate):
    log, policy = make_log(22), ExponentialPolicy(make_coef(23, 2))
    clip, clipped = clipping_constant(log.without_empty_rows()), f"clipped_{estimate}"
    auto, explicit, default = (off_policy_value(policy, log, clipped, clip=value) for value in ("auto", clip, None))
    plain = off_policy_value(policy, log, estimate)
    assert auto == explicit == default != plain
    for value, limit in ((auto, clip), (plain, None)):
        expected = make_objective(log, MeanRisk(), Clipped(limit), estimate)(policy.coef)[0]
        assert value == pytest.approx(expected, rel=1e-13)
    weight = np.exp(policy.log_prob(log.X, log.Y, log.context)) / log.propensity
    assert auto.clipped == pytest.approx(log.count @ np.maximum(weight - clip, 0) / (log.count @ weight))
    assert (auto.clip, plain.clip, plain.clipped) == (clip, None, 0)
    for limit in (clip, "auto"):
        with pytest.raises(InputError, match=f"the estimate {estimate!r} does not clip weights; use 'clipped_ips'"):
            off_policy_value(policy, log, estimate, clip=limit)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"estimate": "sips"}, "estimate is 'sips', expected one"),
        ({"clip": 2.0}, "clip is 2.0, but the estimate 'dr' does not clip weights"),
        ({"weight": "clipped"}, "weight is 'clipped' for 'dr', expected a weight such as Shrunk"),
        ({"estimate": "clipped_dr", "weight": Shrunk(2.0)}, "expected a weight such as .* without a clip"),
        *(
            ({"estimate": "clipped_ips", "clip": clip}, "clip is .*, expected 'auto', a num")
            for clip in (0.5, np.nan, "none", [2.0])
        ),
        ({"policy": ExponentialPolicy(np.zeros((3, 5)))}, r"coef has shape \(3, 5\), expected \(5, 3\)"),
        ({"risk": "kl"}, "risk is 'kl', expected a risk such as KLBall"),
        ({"log": (1, 2)}, "log is of type tuple, expected a BanditLog"),
    ],
)
def test_invalid_arguments_are_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        off_policy_value(**{"policy": ExponentialPolicy(np.zeros((5, 3))), "log": make_log(), **arguments})


def test_estimates_that_need_a_model_refuse_to_do_without():
    with pytest.raises(InputError, match="the estimate 'dr' needs a cost model"):
        Objective(PreparedLog(make_log()), MeanRisk(), None, "dr")


def in_shape(kind: str, *coefficients: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return coefficients (d, K) in the shape of a kind: flat for lists with features x ⊗ e_a."""
    return tuple(coef.ravel() if "listed" in kind else coef for coef in coefficients)


def objective_of_choices(log: BanditLog, risk, weight, estimate: str, model, intercept: bool = False) -> Objective:
    """Return an objective; ``model`` is a cost model or its coefficients."""
    model = cost_model(model) if isinstance(model, np.ndarray) else model
    log = log.without_empty_rows()
    return Objective(PreparedLog(log, action_effects(model, log.X, log.actions), intercept), risk, weight, estimate)


# Objectives


@pytest.mark.parametrize("entry", OF_CHOICES)
@pytest.mark.parametrize("kind", ["single", "listed", "sparse single", "sparse listed"])
@ignore_overlap
def test_objectives_equal_arithmetic_of_50_digits(entry, kind):
    names = ("X", "action", "propensity", "cost", "context", "count", "eligible")
    choices = Choices(*(np.array(entry[name]) for name in names))
    log = getattr(choices, kind.split()[-1])(sparse.csr_array if "sparse" in kind else np.asarray)
    theta, B, logging = in_shape(kind, *(np.array(entry[name]) for name in ("coef", "B", "logging")))
    logging_policy, policy = SoftmaxPolicy(logging), SoftmaxPolicy(theta)
    for row in entry["found"]:
        risk, weight, support = REFERENCE_RISKS[row["risk"]](row["radius"]), Clipped(row["clip"]), row["support"]
        model = restrict_to_support(cost_model(B), log, logging_policy, support)
        value, gradient = objective_of_choices(log, risk, weight, row["estimate"], model)(theta)
        assert value == pytest.approx(row["value"], rel=1e-10, abs=1e-10)
        assert gradient == pytest.approx(np.array(row["gradient"]), rel=1e-10, abs=1e-10)
        name, clip = evaluation_of(row)
        arguments = name, risk, None, clip, cost_model(B), support, logging_policy
        assert off_policy_value(policy, log, *arguments) == pytest.approx(value, rel=1e-13)


@every_risk
@every_estimate
@kinds
@ignore_overlap
def test_an_estimate_equals_its_formula_row_by_row(formula, estimate, kind):
    choices, theta, B = Choices.drawn(6), normal_coef(7), normal_coef(8)
    log = choices.single() if kind == "single" else choices.listed(sparse.csr_array)
    coef, model_coef = in_shape(kind, theta, B)
    for weight, written in WEIGHTS:
        expected = choices.value(theta, B, formula, written, estimate)
        options = {"cost_model": cost_model(model_coef)}
        value = off_policy_value(SoftmaxPolicy(coef), log, estimate, formula, weight, **options)
        assert value == pytest.approx(expected, rel=1e-9)


# Starts and cost models


@kinds
@every_form
def test_behaviour_cloning_is_multinomial_logistic_regression(kind, form):
    """Against scikit-learn with the same ridge, λ = 10⁻⁴ in units of the features."""
    choices = Choices.drawn(25, rows=400, contexts=60, restricted=False)
    scales, n = np.abs(choices.X).max(axis=0), choices.count.sum()
    regression = LogisticRegression(C=1 / (n * 1e-4), fit_intercept=False, tol=1e-10, max_iter=10_000)
    regression.fit((choices.X / scales)[choices.context], choices.A, sample_weight=choices.count)
    expected = choices.probabilities(regression.coef_.T / scales[:, None])
    result = cloned_coefficients(PreparedLog(getattr(choices, kind)(form).without_empty_rows()))
    assert choices.probabilities(result.reshape(4, 3)) == pytest.approx(expected, abs=2e-3)
