"""Balls of any φ-divergence against reference values, duality, linear programs, closed forms and limits."""

import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from fixtures.reference_formulas import CONJUGATES, FORMULAS, SMOOTH
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq

from drcrm.divergences import KL, Chi2, CVaR, ReverseKL, SquaredHellinger
from drcrm.errors import InputError
from drcrm.risks import Chi2Ball, KLBall, PhiBall, VariancePenalizedRisk

RADII = [1e-8, 1e-5, 1e-2, 0.3, 1.5]
VALUES = json.loads((Path(__file__).parents[1] / "data" / "anytime_values.json").read_text())
every_smooth = pytest.mark.parametrize("name", SMOOTH)
every_divergence = pytest.mark.parametrize("name", FORMULAS)
radii = st.floats(-5, 0.7).map(lambda exponent: 10**exponent)


def make_distribution(kind: str, n: int = 400) -> tuple[np.ndarray, np.ndarray]:
    """Return costs with range [−1, 0] and their shares: smooth, clustered, or almost all at one end."""
    rng = np.random.default_rng(0)
    z = {
        "smooth": -rng.random(n),
        "clusters": -rng.choice([0.0, 1e-6, 0.4, 1.0], n) - 1e-9 * rng.random(n),
        "tail": -(rng.random(n) ** 20),
    }[kind]
    z -= z.max()
    share = rng.integers(1, 5, n).astype(float)
    return z / -z.min(), share / share.sum()


def test_the_worst_case_of_four_costs():
    assert KLBall(0.1)([0, 1, 2, 3])[0] == pytest.approx(1.994274122, abs=1e-9)


@pytest.mark.parametrize("kind", ["smooth", "clusters", "tail"])
@pytest.mark.parametrize("radius", RADII)
def test_the_worst_case_has_the_requested_divergence_from_any_start(kind, radius):
    z, share = make_distribution(kind)
    ball = KLBall(radius)
    _, expected, (beta, top) = ball.evaluate(z, share, 400)
    starts = [(beta * scale, top) for scale in (1, 1.01, 0.05, 20, 1e-17, 1e-170, 1e8)]
    for guess in [*starts, (beta, 1.0), (beta, 1e100)]:
        worst = ball.evaluate(z, share, 400, guess)[1]
        assert worst.sum() == pytest.approx(1, abs=1e-12)
        log_ratio = np.log(np.maximum(worst / share, 1e-300))
        assert worst @ log_ratio == pytest.approx(radius, rel=1e-9, abs=1e-15)
        assert worst == pytest.approx(expected, rel=1e-6, abs=1e-15)
    assert (np.diff((expected / share)[np.argsort(z)]) >= -1e-14 * (expected / share).max()).all()


def test_costs_that_differ_by_rounding_just_below_saturation():
    z = np.array([1.0000000000000004, 1.0000000000000009, 1.0000000000000009])
    weights = np.array([0.05159500919678698, 11.348769438586894, 0.0805721762708456])
    value, gradient = KLBall(0.00450410037661114)(z, weights)
    assert value == pytest.approx(1)
    assert gradient.sum() == pytest.approx(1)


@pytest.mark.parametrize("ball", [KLBall(0.5), Chi2Ball(0.5), Chi2Ball(1.0)])
@pytest.mark.parametrize("outlier", [-1e3, -1e20, -1e99])
def test_a_ball_that_can_drop_an_outlier_takes_the_worst_of_the_rest(ball, outlier):
    value, worst = ball([0, -1, -2, outlier])
    expected_value, expected_worst = ball([0, -1, -2, -300])
    assert value == pytest.approx(expected_value, rel=1e-9)
    assert worst == pytest.approx(expected_worst, rel=1e-9)


def test_weights_may_differ_by_100_orders_of_magnitude():
    """KL of (q, 1 − q) to (1e-100, 1) is 100 at q = 0.43727."""
    value, worst = KLBall(100.0)([1, 0], [1, 1e100])
    assert value == pytest.approx(0.4372705127517663, rel=1e-12)
    assert worst @ np.log(worst) + worst[0] * np.log(1e100) == pytest.approx(100, rel=1e-12)


def test_a_radius_below_rounding_gives_the_mean():
    for ball in (KLBall(1e-17), Chi2Ball(1e-17)):
        value, worst = ball(np.full(100, -3.0))
        assert value == pytest.approx(-3, rel=1e-14)
        assert worst == pytest.approx(np.full(100, 0.01))
    assert KLBall(1e-17)([-1, 0], [1, 1e-300])[0] == pytest.approx(-1)


