"""Certificates against their formulas, an independent betting, repetitions, and the truth in simulation."""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy import sparse, stats
from scipy.optimize import brentq

import drcrm
from drcrm import BanditLog, CostModel, certificates
from drcrm.certificates import upper_bound
from drcrm.certificates.bounds import as_bound
from drcrm.certificates.missing_mass import has_missing_mass
from drcrm.certificates.policy_certificate import _ratio
from drcrm.cost_models.support import SupportedModel
from drcrm.divergences import CressieRead, CVaR, SquaredHellinger
from drcrm.errors import InputError
from drcrm.risks import PhiBall
from drcrm.weights import effective_sample_size

policy_certificate = partial(certificates.policy_certificate, check_tails=False)  # the bounds of the methods themselves
FINITE = ("empirical_bernstein", "log_smoothing", "betting")
SMOOTH = ("kl", "chi2", "squared_hellinger", "reverse_kl")
METHODS = (*SMOOTH, "student", *FINITE)
every_method = pytest.mark.parametrize("method", METHODS)


def ranged(method: str, low: float = -4.0, high: float = 0.0) -> dict:
    return {"method": method, **({"low": low, "high": high} if method in FINITE and method != "log_smoothing" else {})}


def costs(seed: int = 0, n: int = 40) -> np.ndarray:
    return -4 * np.random.default_rng(seed).beta(1, 2, n)


@pytest.mark.parametrize("confidence", [0.95, 0.8])
def test_closed_formulas(confidence):
    z, delta = costs(), 1 - confidence
    n, mean, variance = 40, z.mean(), z.var(ddof=1)
    term = np.log(2 / delta)
    x = -np.sum(np.log(1 - 0.3 * z)) / (0.3 * n) + np.log(1 / delta) / (0.3 * n)
    free = -np.sum(np.log(1 - z / np.sqrt(n))) / np.sqrt(n) + np.log(1 / delta) / np.sqrt(n)
    expected = {
        "student": mean + stats.t.ppf(confidence, n - 1) * np.sqrt(variance / n),
        "empirical_bernstein": mean + np.sqrt(2 * variance * term / n) + 7 * 5 * term / (3 * (n - 1)),
        "log_smoothing": (1 - np.exp(-0.3 * x)) / 0.3,
        "chi2": mean + stats.norm.ppf(confidence) * np.sqrt(z.var() / n),
    }
    for method, value in expected.items():
        settings = {"smoothing": 0.3} if method == "log_smoothing" else {}
        assert upper_bound(z, confidence, **ranged(method, -4, 1), **settings) == pytest.approx(value, rel=0, abs=1e-12)
    least = (1 - np.exp(-free / np.sqrt(n))) * np.sqrt(n)
    assert upper_bound(z, confidence, "log_smoothing") == pytest.approx(least, abs=1e-12)


@pytest.mark.parametrize("method", [*SMOOTH, CressieRead(3), SquaredHellinger(), {"cressie_read": 3}])
@pytest.mark.parametrize("confidence", [0.95, 0.8])
def test_a_divergence_is_its_calibrated_ball(method, confidence):
    z = costs(1)
    ball = PhiBall(method, 0)
    radius = ball.curvature * stats.norm.ppf(confidence) ** 2 / 80
    assert upper_bound(z, confidence, method) == pytest.approx(PhiBall(method, radius)(z)[0], abs=1e-12)
    student = upper_bound(z, confidence, "student")
    assert upper_bound(z, confidence, method) == pytest.approx(student, abs=0.03)


def bet_by_bet(z, confidence: float, low: float, high: float) -> float:
    """The hedged capital's upper side, after Waudby-Smith & Ramdas, one row at a time, on a grid that is halved."""
    x = [(value - low) / (high - low) for value in np.asarray(z)[np.random.default_rng(0).permutation(len(z))]]
    goal, n = 1 / (1 - confidence), len(z)

    def largest_capital(m: float) -> float:
        capital, best, total, squares = 1.0, 0.0, 0.5, 0.25
        for t, value in enumerate(x, start=1):
            bet = min(np.sqrt(2 * np.log(goal) / (n * squares / t)), 0.5 / (1 - m))
            capital *= 1 - bet * (value - m)
            best = max(best, capital)
            total += value
            squares += (value - total / (t + 1)) ** 2
        return best

    if largest_capital(1 - 1e-15) < goal:
        return high
    return low + (high - low) * brentq(lambda m: largest_capital(m) - goal, 0, 1 - 1e-15, xtol=1e-13, rtol=1e-13)


@pytest.mark.parametrize("confidence", [0.95, 0.6])
@pytest.mark.parametrize("n", [2, 3, 30, 300])
def test_betting_is_a_capital_bet_by_bet(n, confidence):
    for z in (costs(2, n), np.round(costs(3, n)), np.full(n, -4.0), np.full(n, -1.0)):
        found = upper_bound(z, confidence, "betting", low=-4, high=0)
        assert found == pytest.approx(bet_by_bet(z, confidence, -4, 0), abs=1e-9)
        assert z.mean() < found <= 0


@every_method
def test_counts_are_repetitions(method):
    z, counts = costs(4), np.random.default_rng(5).integers(0, 4, 40)
    found = upper_bound(z, **ranged(method), weights=counts)
    assert found == pytest.approx(upper_bound(np.repeat(z, counts), **ranged(method)), abs=1e-12)


@every_method
def test_a_bound_is_above_the_mean_falls_with_n_and_grows_with_confidence(method):
    z = costs(6)
    found = [upper_bound(z, confidence, **ranged(method)) for confidence in (0.6, 0.9, 0.99)]
    assert z.mean() < found[0] < found[1] < found[2]
    assert upper_bound(z, 0.9, weights=np.full(40, 30), **ranged(method)) < found[1]


