"""The risk functionals against 60-digit values, closed forms, identities and finite differences."""

from __future__ import annotations

import contextlib
import json
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import linprog, minimize

from drcrm.errors import InputError
from drcrm.risks.base import (
    AdaptiveBoltzmannRisk,
    BoltzmannRisk,
    Chi2Ball,
    KLBall,
    LogSmoothingRisk,
    LogSumExpRisk,
    MeanRisk,
    VariancePenalizedRisk,
)
from drcrm.selection.algorithms import ESTIMATORS

REFERENCE = json.loads((Path(__file__).parents[1] / "data/risk_values.json").read_text())
KINDS = {
    "poem": lambda entry: VariancePenalizedRisk(entry["penalty"]),
    "kl_crm": lambda entry: BoltzmannRisk(entry["temperature"]),
    "akl_crm": lambda entry: AdaptiveBoltzmannRisk(entry["radius"], entry["variance"]),
    "kl_dro": lambda entry: KLBall(entry["radius"]),
    "chi2_dro": lambda entry: Chi2Ball(entry["radius"]),
}

WITH_PARAMETER = [name for name, each in ESTIMATORS.items() if each.parameters]
OF_RISKS = [name for name in WITH_PARAMETER if not ESTIMATORS[name].likelihood]
OTHERS = {"PhiDRO": {"divergence": "squared_hellinger"}}  # parameters without a default
every_parameter = pytest.mark.parametrize("name", WITH_PARAMETER)
every_risks_parameter = pytest.mark.parametrize("name", OF_RISKS)


def criterion(name: str, value):
    """What an estimator minimises, at a value of its hyper-parameter."""
    return ESTIMATORS[name].criterion(**{ESTIMATORS[name].hyper_parameter: value}, **OTHERS.get(name, {}))


def costs(seed: int, n: int = 25) -> np.ndarray:
    return -np.random.default_rng(seed).exponential(4, n)


@pytest.mark.parametrize("vector", REFERENCE, ids=lambda vector: vector["kind"])
@pytest.mark.parametrize("kind", KINDS)
def test_agrees_with_60_digits(vector, kind):
    for entry in vector[kind]:
        value, gradient = KINDS[kind](entry)(vector["z"])
        assert value == pytest.approx(entry["value"], rel=1e-8, abs=1e-8)
        assert gradient == pytest.approx(np.array(entry.get("gradient", entry.get("worst_case"))), rel=1e-8, abs=1e-8)
    assert MeanRisk()(vector["z"])[0] == pytest.approx(vector["mean"], rel=1e-12)


def test_equal_calls_are_equal_to_the_last_bit(risk):
    first = risk(costs(1))
    with contextlib.suppress(InputError):
        risk([1.7e308, -1.7e308, 0])
    risk(costs(2, 60))
    again = risk(costs(1))
    assert first[0] == again[0]
    assert np.array_equal(first[1], again[1])


@pytest.mark.parametrize("radius", [1e-8, 1e-3, 0.1, 2.0])
def test_where_the_kl_balls_search_starts_does_not_show(radius):
    start = None
    for seed in range(40):
        rng = np.random.default_rng(seed)
        z, weights = 10.0 ** rng.integers(-6, 6) * rng.normal(size=30) ** rng.integers(1, 6), rng.integers(1, 9, 30)
        value, worst = KLBall(radius)(z, weights)
        again, worst_again, start = KLBall(radius).evaluate(z, weights / weights.sum(), weights.sum(), start)
        assert again == pytest.approx(value, rel=1e-12, abs=1e-12 * np.ptp(z))
        assert worst_again == pytest.approx(worst, rel=1e-9, abs=1e-12)
        kl = worst[worst > 0] @ np.log(worst[worst > 0] * weights.sum() / weights[worst > 0])
        assert kl == pytest.approx(radius, rel=1e-7)


