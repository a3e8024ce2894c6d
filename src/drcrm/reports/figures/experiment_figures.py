"""The figures: each takes the results on one data set and returns a matplotlib figure; saving is elsewhere.

They are ``WIDTH`` wide with text of 9 and 10 points: one picture for print, for pages and for the screen of a phone.
"""

from collections.abc import Sequence
from textwrap import fill

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from drcrm.reports.figures import drawing, figure_data
from drcrm.reports.figures.figure_data import GREEDY, LEVELS, LOSS, DatasetResults
from drcrm.reports.figures.style import GREY, SCORE_MARKERS, SMALL, START_LOOKS, WIDTH
from drcrm.reports.roles import BASELINE, LOGGING, REFERENCE

FARTHEST = 1.5  # times π0's loss: the bound at which the axis ends
LOGGED = (
    "Rows were held out, not contexts: a bound speaks of the contexts that were logged, not of the new ones of the "
    "test set. It does not promise the loss on those."
)


def replay_count(results: DatasetResults) -> Figure:
    """Expected loss against the replay count: means over seeds, with 95 % intervals. The paper's Figure 1.

    The expected and the greedy loss of π0 and of the skyline are lines; a count at which a seed is missing is a gap.
    Algorithms stand side by side at each count, so that their intervals can be told apart. The axis ends at most 10 %
    above all means of π0 and CIPS; a mean beyond it is written there.
    """
    frame, names = figure_data.loss_by_count(results), results.plan.names
    figure, axes = drawing.one_panel(3.6 + 0.11 * len(results.learned))
    learned = ~frame["algorithm"].isin(dict(LEVELS))
    for place, (name, curve) in enumerate(frame[learned].groupby("algorithm", sort=False)):
        look, octaves = names.look(name), (place / max(len(results.learned) - 1, 1) - 0.5) / 2
        style = {"color": look.colour, "marker": look.marker, "label": look.label, "elinewidth": 0.8}
        count, mean, high = curve[["replay_count", "mean", "high"]].to_numpy(dtype=float).T
        axes.errorbar(count * 2**octaves, mean, high - mean, **style)
    for key, level in frame[~learned].groupby(["algorithm", "loss"], sort=False):
        look = drawing.LINES[key]
        axes.plot(level["replay_count"], level["mean"], look.line, color=look.colour, label=look.label, linewidth=1)
    at_most = frame["algorithm"].isin((BASELINE, LOGGING)) & (frame["loss"] == LOSS)
    end = 1.1 * frame.loc[at_most, "mean"].max()
    end = end if np.isfinite(end) else np.inf
    drawing.limit_to(axes, frame[frame["mean"] <= end], end)
    drawing.write_beyond(axes, frame[learned & (frame["mean"] > end)], names, "replay_count")
    axes.set_xscale("log", base=2)
    axes.set_xticks(results.counts, [str(count) for count in results.counts])
    axes.minorticks_off()
    axes.set_xlabel("Replay count Δ")
    axes.set_ylabel(results.loss_name())
    return drawing.titled(figure, results.title_of_chosen, axes.get_legend_handles_labels()[0])


