"""Terms of a policy and of its worst case: charges for actions that the log lacks, estimates and intervals of R_κ."""

from functools import partial

import numpy as np
import pytest
from fixtures.action_logs import draw_policy
from fixtures.reference_formulas import (
    ENVIRONMENT_KINDS,
    cross_fitted_effects,
    doubly_robust_moment,
    draw_environment_log,
    expectation,
    moments_by_row,
    predict,
    ratio_bound,
)
from scipy.optimize import brentq

from drcrm import BanditLog, CostModel, ExponentialPolicy, SoftmaxPolicy, certificates, off_policy_value
from drcrm.certificates import policy_certificate, upper_bound
from drcrm.cost_models.cross_fitting import FOLDS
from drcrm.data.folds import context_folds
from drcrm.errors import InputError
from drcrm.logging_policy import restrict_to_support
from drcrm.risks import EnvironmentBall, KLBall

plain_certificate = partial(certificates.policy_certificate, check_tails=False)  # the methods' own bounds
by_row_and_context = pytest.mark.parametrize("by", ["row", "context"])
low_overlap = pytest.mark.filterwarnings("ignore:the mean weight is", "ignore:the effective sample size is")
pytestmark = pytest.mark.filterwarnings("ignore:the (effective sample size|mean weight)")
KAPPA = 0.15


@pytest.fixture
def unsupported():
    """Return a policy that nearly always gives label 1, a log without it, and a cost model that predicts −3.

    Label 2 is a fair coin in the policy and in the log.
    """
    rng = np.random.default_rng(11)
    Y = np.column_stack([np.zeros(300), rng.integers(0, 2, 300)])
    model = CostModel()
    model.coef_ = np.array([[0.0, 0.0, -3.0]])
    log = BanditLog(np.ones((300, 1)), Y, np.full(300, 0.5), -1.0 - Y[:, 1] + 0.1 * rng.normal(size=300))
    return ExponentialPolicy([[4.0, 0.0]]), log, model


@pytest.mark.parametrize(
    ("estimate", "costs", "method", "by"),
    [
        ("snips", None, "kl", "row"),
        ("snips", (-3, 2.5), "chi2", "context"),
        ("dr", None, "student", "context"),
        ("dr", (-3, 2.5), "kl", "row"),
    ],
)
def test_missing_actions_are_charged_the_largest_cost(unsupported, estimate, costs, method, by):
    policy, log, model = unsupported
    weight = np.exp(policy.log_prob(log.X, log.Y)) / 0.5
    most = 0.0 if costs is None else 2.5
    with pytest.warns(UserWarning, match="^the mean weight is .*, far below 1: the log has few of the actions"):
        certificate = plain_certificate(policy, log, estimate, method=method, by=by, cost_model=model, cost_range=costs)
    terms = most + weight * (log.cost - most)
    assert certificate.missing
    assert certificate.costs == (costs or (log.cost.min(), 0))
    assert certificate.bound == pytest.approx(upper_bound(terms, method=method), abs=1e-12)
    assert certificate.value == pytest.approx(terms.mean(), abs=1e-12)


@low_overlap
def test_finite_sample_methods_are_refused_if_the_log_lacks_actions(unsupported):
    policy, log, model = unsupported
    with pytest.raises(InputError, match="the log lacks actions of the policy, and a bound by betting cannot charge"):
        plain_certificate(policy, log, "dr", method="betting", low=-9, high=9, cost_model=model)
    with pytest.raises(InputError, match="the log lacks actions of the policy, and a bound by empirical_bernstein"):
        plain_certificate(policy, log.with_cost(log.cost + 9), method="empirical_bernstein", low=-9, high=99)
    negative = log.with_cost(np.minimum(log.cost, 0))
    assert not plain_certificate(policy, negative, method="log_smoothing").missing


@pytest.fixture
def coins():
    """Return a policy, a log of six fair coins, a cost model, and the logging policy.

    The policy nearly always gives all six labels, which about five of the 300 rows have.
    """
    rng = np.random.default_rng(2)
    Y = rng.integers(0, 2, (300, 6))
    log = BanditLog(np.ones((300, 1)), Y, np.full(300, 0.5**6), -Y.sum(axis=1) + rng.normal(size=300) - 4)
    model = CostModel()
    model.coef_ = np.r_[np.full(6, -0.5), -4][None]
    return ExponentialPolicy(np.full((1, 6), 3.0)), log, model, ExponentialPolicy(np.zeros((1, 6)))


