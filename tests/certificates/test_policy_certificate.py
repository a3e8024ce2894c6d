"""Certificates against the bounds of terms that are written out, and against the truth in simulation."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import brentq

import drcrm
from drcrm import BanditLog, CostModel, ExponentialPolicy, SoftmaxPolicy, certificates, off_policy_value
from drcrm.certificates import upper_bound
from drcrm.certificates.bounds import as_bound
from drcrm.certificates.policy_certificate import _bound_ratio
from drcrm.divergences import CressieRead
from drcrm.errors import InputError
from drcrm.optimization.behaviour_cloning import restrict_to_support
from drcrm.risks import PhiBall

policy_certificate = partial(certificates.policy_certificate, check_tails=False)  # the methods' own bounds
by_row_and_context = pytest.mark.parametrize("by", ["row", "context"])
low_overlap = pytest.mark.filterwarnings("ignore:the mean weight is", "ignore:the effective sample size is")


@pytest.fixture(scope="module")
def heldout(logged, random_policy, parts):
    """Return a policy, held-out rows with counts, and a cost model fitted to other rows."""
    log = logged(n=80)
    train, rest = parts(log)
    count = np.random.default_rng(1).integers(0, 3, len(rest.Y))
    rest = BanditLog(rest.X, rest.Y, rest.propensity, rest.cost, rest.context, count)
    return random_policy(3), rest, CostModel(0.01).fit_log(train)


def repeated_rows(heldout, estimate: str) -> list[np.ndarray]:
    """Return z, w, c and the context of every row, each as often as it occurs."""
    policy, log, model = heldout
    weight = np.exp(policy.log_prob(log.X, log.Y, log.context) - log.log_propensity)
    z = weight * log.cost
    if estimate == "dr":
        X = log.X[log.context]
        z = model.expectation(X, policy) + weight * (log.cost - model.predict(X, log.Y))
    if estimate == "snips":
        ratio = (log.count * weight) @ log.cost / (log.count @ weight)
        z = ratio + weight * (log.cost - ratio)
    return [np.repeat(values, log.count) for values in (z, weight, log.cost, log.context)]


def ratio_bound(terms, cost: np.ndarray, **settings) -> float:
    """Return the v at which the upper bound on ``terms(v)`` is 0."""
    return brentq(lambda v: upper_bound(terms(v), **settings), cost.min() - 1, cost.max() + 1, xtol=1e-13)


@by_row_and_context
@pytest.mark.parametrize("method", ["kl", "student", CressieRead(3)])
@pytest.mark.parametrize("estimate", ["ips", "dr"])
def test_certificate_is_the_bound_on_the_terms(heldout, estimate, method, by):
    policy, log, model = heldout
    z, weight, _, context = repeated_rows(heldout, estimate)
    certificate = policy_certificate(policy, log, estimate, 0.9, method, by, cost_model=model)
    groups = context if by == "context" else None
    assert certificate.bound == pytest.approx(upper_bound(z, 0.9, method, groups=groups), abs=1e-10)
    assert certificate.n == (len(np.unique(context)) if by == "context" else len(z))
    if by == "row":
        value = off_policy_value(policy, log, estimate, clip=None, cost_model=model)
        assert certificate.value == pytest.approx(value, abs=1e-10)
    assert certificate.effective_size == pytest.approx(weight.sum() ** 2 / (weight**2).sum())
    assert certificate.mean_weight == pytest.approx(weight.mean())
    assert certificate.asymptotic


@by_row_and_context
@pytest.mark.parametrize("method", ["kl", "chi2"])
def test_ratio_is_bounded_by_the_root_of_the_ball(heldout, method, by):
    policy, log, _ = heldout
    _, weight, cost, context = repeated_rows(heldout, "snips")
    groups = context if by == "context" else None
    certificate = policy_certificate(policy, log, "snips", method=method, by=by)
    expected = ratio_bound(lambda v: weight * (cost - v), cost, method=method, groups=groups)
    assert certificate.bound == pytest.approx(expected, abs=1e-9)
    if by == "row":
        assert certificate.value == pytest.approx(weight @ cost / weight.sum(), abs=1e-12)
        value = off_policy_value(policy, log, "snips", PhiBall(method, "auto"), clip=None)
        assert certificate.bound == pytest.approx(value, abs=1e-10)


def test_finite_sample_certificate_with_and_without_clipping(heldout):
    policy, log, _ = heldout
    z, weight, cost, _ = repeated_rows(heldout, "ips")
    certificate = policy_certificate(policy, log, method="log_smoothing")
    assert certificate.bound == pytest.approx(upper_bound(z, method="log_smoothing"), abs=1e-12)
    assert "∞" not in repr(certificate)
    clipped = policy_certificate(policy, log, method="betting", clip=2.0, low=-4, high=0)
    expected = upper_bound(np.minimum(weight, 2) * cost, method="betting", low=-4, high=0)
    assert clipped.bound == pytest.approx(expected, abs=0.05)  # betting depends on the order of the rows
    assert clipped.bound > certificate.value


def test_each_of_k_choices_has_its_share_of_the_level(heldout):
    policy, log, _ = heldout
    certificate = policy_certificate(policy, log, confidence=0.9, choices=4)
    assert certificate.bound == pytest.approx(policy_certificate(policy, log, confidence=0.975).bound, abs=1e-12)
    assert repr(certificate).startswith(
        f"cost at most {certificate.bound:.6g} with probability 0.9, each of 4 choices with 1 − 0.025, as n → ∞ (ips "
    )


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"estimate": "dm"}, "estimate is 'dm', which has no certificate: no bound covers the error of a cost model"),
        ({"estimate": "wis"}, "estimate is 'wis', expected one of 'ips', 'snips', 'dr'"),
        ({"estimate": "dr"}, "the certificate of 'dr' needs cost_model=, fitted to other rows"),
        (
            {"estimate": "snips", "method": "student"},
            "the certificate of 'snips' needs a divergence as method, got stu",
        ),
        ({"estimate": "snips", "clip": 2.0}, "clip needs estimate 'ips' and costs of at most 0"),
        ({"clip": 0.5}, "clip is 0.5, expected a number ≥ 1, or None"),
        ({"by": "day"}, "by is 'day', expected one of 'row', 'context'"),
        *(
            ({"choices": number}, f"choices is {number}, expected a whole number from 1 to 1000000")
            for number in (0, 2.5, np.inf, 10**15)
        ),
        ({"confidence": 2}, "confidence is 2, expected a number above ½ and below 1"),
        ({"baseline": "uniform"}, "baseline is 'uniform', expected one of 'logging'"),
        ({"baseline": 3}, "baseline is of type int, expected an ExponentialPolicy or a SoftmaxPolicy, or a fitted"),
        ({"baseline": ExponentialPolicy(np.zeros((4, 3)))}, r"the baseline's coef has shape \(4, 3\), expected"),
        ({"baseline": "logging", "method": "log_smoothing"}, "z is .* expected at most 0 for log_smoothing"),
        (
            {"baseline": "logging", "estimate": "snips", "method": "betting", "low": -9, "high": 9},
            "a difference by 'snips' needs an asymptotic method, got betting",
        ),
        ({"logging_policy": 3}, "logging_policy is of type int, expected"),
        *(
            ({"cost_range": costs}, r"cost_range is .*, expected \(least, largest\) around all logged costs, which are")
            for costs in ((-1, 0), 3, (-9, np.inf), (-9, None))
        ),
    ],
)
def test_invalid_settings_are_refused(heldout, settings, reason):
    policy, log, _ = heldout
    with pytest.raises(InputError, match=reason):
        policy_certificate(policy, log, **settings)


def test_invalid_logs_are_refused(heldout):
    policy, log, _ = heldout
    with pytest.raises(InputError, match="log is of type tuple, expected a BanditLog"):
        policy_certificate(policy, (log.X, log.Y, log.propensity, log.cost))
    with pytest.raises(InputError, match="clip needs estimate 'ips' and costs of at most 0"):
        policy_certificate(policy, log.with_cost(log.cost + 2), clip=2.0)
    uniform = ExponentialPolicy(np.zeros((1, 1)))
    huge = BanditLog(np.ones((9, 1)), np.eye(9, 1), np.full(9, 0.5), np.full(9, -1e308))
    with pytest.raises(InputError, match="the policy's weights, or their costs, are beyond the range"):
        policy_certificate(uniform, huge)


@pytest.mark.parametrize("estimate", ["ips", "snips", "dr"])
def test_a_log_without_any_weight_is_refused(heldout, estimate):
    _, log, _ = heldout
    never = ExponentialPolicy(np.full((4, 2), -1.0))
    X, Y = 1e4 * np.ones_like(log.X), np.ones_like(log.Y)
    far = BanditLog(X, Y, log.propensity, log.cost, log.context, log.count)
    model = CostModel().fit_log(far) if estimate == "dr" else None
    with pytest.raises(InputError, match="no row of the log has a weight"):
        policy_certificate(never, far, estimate, cost_model=model)


@by_row_and_context
@pytest.mark.parametrize("estimate", ["ips", "snips"])
def test_infinite_weights_and_a_single_unit_are_refused(by, estimate):
    policy = ExponentialPolicy(np.zeros((1, 1)))
    log = BanditLog(np.ones((2, 1)), np.ones((2, 1)), [5e-324, 0.5], [-1.0, -0.5])
    with pytest.raises(
        InputError, match="the policy's weights, or their costs, are beyond the range of floating-point"
    ):
        policy_certificate(policy, log, estimate, by=by)
    with pytest.raises(InputError, match="a bound by kl needs at least 2 costs, got 1"):
        policy_certificate(policy, log.recount([0, 1]), estimate, by=by)


@low_overlap
@pytest.mark.parametrize("method", ["kl", "chi2"])
@by_row_and_context
@pytest.mark.parametrize("shift", [0.0, 1e6])
def test_bound_of_the_ratio_is_found_if_one_row_has_nearly_all_the_weight(method, by, shift):
    """The worst case leaves this row out: the bound is that of the other rows, however small their weights are."""
    n = 1000
    cost = np.r_[-2.0, np.tile([-1.0, 0.0], n)[: n - 1]]
    log = BanditLog(np.ones((n, 1)), np.eye(n, 1), np.full(n, 0.5), cost + shift, np.arange(n))
    case = SimpleNamespace(log=log, bound=as_bound(0.95, method), groups=None, by=by)
    bounds = []
    for sharpness in (20, 28, 39, 46, 60, 200, 800):
        policy = ExponentialPolicy([[sharpness]])
        weight = np.exp(policy.log_prob(log.X, log.Y) - log.log_propensity)
        bounds.append(_bound_ratio(case, weight, log.cost)[1] - shift)
        certificate = policy_certificate(policy, log, "snips", method=method, by=by)
        assert certificate.bound >= shift - 1e-6  # charges missing actions too
    assert bounds == pytest.approx([bounds[0]] * len(bounds), abs=1e-6)
    assert bounds[0] > -0.5
    if method == "kl":
        assert bounds[0] == pytest.approx(-0.4872295564, abs=1e-6)


def test_few_effective_rows_are_warned_of(heldout):
    _, log, model = heldout
    log = log.recount(log.count * (np.arange(len(log.count)) < 20))
    few = ExponentialPolicy(np.full((4, 2), 30.0))
    assert policy_certificate(few, log).effective_size < 10  # without a warning, as the costs are at most 0
    policy_certificate(few, log, method="log_smoothing")
    for rows, estimate, least in ((log, "snips", 10), (log, "dr", 10), (log.with_cost(log.cost + 5), "ips", 25)):
        with pytest.warns(UserWarning, match=rf"effective sample size is .* rows: below {least} an asympt") as warnings:
            policy_certificate(few, rows, estimate, cost_model=model)
        assert [warning.filename for warning in warnings] == [__file__]


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


@by_row_and_context
@pytest.mark.parametrize("method", ["kl", "student"])
@pytest.mark.parametrize("costs", [None, (-3, 2.5)])
@pytest.mark.parametrize("estimate", ["snips", "dr"])
def test_missing_actions_are_charged_the_largest_cost(unsupported, estimate, costs, method, by):
    policy, log, model = unsupported
    if (estimate, method) == ("snips", "student"):
        method = "chi2"
    weight = np.exp(policy.log_prob(log.X, log.Y)) / 0.5
    most = 0.0 if costs is None else 2.5
    with pytest.warns(UserWarning, match="^the mean weight is .*, far below 1: the log has few of the actions"):
        certificate = policy_certificate(
            policy, log, estimate, method=method, by=by, cost_model=model, cost_range=costs
        )
    terms = most + weight * (log.cost - most)
    assert certificate.missing
    assert certificate.costs == (costs or (log.cost.min(), 0))
    assert certificate.bound == pytest.approx(upper_bound(terms, method=method), abs=1e-12)
    assert certificate.value == pytest.approx(terms.mean(), abs=1e-12)
    assert f"mean weight {weight.mean():.4g}, missing actions charged a cost of {most:.6g})" in repr(certificate)


@low_overlap
def test_a_model_that_predicts_the_largest_cost_of_missing_actions_needs_no_charge(unsupported):
    policy, log, model = unsupported
    model.coef_ = np.array([[1.5, 0.0, -1.5]])
    weight = np.exp(policy.log_prob(log.X, log.Y)) / 0.5
    z = -(1 - policy.marginals(log.X)[0, 0]) * 1.5 + weight * (log.cost + 1.5)
    certificate = policy_certificate(policy, log, "dr", cost_model=model)
    assert not certificate.missing
    assert certificate.bound == pytest.approx(upper_bound(z), abs=1e-12)


@low_overlap
def test_finite_sample_methods_are_refused_if_the_log_lacks_actions(unsupported):
    policy, log, model = unsupported
    with pytest.raises(InputError, match="the log lacks actions of the policy, and a bound by betting cannot charge"):
        policy_certificate(policy, log, "dr", method="betting", low=-9, high=9, cost_model=model)
    with pytest.raises(InputError, match="the log lacks actions of the policy, and a bound by empirical_bernstein"):
        policy_certificate(policy, log.with_cost(log.cost + 9), method="empirical_bernstein", low=-9, high=99)
    negative = log.with_cost(np.minimum(log.cost, 0))
    assert not policy_certificate(policy, negative, method="log_smoothing").missing


@low_overlap
@pytest.mark.parametrize("estimate", ["snips", "ips"])
def test_positive_costs_are_charged_the_largest_logged_cost(unsupported, estimate):
    """A bound by "ips" on costs of at most 0 charges missing actions 0 anyway, so it does not change."""
    policy, log, _ = unsupported
    certificate = policy_certificate(policy, log.with_cost(log.cost + 9), estimate)
    assert certificate.missing
    weight = np.exp(policy.log_prob(log.X, log.Y)) / 0.5
    most = log.cost.max()
    assert certificate.bound == pytest.approx(9 + upper_bound(most + weight * (log.cost - most)), abs=1e-9)
    negative = log.with_cost(np.minimum(log.cost, -0.1))
    unchanged = policy_certificate(policy, negative)
    assert not unchanged.missing
    assert unchanged.bound == pytest.approx(upper_bound(weight * negative.cost), abs=1e-12)


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
        centre = {"ips": 0.0, "snips": weight @ log.cost / weight.sum(), "dr": model.predict(log.X, log.Y)}[estimate]
        return weight, (model.expectation(log.X, policy) if estimate == "dr" else centre) + weight * (log.cost - centre)

    weight, z = terms(policy)
    if baseline is not None:
        z = z - (log.cost if baseline == "logging" else terms(baseline)[1])
    expected = upper_bound(z)
    if estimate == "snips" and baseline is None:
        expected = ratio_bound(lambda v: weight * (log.cost - v), log.cost)
    settings = {"by": by, "cost_model": model, "baseline": baseline}
    known = policy_certificate(policy, log, estimate, logging_policy=logging, **settings)
    assert known.bound == pytest.approx(expected, abs=1e-9 if estimate == "snips" else 1e-12)
    assert (known.missing, known.unsupported, "support" in repr(known)) == (False, 0, False)
    unknown = policy_certificate(policy, log, estimate, **settings)
    assert unknown.unsupported is None
    if estimate != "ips":
        assert unknown.missing
        assert unknown.bound > known.bound + 0.5
    if estimate == "dr":
        supported = restrict_to_support(model, log, logging, 0.05)
        assert policy_certificate(policy, log, "dr", **settings | {"cost_model": supported}) == known
        assert policy_certificate(policy, log, "dr", **settings | {"cost_model": supported.with_support(0)}) == unknown


def near_deterministic_log(rng, reversed_costs=False):
    """Return a log maker, the logging policy, a greedy policy, a cost model and the true cost of a policy.

    The logging policy hardly takes the last of four actions. It costs 0, the most; with reversed costs it is the best.
    """
    X = np.eye(5)
    logging = SoftmaxPolicy(np.column_stack([0.5 * rng.normal(size=(5, 3)), np.full(5, -9.0)]))
    greedy = SoftmaxPolicy(np.column_stack([0.5 * rng.normal(size=(5, 3)), np.ones(5)]))
    cost = np.column_stack([rng.uniform(-0.9, -0.1, (5, 3)), np.full(5, -1.0 if reversed_costs else 0.0)])
    model = CostModel()
    model.coef_ = np.column_stack([cost[:, :3], np.full(5, 0.0 if reversed_costs else -1.0)])

    def make_log(n):
        contexts = X[rng.integers(0, 5, n)]
        A = logging.sample(contexts, rng)
        drawn = -(rng.random(n) < -cost[contexts.argmax(axis=1), A]).astype(float)
        return BanditLog(contexts, A, np.exp(logging.log_prob(contexts, A)), drawn, n_actions=4)

    return make_log, logging, greedy, model, lambda policy: (policy.marginals(X) * cost).sum(axis=1).mean()


@pytest.mark.parametrize("estimate", ["dr", "snips", "ips"])
def test_unsupported_actions_are_charged_in_each_row(estimate):
    """w' and c' of each row, by row and by context; M is the policy's probability of the last action."""
    make_log, logging, policy, model, _ = near_deterministic_log(np.random.default_rng(0))
    log, most = make_log(300), 0.25
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
        certificate = policy_certificate(policy, log, estimate, by=by, **settings)
        assert certificate.bound == pytest.approx(expected, abs=1e-9)
        assert certificate.value == pytest.approx(value, abs=1e-12)
        assert certificate.unsupported == pytest.approx(pi[:, 3].mean(), abs=1e-12)
        assert f"{pi[:, 3].mean():.3g} without support)" in repr(certificate)
        assert not certificate.missing
    if estimate == "ips":
        finite = settings | {"method": "empirical_bernstein", "low": -200, "high": 1}
        expected = upper_bound(z, method="empirical_bernstein", low=-200, high=1)
        assert policy_certificate(policy, log, **finite).bound == pytest.approx(expected, abs=1e-9)


