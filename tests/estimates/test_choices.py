"""One of K actions, and lists, under every weight, estimate and risk: 50 digits, formulas and finite differences."""

import json
from pathlib import Path

import numpy as np
import pytest
from fixtures.action_logs import RISKS, WEIGHTS, Choices, cost_model, evaluation_of, every_form, normal_coef
from fixtures.reference_formulas import expectation, predict
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from drcrm import BanditLog, CostModel, SoftmaxPolicy, off_policy_value
from drcrm.cost_models.base import action_effects
from drcrm.estimates import ESTIMATES
from drcrm.logging_policy import restrict_to_support
from drcrm.optimization.objective import Objective
from drcrm.optimization.starts import cloned_coefficients
from drcrm.policies.prepared_log import PreparedLog
from drcrm.risks import Chi2Ball, KLBall, MeanRisk
from drcrm.weights import Clipped

REFERENCE = json.loads((Path(__file__).parents[1] / "data/softmax_values.json").read_text())
BALLS = {"mean": lambda radius: MeanRisk(), "kl_ball": KLBall, "chi2_ball": Chi2Ball}
every_estimate = pytest.mark.parametrize("estimate", ESTIMATES)
every_risk = pytest.mark.parametrize(
    "formula", RISKS, ids=lambda risk: f"{type(risk).__name__}{[*vars(risk).values()]}"
)
kinds = pytest.mark.parametrize("kind", ["single", "listed"])
ignore_overlap = pytest.mark.filterwarnings("ignore:the estimate by", "ignore:the mean weight is")


def in_shape(kind: str, *coefficients: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return coefficients (d, K) in the shape of a kind: flat for lists with features x ⊗ e_a."""
    return tuple(coef.ravel() if "listed" in kind else coef for coef in coefficients)


def make_objective(log: BanditLog, risk, weight, estimate: str, model, intercept: bool = False) -> Objective:
    """Return an objective; ``model`` is a cost model or its coefficients."""
    model = cost_model(model) if isinstance(model, np.ndarray) else model
    log = log.without_empty_rows()
    return Objective(PreparedLog(log, action_effects(model, log.X, log.actions), intercept), risk, weight, estimate)


# Objectives


@pytest.mark.parametrize("entry", REFERENCE)
@pytest.mark.parametrize("kind", ["single", "listed", "sparse single", "sparse listed"])
@ignore_overlap
def test_objectives_equal_arithmetic_of_50_digits(entry, kind):
    names = ("X", "action", "propensity", "cost", "context", "count", "eligible")
    choices = Choices(*(np.array(entry[name]) for name in names))
    log = getattr(choices, kind.split()[-1])(sparse.csr_array if "sparse" in kind else np.asarray)
    theta, B, logging = in_shape(kind, *(np.array(entry[name]) for name in ("coef", "B", "logging")))
    logging_policy, policy = SoftmaxPolicy(logging), SoftmaxPolicy(theta)
    for row in entry["found"]:
        risk, weight, support = BALLS[row["risk"]](row["radius"]), Clipped(row["clip"]), row["support"]
        model = restrict_to_support(cost_model(B), log, logging_policy, support)
        value, gradient = make_objective(log, risk, weight, row["estimate"], model)(theta)
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


@every_risk
@every_estimate
def test_gradients_equal_finite_differences(formula, estimate):
    step = 1e-6
    choices, B = Choices.drawn(9), normal_coef(10)
    variants = [
        (Choices.drawn(9, restricted=False).single(), B, True),
        (choices.single(sparse.csr_array), B, False),
        (choices.listed(), B.ravel(), False),
        (choices.listed(sparse.csr_array), B.ravel(), False),
    ]
    for log, model, intercept in variants:
        for weight, _ in WEIGHTS:
            objective = make_objective(log, formula, weight, estimate, model, intercept)
            theta, direction = normal_coef(11, (2, np.prod(objective.prepared.shape)))
            gradient = objective(theta / 2)[1]
            ahead, behind = (objective(theta / 2 + side * step * direction)[0] for side in (1, -1))
            assert gradient @ direction == pytest.approx((ahead - behind) / (2 * step), rel=1e-5, abs=2e-6)


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


@kinds
def test_fit_and_modelled_costs_of_a_cost_model_agree(kind):
    choices, theta = Choices.drawn(29, restricted=kind == "listed"), normal_coef(30)
    X, A = (choices.X, choices.A) if kind == "single" else (choices.lists(), choices.position)
    model = CostModel(0.1).fit(X, A, cost=choices.cost, context=choices.context, count=choices.count)
    log = getattr(choices, kind)()
    assert model.coef_ == pytest.approx(CostModel(0.1).fit(log).coef_, rel=1e-9, abs=1e-12)
    effects = action_effects(model, log.X, log.actions)
    by_action = np.zeros(choices.eligible.shape)
    by_action[choices.eligible] = effects if kind == "listed" else effects[choices.eligible]
    expected = (choices.probabilities(theta) * by_action).sum(axis=1)
    assert expectation(model, X, SoftmaxPolicy(*in_shape(kind, theta))) == pytest.approx(expected, rel=1e-10)
    first = np.array([np.flatnonzero(row)[0] for row in choices.eligible])
    predicted = predict(model, X, first if kind == "single" else np.zeros(12, dtype=int))
    assert predicted == pytest.approx(by_action[np.arange(12), first], rel=1e-10)