@low_overlap
@by_row_and_context
@pytest.mark.parametrize("baseline", [None, "logging", ExponentialPolicy(np.full((1, 6), 1.0))])
@pytest.mark.parametrize("estimate", ["ips", "snips", "dr"])
def test_nothing_is_missing_if_the_known_logging_policy_has_support(coins, estimate, baseline, by):
    """Weights that rest on few rows are then no sign of missing actions. Without the logging policy they are."""
    policy, log, model, logging = coins

    def terms(policy):
        weight = np.exp(policy.log_prob(log.X, log.Y)) / log.propensity
        centre = {"ips": 0.0, "snips": weight @ log.cost / weight.sum(), "dr": predict(model, log.X, log.Y)}[estimate]
        return weight, (expectation(model, log.X, policy) if estimate == "dr" else centre) + weight * (
            log.cost - centre
        )

    weight, z = terms(policy)
    if baseline is not None:
        z = z - (log.cost if baseline == "logging" else terms(baseline)[1])
    expected = upper_bound(z)
    if estimate == "snips" and baseline is None:
        expected = ratio_bound(lambda v: weight * (log.cost - v), log.cost)
    settings = {"by": by, "cost_model": model, "baseline": baseline}
    known = plain_certificate(policy, log, estimate, logging_policy=logging, **settings)
    assert known.bound == pytest.approx(expected, abs=1e-9 if estimate == "snips" else 1e-12)
    assert (known.missing, known.unsupported, "support" in repr(known)) == (False, 0, False)
    unknown = plain_certificate(policy, log, estimate, **settings)
    assert unknown.unsupported is None
    if estimate != "ips":
        assert unknown.missing
        assert unknown.bound > known.bound + 0.5
    if estimate == "dr":
        supported = restrict_to_support(model, log, logging, 0.05)
        assert plain_certificate(policy, log, "dr", **settings | {"cost_model": supported}) == known
        assert plain_certificate(policy, log, "dr", **settings | {"cost_model": supported.with_support(0)}) == unknown


def near_deterministic_log(rng: np.random.Generator, n: int):
    """Return a log, its logging policy, which hardly takes the last of four actions, a greedy policy and a cost model.

    The last action costs 0, the most.
    """
    X = np.eye(5)
    logging = SoftmaxPolicy(np.column_stack([0.5 * rng.normal(size=(5, 3)), np.full(5, -9.0)]))
    greedy = SoftmaxPolicy(np.column_stack([0.5 * rng.normal(size=(5, 3)), np.ones(5)]))
    cost = np.column_stack([rng.uniform(-0.9, -0.1, (5, 3)), np.zeros(5)])
    model = CostModel()
    model.coef_ = np.column_stack([cost[:, :3], np.full(5, -1.0)])
    contexts = X[rng.integers(0, 5, n)]
    A = logging.sample(contexts, rng)
    drawn = -(rng.random(n) < -cost[contexts.argmax(axis=1), A]).astype(float)
    log = BanditLog(contexts, A, np.exp(logging.log_prob(contexts, A)), drawn, n_actions=4)
    return log, logging, greedy, model


@pytest.mark.parametrize("estimate", ["dr", "snips", "ips"])
def test_unsupported_actions_are_charged_in_each_row(estimate):
    """w' and c' of each row, by row and by context; M is the policy's probability of the last action."""
    log, logging, policy, model = near_deterministic_log(np.random.default_rng(0), 300)
    most = 0.25
    if estimate != "dr":  # the weights of rows with an unsupported action do not count
        log = log.replace(Y=np.where(np.arange(300) < 3, 3, log.Y))
    settings = {"cost_model": model, "cost_range": (-1, most), "logging_policy": logging}
    weight = np.exp(policy.log_prob(log.X, log.Y)) / log.propensity * (log.Y < 3)
    pi, modelled = policy.marginals(log.X), model.effects(log.X)
    if estimate == "dr":
        clipped = np.clip(modelled[:, :3], log.cost.min(), log.cost.max())
        modelled = np.column_stack([clipped, np.full(300, most)])
        z = (pi * modelled).sum(axis=1) + weight * (log.cost - modelled[np.arange(300), log.Y])
    else:
        z = weight * log.cost + pi[:, 3] * most
    expected, value = upper_bound(z), z.mean()
    if estimate == "snips":
        expected = ratio_bound(lambda v: weight * (log.cost - v) + pi[:, 3] * (most - v), log.cost)
        value = (weight @ log.cost + pi[:, 3].sum() * most) / (weight.sum() + pi[:, 3].sum())
    for by in ("row", "context"):
        certificate = plain_certificate(policy, log, estimate, by=by, **settings)
        assert certificate.bound == pytest.approx(expected, abs=1e-9)
        assert certificate.value == pytest.approx(value, abs=1e-12)
        assert certificate.unsupported == pytest.approx(pi[:, 3].mean(), abs=1e-12)
        assert f"{pi[:, 3].mean():.3g} without support)" in repr(certificate)
        assert not certificate.missing
    if estimate == "ips":
        finite = settings | {"method": "empirical_bernstein", "low": -200, "high": 1}
        expected = upper_bound(z, method="empirical_bernstein", low=-200, high=1)
        assert plain_certificate(policy, log, **finite).bound == pytest.approx(expected, abs=1e-9)


