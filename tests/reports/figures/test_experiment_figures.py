"""Figures show what was measured, and what is missing as missing."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib.text import Text

from drcrm.reports.figures.experiment_figures import (
    FIGURES,
    ablation,
    certificates,
    grid,
    overview,
    paired,
    replay_count,
    surprise,
)
from drcrm.reports.figures.figure_data import DatasetResults, by_start, certified, closed_gap, loss_along_grids
from drcrm.reports.figures.style import RC, SMALL, WIDTH, Names
from drcrm.reports.tables.plan import Plan

ALGORITHMS = ["logging", "cips", "poem", "kl_dro", "skyline"]
GRID = [0.01, 0.1, 1.0]


@pytest.fixture
def results(names):
    """Results with some number of seeds, of which one run may be lost."""
    return partial(make_results, names)


STARTS = {"cips": {"zero": "cips", "logging": "poem"}, "kl_dro": {"zero": "kl_dro", "logging": "poem"}}


def make_results(names: Names, lost: tuple[str, int] | None = None, seeds: int = 3) -> DatasetResults:
    """Losses that tell algorithm and seed: 1, 2, … plus a tenth for each seed."""
    rows, grids = [], []
    for place, name in enumerate(ALGORITHMS):
        for seed in range(3):
            for count in (1, 4):
                if (name, seed) == lost:
                    continue
                key = {"dataset": "yeast", "replay_count": count, "seed": seed, "algorithm": name}
                loss = place + 1 + seed / 10
                value = 0.1 if name in ("poem", "kl_dro") else None
                row = {**key, "selection": "ips", "expected_loss": loss, "greedy_loss": loss, "hyperparameter": value}
                rows.append({**row, "score": loss - 14 - 0.5 * (seed + 1), "bound": loss + 1.1 - seed})
                grids += [{**key, "hyperparameter": value, "expected_loss": loss + value} for value in GRID]
    frames = pd.DataFrame(rows), pd.DataFrame(grids).query("algorithm in ('poem', 'kl_dro')")
    plan = Plan(["yeast"], ["ips"], seeds, [1, 4], names=replace(names, starts=STARTS), translations={"yeast": (1, 14)})
    return DatasetResults(*frames, "yeast", plan)


def lines(axes) -> dict[str, np.ndarray]:
    return {line.get_label(): line.get_ydata() for line in axes.get_lines()}


@pytest.mark.parametrize("draw", FIGURES.values(), ids=FIGURES)
@pytest.mark.parametrize("seeds", [1, 3])
def test_draws_any_number_of_seeds(draw, seeds, results, tmp_path):
    draw(results(seeds=seeds)).savefig(tmp_path / "figure.png")
    draw(results(lost=("kl_dro", 0), seeds=seeds)).savefig(tmp_path / "figure.png")


@pytest.mark.parametrize("draw", FIGURES.values(), ids=FIGURES)
def test_draws_where_a_seed_has_no_runs_at_all(draw, results, tmp_path):
    runs = results()
    frames = {name: frame[frame["seed"] != 1] for name, frame in (("metrics", runs.metrics), ("grids", runs.grids))}
    draw(replace(runs, **frames)).savefig(tmp_path / "figure.png")


def test_replay_count_shows_means_and_leaves_gaps(results):
    [axes] = replay_count(results()).axes
    assert lines(axes)["π0"] == pytest.approx([1.1, 1.1])
    means = {container.get_label(): container[0].get_ydata() for container in axes.containers}
    assert means["POEM"] == pytest.approx([3.1, 3.1])
    [axes] = replay_count(results(lost=("poem", 1))).axes
    means = {container.get_label(): container[0].get_ydata() for container in axes.containers}
    assert np.isnan(means["POEM"]).all()
    assert means["KL-DRO"] == pytest.approx([4.1, 4.1])


def test_the_grid_of_a_safe_algorithm_is_that_of_its_fits(results):
    runs = results()
    steps = runs.grids.query("algorithm == 'kl_dro'").assign(expected_loss=100.0)
    of_pi0 = steps[steps["hyperparameter"] == GRID[0]].assign(hyperparameter=np.nan)
    safe = replace(runs, grids=pd.concat([runs.grids, steps, of_pi0]))
    pd.testing.assert_frame_equal(loss_along_grids(safe), loss_along_grids(runs))
    grid(safe)


LEVELS = {"π0": 1.1, "π0, greedy": 0.55, "full supervision": 5.1, "full supervision, greedy": 2.55}


def test_levels_are_the_same_losses_in_every_figure(results):
    """Both losses of π0 and of full supervision; the greedy ones are half the expected ones."""
    runs = results()
    runs.metrics["greedy_loss"] /= 2
    [axes] = replay_count(runs).axes
    shown = {name: lines(axes)[name][0] for name in LEVELS}
    assert shown == pytest.approx(LEVELS)
    across = [line.get_xdata()[0] for line in ablation(runs).axes[0].get_lines() if len({*line.get_xdata()}) == 1]
    assert set(np.round(across, 3)) >= {*LEVELS.values()}
    gap = closed_gap(runs).set_index("algorithm")["mean"]  # CIPS has 2.1 / 2
    assert gap["logging"] == pytest.approx(100 * (1.05 - 0.55) / (1.05 - 2.55))


def test_algorithms_stand_under_their_groups(results):
    """In the order of the groups in the configuration, wherever they are listed; with one group without its name."""
    runs = results()
    looks = {"poem": {"label": "POEM", "group": "Theirs"}, "cips": {"label": "CIPS", "group": "Theirs"}}
    names = replace(runs.plan.names, algorithms={**looks, "kl_dro": {"label": "KL-DRO", "group": "Ours"}})
    runs = replace(runs, plan=replace(runs.plan, names=names))
    for draw, listed in {
        surprise: ["Theirs", "CIPS", "POEM", "Ours", "KL-DRO"],
        paired: ["Theirs", "CIPS", "Ours", "KL-DRO"],
        ablation: ["Theirs", "CIPS", "Ours", "KL-DRO"],
        lambda of: overview([of, of]): ["Theirs", "POEM", "Ours", "KL-DRO"],
    }.items():
        assert [label.get_text() for label in draw(runs).axes[0].get_yticklabels()] == listed
    last = replace(
        runs, plan=replace(runs.plan, names=replace(names, algorithms=dict(reversed(names.algorithms.items()))))
    )
    assert last.learned == ["kl_dro", "cips", "poem"]
    [axes] = surprise(last).axes
    assert [label.get_text() for label in axes.get_yticklabels()][:2] == ["Ours", "KL-DRO"]
    assert axes.containers[0][0].get_ydata()[0] == 1
    assert [label.get_text() for label in surprise(results()).axes[0].get_yticklabels()] == ["CIPS", "POEM", "KL-DRO"]
    likewise = {**names.algorithms, "kl_dro": {"label": "KL-DRO", "group": "poem"}}
    [axes] = surprise(replace(runs, plan=replace(runs.plan, names=replace(names, algorithms=likewise)))).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["Theirs", "CIPS", "POEM", "poem", "KL-DRO"]


def test_what_is_beyond_the_overview_is_written_at_its_edge(results):
    """A policy that is far beyond full supervision, which loses more than CIPS here, beside a set that lacks a seed."""
    runs = results()
    beyond = runs.metrics["greedy_loss"].where(runs.metrics["algorithm"] != "kl_dro", 12.0)
    far = replace(runs, metrics=runs.metrics.assign(greedy_loss=beyond))
    missing = replace(runs, metrics=runs.metrics[(runs.metrics["seed"] > 0) | (runs.metrics["algorithm"] != "kl_dro")])
    for order in ([far, missing], [missing, far]):
        figure = overview(order)
        assert any(text.get_text().endswith("% ▸") for axes in figure.axes for text in axes.texts)
        assert figure.axes[0].get_xlim()[1] == 160


@pytest.mark.parametrize("draw", [*FIGURES.values(), lambda of: overview([of, of, of])], ids=[*FIGURES, "overview"])
def test_text_is_readable_where_a_figure_is_as_wide_as_a_phone(draw, results):
    """366 pixels for at most 4.8 inches: 9 points are 10 pixels then."""
    with matplotlib.rc_context(RC):
        figure = draw(results())
        assert figure.get_figwidth() <= WIDTH
        assert min(text.get_fontsize() for text in figure.findobj(Text) if text.get_text()) >= SMALL


def test_no_axis_of_losses_goes_far_below_0(results):
    """The interval of two seeds that differ is 12.7 standard errors to each side."""
    runs = results(seeds=2)
    cips = runs.metrics["algorithm"] == "cips"
    runs.metrics.loc[cips, "expected_loss"] = runs.metrics.loc[cips, "seed"].map({0: 0.2, 1: 1.8})
    [axes] = replay_count(runs).axes
    assert -0.6 < axes.get_ylim()[0] < 0


def test_ablation_shows_each_start_and_writes_what_loses_more_than_the_logging_policy(results):
    runs = results()
    loss, algorithm = runs.metrics["expected_loss"], runs.metrics["algorithm"]
    runs.metrics["expected_loss"] = loss.where(algorithm != "logging", 3.5)
    [axes] = ablation(runs).axes
    means = [tuple(np.ravel(container[0].get_xydata())) for container in axes.containers]
    assert [pytest.approx(place) for place in means] == [(2.1, -0.125), (3.1, 0.125), (3.1, 1.125)]
    assert [text.get_text() for text in axes.texts] == ["4.10 ▸"]
    assert [text.get_text() for text in axes.get_yticklabels()] == ["CIPS", "KL-DRO"]


def test_intervals_of_an_ablation_are_whole(results):
    """Two seeds that differ: their interval ends far beyond π0's loss."""
    runs = results(seeds=2)
    algorithm, seed = runs.metrics["algorithm"], runs.metrics["seed"]
    runs.metrics.loc[algorithm == "logging", "expected_loss"] = 3.0
    runs.metrics.loc[algorithm == "cips", "expected_loss"] = seed[algorithm == "cips"].map({0: 1.5, 1: 2.5})
    [axes] = ablation(runs).axes
    frame = by_start(runs).set_index(["algorithm", "start"])
    assert frame["high"]["cips", "zero"] > 8
    assert axes.get_xlim()[1] > frame["high"]["cips", "zero"]