@every_method
def test_a_bound_by_groups_is_of_their_means(method):
    rng = np.random.default_rng(7)
    z, groups, counts = costs(8, 60), rng.integers(0, 12, 60) * 5, rng.integers(0, 3, 60)
    used = [each for each in np.unique(groups) if counts[groups == each].any()]
    means = [np.average(z[groups == each], weights=counts[groups == each]) for each in used]
    found = upper_bound(z, **ranged(method), weights=counts, groups=groups)
    assert found == pytest.approx(upper_bound(means, **ranged(method)), abs=1e-12)


@pytest.mark.parametrize("method", FINITE)
@pytest.mark.parametrize(("a", "b"), [(0.2, 0.2), (0.05, 2.0), (2.0, 0.1)])
def test_finite_bounds_cover(method, a, b):
    rng = np.random.default_rng(9)
    truth, missed = -4 * a / (a + b), 0
    for _ in range(300):
        missed += upper_bound(-4 * rng.beta(a, b, 60), 0.9, **ranged(method)) < truth
    assert missed <= 30


@pytest.mark.parametrize(
    ("z", "settings", "reason"),
    [
        ([0.1, -1], {"method": "log_smoothing"}, "z is 0.1 in row 0, expected at most 0, which log_smoothing presumes"),
        ([-1, -2], {"method": "betting"}, "low is None, high is None: betting presumes costs in a range that is known"),
        ([-1, -2], {"method": "empirical_bernstein", "low": -2}, "high is None: empirical_bernstein presumes costs in"),
        ([-1, -2], {"method": "betting", "low": 0, "high": -4}, "low is 0, high is -4: betting presumes"),
        (
            [-1, -5],
            {"method": "betting", "low": -4, "high": 0},
            "z is -5.0 in row 1, expected -4 to 0, the range",
        ),
        (
            [-1, -2],
            {"method": "betting", "low": -4, "high": 0, "weights": [1, 1.5]},
            "weights is 1.5 in row 1",
        ),
        (
            [-1, -2],
            {"method": "student", "low": -4},
            "low and high are of empirical_bernstein and betting, not",
        ),
        ([-1, -2], {"method": "kl", "smoothing": 1}, "smoothing is of log_smoothing, not of kl"),
        ([-1, -2], {"method": "log_smoothing", "smoothing": 0}, "smoothing is 0, expected a finite number > 0"),
        ([-1, -2], {"confidence": 0.5}, "confidence is 0.5, expected a number above ½ and below 1"),
        ([-1, -2], {"confidence": 1}, "confidence is 1, expected"),
        ([-1], {"method": "kl"}, "a bound by kl is of at least 2 costs; there is 1"),
        ([-1], {"method": "student"}, "a bound by student is of at least 2 costs; there is 1"),
        (
            [-1, -2],
            {"method": "total_variation"},
            r"TotalVariation\(\) has no φ''\(1\) > 0, and so no asymp",
        ),
        ([-1, -2], {"method": CVaR(0.5)}, r"CVaR\(0.5\) has no φ''\(1\) > 0"),
        (
            [-1, -2],
            {"method": "hoeffding"},
            "method is 'hoeffding', expected one of student, empirical_b",
        ),
        ([-1, -2], {"method": 3}, "method is 3, expected one of student, empirical_b"),
        ([-1, -2], {"method": None}, "method is None, expected one of student, empirical_b"),
        ([-1, np.nan], {}, "z is nan in row 1, expected a finite number"),
        ([-1, -2], {"groups": [0]}, r"groups has shape \(1,\), expected \(2,\)"),
        ([-1, -2], {"groups": [0, np.nan]}, "groups is nan in row 1, expected an id for each row"),
        ([-1, -2], {"groups": ["a", None]}, "groups is None in row 1, expected an id for each row"),
        (
            [-1, -2],
            {"groups": pd.to_datetime(["2024-01-01", None])},
            "groups is .* in row 1, expected an id for each row",
        ),
        ([-1, -2], {"groups": np.array([3, "NaT"], "m8[s]")}, "groups is NaT in row 1, expected an id for each row"),
        ([-1, -2], {"groups": np.array([1, complex(0, np.nan)])}, "groups is .* in row 1, expected an id for each row"),
        ([-1, -2], {"groups": pd.array(["a", None])}, "groups is .* in row 1, expected an id for each row"),
        ([-1, -2], {"weights": [1e308, 1e308]}, "the sum of weights is beyond the range of numbers"),
        (
            [-1, -2],
            {"method": "betting", "low": -4, "high": 0, "weights": [1e7, 1]},
            r"betting takes the costs one by one, and so at most 1e\+07; there are 1e\+07",
        ),
        ([-1e308, 1e308], {"method": "student"}, "the bound of costs from -1e[+]308 to 1e[+]308 is beyond"),
    ],
)
def test_what_a_bound_does_not_presume_is_an_error(z, settings, reason):
    with pytest.raises(InputError, match=reason):
        upper_bound(z, **settings)


@pytest.mark.parametrize("ids", [["a", "b", "a", 3], pd.array(["a", "b", "a", "c"]), [(1, 2), (2, 1), (1, 2), 0]])
def test_groups_have_ids_of_any_kind(ids):
    z, groups = np.array([-1.0, -2, -3, -5]), np.empty(4, dtype=object)
    groups[:] = list(ids)
    assert upper_bound(z, groups=groups) == upper_bound(z, groups=[0, 1, 0, 2])
    days = np.array(["2024-01-02", "2024-01-01", "2024-01-02", "2023-01-01"], "M8[D]")
    assert upper_bound(z, groups=days) == upper_bound(z, groups=[0, 1, 0, 2])


