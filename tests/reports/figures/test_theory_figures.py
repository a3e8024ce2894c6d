"""The figures of the lemmas show their tables."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from drcrm.experiments.columns import LEMMA_COLUMNS
from drcrm.experiments.simulation.population import Population
from drcrm.experiments.simulation.theory import TABLES
from drcrm.reports.figures.style import BOUND_LOOKS, LEMMA_FIGURES, TAILS
from drcrm.reports.figures.theory_figures import FIGURES, RADII, coverage_95, expansion, penalty


@pytest.fixture(scope="module")
def tables() -> dict[str, pd.DataFrame]:
    """The tables of a lemma on costs of three values, as they are read again."""
    probability = np.array([0.2, 0.3, 0.5])
    z = {"light": np.array([-2.0, -1, 0]), "left": np.array([-9.0, -1, 0]), "right": np.array([9.0, 1, 0])}
    populations = {tail: Population(each, probability) for tail, each in z.items()}
    found = {}
    for lemma, tabulate in TABLES.items():
        rows = pd.DataFrame(list(tabulate(populations, 2, np.random.default_rng(0))))
        found[lemma] = rows[LEMMA_COLUMNS[lemma]].replace("", np.nan)  # an empty cell
    return found


def test_every_table_and_figure_has_a_name():
    assert list(LEMMA_FIGURES) == list(FIGURES)
    assert {each.lemma for each in LEMMA_FIGURES.values()} == set(TABLES) == set(LEMMA_COLUMNS)


def test_every_bound_and_tail_has_a_look(tables):
    named = [tables["lemma1"]["method"], tables["lemma2"]["divergence"], tables["weights"]["divergence"]]
    assert set(pd.concat(named)) == set(BOUND_LOOKS)
    assert len({(look.colour, look.marker) for look in BOUND_LOOKS.values()}) == len(BOUND_LOOKS)
    assert all(set(table["tail"]) == set(TAILS) for table in tables.values())


@pytest.mark.parametrize("name", FIGURES)
def test_draws(name, tables, tmp_path):
    FIGURES[name](tables[LEMMA_FIGURES[name].lemma]).savefig(tmp_path / "figure.png")


def test_coverage_has_a_panel_for_each_tail_and_radius(tables):
    table = tables["lemma1"]
    panels = np.reshape(coverage_95(table).axes, (len(TAILS), len(RADII)))
    assert [axes.get_title() for axes in panels[0]] == list(RADII.values())
    shown = {each.get_label(): each[0].get_ydata() for each in panels[1, 2].containers}
    part = table[(table["tail"] == "left") & (table["radius"] == "one_sided") & (table["confidence"] == 0.95)]
    for name, curve in part.groupby("method"):
        np.testing.assert_array_equal(shown[BOUND_LOOKS[name].label], curve["coverage"])
    assert [text.get_text().startswith("naive mean") for text in panels[2, 3].texts] == [True]


def test_an_expansion_that_is_exact_stands_at_the_edge(tables):
    axes = expansion(tables["lemma2"]).axes[0]
    shown = {line.get_label(): line.get_ydata() for line in axes.get_lines()}
    assert shown["χ²"].max() == shown["χ²"].min() == 1e-3
    kl = tables["lemma2"].query("tail == 'light' and divergence == 'kl'")
    np.testing.assert_array_equal(shown["KL"], kl["printed"])


def test_the_penalty_is_drawn_beside_the_primal(tables):
    axes = penalty(tables["lemma3"]).axes[len(TAILS)]
    [gap] = [each for each in axes.get_lines() if each.get_label() == "their difference"]
    part = tables["lemma3"].query("tail == 'light'")
    np.testing.assert_array_equal(gap.get_ydata(), (part["penalised"] - part["primal"]).abs().clip(lower=1e-16))


def test_the_breaking_point_is_marked(tables):
    figure = penalty(tables["lemma3"])
    breaking = tables["lemma3"].groupby("tail")["breaking"].first()
    for axes, tail in zip(figure.axes[:3], TAILS, strict=True):
        [line] = [each for each in axes.get_lines() if each.get_label() == "a weight comes to 0"]
        assert line.get_xdata()[0] == breaking[tail]