@low_overlap
def test_certificates_with_a_known_near_deterministic_logging_policy_hold():
    """Of 80 logs at 0.95. A bound that charges nothing never holds; the best actions of a baseline may be missing."""
    rng, holds, uncharged = np.random.default_rng(3), [], []
    make_log, logging, policy, model, truth = near_deterministic_log(rng)
    make_paired_log, better, baseline, wrong_model, paired_truth = near_deterministic_log(rng, reversed_costs=True)
    cost, difference = truth(policy), paired_truth(better) - paired_truth(baseline)
    paired_settings = {"logging_policy": better, "baseline": baseline, "cost_model": wrong_model, "cost_range": (-1, 0)}
    for _ in range(80):
        log, paired_log = make_log(400), make_paired_log(400)
        plain = [
            policy_certificate(policy, log, name, logging_policy=logging, cost_model=model) for name in ("snips", "dr")
        ]
        paired = [policy_certificate(better, paired_log, name, **paired_settings) for name in ("snips", "dr")]
        holds.append([*(result.bound >= cost for result in plain), *(result.bound >= difference for result in paired)])
        weight = np.exp(policy.log_prob(log.X, log.Y)) / log.propensity
        z = model.expectation(log.X, policy) + weight * (log.cost - model.predict(log.X, log.Y))
        uncharged.append(upper_bound(z) >= cost)
    assert np.mean(uncharged) < 0.05
    assert (np.mean(holds, axis=0) >= 0.92).all()