@pytest.mark.parametrize("method", ["student", "empirical_bernstein"])
@pytest.mark.parametrize("scale", [1e-300, 1e-165, 1e290])
def test_a_bound_has_the_units_of_the_costs(method, scale):
    z, ranged = np.array([-1.0, -2, -3]), method == "empirical_bernstein"
    low, high = (-4.0, 0.0) if ranged else (None, None)
    expected = upper_bound(z, method=method, low=low, high=high)
    scaled = {"low": scale * low, "high": high} if ranged else {}
    assert upper_bound(scale * z, method=method, **scaled) / scale == pytest.approx(expected, rel=1e-12)


@pytest.fixture(scope="module")
def held(logged, random_policy, parts):
    """A policy, held-out rows with counts, and a cost model of others."""
    log = logged(n=80)
    train, heldout = parts(log)
    count = np.random.default_rng(1).integers(0, 3, len(heldout.Y))
    kept = heldout.X, heldout.Y, heldout.propensity, heldout.cost, heldout.context, count
    return random_policy(3), BanditLog(*kept), CostModel(0.01).fit_log(train)


def in_full(held, estimate: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """z, w, c and the context of every row, each as often as it occurs."""
    policy, log, model = held
    weight = np.exp(policy.log_prob(log.X, log.Y, log.context) - log.log_propensity)
    z = weight * log.cost
    if estimate == "dr":
        X = log.X[log.context]
        z = model.expectation(X, policy) + weight * (log.cost - model.predict(X, log.Y))
    return [np.repeat(each, log.count) for each in (z, weight, log.cost, log.context)]


@pytest.mark.parametrize("by", ["row", "context"])
@pytest.mark.parametrize("method", ["kl", "student", CressieRead(3)])
@pytest.mark.parametrize("estimate", ["ips", "dr"])
def test_a_policys_certificate_is_the_bound_of_its_costs(held, estimate, method, by):
    policy, log, model = held
    z, weight, _, context = in_full(held, estimate)
    found = policy_certificate(policy, log, estimate, 0.9, method, by, cost_model=model)
    groups = context if by == "context" else None
    assert found.bound == pytest.approx(upper_bound(z, 0.9, method, groups=groups), abs=1e-10)
    assert found.n == (len(np.unique(context)) if by == "context" else len(z))
    if by == "row":
        assert found.value == pytest.approx(
            drcrm.off_policy_value(policy, log, estimate, clip=None, cost_model=model), abs=1e-10
        )
    assert found.effective_size == pytest.approx(weight.sum() ** 2 / (weight**2).sum())
    assert found.mean_weight == pytest.approx(weight.mean())
    assert found.asymptotic


@pytest.mark.parametrize("by", ["row", "context"])
@pytest.mark.parametrize("method", ["kl", "chi2", "squared_hellinger"])
def test_the_ratio_is_the_root_of_the_ball(held, method, by):
    policy, log, _ = held
    _, weight, cost, context = in_full(held, "snips")
    groups = context if by == "context" else None
    found = policy_certificate(policy, log, "snips", method=method, by=by)
    excess = lambda v: upper_bound(weight * (cost - v), method=method, groups=groups)  # noqa: E731
    assert found.bound == pytest.approx(brentq(excess, cost.min(), cost.max(), xtol=1e-13), abs=1e-9)
    if by == "row":
        assert found.value == pytest.approx(weight @ cost / weight.sum(), abs=1e-12)
        ball = PhiBall(method, "auto")
        assert found.bound == pytest.approx(drcrm.off_policy_value(policy, log, "snips", ball, clip=None), abs=1e-10)


def test_finite_bounds_of_a_policy(held):
    policy, log, _ = held
    z, weight, cost, _ = in_full(held, "ips")
    found = policy_certificate(policy, log, method="log_smoothing")
    assert found.bound == pytest.approx(upper_bound(z, method="log_smoothing"), abs=1e-12)
    assert not found.asymptotic
    clipped = policy_certificate(policy, log, method="betting", clip=2.0, low=-4, high=0)
    expected = upper_bound(np.minimum(weight, 2) * cost, method="betting", low=-4, high=0)
    assert clipped.bound == pytest.approx(expected, abs=0.05)  # the rows stand in another order
    assert clipped.bound > found.value


def test_each_of_k_choices_has_its_share_of_the_level_and_says_so(held):
    policy, log, _ = held
    found = policy_certificate(policy, log, confidence=0.9, choices=4)
    assert found.bound == pytest.approx(policy_certificate(policy, log, confidence=0.975).bound, abs=1e-12)
    assert (found.confidence, found.choices) == (0.9, 4)
    said = repr(found)
    assert said.startswith(
        f"cost at most {found.bound:.6g} with probability 0.9, each of 4 choices with 1 − 0.025, as n → ∞ ("
    )
    assert f"(ips {found.value:.6g}; kl by row, n = {found.n}; effective size {found.effective_size:.6g} rows" in said
    assert "choices" not in repr(policy_certificate(policy, log, method="log_smoothing"))
    assert "∞" not in repr(policy_certificate(policy, log, method="log_smoothing"))


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"estimate": "dm"}, "estimate is 'dm', which has no certificate: none covers the error of a cost model"),
        ({"estimate": "wis"}, "estimate is 'wis', expected one of 'ips', 'snips', 'dr'"),
        ({"estimate": "dr"}, "the certificate of 'dr' needs cost_model=, fitted to other rows"),
        ({"estimate": "snips", "method": "student"}, "the certificate of 'snips' is by a divergence, not by student"),
        ({"estimate": "snips", "clip": 2.0}, "clip is for 'ips' and costs of at most 0"),
        ({"clip": 0.5}, "clip is 0.5, expected a number ≥ 1, or None"),
        ({"by": "day"}, "by is 'day', expected one of 'row', 'context'"),
        ({"choices": 0}, "choices is 0, expected a whole number from 1 to 1000000"),
        ({"choices": 2.5}, "choices is 2.5, expected a whole number from 1 to 1000000"),
        ({"choices": np.inf}, "choices is inf, expected a whole number from 1 to 1000000"),
        ({"choices": 10**15}, "choices is 1000000000000000, expected a whole number from 1 to 1000000"),
        ({"confidence": 2}, "confidence is 2, expected a number above ½ and below 1"),
    ],
)
def test_what_is_no_certificate_of_a_policy(held, settings, reason):
    policy, log, _ = held
    with pytest.raises(InputError, match=reason):
        policy_certificate(policy, log, **settings)