def test_balls_of_four_costs():
    assert KLBall(0.1)([0, 1, 2, 3])[0] == pytest.approx(1.994274122, abs=5e-10)
    assert KLBall(0.5)([0, 1, 2, 3])[0] == pytest.approx(2.551022019, abs=5e-10)
    assert Chi2Ball(0.1)([0, 1, 2, 3])[0] == pytest.approx(1.853553391, abs=5e-10)
    weights = KLBall(0.1)([0, 1, 2, 3])[1]
    assert weights[1] / weights[0] == pytest.approx(np.exp(1 / 2.413506095), rel=1e-9)


@pytest.mark.parametrize("weighted", [False, True], ids=["once", "with multiplicities"])
def test_gradient_is_the_finite_difference(risk, weighted):
    z = costs(1)
    weights = np.random.default_rng(2).integers(0, 4, len(z)) if weighted else None
    step = 1e-6
    numeric = [(risk(z + step * e, weights)[0] - risk(z - step * e, weights)[0]) / (2 * step) for e in np.eye(len(z))]
    assert risk(z, weights)[1] == pytest.approx(np.array(numeric), abs=1e-7)


def test_multiplicities_are_repetitions(risk):
    z, weights = costs(3), np.random.default_rng(4).integers(0, 4, 25)
    value, gradient = risk(z, weights)
    long_value, long_gradient = risk(np.repeat(z, weights))
    assert value == pytest.approx(long_value, rel=1e-12)
    first = np.concatenate([[0], np.cumsum(weights)[:-1]])
    for i, (w, at) in enumerate(zip(weights, first, strict=True)):
        assert gradient[i] == pytest.approx(w * long_gradient[at] if w else 0, abs=1e-12)


def test_ties_one_cost_and_constant_costs(risk, of_constant):
    expected, total = of_constant(-3.0)
    assert risk([-3.0]) == (pytest.approx(expected), pytest.approx([total]))
    value, gradient = risk(np.full(7, -2.5), np.arange(1, 8))
    expected, total = of_constant(-2.5)
    assert value == pytest.approx(expected, rel=1e-15)
    assert gradient == pytest.approx(total * np.arange(1, 8) / 28, abs=1e-15)
    _, gradient = risk([-1.0, -4.0, -1.0, -4.0])
    assert gradient[:2] == pytest.approx(gradient[2:], abs=1e-15)


@pytest.mark.parametrize(("cost", "n"), [(-3.3, 10), (1 / 3, 1000), (-1e-7, 3), (0.1, 7)])
def test_constant_costs_that_binary_cannot_hold(risk, of_constant, cost, n):
    """Their mean is rounded; their variance is 0 all the same."""
    weights = np.arange(1, n + 1)
    value, gradient = risk(np.full(n, cost), weights)
    expected, total = of_constant(cost)
    assert value == pytest.approx(expected, rel=1e-14)
    assert gradient == pytest.approx(total * weights / weights.sum(), rel=1e-12)


def test_costs_that_differ_by_rounding_just_below_saturation():
    z = np.array([1.0000000000000004, 1.0000000000000009, 1.0000000000000009])
    weights = np.array([0.05159500919678698, 11.348769438586894, 0.0805721762708456])
    value, gradient = KLBall(0.00450410037661114)(z, weights)
    assert value == pytest.approx(1)
    assert gradient.sum() == pytest.approx(1)
    assert KLBall(0.1)(np.array([-3.0, -2.0, -1.0, 0.0]) * 1e-155)[0] <= 0


@pytest.mark.parametrize("scale", [1e-8, 1.0, 900.0])
def test_no_overflow_and_no_nan(risk, scale):
    z = scale * costs(5, 60)
    value, gradient = risk(z)
    assert np.isfinite(value)
    assert np.isfinite(gradient).all()


@pytest.mark.parametrize("z", [[-700.0, -1.0, 0.0], [700.0, 1.0, 0.0], np.linspace(-900, 900, 50)])
def test_coldest_temperature_is_the_largest_cost(z):
    value, gradient = BoltzmannRisk(1e-3)(z)
    assert value == pytest.approx(np.max(z), rel=1e-12)
    assert gradient[np.argmax(z)] == pytest.approx(1)


