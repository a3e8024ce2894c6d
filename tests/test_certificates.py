"""Certificates against the bounds of terms that are written out, and against the truth in simulation."""

from functools import partial

import numpy as np
import pytest
from fixtures.click_logs import draw_actions
from fixtures.reference_formulas import expectation, predict, ratio_bound

from drcrm import BanditLog, CostModel, ExponentialPolicy, SoftmaxPolicy, certificates, off_policy_value
from drcrm.certificates import upper_bound
from drcrm.divergences import SquaredHellinger
from drcrm.errors import InputError
from drcrm.risks import PhiBall

policy_certificate = partial(certificates.policy_certificate, check_tails=False)  # the methods' own bounds
by_row_and_context = pytest.mark.parametrize("by", ["row", "context"])


@pytest.fixture(scope="module")
def heldout(logged, random_policy, parts):
    """Return a policy, held-out rows with counts, and a cost model fitted to other rows."""
    log = logged(n=80)
    train, rest = parts(log)
    count = np.random.default_rng(1).integers(0, 3, len(rest.Y))
    rest = BanditLog(rest.X, rest.Y, rest.propensity, rest.cost, rest.context, count)
    return random_policy(3), rest, CostModel(0.01).fit(train)


def repeated_rows(heldout, estimate: str) -> list[np.ndarray]:
    """Return z, w, c and the context of every row, each as often as it occurs."""
    policy, log, model = heldout
    weight = np.exp(policy.log_prob(log.X, log.Y, log.context) - log.log_propensity)
    z = weight * log.cost
    if estimate == "dr":
        X = log.X[log.context]
        z = expectation(model, X, policy) + weight * (log.cost - predict(model, X, log.Y))
    if estimate == "snips":
        ratio = (log.count * weight) @ log.cost / (log.count @ weight)
        z = ratio + weight * (log.cost - ratio)
    return [np.repeat(values, log.count) for values in (z, weight, log.cost, log.context)]


def sums(z: np.ndarray, context: np.ndarray) -> np.ndarray:
    """Return the sum of the terms of each context, in units of the mean number of rows of a context."""
    of_context = np.array([z[context == number].sum() for number in np.unique(context)])
    return of_context * (len(of_context) / len(z))


def clustered(z: np.ndarray, context: np.ndarray) -> np.ndarray:
    """Return a value for each context; their standard error is the clustered one of the mean over rows."""
    return z.mean() + sums(z - z.mean(), context)


@pytest.mark.parametrize(
    ("estimate", "method", "by"),
    [("ips", "kl", "row"), ("ips", "student", "context"), ("dr", SquaredHellinger(), "row"), ("dr", "kl", "context")],
)
def test_certificate_is_the_bound_on_the_terms(heldout, estimate, method, by):
    policy, log, model = heldout
    z, weight, _, context = repeated_rows(heldout, estimate)
    certificate = policy_certificate(policy, log, estimate, 0.9, method, by, cost_model=model)
    expected = upper_bound(clustered(z, context) if by == "context" else z, 0.9, method)
    assert certificate.bound == pytest.approx(expected, abs=1e-10)
    assert certificate.n == (len(np.unique(context)) if by == "context" else len(z))
    value = off_policy_value(policy, log, estimate, cost_model=model)
    assert certificate.value == pytest.approx(value, abs=1e-10)
    assert certificate.effective_size == pytest.approx(weight.sum() ** 2 / (weight**2).sum())
    assert certificate.mean_weight == pytest.approx(weight.mean())
    assert certificate.asymptotic


@pytest.mark.parametrize("estimate", ["dr", "snips"])
def test_the_method_of_a_corrected_bound_is_asymptotic(heldout, estimate):
    policy, log, model = heldout
    log = log.recount(4 * log.count)  # for a small skewness
    settings = {"estimate": estimate, "cost_model": model, "check_tails": True}
    corrected = policy_certificate(policy, log, **settings)
    assert corrected == policy_certificate(policy, log, method="kl", **settings)  # its earlier name
    assert (corrected.method, corrected.skewness > 0) == ("asymptotic", True)
    ball = policy_certificate(policy, log, **settings | {"check_tails": False})
    assert (ball.method, ball.skewness) == ("kl", None)
    assert policy_certificate(policy, log, method="log_smoothing", check_tails=True).method == "log_smoothing"


