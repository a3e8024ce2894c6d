"""Figures of an experiment on one data set (``FIGURES``) or on all (``draw_overview``), and helpers that draw them.

The title of a figure or panel is its data set. Its caption, a template of ``workflow/report``, has seeds and selection.
Figures are ``WIDTH`` wide with text of 9 and 10 points, so one image works in print, on pages and on a phone.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from textwrap import fill
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.markers import CARETLEFT, CARETRIGHT
from matplotlib.ticker import MaxNLocator
from matplotlib.transforms import ScaledTranslation

from drcrm.arrays.formats import format_number
from drcrm.errors import InputError
from drcrm.files import atomic
from drcrm.paper import BASELINE, LOGGING, SKYLINE
from drcrm.paper.reports.dataset_results import (
    GREEDY,
    LEVELS,
    LOSS,
    SUMMARY,
    DatasetResults,
    certified,
    choices,
    closed_gap,
    loss_along_grids,
    loss_by_count,
)
from drcrm.paper.reports.plan import BOUND, GREY, RC, SCORE_MARKERS, SMALL, TRUE_LOSS, WIDTH, Look, Names
from drcrm.selection.score_names import SCORES

LINES = {
    (LOGGING, LOSS): Look("π0", GREY, line=":"),
    (LOGGING, GREEDY): Look("π0, greedy", GREY, line="--"),
    (SKYLINE, LOSS): Look("full supervision", "#000000", line=(0, (5, 1.5, 1, 1.5, 1, 1.5))),
    (SKYLINE, GREEDY): Look("full supervision, greedy", "#000000"),
    (BASELINE, LOSS): Look("CIPS", "#000000", line="-."),
}
THIN = "1234+x"  # markers without an area
HEADING = "# "  # marks group names among algorithm names
METADATA = {".pdf": {"CreationDate": None}, ".svg": {"Date": None}, ".png": None}  # without the date
MAX_TICKS = 8  # otherwise the number of ticks depends on the space that labels leave
FARTHEST = 1.5  # the axis of bounds ends at this many times π0's loss
OVERVIEW_ENDS = -45, 160  # percent: the left end of the overview's axis, and the largest possible right end
MAX_CURVES = 7  # largest number of curves in a panel


def add_legend(figure: Figure, handles: Sequence, title: str | None = None, columns: int = 2) -> Figure:
    """Return the figure with a legend below it, if there are handles."""
    if handles:
        figure.legend(handles=handles, loc="outside lower center", ncols=columns, title=title)
    return figure


def handles_of(looks: Iterable[Look], has_line: bool = False) -> list[Line2D]:
    """Return legend entries for markers, with or without a line, and for the lines of looks without a marker."""
    looks, with_marker = list(looks), {"linestyle": "-" if has_line else ""}
    styles = [with_marker if look.marker else {"linestyle": look.line, "linewidth": 1} for look in looks]
    return [Line2D([], [], **look.style, **style) for look, style in zip(looks, styles, strict=True)]


def draw_levels(draw_line: Callable, levels: Mapping[tuple[str, str], float]) -> None:
    """Draw reference lines with ``axes.axhline`` or ``axes.axvline``."""
    for key, level in levels.items():
        draw_line(level, color=LINES[key].colour, linestyle=LINES[key].line, linewidth=1, zorder=0)


def draw_mean(axes: Axes, row: Any, height: float, look: Look, ends: tuple[float, float] = (-np.inf, np.inf)) -> None:
    """Draw a mean with its horizontal interval, or the word "missing".

    A mean beyond the ``ends`` of the axis is written at that end. An interval that reaches beyond them gets an arrow.
    """
    style: dict[str, Any] = {"color": look.colour, "va": "center", "fontsize": SMALL}
    number, is_below = format_number(row.mean), row.mean < ends[0]
    if np.isnan(row.mean):
        axes.text(0.5, height, "missing", transform=axes.get_yaxis_transform(), **style | {"color": GREY})
    elif is_below or row.mean > ends[1]:
        text, side = (f" ◂ {number}", "left") if is_below else (f"{number} ▸", "right")
        axes.text(ends[0 if is_below else 1], height, text, ha=side, **style)
    else:
        half = 0 if np.isnan(row.high) else row.high - row.mean
        marks: dict[str, Any] = {"color": look.colour, "markeredgewidth": 1.5 if look.marker in THIN else 1}
        axes.errorbar(row.mean, height, xerr=half, marker=look.marker, linestyle="", elinewidth=1, **marks)
        cut = {ends[0]: CARETLEFT} if row.mean - half < ends[0] else {}  # these markers are on the inner side
        cut |= {ends[1]: CARETRIGHT} if row.mean + half > ends[1] else {}
        for end, arrow in cut.items():
            axes.plot(end, height, color=look.colour, marker=arrow)


def write_in_margin(axes: Axes, text: str, height: float) -> None:
    """Write a text to the right of the axes."""
    place: dict[str, Any] = {"transform": axes.get_yaxis_transform(), "va": "center", "fontsize": SMALL}
    axes.text(1.03, height, text, **place)


def draw_curves(axes: Axes, frame: pd.DataFrame, results: DatasetResults) -> None:
    """Draw mean losses against the replay count, with their intervals or, if there are few seeds, each seed.

    Curves are at the true counts. They are printed up to half a marker to the left or right, so that intervals do not
    hide each other.
    """
    curves, half = list(frame.groupby("algorithm", sort=False)), matplotlib.rcParams["lines.markersize"] / 2
    for place, (name, curve) in enumerate(curves):
        look, points = results.plan.names.look(str(name)), (2 * place / max(len(curves) - 1, 1) - 1) * half
        style: dict[str, Any] = {
            "transform": axes.transData + ScaledTranslation(points / 72, 0, axes.figure.dpi_scale_trans)
        }
        count, mean, high = curve[["replay_count", "mean", "high"]].to_numpy(dtype=float).T
        if results.has_few_seeds:
            seeds = results.runs(str(name), results.plan.selections[0], LOSS)[results.counts].to_numpy(dtype=float)
            axes.plot(count, seeds.T, "_", color=look.colour, alpha=0.7, markersize=6, **style)
        error = None if results.has_few_seeds else high - mean
        axes.errorbar(count, mean, error, **look.style, elinewidth=0.8, **style)


def draw_level_curves(axes: Axes, frame: pd.DataFrame) -> None:
    """Draw the losses of ``LEVELS`` against the replay count."""
    for algorithm, loss in LEVELS:
        level, look = frame[(frame["algorithm"] == algorithm) & (frame["loss"] == loss)], LINES[algorithm, loss]
        style: dict[str, Any] = {"color": look.colour, "linestyle": look.line, "label": look.label, "linewidth": 1}
        axes.plot(level["replay_count"], level["mean"], **style)


def limit_to(axes: Axes, frame: pd.DataFrame, end: float) -> None:
    """Fit the vertical axis to means and intervals, between 0 and ``end``."""
    bounds = frame[SUMMARY].to_numpy(dtype=float).ravel()
    bounds = np.maximum(bounds[np.isfinite(bounds)], 0)
    if len(set(bounds)) > 1:
        margin = 0.05 * (bounds.max() - bounds.min())
        axes.set_ylim(bounds.min() - margin, min(bounds.max() + margin, end))
        axes.locator_params(axis="y", nbins=MAX_TICKS)


def write_beyond(axes: Axes, frame: pd.DataFrame, names: Names, along: str) -> None:
    """Write means beyond the axis above their position on the horizontal axis."""
    for place in sorted(frame[along].dropna().unique()):
        beyond = frame[frame[along] == place]
        lines = [f"{names.label(row.algorithm)} {format_number(row.mean, 2)} ↑" for row in beyond.itertuples()]
        above = axes.get_xaxis_transform()
        axes.text(place, 1, "\n".join(lines), transform=above, ha="center", va="bottom", fontsize=SMALL)


def draw_grid_curve(axes: Axes, frame: pd.DataFrame, look: Look, end: float) -> None:
    """Draw an algorithm's means along its grid, and name the largest mean if it is beyond the end of the axis."""
    axes.fill_between(frame["value"], frame["low"], frame["high"], color=look.colour, alpha=0.25, linewidth=0)
    axes.plot(frame["value"], frame["mean"], color=look.colour, marker=look.marker, markersize=4)
    axes.set_xscale("log")
    axes.set_xlim(frame["value"].min() / 2, frame["value"].max() * 2)
    largest = frame["mean"].max()
    axes.set_title(f"{look.label}, up to {format_number(largest)} ↑" if largest > end else look.label)
    axes.set_xlabel(look.parameter)