def test_clipping_is_refused_where_it_can_hide_costs(held):
    policy, log, _ = held
    with pytest.raises(InputError, match="clip is for 'ips' and costs of at most 0"):
        policy_certificate(policy, log.with_cost(log.cost + 2), clip=2.0)


@pytest.mark.parametrize("estimate", ["ips", "snips", "dr"])
def test_a_log_without_any_weight_says_nothing(held, estimate):
    _, log, _ = held
    away = log.with_contexts(1e4 * np.ones_like(log.X))
    never = drcrm.ExponentialPolicy(np.full((4, 2), -1.0))
    away = BanditLog(away.X, np.ones_like(log.Y), log.propensity, log.cost, log.context, log.count)
    model = drcrm.CostModel().fit_log(away)
    with pytest.raises(InputError, match="no row of the log has a weight"):
        policy_certificate(never, away, estimate, cost_model=model if estimate == "dr" else None)


@pytest.mark.filterwarnings("ignore:the effective size is")
@pytest.mark.parametrize("method", ["kl", "chi2"])
@pytest.mark.parametrize("by", ["row", "context"])
@pytest.mark.parametrize("shift", [0.0, 1e6])
def test_a_ratio_does_not_stop_where_one_row_has_nearly_all_the_weight(method, by, shift):
    """The worst case leaves that row out: the bound is of the others, however small their weights, to 0."""
    n = 1000
    cost = np.r_[-2.0, np.tile([-1.0, 0.0], n)[: n - 1]]
    log = BanditLog(np.ones((n, 1)), np.eye(n, 1), np.full(n, 0.5), cost + shift, np.arange(n))
    bounds, given = [], as_bound(0.95, method)
    for sharpness in (20, 28, 39, 46, 60, 200, 800):
        policy = drcrm.ExponentialPolicy([[sharpness]])
        weight = np.exp(policy.log_prob(log.X, log.Y) - log.log_propensity)
        bounds.append(_ratio(given, weight, log, by)[1] - shift)
        assert (
            policy_certificate(policy, log, "snips", method=method, by=by).bound >= shift - 1e-6
        )  # and what is missing
    assert bounds == pytest.approx([bounds[0]] * len(bounds), abs=1e-6)
    assert bounds[0] > -0.5
    if method == "kl":
        assert bounds[0] == pytest.approx(-0.4872295564, abs=1e-6)


def test_few_effective_rows_are_warned_of(held):
    """Where an asymptotic bound can be too low, which that of weighted costs of at most 0 is not."""
    _, log, model = held
    log = log.recount(log.count * (np.arange(len(log.count)) < 20))
    few = drcrm.ExponentialPolicy(np.full((4, 2), 30.0))
    assert policy_certificate(few, log).effective_size < 10
    policy_certificate(few, log, method="log_smoothing")
    for of, estimate, least in ((log, "snips", 10), (log, "dr", 10), (log.with_cost(log.cost + 5), "ips", 25)):
        with pytest.warns(UserWarning, match=rf"the effective size is .* rows: below {least} an asymptotic") as seen:
            policy_certificate(few, of, estimate, cost_model=model)
        assert [each.filename for each in seen] == [__file__]


@pytest.mark.parametrize("estimate", ["snips", "dr"])
def test_actions_that_are_missing_in_the_log_are_warned_of(estimate):
    """The policy always takes an action that no row has, and the weights of others are all alike."""
    rng = np.random.default_rng(11)
    Y = np.column_stack([np.zeros(300), rng.integers(0, 2, 300)])
    log, model = BanditLog(np.ones((300, 1)), Y, np.full(300, 0.5), -1.0 - Y[:, 1]), CostModel()
    model.coef_ = np.zeros((1, 3))
    with pytest.warns(UserWarning, match="^the mean weight is .*, far below 1: the log has few of the actions"):
        policy_certificate(drcrm.ExponentialPolicy([[4.0, 0.0]]), log, estimate, cost_model=model)


@pytest.fixture
def silent():
    """The policy nearly always takes label 1, which no row has; label 2 is a coin of both. The model is −3."""
    rng = np.random.default_rng(11)
    Y = np.column_stack([np.zeros(300), rng.integers(0, 2, 300)])
    model = CostModel()
    model.coef_ = np.array([[0.0, 0.0, -3.0]])
    log = BanditLog(np.ones((300, 1)), Y, np.full(300, 0.5), -1.0 - Y[:, 1] + 0.1 * rng.normal(size=300))
    return drcrm.ExponentialPolicy([[4.0, 0.0]]), log, model


@pytest.mark.filterwarnings("ignore:the mean weight is")
@pytest.mark.parametrize("by", ["row", "context"])
@pytest.mark.parametrize("method", ["kl", "student"])
@pytest.mark.parametrize("known", [None, (-3, 2.5)])
@pytest.mark.parametrize("estimate", ["snips", "dr"])
def test_what_the_log_lacks_counts_at_the_largest_cost(silent, estimate, known, method, by):
    policy, log, model = silent
    if (estimate, method) == ("snips", "student"):
        method = "chi2"
    weight = np.exp(policy.log_prob(log.X, log.Y)) / 0.5
    most = 0.0 if known is None else 2.5
    given = policy_certificate(policy, log, estimate, method=method, by=by, cost_model=model, cost_range=known)
    counted = most + weight * (log.cost - most)
    assert given.missing
    assert given.costs == (known or (log.cost.min(), 0))
    assert given.bound == pytest.approx(upper_bound(counted, method=method), abs=1e-12)
    assert given.value == pytest.approx(counted.mean(), abs=1e-12)
    assert given.value <= given.bound <= most
    assert f"mean weight {weight.mean():.4g}, what the log lacks counted at a cost of {most:.6g})" in repr(given)


