"""The figures: each takes the results on one data set and returns a matplotlib figure; saving is elsewhere.

They are ``WIDTH`` wide with text of 9 and 10 points: one picture for print, for pages and for the screen of a phone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from textwrap import fill

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ..registry import BASELINE, LOGGING, LOSSES, REFERENCE, SCORES, SKYLINE
from .figure_data import (
    GREEDY,
    LEVELS,
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
from .style import GREY, SCORE_MARKERS, SMALL, START_LOOKS, WIDTH, Look, Names

LINES = {
    (LOGGING, LOSS): Look("π0", GREY, line=":"),
    (LOGGING, GREEDY): Look("π0, greedy", GREY, line="--"),
    (SKYLINE, GREEDY): Look("full supervision, greedy", "#000000"),
    (BASELINE, LOSS): Look("CIPS", "#000000", line="-."),
}
LEAST, MOST = -45, 160  # the ends of the overview, in percent: it begins at the first, and ends at the second at most
HEADING = "# "  # before a group among the keys of algorithms, of which none begins so
TICKS = 8  # at most; where their number follows the height, the layout leaves too little room for wider labels
FARTHEST = 1.5  # times π0's loss: the bound at which the axis ends
LOGGED = (
    "Rows were held out, not contexts: a bound speaks of the contexts that were logged, not of the new ones of the "
    "test set. It does not promise the loss on those."
)


def replay_count(results: DatasetResults) -> Figure:
    """Expected Hamming loss against the replay count: means over seeds, with 95 % intervals. The paper's Figure 1.

    π0, its most probable actions and those of the skyline are lines; a count at which a seed is missing is a gap.
    Algorithms stand side by side at each count, so that their intervals can be told apart. The axis ends at most 10 %
    above all means of π0 and CIPS; a mean beyond it is written there.
    """
    frame, names = loss_by_count(results), results.names
    figure = Figure(figsize=(WIDTH, 3.6 + 0.11 * len(results.learned)))
    axes = figure.subplots()
    learned = ~frame["algorithm"].isin(dict(LEVELS))
    for place, (name, curve) in enumerate(frame[learned].groupby("algorithm", sort=False)):
        shift = (place / max(len(results.learned) - 1, 1) - 0.5) / 2
        _draw_curve(axes, curve, names.look(name), shift)
    for key, level in frame[~learned].groupby(["algorithm", "loss"], sort=False):
        look = LINES[key]
        axes.plot(level["replay_count"], level["mean"], look.line, color=look.colour, label=look.label, linewidth=1)
    at_most = frame["algorithm"].isin((BASELINE, LOGGING)) & (frame["loss"] == LOSS)
    end = 1.1 * frame.loc[at_most, "mean"].max()
    end = end if np.isfinite(end) else np.inf
    _limit_to(axes, frame[frame["mean"] <= end], end)
    _write_beyond(axes, frame[learned & (frame["mean"] > end)], names, "replay_count")
    axes.set_xscale("log", base=2)
    axes.set_xticks(results.counts, [str(count) for count in results.counts])
    axes.minorticks_off()
    axes.set_xlabel("Replay count Δ")
    axes.set_ylabel(LOSSES[LOSS])
    figure.suptitle(results.title_of_chosen)
    figure.legend(loc="outside lower center", ncols=2)
    return figure


def grid(results: DatasetResults) -> Figure:
    """Expected Hamming loss along each algorithm's grid, with 95 % intervals, and below it what each score chose.

    Cut off well above CIPS and π0, which are lines where no seed is missing: the far ends of some grids lose many times
    as much.
    """
    frame, chosen = loss_along_grids(results), choices(results)
    algorithms = list(dict.fromkeys(frame["algorithm"]))
    shown = [name for name in (BASELINE, LOGGING) if name in results.algorithms]
    levels = {(name, LOSS): results.losses(name).mean() for name in shown}
    rows = max(-(-len(algorithms) // 2), 1)
    figure = Figure(figsize=(WIDTH, 1.2 + 1.6 * rows))
    panels = figure.subplots(rows, 2, sharey=True, squeeze=False).ravel()
    for axes, name in zip(panels, algorithms, strict=False):
        _draw_grid(axes, frame[frame["algorithm"] == name], results.names.look(name))
        _draw_levels(axes.axhline, levels)
        _mark_choices(axes, chosen[chosen["algorithm"] == name], results.selections)
    for axes in panels[len(algorithms) :]:
        axes.set_axis_off()
    panels[0].set_ylim(_grid_limits(frame["mean"], list(levels.values()), marks=len(results.selections)))
    for axes in panels[max(len(algorithms) - 2, 0) : len(algorithms)]:
        axes.set_xlabel("Hyper-parameter")
    figure.supylabel(LOSSES[LOSS])
    figure.suptitle(results.title)
    figure.legend(handles=[*_score_handles(results), *_line_handles(levels)], loc="outside lower center", ncols=2)
    return figure


def surprise(results: DatasetResults) -> Figure:
    """Post-decision surprise: estimated less true risk of the chosen policies, mean over seeds with 95 % intervals.

    The estimate is the held-out score that chose, the true risk that on the test set; below 0 the score promised more
    than the policy keeps.
    """
    frame, lines = surprises(results), _rows(results.learned, results.names)
    figure = Figure(figsize=(WIDTH, 1.3 + 0.36 * len(lines)))
    axes = figure.subplots()
    shifts = 0.24 * (np.arange(len(results.selections)) - (len(results.selections) - 1) / 2)
    for row in frame.itertuples():
        height = lines.index(row.algorithm) + shifts[results.selections.index(row.selection)]
        _across(axes, row, height, results.names.look(row.algorithm).colour, SCORE_MARKERS[row.selection])
    axes.axvline(0, color=GREY, linewidth=0.8)
    _name_rows(axes, lines, results.names)
    axes.set_xlabel("Held-out score − true risk, in labels")
    figure.suptitle(results.title)
    figure.legend(handles=_score_handles(results), loc="outside lower center", ncols=2)
    return figure


def certificates(results: DatasetResults) -> Figure:
    """What the held-out log certifies against the true loss: means over seeds, with 95 % intervals of both.

    Where contexts were held out, bounds above the diagonal hold, and the legend says in how many seeds. Where rows
    were, bounds speak of the logged contexts: the picture says so, and counts nothing. The dotted line is π0's loss. A
    mean bound above 1½ times that is written at the end of the axis.
    """
    frame, names, promised = certified(results), results.names, results.held_out == "context"
    said = "" if promised else "\n" + fill(LOGGED, 62)
    figure = Figure(figsize=(WIDTH, 4.2 + 0.09 * len(frame) + 0.17 * said.count("\n")))
    axes = figure.subplots()
    for row in frame.itertuples():
        _draw_certificate(axes, row, names.look(row.algorithm), promised)
    level = results.losses(LOGGING).mean()
    _draw_levels(axes.axhline, {(LOGGING, LOSS): level})
    axes.axline([frame["loss"].min()] * 2, slope=1, color="black", linewidth=0.6, zorder=0, label="bound = loss")
    end = FARTHEST * level if np.isfinite(level) else np.inf
    _limit_to(axes, frame[frame["mean"] <= end], end)
    _write_beyond(axes, frame[frame["mean"] > end], names, "loss")
    axes.set_xlabel(f"{LOSSES[LOSS]} on new contexts (test set)")
    axes.set_ylabel(f"Bound of the loss on {'new' if promised else 'logged'} contexts")
    figure.suptitle(f"{results.title_of_chosen}{said}")
    title = "In how many seeds the bound holds: those are above the line" if promised else None
    levels = [(LOGGING, LOSS)] if level <= axes.get_ylim()[1] else []
    handles = [*_line_handles(levels), *axes.get_legend_handles_labels()[0]]
    figure.legend(handles=handles, loc="outside lower center", ncols=2, title=title)
    return figure


def paired(results: DatasetResults) -> Figure:
    """Expected Hamming loss less POEM's on the same seed: each seed a stroke, their mean with its 95 % interval."""
    frame = differences(results, REFERENCE)
    lines = _rows(dict.fromkeys(frame["algorithm"]), results.names)
    figure = Figure(figsize=(WIDTH, 1.0 + 0.3 * len(lines)))
    axes = figure.subplots()
    for name, of_seeds in frame.groupby("algorithm", sort=False):
        look, height = results.names.look(name), lines.index(name)
        axes.plot(of_seeds["difference"], np.full(len(of_seeds), height), "|", color=look.colour, alpha=0.5, ms=8)
        _across(axes, next(of_seeds.itertuples()), height, look.colour, look.marker)
    axes.axvline(0, color=GREY, linewidth=0.8)
    _name_rows(axes, lines, results.names)
    axes.set_xlabel(f"{LOSSES[LOSS]} − {results.names.label(REFERENCE)}'s, by seed")
    figure.suptitle(results.title_of_chosen)
    return figure