def test_gradients_add_up_to_one_where_a_constant_in_all_costs_is_one_in_the_risk(risk, moves_with_costs):
    value, gradient = risk(costs(6))
    assert (abs(gradient.sum() - 1) < 1e-12) == moves_with_costs
    assert (abs(risk(costs(6) - 7)[0] - value + 7) < 1e-11) == moves_with_costs


def test_which_risks_grow_with_the_unit_of_costs(risk, grows_with_costs):
    assert (abs(risk(3 * costs(6))[0] - 3 * risk(costs(6))[0]) < 1e-11) == grows_with_costs


def test_monotone_risks_never_fall_as_a_cost_rises(risk):
    """Nor where one cost is far off, which is where others that look at the variance fall."""
    far = 200 * costs(6).min()
    for z in (costs(6), np.append(costs(6), far)):
        assert not risk.monotone or risk(z)[1].min() >= 0
    assert VariancePenalizedRisk(30.0)(np.append(costs(6), far))[1].min() < 0


@pytest.mark.parametrize("temperature", [1e6, 1e8])
def test_hot_boltzmann_is_the_mean(temperature):
    z = costs(7)
    assert BoltzmannRisk(temperature)(z)[0] == pytest.approx(z.mean(), abs=2 * z.var() / temperature)


@pytest.mark.parametrize(
    "risk",
    [KLBall(0.2), KLBall(1e-5), Chi2Ball(0.4), Chi2Ball(1.5)],
    ids=lambda risk: f"{type(risk).__name__} {risk.radius}",
)
def test_no_distribution_in_the_ball_does_worse(risk):
    """The value is a maximum: no random member of the ball exceeds it, and the gradient attains it."""
    z, rng = costs(8), np.random.default_rng(9)
    n = len(z)
    divergence = {
        KLBall: lambda q: (q[q > 0] * np.log(n * q[q > 0])).sum(),
        Chi2Ball: lambda q: ((n * q - 1) ** 2).mean(),
    }
    of = divergence[type(risk)]
    value, worst = risk(z)
    assert worst.min() >= 0
    assert worst.sum() == pytest.approx(1)
    assert of(worst) == pytest.approx(risk.radius, rel=1e-7)
    assert worst @ z == pytest.approx(value, rel=1e-10)
    for _ in range(200):
        q, low, high = rng.dirichlet(np.full(n, rng.choice([0.1, 1, 10]))), 0.0, 1.0
        for _ in range(50):
            middle = (low + high) / 2
            inside = of(middle * q + (1 - middle) / n) <= risk.radius
            low, high = (middle, high) if inside else (low, middle)
        assert (low * q + (1 - low) / n) @ z <= value + 1e-12


@pytest.mark.parametrize("radius", [0.01, 0.3, 1.0])
def test_kl_ball_is_its_dual(radius):
    z = costs(10)
    dual = minimize(
        lambda t: np.exp(t[0]) * (radius + np.log(np.mean(np.exp((z - z.max()) / np.exp(t[0]))))) + z.max(),
        [0.0],
        method="Nelder-Mead",
        options={"xatol": 1e-10, "fatol": 1e-13},
    )
    assert KLBall(radius)(z)[0] == pytest.approx(dual.fun, rel=1e-9)


@pytest.mark.parametrize(("ball", "at"), [(KLBall, np.log(40 / 3)), (Chi2Ball, 40 / 3 - 1)])
def test_saturates_at_the_largest_cost(ball, at):
    z = np.concatenate([costs(11, 37) - 1, [-0.5] * 3])
    for radius in (at, at * 1.01, 1e6):
        value, gradient = ball(radius)(z)
        assert value == -0.5
        assert gradient == pytest.approx(np.where(z == -0.5, 1 / 3, 0))
    value, _ = ball(at * 0.99)(z)
    assert z.mean() < value < -0.5


def test_chi2_ball_is_variance_penalisation_while_weights_stay_positive():
    z, penalty = costs(12), 0.3
    n = len(z)
    svp, exact = VariancePenalizedRisk(penalty)(z), Chi2Ball(penalty**2 / (n - 1))(z)
    assert exact[1].min() > 0
    assert exact[0] == pytest.approx(svp[0], rel=1e-12)
    assert exact[1] == pytest.approx(svp[1], abs=1e-12)
    assert exact[0] == pytest.approx(z.mean() + np.sqrt(penalty**2 / (n - 1) * z.var()), rel=1e-12)


