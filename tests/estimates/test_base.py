"""Weights, estimates and risks together: against 50 digits, finite differences, other formulas and limits."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import brentq

from drcrm import CostModel, ExponentialPolicy, off_policy_value
from drcrm.cost_models.ridge_model import action_effects
from drcrm.data.bandit_log import BanditLog, clipping_constant
from drcrm.errors import InputError
from drcrm.estimates import ESTIMATES, find_estimate
from drcrm.optimization.objective import Objective
from drcrm.policies.linear_predictor import LinearPredictor
from drcrm.risks import (
    AdaptiveBoltzmannRisk,
    BoltzmannRisk,
    Chi2Ball,
    KLBall,
    LogSmoothingRisk,
    LogSumExpRisk,
    MeanRisk,
    VariancePenalizedRisk,
)
from drcrm.weights import Clipped, Implicit, Likelihood, Shrunk, Smoothed

REFERENCE = json.loads((Path(__file__).parents[1] / "data/estimate_values.json").read_text())
KINDS = {"mean": lambda radius: MeanRisk(), "kl_ball": KLBall, "chi2_ball": Chi2Ball}
RISKS = [
    MeanRisk(),
    VariancePenalizedRisk(0.8),
    BoltzmannRisk(3.0),
    AdaptiveBoltzmannRisk(0.1),
    KLBall(0.05),
    KLBall(0.6),
    Chi2Ball(0.2),
    Chi2Ball(2.0),
    LogSumExpRisk(2.0),
    LogSmoothingRisk(0.01),
]
WEIGHTS = [Clipped(2.0), Clipped(None), Implicit(0.3), Smoothed(0.6), Shrunk(4.0)]
MONOTONE = [risk for risk in RISKS if risk.monotone]


def named(value) -> str:
    return value if isinstance(value, str) else f"{type(value).__name__}{[*vars(value).values()]}"


def make_log(seed: int = 0, dense: bool = True) -> BanditLog:
    """A log of 12 contexts, 5 features and 3 labels, with repeated contexts and counts, some of them 0."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(12, 5)) * (rng.random((12, 5)) < 0.6)
    X[:, -1] = 1
    rows = rng.integers(0, 2, (50, 3)), rng.uniform(0.05, 1, 50), -rng.exponential(2, 50)
    return BanditLog(X if dense else sparse.csr_array(X), *rows, rng.integers(0, 12, 50), rng.integers(0, 4, 50))


def policy_of(d: int = 5, q: int = 3) -> ExponentialPolicy:
    return ExponentialPolicy(np.zeros((d, q)))


def make_model(seed: int = 1, d: int = 5, q: int = 3) -> CostModel:
    model = CostModel()
    model.coef_ = np.random.default_rng(seed).normal(size=(d, q + 1))
    return model


def objective(log: BanditLog, risk, weight, estimate: str) -> Objective:
    effects = action_effects(make_model(), log.X, log.actions)
    return Objective(LinearPredictor(log, effects, trains=True), risk, weight, estimate)


def weights_of(log: BanditLog, coef: np.ndarray, weight) -> np.ndarray:
    return weight(ExponentialPolicy(coef).log_prob(log.X, log.Y, log.context), log.log_propensity)[0]


@pytest.mark.filterwarnings("ignore:the estimate by")
@pytest.mark.parametrize("entry", range(len(REFERENCE)))
@pytest.mark.parametrize("make", [np.array, sparse.csr_array], ids=["dense", "csr"])
def test_agrees_with_50_digits(entry, make):
    at = REFERENCE[entry]
    log = BanditLog(make(at["X"]), at["Y"], at["propensity"], at["cost"], at["context"], at["count"])
    coef, model = np.array(at["coef"]), CostModel()
    model.coef_ = np.array(at["B"])
    effects = action_effects(model, log.X, log.actions)
    for found in at["found"]:
        risk = KINDS[found["risk"]](found["radius"])
        value, gradient = Objective(
            LinearPredictor(log, effects, trains=True), risk, Clipped(found["clip"]), found["estimate"]
        )(coef)
        assert value == pytest.approx(found["value"], rel=1e-9, abs=1e-9)
        assert gradient == pytest.approx(np.array(found["gradient"]), rel=1e-9, abs=1e-9)
        arguments = found["estimate"], risk, "clipped", found["clip"], model
        assert off_policy_value(ExponentialPolicy(coef), log, *arguments) == pytest.approx(value, rel=1e-13)


