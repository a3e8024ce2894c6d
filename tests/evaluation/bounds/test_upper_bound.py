"""Upper bounds on a mean against their formulas, an independent implementation of betting, and on generated costs."""

import math

import numpy as np
import pandas as pd
import pytest
from fixtures.user_input import ODD_OBJECTS, ORDINARY, examples, result_or_message
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.optimize import brentq, minimize_scalar

from drcrm.certificates import upper_bound
from drcrm.divergences import CVaR, SquaredHellinger
from drcrm.errors import InputError
from drcrm.risks import PhiBall

FINITE = ("empirical_bernstein", "log_smoothing", "betting", "anytime")
SMOOTH = ("kl", "chi2", "squared_hellinger", "reverse_kl")
every_method = pytest.mark.parametrize("method", [*SMOOTH, "student", *FINITE])
RANGE = {"low": -4, "high": 0}
BALLS = ["kl", "chi2", "squared_hellinger", "reverse_kl"]
NEED_RANGE = ["empirical_bernstein", "betting", "hoeffding"]
PROPERTY_METHODS = [*BALLS, "student", "log_smoothing", "anytime", *NEED_RANGE]
COSTS = [0.0, -1.0, -2.5, -1e-9, -3.0, -1e-200, 2.0]


def with_range(method: str, low: float = -4.0, high: float = 0.0) -> dict:
    """Return the arguments of a method, with the range of the costs if the method needs it."""
    ranges = {"empirical_bernstein": {"low": low, "high": high}, "anytime": {"high": high}}
    return {"method": method} | (ranges | {"betting": ranges["empirical_bernstein"]}).get(method, {})


def costs(seed: int = 0, n: int = 40) -> np.ndarray:
    return -4 * np.random.default_rng(seed).beta(1, 2, n)


@pytest.mark.parametrize("confidence", [0.95, 0.8])
def test_bounds_equal_their_formulas(confidence):
    z, delta, n = costs(), 1 - confidence, 40
    mean, variance, term = z.mean(), z.var(ddof=1), np.log(2 / delta)
    x = {at: -np.sum(np.log(1 - at * z)) / (at * n) + np.log(1 / delta) / (at * n) for at in (0.3, n**-0.5)}
    expected = {
        "student": mean + stats.t.ppf(confidence, n - 1) * np.sqrt(variance / n),
        "empirical_bernstein": mean + np.sqrt(2 * variance * term / n) + 7 * 5 * term / (3 * (n - 1)),
        "log_smoothing": (1 - np.exp(-(n**-0.5) * x[n**-0.5])) * n**0.5,
        "chi2": mean + stats.norm.ppf(confidence) * np.sqrt(z.var() / n),
    }
    for method, value in expected.items():
        assert upper_bound(z, confidence, **with_range(method, -4, 1)) == pytest.approx(value, rel=0, abs=1e-12)
    smoothed = upper_bound(z, confidence, "log_smoothing", smoothing=0.3)
    assert smoothed == pytest.approx((1 - np.exp(-0.3 * x[0.3])) / 0.3, abs=1e-12)


@pytest.mark.parametrize("method", [*SMOOTH, SquaredHellinger()])
@pytest.mark.parametrize("confidence", [0.95, 0.8])
def test_bound_of_a_divergence_is_the_value_of_its_calibrated_ball(method, confidence):
    z = costs(1)
    radius = PhiBall(method, 0).curvature * stats.norm.ppf(confidence) ** 2 / 80
    bound = upper_bound(z, confidence, method)
    assert bound == pytest.approx(PhiBall(method, radius)(z)[0], abs=1e-12)
    assert bound == pytest.approx(upper_bound(z, confidence, "student"), abs=0.03)


def bet_by_bet(z, confidence: float, low: float, high: float) -> float:
    """Return the upper side of the hedged capital of Waudby-Smith & Ramdas, one row at a time, by root search."""
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
@pytest.mark.parametrize("n", [2, 3, 100])
def test_betting_equals_a_capital_computed_bet_by_bet(n, confidence):
    for z in (costs(2, n), np.round(costs(3, n)), np.full(n, -4.0), np.full(n, -1.0)):
        bound = upper_bound(z, confidence, "betting", **RANGE)
        assert bound == pytest.approx(bet_by_bet(z, confidence, -4, 0), abs=1e-9)
        assert z.mean() < bound <= 0