def assert_optimal(z: np.ndarray, weights: np.ndarray, radius: float) -> None:
    """Assert that the worst case meets the conditions of optimality: density (slope z + level)₊ at distance ε."""
    share = weights / weights.sum()
    value, worst = Chi2Ball(radius)(z, weights)
    assert worst.min() >= 0
    assert abs(worst.sum() - 1) < 1e-12
    assert abs(value - worst @ z) < 1e-12
    density, is_positive = worst / share, worst > 1e-12
    if np.ptp(z[is_positive]) == 0:
        assert value == pytest.approx(z.max(), abs=1e-12)
        assert radius >= 1 / share[is_positive].sum() - 1 - 1e-9
        return
    slope, level = np.polyfit(z[is_positive], density[is_positive], 1)
    assert slope > 0
    assert density == pytest.approx(np.maximum(slope * z + level, 0), abs=1e-9)
    assert share @ (density - 1) ** 2 == pytest.approx(radius, rel=1e-9)


def test_every_small_log_of_integer_costs():
    """Costs are then often equal to the threshold, where rounding once let a row in and out forever."""
    for counts in product(range(3), repeat=6):
        weights = np.array(counts, dtype=float)
        if np.count_nonzero(weights) > 1:
            for radius in (0.25, 1.0):
                assert_optimal(-np.arange(6.0)[weights > 0], weights[weights > 0], radius)


def test_a_cost_on_the_threshold():
    assert Chi2Ball(0.25)([0, -1, -2], [1, 6, 1])[0] == pytest.approx(-0.75, rel=1e-14)
    assert_optimal(np.array([0.0, -1, -2, -3]), np.array([4.0, 10, 12, 18]), 1.0)


def test_chi2_ball_is_the_variance_penalty_while_weights_are_positive():
    z, penalty = -np.random.default_rng(12).exponential(4, 25), 0.3
    radius = penalty**2 / (len(z) - 1)
    penalised, exact = VariancePenalizedRisk(penalty)(z), Chi2Ball(radius)(z)
    assert exact[1].min() > 0
    assert exact[0] == pytest.approx(penalised[0], rel=1e-12)
    assert exact[1] == pytest.approx(penalised[1], abs=1e-12)
    assert exact[0] == pytest.approx(z.mean() + np.sqrt(radius * z.var()), rel=1e-12)


@pytest.mark.parametrize("radius", [1e-3, 1.0, 1e5])
@pytest.mark.parametrize("n", [10**4, 10**6])
def test_weights_sum_to_one_next_to_a_single_large_cost(radius, n):
    value, worst = Chi2Ball(radius)(np.r_[0, -np.ones(n)])
    assert abs(worst.sum() - 1) < 1e-12
    assert worst[1:].sum() == pytest.approx(-value, rel=1e-9)


@pytest.mark.parametrize("entry", VALUES, ids=lambda entry: f"{entry['name']} {entry['delta']}")
@pytest.mark.parametrize(("unit", "shift"), [(1.0, 0.0), (1e-90, 0.0), (1e90, 0.0), (1.0, 50.0)])
def test_the_bound_has_the_reference_value(entry, unit, shift):
    z, count = unit * np.array(entry["z"]) + shift, np.array(entry["count"], dtype=float)
    ball = PhiBall("reverse_kl", float(entry["radius"]), atom=unit * entry["largest"] + shift)
    value, weights = ball(z, count)
    assert value == pytest.approx(unit * float(entry["bound"]) + shift, rel=1e-9)
    mass = 1 - weights.sum()
    assert mass >= -1e-12
    assert weights @ z + mass * ball.atom == pytest.approx(value, rel=1e-10)
    share = count / count.sum()
    assert share @ np.log(share / weights) == pytest.approx(ball.radius, rel=1e-9)


def test_an_atom_that_takes_no_mass_changes_nothing():
    z = -np.random.default_rng(0).exponential(1, 50)
    assert PhiBall("reverse_kl", 1e-4, atom=z.max())(z)[0] == PhiBall("reverse_kl", 1e-4)(z)[0]
    assert PhiBall("reverse_kl", 0.0, atom=9.0)(z)[0] == pytest.approx(z.mean())
    assert PhiBall("reverse_kl", 0.5, atom=0.0)(np.zeros(3))[0] == 0


def test_the_weights_are_the_gradient():
    z, ball, step = -np.random.default_rng(1).exponential(1, 7), PhiBall("reverse_kl", 0.5, atom=0.5), 1e-6
    numeric = [(ball(z + e)[0] - ball(z - e)[0]) / (2 * step) for e in step * np.eye(7)]
    assert ball(z)[1] == pytest.approx(numeric, abs=1e-8)
    assert ball(z)[1].sum() < 0.99