@low_overlap
def test_missing_actions_count_against_the_policy_and_for_the_baseline(unsupported):
    policy, log, model = unsupported
    weight = np.exp(policy.log_prob(log.X, log.Y)) / 0.5
    settings = {"cost_model": model, "cost_range": (-4.0, 2.5)}
    high, low = (extreme + weight * (log.cost - extreme) for extreme in (2.5, -4.0))
    against = plain_certificate(policy, log, "dr", baseline="logging", **settings)
    assert against.missing
    assert against.bound == pytest.approx(upper_bound(high - log.cost), abs=1e-12)
    never = ExponentialPolicy([[-50.0, 0.0]])  # label 1 never
    z = np.exp(never.log_prob(log.X, log.Y)) / 0.5 * (log.cost + 3) - 3
    relative = plain_certificate(never, log, "dr", baseline=policy, **settings)
    assert relative.missing
    assert relative.bound == pytest.approx(upper_bound(z - low), abs=1e-12)


def tilt(cost: np.ndarray, share: np.ndarray, kappa: float) -> tuple[float, float]:
    """Return R and γ of the KL ball around a law, by the dual."""

    def divergence(gamma: float) -> float:
        tilted = share * np.exp((cost - cost.max()) / gamma)
        tilted /= tilted.sum()
        used = tilted > 0
        return float(tilted[used] @ np.log(tilted[used] / share[used]))

    gamma = brentq(lambda g: divergence(g) - kappa, 0.02, 100, xtol=1e-14)
    return gamma * kappa + gamma * np.log(share @ np.exp(cost / gamma)), gamma


@pytest.mark.parametrize("kind", ENVIRONMENT_KINDS)
@pytest.mark.parametrize("estimate", ["snips", "dr"])
@pytest.mark.parametrize("form", ["coefficients", "probabilities"])
def test_values_and_standard_errors_are_those_of_loops(kind, estimate, form):
    log = draw_environment_log(kind, seed=3)
    log = log.with_groups(log.context)
    policy, fold = draw_policy(log), context_folds(log, FOLDS)
    effects = cross_fitted_effects(log, fold)
    weight = moments_by_row(log, policy.coef, effects, fold, 1.0)["weight"]
    share = log.count * weight / (log.count @ weight)
    robust, gamma = tilt(log.cost, share, KAPPA)
    moments = moments_by_row(log, policy.coef, effects, fold, gamma)
    normalised = share @ moments["exponential"]
    relative = weight / np.average(weight, weights=log.count)
    if estimate == "snips":
        expected, influence = robust, gamma * relative * (moments["exponential"] / normalised - 1)
    else:
        expected = robust + gamma / normalised * (doubly_robust_moment(log, moments) - normalised)
        gap = moments["exponential"] - moments["modelled"]
        centred = moments["expected"] - np.average(moments["expected"], weights=log.count)
        influence = gamma / normalised * (centred + relative * (gap - share @ gap))
    X, eligible = log.actions.unbind(log.X), getattr(log.actions, "eligible", None)
    used = policy if form == "coefficients" else policy.marginals(X, eligible)
    value = off_policy_value(used, log, estimate, shift=KAPPA)
    assert value == pytest.approx(expected, rel=1e-9)
    by_context, m = np.bincount(log.context, log.count * influence), log.n_contexts
    assert value.standard_error == pytest.approx(by_context.std(ddof=1) * np.sqrt(m) / log.size, rel=1e-7)
    assert (value.by, value.estimate) == ("group", estimate)
    certificate = policy_certificate(
        used, log, estimate, shift=KAPPA, by="context", method="student", check_tails=False
    )
    if not certificate.missing:
        assert certificate.value == pytest.approx(value, rel=1e-9)
        assert (certificate.n, certificate.by) == (m, "context")
        assert certificate.bound == pytest.approx(
            off_policy_value(used, log, estimate, shift=KAPPA, confidence=0.9).high
        )


