"""Elements of the figures: reference lines, means with intervals, grouped rows, values beyond an axis, legends."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.markers import CARETLEFT, CARETRIGHT
from matplotlib.transforms import ScaledTranslation

from drcrm.arrays.number_formats import format_number
from drcrm.errors import InputError
from drcrm.files import atomic
from drcrm.paper.reports.figure_data import GREEDY, LEVELS, LOSS, SUMMARY, DatasetResults
from drcrm.paper.reports.plan import GREY, RC, SCORE_MARKERS, SMALL, Look, Names
from drcrm.paper.reports.roles import BASELINE, LOGGING, SKYLINE
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


def score_handles(results: DatasetResults) -> list[Line2D]:
    """Return legend entries for the markers of the selection criteria."""
    names = results.plan.selections
    return handles_of(Look(f"chosen by {SCORES[name]}", GREY, SCORE_MARKERS[name]) for name in names)


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
    groups = names.grouped(algorithms)
    has_headings = len(groups) > 1
    return [line for group, members in groups.items() for line in [HEADING + group] * has_headings + members]


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