@low_overlap
def test_extreme_cases_of_a_known_logging_policy(coins):
    """A policy without any support costs the most. Supported labels may still form vectors that few rows have."""
    make_log, logging, _, model, _ = near_deterministic_log(np.random.default_rng(4))
    last = SoftmaxPolicy(np.column_stack([np.zeros((5, 3)), np.full(5, 60.0)]))
    for estimate in ("snips", "ips", "dr"):
        certificate = policy_certificate(last, make_log(50), estimate, cost_model=model, logging_policy=logging)
        assert (certificate.value, certificate.bound, certificate.unsupported) == pytest.approx((0, 0, 1), abs=1e-9)
    policy, log, model, logging = coins
    without = log.recount((log.Y.sum(axis=1) < 5).astype(int))
    weight = np.exp(policy.log_prob(without.X, without.Y)) / 0.5**6
    for estimate in ("snips", "dr"):
        certificate = policy_certificate(policy, without, estimate, cost_model=model, logging_policy=logging)
        assert (certificate.missing, certificate.unsupported) == (True, 0)
        most = certificate.costs[1]
        assert certificate.bound == pytest.approx(upper_bound(most + weight * (without.cost - most)), abs=1e-9)
    with pytest.raises(InputError, match=r"the logging policy's coef has shape \(2, 6\), expected \(1, 6\)"):
        policy_certificate(policy, log, logging_policy=ExponentialPolicy(np.zeros((2, 6))))


