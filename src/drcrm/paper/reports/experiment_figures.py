"""Figures of an experiment. Each function takes the results on one data set and returns a matplotlib figure.

The title of a figure is its data set. Seeds and selection are in the caption, a template of ``workflow/report``.
Figures are ``WIDTH`` wide with text of 9 and 10 points, so one image works in print, on pages and on a phone.
"""

from collections.abc import Sequence
from dataclasses import replace
from textwrap import fill

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from drcrm.paper.reports import drawing, figure_data
from drcrm.paper.reports.figure_data import GREEDY, LOSS, SUMMARY, DatasetResults
from drcrm.paper.reports.plan import BOUND, TRUE_LOSS, WIDTH
from drcrm.paper.reports.roles import BASELINE, LOGGING

FARTHEST = 1.5  # the axis of bounds ends at this many times π0's loss
OVERVIEW_ENDS = -45, 160  # percent: the left end of the overview's axis, and the largest possible right end
MAX_CURVES = 7  # largest number of curves in a panel


def replay_count(results: DatasetResults) -> Figure:
    """Draw expected loss against the replay count, the paper's Figure 1.

    Lines are the losses of π0 and of the skyline. A panel has at most seven curves. A curve has a gap if a seed is
    missing. With fewer than five seeds, strokes are single seeds; otherwise bars are 95 % intervals of the mean. The
    axis ends at most 10 % above the means of π0 and CIPS. Larger means are written at its end.
    """
    frame, names = figure_data.loss_by_count(results), results.plan.names
    n_panels = max(-(-len(results.learned) // MAX_CURVES), 1)
    figure = Figure(figsize=(WIDTH, 1.3 + 2.6 * n_panels + 0.11 * len(results.learned)))
    panels = figure.subplots(n_panels, 1, sharex=True, sharey=True, squeeze=False).ravel()
    is_limiting = frame["algorithm"].isin((BASELINE, LOGGING)) & (frame["loss"] == LOSS)
    end = 1.1 * frame.loc[is_limiting, "mean"].max()
    end = end if np.isfinite(end) else np.inf
    for axes, algorithms in zip(panels, np.array_split(np.array(results.learned, dtype=object), n_panels), strict=True):
        curves = frame[frame["algorithm"].isin(algorithms)]
        drawing.draw_curves(axes, curves, results)
        drawing.draw_level_curves(axes, frame)
        drawing.write_beyond(axes, curves[curves["mean"] > end], names, "replay_count")
        axes.set_ylabel(results.loss_axis("↓ better"))
    drawing.limit_to(panels[0], frame[frame["mean"] <= end], end)
    panels[0].set_xscale("log", base=2)
    panels[0].set_xticks(results.counts, [str(count) for count in results.counts])
    panels[0].minorticks_off()
    panels[-1].set_xlabel("Replay count Δ (passes over the training contexts)")
    handles = {handle.get_label(): handle for axes in panels for handle in axes.get_legend_handles_labels()[0]}
    figure.suptitle(results.label)
    return drawing.add_legend(figure, list(handles.values()))


def grid(results: DatasetResults) -> Figure:
    """Draw expected loss along each algorithm's grid, and below it the choices of each selection criterion.

    Lines are the losses of CIPS and π0. The axis ends above them, because some grids have much larger losses at their
    ends.
    """
    frame, chosen = figure_data.loss_along_grids(results), figure_data.choices(results)
    algorithms = list(dict.fromkeys(frame["algorithm"]))
    levels = {(name, LOSS): results.losses(name).mean() for name in (BASELINE, LOGGING) if name in results.algorithms}
    n_rows = max(-(-len(algorithms) // 2), 1)
    low, high = drawing.grid_limits(frame["mean"], list(levels.values()), len(results.plan.selections))
    figure = Figure(figsize=(WIDTH, 1.2 + 1.85 * n_rows))
    panels = figure.subplots(n_rows, 2, sharey=True, squeeze=False).ravel()
    for axes, name in zip(panels, algorithms, strict=False):
        drawing.draw_grid_curve(axes, frame[frame["algorithm"] == name], results.plan.names.look(name), high)
        drawing.draw_levels(axes.axhline, levels)
        drawing.draw_choices(axes, chosen[chosen["algorithm"] == name], results.plan.selections)
    for axes in panels[len(algorithms) :]:
        axes.set_axis_off()
    panels[0].set_yticks(MaxNLocator(nbins=5).tick_values(max(low, 0), high))  # the room for marks has no losses
    panels[0].set_ylim(low, high)
    figure.supylabel(results.loss_axis("↓ better"))
    handles = [*drawing.score_handles(results), *drawing.handles_of(map(drawing.LINES.get, levels))]
    figure.suptitle(results.label)
    return drawing.add_legend(figure, handles, "Area of a mark: share of the seeds that chose the value")


def certificates(results: DatasetResults) -> Figure:
    """Draw each policy's loss on the test set and, above it, the certified bound on its loss.

    If contexts were held out, a column counts the seeds in which the bound holds. If rows were held out, bounds are
    valid for the logged contexts only, so they are not counted. The dotted line is π0's loss. A mean above 1½ times
    that loss is written at the end of the axis.
    """
    frame, names, level = figure_data.certified(results), results.plan.names, results.losses(LOGGING).mean()
    is_counted = results.plan.protocol.get("split_unit") != "row"
    end = FARTHEST * level if np.isfinite(level) else np.inf

    lines = drawing.grouped_lines(dict.fromkeys(frame["algorithm"]), names)
    figure = Figure(figsize=(WIDTH, (1.8 if is_counted else 2.2) + 0.34 * len(lines)))
    axes = figure.subplots()
    axes.set_title(results.label)
    drawing.label_lines(axes, lines, names)
    for row in frame.itertuples():
        is_loss = row.column == LOSS
        look = replace(names.look(row.algorithm), marker="o" if is_loss else BOUND.marker)
        drawing.draw_mean(axes, row, lines.index(row.algorithm) + (0.16 if is_loss else -0.16), look, (-np.inf, end))
    for name in results.scored if is_counted else ():
        surplus = results.losses(name, loss="bound") - results.losses(name)
        text = f"{np.sum(surplus >= 0)} of {np.sum(~np.isnan(surplus))}"
        drawing.write_in_margin(axes, text, lines.index(name))
    if is_counted:
        drawing.write_in_margin(axes, "bound holds\nin seeds", -1)
    if (frame["mean"] > end).any():
        axes.set_xlim(right=end)
    drawing.draw_levels(axes.axvline, {(LOGGING, LOSS): level})
    axes.set_xlabel(results.loss_axis("← better"))
    bound = replace(BOUND, label=f"certified bound, {'new' if is_counted else 'logged'} contexts")
    handles = [*drawing.handles_of([bound, TRUE_LOSS]), *drawing.handles_of([drawing.LINES[LOGGING, LOSS]])]
    return drawing.add_legend(figure, handles)


def overview(all_results: Sequence[DatasetResults]) -> Figure:
    """Draw how much of the gap between CIPS and full supervision each algorithm closes, one panel per data set.

    All losses are greedy: 0 % is CIPS, 100 % is the skyline, which sees all labels. The dashed line is π0. Means far
    below CIPS are written at the left edge.
    """
    names, across = all_results[0].plan.names, min(2, len(all_results))
    lines = drawing.grouped_lines((name for name in all_results[0].learned if name != BASELINE), names)
    down = -(-len(all_results) // across)
    label_width = max(1.8, 0.08 * max((len(names.label(name)) for name in lines), default=0))
    figure = Figure(figsize=(max(WIDTH, label_width + 1.5 * across), 1.6 + (0.5 + 0.23 * len(lines)) * down))
    panels = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False)
    frames = [figure_data.closed_gap(results) for results in all_results]
    highest = np.nan_to_num(pd.concat(frames).query("algorithm in @lines")[SUMMARY].max().max())
    ends = OVERVIEW_ENDS[0], float(np.clip(highest + 6, 105, OVERVIEW_ENDS[1]))
    for axes, results, frame in zip(panels.ravel(), all_results, frames, strict=False):
        [of_logging] = frame.loc[frame["algorithm"] == LOGGING, "mean"]
        drawing.draw_levels(axes.axvline, {(LOGGING, GREEDY): of_logging} if of_logging > ends[0] else {})
        for place in (0, 100):
            axes.axvline(place, color="black", linewidth=0.8)
        for row in frame[frame["algorithm"].isin(lines)].itertuples():
            drawing.draw_mean(axes, row, lines.index(row.algorithm), names.look(row.algorithm), ends)
        axes.set_title(fill(results.plan.names.dataset(results.dataset), 16))
        axes.tick_params(axis="x", labelbottom=True)
        axes.tick_params(axis="y", length=0)
    for axes in panels.ravel()[len(all_results) :]:
        axes.set_axis_off()
    for axes in panels[:, 0]:
        drawing.label_lines(axes, lines, names)
        axes.grid(axis="y", visible=True)
    for axes in panels.ravel()[max(len(all_results) - across, 0) : len(all_results)]:
        axes.set_xlabel("gap closed, %\n(better →)")
    panels[0, 0].set_xlim(*ends)
    panels[0, 0].set_xticks([0, 50, 100])
    return drawing.add_legend(figure, drawing.handles_of([drawing.LINES[LOGGING, GREEDY]]))


FIGURES = {draw.__name__: draw for draw in (replay_count, grid, certificates)}
