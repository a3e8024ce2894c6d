"""Softmax policies under every weight, estimate and risk: against 50 digits, formulas, other kinds and differences."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import brentq
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression
from softmax_logs import RISKS, WEIGHTS, Choices, cost_model, ratio

from drcrm import ActionLists, BanditLog, CostModel, SoftmaxPolicy, off_policy_value
from drcrm.certificates import policy_certificate, upper_bound
from drcrm.cost_models.ridge_model import action_effects
from drcrm.cost_models.support import SupportedModel
from drcrm.estimates import ESTIMATES
from drcrm.optimization.behaviour_cloning import cloned_coefficients
from drcrm.optimization.objective import Objective
from drcrm.optimization.starts import start_coef
from drcrm.policies.linear_predictor import LinearPredictor
from drcrm.risks import Chi2Ball, KLBall, MeanRisk
from drcrm.selection.heldout_scores import HeldoutScores
from drcrm.weights import Clipped

REFERENCE = json.loads((Path(__file__).parents[1] / "data/softmax_values.json").read_text())
BALLS = {"mean": lambda radius: MeanRisk(), "kl_ball": KLBall, "chi2_ball": Chi2Ball}
every_estimate = pytest.mark.parametrize("estimate", ESTIMATES)
every_risk = pytest.mark.parametrize(
    "formula", RISKS, ids=lambda risk: f"{type(risk).__name__}{[*vars(risk).values()]}"
)
every_form = pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
kinds = pytest.mark.parametrize("kind", ["single", "listed"])
unlikely = pytest.mark.filterwarnings("ignore:the estimate by", "ignore:the mean weight is")


def drawn(seed: int, shape=(4, 3), scale: float = 1.0) -> np.ndarray:
    return scale * np.random.default_rng([seed, 7]).normal(size=shape)


def objective(log: BanditLog, risk, weight, estimate: str, B, intercept: bool = False) -> Objective:
    """With the coefficients of a cost model, or a model."""
    model = cost_model(B) if isinstance(B, np.ndarray) else B
    effects = action_effects(model, log.X, log.actions)
    return Objective(LinearPredictor(log, effects, intercept, trains=True), risk, weight, estimate)


def agree(one, other, tolerance: float = 1e-12) -> None:
    """Values and gradients."""
    assert one[0] == pytest.approx(other[0], rel=tolerance, abs=tolerance)
    assert one[1] == pytest.approx(other[1], rel=tolerance, abs=tolerance * max(1, abs(one[1]).max()))


@every_estimate
def test_two_actions_are_one_label(risk, estimate):
    """Θ = (0, θ); costs b_0 and b_0 + b_1. The slope in θ is that of action 1, and that of action 0 its opposite."""
    choices = Choices.drawn(0, actions=2, restricted=False)
    labels = BanditLog(choices.X, choices.A[:, None], **choices.rows)
    (label, without), theta = drawn(1, (2, 4)), drawn(2, (4, 1))
    of_label, of_actions = np.column_stack([label, without]), np.column_stack([without, without + label])
    both = np.column_stack([np.zeros(4), theta])
    for weight, _ in WEIGHTS:
        value, gradient = objective(choices.single(), risk, weight, estimate, of_actions)(both)
        expected = objective(labels, risk, weight, estimate, of_label)(theta)
        gradient = gradient.reshape(4, 2)
        agree((value, gradient[:, 1]), expected)
        agree((value, -gradient[:, 0]), expected)


@every_estimate
@pytest.mark.parametrize("restricted", [True, False], ids=["eligible", "all"])
def test_lists_are_single_choices_where_features_are_x_by_action(risk, estimate, restricted):
    """ψ_a = x ⊗ e_a; eligible sets are shorter lists."""
    choices, theta, B = Choices.drawn(3, restricted=restricted), drawn(4), drawn(5)
    single, listed = choices.single(), choices.listed()
    for weight, _ in WEIGHTS:
        expected = objective(single, risk, weight, estimate, B)(theta)
        agree(objective(listed, risk, weight, estimate, B.ravel())(theta.ravel()), expected)


@pytest.mark.parametrize("entry", range(len(REFERENCE)))
@pytest.mark.parametrize("kind", ["single", "listed", "sparse single", "sparse listed"])
@unlikely
def test_agrees_with_50_digits(entry, kind):
    at = REFERENCE[entry]
    names = ("X", "action", "propensity", "cost", "context", "count", "eligible")
    choices = Choices(*(np.array(at[name]) for name in names))
    log = getattr(choices, kind.split()[-1])(sparse.csr_array if "sparse" in kind else np.asarray)
    theta, B, logging = (np.array(at[name]) for name in ("coef", "B", "logging"))
    if "listed" in kind:
        theta, B, logging = theta.ravel(), B.ravel(), logging.ravel()
    for row in at["found"]:
        risk, weight = BALLS[row["risk"]](row["radius"]), Clipped(row["clip"])
        model = SupportedModel.of(cost_model(B), log, SoftmaxPolicy(logging), row["support"])
        value, gradient = objective(log, risk, weight, row["estimate"], model)(theta)
        assert value == pytest.approx(row["value"], rel=1e-10, abs=1e-10)
        assert gradient == pytest.approx(np.array(row["gradient"]), rel=1e-10, abs=1e-10)
        arguments = row["estimate"], risk, "clipped", row["clip"], cost_model(B), row["support"], SoftmaxPolicy(logging)
        assert off_policy_value(SoftmaxPolicy(theta), log, *arguments) == pytest.approx(value, rel=1e-13)


@every_risk
@every_estimate
@unlikely
def test_an_estimate_is_its_formula(formula, estimate):
    """Row by row, from a dense softmax."""
    choices, theta, B = Choices.drawn(6), drawn(7), drawn(8)
    for weight, written in WEIGHTS:
        expected = choices.value(theta, B, formula, written, estimate)
        for log, coef, model in (
            (choices.single(), theta, cost_model(B)),
            (choices.listed(sparse.csr_array), theta.ravel(), cost_model(B.ravel())),
        ):
            value = off_policy_value(SoftmaxPolicy(coef), log, estimate, formula, weight, cost_model=model)
            assert value == pytest.approx(expected, rel=1e-9)


@every_risk
@every_estimate
def test_gradient_is_the_finite_difference(formula, estimate):
    """Along two directions; with and without eligible sets, an intercept, sparse features, and for lists."""
    step = 1e-6
    for restricted in (True, False):
        choices = Choices.drawn(9, restricted=restricted)
        forms, B = (np.asarray, sparse.csr_array), drawn(10)
        variants = [(choices.single(form), B, intercept) for form in forms for intercept in (True, False)]
        variants += [(choices.listed(form), B.ravel(), False) for form in forms]
        for log, B, intercept in variants:
            for weight, _ in WEIGHTS:
                value = objective(log, formula, weight, estimate, B, intercept)
                theta, *directions = drawn(11, (3, np.prod(value.design.shape)))
                slope = value(theta / 2)[1]
                for direction in directions:
                    ahead, behind = (value(theta / 2 + side * step * direction)[0] for side in (1, -1))
                    assert slope @ direction == pytest.approx((ahead - behind) / (2 * step), rel=1e-5, abs=2e-6)


@every_risk
@every_estimate
@kinds
def test_repeated_contexts_and_counts_equal_the_log_row_by_row(formula, estimate, kind):
    choices, theta, B = Choices.drawn(12), drawn(13), drawn(14)
    if kind == "listed":
        theta, B = theta.ravel(), B.ravel()
    long = choices.repeated()
    spelt = Choices(
        long.X[long.context],
        long.A,
        long.propensity,
        long.cost,
        np.arange(len(long.A)),
        long.count,
        long.eligible[long.context],
    )
    log, other = getattr(choices, kind)(), getattr(spelt, kind)()
    for weight, _ in WEIGHTS:
        found = objective(log, formula, weight, estimate, B)(theta)
        agree(objective(other, formula, weight, estimate, B)(theta), found, 1e-9)


def test_actions_in_another_order_are_the_same():
    """A constant added to all scores of a context, or to all of Θ's columns, changes nothing either."""
    choices, theta, B, order = Choices.drawn(15), drawn(16), drawn(17), np.array([2, 0, 1])
    moved = Choices.drawn(15)
    moved.A, moved.eligible = np.argsort(order)[choices.A], choices.eligible[:, order]
    for estimate in ESTIMATES:
        value, gradient = objective(choices.single(), KLBall(0.1), Clipped(2.0), estimate, B)(theta)
        other, reordered = objective(moved.single(), KLBall(0.1), Clipped(2.0), estimate, B[:, order])(theta[:, order])
        agree((value, gradient.reshape(4, 3)[:, order]), (other, reordered.reshape(4, 3)))
        shifted = objective(choices.single(), KLBall(0.1), Clipped(2.0), estimate, B)(theta + drawn(18, (4, 1)))
        agree((value, gradient), shifted, 1e-11)
        assert gradient.reshape(4, 3).sum(axis=1) == pytest.approx(0, abs=1e-12)


