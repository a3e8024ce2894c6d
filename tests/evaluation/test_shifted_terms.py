"""Worst cases around the environment: estimates, intervals and certificates of R_κ."""

import numpy as np
import pytest
from fixtures.reference_formulas import (
    ENVIRONMENT_KINDS,
    cross_fitted_effects,
    doubly_robust_moment,
    draw_environment_log,
    draw_policy,
    moments_by_row,
)
from scipy.optimize import brentq

from drcrm import BanditLog, SoftmaxPolicy, off_policy_value
from drcrm.certificates import policy_certificate
from drcrm.cost_models.cross_fitting import FOLDS
from drcrm.data.folds import context_folds
from drcrm.errors import InputError
from drcrm.risks import EnvironmentBall, KLBall

pytestmark = pytest.mark.filterwarnings("ignore:the (effective sample size|mean weight)")
KAPPA = 0.15


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


@pytest.mark.parametrize("estimate", ["snips", "dr"])
def test_groups_keep_copies_of_a_row_together(estimate):
    log = draw_environment_log("single", contexts=200)
    log = log.replace(count=np.ones(200, dtype=int))
    rows = np.repeat(np.arange(200), 3)
    copies = BanditLog(log.X[rows], log.Y[rows], log.propensity[rows], log.cost[rows], n_actions=4)
    policy = draw_policy(log).coef
    groups = np.arange(200)
    one = off_policy_value(
        SoftmaxPolicy(policy), log.replace(actions=copies.actions), "snips", shift=KAPPA, groups=groups
    )
    three = off_policy_value(SoftmaxPolicy(policy), copies, "snips", shift=KAPPA, groups=groups[rows])
    assert three == pytest.approx(one, rel=1e-9)
    assert three.standard_error == pytest.approx(one.standard_error, rel=1e-9)
    value = off_policy_value(SoftmaxPolicy(policy), copies, estimate, shift=KAPPA, groups=groups[rows])
    apart = off_policy_value(SoftmaxPolicy(policy), copies, estimate, shift=KAPPA)
    assert value.standard_error > 1.4 * apart.standard_error


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
