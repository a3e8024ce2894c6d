"""The test for missing mass on gaps with known answers."""

from __future__ import annotations

import numpy as np
import pytest

from drcrm.certificates.overlap import has_missing_mass


def test_a_mean_weight_that_rests_on_few_rows_is_no_evidence_of_overlap():
    """1 000 gaps have mean 0. Mass is missing if ten rows bring this about, and not if a hundred do."""
    few, many = (np.r_[np.full(1000 - k, 0.1), np.full(k, -0.1 * (1000 - k) / k)] for k in (10, 100))
    ones = np.ones(1000)
    for scale in (1e-300, 1, 1e300):
        assert has_missing_mass(scale * few, ones)
        assert not has_missing_mass(scale * many, ones)
    assert not has_missing_mass(-few, ones)
    assert has_missing_mass(np.array([-9.9, 0.1])[::-1], np.array([990, 10]))
    assert not has_missing_mass(np.array([-0.9, 0.1]), np.array([100, 900]))
    assert not has_missing_mass(np.zeros(7), np.ones(7))
    assert not has_missing_mass(np.full(7, 1e-12), np.ones(7), unit=1.0)


def test_a_log_with_overlap_rarely_seems_to_lack_actions(logged, random_policy):
    log, policy, rng = logged(n=2000), random_policy(3), np.random.default_rng(5)
    weight = np.exp(policy.log_prob(log.X, log.Y, log.context) - log.log_propensity)
    samples = (weight[rng.choice(len(weight), 400)] for _ in range(200))
    assert np.mean([has_missing_mass(1 - sample / weight.mean(), np.ones(400)) for sample in samples]) < 0.3


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_missing_mass_is_found_in_most_samples_that_lack_it(share):
    """Gaps of a policy with half of its mass on actions that no row has."""
    rng = np.random.default_rng(0)
    shows = [has_missing_mass(share - 0.1 * rng.normal(size=300), np.ones(300)) for _ in range(50)]
    assert (np.mean(shows) > 0.9) == (share > 0)