@pytest.mark.parametrize("risk", RISKS, ids=named)
@pytest.mark.parametrize("estimate", ESTIMATES)
@pytest.mark.parametrize("weight", WEIGHTS, ids=named)
@pytest.mark.parametrize("dense", [True, False], ids=["dense", "csr"])
def test_gradient_is_the_finite_difference(risk, estimate, weight, dense):
    value = objective(make_log(1, dense), risk, weight, estimate)
    coef, step = np.random.default_rng(2).normal(size=15) / 2, 1e-6
    numeric = [(value(coef + step * e)[0] - value(coef - step * e)[0]) / (2 * step) for e in np.eye(15)]
    assert value(coef)[1] == pytest.approx(np.array(numeric), abs=5e-7)


@pytest.mark.parametrize("risk", RISKS, ids=named)
@pytest.mark.parametrize("estimate", ESTIMATES)
def test_repeated_contexts_equal_the_log_row_by_row(risk, estimate):
    log = make_log(3)
    rows = np.repeat(np.arange(len(log.Y)), log.count)
    long = BanditLog(log.X[log.context[rows]], log.Y[rows], log.propensity[rows], log.cost[rows])
    coef = np.random.default_rng(4).normal(size=(5, 3))
    for weight in WEIGHTS:
        value, gradient = objective(log, risk, weight, estimate)(coef)
        other, other_gradient = objective(long, risk, weight, estimate)(coef)
        assert other == pytest.approx(value, rel=1e-10)
        assert other_gradient == pytest.approx(gradient, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("risk", MONOTONE, ids=named)
@pytest.mark.parametrize("weight", WEIGHTS, ids=named)
def test_snips_is_the_root(risk, weight):
    """By bisection, on the risk's public face."""
    log = make_log(5)
    for seed in range(20):
        coef = np.random.default_rng(seed).normal(size=(5, 3)) * 2
        w = weights_of(log, coef, weight)
        root = brentq(lambda v, w=w: risk(w * (log.cost - v), log.count)[0], log.cost.min() - 1, 1, xtol=1e-13)
        assert objective(log, risk, weight, "snips")(coef)[0] == pytest.approx(root, rel=1e-9)


def test_snips_of_the_mean_is_snips():
    log, coef = make_log(6), np.random.default_rng(7).normal(size=(5, 3))
    w = weights_of(log, coef, Clipped(2.0))
    expected = (log.count * w) @ log.cost / (log.count @ w)
    assert objective(log, MeanRisk(), Clipped(2.0), "snips")(coef)[0] == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("risk", MONOTONE, ids=named)
def test_a_search_may_start_anywhere(risk):
    value = objective(make_log(8), risk, Clipped(None), "snips")
    start = None
    for seed in range(30):
        coef = 3 * np.random.default_rng(seed).normal(size=(5, 3))
        cold, gradient, _ = value.evaluate(coef)
        warm, warm_gradient, start = value.evaluate(coef, start)
        assert warm == pytest.approx(cold, rel=1e-9)
        assert warm_gradient == pytest.approx(gradient, rel=1e-7, abs=1e-9)


@pytest.mark.parametrize("risk", MONOTONE, ids=named)
def test_snips_of_a_ball_is_the_worst_ratio(risk):
    """No distribution in the ball has a larger ratio: that of the worst rows at the root attains it."""
    log, coef = make_log(9), np.random.default_rng(10).normal(size=(5, 3))
    w = weights_of(log, coef, Clipped(None))
    value = objective(log, risk, Clipped(None), "snips")(coef)[0]
    worst = risk(w * (log.cost - value), log.count)[1]
    assert worst @ (w * log.cost) / (worst @ w) == pytest.approx(value, rel=1e-9)
    for other in np.linspace(log.cost.min(), 0, 50):
        tried = risk(w * (log.cost - other), log.count)[1]
        assert tried @ (w * log.cost) / (tried @ w) <= value + 1e-9


@pytest.mark.parametrize("risk", [risk for risk in RISKS if not isinstance(risk, LogSmoothingRisk)], ids=named)
def test_a_ratio_moves_with_its_costs(risk):
    """Self-normalised estimates do: for risks that move with z, whatever the weights."""
    log, coef = make_log(11), np.random.default_rng(12).normal(size=(5, 3))
    here, there = (objective(each, risk, Clipped(2.0), "snips")(coef) for each in (log, log.with_cost(log.cost - 7)))
    assert there[0] == pytest.approx(here[0] - 7, rel=1e-9)
    assert there[1] == pytest.approx(here[1], rel=1e-6, abs=1e-8)


def test_norm_poem_is_the_public_penalty():
    """SNIPS + λ √(Σ (c − R)² w²)/Σ w, but for √(n/(n − 1))."""
    log, coef, penalty = make_log(13), np.random.default_rng(14).normal(size=(5, 3)), 0.7
    w, n, count = weights_of(log, coef, Clipped(2.0)), log.size, log.count
    ratio = (count * w) @ log.cost / (count @ w)
    spread = np.sqrt((count * w**2) @ (log.cost - ratio) ** 2) / (count @ w)
    value = objective(log, VariancePenalizedRisk(penalty), Clipped(2.0), "snips")(coef)[0]
    assert value == pytest.approx(ratio + penalty * spread * np.sqrt(n / (n - 1)), rel=1e-12)


def test_expected_modelled_cost_is_the_sum_over_actions():
    log, model = make_log(15), make_model()
    policy = ExponentialPolicy(np.random.default_rng(16).normal(size=(5, 3)))
    actions = np.array(list(product([0, 1], repeat=3)))
    expected = np.zeros(12)
    for action in actions:
        rows = np.tile(action, (12, 1))
        expected += np.exp(policy.log_prob(log.X, rows)) * model.predict(log.X, rows)
    assert model.expectation(log.X, policy) == pytest.approx(expected, rel=1e-12)
    dm = off_policy_value(policy, log, "dm", cost_model=model)
    assert dm == pytest.approx(np.bincount(log.context, log.count, 12) @ expected / log.size, rel=1e-12)


def test_doubly_robust_is_right_where_one_of_both_is():
    """Without residuals it is the direct method; without a model it is ips."""
    log = make_log(17)
    exact = log.with_cost(make_model().predict(log.X[log.context], log.Y))
    policy = ExponentialPolicy(np.random.default_rng(18).normal(size=(5, 3)))
    for risk in (MeanRisk(), KLBall(0.1)):
        dr, dm = (off_policy_value(policy, exact, name, risk, cost_model=make_model()) for name in ("dr", "dm"))
        assert dr == pytest.approx(dm, rel=1e-12)
        nothing = CostModel()
        nothing.coef_ = np.zeros((5, 4))
        dr = off_policy_value(policy, log, "dr", risk, Implicit(0.1), cost_model=nothing)
        assert dr == pytest.approx(off_policy_value(policy, log, "ips", risk, Implicit(0.1)), rel=1e-12)


def test_snips_without_weights_is_undefined():
    log = BanditLog([[1.0]], [[1]], [0.5], [-1.0])
    policy = ExponentialPolicy([[-1000.0]])
    with pytest.warns(UserWarning, match="the mean weight is 0, far below 1: .*; the estimate by 'snips' is nan"):
        assert np.isnan(off_policy_value(policy, log, "snips"))
    with pytest.warns(UserWarning, match="the estimate by 'ips' is 0, outside the range of the logged costs, -1 to -1"):
        assert off_policy_value(policy, log, "ips") == 0


def test_an_estimate_is_clipped_as_a_fit_is():
    log = make_log(22)
    policy = ExponentialPolicy(2 * np.random.default_rng(23).normal(size=(5, 3)))
    clip = clipping_constant(log.recount(log.count))
    assert weights_of(log, policy.coef, Clipped(None)).max() > clip
    for estimate in ("ips", "snips"):
        auto, given, none = (off_policy_value(policy, log, estimate, clip=each) for each in ("auto", clip, None))
        assert off_policy_value(policy, log, estimate) == auto == given != none
        assert none == objective(log, MeanRisk(), Clipped(None), estimate)(policy.coef)[0]


def test_doubtful_estimates_are_warned_of():
    """Where the log has few of a policy's actions, and where no policy costs as much or as little."""
    rng = np.random.default_rng(24)
    Y, X = rng.integers(0, 2, (400, 3)), np.ones((400, 1))
    log = BanditLog(X, Y, np.full(400, 1 / 8), Y.sum(axis=1) - 3.0)
    for sharpness in (0.0, 1.0, 5.0, 30.0):  # the last takes one action, which an eighth of the rows have
        for estimate in ESTIMATES:
            off_policy_value(ExponentialPolicy(np.full((1, 3), -sharpness)), log, estimate, MeanRisk(), clip=None)
    always = ExponentialPolicy([[30.0, 30, 30]])
    seldom = log.recount(~Y.all(axis=1))
    with pytest.warns(UserWarning, match="^the mean weight is .*, far below 1: the log has few of the actions") as seen:
        off_policy_value(always, seldom, "dr")
    assert [each.filename for each in seen] == [__file__]
    with pytest.warns(
        UserWarning, match="^the estimate by 'ips' is .*, outside the range of the logged costs, 7 to 10$"
    ):
        off_policy_value(always, log.with_cost(log.cost + 10).recount(1 + 9 * Y.all(axis=1)), "ips", clip=None)


@pytest.mark.parametrize("ball", [KLBall(50.0), Chi2Ball(50.0), KLBall(2.0)])
def test_snips_where_the_worst_rows_have_no_weight(ball):
    """The value is the largest cost of a row with a weight, or where the ball ends before."""
    Y, count = [[1], [1], [0]], [2, 1, 4]
    log = BanditLog(np.ones((3, 1)), Y, np.full(3, 0.5), [-3.0, -1.0, 5.0], count=count)
    value, gradient = Objective(LinearPredictor(log, trains=True), ball, Clipped(None), "snips")(np.array([[1000.0]]))
    assert -3 <= value <= -1
    assert np.isfinite(gradient).all()


@pytest.mark.parametrize("weight", [Clipped(3.0), Implicit(0.2), Smoothed(0.7), Shrunk(5.0), Likelihood()], ids=named)
def test_weights_are_their_formulas(weight):
    rng = np.random.default_rng(19)
    log_prob, log_propensity = -rng.exponential(2, 40), -rng.exponential(2, 40)
    pi, p = np.exp(log_prob), np.exp(log_propensity)
    formula = {
        Clipped: lambda: np.minimum(pi / p, 3),
        Implicit: lambda: pi / (p + 0.2),
        Smoothed: lambda: pi / p**0.7,
        Shrunk: lambda: 5 * (pi / p) / ((pi / p) ** 2 + 5),
        Likelihood: lambda: log_prob,
    }[type(weight)]()
    before = log_prob.copy()
    value, slope = weight(log_prob, log_propensity)
    assert np.array_equal(log_prob, before)
    assert value == pytest.approx(formula, rel=1e-12)
    step = 1e-6
    numeric = (weight(log_prob + step, log_propensity)[0] - weight(log_prob - step, log_propensity)[0]) / (2 * step)
    assert slope == pytest.approx(numeric, rel=1e-5, abs=1e-8)


@pytest.mark.parametrize("kind", [Implicit, Smoothed, Shrunk, Clipped])
def test_the_robust_end_of_a_weights_grid_has_the_smaller_weights(kind):
    rng = np.random.default_rng(21)
    arguments = -rng.exponential(2, 40), -rng.exponential(2, 40)
    grid = sorted([1e-3, 0.1, 0.5, 1.0] if kind is not Clipped else [1.0, 2.0, 5.0], reverse=kind.robust_end == "high")
    values = np.array([kind(value)(*arguments)[0] for value in grid])  # from the robust end on
    assert (np.diff(values, axis=0) >= 0).all()
    assert values[0].max() < values[-1].max()


def test_limits_of_the_weights_are_plain_importance_weights():
    rng = np.random.default_rng(20)
    arguments = -rng.exponential(2, 40), -rng.exponential(2, 40)
    plain = Clipped(None)(*arguments)
    for weight in (Implicit(1e-300), Smoothed(1.0), Shrunk(1e200), Clipped(1e300)):
        for ours, expected in zip(weight(*arguments), plain, strict=True):
            assert ours == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Implicit(0), "exploration is 0, expected a finite number > 0"),
        (lambda: Smoothed(1.5), "exponent is 1.5, expected at most 1"),
        (lambda: Shrunk(-1), "shrinkage is -1, expected a finite number > 0"),
        (lambda: off_policy_value(ExponentialPolicy([[0.0]]), make_log(), "sips"), "estimate is 'sips', expected one"),
        *(
            (
                lambda clip=clip: off_policy_value(policy_of(), make_log(), clip=clip),
                "clip is .*, expected 'auto', a num",
            )
            for clip in (0.5, np.nan, "none", [2.0])
        ),
        (
            lambda: off_policy_value(ExponentialPolicy(np.zeros((3, 5))), make_log()),
            r"the policy's coef has shape \(3, 5\), expected \(5, 3\), as the log has",
        ),
        (lambda: off_policy_value(policy_of(), make_log(), risk="kl"), "risk is 'kl', expected a risk such as KLBall"),
        (lambda: off_policy_value(policy_of(), (1, 2)), "log is of type tuple, expected a BanditLog"),
        (
            lambda: Objective(LinearPredictor(make_log()), MeanRisk(), None, "dr"),
            "the estimate 'dr' needs a cost model",
        ),
        (lambda: LogSmoothingRisk(0.5)([1.0, 3.0]), "needs every weighted cost below 1/λ = 2, got 3"),
    ],
)
def test_errors_say_what_is_wrong(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_a_weight_beyond_numbers_has_no_ratio():
    """Nor has the search for the worst one an end."""
    cost, count = np.array([-1.0, 0.0, -0.5]), np.ones(3)
    estimate = find_estimate("snips")(cost, count)
    value, slope, _, _ = estimate.evaluate(KLBall(0.1), np.array([np.inf, 1.0, 1.0]), np.ones(3), None, None)
    assert np.isnan(value)
    assert not slope.any()
