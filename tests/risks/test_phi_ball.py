"""Balls of any φ-divergence against duality, linear programs, closed forms and limits."""

import numpy as np
import pytest
from fixtures.reference_formulas import CONJUGATES, FORMULAS, SMOOTH
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq, linprog

from drcrm.divergences import KL, Chi2, CVaR, ReverseKL, SquaredHellinger
from drcrm.risks import Chi2Ball, CVaRRisk, KLBall, PhiBall

every_smooth = pytest.mark.parametrize("name", SMOOTH)
every_divergence = pytest.mark.parametrize("name", FORMULAS)


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


radii = st.floats(-5, 0.7).map(lambda exponent: 10**exponent)


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


@given(weighted_costs(), radii)
def test_cvar_is_a_linear_program(costs, radius):
    z, share = costs[0], costs[1] / costs[1].sum()
    z, risk = (z - z.max()) / np.ptp(z), CVaRRisk(min(1, 1 / (10 * radius)))
    exact = dict.fromkeys(("primal_feasibility_tolerance", "dual_feasibility_tolerance"), 1e-10)
    limits = {"bounds": [(0, p / risk.alpha) for p in share], "A_eq": [np.ones(len(z))], "b_eq": [1]}
    assert risk(z, share)[0] == pytest.approx(-linprog(-z, **limits, options=exact).fun, abs=1e-8)


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