def test_replay_count_writes_means_far_above_cips_at_the_end_of_the_axis(results):
    runs = results()
    loss, algorithm = runs.metrics["expected_loss"], runs.metrics["algorithm"]
    runs.metrics["expected_loss"] = loss.where(~algorithm.isin(["poem", "kl_dro", "skyline"]), 2)
    assert len(replay_count(runs).axes[0].texts) == 0
    far = (algorithm == "poem") & (runs.metrics["replay_count"] == 4)
    runs.metrics.loc[far, "expected_loss"] = 2.6
    [axes] = replay_count(runs).axes
    assert [text.get_text() for text in axes.texts] == ["POEM 2.60 ↑"]
    assert axes.texts[0].get_position()[0] == 4
    assert axes.get_ylim()[1] < 2.6
    far |= (algorithm == "kl_dro") & (runs.metrics["replay_count"] == 4)
    runs.metrics.loc[far, "expected_loss"] = 30
    [axes] = replay_count(runs).axes
    assert [text.get_text() for text in axes.texts] == ["POEM 30.00 ↑\nKL-DRO 30.00 ↑"]


def test_grid_shows_losses_levels_and_choices(results):
    poem, kl_dro = grid(results()).axes
    assert [poem.get_title(), kl_dro.get_title()] == ["POEM", "KL-DRO"]
    curve, *levels = (line.get_ydata() for line in poem.get_lines())
    assert curve == pytest.approx([3.11, 3.2, 4.1])
    assert [level[0] for level in levels] == pytest.approx([2.1, 1.1])
    [chosen] = [marks for marks in poem.collections if len(marks.get_offsets()) and marks.get_label().startswith("_")][
        -1:
    ]
    assert chosen.get_offsets()[:, 0].tolist() == [0.1]


