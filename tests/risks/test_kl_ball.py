"""The exact KL ball and its search: clustered, extreme and weighted costs."""

import numpy as np
import pytest

from drcrm.risks import Chi2Ball, KLBall

RADII = [1e-8, 1e-5, 1e-2, 0.3, 1.5]


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
