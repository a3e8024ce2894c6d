"""Sample sizes: the textbook's numbers, exact binomial power, and estimates of the best of several policies."""

import numpy as np
import pytest
from scipy.special import ndtri, rel_entr
from scipy.stats import binom, norm

from drcrm.certificates.bounds import anytime_radius, upper_bound
from drcrm.certificates.sample_size import (
    ChargedLook,
    OneLook,
    anytime_power,
    shrink_difference,
    smallest_anytime_difference,
)
from drcrm.certificates.skewness import corrected_bound
from drcrm.certificates.terms.overlap import has_missing_mass


def test_one_look_has_the_textbook_size():
    """One-sided z-test, α = 0.05, power 0.8: n = 6.1826 s²/d² (Cohen 1988)."""
    assert OneLook(1.0).required_size(1.0) == pytest.approx(6.182557, abs=1e-6)
    assert OneLook(3.0).required_size(0.5) == pytest.approx(36 * 6.182557, rel=1e-6)
    assert OneLook(1.0, choices=20).required_size(1.0) == pytest.approx(
        (norm.isf(0.0025) + norm.ppf(0.8)) ** 2, rel=1e-12
    )


@pytest.mark.parametrize("skewness", [0.0, 5.0, 80.0])
@pytest.mark.parametrize("choices", [1, 300])
def test_size_difference_and_power_are_inverses(choices, skewness):
    look = OneLook(2.5, 0.9, choices, skewness, power=0.7)
    n = look.required_size(0.04)
    assert look.power_of(0.04, n) == pytest.approx(0.7, abs=1e-12)
    assert look.smallest_difference(n) == pytest.approx(0.04, rel=1e-12)
    assert look.required_size(0.02) > 2 * n


def test_the_correction_is_that_of_the_certificate():
    z = np.array([-1.0, 1.0] * 500)
    skewness = 0.2
    plain, corrected = (corrected_bound(z, np.ones(1000), 0.95, value) for value in (0.0, skewness))
    look = OneLook(1.0, skewness=skewness * np.sqrt(1000))
    assert look.correction / 1000 == pytest.approx((corrected - plain) / z.std(ddof=1), rel=1e-12)


@pytest.mark.parametrize(("n", "p"), [(400, 0.58), (400, 0.62), (1500, 0.55), (1500, 0.57), (6000, 0.53)])
def test_power_at_every_look_is_that_of_the_binomial_law(n, p):
    """For z = ±1 and B = 1 the bound is below 0 if KL(p̂, ½) exceeds the radius, which has an exact probability."""
    wins = np.arange(n + 1)
    share = wins / n
    divergence = rel_entr(share, 0.5) + rel_entr(1 - share, 0.5)
    exact = binom.pmf(wins, n, p)[(divergence > anytime_radius(n, 0.95)) & (share > 0.5)].sum()
    predicted = anytime_power(np.array([-1.0, 1.0]), np.array([p, 1 - p]), 1.0, n)
    assert predicted == pytest.approx(exact, abs=0.02)


def test_the_rule_of_the_power_is_that_of_the_bound():
    """The largest mean of log(1 − b z/B) exceeds the radius exactly if the bound is below 0."""
    rng = np.random.default_rng(0)
    b = np.linspace(0, 1, 20_001)[:-1]
    shown = []
    for mean in np.linspace(-0.5, 0.1, 20):
        z = np.minimum(rng.normal(mean, 1, 60), 2.0)
        growth = np.log1p(-b[:, None] * z / 2.0).mean(axis=1).max()
        gap = growth - anytime_radius(60, 0.95)
        if abs(gap) > 1e-4:
            assert (upper_bound(z, method="anytime", high=2.0) < 0) == (gap > 0)
            shown.append(gap > 0)
    assert 2 < sum(shown) < len(shown) - 2


def test_the_smallest_difference_at_every_look_has_the_power():
    rng = np.random.default_rng(1)
    z, share = -rng.exponential(size=500), np.full(500, 1 / 500)
    before = np.inf
    for n in (200, 2000, 20_000):
        difference = smallest_anytime_difference(z, share, 3.0, n, choices=4)
        shifted = z - z.mean() - difference
        assert anytime_power(shifted, share, 3.0, n, choices=4) == pytest.approx(0.8, abs=1e-3)
        assert difference > OneLook(z.std(), choices=4).smallest_difference(n)
        assert difference < before
        before = difference


def test_degenerate_terms():
    one = np.ones(1)
    assert anytime_power(np.array([0.5]), one, 1.0, 100) == 0.0
    assert anytime_power(np.array([0.0]), one, 1.0, 100) == 0.0
    assert anytime_power(np.array([-1.0]), one, 1.0, 100) == 1.0
    assert anytime_power(np.array([-1.0]), one, 1.0, 2) == 0.0
    assert smallest_anytime_difference(np.array([0.3, 0.3]), np.array([0.5, 0.5]), 1.0, 100) == 0.0


def test_shrinking_is_the_posterior_mean():
    assert shrink_difference(-2.0, 1.0) == -2.0 * 0.75
    assert shrink_difference(-1.0, 1.5) == shrink_difference(0.0, 1.0) == 0.0
    assert shrink_difference(0.0, 0.0) == shrink_difference(1.0, np.nan) == 0.0
    assert shrink_difference(3.0, 0.0) == 3.0


def test_skewed_terms_change_the_spread_of_the_bound():
    """The bound z̄ + u ŝ/√n of terms with a long lower tail varies less than z̄."""
    rng = np.random.default_rng(4)
    z = 1 - rng.exponential(size=(6000, 400)) - 0.15
    look = OneLook(1.0, choices=20, asymmetry=-2.0, kurtosis=9.0)
    bound = z.mean(axis=1) + look.quantile * z.std(axis=1) / np.sqrt(400)
    assert look.spread(400) == pytest.approx(bound.std() * np.sqrt(400), rel=0.03)
    assert look.power_of(0.15, 400) == pytest.approx((bound < 0).mean(), abs=0.04)
    assert look.smallest_difference(400) == pytest.approx(
        (look.quantile + ndtri(0.8) * look.spread(400)) / 20, rel=1e-12
    )


def test_charges_for_actions_that_seem_to_be_missing_cost_power():
    rng = np.random.default_rng(5)
    n = 600
    weight = rng.exponential(size=(3000, n))
    noise = rng.normal(size=(3000, n))
    z, gap = noise - 0.12, 2 * (1 - weight)
    look = OneLook(1.0)
    shown = []
    for terms, extra in zip(z, gap, strict=True):
        used = terms + extra if has_missing_mass(extra, np.ones(n)) else terms
        shown.append(used.mean() + look.quantile * used.std() / np.sqrt(n) < 0)
    share = np.full(200_000, 1 / 200_000)
    charged = ChargedLook(look, rng.normal(size=200_000), 2 * (1 - rng.exponential(size=200_000)), share)
    assert charged.power_of(0.12, n) == pytest.approx(np.mean(shown), abs=0.05)
    assert charged.power_of(0.12, n) < look.power_of(0.12, n) - 0.05
    assert charged.power_of(charged.smallest_difference(n), n) == pytest.approx(0.8, abs=1e-6)
    still = ChargedLook(look, np.zeros(3), np.zeros(3), np.full(3, 1 / 3))
    assert still.power_of(0.12, n) == look.power_of(0.12, n)
