"""The tables of the lemmas, each compared with an independent computation."""

import numpy as np
import pandas as pd
import pytest
from lemma_tables import FEW, SAMPLE, TABLES, expansion
from population import Population
from scipy import stats
from scipy.optimize import minimize_scalar

from drcrm.certificates import upper_bound
from drcrm.errors import InputError

REPETITIONS = 40
SMOOTH = ("kl", "chi2", "squared_hellinger", "reverse_kl", "cressie_read_3")


def table(lemma: str, populations: dict[str, Population], repetitions: int = 1, seed: int = 0) -> pd.DataFrame:
    return pd.DataFrame(list(TABLES[lemma](populations, repetitions, np.random.default_rng(seed))))


def sample(population: Population, n: int, seed: int = 0) -> np.ndarray:
    """Return the first sample that a table of one population draws."""
    return population.sample(n, np.random.default_rng(seed))


@pytest.fixture(scope="module")
def skewed() -> Population:
    """Costs from −8 to 0 with a truncated exponential distribution."""
    z = -np.linspace(0, 8, 2000)
    return Population(z, np.exp(z) / np.exp(z).sum())


@pytest.fixture(scope="module")
def coin() -> Population:
    return Population(np.array([-1.0, 0.0]), np.array([0.4, 0.6]))


@pytest.fixture(scope="module")
def covered(coin) -> pd.DataFrame:
    return table("lemma1", {"light": coin}, repetitions=REPETITIONS)


class TestLemma1:
    def test_coverage_is_that_of_the_binomial_law(self, covered):
        """A sample of a coin is its number of −1, so the probability that a bound holds can be summed exactly."""
        n = 50
        ones = np.arange(n + 1)
        probability = stats.binom.pmf(ones, n, 0.4)
        shares = covered.set_index(["n", "method", "radius", "confidence"])["coverage"]
        for confidence in (0.95, 0.8):
            for method, options in {
                "kl": {},
                "chi2": {},
                "student": {},
                "empirical_bernstein": {"low": -1, "high": 0},
                "log_smoothing": {},
            }.items():
                samples = [np.repeat([-1.0, 0.0], [k, n - k]) for k in ones]
                holds = [upper_bound(z, confidence, method, **options) >= -0.4 for z in samples]
                exact = probability @ holds
                error = 4 * np.sqrt(exact * (1 - exact) / REPETITIONS) + 1e-12
                share = shares[n, method, "one_sided" if method in SMOOTH else "", confidence]
                assert share == pytest.approx(exact, abs=error)

    def test_limits_are_the_levels_of_the_radii(self, covered):
        """At δ = 0.05 the printed radius has the one-sided level 1 − δ/2 for χ², 0.997 for KL."""
        limits = covered[covered["confidence"] == 0.95].groupby(["method", "radius"])["limit"].first()
        assert limits["chi2", "printed"] == pytest.approx(0.975)
        assert limits["kl", "printed"] == pytest.approx(stats.norm.cdf(np.sqrt(2) * 1.959964), abs=1e-6)
        assert round(limits["kl", "printed"], 3) == 0.997
        for name in SMOOTH:
            assert limits[name, "rescaled"] == pytest.approx(0.975)
            assert limits[name, "one_sided"] == pytest.approx(0.95)
        assert limits["mean", ""] == 0.5


def test_lemma_2_in_the_next_order(skewed):
    """For KL, √n α_n σ⁻¹ rescaled is ε γ/(3 √n) in the next order, γ the skewness; as printed it has a limit."""
    rows = pd.DataFrame(list(expansion({"left": skewed}, 4, np.random.default_rng(0))))
    skewness = skewed.probability @ (skewed.z - skewed.mean) ** 3 / skewed.deviation**3
    far = rows[rows["n"] == 100_000].set_index("divergence")
    epsilon = stats.chi2.ppf(0.95, 1)
    assert far.loc["kl", "rescaled"] == pytest.approx(epsilon * abs(skewness) / (3 * np.sqrt(1e5)), rel=0.05)
    for name, curvature in {"kl": 1, "squared_hellinger": 0.5, "reverse_kl": 1, "cressie_read_3": 1}.items():
        limit = (np.sqrt(2 / curvature) - 1) * np.sqrt(epsilon)
        assert far.loc[name, "limit"] == pytest.approx(limit)
        assert far.loc[name, "printed"] == pytest.approx(limit, rel=0.05)
        falling = rows.loc[rows["divergence"] == name, "rescaled"].to_numpy()
        assert falling[-1] < 0.2 * falling[2]
    assert far.loc["chi2", ["printed", "rescaled", "limit"]].max() < 1e-9


def test_lemma_3_breaks_when_a_weight_reaches_0(skewed):
    results, z = table("lemma3", {"left": skewed}), sample(skewed, SAMPLE)
    assert results["breaking"].iloc[0] == pytest.approx(z.var() / (z.mean() - z.min()) ** 2)
    before = results["radius"] < results["breaking"]
    assert 10 < before.sum() < 110
    assert (results.loc[~before, "least_weight"] == 0).all()
    least = 1 - np.sqrt(results["radius"] / z.var()) * (z.mean() - z.min())
    np.testing.assert_allclose(results.loc[before, "least_weight"], least[before], atol=1e-9)