@pytest.mark.parametrize(("ball", "curvature"), [(KLBall, 1), (Chi2Ball, 2)])
def test_small_radius_expansion(ball, curvature):
    """mean + √(2εV/φ''(1)), φ''(1) = 1 for KL and 2 for χ²: the error of the expansion is of order ε."""
    z = costs(13)
    for radius in (1e-4, 1e-6, 1e-8):
        expansion = z.mean() + np.sqrt(2 * radius * z.var() / curvature)
        assert ball(radius)(z)[0] == pytest.approx(expansion, abs=20 * radius * np.abs(z).max())


def test_adaptive_temperature_is_lemma_5():
    z, radius = costs(14), 0.05
    for variance, squares in {"mean": z.var(), "sum": z.var() * len(z)}.items():
        value, _ = AdaptiveBoltzmannRisk(radius, variance)(z)
        assert value == pytest.approx(BoltzmannRisk(np.sqrt(squares / (2 * radius)))(z)[0], rel=1e-12)


def test_costs_in_clusters_that_almost_tie():
    """KL is then a staircase in the temperature, over twenty decades of it."""
    rng = np.random.default_rng(15)
    z = np.concatenate([0.0359 - 1e-9 * rng.random(1000), [-19.76, -10.0, -3.0]])
    for radius in np.geomspace(1e-8, 6, 40):
        value, worst = KLBall(radius)(z)
        inside = worst[worst > 0]
        assert (inside * np.log(len(z) * inside)).sum() == pytest.approx(radius, rel=1e-6)
        assert z.mean() < value <= z.max()


def chi2_by_enumeration(z: np.ndarray, weights: np.ndarray, radius: float) -> float:
    """The χ² ball's value: of the closed forms on the k largest costs, the largest that is a distribution."""
    share, values = weights / weights.sum(), []
    if radius >= 1 / share[z == z.max()].sum() - 1:
        return z.max()
    for least in np.unique(z):
        on = z >= least
        mass = share[on].sum()
        centred = z[on] - share[on] @ z[on] / mass
        spread, square = np.sqrt(share[on] @ centred**2 / mass), radius + (mass - 1) * (1 + radius)
        reach = np.sqrt(max(square, 0))
        if square > -1e-12 and (1 + centred * reach / max(spread, 1e-300)).min() > -1e-12:
            values.append(share[on] @ z[on] / mass + spread * reach)
    return max(values)