@pytest.fixture
def judged_rows():
    """A policy and a log of some 400 rows, with the weights, the costs and what a model says of them."""
    choices, theta, B = Choices.drawn(19, rows=400, contexts=40), drawn(20, scale=0.5), drawn(21)
    pi, modelled = choices.probabilities(theta), choices.X @ B
    weight = choices.of_rows(pi) / choices.propensity
    expected = np.where(choices.eligible, pi * modelled, 0).sum(axis=1)[choices.context]
    return choices, theta, B, weight, expected, choices.of_rows(modelled)


@kinds
def test_held_out_scores_are_their_formulas(kind, judged_rows):
    choices, theta, B, weight, expected, modelled = judged_rows
    log, cost, count = getattr(choices, kind)(), choices.cost, choices.count
    if kind == "listed":
        theta, B = theta.ravel(), B.ravel()
    n, clip = count.sum(), 2.0
    clipped, ball = np.minimum(weight, clip), KLBall(norm.ppf(0.95) ** 2 / (2 * n))
    dr = expected + clipped * (cost - modelled)
    even = choices.eligible / choices.eligible.sum(axis=1, keepdims=True)
    z0 = (even * (choices.X @ np.reshape(B, (4, 3)))).sum(axis=1)[choices.context]
    z0 += choices.of_rows(even) / choices.propensity * (cost - modelled)
    formulas = {
        "ips": count @ (weight * cost) / n,
        "clipped_ips": count @ (clipped * cost) / n,
        "snips": count @ (weight * cost) / (count @ weight),
        "clipped_snips": count @ (clipped * cost) / (count @ clipped),
        "dr": count @ dr / n,
        "dr_bound": ball(dr, count)[0],
        "snips_bound": ratio(clipped, cost, count, ball),
        "ls_bound": upper_bound(weight * cost, method="log_smoothing", weights=count),
        "improvement_bound": ball(expected + weight * (cost - modelled) - z0, count)[0],
    }
    uniform = SoftmaxPolicy(np.zeros_like(theta))
    scores = HeldoutScores(log, clip, action_effects(cost_model(B), log.X, log.actions), False, uniform)(theta)
    assert scores == pytest.approx(formulas, rel=1e-9)