def ablation(results: DatasetResults) -> Figure:
    """Expected Hamming loss of each estimate and risk, from each start: means over seeds with 95 % intervals.

    Lines are the losses of ``LEVELS``. What loses more than π0 stands at the edge, with its number; intervals of what
    does not are whole.
    """
    frame, names = by_start(results), results.names
    starts, lines = list(dict.fromkeys(frame["start"])), _rows(dict.fromkeys(frame["algorithm"]), names)
    figure = Figure(figsize=(WIDTH, 1.4 + 0.36 * max(len(lines), 1)))
    axes = figure.subplots()
    levels = {key: results.losses(key[0], loss=key[1]).mean() for key in LEVELS}
    most = levels[LOGGING, LOSS]
    within = frame[~(frame["mean"] > most)]
    end = np.fmax(most, within[["mean", "high"]].max(axis=None))
    for row in frame.itertuples():
        look = START_LOOKS[row.start]
        height = lines.index(row.algorithm) + 0.25 * (starts.index(row.start) - (len(starts) - 1) / 2)
        if row.mean > most:
            axes.text(end, height, f"{row.mean:.2f} ▸", color=look.colour, ha="right", va="center", fontsize=SMALL)
        else:
            _across(axes, row, height, look.colour, look.marker)
    _draw_levels(axes.axvline, levels)
    if np.isfinite(end):
        axes.set_xlim(right=end + 0.02 * (end - axes.get_xlim()[0]))
    _name_rows(axes, lines, names)
    axes.set_xlabel(LOSSES[LOSS])
    looks = [START_LOOKS[start] for start in starts]
    handles = [Line2D([], [], color=k.colour, marker=k.marker, linestyle="", label=f"from {k.label}") for k in looks]
    figure.legend(handles=[*handles, *_line_handles(levels)], loc="outside lower center", ncols=2)
    figure.suptitle(results.title_of_chosen)
    return figure


