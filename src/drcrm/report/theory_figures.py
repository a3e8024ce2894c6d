"""The figures of the paper's lemmas: each takes the table of a lemma on one data set and returns a matplotlib figure.

What the columns are: src/drcrm/simulation/theory.py.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from .style import BOUND_LOOKS, GREY, SMALL, TAILS

WIDE = 8.0  # inches: three or four panels side by side
EXACT = 1e-16  # what is drawn for a difference of 0 on a logarithmic axis
NEGLIGIBLE = 1e-3  # what is drawn for an α_n below it


RADII = {
    "printed": "ball, printed radius",
    "rescaled": "ball, × φ''(1)/2",
    "one_sided": "ball, one-sided",
    "": "other bounds",
}


def coverage_95(frame: pd.DataFrame) -> Figure:
    """Lemma 1 at δ = 0.05: see ``_coverage``."""
    return _coverage(frame[frame["confidence"] == 0.95], 0.95)


def coverage_80(frame: pd.DataFrame) -> Figure:
    """Lemma 1 at δ = 0.2: see ``_coverage``."""
    return _coverage(frame[frame["confidence"] == 0.8], 0.8)


def _coverage(frame: pd.DataFrame, confidence: float) -> Figure:
    """How often bounds hold against n, a row for each kind of tail, with Monte Carlo intervals; dashed the limits.

    Bounds stand side by side at each n. The naive mean is beyond the axis, and written there.
    """
    frame = frame.assign(radius=frame["radius"].fillna(""))
    figure = Figure(figsize=(WIDE, 6.4))
    panels = figure.subplots(len(TAILS), len(RADII), sharex=True, sharey="row")
    for row, tail in zip(panels, TAILS, strict=True):
        for axes, radius in zip(row, RADII, strict=True):
            part = frame[(frame["tail"] == tail) & (frame["radius"] == radius)]
            naive = part.loc[part["method"] == "mean", "coverage"]
            if len(naive):
                text = f"naive mean\n{naive.min():.2f} … {naive.max():.2f} ↓"
                axes.text(0.97, 0.04, text, transform=axes.transAxes, ha="right", color=GREY, fontsize=SMALL)
            _draw_coverage(axes, part[part["method"] != "mean"])
            axes.axhline(confidence, color="black", linewidth=0.8, zorder=0)
        of_row = frame[(frame["tail"] == tail) & (frame["method"] != "mean")]
        row[0].set_ylim(min(of_row["low"].min(), confidence) - (1 - confidence) / 4, 1 + (1 - confidence) / 10)
    for axes, title in zip(panels[0], RADII.values(), strict=True):
        axes.set_title(title)
    figure.supylabel("Coverage")
    return _labelled(figure, panels, "n", *TAILS.values())


def _draw_coverage(axes: Axes, part: pd.DataFrame) -> None:
    methods = list(dict.fromkeys(part["method"]))
    for place, (name, curve) in enumerate(part.groupby("method", sort=False)):
        look, shift = BOUND_LOOKS[name], 1.12 ** (place - (len(methods) - 1) / 2)
        around = [curve["coverage"] - curve["low"], curve["high"] - curve["coverage"]]
        style = {"color": look.colour, "marker": look.marker, "label": look.label, "elinewidth": 0.7, "linewidth": 0.7}
        axes.errorbar(curve["n"] * shift, curve["coverage"], around, **style)
        axes.axhline(curve["limit"].iloc[0], color=look.colour, linestyle="--", linewidth=0.6, zorder=0)
    axes.set_xscale("log")
    sizes = sorted(set(part["n"]))
    axes.set_xticks(sizes, [str(n) for n in sizes])
    axes.minorticks_off()


def width(frame: pd.DataFrame) -> Figure:
    """Lemma 1: the mean width of each bound ÷ that of Student's, against n, at δ = 0.05; balls of one-sided radii."""
    frame = frame[(frame["confidence"] == 0.95) & frame["radius"].fillna("one_sided").eq("one_sided")]
    figure, panels = _panels(1, 3.2, sharey=True)
    for axes, part in zip(panels[0], _by_tail(frame), strict=True):
        for name, curve in part[part["method"] != "mean"].groupby("method", sort=False):
            look = BOUND_LOOKS[name]
            axes.loglog(curve["n"], curve["width"], color=look.colour, marker=look.marker, label=look.label)
        sizes = sorted(set(part["n"]))
        axes.set_xticks(sizes, [str(n) for n in sizes])
        axes.xaxis.minorticks_off()
    _write_numbers(panels[0, 0])
    return _labelled(figure, panels, "n", "width / Student's")