@kinds
@unlikely
def test_certificates_are_their_formulas(kind, judged_rows):
    choices, theta, B, weight, expected, modelled = judged_rows
    log, cost, count = getattr(choices, kind)(), choices.cost, choices.count.astype(float)
    if kind == "listed":
        theta, B = theta.ravel(), B.ravel()
    n = count.sum()
    z = {"ips": weight * cost, "dr": expected + weight * (cost - modelled)}
    for estimate, values in z.items():
        for method in ("kl", "chi2", "student"):
            found = policy_certificate(
                SoftmaxPolicy(theta), log, estimate, check_tails=False, method=method, cost_model=cost_model(B)
            )
            assert found.bound == pytest.approx(upper_bound(values, method=method, weights=count), rel=1e-9)
            assert found.value == pytest.approx(count @ values / n, rel=1e-9)
        used = np.unique(choices.context[count > 0])
        means = [np.average(values[of], weights=count[of]) for of in (choices.context == k for k in used)]
        found = policy_certificate(
            SoftmaxPolicy(theta), log, estimate, check_tails=False, by="context", cost_model=cost_model(B)
        )
        assert found.bound == pytest.approx(upper_bound(means), rel=1e-9)
        assert found.n == len(used)
    found = policy_certificate(SoftmaxPolicy(theta), log, "snips", check_tails=False)
    ball = KLBall(norm.ppf(0.95) ** 2 / (2 * n))
    root = brentq(lambda v: ball(weight * (cost - v), count)[0], cost.min(), cost.max() + 1, xtol=1e-13)
    assert found.bound == pytest.approx(root, rel=1e-9)
    assert found.value == pytest.approx(count @ (weight * cost) / (count @ weight), rel=1e-9)
    assert found.mean_weight == pytest.approx(count @ weight / n, rel=1e-9)
    assert found.effective_size == pytest.approx((count @ weight) ** 2 / (count @ weight**2), rel=1e-9)