@pytest.mark.parametrize("most", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_chi2_ball_of_every_small_log_of_integer_costs(most):
    """Costs then lie on the threshold again and again, where rounding once let a row in and out for ever."""
    for counts in product(range(most + 1), repeat=6):
        weights = np.array(counts, dtype=float)
        present = weights > 0
        if not present.any():
            continue
        z, weights = -np.arange(6.0)[present], weights[present]
        for radius in (0.25, 0.5, 0.75, 1.0, 1.5, 2.0):
            value, worst = Chi2Ball(radius)(z, weights)
            assert worst.min() >= 0
            assert abs(worst.sum() - 1) < 1e-12
            assert abs(value - worst @ z) < 1e-12
            assert sum(counts) > 12 or abs(value - chi2_by_enumeration(z, weights, radius)) < 1e-12


def test_chi2_ball_ends_where_a_cost_is_on_the_threshold():
    assert Chi2Ball(0.25)([0, -1, -2], [1, 6, 1])[0] == pytest.approx(-0.75, rel=1e-14)
    z, weights = np.array([0.0, -1, -2, -3]), np.array([4.0, 10, 12, 18])
    assert Chi2Ball(1.0)(z, weights)[0] == pytest.approx(chi2_by_enumeration(z, weights, 1.0), rel=1e-14)


@pytest.mark.parametrize("radius", [1e-15, 1e-14, 1e-12, 1e-9, 1e-7])
def test_chi2_ball_of_a_tiny_radius_is_its_expansion(radius):
    """At this n Σ share is 1 less rounding, which is 1 % of a radius of 1e-14."""
    z = np.array([-3.0, -1, -2, -7, -0.5, -2.2, -9.1])
    value, worst = Chi2Ball(radius)(z)
    assert value - z.mean() == pytest.approx(np.sqrt(radius * z.var()), rel=1e-6, abs=4e-15)
    assert ((7 * worst - 1) ** 2).mean() == pytest.approx(radius, rel=1e-6)


@pytest.mark.parametrize("unit", [1e150, 1e160, 1e300])
def test_costs_whose_squares_overflow(risk, grows_with_costs, unit):
    """Risks without a unit of their own grow with z; those with a temperature are then the largest z."""
    z = costs(20, 8)
    value, gradient = risk(unit * z)
    if grows_with_costs:
        assert value == pytest.approx(unit * risk(z)[0], rel=1e-12)
        assert gradient == pytest.approx(risk(z)[1], rel=1e-9, abs=1e-12)
    elif isinstance(risk, LogSmoothingRisk):
        assert value == pytest.approx(-np.mean(np.log(-risk.smoothing * z) + np.log(unit)) / risk.smoothing, rel=1e-12)
        assert gradient == pytest.approx(0, abs=1e-140)
    else:
        assert value == unit * z.max()
        assert gradient == pytest.approx(np.where(z == z.max(), 1, 0))


@pytest.mark.parametrize("ball", [KLBall(0.5), Chi2Ball(0.5), Chi2Ball(1.0)])
@pytest.mark.parametrize("outlier", [-1e3, -1e20, -1e155, -1e200, -1.7e308])
def test_an_outlier_without_weight_leaves_the_rest(ball, outlier):
    """However far off it is: a ball that can drop it takes the worst of the other three."""
    value, worst = ball([0, -1, -2, outlier])
    far_value, far_worst = ball([0, -1, -2, -300])
    assert value == pytest.approx(far_value, rel=1e-9)
    assert worst == pytest.approx(far_worst, rel=1e-9)


def test_levels_of_costs_each_far_beyond_the_next():
    _, worst = KLBall(0.5)([-1, -2, -3, -1e160, -2e160, -1e200])
    assert worst[:3] == pytest.approx(worst[0])
    assert worst[0] > worst[3] > worst[4] > worst[5] == 0
    assert worst @ np.log(6 * np.where(worst > 0, worst, 1)) == pytest.approx(0.5, rel=1e-9)


def test_weights_of_very_unlike_size():
    """KL of (q, 1 − q) to (1e-100, 1) is 100 at q = 0.43727."""
    value, worst = KLBall(100.0)([1, 0], [1, 1e100])
    assert value == pytest.approx(0.4372705127517663, rel=1e-12)
    assert worst @ np.log(worst) + worst[0] * np.log(1e100) == pytest.approx(100, rel=1e-12)
    assert BoltzmannRisk(1 / 230)([1, 0], [1, 1e100])[0] == pytest.approx(1 / (1 + 1e100 * np.exp(-230)), rel=1e-12)
    with pytest.raises(InputError, match=r"that occur 9\.99989e-321 to 1e[+]300 times is beyond the range"):
        MeanRisk()([1, 2], [1e-320, 1e300])


@pytest.mark.parametrize("temperature", [1e-3, 1e-1, 1.0])
def test_boltzmann_far_from_zero_keeps_its_digits(temperature):
    z = 2.0**-10 * np.random.default_rng(21).integers(-40, 0, 30)
    value, gradient = BoltzmannRisk(temperature)(z + 2.0**20)
    near, near_gradient = BoltzmannRisk(temperature)(z)
    assert value - 2.0**20 == pytest.approx(near, abs=1e-9)
    assert gradient == pytest.approx(near_gradient, rel=1e-10, abs=1e-12)


@every_parameter
def test_fractions_are_numbers(name):
    value, gradient = criterion(name, Fraction(1, 4)).risk(costs(22))
    assert value == criterion(name, 0.25).risk(costs(22))[0]
    assert gradient.dtype == float
    assert type(criterion(name, Fraction(1, 4)).sharpness) is type(criterion(name, 0.25).sharpness)


@every_parameter
@pytest.mark.parametrize("value", [-1, float("nan"), float("inf"), "wide", None])
def test_a_hyper_parameter_is_a_finite_number_not_below_zero(name, value):
    with pytest.raises(InputError, match=rf"is {value!r}, expected a finite number"):
        criterion(name, value)


@every_risks_parameter
def test_the_robust_end_of_a_grid_is_the_more_pessimistic(name):
    """From it down the risk falls, to the mean; at it, with these grids, it is above the mean by far."""
    z, estimator = costs(23), ESTIMATORS[name]
    end = estimator.risk.robust_end
    grid = np.geomspace(1e-9, 1 if name == "CVaRDRO" else 1e9, 37)
    values = [criterion(name, value).risk(z)[0] for value in sorted(grid, reverse=end == "high")]
    assert (np.diff(values) <= 1e-9).all()
    assert values[-1] == pytest.approx(z.mean(), abs=1e-3)
    assert values[0] > z.mean() + 1


finite = st.floats(-50, 0, allow_nan=False)


@given(arrays(float, st.integers(1, 12), elements=finite), st.floats(1e-8, 20), st.floats(1e-8, 20))
def test_balls_grow_with_their_radius(z, first, second):
    small, large = sorted([first, second])
    for ball in (KLBall, Chi2Ball):
        less, more = ball(small)(z)[0], ball(large)(z)[0]
        assert z.mean() - 1e-9 <= less <= more + 1e-9
        assert more <= z.max() + 1e-9


@given(arrays(float, st.integers(2, 12), elements=finite), st.floats(1e-6, 5))
def test_balls_are_convex_and_monotone(z, radius):
    other = -np.random.default_rng(len(z)).exponential(4, len(z))
    for ball in (KLBall(radius), Chi2Ball(radius)):
        assert ball((z + other) / 2)[0] <= (ball(z)[0] + ball(other)[0]) / 2 + 1e-8
        assert ball(np.maximum(z, other))[0] >= max(ball(z)[0], ball(other)[0]) - 1e-8


@pytest.mark.parametrize("smoothing", [1e-6, 0.1, 1.0, 30.0])
def test_logarithmic_smoothing_is_its_formula(smoothing):
    """At a positive cost below 1/λ too; for costs of at most 0 it bounds the mean from above."""
    z, count = np.append(costs(24), 0.9 / smoothing), np.random.default_rng(25).integers(0, 4, 26)
    count[-1] = 1
    value, gradient = LogSmoothingRisk(smoothing)(z, count)
    assert value == pytest.approx(-(count @ np.log(1 - smoothing * z)) / (smoothing * count.sum()), rel=1e-9)
    assert gradient == pytest.approx(count / count.sum() / (1 - smoothing * z), rel=1e-12)
    assert LogSmoothingRisk(smoothing)(z[:-1])[0] >= z[:-1].mean()


@pytest.mark.parametrize("temperature", [0.05, 1.0, 50.0])
def test_log_sum_exp_is_the_ball_at_its_multiplier(temperature):
    """γ log mean e^{z/γ} + γε is above the ball's value for every ε, and equals it at the ε whose multiplier γ is."""
    z = costs(26)
    value, worst = LogSumExpRisk(temperature)(z)
    assert value == pytest.approx(temperature * np.log(np.mean(np.exp(z / temperature))), rel=1e-12)
    assert worst == pytest.approx(np.exp(z / temperature) / np.exp(z / temperature).sum(), rel=1e-12)
    radius = worst @ np.log(len(z) * np.maximum(worst, 1e-300))
    assert KLBall(radius)(z)[0] == pytest.approx(value + temperature * radius, rel=1e-9)
    for other in radius * np.array([0.5, 0.9, 1.1, 2.0]):
        assert KLBall(other)(z)[0] < value + temperature * other


def test_chi2_ball_of_large_radius_by_linear_programming():
    """At its edge the ball's maximiser cannot be improved by any direction that stays inside to first order."""
    z, radius = costs(16, 12), 3.0
    value, worst = Chi2Ball(radius)(z)
    n = len(z)
    normal = 2 * (n * worst - 1)
    best = linprog(-z, A_ub=[normal], b_ub=[normal @ worst], A_eq=[np.ones(n)], b_eq=[1], bounds=[(0, None)] * n)
    assert -best.fun == pytest.approx(value, rel=1e-9)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: BoltzmannRisk(0), "temperature is 0, expected a finite number > 0"),
        (lambda: KLBall(-1), "radius is -1, expected a finite number ≥ 0"),
        (lambda: Chi2Ball(float("nan")), "radius is nan"),
        (lambda: VariancePenalizedRisk(float("inf")), "penalty is inf"),
        (lambda: AdaptiveBoltzmannRisk(1, "median"), "variance is 'median', expected 'mean' or 'sum'"),
        (lambda: KLBall("wide"), "radius is 'wide', expected a finite number"),
        (lambda: MeanRisk()([1, float("nan")]), "z is nan in row 1"),
        (lambda: MeanRisk()([1, 2], [1, -1]), "weights is -1.0 in row 1, expected 0 or more"),
        (lambda: MeanRisk()([1, 2], [0, 0]), "none of which occurs"),
        (lambda: VariancePenalizedRisk(1e10)([1e308, -1e308]), "from -1e[+]308 to 1e[+]308 that occur 1 to 1 times is"),
        (lambda: MeanRisk()([1, 2], [1e308, 1e308]), "occur 1e[+]308 to 1e[+]308 times is beyond the range"),
        (lambda: AdaptiveBoltzmannRisk(1e308)([1, 2]), "is beyond the range of floating-point numbers"),
        (lambda: MeanRisk()([1, 2], [1]), r"weights has shape \(1,\), expected \(2,\)"),
        (lambda: MeanRisk()([]), "none of which occurs"),
    ],
)
def test_errors_say_what_is_wrong(make, message):
    with pytest.raises(InputError, match=message):
        make()


