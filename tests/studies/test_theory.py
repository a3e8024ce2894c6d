"""The theory: tables of the lemmas, the populations and divergences behind them, figures, and the command."""

import os
from itertools import product

import matplotlib
import numpy as np
import pandas as pd
import pytest
import theory
from fixtures.page_numbers import ROOT
from lemma_figures import BOUND_LOOKS, COVERED, FIGURES, TAILS
from lemma_tables import LEMMA_COLUMNS, TABLES, expansion
from other_divergences import CressieRead3, TotalVariation
from population import Population, draw_policies, enumerate_losses
from scipy import stats
from scipy.optimize import linprog
from theory import LEMMA_FIGURES

from drcrm.arrays.validation import append_constant
from drcrm.certificates import upper_bound
from drcrm.errors import InputError
from drcrm.files import write_npz
from drcrm.paper.dataset_formats import load_digits
from drcrm.paper.reports.plan import RC
from drcrm.paper.simulation import generator
from drcrm.risks import PhiBall

REPETITIONS = 40
SMOOTH = ("kl", "chi2", "squared_hellinger", "reverse_kl", "cressie_read_3")


def table(lemma: str, populations: dict[str, Population], repetitions: int = 1, seed: int = 0) -> pd.DataFrame:
    return pd.DataFrame(list(TABLES[lemma](populations, repetitions, np.random.default_rng(seed))))


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


@pytest.fixture(scope="module")
def digits() -> dict[str, Population]:
    """The populations of the published tables."""
    X, labels = load_digits()[0]
    X = append_constant(X)
    return enumerate_losses(*draw_policies(X, labels, generator("digits", 0, "theory")), X, labels)


@pytest.mark.parametrize("lemma", ["lemma3", "lemma4", "lemma5", "weights"])
def test_a_published_table_is_that_of_the_code(digits, lemma):
    """The tests of pages compare the published tables with the lemmas."""
    rows = pd.DataFrame(list(TABLES[lemma](digits, 1, generator("digits", 0, lemma))))[LEMMA_COLUMNS[lemma]]
    published = pd.read_csv(ROOT / f"docs/results/theory_{lemma}_digits.csv.gz")
    pd.testing.assert_frame_equal(rows, published, rtol=1e-6, atol=1e-9, check_dtype=False)


def test_bounds_at_every_look_were_false_at_this_or_an_earlier_look(coin):
    rows = table("anytime", {"light": coin}, repetitions=3).set_index(["method", "n"])["false"]
    for _, shares in rows.groupby("method"):
        assert shares.is_monotonic_increasing
        assert set(shares * 3) <= {0, 1, 2, 3}


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


@pytest.fixture
def setting(labelled, random_policy):
    """Return π0, a policy, and seven contexts with three labels."""
    X, labels = labelled(n=7, labels=3)
    return random_policy(1, labels=3), random_policy(2, labels=3), X, labels


def test_the_distribution_has_every_pair(setting):
    logging, policy, X, labels = setting
    expected = {"light": [], "left": [], "right": [], "probability": []}
    for x, truth in zip(X, labels, strict=True):
        for action in product((0, 1), repeat=3):
            p, q = (np.exp(rule.log_prob(x[None], np.array([action]))[0]) for rule in (logging, policy))
            loss = sum(a != b for a, b in zip(action, truth, strict=True))
            expected["probability"].append(p / 7)
            expected["light"].append(min(2, q / p) * (loss - 3))
            expected["left"].append(q / p * (loss - 3))
            expected["right"].append(q / p * loss)
    for tail, population in enumerate_losses(*setting).items():
        pairs, wanted = (
            sorted(zip(z, p, strict=True))
            for z, p in ((population.z, population.probability), (expected[tail], expected["probability"]))
        )
        np.testing.assert_allclose(np.array(pairs), np.array(wanted), rtol=1e-9, atol=1e-12)
        variance = np.average(population.z**2, weights=population.probability) - population.mean**2
        assert population.deviation == pytest.approx(np.sqrt(variance))


def test_too_many_pairs_or_too_few_contexts_are_an_error(random_policy):
    policies = random_policy(0, labels=25), random_policy(1, labels=25)
    with pytest.raises(
        InputError, match=r"at most 10000000 pairs of a context and an action can be enumerated, got 2 · 2\^25"
    ):
        enumerate_losses(*policies, np.ones((2, 4)), np.zeros((2, 25), dtype=np.uint8))
    with pytest.raises(InputError, match="the theory needs at least 2 contexts, one for each policy, got 1"):
        draw_policies(np.ones((1, 4)), np.ones((1, 3)), np.random.default_rng(0))


def test_cressie_and_read_with_k_3_is_coherent_and_has_a_closed_form():
    divergence, share = CressieRead3(), np.array([0.4, 0.6])
    t = np.geomspace(1e-3, 1e3, 50)
    assert divergence.phi(t) == pytest.approx((t**3 - 3 * t + 2) / 6, rel=1e-9, abs=1e-9)
    for smaller in (1e-6, 0.03, 0.3):
        density = np.array([(1 - 0.6 * smaller) / 0.4, smaller])
        value, worst = PhiBall(divergence, share @ divergence.phi(density))([0.0, -1.0], share)
        assert value == pytest.approx(-0.6 * smaller, abs=1e-12)
        assert worst == pytest.approx(share * density, abs=1e-12)


@pytest.mark.parametrize("radius", [0.01, 0.3, 1.9])
def test_total_variation_is_a_linear_program(radius):
    """q = 1/n + up − down with Σ up + Σ down ≤ radius."""
    z = np.random.default_rng(0).normal(size=20)
    ones, bounds = np.ones(20), [(0, None)] * 20 + [(0, 1 / 20)] * 20
    solution = linprog(np.r_[-z, z], [np.r_[ones, ones]], [radius], [np.r_[ones, -ones]], [0], bounds)
    assert PhiBall(TotalVariation(), radius)(z)[0] == pytest.approx(z.mean() - solution.fun, abs=1e-8)
