"""The figures: each takes what was measured on one data set and returns a matplotlib figure; saving is elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from .comparisons import UNRANKED, Interval, interval
from .style import COLUMN, GREY, METRICS, SELECTION_MARKERS, SELECTIONS, dataset_label, look

LOSS = "expected_loss"


@dataclass(frozen=True)
class Measured:
    """An experiment on one data set: a row per (replay count, seed, algorithm, selection), and per grid value.

    A seed below ``seeds`` that a frame lacks is a missing run, and is shown as missing.
    """

    metrics: pd.DataFrame
    grids: pd.DataFrame
    dataset: str
    selections: Sequence[str]  # headline first
    seeds: int
    counts: Sequence[int]  # replay counts; figures of a single one take the first
    labels: int  # q: translated costs are Hamming losses less q

    def runs(self, algorithm: str, selection: str, column: str) -> pd.DataFrame:
        """Values of a column of the metrics, seeds × replay counts."""
        at = self.metrics[(self.metrics["algorithm"] == algorithm) & (self.metrics["selection"] == selection)]
        table = at.pivot(index="seed", columns="replay_count", values=column)
        return table.reindex(index=range(self.seeds), columns=self.counts)

    def losses(self, algorithm: str, selection: str | None = None) -> np.ndarray:
        """Expected Hamming losses at the first replay count, for each seed."""
        return self.runs(algorithm, selection or self.selections[0], LOSS)[self.counts[0]].to_numpy(dtype=float)

    @property
    def learned(self) -> list[str]:
        return [name for name in dict.fromkeys(self.metrics["algorithm"]) if name not in UNRANKED]

    @property
    def title(self) -> str:
        return f"{dataset_label(self.dataset)}: {self.seeds} seed{'s' * (self.seeds > 1)}"


def replay_count(measured: Measured) -> Figure:
    """Expected Hamming loss against the replay count: means over seeds, with 95 % intervals. The paper's Figure 1.

    π0 and the skyline are lines; a count at which a seed is missing is a gap. Algorithms stand side by side at each
    count, so that their intervals can be told apart. The axis ends at most 10 % above all means of π0 and CIPS; a mean
    beyond it is written there.
    """
    headline, counts = measured.selections[0], measured.counts
    figure = Figure(figsize=(COLUMN, 3.0))
    axes = figure.subplots()
    algorithms = {
        name: [interval(values) for _, values in measured.runs(name, headline, LOSS).items()]
        for name in dict.fromkeys(measured.metrics["algorithm"])
    }
    levels = [i.mean for name in ("cips", "logging") for i in algorithms.get(name, [])]
    end = 1.1 * max((level for level in levels if np.isfinite(level)), default=np.inf)
    for place, (algorithm, of) in enumerate(algorithms.items()):
        drawn = look(algorithm)
        mean = np.array([i.mean for i in of])
        if algorithm in UNRANKED:
            axes.plot(counts, mean, drawn.line, color=GREY, label=drawn.label)
            continue
        beside = np.array(counts) * 2 ** (0.5 * (place / (len(algorithms) - 1) - 0.5))
        reach = [i.high - i.mean for i in of]
        axes.errorbar(beside, mean, reach, color=drawn.colour, marker=drawn.marker, label=drawn.label, elinewidth=0.7)
    within = [i for of in algorithms.values() for i in of if i.mean <= end]
    bounds = {bound for i in within for bound in (i.low, i.mean, i.high) if np.isfinite(bound)}
    if len(bounds) > 1:
        margin = 0.05 * (max(bounds) - min(bounds))
        axes.set_ylim(min(bounds) - margin, min(max(bounds) + margin, end))
    for count, of in zip(counts, zip(*algorithms.values(), strict=True), strict=True):
        at_count = zip(algorithms, of, strict=True)
        beyond = [f"{look(name).label} {i.mean:.2f} ↑" for name, i in at_count if i.mean > end]
        if beyond:
            at = axes.get_xaxis_transform()
            axes.text(count, 1, "\n".join(beyond), transform=at, ha="center", va="bottom", fontsize=6)
    axes.set_xscale("log", base=2)
    axes.set_xticks(counts, [str(count) for count in counts])
    axes.minorticks_off()
    axes.set_xlabel("Replay count Δ")
    axes.set_ylabel(METRICS[LOSS])
    figure.suptitle(f"{measured.title}, chosen by {SELECTIONS[headline]}", fontsize=8)
    figure.legend(loc="outside lower center", ncols=3, fontsize=7)
    return figure


def grid(measured: Measured) -> Figure:
    """Expected Hamming loss along each algorithm's grid, with 95 % intervals, and below it what each score chose.

    Cut off well above CIPS and π0, which are lines where no seed is missing: the far ends of some grids lose many times
    as much.
    """
    count = measured.counts[0]
    at = measured.grids[(measured.grids["replay_count"] == count) & measured.grids["hyperparameter"].notna()]
    names = [name for name in measured.learned if name in set(at["algorithm"])]
    rows = max(-(-len(names) // 2), 1)
    figure = Figure(figsize=(COLUMN, 0.9 + 1.2 * rows))
    panels = figure.subplots(rows, 2, sharey=True, squeeze=False).ravel()
    levels = [name for name in ("cips", "logging") if name in set(measured.metrics["algorithm"])]
    heights = [measured.losses(name).mean() for name in levels]
    for axes, name in zip(panels, names, strict=False):
        losses = at[at["algorithm"] == name].pivot(index="seed", columns="hyperparameter", values=LOSS)
        losses = losses.reindex(range(measured.seeds))
        drawn, of = look(name), [interval(values) for _, values in losses.items()]
        low, mean, high = zip(*((i.low, i.mean, i.high) for i in of), strict=True)
        axes.fill_between(losses.columns, low, high, color=drawn.colour, alpha=0.25, linewidth=0)
        axes.plot(losses.columns, mean, color=drawn.colour, marker=drawn.marker, markersize=3)
        for level, height in zip(levels, heights, strict=True):
            axes.axhline(height, color=look(level).colour, linestyle=look(level).line, linewidth=0.8)
        for row, selection in enumerate(measured.selections):
            chosen = measured.runs(name, selection, "hyperparameter")[count].value_counts()
            axes.scatter(
                chosen.index,
                np.full(len(chosen), 0.08 + 0.1 * row),
                40 * chosen.to_numpy() / measured.seeds,
                marker=SELECTION_MARKERS[selection],
                color=GREY,
                transform=axes.get_xaxis_transform(),
                linewidths=0,
                zorder=3,
            )
        axes.set_xscale("log")
        axes.set_xlim(losses.columns.min() / 2, losses.columns.max() * 2)
        axes.set_title(drawn.label)
    for axes in panels[len(names) :]:
        axes.set_axis_off()
    means = at.groupby(["algorithm", "hyperparameter"])[LOSS].mean()
    low, high = 0.95 * np.nanmin([*means, *heights]), 1.05 * np.nanmax([*means, *heights])
    known = [height for height in heights if np.isfinite(height)]
    if known:
        high = min(high, max(1.5 * min(known), 1.05 * max(known)))
    marks = 0.1 * len(measured.selections) + 0.08  # the share of a panel's height that they take
    panels[0].set_ylim(low - marks / (1 - marks) * (high - low), high)
    for axes in panels[max(len(names) - 2, 0) : len(names)]:
        axes.set_xlabel("Hyper-parameter")
    figure.supylabel(METRICS[LOSS], fontsize=8)
    figure.suptitle(measured.title, fontsize=8)
    handles = [_selection_handle(selection) for selection in measured.selections]
    lines = [
        Line2D([], [], color=look(name).colour, linestyle=look(name).line, linewidth=0.8, label=look(name).label)
        for name in levels
    ]
    figure.legend(handles=[*handles, *lines], loc="outside lower center", ncols=2, fontsize=7)
    return figure


def surprise(measured: Measured) -> Figure:
    """Post-decision surprise: estimated less true risk of the chosen policies, mean over seeds with 95 % intervals.

    The estimate is the held-out score that chose, the true risk that on the test set; below 0 the score promised more
    than the policy keeps.
    """
    names = measured.learned
    figure = Figure(figsize=(COLUMN, 0.9 + 0.28 * len(names)))
    axes = figure.subplots()
    for row, name in enumerate(names):
        for shift, selection in zip(_shifts(len(measured.selections)), measured.selections, strict=True):
            estimated = measured.runs(name, selection, "score")[measured.counts[0]].to_numpy(dtype=float)
            true = measured.losses(name, selection) - measured.labels
            _across(axes, interval(estimated - true), row + shift, look(name).colour, SELECTION_MARKERS[selection])
    _name_rows(axes, names)
    axes.set_xlabel("Estimated − true risk")
    figure.suptitle(measured.title, fontsize=8)
    handles = [_selection_handle(selection) for selection in measured.selections]
    figure.legend(handles=handles, loc="outside lower center", ncols=2, fontsize=7)
    return figure


def paired(measured: Measured) -> Figure:
    """Expected Hamming loss less POEM's on the same seed: each seed a dot, their mean with its 95 % interval."""
    names = [name for name in measured.learned if name != "poem"]
    figure = Figure(figsize=(COLUMN, 0.8 + 0.24 * len(names)))
    axes = figure.subplots()
    poem = measured.losses("poem")
    for row, name in enumerate(names):
        difference = measured.losses(name) - poem
        axes.plot(difference, np.full(len(difference), row), "|", color=look(name).colour, alpha=0.5, markersize=6)
        _across(axes, interval(difference), row, look(name).colour, look(name).marker)
    _name_rows(axes, names)
    axes.set_xlabel(f"{METRICS[LOSS]} − POEM's, by seed")
    figure.suptitle(f"{measured.title}, chosen by {SELECTIONS[measured.selections[0]]}", fontsize=8)
    return figure


def _across(axes: Axes, of: Interval, height: float, colour: str, marker: str) -> None:
    """A mean with its interval, lying; or that it is missing."""
    if np.isnan(of.mean):
        axes.text(0, height, "missing", color=GREY, ha="center", va="center", fontsize=6)
    reach = 0 if np.isnan(of.high) else of.high - of.mean
    axes.errorbar(of.mean, height, xerr=reach, color=colour, marker=marker, linestyle="", elinewidth=0.9)


def _name_rows(axes: Axes, names: Sequence[str]) -> None:
    """Algorithms down the side, in the tables' order, and a line at 0."""
    axes.axvline(0, color=GREY, linewidth=0.8)
    axes.set_yticks(range(len(names)), [look(name).label for name in names])
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.grid(axis="y", visible=False)


def _shifts(n: int) -> np.ndarray:
    return 0.22 * (np.arange(n) - (n - 1) / 2)


def _selection_handle(selection: str) -> Line2D:
    marker = SELECTION_MARKERS[selection]
    return Line2D([], [], color=GREY, marker=marker, linestyle="", label=f"chosen by {SELECTIONS[selection]}")


FIGURES = {"replay_count": replay_count, "grid": grid, "surprise": surprise, "paired": paired}
