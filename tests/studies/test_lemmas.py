"""Tables of the lemmas, each compared with an independent computation, their figures and their command."""

import os

import matplotlib
import numpy as np
import pandas as pd
import pytest
import theory
from lemma_figures import BOUND_LOOKS, COVERED, FIGURES, TAILS
from lemma_tables import FEW, LEMMA_COLUMNS, SAMPLE, TABLES, expansion
from population import Population
from scipy import stats
from scipy.optimize import minimize_scalar
from theory import LEMMA_FIGURES

from drcrm.certificates import upper_bound
from drcrm.errors import InputError
from drcrm.files import write_npz
from drcrm.paper.reports.plan import RC

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


@pytest.fixture(scope="module")
def tables() -> dict[str, pd.DataFrame]:
    """The table of each lemma on costs with three values, as read from its file."""
    probability = np.array([0.2, 0.3, 0.5])
    costs = {"light": np.array([-2.0, -1, 0]), "left": np.array([-9.0, -1, 0]), "right": np.array([9.0, 1, 0])}
    populations = {tail: Population(z, probability) for tail, z in costs.items()}
    tables = {}
    for lemma, tabulate in TABLES.items():
        rows = pd.DataFrame(list(tabulate(populations, 2, np.random.default_rng(0))))
        tables[lemma] = rows[LEMMA_COLUMNS[lemma]].replace("", np.nan)  # an empty cell
    return tables


def test_every_table_bound_and_tail_has_a_look(tables):
    assert list(LEMMA_FIGURES) == list(FIGURES)
    assert {figure["lemma"] for figure in LEMMA_FIGURES.values()} == set(TABLES) == set(LEMMA_COLUMNS)
    bounds = [tables["lemma1"]["method"], tables["lemma2"]["divergence"], tables["weights"]["divergence"]]
    bounds.append(tables["anytime"]["method"])
    assert set(pd.concat(bounds)) == set(BOUND_LOOKS)
    assert len({(look.colour, look.marker) for look in BOUND_LOOKS.values()}) == len(BOUND_LOOKS)
    assert all(set(table["tail"]) == set(TAILS) for table in tables.values())


@pytest.mark.parametrize("name", [*FIGURES][::2])
def test_legends_are_inside_and_panels_have_at_most_seven_series(name, tables):
    with matplotlib.rc_context(RC):
        figure = FIGURES[name](tables[LEMMA_FIGURES[name]["lemma"]])
        figure.draw_without_rendering()
        box = figure.legends[0].get_window_extent()
    assert 0 <= box.x0 <= box.x1 <= figure.bbox.width
    for axes in figure.axes:
        labels = set(axes.get_legend_handles_labels()[1])
        assert len(labels - {"a loss", "Student", "a weight reaches 0", "ε of Lemma 1, δ = 0.05"}) <= 7


@pytest.mark.parametrize(
    ("name", "radius", "method"), [("coverage_95", "one_sided", "kl"), ("coverage_divergences", "one_sided", "chi2")]
)
def test_coverage_has_a_panel_for_each_tail(tables, name, radius, method):
    table, look = tables["lemma1"], {"kl": COVERED["kl", "one_sided"], "chi2": BOUND_LOOKS["chi2"]}[method]
    for axes, kind in zip(FIGURES[name](table).axes, TAILS, strict=True):
        curves = {container.get_label(): container[0].get_ydata() for container in axes.containers}
        is_curve = (table["radius"] == radius) & (table["method"] == method) & (table["confidence"] == 0.95)
        curve = table[is_curve & (table["tail"] == kind)]
        np.testing.assert_array_equal(curves[look.label], curve["coverage"])
    low = table.assign(coverage=table["coverage"].where(table["method"] != "mean", 0.1))
    assert FIGURES[name](low).axes[2].texts[0].get_text() == "naive mean: 0.10 … 0.10 ↓"


@pytest.fixture
def tabulate(labelled, tmp_path, monkeypatch):
    """Return a function that writes the table of lemma 3 for a seed, and returns its path."""
    monkeypatch.setattr("os.environ", dict(os.environ))  # the command sets threads
    X, labels = labelled(n=60, labels=3)
    write_npz(tmp_path / "train.npz", X=X, labels=labels)

    def run(seed: int, name: str):
        options = {"lemma": "lemma3", "dataset": "toy", "seed": seed, "repetitions": 1, "train": tmp_path / "train.npz"}
        path = tmp_path / name
        theory.main(["table", *(f"--{key}={value}" for key, value in options.items()), "--output", str(path)])
        return path

    return run


def test_a_lemma_is_tabulated_with_the_same_bytes_for_the_same_seed_and_drawn(tabulate, tmp_path):
    first, second, third = (tabulate(seed, name) for seed, name in ((0, "a.csv"), (0, "b.csv"), (1, "c.csv")))
    assert first.read_bytes() == second.read_bytes() != third.read_bytes()
    assert list(pd.read_csv(first)) == LEMMA_COLUMNS["lemma3"]
    arguments = ["--table", str(first), "--output", str(tmp_path / "a.svg"), str(tmp_path / "a.png")]
    theory.main(["figure", "--figure", "penalty", *arguments])
    assert "<svg" in (tmp_path / "a.svg").read_text(encoding="utf-8")
    with pytest.raises(InputError, match=r"a\.csv: no column 'temperature'"):
        theory.main(["figure", "--figure", "duality", *arguments])