def test_what_an_atom_needs():
    with pytest.raises(InputError, match="costs must be at most the atom -1, got 0"):
        PhiBall("reverse_kl", 0.1, atom=-1)([0.0, -2.0])
    for divergence, atom in (("kl", 1.0), ("reverse_kl", np.inf)):
        with pytest.raises(InputError, match="atom must be a finite number, for reverse_kl only"):
            PhiBall(divergence, 0.1, atom=atom)


def test_costs_on_several_scales():
    _, worst = KLBall(0.5)([-1, -2, -3, -1e60, -2e60, -1e90])
    assert worst[:3] == pytest.approx(worst[0])
    assert worst[0] > worst[3] > worst[4] > worst[5] == 0
    assert worst @ np.log(6 * np.where(worst > 0, worst, 1)) == pytest.approx(0.5, rel=1e-9)


@st.composite
def weighted_costs(draw, max_size: int = 12):
    """Generate costs of any scale and shift, often tied, with integer weights."""
    n = draw(st.integers(2, max_size))
    z = np.array(draw(st.lists(st.one_of(st.integers(-3, 3), st.floats(-3, 3)), min_size=n, max_size=n)), dtype=float)
    weights = np.array(draw(st.lists(st.integers(1, 9), min_size=n, max_size=n)), dtype=float)
    assume(np.ptp(z) > 1e-3)
    return draw(st.sampled_from([1e-3, 1.0, 1e4])) * (z + draw(st.sampled_from([0.0, -5.0, 40.0]))), weights


def make_ball(name: str, radius: float) -> PhiBall:
    return PhiBall(CVaR(min(1 / (1 + radius), 1))) if name == "CVaR" else PhiBall(FORMULAS[name][0], radius)


@every_divergence
@settings(max_examples=20)
@given(weighted_costs(), radii)
def test_primal_and_dual_agree(name, costs, radius):
    """Q is in the ball, and the dual at γ*, c* has the same value. By weak duality both are optimal."""
    z, weights = costs
    ball = make_ball(name, radius)
    phi, worst, unit, share = ball.divergence.phi, ball.worst_case(z, weights), np.ptp(z), weights / weights.sum()
    assert worst.weights.min() >= 0
    assert abs(worst.weights.sum() - 1) < 1e-12
    assert abs(worst.weights @ z - worst.value) <= 1e-12 * abs(z).max()
    radius = ball.radius or 0
    with np.errstate(divide="ignore"):
        assert share @ phi(worst.weights / share) <= radius + 1e-10 * (1 + radius)
    if worst.gamma > 0:
        with np.errstate(over="ignore"):
            level = (z - worst.c) / worst.gamma
            if np.isinf(CONJUGATES[name](level.max())):  # rounding at the pole of the conjugate
                level -= 1e-12 * max(1, abs(level.max())) + 4e-16 * abs(z).max() / worst.gamma
        dual = worst.gamma * radius + worst.c + worst.gamma * (share @ CONJUGATES[name](level))
    elif name == "CVaR":
        dual = worst.c + share @ np.maximum(z - worst.c, 0) / ball.divergence.alpha
    else:
        dual = worst.c
        assert worst.value == z.max()
    assert abs(dual - worst.value) <= 1e-8 * unit


@every_divergence
def test_radius_0_gives_the_mean_and_a_large_radius_the_largest_cost(name):
    z, weights = np.array([-3.0, -1.0, -1.0, -2.0]), np.array([3, 1, 2, 4])
    mean = PhiBall(CVaR(1.0)) if name == "CVaR" else make_ball(name, 0.0)
    assert mean(z, weights) == (pytest.approx(-2.0), pytest.approx(weights / 10))
    value, worst = make_ball(name, 1e9)(z, weights)
    assert value == pytest.approx(-1, abs=1e-6)
    assert worst == pytest.approx([0, 1 / 3, 2 / 3, 0], abs=1e-6)
    assert make_ball(name, 0.3)(np.full(4, -2.5), weights) == (pytest.approx(-2.5), pytest.approx(weights / 10))


@pytest.mark.parametrize(
    ("divergence", "at"),
    [
        (KL(), np.log(40 / 3)),
        (Chi2(), 40 / 3 - 1),
        (SquaredHellinger(), 2 - 2 * np.sqrt(3 / 40)),
    ],
)
def test_a_ball_saturates_when_all_mass_is_on_the_largest_cost(divergence, at):
    z = np.concatenate([-np.random.default_rng(0).exponential(4, 37) - 1, [-0.5] * 3])
    for radius in (at * (1 + 1e-12), at * 1.01, 1e6):
        worst = PhiBall(divergence, radius).worst_case(z)
        assert worst.value == worst.c == -0.5
        assert worst.weights == pytest.approx(np.where(z == -0.5, 1 / 3, 0))
        assert worst.gamma == 0
    assert z.mean() < PhiBall(divergence, at * 0.99)(z)[0] < -0.5
    assert PhiBall(ReverseKL(), 20)(z)[0] < -0.5  # never saturates