@pytest.mark.filterwarnings("ignore:the mean weight is")
def test_a_model_that_says_the_largest_cost_of_what_is_missing_has_counted_it(silent):
    """Then the doubly robust bound stands as it is, though the mean weight is 0.02."""
    policy, log, model = silent
    most = 0.0
    model.coef_ = np.array([[most + 1.5, 0.0, -1.5]])
    weight = np.exp(policy.log_prob(log.X, log.Y)) / 0.5
    share = policy.marginals(log.X)[0, 0]
    z = share * most - (1 - share) * 1.5 + weight * (log.cost + 1.5)
    given = policy_certificate(policy, log, "dr", cost_model=model)
    assert not given.missing
    assert given.bound == pytest.approx(upper_bound(z), abs=1e-12)


@pytest.mark.filterwarnings("ignore:the mean weight is")
def test_a_bound_that_holds_for_every_n_is_refused_where_the_log_lacks_actions(silent):
    policy, log, model = silent
    with pytest.raises(InputError, match="the log lacks actions of the policy: a bound by betting does not know of"):
        policy_certificate(policy, log, "dr", method="betting", low=-9, high=9, cost_model=model)
    with pytest.raises(InputError, match="the log lacks actions of the policy: a bound by empirical_bernstein"):
        policy_certificate(policy, log.with_cost(log.cost + 9), method="empirical_bernstein", low=-9, high=99)
    below = log.with_cost(np.minimum(log.cost, 0))
    assert not policy_certificate(policy, below, method="log_smoothing").missing


@pytest.mark.parametrize("estimate", ["snips", "ips"])
def test_costs_above_0_count_at_the_largest_logged(silent, estimate):
    """An ips bound of costs of at most 0 stays as it is: it counts what is missing at 0."""
    policy, log, _ = silent
    with pytest.warns(UserWarning, match="the mean weight is"):
        given = policy_certificate(policy, log.with_cost(log.cost + 9), estimate)
    assert given.missing
    weight = np.exp(policy.log_prob(log.X, log.Y)) / 0.5
    most = log.cost.max()
    assert given.bound == pytest.approx(9 + upper_bound(most + weight * (log.cost - most)), abs=1e-9)
    below = log.with_cost(np.minimum(log.cost, -0.1))
    unmoved = policy_certificate(policy, below)
    assert not unmoved.missing
    assert unmoved.bound == pytest.approx(upper_bound(weight * below.cost), abs=1e-12)


@pytest.fixture
def coins():
    """Six labels are coins of π0; the policy nearly always gives all of them, which some five of 300 rows have."""
    rng = np.random.default_rng(2)
    Y = rng.integers(0, 2, (300, 6))
    log = BanditLog(np.ones((300, 1)), Y, np.full(300, 0.5**6), -Y.sum(axis=1) + rng.normal(size=300) - 4)
    model = CostModel()
    model.coef_ = np.r_[np.full(6, -0.5), -4][None]
    return drcrm.ExponentialPolicy(np.full((1, 6), 3.0)), log, model, drcrm.ExponentialPolicy(np.zeros((1, 6)))


@pytest.mark.filterwarnings("ignore:the effective size is")
@pytest.mark.parametrize("by", ["row", "context"])
@pytest.mark.parametrize("baseline", [None, "logging", drcrm.ExponentialPolicy(np.full((1, 6), 1.0))])
@pytest.mark.parametrize("estimate", ["ips", "snips", "dr"])
def test_where_pi0_is_known_to_have_support_nothing_has_missing_mass(coins, estimate, baseline, by):
    """Weights that rest on few rows are then no sign of it; without π0 they are."""
    policy, log, model, logging = coins

    def z_of(policy):
        weight = np.exp(policy.log_prob(log.X, log.Y)) / log.propensity
        centre = {"ips": 0.0, "snips": weight @ log.cost / weight.sum(), "dr": model.predict(log.X, log.Y)}[estimate]
        return weight, (model.expectation(log.X, policy) if estimate == "dr" else centre) + weight * (log.cost - centre)

    weight, z = z_of(policy)
    if baseline is not None:
        z = z - (log.cost if baseline == "logging" else z_of(baseline)[1])
    expected = upper_bound(z)
    if estimate == "snips" and baseline is None:
        expected = brentq(lambda v: upper_bound(weight * (log.cost - v)), log.cost.min(), log.cost.max(), xtol=1e-13)
    given = {"by": by, "cost_model": model, "baseline": baseline}
    known = policy_certificate(policy, log, estimate, logging_policy=logging, **given)
    assert known.bound == pytest.approx(expected, abs=1e-9 if estimate == "snips" else 1e-12)
    assert (known.missing, known.unsupported) == (False, 0)
    assert "support" not in repr(known)
    unknown = policy_certificate(policy, log, estimate, **given)
    assert unknown.unsupported is None
    if estimate != "ips":
        assert unknown.missing
        assert unknown.bound > known.bound + 0.5
    if estimate == "dr":
        of_fits = SupportedModel.of(model, log, logging, 0.05)
        assert policy_certificate(policy, log, "dr", **given | {"cost_model": of_fits}) == known
        believed = of_fits.with_support(0)
        assert policy_certificate(policy, log, "dr", **given | {"cost_model": believed}) == unknown


