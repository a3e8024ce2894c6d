"""The figures: each takes the results on one data set and returns a matplotlib figure; saving is elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ..registry import BASELINE, GREY, LOGGING, LOSSES, REFERENCE, ROLES, SCORES, SKYLINE, Look
from .figure_data import (
    GREEDY,
    LOSS,
    DatasetResults,
    by_start,
    certified,
    choices,
    closed_gap,
    differences,
    loss_along_grids,
    loss_by_count,
    surprises,
)
from .style import COLUMN, START_LOOKS, Names

LEAST = -45  # the left end of the overview, in percent
LEVELS = (BASELINE, LOGGING)  # what other losses are seen beside
TICKS = 8  # at most; where their number follows the height, the layout leaves too little room for wider labels
FARTHEST = 1.5  # times π0's loss: the bound at which the axis ends


def replay_count(results: DatasetResults) -> Figure:
    """Expected Hamming loss against the replay count: means over seeds, with 95 % intervals. The paper's Figure 1.

    π0 and the skyline are lines; a count at which a seed is missing is a gap. Algorithms stand side by side at each
    count, so that their intervals can be told apart. The axis ends at most 10 % above all means of π0 and CIPS; a mean
    beyond it is written there.
    """
    frame, names = loss_by_count(results), results.names
    figure = Figure(figsize=(COLUMN, 3.0))
    axes = figure.subplots()
    for place, (name, curve) in enumerate(frame.groupby("algorithm", sort=False)):
        _draw_curve(axes, curve, name, names, (place / max(len(results.algorithms) - 1, 1) - 0.5) / 2)
    end = 1.1 * frame.loc[frame["algorithm"].isin(LEVELS), "mean"].max()
    end = end if np.isfinite(end) else np.inf
    _limit_to(axes, frame[frame["mean"] <= end], end)
    _write_beyond(axes, frame[frame["mean"] > end], names, "replay_count")
    axes.set_xscale("log", base=2)
    axes.set_xticks(results.counts, [str(count) for count in results.counts])
    axes.minorticks_off()
    axes.set_xlabel("Replay count Δ")
    axes.set_ylabel(LOSSES[LOSS])
    figure.suptitle(f"{results.title}, chosen by {SCORES[results.selections[0]].label}", fontsize=8)
    figure.legend(loc="outside lower center", ncols=3, fontsize=7)
    return figure


def grid(results: DatasetResults) -> Figure:
    """Expected Hamming loss along each algorithm's grid, with 95 % intervals, and below it what each score chose.

    Cut off well above CIPS and π0, which are lines where no seed is missing: the far ends of some grids lose many times
    as much.
    """
    frame, chosen = loss_along_grids(results), choices(results)
    algorithms = list(dict.fromkeys(frame["algorithm"]))
    levels = {name: results.losses(name).mean() for name in LEVELS if name in results.algorithms}
    rows = max(-(-len(algorithms) // 2), 1)
    figure = Figure(figsize=(COLUMN, 0.9 + 1.2 * rows))
    panels = figure.subplots(rows, 2, sharey=True, squeeze=False).ravel()
    for axes, name in zip(panels, algorithms, strict=False):
        _draw_grid(axes, frame[frame["algorithm"] == name], name, levels, results.names)
        _mark_choices(axes, chosen[chosen["algorithm"] == name], results.selections)
    for axes in panels[len(algorithms) :]:
        axes.set_axis_off()
    panels[0].set_ylim(_grid_limits(frame["mean"], list(levels.values()), marks=len(results.selections)))
    for axes in panels[max(len(algorithms) - 2, 0) : len(algorithms)]:
        axes.set_xlabel("Hyper-parameter")
    figure.supylabel(LOSSES[LOSS], fontsize=8)
    figure.suptitle(results.title, fontsize=8)
    looks = [results.names.look(name) for name in levels]
    lines = [Line2D([], [], color=k.colour, linestyle=k.line, linewidth=0.8, label=k.label) for k in looks]
    figure.legend(handles=[*_score_handles(results), *lines], loc="outside lower center", ncols=2, fontsize=7)
    return figure


def surprise(results: DatasetResults) -> Figure:
    """Post-decision surprise: estimated less true risk of the chosen policies, mean over seeds with 95 % intervals.

    The estimate is the held-out score that chose, the true risk that on the test set; below 0 the score promised more
    than the policy keeps.
    """
    frame, names = surprises(results), results.learned
    figure = Figure(figsize=(COLUMN, 0.9 + 0.28 * len(names)))
    axes = figure.subplots()
    shifts = 0.22 * (np.arange(len(results.selections)) - (len(results.selections) - 1) / 2)
    for row in frame.itertuples():
        height = names.index(row.algorithm) + shifts[results.selections.index(row.selection)]
        _across(axes, row, height, results.names.look(row.algorithm).colour, SCORES[row.selection].marker)
    _name_rows(axes, names, results.names)
    axes.set_xlabel("Estimated − true risk")
    figure.suptitle(results.title, fontsize=8)
    figure.legend(handles=_score_handles(results), loc="outside lower center", ncols=2, fontsize=7)
    return figure


def certificates(results: DatasetResults) -> Figure:
    """What the held-out log certifies against the true loss: means over seeds, with 95 % intervals of both.

    Above the diagonal bounds hold; the legend says in how many seeds. The dotted line is π0's loss. A mean bound above
    1½ times that is written at the end of the axis.
    """
    frame, names = certified(results), results.names
    figure = Figure(figsize=(COLUMN, 2.9 + 0.07 * len(frame)))
    axes = figure.subplots()
    for row in frame.itertuples():
        _draw_certificate(axes, row, names.look(row.algorithm))
    level = results.losses(LOGGING).mean()
    axes.axhline(level, color=GREY, linestyle=names.look(LOGGING).line, linewidth=0.8, zorder=0)
    axes.axline([frame["loss"].min()] * 2, slope=1, color="black", linewidth=0.6, zorder=0)
    end = FARTHEST * level if np.isfinite(level) else np.inf
    _limit_to(axes, frame[frame["mean"] <= end], end)
    _write_beyond(axes, frame[frame["mean"] > end], names, "loss")
    axes.set_xlabel(LOSSES[LOSS])
    axes.set_ylabel("Certified loss")
    figure.suptitle(f"{results.title}, chosen by {SCORES[results.selections[0]].label}", fontsize=8)
    title = {"title": "Seeds in which the bound holds", "title_fontsize": 7}
    figure.legend(loc="outside lower center", ncols=2, fontsize=6, **title)
    return figure


def paired(results: DatasetResults) -> Figure:
    """Expected Hamming loss less POEM's on the same seed: each seed a dot, their mean with its 95 % interval."""
    frame = differences(results, REFERENCE)
    names = list(dict.fromkeys(frame["algorithm"]))
    figure = Figure(figsize=(COLUMN, 0.8 + 0.24 * len(names)))
    axes = figure.subplots()
    for height, (name, of_seeds) in enumerate(frame.groupby("algorithm", sort=False)):
        look = results.names.look(name)
        axes.plot(of_seeds["difference"], np.full(len(of_seeds), height), "|", color=look.colour, alpha=0.5, ms=6)
        _across(axes, next(of_seeds.itertuples()), height, look.colour, look.marker)
    _name_rows(axes, names, results.names)
    axes.set_xlabel(f"{LOSSES[LOSS]} − {results.names.label(REFERENCE)}'s, by seed")
    figure.suptitle(f"{results.title}, chosen by {SCORES[results.selections[0]].label}", fontsize=8)
    return figure