def grid(results: DatasetResults) -> Figure:
    """Expected loss along each algorithm's grid, with 95 % intervals, and below it what each score chose.

    Cut off well above CIPS and π0, which are lines where no seed is missing: the far ends of some grids lose many times
    as much.
    """
    frame, chosen = figure_data.loss_along_grids(results), figure_data.choices(results)
    algorithms = list(dict.fromkeys(frame["algorithm"]))
    levels = {(name, LOSS): results.losses(name).mean() for name in (BASELINE, LOGGING) if name in results.algorithms}
    rows = max(-(-len(algorithms) // 2), 1)
    figure = Figure(figsize=(WIDTH, 1.2 + 1.6 * rows))
    panels = figure.subplots(rows, 2, sharey=True, squeeze=False).ravel()
    for axes, name in zip(panels, algorithms, strict=False):
        drawing.along_grid(axes, frame[frame["algorithm"] == name], results.plan.names.look(name))
        drawing.level_lines(axes.axhline, levels)
        drawing.choice_marks(axes, chosen[chosen["algorithm"] == name], results.plan.selections)
    for axes in panels[len(algorithms) :]:
        axes.set_axis_off()
    panels[0].set_ylim(drawing.grid_limits(frame["mean"], list(levels.values()), marks=len(results.plan.selections)))
    for axes in panels[max(len(algorithms) - 2, 0) : len(algorithms)]:
        axes.set_xlabel("Hyper-parameter")
    figure.supylabel(results.loss_name())
    handles = [*drawing.score_handles(results), *drawing.level_handles(levels)]
    return drawing.titled(figure, results.title, handles)


def surprise(results: DatasetResults) -> Figure:
    """Post-decision surprise: estimated less true risk of the chosen policies, mean over seeds with 95 % intervals.

    The estimate is the held-out score that chose, the true risk that on the test set; below 0 the score promised more
    than the policy keeps.
    """
    frame, names, selections = figure_data.surprises(results), results.plan.names, results.plan.selections
    lines = drawing.grouped_lines(results.scored, names)
    figure, axes = drawing.one_panel(1.3 + 0.36 * len(lines))
    shifts = 0.24 * (np.arange(len(selections)) - (len(selections) - 1) / 2)
    for row in frame.itertuples():
        height = lines.index(row.algorithm) + shifts[selections.index(row.selection)]
        drawing.mean_across(axes, row, height, names.look(row.algorithm).colour, SCORE_MARKERS[row.selection])
    axes.axvline(0, color=GREY, linewidth=0.8)
    drawing.name_lines(axes, lines, names)
    axes.set_xlabel(f"Held-out score − true risk{names.word('unit', [results.dataset])}")
    return drawing.titled(figure, results.title, drawing.score_handles(results))


def certificates(results: DatasetResults) -> Figure:
    """What the held-out log certifies against the true loss: means over seeds, with 95 % intervals of both.

    Where contexts were held out, bounds above the diagonal hold, and the legend says in how many seeds. Where rows
    were, bounds speak of the logged contexts: the picture says so, and counts nothing. The dotted line is π0's loss. A
    mean bound above 1½ times that is written at the end of the axis.
    """
    frame, names = figure_data.certified(results), results.plan.names
    promised = results.plan.protocol.get("split_unit") != "row"
    said = "" if promised else "\n" + fill(LOGGED, 62)
    figure, axes = drawing.one_panel(4.2 + 0.09 * len(frame) + 0.17 * said.count("\n"))
    for row in frame.itertuples():
        drawing.certificate(axes, row, names.look(row.algorithm), promised)
    level = results.losses(LOGGING).mean()
    drawing.level_lines(axes.axhline, {(LOGGING, LOSS): level})
    axes.axline([frame["loss"].min()] * 2, slope=1, color="black", linewidth=0.6, zorder=0, label="bound = loss")
    end = FARTHEST * level if np.isfinite(level) else np.inf
    drawing.limit_to(axes, frame[frame["mean"] <= end], end)
    drawing.write_beyond(axes, frame[frame["mean"] > end], names, "loss")
    axes.set_xlabel(f"{results.loss_name()} on new contexts (test set)")
    axes.set_ylabel(f"Bound of the loss on {'new' if promised else 'logged'} contexts")
    legend = "In how many seeds the bound holds: those are above the line" if promised else None
    levels = [(LOGGING, LOSS)] if level <= axes.get_ylim()[1] else []
    handles = [*drawing.level_handles(levels), *axes.get_legend_handles_labels()[0]]
    return drawing.titled(figure, f"{results.title_of_chosen}{said}", handles, legend)


def paired(results: DatasetResults) -> Figure:
    """Expected loss less POEM's on the same seed: each seed a stroke, their mean with its 95 % interval."""
    frame = figure_data.differences(results, REFERENCE)
    lines = drawing.grouped_lines(dict.fromkeys(frame["algorithm"]), results.plan.names)
    figure, axes = drawing.one_panel(1.0 + 0.3 * len(lines))
    for name, of_seeds in frame.groupby("algorithm", sort=False):
        look, height = results.plan.names.look(name), lines.index(name)
        axes.plot(of_seeds["difference"], np.full(len(of_seeds), height), "|", color=look.colour, alpha=0.5, ms=8)
        drawing.mean_across(axes, next(of_seeds.itertuples()), height, look.colour, look.marker)
    axes.axvline(0, color=GREY, linewidth=0.8)
    drawing.name_lines(axes, lines, results.plan.names)
    axes.set_xlabel(f"{results.loss_name()} − {results.plan.names.label(REFERENCE)}'s, by seed")
    return drawing.titled(figure, results.title_of_chosen)


def ablation(results: DatasetResults) -> Figure:
    """Expected loss of each estimate and risk, from each start: means over seeds with 95 % intervals.

    Lines are the losses of ``LEVELS``. What loses more than π0 stands at the edge, with its number; intervals of what
    does not are whole.
    """
    frame, names = figure_data.by_start(results), results.plan.names
    starts, lines = list(dict.fromkeys(frame["start"])), drawing.grouped_lines(dict.fromkeys(frame["algorithm"]), names)
    figure, axes = drawing.one_panel(1.4 + 0.36 * max(len(lines), 1))
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
            drawing.mean_across(axes, row, height, look.colour, look.marker)
    drawing.level_lines(axes.axvline, levels)
    if np.isfinite(end):
        axes.set_xlim(right=end + 0.02 * (end - axes.get_xlim()[0]))
    drawing.name_lines(axes, lines, names)
    axes.set_xlabel(results.loss_name())
    looks = [START_LOOKS[start] for start in starts]
    handles = [Line2D([], [], color=k.colour, marker=k.marker, linestyle="", label=f"from {k.label}") for k in looks]
    return drawing.titled(figure, results.title_of_chosen, [*handles, *drawing.level_handles(levels)])


def overview(all_results: Sequence[DatasetResults], across: int = 2) -> Figure:
    """How far each algorithm comes from CIPS to full supervision, a panel for each data set: means, 95 % intervals.

    All losses are greedy ones: 0 % is CIPS, 100 % the skyline, which sees all labels, and a dashed line is π0. What is
    far below CIPS stands at the edge, with its number. ``across`` panels stand side by side.
    """
    names, across = all_results[0].plan.names, min(across, len(all_results))
    lines = drawing.grouped_lines((name for name in all_results[0].learned if name != BASELINE), names)
    down = -(-len(all_results) // across)
    named = max(1.8, 0.08 * max((len(names.label(name)) for name in lines), default=0))
    figure = Figure(figsize=(max(WIDTH, named + 1.4 * across), 1.0 + (0.4 + 0.23 * len(lines)) * down))
    panels = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False)
    frames = [figure_data.closed_gap(results) for results in all_results]
    for axes, results, frame in zip(panels.ravel(), all_results, frames, strict=False):
        [of_logging] = frame.loc[frame["algorithm"] == LOGGING, "mean"]
        drawing.level_lines(axes.axvline, {(LOGGING, GREEDY): of_logging} if of_logging > drawing.LEAST else {})
        for place in (0, 100):
            axes.axvline(place, color="black", linewidth=0.8)
        for row in frame[frame["algorithm"].isin(lines)].itertuples():
            drawing.mean_across_or_at_edge(axes, row, lines.index(row.algorithm), names.look(row.algorithm))
        axes.set_title(results.plan.names.dataset(results.dataset))
        axes.tick_params(axis="x", labelbottom=True)
        axes.tick_params(axis="y", length=0)
    for axes in panels.ravel()[len(all_results) :]:
        axes.set_axis_off()
    for axes in panels[:, 0]:
        drawing.name_lines(axes, lines, names)
        axes.grid(axis="y", visible=True)
    highest = pd.concat(frames).query("algorithm in @lines")[["mean", "high"]].max().max()
    panels[0, 0].set_xlim(drawing.LEAST, np.clip(np.nan_to_num(highest) + 6, 105, drawing.MOST))
    panels[0, 0].set_xticks([0, 50, 100], ["0", "50", "100 %"])
    handles = drawing.level_handles([(LOGGING, GREEDY)])
    return drawing.titled(figure, "Greedy loss: from CIPS (0 %) to full supervision (100 %)", handles)


FIGURES = {draw.__name__: draw for draw in (replay_count, grid, surprise, certificates, paired, ablation)}