def test_self_normalised_values_have_every_divergence_and_no_other_estimate_takes_the_ball():
    log = draw_environment_log("single")
    policy = draw_policy(log)
    assert off_policy_value(policy, log, "snips", shift=KAPPA) == pytest.approx(
        off_policy_value(policy, log, "snips", EnvironmentBall(KAPPA)), rel=1e-9
    )
    assert off_policy_value(policy, log, "snips", EnvironmentBall(KAPPA, "chi2")) > off_policy_value(
        policy, log, "snips"
    )
    with pytest.raises(InputError, match="needs one of the estimates snips"):
        off_policy_value(policy, log, "dr", EnvironmentBall(KAPPA))


def test_a_baseline_has_its_own_worst_case():
    log = draw_environment_log("single", rows=400)
    policy, other = draw_policy(log), draw_policy(log, 6)
    values = [off_policy_value(p, log, "dr", shift=KAPPA) for p in (policy, other)]
    difference = off_policy_value(policy, log, "dr", shift=KAPPA, baseline=other)
    assert difference == pytest.approx(values[0] - values[1], rel=1e-9)
    assert off_policy_value(policy, log, "dr", shift=KAPPA, baseline=policy) == 0
    logged = off_policy_value(policy, log, "dr", shift=KAPPA, baseline="logging")
    assert logged == pytest.approx(values[0] - KLBall(KAPPA)(log.cost, log.count)[0], rel=1e-9)
    for baseline, expected in ((other, difference), ("logging", logged)):
        certificate = policy_certificate(policy, log, "dr", shift=KAPPA, baseline=baseline, check_tails=False)
        if not certificate.missing:
            assert certificate.value == pytest.approx(expected, rel=1e-9)
        assert certificate.bound > certificate.value


def test_unsupported_actions_have_the_largest_cost():
    """The logging policy never takes action 2, which the policy takes with probability 0.3."""
    rng = np.random.default_rng(0)
    n = 4000
    logging, action = np.array([0.5, 0.5, 0.0]), rng.integers(0, 2, n)
    log = BanditLog(np.ones((n, 1)), action, np.full(n, 0.5), rng.normal(action, 1), n_actions=3)
    policy, known = np.tile([0.4, 0.3, 0.3], (n, 1)), np.tile(logging, (n, 1))
    options = {"shift": 0.1, "cost_range": (-6.0, 6.0), "logging_policy": known, "check_tails": False}
    certificate = policy_certificate(policy, log, "snips", **options)
    share = np.append(np.where(action == 0, 0.8, 0.6), 0.3 * n)
    expected, _ = tilt(np.append(log.cost, 6.0), share / share.sum(), 0.1)
    assert certificate.value == pytest.approx(expected, rel=1e-9)
    assert certificate.unsupported == pytest.approx(0.3)
    robust = policy_certificate(policy, log, "dr", **options)
    assert robust.value == pytest.approx(expected, abs=0.3)
    unknown = policy_certificate(policy, log, "snips", **options | {"logging_policy": None})
    assert unknown.missing, "without π0, a test finds that rows are missing"
    assert unknown.value > expected - 0.3


def test_radii_beyond_the_largest_cost_and_other_methods_are_refused():
    rng = np.random.default_rng(0)
    clicks = BanditLog(
        np.ones((500, 1)), rng.integers(0, 2, 500), np.full(500, 0.5), -1.0 * (rng.random(500) < 0.4), n_actions=2
    )
    policy, limit = np.tile([0.5, 0.5], (500, 1)), -np.log(np.mean(clicks.cost == 0))
    assert policy_certificate(policy, clicks, "snips", shift=0.5 * limit).bound < 0
    with pytest.raises(InputError, match=f"below {limit:.4g} for this policy"):
        policy_certificate(policy, clicks, "snips", shift=1.1 * limit)
    value = off_policy_value(policy, clicks, "snips", shift=1.1 * limit)
    assert (value, np.isnan(value.standard_error)) == (0, True)
    certain = np.tile([1.0, 0.0], (500, 1))
    options = {"baseline": "logging", "check_tails": False}
    with pytest.raises(InputError, match=r"below .* for this"):
        policy_certificate(certain, clicks, "snips", shift=1.1 * limit, **options)
    for arguments, message in (
        ({"method": "anytime", "cost_range": (-1.0, 0.0)}, "asymptotic method"),
        ({"method": "betting"}, "asymptotic method"),
        ({"estimate": "ips"}, "estimate with shift="),
        ({"shift": 0.0}, "shift is 0.0"),
    ):
        with pytest.raises(InputError, match=message):
            policy_certificate(policy, clicks, **{"shift": 0.1} | arguments)
    with pytest.raises(InputError, match="cannot be combined"):
        off_policy_value(policy, clicks, shift=0.1, risk=KLBall(0.1))
    with pytest.raises(InputError, match="estimate with shift="):
        off_policy_value(policy, clicks, "dm", shift=0.1)