@pytest.mark.parametrize("divergence", [KL(), Chi2(), SquaredHellinger(), ReverseKL()])
@pytest.mark.parametrize("smaller", [1e-9, 1e-6, 1e-3, 0.03, 0.3])
def test_two_costs_have_a_closed_form(divergence, smaller):
    """Also just below saturation."""
    share = np.array([0.4, 0.6])
    density = np.array([(1 - 0.6 * smaller) / 0.4, smaller])
    value, worst = PhiBall(divergence, share @ divergence.phi(density))([0.0, -1.0], share)
    assert value == pytest.approx(-0.6 * smaller, abs=1e-12)
    assert worst == pytest.approx(share * density, abs=1e-12)


@every_smooth
def test_a_small_radius_gives_the_expansion(name):
    """The value is mean + √(2εV/φ''(1)) with an error of order ε, until rounding dominates."""
    divergence, _, curvature = FORMULAS[name]
    z = -np.random.default_rng(13).exponential(4, 25)
    for radius in (1e-4, 1e-6, 1e-8, 1e-10):
        expansion = z.mean() + np.sqrt(2 * radius * z.var() / curvature)
        assert PhiBall(divergence, radius)(z)[0] == pytest.approx(expansion, abs=20 * radius * np.abs(z).max() + 1e-9)


@every_smooth
def test_the_start_of_the_search_does_not_change_the_result(name):
    guess = None
    for seed in range(40):
        rng = np.random.default_rng(seed)
        z, weights = 10.0 ** rng.integers(-6, 6) * rng.normal(size=30) ** rng.integers(1, 6), rng.integers(1, 9, 30)
        ball = make_ball(name, 10.0 ** rng.uniform(-6, 0))
        value, worst = ball(z, weights)
        with np.errstate(all="ignore"):
            again, worst_again, guess = ball.evaluate(z, weights / weights.sum(), weights.sum(), guess)
        assert again == pytest.approx(value, rel=1e-10, abs=1e-10 * np.ptp(z))
        assert worst_again == pytest.approx(worst, abs=1e-8)


@pytest.mark.parametrize(
    ("risk", "curvature"),
    [(KLBall, 1), (Chi2Ball, 2), (lambda *parameters: PhiBall("squared_hellinger", *parameters), 0.5)],
)
def test_the_calibrated_radius(risk, curvature):
    """It is φ''(1) q²/(2n) with the normal quantile q, and n counts repetitions."""
    z, weights = np.random.default_rng(3).normal(size=20), np.arange(20)
    for confidence, quantile in ((0.95, 1.6448536269514722), (0.8, 0.8416212335729143)):
        radius = curvature * quantile**2 / (2 * 190)
        assert risk("auto", confidence)(z, weights)[0] == pytest.approx(risk(radius)(z, weights)[0], rel=1e-12)
    assert risk("auto").radius == "auto"


@pytest.mark.parametrize("part", [0.9, 0.999999, 1 - 1e-12, 1.0])
@pytest.mark.parametrize("mass", [1e-6, 1e-12])
def test_a_rare_largest_cost_takes_nearly_all_weight(mass, part):
    """The density t of the second cost solves a quadratic equation, and the smallest cost has no weight."""
    first, second = mass / (1 + mass), 0.5 / (1 + mass)

    def excess(t: float) -> float:
        return (1 - second * t - first) ** 2 + first * second * ((t - 1) ** 2 + 1) - part / (1 + mass)

    density = brentq(excess, 0, 1, xtol=1e-16) if excess(0) > 0 else 0.0
    value, _ = Chi2Ball(part / mass)([0.0, -1.0, -2.5], [mass, 0.5, 0.5])
    assert value == pytest.approx(-second * density, abs=1e-11)


@every_smooth
def test_costs_in_clusters_that_almost_tie(name):
    """The divergence is then a staircase in 1/γ, over twenty orders of magnitude."""
    rng = np.random.default_rng(15)
    z = np.concatenate([0.0359 - 1e-9 * rng.random(1000), [-19.76, -10.0, -3.0]])
    divergence, previous = FORMULAS[name][0], z.mean()
    for radius in np.geomspace(1e-8, 6, 30):
        value, worst = PhiBall(divergence, radius)(z)
        with np.errstate(divide="ignore"):
            distance = divergence.phi(len(z) * worst).mean()
        assert distance == pytest.approx(radius, rel=1e-5) or value == z.max()
        assert previous - 1e-14 <= value <= z.max()
        previous = value