@pytest.mark.parametrize("outlier", [-1e156, -1e158, -1e160, -3e161, -1e162, -1e200])
def test_chi2_ball_beside_an_outlier_whose_square_is_on_the_edge(outlier):
    """Divided by it, the squares of the others are denormal, or nothing."""
    assert Chi2Ball(1.5)([0, -1, -2, outlier])[0] == pytest.approx(-0.25, rel=1e-12)
    value, worst = Chi2Ball(0.5)([0, -1, -2, outlier])
    assert value == pytest.approx(-0.711324865405187, rel=1e-12)
    assert worst @ [0, -1, -2, 0] == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize("unit", [1e-156, 1e-162, 1e-170, 1e-250])
@pytest.mark.parametrize("ball", [VariancePenalizedRisk(0.5), AdaptiveBoltzmannRisk(0.3), KLBall(0.3), Chi2Ball(0.7)])
def test_costs_whose_squares_vanish(ball, unit):
    z = np.array([0.0, -1, -2, -5])
    value, gradient = ball(unit * z)
    assert value == pytest.approx(unit * ball(z)[0], rel=1e-9)
    assert gradient == pytest.approx(ball(z)[1], rel=1e-9)


@pytest.mark.parametrize(("n", "right"), [(10**4, -3.9723), (10**5, -3.98898)])
def test_adaptive_boltzmann_beside_an_outlier(n, right):
    """By extended precision; the mean is 1e15 away."""
    z = np.r_[-np.random.default_rng(0).exponential(4, n - 1), -1e20]
    assert AdaptiveBoltzmannRisk(0.1)(z)[0] == pytest.approx(right, rel=1e-4)
    assert AdaptiveBoltzmannRisk(1000)([-1, -2, -3, -1e30])[0] == pytest.approx(-2, rel=1e-9)