def overview(all_results: Sequence[DatasetResults], across: int = 2) -> Figure:
    """How far each algorithm comes from CIPS to full supervision, a panel for each data set: means, 95 % intervals.

    0 % is CIPS, 100 % the greedy loss of the skyline, which sees all labels. π0 is a dotted line, its greedy actions a
    dashed one. What is far below CIPS stands at the edge, with its number. ``across`` panels stand side by side.
    """
    names, across = all_results[0].names, min(across, len(all_results))
    lines = _rows((name for name in all_results[0].learned if name != BASELINE), names)
    down = -(-len(all_results) // across)
    figure = Figure(figsize=(max(WIDTH, 1.8 + 1.4 * across), 1.0 + (0.4 + 0.23 * len(lines)) * down))
    panels = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False)
    frames = [closed_gap(results) for results in all_results]
    for axes, results, frame in zip(panels.ravel(), all_results, frames, strict=False):
        means = frame[frame["algorithm"] == LOGGING].set_index(["algorithm", "loss"])["mean"]
        _draw_levels(axes.axvline, {key: mean for key, mean in means.items() if mean > LEAST})
        for place in (0, 100):
            axes.axvline(place, color="black", linewidth=0.8)
        for row in frame[frame["algorithm"].isin(lines)].itertuples():
            _place(axes, row, lines.index(row.algorithm), names.look(row.algorithm))
        axes.set_title(names.dataset(results.dataset))
        axes.tick_params(axis="x", labelbottom=True)
        axes.tick_params(axis="y", length=0)
    for axes in panels.ravel()[len(all_results) :]:
        axes.set_axis_off()
    for axes in panels[:, 0]:
        _name_rows(axes, lines, names)
        axes.grid(axis="y", visible=True)
    highest = pd.concat(frames).query("algorithm in @lines")[["mean", "high"]].max().max()
    panels[0, 0].set_xlim(LEAST, np.clip(np.nan_to_num(highest) + 3, 105, MOST))
    panels[0, 0].set_xticks([0, 50, 100], ["0", "50", "100 %"])
    shown = [key for key in LEVELS if key[0] == LOGGING]
    figure.legend(handles=_line_handles(shown), loc="outside lower center", ncols=2)
    figure.suptitle("From CIPS (0 %) to full supervision (100 %)")
    return figure


def _place(axes: Axes, row, height: float, look: Look) -> None:
    """A mean with its interval in a panel of the overview, at the edge where it is beyond."""
    style = {"color": look.colour, "va": "center", "fontsize": SMALL}
    if row.mean < LEAST:
        axes.text(LEAST + 2, height, f"◂ −{-row.mean:.0f} %", **style)
        return
    if row.mean > MOST:
        axes.text(MOST - 2, height, f"{row.mean:.0f} % ▸", ha="right", **style)
        return
    _across(axes, row, height, look.colour, look.marker)