def ablation(results: DatasetResults) -> Figure:
    """Expected Hamming loss of each estimate and risk, from each start: means over seeds with 95 % intervals.

    A dashed line is π0's greedy loss, a solid one that of full supervision. What loses more than π0 stands at the edge,
    with its number.
    """
    frame, names = by_start(results), results.names
    algorithms, starts = (list(dict.fromkeys(frame[column])) for column in ("algorithm", "start"))
    rows = max(len(algorithms), 1)
    figure = Figure(figsize=(COLUMN, 0.9 + 0.3 * rows))
    axes = figure.subplots()
    end = results.losses(LOGGING).mean()
    for row in frame.itertuples():
        look = START_LOOKS[row.start]
        height = algorithms.index(row.algorithm) + 0.25 * (starts.index(row.start) - (len(starts) - 1) / 2)
        if row.mean > end:
            axes.text(end, height, f"{row.mean:.2f} ▸", color=look.colour, ha="right", va="center", fontsize=6)
        else:
            _across(axes, row, height, look.colour, look.marker)
    for name, line in ((LOGGING, "--"), (SKYLINE, "-")):
        level = results.runs(name, results.selections[0], GREEDY)[results.counts[0]].mean()
        axes.axvline(level, color=GREY, linestyle=line, linewidth=0.8, zorder=0)
    if np.isfinite(end):
        axes.set_xlim(right=end)
    axes.set_yticks(range(len(algorithms)), [names.label(name) for name in algorithms])
    axes.set_ylim(rows - 0.5, -0.5)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel(LOSSES[LOSS])
    looks = [START_LOOKS[start] for start in starts]
    handles = [Line2D([], [], color=k.colour, marker=k.marker, linestyle="", label=f"from {k.label}") for k in looks]
    figure.legend(handles=handles, loc="outside lower center", ncols=2, fontsize=7)
    figure.suptitle(f"{results.title}, chosen by {SCORES[results.selections[0]].label}", fontsize=8)
    return figure