def draw_choices(axes: Axes, chosen: pd.DataFrame, selections: Sequence[str]) -> None:
    """Draw below a curve the values that each criterion chose. The area of a mark is the share of seeds."""
    for row, selection in enumerate(selections):
        part = chosen[chosen["selection"] == selection]
        height = np.full(len(part), 0.08 + 0.1 * row)
        marks: dict[str, Any] = {"marker": SCORE_MARKERS[selection], "color": GREY, "linewidths": 0, "zorder": 3}
        axes.scatter(part["value"], height, 40 * part["share"], transform=axes.get_xaxis_transform(), **marks)


def grid_limits(means: pd.Series, levels: Sequence[float], n_rows: int) -> tuple[float, float]:
    """Return the ends of the vertical axis, which contains the levels and has room for marks below the means."""
    known = [level for level in levels if np.isfinite(level)]
    heights = [*means.dropna(), *known] or [1.0]
    low, high = 0.95 * min(heights), 1.05 * max(heights)
    if known:
        high = min(high, max(1.5 * min(known), 1.05 * max(known)))
    share = 0.1 * n_rows + 0.08  # share of the panel's height that the marks need
    return low - share / (1 - share) * (high - low), high


def grouped_lines(algorithms: Iterable[str], names: Names) -> list[str]:
    """Return algorithms by group from top to bottom. If there are several groups, each has a line with ``HEADING``."""
    families = names.grouped(algorithms)
    has_headings = len(families) > 1
    return [line for family, members in families.items() for line in [HEADING + family] * has_headings + members]


