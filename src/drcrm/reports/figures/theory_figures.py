"""Figures of the paper's lemmas. Each function takes the table of a lemma on one data set and returns a figure.

The module ``drcrm.experiments.simulation.theory`` describes the columns.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from drcrm.reports.figures.style import BOUND_LOOKS, GREY, SMALL, TAILS

WIDE = 8.0  # inches: three or four panels side by side
EXACT = 1e-16  # drawn in place of a difference of 0 on a logarithmic axis
NEGLIGIBLE = 1e-3  # drawn in place of smaller α_n
CALIBRATED: dict[str, Any] = {
    "color": GREY,
    "linestyle": ":",
    "label": "ε of Lemma 1, δ = 0.05",
}  # line at the printed radius
RADII = {
    "printed": "ball, printed radius",
    "rescaled": "ball, × φ''(1)/2",
    "one_sided": "ball, one-sided",
    "": "other bounds",
}


def coverage_95(frame: pd.DataFrame, confidence: float = 0.95) -> Figure:
    """Lemma 1: draw the coverage of bounds against n with Monte Carlo intervals, one row of panels per kind of tail.

    Dashed lines are limits. Curves are shifted so that their intervals do not overlap. The coverage of the naive
    mean is below the axis and written there.
    """
    frame = frame[frame["confidence"] == confidence].assign(radius=frame["radius"].fillna(""))
    drawn = frame[frame["method"] != "mean"]
    figure, panels, columns = _panels(frame, len(TAILS), 6.4, "radius", RADII, sharex=True, sharey="row")
    for column, of_radius in columns:
        for axes, tail in zip(column, TAILS, strict=True):
            part = of_radius[of_radius["tail"] == tail]
            naive = part.loc[part["method"] == "mean", "coverage"]
            if len(naive):
                text = f"naive mean\n{naive.min():.2f} … {naive.max():.2f} ↓"
                axes.text(0.97, 0.04, text, transform=axes.transAxes, ha="right", color=GREY, fontsize=SMALL)
            _draw_coverage(axes, part[part["method"] != "mean"])
            axes.axhline(confidence, color="black", linewidth=0.8, zorder=0)
    for axes, tail in zip(panels[:, 0], TAILS, strict=True):
        low = min(drawn.loc[drawn["tail"] == tail, "low"].min(), confidence)
        axes.set_ylim(low - (1 - confidence) / 4, 1 + (1 - confidence) / 10)
    figure.supylabel("Coverage")
    return _label(figure, panels, "n", *TAILS.values())


def coverage_80(frame: pd.DataFrame) -> Figure:
    """Lemma 1: draw the coverage at δ = 0.2."""
    return coverage_95(frame, 0.8)


def _draw_coverage(axes: Axes, part: pd.DataFrame) -> None:
    """Draw the coverage of each bound with its interval and its limit."""
    n_methods = part["method"].nunique()
    for place, (name, curve) in enumerate(part.groupby("method", sort=False)):
        shift, style = 1.12 ** (place - (n_methods - 1) / 2), _style(str(name))
        around = [curve["coverage"] - curve["low"], curve["high"] - curve["coverage"]]
        axes.errorbar(curve["n"] * shift, curve["coverage"], around, **style, elinewidth=0.7, linewidth=0.7)
        axes.axhline(curve["limit"].iloc[0], color=style["color"], linestyle="--", linewidth=0.6, zorder=0)
    axes.set_xscale("log")
    _mark_sizes(axes, part)


def width(frame: pd.DataFrame) -> Figure:
    """Lemma 1: draw the mean width of each bound relative to Student's, at δ = 0.05 and with one-sided radii."""
    frame = frame[(frame["confidence"] == 0.95) & frame["radius"].fillna("one_sided").eq("one_sided")]
    figure, panels, columns = _panels(frame, 1, 3.2, sharey=True)
    for (axes,), part in columns:
        for name, curve in part[part["method"] != "mean"].groupby("method", sort=False):
            axes.loglog(curve["n"], curve["width"], **_style(str(name)))
        _mark_sizes(axes, part)
    _write_numbers(panels[0, 0])
    return _label(figure, panels, "n", "width / Student's")


def expansion(frame: pd.DataFrame) -> Figure:
    """Lemma 2: draw √n |α_n| against n, as printed (above, tends to the dashed lines) and rescaled (below).

    Negligible values are drawn at the edge.
    """
    figure, panels, columns = _panels(frame, 2, 4.6, sharex=True, sharey=True)
    for column, part in columns:
        for name, curve in part.groupby("divergence", sort=False):
            style, limit = _style(str(name)), curve["limit"].iloc[0]
            for axes, kind in zip(column, ("printed", "rescaled"), strict=True):
                axes.loglog(curve["n"], curve[kind].clip(lower=NEGLIGIBLE), **style)
            if limit > 0:
                column[0].axhline(limit, color=style["color"], linestyle="--", linewidth=0.6, zorder=0)
    limits = "√(εV/n)", "√(2εV/(nφ''(1)))"
    return _label(figure, panels, "n", *(f"√n |α$_n$| / σ, against\n{limit}" for limit in limits))


def penalty(frame: pd.DataFrame) -> Figure:
    """Lemma 3: draw the χ² ball and mean + √(εV) against ε, and their difference below.

    A vertical line marks the first ε with a weight of 0. The value of the ball is that of the primal problem, which
    does not use a variance.
    """
    figure, panels, columns = _panels(frame, 2, 4.2, sharex=True, sharey="row")
    for (above, below), part in columns:
        above.loglog(part["radius"], part["penalised"], color="#E69F00", label="variance penalty √(εV)")
        above.loglog(part["radius"], part["primal"], "--", color="#D55E00", label="χ² ball − mean")
        gap = (part["penalised"] - part["primal"]).abs().clip(lower=EXACT)
        below.loglog(part["radius"], gap, color="black", label="difference")
        for axes in (above, below):
            axes.axvline(part["breaking"].iloc[0], color=GREY, linewidth=1, label="a weight reaches 0")
            axes.axvline(part["calibrated"].iloc[0], **CALIBRATED)
    return _label(figure, panels, "ε", "(value − mean) / √V", "difference / √V")