def overview(all_results: Sequence[DatasetResults]) -> Figure:
    """How far each algorithm comes from CIPS to full supervision, a panel for each data set: means, 95 % intervals.

    0 % is CIPS, 100 % the greedy loss of the skyline, which sees all labels. π0 is a dotted line, its greedy actions a
    dashed one. What is far below CIPS stands at the edge, with its number.
    """
    names, algorithms = all_results[0].names, [name for name in all_results[0].learned if name != BASELINE]
    figure = Figure(figsize=(max(COLUMN, 1.1 + 1.5 * len(all_results)), 0.9 + 0.17 * len(algorithms)))
    panels = figure.subplots(1, len(all_results), sharey=True, squeeze=False)[0]
    for axes, results in zip(panels, all_results, strict=True):
        frame = closed_gap(results)
        for row in frame[frame["algorithm"] == LOGGING].itertuples():
            if row.mean > LEAST:
                axes.axvline(row.mean, color=GREY, linestyle=":" if row.loss == LOSS else "--", linewidth=1)
        for end in (0, 100):
            axes.axvline(end, color="black", linewidth=0.6)
        for row in frame[frame["algorithm"].isin(algorithms)].itertuples():
            _place(axes, row, algorithms.index(row.algorithm), names.look(row.algorithm))
        axes.set_title(names.dataset(results.dataset))
        axes.set_xlim(LEAST, 105)
        axes.set_xticks([0, 50, 100], ["0 %", "50 %", "100 %"])
        axes.grid(axis="y", alpha=0.15)
    panels[0].set_yticks(range(len(algorithms)), [names.label(name) for name in algorithms])
    panels[0].set_ylim(len(algorithms) - 0.5, -0.5)
    lines = {"π0": ":", "π0's greedy actions": "--"}
    handles = [Line2D([], [], color=GREY, linestyle=line, linewidth=1, label=label) for label, line in lines.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=2, fontsize=7)
    figure.suptitle("From CIPS (0 %) to full supervision (100 %)", fontsize=8)
    return figure


def _place(axes: Axes, row, height: float, look: Look) -> None:
    """A mean with its interval in a panel of the overview, at the edge where it is beyond."""
    if row.mean < LEAST:
        axes.text(LEAST + 2, height, f"◂ {row.mean:.0f} %", color=look.colour, va="center", fontsize=6)
        return
    _across(axes, row, height, look.colour, look.marker)


def _draw_curve(axes: Axes, curve: pd.DataFrame, name: str, names: Names, shift: float) -> None:
    """An algorithm's means with their intervals, shifted in octaves; a plain line for π0 and the skyline."""
    look = names.look(name)
    if name in ROLES:
        axes.plot(curve["replay_count"], curve["mean"], look.line, color=look.colour, label=look.label)
        return
    count, mean, high = (curve[name].to_numpy(dtype=float) for name in ("replay_count", "mean", "high"))
    style = {"color": look.colour, "marker": look.marker, "label": look.label, "elinewidth": 0.7}
    axes.errorbar(count * 2**shift, mean, high - mean, **style)


def _limit_to(axes: Axes, frame: pd.DataFrame, end: float) -> None:
    """Let the axis hold the means and intervals of a frame, and end there, or at 0: no loss is below."""
    bounds = frame[["low", "mean", "high"]].to_numpy().ravel()
    bounds = np.maximum(bounds[np.isfinite(bounds)], 0)
    if len(set(bounds)) > 1:
        margin = 0.05 * (bounds.max() - bounds.min())
        axes.set_ylim(bounds.min() - margin, min(bounds.max() + margin, end))
        axes.locator_params(axis="y", nbins=TICKS)