def in_sharp_log(rng, reversed_costs=False):
    """π0 hardly takes the last of four actions, which alone costs 0; with reversed costs it is the best by far."""
    X = np.eye(5)
    logging = drcrm.SoftmaxPolicy(np.column_stack([0.5 * rng.normal(size=(5, 3)), np.full(5, -9.0)]))
    greedy = drcrm.SoftmaxPolicy(np.column_stack([0.5 * rng.normal(size=(5, 3)), np.ones(5)]))
    cost = np.column_stack([rng.uniform(-0.9, -0.1, (5, 3)), np.full(5, -1.0 if reversed_costs else 0.0)])
    model = CostModel()
    model.coef_ = np.column_stack([cost[:, :3], np.full(5, 0.0 if reversed_costs else -1.0)])

    def log(n):
        contexts = X[rng.integers(0, 5, n)]
        A = logging.sample(contexts, rng)
        drawn = -(rng.random(n) < -cost[contexts.argmax(axis=1), A]).astype(float)
        return BanditLog(contexts, A, np.exp(logging.log_prob(contexts, A)), drawn, n_actions=4)

    return log, logging, greedy, model, lambda policy: (policy.marginals(X) * cost).sum(axis=1).mean()


@pytest.mark.parametrize("estimate", ["dr", "snips", "ips"])
def test_what_a_known_pi0_hardly_takes_is_written_out(estimate):
    """w' and c' in each row, by row and by context; M is the policy's probability of the last action."""
    make, logging, policy, model, _ = in_sharp_log(np.random.default_rng(0))
    log, most = make(300), 0.25
    given = {"cost_model": model, "cost_range": (-1, most), "logging_policy": logging}
    weight = np.exp(policy.log_prob(log.X, log.Y)) / log.propensity * (log.Y < 3)
    pi, modelled = policy.marginals(log.X), model.effects(log.X)
    if estimate == "dr":
        low, high = log.cost.min(), log.cost.max()
        modelled = np.column_stack([np.clip(modelled[:, :3], low, high), np.full(300, most)])
        z = (pi * modelled).sum(axis=1) + weight * (log.cost - modelled[np.arange(300), log.Y])
        expected, value = upper_bound(z), z.mean()
    elif estimate == "ips":
        z = weight * log.cost + pi[:, 3] * most
        expected, value = upper_bound(z), z.mean()
    else:
        expected = brentq(lambda v: upper_bound(weight * (log.cost - v) + pi[:, 3] * (most - v)), -1, 1, xtol=1e-13)
        value = (weight @ log.cost + pi[:, 3].sum() * most) / (weight.sum() + pi[:, 3].sum())
    assert (log.Y < 3).all()
    for by in ("row", "context"):
        certificate = policy_certificate(policy, log, estimate, by=by, **given)
        assert certificate.bound == pytest.approx(expected, abs=1e-9)
        assert certificate.value == pytest.approx(value, abs=1e-12)
        assert certificate.unsupported == pytest.approx(pi[:, 3].mean(), abs=1e-12)
        assert f"{pi[:, 3].mean():.3g} without support)" in repr(certificate)
        assert not certificate.missing


@pytest.mark.filterwarnings("ignore:the effective size is")
def test_certificates_hold_where_a_known_pi0_is_sharp():
    """At 0.95, of 150 logs each; what counts nothing never holds. A baseline's best actions may be those missing."""
    rng, holds, naive = np.random.default_rng(3), [], []
    make, logging, policy, model, truth = in_sharp_log(rng)
    other, beside, baseline, doubtful, true = in_sharp_log(rng, reversed_costs=True)
    known, less = truth(policy), true(beside) - true(baseline)
    kept = {"snips": {}, "dr": {"cost_model": model}}
    for _ in range(150):
        log, another = make(400), other(400)
        given = [policy_certificate(policy, log, each, logging_policy=logging, **kept[each]) for each in kept]
        paired = [
            policy_certificate(
                beside, another, each, logging_policy=beside, baseline=baseline, cost_model=doubtful, cost_range=(-1, 0)
            )
            for each in ("snips", "dr")
        ]
        holds.append([*(each.bound >= known for each in given), *(each.bound >= less for each in paired)])
        weight = np.exp(policy.log_prob(log.X, log.Y)) / log.propensity
        z = model.expectation(log.X, policy) + weight * (log.cost - model.predict(log.X, log.Y))
        naive.append(upper_bound(z) >= known)
    assert np.mean(naive) < 0.05
    assert (np.mean(holds, axis=0) >= 0.93).all()


def test_a_bound_for_every_n_holds_where_a_known_pi0_lacks_actions():
    make, logging, policy, *_ = in_sharp_log(np.random.default_rng(1))
    log = make(300)
    weight, most = np.exp(policy.log_prob(log.X, log.Y)) / log.propensity * (log.Y < 3), 0.5
    z = weight * log.cost + policy.marginals(log.X)[:, 3] * most
    given = {"method": "empirical_bernstein", "low": -200, "high": 1, "cost_range": (-1, most)}
    bound = policy_certificate(policy, log, logging_policy=logging, **given).bound
    assert bound == pytest.approx(upper_bound(z, method="empirical_bernstein", low=-200, high=1), abs=1e-9)


@pytest.mark.filterwarnings("ignore:the mean weight is", "ignore:the effective size is")
def test_edges_of_a_known_support(silent, coins):
    """A policy that π0 never follows costs the most; one that few rows follow is not known by its labels alone."""
    make, logging, _, model, _ = in_sharp_log(np.random.default_rng(4))
    last = drcrm.SoftmaxPolicy(np.column_stack([np.zeros((5, 3)), np.full(5, 60.0)]))
    for estimate in ("snips", "ips", "dr"):
        given = policy_certificate(last, make(50), estimate, cost_model=model, logging_policy=logging)
        assert (given.value, given.bound, given.unsupported) == pytest.approx((0, 0, 1), abs=1e-9)
    policy, log, model, logging = coins
    without = log.recount((log.Y.sum(axis=1) < 5).astype(int))
    for estimate in ("snips", "dr"):
        given = policy_certificate(policy, without, estimate, cost_model=model, logging_policy=logging)
        assert (given.missing, given.unsupported) == (True, 0)
        weight = np.exp(policy.log_prob(without.X, without.Y)) / 0.5**6
        most = given.costs[1]
        assert given.bound == pytest.approx(upper_bound(most + weight * (without.cost - most)), abs=1e-9)
    with pytest.raises(InputError, match="logging_policy is of type int, expected"):
        policy_certificate(policy, log, logging_policy=3)
    with pytest.raises(InputError, match=r"the logging policy's coef has shape \(2, 6\), expected \(1, 6\)"):
        policy_certificate(policy, log, logging_policy=drcrm.ExponentialPolicy(np.zeros((2, 6))))


