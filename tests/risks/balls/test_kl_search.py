"""The search for the tilt at a given divergence, on its own."""

from __future__ import annotations

import numpy as np
import pytest

from drcrm.risks.balls.kl_search import tilt_to

RADII = [1e-8, 1e-5, 1e-2, 0.3, 1.5]


def distribution(kind: str, n: int = 400) -> tuple[np.ndarray, np.ndarray]:
    """z with range [−1, 0], and how often each occurs: smooth, in clusters, or all but a few at one end."""
    rng = np.random.default_rng(0)
    z = {
        "smooth": -rng.random(n),
        "clusters": -rng.choice([0.0, 1e-6, 0.4, 1.0], n) - 1e-9 * rng.random(n),
        "tail": -(rng.random(n) ** 20),
    }[kind]
    z -= z.max()
    share = rng.integers(1, 5, n).astype(float)
    return z / -z.min(), share / share.sum()


@pytest.mark.parametrize("kind", ["smooth", "clusters", "tail"])
@pytest.mark.parametrize("radius", RADII)
def test_has_the_divergence_from_wherever_it_starts(kind, radius):
    z, share = distribution(kind)
    assert radius < -np.log(share[z == 0].sum())
    cold, at = tilt_to(radius, z, share)
    for start in (at, at + 0.01, at - 3, at + 3, -40.0, -400.0, 20.0):
        tilted, again = tilt_to(radius, z, share, start)
        assert tilted.sum() == pytest.approx(1, abs=1e-12)
        excess = np.log(np.maximum(tilted / share, 1e-300))
        assert tilted @ excess == pytest.approx(radius, rel=1e-9, abs=1e-15)
        assert again == pytest.approx(at, abs=1e-7)
        assert tilted == pytest.approx(cold, rel=1e-6, abs=1e-15)


def test_tilts_in_the_order_of_z():
    z, share = distribution("smooth")
    tilted, _ = tilt_to(0.1, z, share)
    order = np.argsort(z)
    assert (np.diff((tilted / share)[order]) >= 0).all()