def _draw_curve(axes: Axes, curve: pd.DataFrame, look: Look, shift: float) -> None:
    """An algorithm's means with their intervals, shifted in octaves."""
    count, mean, high = (curve[name].to_numpy(dtype=float) for name in ("replay_count", "mean", "high"))
    style = {"color": look.colour, "marker": look.marker, "label": look.label, "elinewidth": 0.8}
    axes.errorbar(count * 2**shift, mean, high - mean, **style)


def _draw_levels(line, levels: Mapping[tuple[str, str], float]) -> None:
    """Lines at losses, with ``line`` of some axes."""
    for key, place in levels.items():
        line(place, color=LINES[key].colour, linestyle=LINES[key].line, linewidth=1, zorder=0)


def _line_handles(keys: Iterable[tuple[str, str]]) -> list[Line2D]:
    """What the lines are, for a legend."""
    looks = [LINES[key] for key in keys]
    return [Line2D([], [], color=k.colour, linestyle=k.line, linewidth=1, label=k.label) for k in looks]


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
        axes.text(place, 1, "\n".join(lines), transform=above, ha="center", va="bottom", fontsize=SMALL)


def _draw_certificate(axes: Axes, row, look: Look, promised: bool) -> None:
    """A mean bound at a mean loss with both intervals, and in the legend how often it holds, where it promises that."""
    held = f": {row.held} of {row.given}" if promised else ""
    label = f"{look.label}{held}" + (", mean missing" if np.isnan(row.mean) else "")
    reach = {"xerr": _half(row.loss, row.loss_high), "yerr": _half(row.mean, row.high)}
    style = {"color": look.colour, "marker": look.marker, "linestyle": "", "elinewidth": 0.8}
    axes.errorbar(row.loss, row.mean, **reach, **style, label=label)


def _draw_grid(axes: Axes, frame: pd.DataFrame, look: Look) -> None:
    axes.fill_between(frame["value"], frame["low"], frame["high"], color=look.colour, alpha=0.25, linewidth=0)
    axes.plot(frame["value"], frame["mean"], color=look.colour, marker=look.marker, markersize=4)
    axes.set_xscale("log")
    axes.set_xlim(frame["value"].min() / 2, frame["value"].max() * 2)
    axes.set_title(look.label)


def _mark_choices(axes: Axes, chosen: pd.DataFrame, selections: Sequence[str]) -> None:
    """Below the curve a row of marks for each score, by their area the share of seeds."""
    for row, selection in enumerate(selections):
        at = chosen[chosen["selection"] == selection]
        height = np.full(len(at), 0.08 + 0.1 * row)
        marks = {"marker": SCORE_MARKERS[selection], "color": GREY, "linewidths": 0, "zorder": 3}
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
        axes.text(0, height, "missing", color=GREY, ha="center", va="center", fontsize=SMALL)
    half = _half(row.mean, row.high)
    axes.errorbar(row.mean, height, xerr=half, color=colour, marker=marker, linestyle="", elinewidth=1)


def _half(mean: float, high: float) -> float:
    """Half of an interval; 0 where there is none."""
    return 0 if np.isnan(high) else high - mean


def _rows(algorithms: Iterable[str], names: Names) -> list[str]:
    """Algorithms from above, by their groups; where there are several, each under its name, a ``HEADING``."""
    groups = names.grouped(algorithms)
    headed = len(groups) > 1
    return [line for group, members in groups.items() for line in [HEADING + group] * headed + members]


def _name_rows(axes: Axes, lines: Sequence[str], names: Names) -> None:
    """What ``_rows`` has, down the side."""
    is_heading = [line.startswith(HEADING) for line in lines]
    said = [
        line.removeprefix(HEADING) if head else names.label(line) for line, head in zip(lines, is_heading, strict=True)
    ]
    axes.set_yticks(range(len(lines)), said)
    for head, label in zip(is_heading, axes.get_yticklabels(), strict=True):
        label.set(**({"style": "italic", "color": GREY} if head else {}))
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(max(len(lines), 1) - 0.5, -0.5)
    axes.grid(axis="y", visible=False)


def _score_handles(results: DatasetResults) -> list[Line2D]:
    """What the marks of the scores mean, for a legend."""
    return [
        Line2D([], [], color=GREY, marker=SCORE_MARKERS[name], linestyle="", label=f"chosen by {SCORES[name]}")
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