def test_a_mean_weight_that_rests_on_few_rows_is_no_evidence():
    """1 000 gaps of mean 0: by ten rows they are missing, by a hundred they are not; counts and order do not matter."""
    few, many = (np.r_[np.full(1000 - k, 0.1), np.full(k, -0.1 * (1000 - k) / k)] for k in (10, 100))
    ones = np.ones(1000)
    assert few.mean() == pytest.approx(0, abs=1e-12)
    assert has_missing_mass(few, ones)
    assert not has_missing_mass(many, ones)
    assert not has_missing_mass(-few, ones)
    assert has_missing_mass(np.array([-9.9, 0.1])[::-1], np.array([990, 10]))
    assert not has_missing_mass(np.array([-0.9, 0.1]), np.array([100, 900]))
    assert not has_missing_mass(np.zeros(7), np.ones(7))
    for scale in (1e-300, 1e300):
        assert has_missing_mass(scale * few, ones)
        assert not has_missing_mass(scale * many, ones)


def test_where_nothing_is_missing_it_is_rarely_said(logged, random_policy):
    log, policy, said = logged(n=2000), random_policy(3), 0
    weight = np.exp(policy.log_prob(log.X, log.Y, log.context) - log.log_propensity)
    rng = np.random.default_rng(5)
    for _ in range(200):
        rows = rng.choice(len(weight), 400)
        said += has_missing_mass(1 - weight[rows] / weight.mean(), np.ones(400))
    assert said < 60


@pytest.mark.parametrize("by", ["row", "context"])
@pytest.mark.parametrize("method", ["kl", "student", CressieRead(3)])
@pytest.mark.parametrize("estimate", ["ips", "snips", "dr"])
@pytest.mark.parametrize("of", ["logging", "a policy"])
def test_a_difference_is_the_bound_of_paired_costs(held, random_policy, of, estimate, method, by):
    policy, log, model = held
    baseline = "logging" if of == "logging" else drcrm.ExponentialPolicy(0.9 * policy.coef)
    z, weight, cost, context = in_full(held, estimate)

    def ratio(weight):
        return weight @ cost / weight.sum()

    if estimate == "snips":
        z = ratio(weight) + weight * (cost - ratio(weight))
    if of == "logging":
        other = cost
    else:
        other, weight, *_ = in_full((baseline, log, model), estimate)
        if estimate == "snips":
            other = ratio(weight) + weight * (cost - ratio(weight))
    given = policy_certificate(policy, log, estimate, 0.9, method, by, cost_model=model, baseline=baseline)
    groups = context if by == "context" else None
    assert given.bound == pytest.approx(upper_bound(z - other, 0.9, method, groups=groups), abs=1e-10)
    assert given.baseline
    assert repr(given).startswith(f"cost of the difference at most {given.bound:.6g} with probability 0.9, as n → ∞ (")
    if by == "row":
        assert given.value == pytest.approx((z - other).mean(), abs=1e-10)


def test_a_difference_to_the_policy_itself_is_nothing(held):
    policy, log, model = held
    for estimate in ("ips", "snips", "dr"):
        given = policy_certificate(policy, log, estimate, cost_model=model, baseline=policy)
        assert (given.value, given.bound) == pytest.approx((0, 0), abs=1e-12)


def test_a_difference_knows_choices_ranges_and_fitted_estimators(held):
    policy, log, model = held
    z, _, cost, _ = in_full(held, "dr")
    each = policy_certificate(policy, log, "dr", 0.9, choices=4, cost_model=model, baseline="logging")
    assert each.bound == pytest.approx(upper_bound(z - cost, 0.975), abs=1e-10)
    ranged = {"method": "empirical_bernstein", "low": -90, "high": 90}
    wide = policy_certificate(policy, log, "dr", cost_model=model, baseline="logging", **ranged)
    assert wide.bound == pytest.approx(upper_bound(z - cost, **ranged), abs=1e-9)
    rows = {"propensity": log.propensity, "cost": log.cost, "context": log.context, "count": log.count}
    fit = drcrm.CIPS().fit(log.X, log.Y, **rows)
    pair = [policy_certificate(policy, log, "dr", cost_model=model, baseline=each) for each in (fit, fit.policy_)]
    assert pair[0] == pair[1]