def test_lemma_3_agrees_with_computations_without_a_variance(skewed, coin):
    """Before the break the penalty lies between primal and dual; the library's ball does at every radius."""
    for population in (skewed, coin):
        results = table("lemma3", {"left": population})
        before = results["radius"] < results["breaking"]
        gap = results["penalised"] - results["primal"]
        assert gap[before].abs().max() < 1e-12
        assert (gap[~before] > 1e-9).all()
        assert (results["dual"] - results["primal"]).between(-1e-12, 1e-12).all()
        np.testing.assert_allclose(results["ball"], results["primal"], atol=1e-12)


def test_lemma_4_has_no_gap(skewed):
    results, z = table("lemma4", {"left": skewed}), sample(skewed, SAMPLE)
    at = np.isclose(results["temperature"], 1)
    assert results["divergence"].max() < 1 + 1e-9
    assert (results["dual"] >= results["primal"] - 1e-12).all()
    np.testing.assert_allclose(results.loc[at, ["dual", "boltzmann"]].T, [results.loc[at, "primal"]] * 2, atol=1e-10)
    cold = results["temperature"] < 0.99
    assert (results.loc[cold, "boltzmann"] > results.loc[cold, "primal"]).all()
    assert (results.loc[~cold & ~at, "boltzmann"] < results.loc[~cold & ~at, "primal"]).all()
    for row in results[at].iloc[::3].itertuples():
        dual = lambda t, e=row.radius: np.exp(t) * (e + np.log(np.exp(z / np.exp(t)).mean()))  # noqa: E731
        least = minimize_scalar(dual, bounds=(-3, 7), method="bounded", options={"xatol": 1e-10}).fun
        assert row.primal == pytest.approx((least - z.mean()) / z.std(), abs=1e-8)


def test_lemma_5_is_exact_as_the_radius_vanishes(skewed):
    results, z = table("lemma5", {"left": skewed}), sample(skewed, SAMPLE)
    first = results.iloc[0]
    assert first[["ratio", "premium", "reached"]].to_numpy(dtype=float) == pytest.approx(1, abs=0.01)
    assert first["premium_sum"] == pytest.approx(1 / np.sqrt(SAMPLE), rel=0.01)
    for row in results.iloc[20:90:20].itertuples():
        dual = lambda t, e=row.radius: np.exp(t) * (e + np.log(np.exp(z / np.exp(t)).mean()))  # noqa: E731
        best = minimize_scalar(dual, bounds=(-3, 7), method="bounded", options={"xatol": 1e-10})
        gamma = np.sqrt(z.var() / (2 * row.radius))
        s = np.exp(z / gamma) / np.exp(z / gamma).sum()
        assert row.ratio == pytest.approx(gamma / np.exp(best.x), rel=1e-4)
        assert row.premium == pytest.approx((s @ z - z.mean()) / (best.fun - z.mean()), rel=1e-6)
        assert row.reached == pytest.approx(s @ np.log(len(s) * s) / row.radius, rel=1e-9)


def test_bounds_at_every_look_were_false_at_this_or_an_earlier_look(coin):
    rows = table("anytime", {"light": coin}, repetitions=3).set_index(["method", "n"])["false"]
    for _, shares in rows.groupby("method"):
        assert shares.is_monotonic_increasing
        assert set(shares * 3) <= {0, 1, 2, 3}


def test_balls_of_one_value_weigh_differently(skewed):
    results, z = table("weights", {"left": skewed}), np.sort(sample(skewed, FEW))
    target = z.mean() + stats.norm.ppf(0.95) * z.std() / np.sqrt(FEW)
    by = {name: group["weight"].to_numpy() for name, group in results.groupby("divergence")}
    assert set(by) == {*SMOOTH, "total_variation", "cvar", "kl_crm"}
    for name, weights in by.items():
        assert weights.mean() == pytest.approx(1)
        assert (np.diff(weights) >= -1e-9).all()
        if name != "kl_crm":
            assert weights.min() >= 0
            assert weights @ z / FEW == pytest.approx(target, abs=1e-9)
    np.testing.assert_allclose(by["chi2"], np.polyval(np.polyfit(z, by["chi2"], 1), z), atol=1e-9)
    np.testing.assert_allclose(np.log(by["kl"]), np.polyval(np.polyfit(z, np.log(by["kl"]), 1), z), atol=1e-9)


@pytest.mark.parametrize("lemma", ["lemma3", "lemma4", "lemma5", "weights"])
def test_equal_losses_are_an_error(lemma):
    with pytest.raises(InputError, match=r"losses must differ, but all [0-9]+ losses with left tails are -2"):
        table(lemma, {"left": Population(np.array([-2.0]), np.array([1.0]))})