@by_row_and_context
@pytest.mark.parametrize("method", ["kl", "student", CressieRead(3)])
@pytest.mark.parametrize("estimate", ["ips", "snips", "dr"])
@pytest.mark.parametrize("kind", ["logging", "policy"])
def test_certificate_of_a_difference_is_the_bound_on_paired_differences(
    heldout, random_policy, estimate, kind, method, by
):
    policy, log, model = heldout
    baseline = "logging" if kind == "logging" else random_policy(4)
    z, _, cost, context = repeated_rows(heldout, estimate)
    reference = cost if kind == "logging" else repeated_rows((baseline, log, model), estimate)[0]
    certificate = policy_certificate(policy, log, estimate, 0.9, method, by, cost_model=model, baseline=baseline)
    groups = context if by == "context" else None
    assert certificate.bound == pytest.approx(upper_bound(z - reference, 0.9, method, groups=groups), abs=1e-10)
    assert repr(certificate).startswith(f"cost of the difference at most {certificate.bound:.6g} with probability 0.9")
    if by == "row":
        assert certificate.value == pytest.approx((z - reference).mean(), abs=1e-10)


def test_settings_apply_to_differences(heldout):
    policy, log, model = heldout
    for estimate in ("ips", "snips", "dr"):
        same = policy_certificate(policy, log, estimate, cost_model=model, baseline=policy)
        assert (same.value, same.bound) == pytest.approx((0, 0), abs=1e-12)
    z, _, cost, _ = repeated_rows(heldout, "dr")
    certify = partial(policy_certificate, policy, log, "dr", cost_model=model)
    corrected = certify(confidence=0.9, choices=4, baseline="logging")
    assert corrected.bound == pytest.approx(upper_bound(z - cost, 0.975), abs=1e-10)
    finite = {"method": "empirical_bernstein", "low": -90, "high": 90}
    assert certify(baseline="logging", **finite).bound == pytest.approx(upper_bound(z - cost, **finite), abs=1e-9)
    rows = {"propensity": log.propensity, "cost": log.cost, "context": log.context, "count": log.count}
    fit = drcrm.CIPS().fit(log.X, log.Y, **rows)
    assert certify(baseline=fit) == certify(baseline=fit.policy_)