def test_surprise_is_estimated_less_true_risk(results):
    """The scores promise ½, 1, 1½ less than the losses: 1 on average."""
    [axes] = surprise(results()).axes
    assert [float(container[0].get_xdata()[0]) for container in axes.containers] == pytest.approx([-1, -1, -1])
    texts = [text.get_text() for text in surprise(results(lost=("poem", 2))).axes[0].texts]
    assert texts == ["missing"]


def test_certificates_show_the_bound_above_the_loss_and_how_often_it_holds(results):
    """Bounds are the losses plus 1.1, 0.1, −0.9, losses c, c + 0.1, c + 0.2."""
    [axes] = certificates(results()).axes
    places = {container.get_label(): np.ravel(container[0].get_xydata()) for container in axes.containers}
    assert {label: place.tolist() for label, place in places.items()} == {
        f"{name}: 2 of 3": pytest.approx([loss, loss + 0.1])
        for name, loss in {"CIPS": 2.1, "POEM": 3.1, "KL-DRO": 4.1}.items()
    }
    low, middle, high = (certified(results()).iloc[0][name] for name in ("low", "mean", "high"))
    reach = 4.302652729911275 * 0.9 / np.sqrt(3)  # t of two degrees of freedom; the bounds are 3.1, 2.2, 1.3
    assert (low, middle, high) == pytest.approx((2.2 - reach, 2.2, 2.2 + reach))