@by_row_and_context
@pytest.mark.parametrize("method", ["kl", "chi2"])
def test_ratio_is_bounded_by_the_root_of_the_ball(heldout, method, by):
    policy, log, _ = heldout
    _, weight, cost, context = repeated_rows(heldout, "snips")
    certificate = policy_certificate(policy, log, "snips", method=method, by=by)
    if by == "context":
        expected = ratio_bound(lambda v: sums(weight * (cost - v), context), cost, method=method)
    else:
        expected = ratio_bound(lambda v: weight * (cost - v), cost, method=method)
    assert certificate.bound == pytest.approx(expected, abs=1e-9)
    assert certificate.value == pytest.approx(weight @ cost / weight.sum(), abs=1e-12)
    if by == "row":
        value = off_policy_value(policy, log, "snips", PhiBall(method, "auto"))
        assert certificate.bound == pytest.approx(value, abs=1e-10)


def test_finite_sample_certificate_with_and_without_clipping(heldout):
    policy, log, _ = heldout
    z, weight, cost, _ = repeated_rows(heldout, "ips")
    certificate = policy_certificate(policy, log, method="log_smoothing")
    assert certificate.bound == pytest.approx(upper_bound(z, method="log_smoothing"), abs=1e-12)
    clipped = policy_certificate(policy, log, "clipped_ips", method="betting", clip=2.0, low=-4, high=0)
    expected = upper_bound(np.minimum(weight, 2) * cost, method="betting", low=-4, high=0)
    assert clipped.bound == pytest.approx(expected, abs=0.05)  # betting depends on the order of the rows
    assert clipped.bound > certificate.value
    with pytest.raises(InputError, match="needs costs of at most 0"):
        policy_certificate(policy, log.with_cost(log.cost + 9), "clipped_ips")