@low_overlap
def test_missing_actions_count_against_the_policy_and_for_the_baseline(unsupported):
    policy, log, model = unsupported
    weight = np.exp(policy.log_prob(log.X, log.Y)) / 0.5
    settings = {"cost_model": model, "cost_range": (-4.0, 2.5)}
    high, low = (extreme + weight * (log.cost - extreme) for extreme in (2.5, -4.0))
    against = policy_certificate(policy, log, "dr", baseline="logging", **settings)
    assert against.missing
    assert against.bound == pytest.approx(upper_bound(high - log.cost), abs=1e-12)
    assert "missing actions charged the worst of the costs -4 to 2.5)" in repr(against)
    never = ExponentialPolicy([[-50.0, 0.0]])  # label 1 never
    z = np.exp(never.log_prob(log.X, log.Y)) / 0.5 * (log.cost + 3) - 3
    relative = policy_certificate(never, log, "dr", baseline=policy, **settings)
    assert relative.missing
    assert relative.bound == pytest.approx(upper_bound(z - low), abs=1e-12)


def test_counts_repeated_rows_and_sparse_features_have_the_same_certificates():
    rng = np.random.default_rng(3)
    X, policy = rng.normal(size=(60, 3)), SoftmaxPolicy(rng.normal(size=(3, 4)))
    logging = SoftmaxPolicy(0.3 * rng.normal(size=(3, 4)))
    A, count = logging.sample(X, 1), rng.integers(1, 4, 60)
    p, c = np.exp(logging.log_prob(X, A)), rng.normal(size=60)
    model, rows = CostModel(0.1).fit(X, A, c), np.repeat(np.arange(60), count)
    logs = (
        BanditLog(X, A, p, c, count=count),
        BanditLog(X[rows], A[rows], p[rows], c[rows]),
        BanditLog(sparse.csr_array(X), A, p, c, count=count),
    )
    z = model.expectation(X, policy) + np.exp(policy.log_prob(X, A)) / p * (c - model.predict(X, A)) - c
    for log in logs:
        certificate = policy_certificate(policy, log, "dr", cost_model=model, baseline="logging")
        assert certificate.bound == pytest.approx(upper_bound(z, weights=count), abs=1e-10)
        assert (certificate.n, certificate.missing) == (count.sum(), False)
    sharp = SoftmaxPolicy(8 * logging.coef)  # leaves half of the policy without support
    settings = {"logging_policy": sharp, "cost_model": model, "baseline": SoftmaxPolicy(0.5 * policy.coef)}
    for estimate in ("dr", "snips", "ips"):
        results = [policy_certificate(policy, log, estimate, **settings) for log in logs]
        assert 0.2 < results[0].unsupported < 0.8
        assert [result.bound for result in results] == pytest.approx([results[0].bound] * 3, rel=1e-9)
    same = policy_certificate(logging, logs[0], "snips", baseline="logging")
    assert (same.bound, same.missing) == (pytest.approx(0, abs=1e-12), False)