def _write_beyond(axes: Axes, frame: pd.DataFrame, names: Names, along: str) -> None:
    """Write the means that are beyond the axis above where they are ``along`` it."""
    for place, beyond in frame.groupby(along):
        lines = [f"{names.label(row.algorithm)} {row.mean:.2f} ↑" for row in beyond.itertuples()]
        above = axes.get_xaxis_transform()
        axes.text(place, 1, "\n".join(lines), transform=above, ha="center", va="bottom", fontsize=6)


def _draw_certificate(axes: Axes, row, look: Look) -> None:
    """A mean bound at a mean loss with both intervals, and in the legend how often the bound holds."""
    held = f"{look.label}: {row.held} of {row.given}" + (", mean missing" if np.isnan(row.mean) else "")
    reach = {"xerr": _half(row.loss, row.loss_high), "yerr": _half(row.mean, row.high)}
    style = {"color": look.colour, "marker": look.marker, "linestyle": "", "elinewidth": 0.7}
    axes.errorbar(row.loss, row.mean, **reach, **style, label=held)


def _draw_grid(axes: Axes, frame: pd.DataFrame, name: str, levels: dict[str, float], names: Names) -> None:
    look = names.look(name)
    axes.fill_between(frame["value"], frame["low"], frame["high"], color=look.colour, alpha=0.25, linewidth=0)
    axes.plot(frame["value"], frame["mean"], color=look.colour, marker=look.marker, markersize=3)
    for level, height in levels.items():
        axes.axhline(height, color=names.look(level).colour, linestyle=names.look(level).line, linewidth=0.8)
    axes.set_xscale("log")
    axes.set_xlim(frame["value"].min() / 2, frame["value"].max() * 2)
    axes.set_title(look.label)


def _mark_choices(axes: Axes, chosen: pd.DataFrame, selections: Sequence[str]) -> None:
    """Below the curve a row of marks for each score, by their area the share of seeds."""
    for row, selection in enumerate(selections):
        at = chosen[chosen["selection"] == selection]
        height = np.full(len(at), 0.08 + 0.1 * row)
        marks = {"marker": SCORES[selection].marker, "color": GREY, "linewidths": 0, "zorder": 3}
        axes.scatter(at["value"], height, 40 * at["share"], transform=axes.get_xaxis_transform(), **marks)


def _grid_limits(means: pd.Series, levels: Sequence[float], marks: int) -> tuple[float, float]:
    """The ends of the axis: well above the levels, and with room for rows of marks below all means."""
    known = [level for level in levels if np.isfinite(level)]
    shown = [*means.dropna(), *known] or [1.0]
    low, high = 0.95 * min(shown), 1.05 * max(shown)
    if known:
        high = min(high, max(1.5 * min(known), 1.05 * max(known)))
    share = 0.1 * marks + 0.08  # of a panel's height that the marks take
    return low - share / (1 - share) * (high - low), high


def _across(axes: Axes, row, height: float, colour: str, marker: str) -> None:
    """A mean with its interval, lying; or that it is missing."""
    if np.isnan(row.mean):
        axes.text(0, height, "missing", color=GREY, ha="center", va="center", fontsize=6)
    half = _half(row.mean, row.high)
    axes.errorbar(row.mean, height, xerr=half, color=colour, marker=marker, linestyle="", elinewidth=0.9)


def _half(mean: float, high: float) -> float:
    """Half of an interval; 0 where there is none."""
    return 0 if np.isnan(high) else high - mean


def _name_rows(axes: Axes, algorithms: Sequence[str], names: Names) -> None:
    """Algorithms down the side, in the tables' order, and a line at 0."""
    axes.axvline(0, color=GREY, linewidth=0.8)
    axes.set_yticks(range(len(algorithms)), [names.label(name) for name in algorithms])
    axes.set_ylim(len(algorithms) - 0.5, -0.5)
    axes.grid(axis="y", visible=False)


def _score_handles(results: DatasetResults) -> list[Line2D]:
    """What the marks of the scores mean, for a legend."""
    return [
        Line2D([], [], color=GREY, marker=SCORES[name].marker, linestyle="", label=f"chosen by {SCORES[name].label}")
        for name in results.selections
    ]


FIGURES = {
    "replay_count": replay_count,
    "grid": grid,
    "surprise": surprise,
    "certificates": certificates,
    "paired": paired,
    "ablation": ablation,
}
