"""Held-out scores against their formulas and identities, and choosing by them."""

import numpy as np
import pytest
from fixtures.reference_formulas import draw_environment_log, expectation, predict
from scipy.optimize import brentq, minimize_scalar
from scipy.stats import norm

from drcrm import BanditLog, CostModel, ExponentialPolicy, SoftmaxPolicy
from drcrm.arrays.tables import Table
from drcrm.certificates import policy_certificate
from drcrm.cost_models.base import action_effects
from drcrm.logging_policy import LoggingPolicy, SupportedModel
from drcrm.selection.candidates import choose
from drcrm.selection.heldout_scores import HeldoutScores
from drcrm.selection.score_names import SCORES, UNMODELLED

SELF_NORMALISED = {"snips", "clipped_snips"}


def make_model(features: int = 4, labels: int = 2) -> CostModel:
    model = CostModel()
    model.coef_ = np.random.default_rng(7).normal(size=(features, labels + 1))
    return model


def score(log: BanditLog, coef: np.ndarray, clip: float = 2.0, model: CostModel | None = None) -> dict[str, float]:
    """Return all scores of Θ; with a model, the logging policy is uniform."""
    uniform = ExponentialPolicy(np.zeros_like(coef))
    return HeldoutScores(log, clip, model and as_known(model, uniform))(ExponentialPolicy(coef))


def as_known(model: CostModel, policy: object, **options) -> SupportedModel:
    """Return a model that is trusted everywhere, with π0."""
    return SupportedModel(model, LoggingPolicy(policy, 0.0, **options), (-np.inf, np.inf))


def plain_scores(weight: np.ndarray, cost: np.ndarray, clip: float, count: np.ndarray) -> dict[str, float]:
    """Return the scores without a model by their formulas."""
    limited = np.minimum(weight, clip)
    ips, clipped = (np.average(w * cost, weights=count) for w in (weight, limited))
    ratios = [np.average(cost, weights=count * w) for w in (weight, limited)]
    return {"ips": ips, "clipped_ips": clipped, "snips": ratios[0], "clipped_snips": ratios[1]}


def kl_worst_case(z: np.ndarray, count: np.ndarray, radius: float) -> float:
    """Return the largest mean of z over a KL ball, by its dual in one variable."""
    share, top = count / count.sum(), z[count > 0].max()
    shifted = np.where(count > 0, z - top, 0)
    dual = minimize_scalar(
        lambda log_gamma: np.exp(log_gamma) * (radius + np.log(share @ np.exp(shifted / np.exp(log_gamma)))),
        bounds=(-12, 12),
        method="bounded",
        options={"xatol": 1e-10},
    )
    return top + dual.fun


def test_undefined_and_infinite_scores_are_nan():
    """A policy without the logged actions has no ratio. With an infinite weight, only clipped scores are finite."""
    X, zero, sure = np.ones((2, 1)), SoftmaxPolicy([[0.0, 1e9]]), SoftmaxPolicy([[0.0, 0.0]])
    unlogged = HeldoutScores(BanditLog(X, [0, 0], [0.5, 0.5], [-1.0, -2.0], n_actions=2), 2.0).unmodelled(zero)
    assert {name for name, value in zip(UNMODELLED, unlogged, strict=True) if np.isnan(value)} == SELF_NORMALISED
    infinite = HeldoutScores(BanditLog(X, [0, 1], [5e-324, 0.5], [-1.0, 0.0]), 2.0).unmodelled(sure)
    assert {name for name, value in zip(UNMODELLED, infinite, strict=True) if np.isnan(value)} == {"ips", "snips"}


@pytest.mark.parametrize(
    ("scores", "robust_end", "expected"),
    [
        ([3, 1, 2], "high", 1),
        ([1, 1, 2], "high", 1),
        ([1, 1, 2], "low", 0),
        ([np.nan, 2, 2], "high", 2),
        ([np.nan, -1, np.nan], "low", 1),
        ([np.nan, np.nan, np.nan], "high", None),
    ],
)
def test_the_smallest_score_is_chosen_and_ties_by_robustness(scores, robust_end, expected):
    assert choose(scores, [0.1, 1.0, 10.0], robust_end) == expected


