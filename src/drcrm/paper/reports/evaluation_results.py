"""Tables and figures of an experiment of the kind ``evaluation``, from the rows of its ``metrics.csv``."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from drcrm.paper.reports.figures import add_legend, handles_of
from drcrm.paper.reports.markup import number, with_error
from drcrm.paper.reports.plan import GREY, WIDTH, Look
from drcrm.paper.reports.printed_tables import PrintedTable

SETTING = ["simulator", "logging", "policy", "n"]
MEASURES = {  # columns of the tables, with captions
    "relative": "Root mean squared error divided by the least one of the setting ± standard error",
    "rmse": "Root mean squared error ± standard error",
    "coverage": "Share of 95 % intervals that contain the true cost ± standard error",
}
QUANTILES = {f"square_{percent:02d}": percent / 100 for percent in (5, 10, 25, 50, 75, 90, 95)}  # of squared errors
COLUMNS = [*SETTING, "estimator", "width", "logs", *QUANTILES]
COLUMNS += [f"{measure}{end}" for measure in MEASURES for end in ("", "_error")]
MARKERS = "osD^vP*"


def tabulate(metrics: pd.DataFrame, measure: str) -> pd.DataFrame:
    """Return a measure with a row per setting and a column per estimator."""
    order = list(metrics["estimator"].unique())
    return metrics.pivot_table(index=SETTING, columns="estimator", values=measure, sort=False)[order].reset_index()


def print_table(metrics: pd.DataFrame, measure: str, title: str) -> PrintedTable:
    """Return the printed table of a measure. The least error of a setting is bold."""
    digits = 3 if measure == "rmse" else 2
    texts = [number(value, f".{digits}f") for value in metrics[measure]]
    if measure == "relative":
        texts = [f"**{text}**" if value == 1 else text for text, value in zip(texts, metrics[measure], strict=True)]
    cells = [with_error(*cell, digits) for cell in zip(texts, metrics[f"{measure}_error"], strict=True)]
    table = metrics.assign(cell=cells).set_index([*SETTING, "estimator"])["cell"].unstack("estimator")
    table = table.loc[pd.MultiIndex.from_frame(metrics[SETTING].drop_duplicates()), metrics["estimator"].unique()]
    frame = table.reset_index().astype(str).rename_axis(columns=None)
    return PrintedTable(f"{MEASURES[measure]}: {title}, {metrics['logs'].max()} logs a setting.", frame)


def draw_errors(metrics: pd.DataFrame) -> Figure:
    """Draw the root mean squared error of each estimator against the number of rows, with its standard error."""

    def draw(axes: Axes, curve: pd.DataFrame, look: Look) -> None:
        axes.errorbar(curve["n"], curve["rmse"], curve["rmse_error"], **look.style, elinewidth=0.8)
        axes.set(xscale="log", yscale="log", xlabel="rows", ylabel="RMSE")

    return _panels(metrics, draw)


def draw_coverage(metrics: pd.DataFrame) -> Figure:
    """Draw the coverage of each estimator's intervals against their mean width; lines join the numbers of rows."""

    def draw(axes: Axes, curve: pd.DataFrame, look: Look) -> None:
        axes.errorbar(curve["width"], curve["coverage"], curve["coverage_error"], **look.style, elinewidth=0.8)
        axes.axhline(0.95, color=GREY, linewidth=1, zorder=0)
        axes.set(xscale="log", xlabel="mean width", ylabel="coverage")

    return _panels(metrics, draw)


def draw_distribution(metrics: pd.DataFrame) -> Figure:
    """Draw the share of logs below each squared error, from 5 to 95 %, for the largest number of rows."""

    def draw(axes: Axes, curve: pd.DataFrame, look: Look) -> None:
        axes.plot(curve[[*QUANTILES]].iloc[-1], [*QUANTILES.values()], **look.style, markersize=4)
        axes.set(xscale="log", xlabel="squared error", ylabel="share of logs")

    return _panels(metrics[metrics["n"] == metrics["n"].max()], draw)


FIGURES = {"rmse": draw_errors, "coverage": draw_coverage, "distribution": draw_distribution}


def _panels(metrics: pd.DataFrame, draw: Callable[[Axes, pd.DataFrame, Look], None]) -> Figure:
    """Return a figure with a panel for each simulator, logging policy and policy."""
    names = metrics["estimator"].unique()
    looks = {name: Look(name, f"C{i % 10}", MARKERS[i % len(MARKERS)]) for i, name in enumerate(names)}
    settings = list(metrics.groupby(SETTING[:3], sort=False))
    figure = Figure(figsize=(WIDTH, 0.8 + 2.3 * len(settings) + 0.11 * len(looks)))
    panels = figure.subplots(len(settings), 1, squeeze=False).ravel()
    for axes, ((simulator, logging, policy), rows) in zip(panels, settings, strict=True):
        axes.set_title(f"{simulator}: {policy}, logged by {logging}")
        for name, curve in rows.groupby("estimator", sort=False):
            draw(axes, curve, looks[name])
        axes.xaxis.set(major_locator=LogLocator(subs=(1, 3)), minor_formatter=NullFormatter(), major_formatter="{x:g}")
    return add_legend(figure, handles_of(looks.values(), has_line=True), columns=3)