@pytest.mark.parametrize("radius", [1e-3, 1.0, 1e5])
def test_chi2_weights_add_up_to_one_where_one_cost_stands_out(radius):
    for n in (10**4, 10**6):
        value, worst = Chi2Ball(radius)(np.r_[0, -np.ones(n)])
        assert abs(worst.sum() - 1) < 1e-12
        assert worst[1:].sum() == pytest.approx(-value, rel=1e-9)


def test_constant_costs_in_a_ball_that_rounding_swallows():
    for ball in (KLBall(1e-17), Chi2Ball(1e-17)):
        value, worst = ball(np.full(100, -3.0))
        assert value == pytest.approx(-3, rel=1e-14)
        assert worst == pytest.approx(np.full(100, 0.01))
    assert KLBall(1e-17)([-1, 0], [1, 1e-300])[0] == pytest.approx(-1)


@pytest.mark.parametrize("temperature", [1e3, 1e6, 1e12, 1e15, 1e300])
def test_log_sum_exp_at_high_temperatures_is_the_mean_and_half_the_variance(temperature):
    """Its series, in fractions: mean + V/(2γ) + third moment/(6γ²), beyond which nothing is left."""
    z, weights = costs(5), np.random.default_rng(6).integers(1, 5, 25)
    exact, n = [Fraction(each) for each in z], int(weights.sum())
    mean = sum(int(w) * each for w, each in zip(weights, exact, strict=True)) / n
    second, third = (
        sum(int(w) * (each - mean) ** power for w, each in zip(weights, exact, strict=True)) / n for power in (2, 3)
    )
    gamma = Fraction(temperature)
    value, gradient = LogSumExpRisk(temperature)(z, weights)
    expected = float(mean + second / (2 * gamma) + third / (6 * gamma**2))
    assert value == pytest.approx(expected, rel=1e-9 if temperature < 1e6 else 1e-14)
    slopes = weights / n * np.array([float(1 + (each - mean) / gamma) for each in exact])
    assert gradient == pytest.approx(slopes, rel=1e-3 if temperature < 1e6 else 1e-9)