@pytest.mark.parametrize("seed", range(3))
def test_modelled_scores_and_bounds_are_their_formulas(seed, logged):
    log, model, clip = logged(seed), make_model(), 1.7
    log = log.replace(count=np.random.default_rng(8).integers(0, 4, len(log.Y)))
    coef = 2 * np.random.default_rng(seed).normal(size=(4, 2))
    policy, n = ExponentialPolicy(coef), log.count.sum()
    ratio = np.exp(policy.log_prob(log.X[log.context], log.Y)) / log.propensity
    weight = np.minimum(ratio, clip)
    modelled = predict(model, log.X[log.context], log.Y)
    z = expectation(model, log.X, policy)[log.context] + weight * (log.cost - modelled)
    radius, scores = norm.ppf(0.95) ** 2 / (2 * n), score(log, coef, clip, model)
    assert list(scores) == list(SCORES)
    assert scores["dr"] == pytest.approx(log.count @ z / n, rel=1e-12)
    assert scores["dr_bound"] == pytest.approx(kl_worst_case(z, log.count, radius), rel=1e-8)
    root = brentq(lambda v: kl_worst_case(weight * (log.cost - v), log.count, radius), -50, 50, xtol=1e-11)
    assert scores["snips_bound"] == pytest.approx(root, rel=1e-7)
    smoothed = -np.sum(log.count * np.log(1 - ratio * log.cost / np.sqrt(n))) / np.sqrt(n)
    exponent = (smoothed + np.log(20) / np.sqrt(n)) / np.sqrt(n)
    assert scores["ls_bound"] == pytest.approx((1 - np.exp(-exponent)) * np.sqrt(n), rel=1e-10)
    plain = plain_scores(ratio, log.cost, clip, log.count)
    assert {name: scores[name] for name in UNMODELLED} == pytest.approx(plain, rel=1e-10)


@pytest.mark.parametrize("seed", [0, 1])
def test_scores_with_exploration_are_those_of_the_mixture(seed, logged):
    """Weights are (1 − ε) w + ε U/p, expected modelled costs are mixed too, and the noise is that of the mixture."""
    log, model, explore, clip = logged(labels=2, seed=seed), make_model(), 0.3, 2.0
    coef = np.random.default_rng(seed).normal(size=(4, 2))
    policy, uniform = ExponentialPolicy(coef), ExponentialPolicy(np.zeros_like(coef))
    effects = action_effects(model, log.X, log.actions)
    scorer = HeldoutScores(log, clip, as_known(model, uniform))
    weights, expected = [], []
    for part in (policy, uniform):
        weights.append(np.exp(part.log_prob(log.X, log.Y, log.context)) / log.propensity)
        expected.append((part.marginals(log.X) * effects[:, :-1]).sum(axis=1) + effects[:, -1])
    weight, mean = ((1 - explore) * known + explore * of_uniform for known, of_uniform in (weights, expected))
    mixture = policy.with_exploration(explore)
    scores, plain = scorer(mixture), plain_scores(weight, log.cost, clip, log.count)
    assert {name: scores[name] for name in UNMODELLED} == pytest.approx(plain)
    assert scorer.unmodelled(mixture) == pytest.approx([*plain.values()])
    residual = log.cost - (log.Y * effects[log.context, :-1]).sum(axis=1) - effects[log.context, -1]
    z = mean[log.context] + weight * residual
    assert scores["dr"] == pytest.approx(
        np.average(mean[log.context] + np.minimum(weight, clip) * residual, weights=log.count)
    )
    difference = z - (expected[1][log.context] + weights[1] * residual)
    n = log.count.sum()
    bound = kl_worst_case(difference, log.count, norm.ppf(0.95) ** 2 / (2 * n))
    assert scores["improvement_bound"] == pytest.approx(bound, rel=1e-5)


def test_logarithmic_smoothing_needs_costs_of_at_most_0(logged):
    log = logged()
    assert np.isnan(score(log.with_cost(log.cost + 5), np.full((4, 2), 3.0))["ls_bound"])


