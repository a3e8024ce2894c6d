"""Figures of an experiment show its numbers, and missing runs as missing."""

import re
from dataclasses import replace
from functools import partial

import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib.text import Text

from drcrm.paper.reports.dataset_results import DatasetResults, certified, closed_gap
from drcrm.paper.reports.figures import (
    FIGURES,
    certificates,
    draw_overview,
    grid,
    replay_count,
)
from drcrm.paper.reports.plan import RC, SMALL, WIDTH, Names, Plan

ALGORITHMS = ["logging", "cips", "poem", "kl_dro", "skyline"]
GRID = [0.01, 0.1, 1.0]
LEVELS = {"π0": 1.1, "π0, greedy": 0.55, "full supervision": 5.1, "full supervision, greedy": 2.55}


@pytest.fixture
def results(names):
    """Return results with a number of seeds. One run may be missing."""
    return partial(make_results, names)


def make_results(names: Names, missing: tuple[str, int] | None = None, seeds: int = 3) -> DatasetResults:
    """Return losses that identify algorithm and seed: 1, 2, … plus a tenth for each seed."""
    rows, grids = [], []
    for place, name in enumerate(ALGORITHMS):
        for seed in range(max(seeds, 3)):
            for count in (1, 4):
                if (name, seed) == missing:
                    continue
                key = {"dataset": "yeast", "replay_count": count, "seed": seed, "algorithm": name}
                loss = place + 1 + seed / 10
                value = 0.1 if name in ("poem", "kl_dro") else None
                row = {**key, "selection": "ips", "expected_loss": loss, "greedy_loss": loss, "hyperparameter": value}
                rows.append({**row, "score": loss - 14 - 0.5 * (seed + 1), "bound": loss + 1.1 - seed})
                grids += [{**key, "hyperparameter": value, "expected_loss": loss + value} for value in GRID]
    frames = pd.DataFrame(rows), pd.DataFrame(grids).query("algorithm in ('poem', 'kl_dro')")
    plan = Plan(["yeast"], ["ips"], seeds, [1, 4], names=names)
    return DatasetResults(*frames, "yeast", plan)


def with_losses(results: DatasetResults, values, column: str = "expected_loss", **conditions) -> DatasetResults:
    """Return results with other values in the rows that meet all conditions."""
    metrics = results.metrics.copy()
    is_changed = np.logical_and.reduce([metrics[name] == value for name, value in conditions.items()])
    metrics.loc[is_changed, column] = (
        metrics.loc[is_changed, "seed"].map(values) if isinstance(values, dict) else values
    )
    return replace(results, metrics=metrics)


def texts(figure) -> list[str]:
    return [text.get_text() for text in figure.axes[0].texts]


def means(figure, axis: str = "y") -> dict[str, list[float]]:
    """Return the coordinates of the points with error bars by label."""
    bars = figure.axes[0].containers
    return {bar.get_label(): (bar[0].get_ydata() if axis == "y" else bar[0].get_xdata()) for bar in bars}


def assert_texts_are_inside(figure) -> None:
    """Check that titles, labels, legends and other texts are inside the figure."""
    figure.draw_without_rendering()
    panels = [axes for axes in figure.axes if axes.axison]
    of_panels = [(axes.title, axes.xaxis.label, axes.yaxis.label, *axes.texts) for axes in panels]
    for artist in (*sum(of_panels, ()), *figure.texts, *figure.legends):
        box = artist.get_window_extent()
        assert -2 <= box.x0 <= box.x1 <= figure.bbox.width + 2, artist
        assert -2 <= box.y0 <= box.y1 <= figure.bbox.height + 2, artist


@pytest.mark.parametrize(
    "draw", [*FIGURES.values(), lambda data: draw_overview([data] * 3)], ids=[*FIGURES, "overview"]
)
def test_figures_are_drawn_with_missing_runs_and_readable_text(draw, results):
    """A width of 366 pixels, as on a phone, shows 9 points as 10 pixels if the figure is 4.8 inches wide.

    The only title is the data set, so that the figure fits into a paper. Seeds and selection are in the caption.
    """
    complete = results(seeds=6)
    without_seed = {name: getattr(complete, name).query("seed != 1") for name in ("metrics", "grids")}
    draw(results(missing=("kl_dro", 0), seeds=1)).draw_without_rendering()
    draw(replace(complete, **without_seed)).draw_without_rendering()
    with matplotlib.rc_context(RC):
        figure = draw(complete)
        assert_texts_are_inside(figure)
    assert figure.get_figwidth() <= WIDTH
    shown = [text for text in figure.findobj(Text) if text.get_text()]
    assert min(text.get_fontsize() for text in shown) >= SMALL
    words = " ".join(text.get_text() for text in shown)
    assert "Yeast" in words
    assert not re.findall(r"\d+ seeds|hyper-parameters? chosen", words)