def test_bounds_of_logged_contexts_are_not_counted_against_new_ones(results):
    """Where rows were held out the picture says of what bounds speak."""
    runs = results()
    figure = certificates(replace(runs, plan=replace(runs.plan, protocol={"split_unit": "row"})))
    [axes] = figure.axes
    assert [container.get_label() for container in axes.containers] == ["CIPS", "POEM", "KL-DRO"]
    said = " ".join(figure.get_suptitle().split())
    assert "a bound speaks of the contexts that were logged, not of the new ones of the test set" in said
    assert axes.get_ylabel() == "Bound of the loss on logged contexts"
    held = certificates(results())
    assert "logged" not in held.get_suptitle() + held.axes[0].get_ylabel()
    assert held.legends[0].get_title().get_text().startswith("In how many seeds the bound holds")


def test_a_certificate_that_is_missing_or_huge_is_said_to_be(results):
    runs = results()
    algorithm, seed = runs.metrics["algorithm"], runs.metrics["seed"]
    runs.metrics.loc[algorithm == "logging", "expected_loss"] = 2.0
    runs.metrics.loc[(algorithm == "kl_dro") & (seed == 1), "bound"] = np.nan
    runs.metrics.loc[(algorithm == "poem") & (seed == 1), "bound"] = np.inf
    [axes] = certificates(runs).axes
    labels = [container.get_label() for container in axes.containers]
    assert labels == ["CIPS: 2 of 3", "POEM: 2 of 3", "KL-DRO: 1 of 2, mean missing"]
    assert [text.get_text() for text in axes.texts] == ["POEM inf ↑"]
    assert axes.get_ylim()[1] <= 3  # 1½ times π0's loss


def test_certificates_of_which_there_are_none(results, tmp_path):
    runs = results()
    runs.metrics["bound"] = np.nan
    certificates(runs).savefig(tmp_path / "figure.png")
    nothing = replace(runs, metrics=runs.metrics[runs.metrics["seed"] == 0])
    certificates(nothing).savefig(tmp_path / "figure.png")


def test_paired_differences_are_to_poem_on_the_same_seed(results):
    [axes] = paired(results()).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["CIPS", "KL-DRO"]
    assert [float(container[0].get_xdata()[0]) for container in axes.containers] == pytest.approx([-1, 1])
    texts = [text.get_text() for text in paired(results(lost=("kl_dro", 2))).axes[0].texts]
    assert texts == ["missing"]