def worst_chi2(z: np.ndarray, weights: np.ndarray, radius: float) -> tuple[Decimal, list[Decimal]]:
    """The worst case in the χ² ball and its value, in 60 digits, by trying each support of the largest z."""
    with localcontext() as context:
        context.prec = 60
        z, weights, radius = ([Decimal(float(each)) for each in values] for values in (z, weights, [radius]))
        share = [each / sum(weights) for each in weights]
        for least in sorted(set(z)):
            on = [i for i in range(len(z)) if z[i] >= least]
            mass = sum(share[i] for i in on)
            mean = sum(share[i] * z[i] for i in on) / mass
            variance = sum(share[i] * (z[i] - mean) ** 2 for i in on) / mass
            stretch = (1 + radius[0]) * mass - 1
            if variance == 0:
                density = [1 / mass if i in on else Decimal(0) for i in range(len(z))]
            elif stretch < 0:
                continue
            else:
                slope = (stretch / variance).sqrt()
                density = [(1 + slope * (z[i] - mean)) / mass if i in on else Decimal(0) for i in range(len(z))]
            if min(density) >= 0:
                worst = [p * each for p, each in zip(share, density, strict=True)]
                return sum(q * each for q, each in zip(worst, z, strict=True)), worst
    raise AssertionError


@pytest.mark.parametrize("mass", [1e-3, 1e-6, 1e-9, 1e-12, 1e-15])
@pytest.mark.parametrize("part", [1e-9, 1e-3, 0.5, 0.99, 0.999999, 1.01])
@pytest.mark.parametrize("at", [0.0, 1000.0])
def test_chi2_ball_where_the_largest_cost_is_rare_and_the_radius_large(mass, part, at):
    """The radius is a part of that at which all weight goes to the largest cost; up to 10¹⁵."""
    z = at - np.r_[0.0, np.random.default_rng(7).exponential(size=6)]
    weights, radius = np.r_[mass / (1 - mass), np.full(6, 1 / 6)], part / mass
    expected, worst = worst_chi2(z, weights, radius)
    value, gradient = Chi2Ball(radius)(z, weights)
    assert value == pytest.approx(float(expected), rel=0, abs=1e-9)
    assert gradient == pytest.approx(np.array([float(each) for each in worst]), rel=0, abs=1e-9)