def test_replay_count_shows_means_and_gaps(results):
    figure = replay_count(results())
    lines = {line.get_label(): line.get_ydata() for line in figure.axes[0].get_lines()}
    assert lines["π0"] == pytest.approx([1.1, 1.1])
    assert means(figure)["POEM"] == pytest.approx([3.1, 3.1])
    gaps = means(replay_count(results(missing=("poem", 1))))
    assert np.isnan(gaps["POEM"]).all()
    assert gaps["KL-DRO"] == pytest.approx([4.1, 4.1])


@pytest.mark.parametrize("seeds", [3, 6])
def test_curves_are_printed_at_the_true_replay_counts(results, seeds):
    """Even with two counts, no point or stroke of a seed is farther than half a marker from its count."""
    with matplotlib.rc_context(RC):
        figure = replay_count(results(seeds=seeds))
        figure.draw_without_rendering()
    axes, half = figure.axes[0], RC["lines.markersize"] / 2 * figure.dpi / 72
    true = axes.transData.transform([(count, 1) for count in (1, 4)])[:, 0]
    drawn = [line.get_transform().transform(line.get_xydata())[:, 0] for line in axes.get_lines() if line.get_marker()]
    assert max(np.abs(line - true).max() for line in drawn) <= half + 1e-9
    points = [bar[0].get_transform().transform(bar[0].get_xydata())[0, 0] for bar in axes.containers]
    assert len({*np.round(points, 3)}) == len(points) == 3


def test_levels_are_the_same_losses_in_every_figure(results):
    """Expected and greedy losses of π0 and of full supervision; here greedy losses are half as large."""
    halved = replace(results(), metrics=results().metrics.assign(greedy_loss=lambda rows: rows["expected_loss"] / 2))
    lines = {line.get_label(): line.get_ydata() for line in replay_count(halved).axes[0].get_lines()}
    assert {name: lines[name][0] for name in LEVELS} == pytest.approx(LEVELS)
    gap = closed_gap(halved).set_index("algorithm")["mean"]  # CIPS has 2.1 / 2
    assert gap["logging"] == pytest.approx(100 * (1.05 - 0.55) / (1.05 - 2.55))


def test_grids_show_losses_levels_and_choices(results):
    poem, kl_dro = grid(results()).axes
    assert [poem.get_title(), kl_dro.get_title()] == ["POEM, up to 4.1 ↑", "KL-DRO, up to 5.1 ↑"]
    curve, *levels = (line.get_ydata() for line in poem.get_lines())
    assert curve == pytest.approx([3.11, 3.2, 4.1])
    assert [level[0] for level in levels] == pytest.approx([2.1, 1.1])
    assert poem.collections[-1].get_offsets()[:, 0].tolist() == [0.1]


def test_the_room_for_choices_has_no_ticks(results):
    """The axis of small losses continues below 0."""
    small = results().grids.assign(expected_loss=lambda frame: frame["expected_loss"] - 3)
    axes = grid(replace(results(), grids=small)).axes[0]
    assert axes.get_ylim()[0] < 0 <= min(axes.get_yticks())


def rows(figure) -> list[tuple[float, float]]:
    """Return the means of the true loss and of the bound of each row."""
    points = [float(bar[0].get_xdata()[0]) for bar in figure.axes[0].containers]
    return list(zip(points[1::2], points[::2], strict=True))


def test_certificates_show_bounds_and_how_often_they_hold(results):
    """Bounds are the losses plus 1.1, 0.1, −0.9. Losses are c, c + 0.1, c + 0.2."""
    figure = certificates(with_losses(results(), 5.0, algorithm="logging"))
    assert rows(figure) == [pytest.approx((loss, loss + 0.1)) for loss in (2.1, 3.1, 4.1)]
    assert texts(figure) == [*["2 of 3"] * 3, "bound holds\nin seeds"]
    reach = 4.302652729911275 * 0.9 / np.sqrt(3)  # t quantile of two degrees of freedom; bounds are 3.1, 2.2, 1.3
    first = certified(results()).iloc[0]
    assert (first["low"], first["mean"], first["high"]) == pytest.approx((2.2 - reach, 2.2, 2.2 + reach))