def label_lines(axes: Axes, lines: Sequence[str], names: Names) -> None:
    """Label the vertical axis with the lines of ``grouped_lines``."""
    texts = [line.removeprefix(HEADING) if line.startswith(HEADING) else names.label(line) for line in lines]
    axes.set_yticks(range(len(lines)), texts)
    for line, label in zip(lines, axes.get_yticklabels(), strict=True):
        if line.startswith(HEADING):
            label.set(style="italic", color=GREY)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(max(len(lines), 1) - 0.5, -0.5)
    axes.grid(axis="y", visible=False)


def write_figure(draw: Callable[..., Figure], data: object, paths: Iterable[str]) -> None:
    """Draw a figure of the data, and write it to each path in the format of its suffix.

    Raises
    ------
    InputError
        If a path does not end in .pdf, .svg or .png.
    """
    with matplotlib.rc_context(RC):
        figure = draw(data)
        for path in map(Path, paths):
            if path.suffix not in METADATA:
                raise InputError(f"{path}: the name of a figure must end in .pdf, .svg or .png")
            with atomic(path) as part:
                figure.savefig(part, format=path.suffix[1:], metadata=METADATA[path.suffix])


def replay_count(results: DatasetResults) -> Figure:
    """Draw expected loss against the replay count, the paper's Figure 1.

    Lines are the losses of π0 and of the skyline. A panel has at most seven curves. A curve has a gap if a seed is
    missing. With fewer than five seeds, strokes are single seeds; otherwise bars are 95 % intervals of the mean. The
    axis ends at most 10 % above the means of π0 and CIPS. Larger means are written at its end.
    """
    frame, names = loss_by_count(results), results.plan.names
    n_panels = max(-(-len(results.learned) // MAX_CURVES), 1)
    figure = Figure(figsize=(WIDTH, 1.3 + 2.6 * n_panels + 0.11 * len(results.learned)))
    panels = figure.subplots(n_panels, 1, sharex=True, sharey=True, squeeze=False).ravel()
    is_limiting = frame["algorithm"].isin((BASELINE, LOGGING)) & (frame["loss"] == LOSS)
    end = 1.1 * frame.loc[is_limiting, "mean"].max()
    end = end if np.isfinite(end) else np.inf
    for axes, algorithms in zip(panels, np.array_split(np.array(results.learned, dtype=object), n_panels), strict=True):
        curves = frame[frame["algorithm"].isin(algorithms)]
        draw_curves(axes, curves, results)
        draw_level_curves(axes, frame)
        write_beyond(axes, curves[curves["mean"] > end], names, "replay_count")
        axes.set_ylabel(results.loss_axis("↓ better"))
    limit_to(panels[0], frame[frame["mean"] <= end], end)
    panels[0].set_xscale("log", base=2)
    panels[0].set_xticks(results.counts, [str(count) for count in results.counts])
    panels[0].minorticks_off()
    panels[-1].set_xlabel("Replay count Δ (passes over the training contexts)")
    handles = {handle.get_label(): handle for axes in panels for handle in axes.get_legend_handles_labels()[0]}
    figure.suptitle(results.label)
    return add_legend(figure, list(handles.values()))


def grid(results: DatasetResults) -> Figure:
    """Draw expected loss along each algorithm's grid, and below it the choices of each selection criterion.

    Lines are the losses of CIPS and π0. The axis ends above them, because some grids have much larger losses at their
    ends.
    """
    frame, chosen = loss_along_grids(results), choices(results)
    algorithms = list(dict.fromkeys(frame["algorithm"]))
    levels = {(name, LOSS): results.losses(name).mean() for name in (BASELINE, LOGGING) if name in results.algorithms}
    n_rows = max(-(-len(algorithms) // 2), 1)
    low, high = grid_limits(frame["mean"], list(levels.values()), len(results.plan.selections))
    figure = Figure(figsize=(WIDTH, 1.2 + 1.85 * n_rows))
    panels = figure.subplots(n_rows, 2, sharey=True, squeeze=False).ravel()
    for axes, name in zip(panels, algorithms, strict=False):
        draw_grid_curve(axes, frame[frame["algorithm"] == name], results.plan.names.look(name), high)
        draw_levels(axes.axhline, levels)
        draw_choices(axes, chosen[chosen["algorithm"] == name], results.plan.selections)
    for axes in panels[len(algorithms) :]:
        axes.set_axis_off()
    panels[0].set_yticks(MaxNLocator(nbins=5).tick_values(max(low, 0), high))  # the room for marks has no losses
    panels[0].set_ylim(low, high)
    figure.supylabel(results.loss_axis("↓ better"))
    criteria = [Look(f"chosen by {SCORES[name]}", GREY, SCORE_MARKERS[name]) for name in results.plan.selections]
    handles = handles_of([*criteria, *map(LINES.get, levels)])
    figure.suptitle(results.label)
    return add_legend(figure, handles, "Area of a mark: share of the seeds that chose the value")


def certificates(results: DatasetResults) -> Figure:
    """Draw each policy's loss on the test set and, above it, the certified bound on its loss.

    If contexts were held out, a column counts the seeds in which the bound holds. If rows were held out, bounds are
    valid for the logged contexts only, so they are not counted. The dotted line is π0's loss. A mean above 1½ times
    that loss is written at the end of the axis.
    """
    frame, names, level = certified(results), results.plan.names, results.losses(LOGGING).mean()
    is_counted = results.plan.protocol.get("split_unit") != "row"
    end = FARTHEST * level if np.isfinite(level) else np.inf

    lines = grouped_lines(dict.fromkeys(frame["algorithm"]), names)
    figure = Figure(figsize=(WIDTH, (1.8 if is_counted else 2.2) + 0.34 * len(lines)))
    axes = figure.subplots()
    axes.set_title(results.label)
    label_lines(axes, lines, names)
    for row in frame.itertuples():
        is_loss = row.column == LOSS
        look = replace(names.look(row.algorithm), marker="o" if is_loss else BOUND.marker)
        draw_mean(axes, row, lines.index(row.algorithm) + (0.16 if is_loss else -0.16), look, (-np.inf, end))
    for name in results.scored if is_counted else ():
        surplus = results.losses(name, loss="bound") - results.losses(name)
        text = f"{np.sum(surplus >= 0)} of {np.sum(~np.isnan(surplus))}"
        write_in_margin(axes, text, lines.index(name))
    if is_counted:
        write_in_margin(axes, "bound holds\nin seeds", -1)
    if (frame["mean"] > end).any():
        axes.set_xlim(right=end)
    draw_levels(axes.axvline, {(LOGGING, LOSS): level})
    axes.set_xlabel(results.loss_axis("← better"))
    bound = replace(BOUND, label=f"certified bound, {'new' if is_counted else 'logged'} contexts")
    handles = [*handles_of([bound, TRUE_LOSS]), *handles_of([LINES[LOGGING, LOSS]])]
    return add_legend(figure, handles)


def draw_overview(all_results: Sequence[DatasetResults]) -> Figure:
    """Draw how much of the gap between CIPS and full supervision each algorithm closes, one panel per data set.

    All losses are greedy: 0 % is CIPS, 100 % is the skyline, which sees all labels. The dashed line is π0. Means far
    below CIPS are written at the left edge.
    """
    names, across = all_results[0].plan.names, min(2, len(all_results))
    lines = grouped_lines((name for name in all_results[0].learned if name != BASELINE), names)
    down = -(-len(all_results) // across)
    label_width = max(1.8, 0.08 * max((len(names.label(name)) for name in lines), default=0))
    figure = Figure(figsize=(max(WIDTH, label_width + 1.5 * across), 1.6 + (0.5 + 0.23 * len(lines)) * down))
    panels = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False)
    frames = [closed_gap(results) for results in all_results]
    highest = np.nan_to_num(pd.concat(frames).query("algorithm in @lines")[SUMMARY].max().max())
    ends = OVERVIEW_ENDS[0], float(np.clip(highest + 6, 105, OVERVIEW_ENDS[1]))
    for axes, results, frame in zip(panels.ravel(), all_results, frames, strict=False):
        [of_logging] = frame.loc[frame["algorithm"] == LOGGING, "mean"]
        draw_levels(axes.axvline, {(LOGGING, GREEDY): of_logging} if of_logging > ends[0] else {})
        for place in (0, 100):
            axes.axvline(place, color="black", linewidth=0.8)
        for row in frame[frame["algorithm"].isin(lines)].itertuples():
            draw_mean(axes, row, lines.index(row.algorithm), names.look(row.algorithm), ends)
        axes.set_title(fill(results.plan.names.dataset(results.dataset), 16))
        axes.tick_params(axis="x", labelbottom=True)
        axes.tick_params(axis="y", length=0)
    for axes in panels.ravel()[len(all_results) :]:
        axes.set_axis_off()
    for axes in panels[:, 0]:
        label_lines(axes, lines, names)
        axes.grid(axis="y", visible=True)
    for axes in panels.ravel()[max(len(all_results) - across, 0) : len(all_results)]:
        axes.set_xlabel("gap closed, %\n(better →)")
    panels[0, 0].set_xlim(*ends)
    panels[0, 0].set_xticks([0, 50, 100])
    return add_legend(figure, handles_of([LINES[LOGGING, GREEDY]]))


FIGURES = {draw.__name__: draw for draw in (replay_count, grid, certificates)}
