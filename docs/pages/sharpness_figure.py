"""Figure of experiments that differ in the sharpness of π0."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

from drcrm.paper.reports import drawing
from drcrm.paper.reports.figure_data import GREEDY, LOSS
from drcrm.paper.reports.plan import Look, Names
from drcrm.paper.reports.roles import LOGGING, SINGLE, SKYLINE

from .experiment_pages import Experiment

EXPERIMENTS = "sharpness_soft", "sharpness", "sharpness_sharp", "sharpness_sharper"
LINES = (LOGGING, LOSS), (SKYLINE, LOSS), (SKYLINE, GREEDY)
DRAWN = "cips", "norm_poem", "weighted_likelihood", "dm", "kl_dro_dr_plain", "kl_dro_dr", "kl_dro_dr_map"


def losses_by_sharpness(members: Sequence[Experiment]) -> pd.DataFrame:
    """Return mean losses with intervals by data set, algorithm and loss. η rises. Error rates are in %."""
    frames = [
        member.tables[loss].assign(loss=loss, sharpness=float(member.options["logging_sharpness"]))
        for member in members
        for loss in (LOSS, GREEDY)
    ]
    table = pd.concat(frames).query("selection == @members[0].plan.selections[0]").sort_values("sharpness")
    singles = members[0].plan.names.by_actions(table["dataset"]).get(SINGLE, [])
    factor = table["dataset"].isin(singles).map({True: 100, False: 1})
    scaled = {name: factor * table[name] for name in ("mean", "ci_low", "ci_high")}
    columns = ["dataset", "algorithm", "loss"]
    return table.assign(**scaled).set_index(columns)[["sharpness", *scaled]].sort_index(kind="stable")


def draw_sharpness(members: Sequence[Experiment]) -> Figure:
    """Draw losses against η on logarithmic axes, one panel per data set."""
    table, names, datasets = losses_by_sharpness(members), members[0].plan.names, members[0].plan.datasets
    figure = Figure(figsize=(6.4, 6.4))
    panels = figure.subplots(2, 2, sharex=True)
    looks = {(name, LOSS): names.look(name) for name in DRAWN} | {key: drawing.LINES[key] for key in LINES}
    for axes, dataset in zip(panels.flat, datasets, strict=True):
        draw_panel(axes, table.loc[dataset], looks)
        axes.set_title(names.dataset(dataset))
        axes.set_ylabel(_unit(names, dataset))
    sharpness = sorted(set(table["sharpness"]))
    panels[0, 0].set_xscale("log", base=2)
    panels[0, 0].set_xticks(sharpness, [f"{value:g}" for value in sharpness])
    panels[0, 0].minorticks_off()
    for axes in panels[-1]:
        axes.set_xlabel("η, factor of π0's scores")
    figure.suptitle(f"{names.title(LOSS, datasets)} by how near-deterministic π0 is")
    return drawing.add_legend(figure, drawing.handles_of(looks.values(), has_line=True), columns=3)


def _unit(names: Names, dataset: str) -> str:
    """Return the label of the axis of losses."""
    is_single = SINGLE in names.by_actions([dataset])
    return "error rate, % (↓ better)" if is_single else f"{names.word('unit', [dataset])}\n(↓ better)"


def draw_panel(axes: Axes, table: pd.DataFrame, looks: dict[tuple[str, str], Look]) -> None:
    """Draw the curves of a data set; those with marks are shifted by at most half an octave."""
    for place, (key, look) in enumerate(looks.items()):
        sharpness, mean, low, high = table.loc[[key]].to_numpy(dtype=float).T
        style = {"color": look.colour, "linewidth": 1.2}
        if look.marker:
            reach, shift = [mean - low, high - mean], 2 ** (place / len(DRAWN) / 2 - 0.25)
            axes.errorbar(sharpness * shift, mean, reach, marker=look.marker, elinewidth=0.8, **style)
        else:
            axes.plot(sharpness, mean, linestyle=look.line, **style)
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 3, 5, 7)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_locator(NullLocator())