def test_each_of_k_choices_has_its_share_of_the_level(heldout):
    policy, log, _ = heldout
    certificate = policy_certificate(policy, log, "ips", 0.9, choices=4)
    assert certificate.bound == pytest.approx(policy_certificate(policy, log, "ips", 0.975).bound, abs=1e-12)
    assert repr(certificate).startswith(
        f"cost at most {certificate.bound:.6g} with probability 0.9 "
        "(error probability 0.025 for each of 4 choices), as n → ∞ (ips "
    )


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"estimate": "dm"}, "estimate is 'dm', which has no certificate: no bound covers the error of a cost model"),
        ({"estimate": "wis"}, "estimate is 'wis', expected one of 'auto', 'ips', 'clipped_ips', 'snips', 'dr'"),
        ({"estimate": "dr", "method": "betting", "cost_range": (-9, 9)}, "'dr' by betting needs one of K actions"),
        (
            {"estimate": "snips", "method": "student"},
            "'snips' needs the method 'asymptotic', a divergence or a baseline, got stu",
        ),
        ({"estimate": "snips", "clip": 2.0}, "clip is 2.0, but the estimate 'snips' does not clip weights"),
        ({"estimate": "clipped_ips", "clip": 0.5}, "clip is 0.5, expected 'auto', a number ≥ 1"),
        (
            {"estimate": "clipped_ips", "method": "log_smoothing"},
            "'clipped_ips' by log_smoothing needs clip=",
        ),
        ({"by": "day"}, "by is 'day', expected one of 'row', 'context'"),
        *(
            ({"choices": number}, f"choices is {number}, expected a whole number from 1 to 1000000")
            for number in (0, 2.5, np.inf, 10**15)
        ),
        ({"confidence": 2}, "confidence is 2, expected a number above ½ and below 1"),
        ({"baseline": "uniform"}, "baseline is 'uniform', expected a policy, or 'logging'"),
        ({"baseline": 3}, "baseline is of type int, expected an ExponentialPolicy or a SoftmaxPolicy, or a fitted"),
        ({"baseline": ExponentialPolicy(np.zeros((4, 3)))}, r"the baseline's coef has shape \(4, 3\), expected"),
        ({"baseline": "logging", "method": "log_smoothing"}, "z is .* expected at most 0 for log_smoothing"),
        (
            {"baseline": "logging", "estimate": "snips", "method": "betting", "low": -9, "high": 9},
            "baseline with 'snips' needs an asymptotic method, got betting",
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


@by_row_and_context
@pytest.mark.parametrize("estimate", ["ips", "snips"])
def test_infinite_weights_and_a_single_unit_are_refused(by, estimate):
    policy = ExponentialPolicy(np.zeros((1, 1)))
    log = BanditLog(np.ones((2, 1)), np.ones((2, 1)), [5e-324, 0.5], [-1.0, -0.5])
    with pytest.raises(
        InputError, match="the policy's weights, or their costs, are beyond the range of floating-point"
    ):
        policy_certificate(policy, log, estimate, by=by)
    with pytest.raises(InputError, match="an asymptotic bound needs at least 2 costs, got 1"):
        policy_certificate(policy, log.recount([0, 1]), estimate, by=by)


def test_few_effective_rows_are_warned_of(heldout):
    _, log, model = heldout
    log = log.recount(log.count * (np.arange(len(log.count)) < 20))
    few = ExponentialPolicy(np.full((4, 2), 30.0))
    assert policy_certificate(few, log, "ips").effective_size < 10  # without a warning, as the costs are at most 0
    policy_certificate(few, log, method="log_smoothing")
    for rows, estimate, least in ((log, "snips", 10), (log, "dr", 10), (log.with_cost(log.cost + 5), "ips", 25)):
        with pytest.warns(UserWarning, match=rf"effective sample size is .* rows: below {least} an asympt") as warnings:
            policy_certificate(few, rows, estimate, cost_model=model)
        assert [warning.filename for warning in warnings] == [__file__]


@pytest.mark.parametrize(
    ("estimate", "kind", "method", "by"),
    [
        ("ips", "logging", "kl", "row"),
        ("ips", "policy", SquaredHellinger(), "context"),
        ("snips", "logging", "student", "context"),
        ("snips", "policy", "kl", "row"),
        ("dr", "logging", SquaredHellinger(), "row"),
        ("dr", "policy", "student", "context"),
    ],
)
def test_certificate_of_a_difference_is_the_bound_on_paired_differences(
    heldout, random_policy, estimate, kind, method, by
):
    policy, log, model = heldout
    baseline = "logging" if kind == "logging" else random_policy(4)
    z, _, cost, context = repeated_rows(heldout, estimate)
    reference = cost if kind == "logging" else repeated_rows((baseline, log, model), estimate)[0]
    certificate = policy_certificate(policy, log, estimate, 0.9, method, by, cost_model=model, baseline=baseline)
    difference = z - reference
    expected = upper_bound(clustered(difference, context) if by == "context" else difference, 0.9, method)
    assert certificate.bound == pytest.approx(expected, abs=1e-10)
    assert certificate.value == pytest.approx(difference.mean(), abs=1e-10)


@pytest.mark.parametrize("estimate", ["snips", "dr"])
@pytest.mark.parametrize("baseline", ["logging", np.full((400, 3), 1 / 3)], ids=["logging", "uniform"])
def test_a_constant_added_to_the_costs_does_not_change_a_difference(estimate, baseline):
    """Differences of rows are small beside the costs. One in 20 costs is large, so few rows decide."""
    rng = np.random.default_rng(5)
    probability, logging = rng.dirichlet(np.ones(3), 400), rng.dirichlet(np.full(3, 5), 400)
    action = draw_actions(logging, rng)
    cost, effects = rng.random(400) < 0.05, rng.uniform(size=(400, 3))

    def difference(offset: float) -> list[float]:
        shifted = BanditLog(np.eye(400), action, logging[np.arange(400), action], cost + offset, n_actions=3)
        settings = {"estimate": estimate, "baseline": baseline}
        settings |= {"cost_model": effects + offset} if estimate == "dr" else {}
        certificate = policy_certificate(probability, shifted, **settings, cost_range=(offset, offset + 1))
        return [certificate.value, certificate.bound, off_policy_value(probability, shifted, **settings)]

    assert difference(1e6) == pytest.approx(difference(0), abs=1e-8)


def test_equal_policies_have_no_difference():
    """A policy with a column of propensities and a softmax round differently."""
    rng = np.random.default_rng(0)
    X, policy = rng.normal(size=(20_000, 3)), SoftmaxPolicy(rng.normal(size=(3, 4)))
    action = policy.sample(X, random_state=1)
    log = BanditLog(X, action, np.full(20_000, 0.25), rng.normal(size=20_000), n_actions=4)
    value = off_policy_value(policy, log, "snips", baseline=policy.marginals(X))
    certificate = policy_certificate(policy, log, "snips", baseline=policy.marginals(X))
    assert [value, value.standard_error, certificate.value, certificate.bound] == [0, 0, 0, 0]


def test_a_logging_policy_with_full_support_is_not_charged():
    """Too few rows with the policy's action look like missing mass; if none can be missing, the terms are w c."""
    action, rng = (np.arange(400) >= 160).astype(int), np.random.default_rng(0)
    log = BanditLog(np.ones((400, 1)), action, np.full(400, 0.5), rng.random(400), n_actions=2)
    bounds = {}
    for full_support in (False, True):
        options = {"full_support": full_support, "cost_range": (0, 1), "check_tails": False}
        certificate = policy_certificate(np.where(action == 0, 1.0, 0.0), log, "ips", **options)
        assert certificate.missing is not full_support
        bounds[full_support] = certificate.bound
    weight = 2.0 * (action == 0)
    expected = [upper_bound(1 + weight * (log.cost - 1)), upper_bound(weight * log.cost)]
    assert list(bounds.values()) == pytest.approx(expected, abs=1e-12)