def expansion(frame: pd.DataFrame) -> Figure:
    """Lemma 2: √n |α_n| against n, above as printed, which tends to the dashed lines, below rescaled.

    What is negligible stands at the edge.
    """
    figure, panels = _panels(2, 4.6, sharex=True, sharey=True)
    for row, kind in zip(panels, ("printed", "rescaled"), strict=True):
        for axes, part in zip(row, _by_tail(frame), strict=True):
            for name, curve in part.groupby("divergence", sort=False):
                look = BOUND_LOOKS[name]
                height = curve[kind].clip(lower=NEGLIGIBLE)
                axes.loglog(curve["n"], height, color=look.colour, marker=look.marker, label=look.label)
                if kind == "printed" and curve["limit"].iloc[0] > 0:
                    axes.axhline(curve["limit"].iloc[0], color=look.colour, linestyle="--", linewidth=0.6, zorder=0)
    limits = "√(εV/n)", "√(2εV/(nφ''(1)))"
    return _labelled(figure, panels, "n", *(f"√n |α$_n$| / σ, against\n{limit}" for limit in limits))


def penalty(frame: pd.DataFrame) -> Figure:
    """Lemma 3: the χ² ball and mean + √(εV) against ε, and below their difference; a line where a weight comes to 0.

    The ball is the primal, which is found without a variance.
    """
    figure, panels = _panels(2, 4.2, sharex=True, sharey="row")
    for (above, below), part in zip(panels.T, _by_tail(frame), strict=True):
        above.loglog(part["radius"], part["penalised"], color="#E69F00", label="variance penalty √(εV)")
        above.loglog(part["radius"], part["primal"], "--", color="#D55E00", label="χ² ball − mean")
        gap = (part["penalised"] - part["primal"]).abs().clip(lower=EXACT)
        below.loglog(part["radius"], gap, color="black", label="their difference")
        for axes in (above, below):
            axes.axvline(part["breaking"].iloc[0], color=GREY, linewidth=1, label="a weight comes to 0")
            _mark_calibrated(axes, part)
    return _labelled(figure, panels, "ε", "(value − mean) / √V", "difference / √V")


def duality(frame: pd.DataFrame) -> Figure:
    """Lemma 4: the dual and the Boltzmann mean against γ, which meet at γ*; there their distance from the primal."""
    figure, panels = _panels(2, 4.6, sharex="row", sharey="row")
    radius = frame["radius"].median()
    for (above, below), part in zip(panels.T, _by_tail(frame), strict=True):
        curve = part[part["radius"] == radius]
        above.semilogx(curve["temperature"], curve["dual"], color="#0072B2", label="dual at γ")
        above.semilogx(curve["temperature"], curve["boltzmann"], color="#E69F00", label="Boltzmann at γ")
        above.axhline(curve["primal"].iloc[0], color="black", linestyle="--", label=f"primal at ε = {radius:.2g}")
        above.set_xlabel("γ / γ*")
        best = part[(part["temperature"] - 1).abs() < 1e-9]
        for name, label, colour, marker in (
            ("dual", "dual at γ*", "#0072B2", "v"),
            ("boltzmann", "Boltzmann at γ*", "#E69F00", "^"),
        ):
            gap = (best[name] - best["primal"]).abs().clip(lower=EXACT)
            below.loglog(best["radius"], gap, marker, color=colour, label=f"|{label} − primal|")
        below.set_ylim(EXACT / 2, 1e-8)
    panels[0, 0].set_ylim(0, 3 * frame.loc[frame["radius"] == radius, "primal"].min())
    return _labelled(figure, panels, "ε", "(value − mean) / √V", "difference / √V")