@pytest.mark.parametrize("is_approximate", [False, True])
def test_improvements_under_shift_are_certificates_of_the_worst_cases(is_approximate):
    """The policy's coefficients have an intercept; the baseline is π0, or the logged costs for a cloned π0."""
    log = draw_environment_log("single", contexts=400, rows=400)
    model, policy = (
        CostModel(0.01).fit(draw_environment_log("single", seed=1)),
        SoftmaxPolicy(np.zeros((4, 4)), np.arange(4) / 4),
    )
    logging = SoftmaxPolicy(np.full((4, 4), 0.1))
    supported = as_known(model, logging, is_approximate=is_approximate)
    scores = HeldoutScores(log, None, supported, 0.1)
    bound = scores(policy)["improvement_bound"]
    options = {"shift": 0.1, "cost_model": model, "check_tails": False}
    certificate = policy_certificate(policy, log, "dr", baseline="logging" if is_approximate else logging, **options)
    if not certificate.missing:
        assert bound == pytest.approx(certificate.bound, rel=1e-9)
    assert HeldoutScores(log, None, supported)(policy)["improvement_bound"] != bound
    assert np.isnan(HeldoutScores(log, None, supported, 50.0)(policy)["improvement_bound"])


@pytest.mark.parametrize("is_approximate", [False, True])
@pytest.mark.parametrize("is_uneven", [False, True])
def test_rows_that_are_repeated_within_groups_are_no_evidence(logged, is_approximate, is_uneven):
    """Each row is a group with copies of itself. Groups of equal size give the scores of the rows.

    In groups of unequal size, means and ratios weight a group by its size, and each group is one observation.
    """
    log = logged(0)
    log = log.replace(X=log.X[log.context], context=np.arange(len(log.Y)))
    sizes = np.random.default_rng(0).integers(1, 6, len(log.Y)) if is_uneven else np.full(len(log.Y), 4)
    policy, coef = ExponentialPolicy(np.zeros((4, 2))), 0.3 * np.random.default_rng(1).normal(size=(4, 2))
    candidate, rows = ExponentialPolicy(coef), np.repeat(np.arange(len(log.Y)), sizes)
    scorers = {}
    for name, part in (("rows", log), ("copies", log.take(rows)), ("groups", log.take(rows))):
        part = part if name != "groups" else part.replace(rows=Table(len(rows), {"groups": rows}))
        scorers[name] = HeldoutScores(part, 2.0, as_known(make_model(), policy, is_approximate=is_approximate))
    (plain, _), (_, copied), (grouped, differences) = (
        scorers[name].evaluate(candidate) for name in ("rows", "copies", "groups")
    )
    if not is_uneven:
        assert grouped == pytest.approx(plain, rel=1e-9)
    n, z = len(log.Y), copied.valid[np.unique(rows, return_index=True)[1], 0]
    centred = sizes * (z - np.average(z, weights=sizes))
    mean, error = np.average(z, weights=sizes), np.sqrt((centred**2).sum() / (n * (n - 1))) / sizes.mean()
    assert differences.valid.mean() == pytest.approx(mean, rel=1e-9)
    assert differences.valid.std(ddof=1) / np.sqrt(n) == pytest.approx(error, rel=1e-9)
    values = mean + centred / sizes.mean()
    bound = kl_worst_case(values, np.ones(n), norm.ppf(0.95) ** 2 / (2 * n))
    assert grouped["improvement_bound"] == pytest.approx(bound, rel=1e-7)


def test_a_policy_without_weight_has_no_ratio_and_is_never_chosen_by_one(logged, parts):
    _, heldout = parts(logged(4))
    X = np.ones((heldout.X.shape[0], 1))
    log = BanditLog(X, np.ones_like(heldout.Y), heldout.propensity, heldout.cost, heldout.context)
    away, *others = (score(log, np.full((1, 2), u), model=make_model(features=1)) for u in (-1e4, 0.0, 1.0))
    assert {name for name, value in away.items() if np.isnan(value)} == {*SELF_NORMALISED, "snips_bound"}
    assert away["ips"] == 0
    for name in (*SELF_NORMALISED, "snips_bound"):
        assert choose([away[name], *(scores[name] for scores in others)], [1.0, 2.0, 3.0]) in (1, 2)