@pytest.mark.filterwarnings("ignore:the mean weight is", "ignore:the effective size is")
def test_what_is_missing_counts_against_the_policy_and_for_the_baseline(silent):
    policy, log, model = silent
    weight = np.exp(policy.log_prob(log.X, log.Y)) / 0.5
    least, most = -4.0, 2.5
    given = {"cost_model": model, "cost_range": (least, most)}
    high, low = (at + weight * (log.cost - at) for at in (most, least))
    against = policy_certificate(policy, log, "dr", baseline="logging", **given)
    assert against.missing
    assert against.bound == pytest.approx(upper_bound(high - log.cost), abs=1e-12)
    assert "what the log lacks counted at the worst of the costs -4 to 2.5)" in repr(against)
    uniform = drcrm.ExponentialPolicy([[-50.0, 0.0]])  # label 1 never
    weighted = np.exp(uniform.log_prob(log.X, log.Y)) / 0.5
    z = weighted * (log.cost + 3) - 3
    beside = policy_certificate(uniform, log, "dr", baseline=policy, **given)
    assert beside.missing
    assert beside.bound == pytest.approx(upper_bound(z - low), abs=1e-12)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"baseline": "uniform"}, "baseline is 'uniform', expected one of 'logging'"),
        ({"baseline": 3}, "baseline is of type int, expected an ExponentialPolicy or a SoftmaxPolicy, or a fitted"),
        ({"baseline": drcrm.ExponentialPolicy(np.zeros((4, 3)))}, r"the baseline's coef has shape \(4, 3\), expected"),
        ({"baseline": "logging", "method": "log_smoothing"}, "z is .* expected at most 0, which log_smoothing"),
        (
            {"baseline": "logging", "estimate": "snips", "method": "betting", "low": -9, "high": 9},
            "the certificate of a difference by 'snips' is by an asymptotic method, not by betting",
        ),
        ({"cost_range": (-1, 0)}, r"cost_range is \(-1, 0\), expected \(least, largest\) with all logged costs, -"),
        ({"cost_range": 3}, "cost_range is 3, expected"),
        ({"cost_range": (-9, np.inf)}, "cost_range is .*, expected"),
        ({"cost_range": (-9, None)}, "cost_range is .*, expected"),
    ],
)
def test_what_is_no_difference(held, settings, reason):
    policy, log, _ = held
    with pytest.raises(InputError, match=reason):
        policy_certificate(policy, log, **settings)


def test_a_difference_of_single_choices_counts_and_sparse_features(silent):
    """The same numbers from counts as from repeats, from CSR as from dense features, and in other units."""
    rng = np.random.default_rng(3)
    X, policy = rng.normal(size=(60, 3)), drcrm.SoftmaxPolicy(rng.normal(size=(3, 4)))
    logging = drcrm.SoftmaxPolicy(0.3 * rng.normal(size=(3, 4)))
    A, count = logging.sample(X, 1), rng.integers(1, 4, 60)
    p, c = np.exp(logging.log_prob(X, A)), rng.normal(size=60)
    model, rows = CostModel(0.1).fit(X, A, c), np.repeat(np.arange(60), count)
    settings = {"estimate": "dr", "cost_model": model, "baseline": "logging"}
    counted = policy_certificate(policy, BanditLog(X, A, p, c, count=count), **settings)
    repeated = policy_certificate(policy, BanditLog(X[rows], A[rows], p[rows], c[rows]), **settings)
    csr = policy_certificate(policy, BanditLog(sparse.csr_array(X), A, p, c, count=count), **settings)
    z = model.expectation(X, policy) + np.exp(policy.log_prob(X, A)) / p * (c - model.predict(X, A)) - c
    assert counted.bound == pytest.approx(upper_bound(z, weights=count), abs=1e-10)
    for other in (repeated, csr):
        assert (other.bound, other.n, other.missing) == (pytest.approx(counted.bound, abs=1e-10), count.sum(), False)
    sharp = drcrm.SoftmaxPolicy(8 * logging.coef)  # by which half of the policy has no support
    for estimate in ("dr", "snips", "ips"):
        known = {"logging_policy": sharp, "cost_model": model, "baseline": drcrm.SoftmaxPolicy(0.5 * policy.coef)}
        first, *others = (
            policy_certificate(policy, log, estimate, **known)
            for log in (
                BanditLog(X, A, p, c, count=count),
                BanditLog(X[rows], A[rows], p[rows], c[rows]),
                BanditLog(sparse.csr_array(X), A, p, c, count=count),
            )
        )
        assert 0.2 < first.unsupported < 0.8
        assert [each.bound for each in others] == pytest.approx([first.bound, first.bound], rel=1e-9)
    own = policy_certificate(logging, BanditLog(X, A, p, c, count=count), "snips", baseline="logging")
    assert own.bound == pytest.approx(0, abs=1e-12)
    assert not own.missing


def test_a_log_is_a_log(held):
    policy, log, _ = held
    with pytest.raises(InputError, match="log is of type tuple, expected a BanditLog"):
        policy_certificate(policy, (log.X, log.Y, log.propensity, log.cost))


def test_an_estimate_beyond_all_numbers_is_refused():
    log = BanditLog(np.ones((9, 1)), np.eye(9, 1), np.full(9, 0.5), np.full(9, -1e308))
    with pytest.raises(InputError, match="the policy's weights, or their costs, are beyond the range"):
        policy_certificate(drcrm.ExponentialPolicy(np.zeros((1, 1))), log)


@pytest.mark.parametrize("by", ["row", "context"])
@pytest.mark.parametrize("estimate", ["ips", "snips"])
def test_weights_beyond_all_numbers_and_a_single_unit_are_refused(by, estimate):
    policy = drcrm.ExponentialPolicy(np.zeros((1, 1)))
    log = BanditLog(np.ones((2, 1)), np.ones((2, 1)), [5e-324, 0.5], [-1.0, -0.5])
    with pytest.raises(InputError, match="the policy's weights, or their costs, are beyond the range of numbers"):
        policy_certificate(policy, log, estimate, by=by)
    with pytest.raises(InputError, match="a bound by kl is of at least 2 costs; there is 1"):
        policy_certificate(policy, log.recount([0, 1]), estimate, by=by)


@pytest.mark.parametrize("scale", [1e-250, 1e250])
def test_the_effective_size_does_not_depend_on_the_scale_of_weights(scale):
    held = scale * np.array([1.0, 2, 1])
    assert effective_sample_size(held, np.array([1, 1, 2])) == pytest.approx(25 / 7)


def test_the_public_names():
    assert drcrm.certificates.upper_bound is upper_bound
    assert drcrm.divergences.CVaR is CVaR
    assert drcrm.risks.PhiBall is PhiBall