def temperature(frame: pd.DataFrame) -> Figure:
    """Lemma 5: √(V/2ε) ÷ γ*, and what aKL-CRM adds to the mean ÷ what the KL ball adds, against ε."""
    figure, panels = _panels(2, 5.0, sharex=True, sharey="row")
    for (above, below), part in zip(panels.T, _by_tail(frame), strict=True):
        above.loglog(part["radius"], part["ratio"], color="black", label="√(V/2ε) / γ*")
        below.loglog(part["radius"], part["premium"], color="#0072B2", label="added by aKL-CRM / by the KL ball")
        below.loglog(part["radius"], part["premium_sum"], color="#CC79A7", label="… with Algorithm 1's sum for V")
        for axes in (above, below):
            axes.axhline(1, color=GREY, linewidth=0.8, zorder=0)
            _mark_calibrated(axes, part)
    panels[0, 0].set_ylim(0.15, 6)
    for axes in panels[:, 0]:
        _write_numbers(axes)
    return _labelled(figure, panels, "ε", "temperature / exact", "added / exact")


def weights(frame: pd.DataFrame) -> Figure:
    """The worst-case weights n q against z of a small sample, for balls of the same value; dashed KL-CRM's gradient."""
    figure, panels = _panels(1, 3.2)
    for axes, part in zip(panels[0], _by_tail(frame), strict=True):
        for name, curve in part.groupby("divergence", sort=False):
            look = BOUND_LOOKS[name]
            line = "--" if name == "kl_crm" else "-"
            axes.plot(curve["z"], curve["weight"], line, color=look.colour, label=look.label, linewidth=0.9)
        axes.plot(curve["z"], [0] * len(curve), "|", color="black", markersize=5, zorder=3)
        axes.set_ylim(top=1.1 * part.loc[part["divergence"] != "total_variation", "weight"].max())
    return _labelled(figure, panels, "z", "weight n q")


def _panels(rows: int, height: float, **shared):
    """A figure with a column for each kind of tail."""
    figure = Figure(figsize=(WIDE, height))
    panels = figure.subplots(rows, len(TAILS), squeeze=False, **shared)
    for axes, title in zip(panels[0], TAILS.values(), strict=True):
        axes.set_title(title)
    return figure, panels


def _write_numbers(axes: Axes) -> None:
    """Numbers in place of powers on a logarithmic axis upwards."""
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.minorticks_off()


def _mark_calibrated(axes: Axes, part: pd.DataFrame) -> None:
    """A line at the printed radius of Lemma 1."""
    axes.axvline(part["calibrated"].iloc[0], color=GREY, linestyle=":", label="ε of Lemma 1, δ = 0.05")


def _by_tail(frame: pd.DataFrame) -> list[pd.DataFrame]:
    return [frame[frame["tail"] == tail] for tail in TAILS]


def _labelled(figure: Figure, panels: np.ndarray, below: str, *beside: str) -> Figure:
    """The figure with labels below its panels and beside each row, and one legend for all, each label once."""
    for axes in panels[-1]:
        axes.set_xlabel(below)
    for axes, label in zip(panels[:, 0], beside, strict=True):
        axes.set_ylabel(label)
    handles: dict[str, object] = {}
    for axes in panels.ravel():
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    figure.legend(handles.values(), handles, loc="outside lower center", ncols=4)
    return figure


FIGURES = {
    draw.__name__: draw for draw in (coverage_95, coverage_80, width, expansion, penalty, duality, temperature, weights)
}