def duality(frame: pd.DataFrame) -> Figure:
    """Lemma 4: draw the dual and the Boltzmann mean against γ, and below their distance from the primal at γ*."""
    figure, panels, columns = _panels(frame, 2, 4.6, sharex="row", sharey="row")
    radius = frame["radius"].median()
    for (above, below), part in columns:
        curve, best = part[part["radius"] == radius], part[(part["temperature"] - 1).abs() < 1e-9]
        for name, colour, marker in (("dual", "#0072B2", "v"), ("Boltzmann", "#E69F00", "^")):
            above.semilogx(curve["temperature"], curve[name.lower()], color=colour, label=f"{name} at γ")
            gap = (best[name.lower()] - best["primal"]).abs().clip(lower=EXACT)
            below.loglog(best["radius"], gap, marker, color=colour, label=f"|{name} at γ* − primal|")
        above.axhline(curve["primal"].iloc[0], color="black", linestyle="--", label=f"primal at ε = {radius:.2g}")
        above.set_xlabel("γ / γ*")
        below.set_ylim(EXACT / 2, 1e-8)
    panels[0, 0].set_ylim(0, 3 * frame.loc[frame["radius"] == radius, "primal"].min())
    return _label(figure, panels, "ε", "(value − mean) / √V", "difference / √V")


def temperature(frame: pd.DataFrame) -> Figure:
    """Lemma 5: draw √(V/2ε) / γ* against ε, and below the premium of aKL-CRM relative to that of the KL ball."""
    figure, panels, columns = _panels(frame, 2, 5.0, sharex=True, sharey="row")
    for (above, below), part in columns:
        above.loglog(part["radius"], part["ratio"], color="black", label="√(V/2ε) / γ*")
        below.loglog(part["radius"], part["premium"], color="#0072B2", label="added by aKL-CRM / by the KL ball")
        below.loglog(part["radius"], part["premium_sum"], color="#CC79A7", label="… with Algorithm 1's sum for V")
        for axes in (above, below):
            axes.axhline(1, color=GREY, linewidth=0.8, zorder=0)
            axes.axvline(part["calibrated"].iloc[0], **CALIBRATED)
    panels[0, 0].set_ylim(0.15, 6)
    for axes in panels[:, 0]:
        _write_numbers(axes)
    return _label(figure, panels, "ε", "temperature / exact", "added / exact")


def weights(frame: pd.DataFrame) -> Figure:
    """Draw the worst-case weights n q of a small sample against z, for balls of equal value; KL-CRM is dashed."""
    figure, panels, columns = _panels(frame, 1, 3.2)
    for (axes,), part in columns:
        for name, curve in part.groupby("divergence", sort=False):
            style = {
                **_style(str(name)),
                "marker": "",
                "linestyle": "--" if name == "kl_crm" else "-",
                "linewidth": 0.9,
            }
            axes.plot(curve["z"], curve["weight"], **style)
        axes.plot(curve["z"], [0] * len(curve), "|", color="black", markersize=5, zorder=3)
        axes.set_ylim(top=1.1 * part.loc[part["divergence"] != "total_variation", "weight"].max())
    return _label(figure, panels, "z", "weight n q")


def _panels(
    frame: pd.DataFrame, rows: int, height: float, key: str = "tail", titles: Mapping = TAILS, **shared: Any
) -> tuple[Figure, np.ndarray, list[tuple[np.ndarray, pd.DataFrame]]]:
    """Return a figure, its panels, and for each column of panels its rows of the frame."""
    figure = Figure(figsize=(WIDE, height))
    panels = figure.subplots(rows, len(titles), squeeze=False, **shared)
    for axes, title in zip(panels[0], titles.values(), strict=True):
        axes.set_title(title)
    return (
        figure,
        panels,
        [(column, frame[frame[key] == kind]) for column, kind in zip(panels.T, titles, strict=True)],
    )


def _style(name: str) -> dict[str, Any]:
    """Return the style of a bound's curve."""
    look = BOUND_LOOKS[name]
    return {"color": look.colour, "marker": look.marker, "label": look.label}


def _mark_sizes(axes: Axes, part: pd.DataFrame) -> None:
    """Set a tick at each n."""
    sizes = sorted(set(part["n"]))
    axes.set_xticks(sizes, [str(n) for n in sizes])
    axes.xaxis.minorticks_off()


def _write_numbers(axes: Axes) -> None:
    """Label the vertical logarithmic axis with numbers instead of powers."""
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.minorticks_off()


def _label(figure: Figure, panels: np.ndarray, x_label: str, *y_labels: str) -> Figure:
    """Return the figure with axis labels and one legend, which has each label once."""
    for axes in panels[-1]:
        axes.set_xlabel(x_label)
    for axes, label in zip(panels[:, 0], y_labels, strict=True):
        axes.set_ylabel(label)
    handles: dict[str, Any] = {}
    for axes in panels.ravel():
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    figure.legend(list(handles.values()), list(handles), loc="outside lower center", ncols=4)
    return figure


FIGURES = {
    draw.__name__: draw for draw in (coverage_95, coverage_80, width, expansion, penalty, duality, temperature, weights)
}