@kinds
@every_form
def test_a_tilt_leaves_a_third_of_the_rows(kind, form):
    """Θ0 − κB, whose weights have the effective size n/3."""
    choices = Choices.drawn(22, rows=300, contexts=100, actions=8)
    base, B = drawn(23, (4, 8), 0.1), drawn(24, (4, 8))
    choices.propensity = choices.of_rows(choices.probabilities(base))
    log = getattr(choices, kind)(form)
    shape = (4, 8) if kind == "single" else (32,)
    start, tilt = start_coef(
        "model", LinearPredictor(log), SoftmaxPolicy(base.reshape(shape)), B.reshape(shape), "auto"
    )
    origin = base - base.mean(axis=1, keepdims=True) if kind == "single" else base  # what is common changes no policy
    assert start == pytest.approx((origin - tilt * B).reshape(shape), rel=1e-12, abs=1e-14)
    weight = choices.of_rows(choices.probabilities(base - tilt * B)) / choices.propensity
    size = (choices.count @ weight) ** 2 / (choices.count @ weight**2)
    assert size == pytest.approx(choices.count.sum() / 3, rel=1e-6)


@every_form
def test_an_imitation_is_multinomial_logistic_regression(form):
    """Of scikit-learn, with the same ridge, λ = 10⁻⁴ in units of the features."""
    choices = Choices.drawn(25, rows=400, contexts=60, restricted=False)
    scales, n = np.abs(choices.X).max(axis=0), choices.count.sum()
    rows = choices.context
    other = LogisticRegression(C=1 / (n * 1e-4), fit_intercept=False, tol=1e-10, max_iter=10_000)
    other.fit((choices.X / scales)[rows], choices.A, sample_weight=choices.count)
    expected = choices.probabilities(other.coef_.T / scales[:, None])
    single = cloned_coefficients(LinearPredictor(choices.single(form), trains=True))
    assert choices.probabilities(single) == pytest.approx(expected, abs=2e-3)
    listed = cloned_coefficients(LinearPredictor(choices.listed(form), trains=True))
    assert choices.probabilities(listed.reshape(4, 3)) == pytest.approx(expected, abs=2e-3)


