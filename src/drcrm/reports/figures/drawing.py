"""Parts of figures: lines of levels, means with intervals, rows by groups, what is beyond an axis, legends."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullLocator

from drcrm.reports.figures.figure_data import GREEDY, LOSS, DatasetResults
from drcrm.reports.figures.style import GREY, SCORE_MARKERS, SMALL, WIDTH, Look, Names
from drcrm.reports.roles import BASELINE, LOGGING, SKYLINE
from drcrm.selection.score_names import SCORES

LINES = {
    (LOGGING, LOSS): Look("π0", GREY, line=":"),
    (LOGGING, GREEDY): Look("π0, greedy", GREY, line="--"),
    (SKYLINE, LOSS): Look("full supervision", "#000000", line=":"),
    (SKYLINE, GREEDY): Look("full supervision, greedy", "#000000"),
    (BASELINE, LOSS): Look("CIPS", "#000000", line="-."),
}
LEAST, MOST = -45, 160  # the ends of the overview, in percent: it begins at the first, and ends at the second at most
HEADING = "# "  # before a group among the keys of algorithms, of which none begins so
TICKS = 8  # at most; where their number follows the height, the layout leaves too little room for wider labels


def one_panel(height: float) -> tuple[Figure, Axes]:
    """A figure of the usual width, and its only panel."""
    figure = Figure(figsize=(WIDTH, height))
    return figure, figure.subplots()


def titled(figure: Figure, title: str, handles: Sequence = (), legend: str | None = None, columns: int = 2) -> Figure:
    """The figure with a title, and a legend below it, under a title of its own perhaps."""
    figure.suptitle(title)
    if handles:
        figure.legend(handles=handles, loc="outside lower center", ncols=columns, title=legend)
    return figure


def mean_across_or_at_edge(axes: Axes, row, height: float, look: Look) -> None:
    """A mean with its interval in a panel of the overview, at the edge where it is beyond."""
    style = {"color": look.colour, "va": "center", "fontsize": SMALL}
    if row.mean < LEAST:
        axes.text(LEAST + 2, height, f"◂ −{-row.mean:.0f} %", **style)
    elif row.mean > MOST:
        axes.text(MOST - 2, height, f"{row.mean:.0f} % ▸", ha="right", **style)
    else:
        mean_across(axes, row, height, look.colour, look.marker)


def level_lines(line, levels: Mapping[tuple[str, str], float]) -> None:
    """Lines at losses, with ``line`` of some axes."""
    for key, place in levels.items():
        line(place, color=LINES[key].colour, linestyle=LINES[key].line, linewidth=1, zorder=0)


def level_handles(keys: Iterable[tuple[str, str]]) -> list[Line2D]:
    """What the lines are, for a legend."""
    looks = [LINES[key] for key in keys]
    return [Line2D([], [], color=k.colour, linestyle=k.line, linewidth=1, label=k.label) for k in looks]


def limit_to(axes: Axes, frame: pd.DataFrame, end: float) -> None:
    """Let the axis hold the means and intervals of a frame, and end there, or at 0: no loss is below."""
    bounds = frame[["low", "mean", "high"]].to_numpy(dtype=float).ravel()
    bounds = np.maximum(bounds[np.isfinite(bounds)], 0)
    if len(set(bounds)) > 1:
        margin = 0.05 * (bounds.max() - bounds.min())
        axes.set_ylim(bounds.min() - margin, min(bounds.max() + margin, end))
        axes.locator_params(axis="y", nbins=TICKS)


def write_beyond(axes: Axes, frame: pd.DataFrame, names: Names, along: str) -> None:
    """Write the means that are beyond the axis above where they are ``along`` it."""
    for place, beyond in frame.groupby(along):
        lines = [f"{names.label(row.algorithm)} {row.mean:.2f} ↑" for row in beyond.itertuples()]
        above = axes.get_xaxis_transform()
        axes.text(place, 1, "\n".join(lines), transform=above, ha="center", va="bottom", fontsize=SMALL)


def certificate(axes: Axes, row, look: Look, promised: bool) -> None:
    """A mean bound at a mean loss with both intervals, and in the legend how often it holds, where it promises that."""
    held = f": {row.held} of {row.given}" if promised else ""
    label = f"{look.label}{held}" + (", mean missing" if np.isnan(row.mean) else "")
    reach = {"xerr": _half(row.loss, row.loss_high), "yerr": _half(row.mean, row.high)}
    style = {"color": look.colour, "marker": look.marker, "linestyle": "", "elinewidth": 0.8}
    axes.errorbar(row.loss, row.mean, **reach, **style, label=label)


def along_grid(axes: Axes, frame: pd.DataFrame, look: Look) -> None:
    """An algorithm's means along its grid, in a panel of their own."""
    axes.fill_between(frame["value"], frame["low"], frame["high"], color=look.colour, alpha=0.25, linewidth=0)
    axes.plot(frame["value"], frame["mean"], color=look.colour, marker=look.marker, markersize=4)
    axes.set_xscale("log")
    axes.set_xlim(frame["value"].min() / 2, frame["value"].max() * 2)
    axes.set_title(look.label)