def best_bet(z: np.ndarray, confidence: float, high: float) -> float:
    """Return the m at which the log capital of the best constant bet on "cost below m" reaches the level of the test.

    The level is ln(1/δ) + ln(√π Γ(n + 1)/Γ(n + ½)). This is the dual of the ball, with other searches.
    """
    n = len(z)
    level = -np.log(1 - confidence) + 0.5 * np.log(np.pi) + math.lgamma(n + 1) - math.lgamma(n + 0.5)

    def excess(m: float) -> float:
        odds = (m - z) / (high - m)
        inner = minimize_scalar(lambda b: -np.log1p(b * odds).sum(), bounds=(0, 1), options={"xatol": 1e-14})
        return max(-inner.fun, np.log1p(odds).sum() if odds.min() > -1 else 0.0) - level

    return brentq(excess, z.mean(), high - 1e-13, xtol=1e-14)


@pytest.mark.parametrize("confidence", [0.95, 0.99])
@pytest.mark.parametrize("n", [2, 7, 60, 400])
def test_the_anytime_bound_equals_that_of_the_best_bet(confidence, n):
    for z, high in ((costs(4, n), 0.0), (costs(5, n), 1.0), (np.r_[costs(6, n), np.zeros(n)], 0.0)):
        bound = upper_bound(z, confidence, "anytime", high=high)
        assert bound == pytest.approx(best_bet(z, confidence, high), abs=1e-8)
        assert upper_bound(z[::-1], confidence, "anytime", high=high) == pytest.approx(bound, abs=1e-14)
        assert bound <= upper_bound(z, confidence, "anytime", high=high + 1)
        assert bound < upper_bound(z, (1 + confidence) / 2, "anytime", high=high)


@every_method
def test_weights_are_repetitions_and_groups_count_with_their_means(method):
    rng = np.random.default_rng(7)
    z, groups, counts = costs(8, 60), rng.integers(0, 12, 60) * 5, rng.integers(0, 3, 60)
    repeated = upper_bound(np.repeat(z, counts), **with_range(method))
    assert upper_bound(z, **with_range(method), weights=counts) == pytest.approx(repeated, abs=1e-12)
    occurring = [group for group in np.unique(groups) if counts[groups == group].any()]
    means = [np.average(z[groups == group], weights=counts[groups == group]) for group in occurring]
    bound = upper_bound(z, **with_range(method), weights=counts, groups=groups)
    assert bound == pytest.approx(upper_bound(means, **with_range(method)), abs=1e-12)


@pytest.mark.parametrize(
    ("z", "settings", "reason"),
    [
        ([0.1, -1], {"method": "log_smoothing"}, "z is 0.1 in row 0, expected at most 0 for log_smoothing"),
        (
            [-1, -2],
            {"method": "betting"},
            "betting needs the range .* got low = None, high = None",
        ),
        ([-1, -2], {"method": "empirical_bernstein", "low": -2}, "empirical_bernstein needs .* high = None"),
        ([-1, -2], {"method": "betting", "low": 0, "high": -4}, "got low = 0, high = -4"),
        ([-1, -5], {"method": "betting", **RANGE}, "z is -5.0 in row 1, expected -4 to 0, the range given to betting"),
        ([-1, -2], {"method": "betting", **RANGE, "weights": [1, 1.5]}, "weights is 1.5 in row 1"),
        ([-1, -2], {"method": "betting", **RANGE, "weights": [1e7, 1]}, r"expected at most 1e\+07 costs, got 1e\+07"),
        ([-1, -2], {"method": "anytime"}, "anytime needs high=, a number that no cost can exceed, got None"),
        ([-1, -2], {"method": "anytime", "high": -1.5}, "z is -1.0 in row 0, expected at most -1.5, the largest cost"),
        ([-1, -2], {"method": "anytime", "low": -2, "high": 0}, "low and high apply .* and high to anytime; got them"),
        ([-1, -2], {"method": "student", "low": -4}, "low and high apply .* got them for student"),
        ([-1, -2], {"method": "kl", "smoothing": 1}, "smoothing applies to log_smoothing, not to kl"),
        ([-1, -2], {"method": "log_smoothing", "smoothing": 0}, "smoothing is 0, expected a finite number > 0"),
        ([-1, -2], {"confidence": 0.5}, "confidence is 0.5, expected a number above ½ and below 1"),
        ([-1], {"method": "kl"}, "an asymptotic bound needs at least 2 costs, got 1"),
        ([-1], {"method": "student"}, "an asymptotic bound needs at least 2 costs, got 1"),
        ([-1, -2], {"method": CVaR(0.5)}, r"φ''\(1\) > 0, unlike CVaR\(0.5\)"),
        ([-1, -2], {"method": "hoeffding"}, "method is 'hoeffding', expected one of student, confidence_sequence"),
        ([-1, -2], {"method": 3}, "method is 3, expected one of student, confidence_sequence"),
        ([-1, np.nan], {}, "z is nan in row 1, expected a finite number"),
        ([-1, -2], {"weights": [1e308, 1e308]}, "the sum of weights is beyond the range of floating-point numbers"),
        ([-1e308, 1e308], {"method": "student"}, "z has the largest magnitude 1e[+]308.*another unit"),
        ([-1, -2], {"groups": [0]}, r"groups has shape \(1,\), expected \(2,\)"),
        *(
            ([-1, -2], {"groups": groups}, "groups is .* in row 1, expected an id for each row")
            for groups in (
                [0, np.nan],
                ["a", None],
                pd.to_datetime(["2024-01-01", None]),
                np.array([3, "NaT"], "m8[s]"),
                np.array([1, complex(0, np.nan)]),
                pd.array(["a", None]),
            )
        ),
    ],
)
def test_invalid_settings_and_violated_assumptions_are_refused(z, settings, reason):
    with pytest.raises(InputError, match=reason):
        upper_bound(z, **settings)


