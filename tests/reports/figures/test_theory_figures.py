"""Figures of the lemmas show the numbers of their tables."""

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
    """The table of each lemma on costs with three values, as read from its file."""
    probability = np.array([0.2, 0.3, 0.5])
    costs = {"light": np.array([-2.0, -1, 0]), "left": np.array([-9.0, -1, 0]), "right": np.array([9.0, 1, 0])}
    populations = {tail: Population(z, probability) for tail, z in costs.items()}
    tables = {}
    for lemma, tabulate in TABLES.items():
        rows = pd.DataFrame(list(tabulate(populations, 2, np.random.default_rng(0))))
        tables[lemma] = rows[LEMMA_COLUMNS[lemma]].replace("", np.nan)  # an empty cell
    return tables


def line_with(axes, label: str):
    [line] = [line for line in axes.get_lines() if line.get_label() == label]
    return line


def test_every_table_bound_and_tail_has_a_look(tables):
    assert list(LEMMA_FIGURES) == list(FIGURES)
    assert {figure.lemma for figure in LEMMA_FIGURES.values()} == set(TABLES) == set(LEMMA_COLUMNS)
    bounds = [tables["lemma1"]["method"], tables["lemma2"]["divergence"], tables["weights"]["divergence"]]
    assert set(pd.concat(bounds)) == set(BOUND_LOOKS)
    assert len({(look.colour, look.marker) for look in BOUND_LOOKS.values()}) == len(BOUND_LOOKS)
    assert all(set(table["tail"]) == set(TAILS) for table in tables.values())


@pytest.mark.parametrize("name", FIGURES)
def test_figures_are_drawn(name, tables):
    FIGURES[name](tables[LEMMA_FIGURES[name].lemma]).draw_without_rendering()


def test_coverage_has_a_panel_for_each_tail_and_radius(tables):
    table = tables["lemma1"]
    panels = np.reshape(coverage_95(table).axes, (len(TAILS), len(RADII)))
    assert [axes.get_title() for axes in panels[0]] == list(RADII.values())
    curves = {container.get_label(): container[0].get_ydata() for container in panels[1, 2].containers}
    part = table[(table["tail"] == "left") & (table["radius"] == "one_sided") & (table["confidence"] == 0.95)]
    for name, curve in part.groupby("method"):
        np.testing.assert_array_equal(curves[BOUND_LOOKS[name].label], curve["coverage"])
    assert [text.get_text().startswith("naive mean") for text in panels[2, 3].texts] == [True]


def test_an_exact_expansion_is_drawn_at_the_edge(tables):
    axes = expansion(tables["lemma2"]).axes[0]
    assert set(line_with(axes, "χ²").get_ydata()) == {1e-3}
    kl = tables["lemma2"].query("tail == 'light' and divergence == 'kl'")
    np.testing.assert_array_equal(line_with(axes, "KL").get_ydata(), kl["printed"])


def test_the_penalty_is_compared_with_the_primal_up_to_the_breaking_point(tables):
    figure = penalty(tables["lemma3"])
    part = tables["lemma3"].query("tail == 'light'")
    gap = line_with(figure.axes[len(TAILS)], "difference").get_ydata()
    np.testing.assert_array_equal(gap, (part["penalised"] - part["primal"]).abs().clip(lower=1e-16))
    breaking = tables["lemma3"].groupby("tail")["breaking"].first()
    for axes, tail in zip(figure.axes[: len(TAILS)], TAILS, strict=True):
        assert line_with(axes, "a weight reaches 0").get_xdata()[0] == breaking[tail]