def along_sharpness(axes: Axes, frame: pd.DataFrame, look: Look, place: float) -> None:
    """An algorithm's means against η, ``place`` of half an octave aside, so that intervals can be told apart."""
    sharpness, mean, low, high = frame[["sharpness", "mean", "low", "high"]].to_numpy(dtype=float).T
    reach = np.nan_to_num([mean - low, high - mean])
    style = {"color": look.colour, "marker": look.marker, "linewidth": 1.2, "elinewidth": 0.8}
    axes.errorbar(sharpness * 2 ** (place / 2), mean, reach, **style)


def loss_axis(axes: Axes) -> None:
    """A logarithmic axis of losses, with round numbers."""
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 3, 5, 7)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_locator(NullLocator())


def choice_marks(axes: Axes, chosen: pd.DataFrame, selections: Sequence[str]) -> None:
    """Below the curve a row of marks for each score, by their area the share of seeds."""
    for row, selection in enumerate(selections):
        at = chosen[chosen["selection"] == selection]
        height = np.full(len(at), 0.08 + 0.1 * row)
        marks = {"marker": SCORE_MARKERS[selection], "color": GREY, "linewidths": 0, "zorder": 3}
        axes.scatter(at["value"], height, 40 * at["share"], transform=axes.get_xaxis_transform(), **marks)


def grid_limits(means: pd.Series, levels: Sequence[float], marks: int) -> tuple[float, float]:
    """The ends of the axis: well above the levels, and with room for rows of marks below all means."""
    known = [level for level in levels if np.isfinite(level)]
    heights = [*means.dropna(), *known] or [1.0]
    low, high = 0.95 * min(heights), 1.05 * max(heights)
    if known:
        high = min(high, max(1.5 * min(known), 1.05 * max(known)))
    share = 0.1 * marks + 0.08  # of a panel's height that the marks take
    return low - share / (1 - share) * (high - low), high


def mean_across(axes: Axes, row, height: float, colour: str, marker: str) -> None:
    """A mean with its interval, lying; or that it is missing."""
    if np.isnan(row.mean):
        axes.text(0, height, "missing", color=GREY, ha="center", va="center", fontsize=SMALL)
    half = _half(row.mean, row.high)
    axes.errorbar(row.mean, height, xerr=half, color=colour, marker=marker, linestyle="", elinewidth=1)


def _half(mean: float, high: float) -> float:
    """Half of an interval; 0 where there is none."""
    return 0 if np.isnan(high) else high - mean


def grouped_lines(algorithms: Iterable[str], names: Names) -> list[str]:
    """Algorithms from above, by their groups; where there are several, each under its name, a ``HEADING``."""
    groups = names.grouped(algorithms)
    headed = len(groups) > 1
    return [line for group, members in groups.items() for line in [HEADING + group] * headed + members]


def name_lines(axes: Axes, lines: Sequence[str], names: Names) -> None:
    """What ``grouped_lines`` has, down the side."""
    said = [line.removeprefix(HEADING) if line.startswith(HEADING) else names.label(line) for line in lines]
    axes.set_yticks(range(len(lines)), said)
    for line, label in zip(lines, axes.get_yticklabels(), strict=True):
        if line.startswith(HEADING):
            label.set(style="italic", color=GREY)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(max(len(lines), 1) - 0.5, -0.5)
    axes.grid(axis="y", visible=False)


def score_handles(results: DatasetResults) -> list[Line2D]:
    """What the marks of the scores mean, for a legend."""
    return [
        Line2D([], [], color=GREY, marker=SCORE_MARKERS[name], linestyle="", label=f"chosen by {SCORES[name]}")
        for name in results.plan.selections
    ]