@kinds
@every_form
@pytest.mark.parametrize("restricted", [True, False], ids=["eligible", "all"])
def test_a_cost_model_is_a_ridge_regression(kind, form, restricted):
    """On z = x ⊗ e_a in units of its features, with an intercept that has no penalty, by the normal equations."""
    choices, penalty = Choices.drawn(26, rows=120, restricted=restricted), 0.02
    log = getattr(choices, kind)(form)
    model = CostModel(penalty).fit_log(log)
    features = np.einsum("kj,ab->kajb", choices.X, np.eye(3)).reshape(12, 3, 12)
    used = np.unique(choices.context[choices.count > 0])
    if kind == "single":
        scales = np.repeat(np.abs(choices.X[used]).max(axis=0), 3)
    else:
        scales = np.abs(features[used][choices.eligible[used]]).max(axis=0)
    scales = np.where(scales > 0, scales, 1)
    z, share = choices.of_rows(features) / scales, choices.count / choices.count.sum()
    centred = z - share @ z
    gram = centred.T @ (centred * share[:, None]) + penalty * np.eye(12)
    coef = np.linalg.solve(gram, centred.T @ (share * choices.cost))
    expected = (features / scales) @ coef + share @ (choices.cost - z @ coef)
    found = action_effects(model, log.X, log.actions)
    offered = choices.eligible
    assert (found[offered] if kind == "single" else found) == pytest.approx(expected[offered], rel=1e-7, abs=1e-7)


@kinds
@every_form
def test_a_penalty_is_chosen_alike_for_every_form(kind, form):
    """By second moments or gradients, of single choices or of lists."""
    choices = Choices.drawn(27, rows=200, contexts=50, restricted=False)
    choices.cost = choices.of_rows(choices.X @ drawn(28)) + choices.cost / 5
    expected = CostModel().fit_log(choices.single())
    model = CostModel().fit_log(getattr(choices, kind)(form))
    assert model.penalty_ == expected.penalty_
    X = choices.X if kind == "single" else choices.lists()
    A = choices.A[:50]
    assert model.predict(X, A) == pytest.approx(expected.predict(choices.X, A), rel=1e-6)


@kinds
def test_the_public_cost_model_agrees_with_the_log(kind):
    choices, theta = Choices.drawn(29, restricted=kind == "listed"), drawn(30)
    X, A = (choices.X, choices.A) if kind == "single" else (choices.lists(), choices.position)
    model = CostModel(0.1).fit(X, A, cost=choices.cost, context=choices.context, count=choices.count)
    log = getattr(choices, kind)()
    again = CostModel(0.1).fit_log(log)
    assert model.coef_ == pytest.approx(again.coef_, rel=1e-9, abs=1e-12)
    effects = action_effects(model, log.X, log.actions)
    by_action = np.zeros(choices.eligible.shape)
    by_action[choices.eligible] = effects if kind == "listed" else effects[choices.eligible]
    policy = SoftmaxPolicy(theta if kind == "single" else theta.ravel())
    pi = choices.probabilities(theta)
    assert model.expectation(X, policy) == pytest.approx((pi * by_action).sum(axis=1), rel=1e-10)
    first = np.array([np.flatnonzero(row)[0] for row in choices.eligible])
    predicted = model.predict(X, first if kind == "single" else np.zeros(12, dtype=int))
    assert predicted == pytest.approx(by_action[np.arange(12), first], rel=1e-10)


def test_more_of_every_cost_is_more_of_every_estimate():
    """A constant moves snips and dr by itself, whatever the weights: lists too, whose ψ has no constant."""
    rng = np.random.default_rng(31)
    lists = ActionLists(rng.normal(size=(60, 3)), np.arange(0, 61, 3))
    given = rng.integers(0, 3, 80), rng.uniform(0.1, 1, 80)
    cost, context = -rng.exponential(1, 80), rng.integers(0, 20, 80)
    for estimate in ("snips", "dr"):
        values = []
        for constant in (0, -10):
            log = BanditLog(lists, *given, cost + constant, context)
            model = CostModel(0.1).fit_log(log)
            effects = action_effects(model, log.X, log.actions)
            value = Objective(LinearPredictor(log, effects, trains=True), KLBall(0.1), Clipped(2.0), estimate)
            values.append(value(drawn(32, 3)))
        assert values[1][0] == pytest.approx(values[0][0] - 10, rel=1e-8)
        assert values[1][1] == pytest.approx(values[0][1], rel=1e-6, abs=1e-8)