@pytest.mark.parametrize("ids", [["a", "b", "a", 3], pd.array(["a", "b", "a", "c"]), [(1, 2), (2, 1), (1, 2), 0]])
def test_group_ids_may_have_any_type(ids):
    z, groups = np.array([-1.0, -2, -3, -5]), np.empty(4, dtype=object)
    groups[:] = list(ids)
    assert upper_bound(z, groups=groups) == upper_bound(z, groups=[0, 1, 0, 2])
    days = np.array(["2024-01-02", "2024-01-01", "2024-01-02", "2023-01-01"], "M8[D]")
    assert upper_bound(z, groups=days) == upper_bound(z, groups=[0, 1, 0, 2])


@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.999])
def test_the_confidence_sequence_is_nearly_narrowest_at_1000_costs(confidence):
    """The one-sided bound of Waudby-Smith et al. 2024 (proposition B.1), minimised over ρ by a search."""
    z, delta = np.random.default_rng(0).normal(size=1000), 1 - confidence
    rho2 = np.geomspace(1e-6, 1, 20_001)
    spread = 2 * (1000 * rho2 + 1) / (1000**2 * rho2) * np.log(1 + np.sqrt(1000 * rho2 + 1) / (2 * delta))
    narrowest = z.mean() + z.std(ddof=1) * np.sqrt(spread.min())
    bound = upper_bound(z, confidence, "confidence_sequence")
    assert narrowest - 1e-12 <= bound <= z.mean() + 1.02 * (narrowest - z.mean())


@st.composite
def bound_settings(draw) -> dict[str, object]:
    method = draw(st.sampled_from(PROPERTY_METHODS))
    settings = {"method": method, "confidence": draw(st.sampled_from([0.95, 0.6, 0.999]))}
    if method in NEED_RANGE:
        settings |= {"low": -50.0, "high": draw(st.sampled_from([2.0, 9.0]))}
    if method == "anytime":
        settings["high"] = draw(st.sampled_from([2.0, 9.0]))
    return settings


@st.composite
def drawn_costs(draw) -> dict[str, list]:
    """Draw costs z with counts."""
    n = draw(st.integers(1, 9))
    parts = {"z": st.one_of(st.sampled_from(COSTS), ORDINARY), "weights": st.integers(0, 3)}
    return {name: draw(st.lists(elements, min_size=n, max_size=n)) for name, elements in parts.items()}


def tolerance(z: np.ndarray) -> float:
    return 1e-7 * (1 + np.ptp(z) + abs(z).max())


@examples(60)
@given(drawn_costs(), bound_settings())
def test_a_bound_lies_above_the_mean_and_counts_repeat_rows(rows, settings):
    bound, _ = result_or_message(upper_bound, **rows, **settings)
    if bound is None:
        return
    z, weights = np.array(rows["z"]), np.array(rows["weights"])
    assert bound >= weights @ z / weights.sum() - tolerance(z)
    if settings["method"] in BALLS:
        assert bound <= z[weights > 0].max() + tolerance(z)
    if settings["method"] != "betting":  # betting depends on the order of the rows
        repeated = upper_bound(np.repeat(z, weights)[::-1], **settings)
        assert math.isclose(bound, repeated, rel_tol=1e-9, abs_tol=tolerance(z))


@pytest.mark.parametrize("name", ["z", "weights", "confidence", "method", "low", "high", "smoothing"])
@examples(10)
@given(drawn_costs(), bound_settings(), ODD_OBJECTS)
def test_invalid_arguments_of_a_bound_are_refused_in_one_line(name, rows, settings, value):
    result_or_message(upper_bound, **rows | settings | {name: value})
