"""Figures of the lemmas show the numbers of their tables."""

import matplotlib
import numpy as np
import pandas as pd
import pytest
from lemma_figures import BOUND_LOOKS, COVERED, FIGURES, TAILS
from lemma_tables import LEMMA_COLUMNS, TABLES
from population import Population
from theory import LEMMA_FIGURES

from drcrm.paper.reports.plan import RC


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
