"""Figures of the paper's lemmas. Each function takes the table of a lemma on one data set and returns a figure.

The module ``drcrm.experiments.lemmas`` describes the columns.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from drcrm.reports.figures.style import BOUND_LOOKS, GREY, SMALL, TAILS, Look

WIDE = 8.0  # inches: three panels side by side
LINE, CHARACTER = 0.6, 0.075  # inches: widths of a legend's line with its margins, and of a character
SIZE, RADIUS = "sample size n", "radius ε"
EXACT = 1e-16  # drawn in place of a difference of 0 on a logarithmic axis
NEGLIGIBLE = 1e-3  # drawn in place of smaller α_n
CALIBRATED: dict[str, Any] = {"color": GREY, "linestyle": ":", "label": "ε of Lemma 1, δ = 0.05"}
HIGHEST_BOUND = 1.0  # the axis of bounds at every look ends here
LARGEST_RATIO = 6.0  # the axis of temperature ratios ends here
BALLS = ("kl", "chi2", "squared_hellinger", "reverse_kl", "cressie_read_3")
COVERED = {  # method and radius → look
    ("kl", "printed"): Look("KL ball, printed radius", "#D55E00", "P"),
    ("kl", "rescaled"): Look("KL ball, radius × φ''(1)/2", "#E69F00", "X"),
    ("kl", "one_sided"): Look("KL ball, one-sided radius", "#009E73", "s"),
    **{(name, ""): BOUND_LOOKS[name] for name in ("student", "empirical_bernstein", "betting", "log_smoothing_best")},
}


def coverage_95(frame: pd.DataFrame, confidence: float = 0.95) -> Figure:
    """Lemma 1: draw the coverage of KL balls and other bounds against n with Monte Carlo intervals.

    Dashed lines are limits. Curves are shifted so that their intervals do not overlap. The coverage of the naive
    mean is below the axis and written there.
    """
    frame = frame[frame["confidence"] == confidence].assign(radius=frame["radius"].fillna(""))
    figure, panels, columns = _panels(frame, 1, 3.9)
    for (axes,), part in columns:
        _draw_coverage(axes, part, COVERED, confidence)
        naive = part.loc[part["method"] == "mean", "coverage"]
        text = f"naive mean: {naive.min():.2f} … {naive.max():.2f} ↓"
        axes.text(0.97, 0.03, text, transform=axes.transAxes, ha="right", color=GREY, fontsize=SMALL)
    return _label(figure, panels, SIZE, f"coverage (nominal {confidence:g})")


def coverage_80(frame: pd.DataFrame) -> Figure:
    """Lemma 1: draw the coverage at δ = 0.2."""
    return coverage_95(frame, 0.8)


def coverage_divergences(frame: pd.DataFrame) -> Figure:
    """Lemma 1: draw the coverage of balls of each divergence with one-sided radii, at δ = 0.05."""
    frame = frame[(frame["confidence"] == 0.95) & (frame["radius"] == "one_sided")]
    figure, panels, columns = _panels(frame, 1, 3.5)
    for (axes,), part in columns:
        _draw_coverage(axes, part, {(name, "one_sided"): BOUND_LOOKS[name] for name in BALLS}, 0.95)
    return _label(figure, panels, SIZE, "coverage (nominal 0.95)")


def _draw_coverage(axes: Axes, part: pd.DataFrame, looks: Mapping[tuple[str, str], Look], confidence: float) -> None:
    """Draw the coverage of some bounds with its interval and its limit, and the nominal level."""
    lowest = confidence
    for place, ((name, radius), look) in enumerate(looks.items()):
        curve = part[(part["method"] == name) & (part["radius"] == radius)]
        if curve.empty:  # logarithmic smoothing needs z ≤ 0
            continue
        shift, lowest = 1.1 ** (place - (len(looks) - 1) / 2), min(lowest, curve["low"].min())
        around = [curve["coverage"] - curve["low"], curve["high"] - curve["coverage"]]
        axes.errorbar(curve["n"] * shift, curve["coverage"], around, **look.style, elinewidth=0.7, linewidth=0.7)
        axes.axhline(curve["limit"].iloc[0], color=look.colour, linestyle="--", linewidth=0.6, zorder=0)
    axes.axhline(confidence, color="black", linewidth=0.8, zorder=0)
    axes.set_ylim(lowest - (1 - confidence) / 2, 1 + (1 - confidence) / 10)
    axes.set_xscale("log")
    _mark_sizes(axes, part)


def width(frame: pd.DataFrame) -> Figure:
    """Lemma 1: draw the mean width of bounds relative to Student's, at δ = 0.05.

    Balls have one-sided radii; a band covers the balls of all divergences.
    """
    frame = frame[(frame["confidence"] == 0.95) & frame["radius"].fillna("one_sided").eq("one_sided")]
    figure, panels, columns = _panels(frame, 1, 3.4, sharey=True)
    for (axes,), part in columns:
        of_balls = part[part["method"].isin(BALLS)].groupby("n")["width"].agg(["min", "max"])
        axes.fill_between(
            of_balls.index,
            of_balls["min"],
            of_balls["max"],
            color="#009E73",
            alpha=0.5,
            label="balls of five divergences",
        )
        axes.axhline(1, color="black", linewidth=0.8, label="Student")
        for name, curve in part[~part["method"].isin(("mean", "student", *BALLS))].groupby("method", sort=False):
            axes.loglog(curve["n"], curve["width"], **BOUND_LOOKS[str(name)].style)
        _mark_sizes(axes, part)
    _write_numbers(panels[0, 0])
    return _label(figure, panels, SIZE, "width / Student's width\n(↓ tighter)")


def expansion(frame: pd.DataFrame) -> Figure:
    """Lemma 2: draw √n |α_n| against n, as printed (above, tends to the dashed lines) and rescaled (below).

    Negligible values are drawn at the edge.
    """
    figure, panels, columns = _panels(frame, 2, 4.6, sharex=True, sharey=True)
    for column, part in columns:
        for name, curve in part.groupby("divergence", sort=False):
            style, limit = BOUND_LOOKS[str(name)].style, curve["limit"].iloc[0]
            for axes, kind in zip(column, ("printed", "rescaled"), strict=True):
                axes.loglog(curve["n"], curve[kind].clip(lower=NEGLIGIBLE), **style)
            if limit > 0:
                column[0].axhline(limit, color=style["color"], linestyle="--", linewidth=0.6, zorder=0)
    for axes in panels.ravel():
        axes.text(0.97, 0.08, "0.001 or less ↓", transform=axes.transAxes, ha="right", color=GREY, fontsize=SMALL)
    return _label(figure, panels, SIZE, "√n |α$_n$| / σ\nas printed", "√n |α$_n$| / σ\nrescaled")


def penalty(frame: pd.DataFrame) -> Figure:
    """Lemma 3: draw the χ² ball and mean + √(εV) (above), and their difference (below), against ε.

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
    return _label(figure, panels, RADIUS, "(value − mean) / √V", "difference / √V\n(0 is drawn at 10⁻¹⁶)")


def duality(frame: pd.DataFrame) -> Figure:
    """Lemma 4: draw the dual and the Boltzmann mean against γ (above), and their gap to the primal at γ* (below)."""
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
    return _label(figure, panels, RADIUS, "(value − mean) / √V", "difference / √V\n(0 is drawn at 10⁻¹⁶)")


def temperature(frame: pd.DataFrame) -> Figure:
    """Lemma 5: draw √(V/2ε) / γ* (above), and the premium of aKL-CRM relative to the KL ball's (below), against ε."""
    figure, panels, columns = _panels(frame, 2, 5.0, sharex=True, sharey="row")
    for (above, below), part in columns:
        above.loglog(part["radius"], part["ratio"], color="black", label="√(V/2ε)")
        below.loglog(part["radius"], part["premium"], color="#0072B2", label="aKL-CRM, V of Lemma 5")
        below.loglog(part["radius"], part["premium_sum"], color="#CC79A7", label="aKL-CRM, sum of Algorithm 1")
        if part["ratio"].max() > LARGEST_RATIO:
            above.text(0.97, 0.93, "to ∞ ↑", transform=above.transAxes, ha="right", fontsize=SMALL)
        for axes in (above, below):
            axes.axhline(1, color=GREY, linewidth=0.8, zorder=0)
            axes.axvline(part["calibrated"].iloc[0], **CALIBRATED)
    panels[0, 0].set_ylim(0.15, LARGEST_RATIO)
    for axes in panels[:, 0]:
        _write_numbers(axes)
    return _label(figure, panels, RADIUS, "temperature / γ*", "increase over the mean\n/ increase by the KL ball")


def every_look(frame: pd.DataFrame) -> Figure:
    """Draw the bounds on one growing sample (above), and how often a bound was ever false up to n (below).

    The horizontal lines are the true mean and the allowed error probability.
    """
    figure, panels, columns = _panels(frame, 2, 4.6, sharex=True, sharey="row")
    for (above, below), part in columns:
        for name, curve in part.groupby("method", sort=False):
            style = replace(BOUND_LOOKS[str(name)], marker="").style
            above.semilogx(curve["n"], curve["bound"], **style)
            below.semilogx(curve["n"], curve["false"], **style)
            below.fill_between(curve["n"], curve["low"], curve["high"], color=style["color"], alpha=0.15, linewidth=0)
        above.axhline(0, color="black", linewidth=0.8, zorder=0)
        below.axhline(0.05, color="black", linewidth=0.8, zorder=0)
    panels[0, 0].set_ylim(-0.1, HIGHEST_BOUND)
    return _label(figure, panels, SIZE, "(bound − true mean) / σ", "share ever false")


def weights(frame: pd.DataFrame) -> Figure:
    """Draw the worst-case weights n q of a small sample against z, for balls of equal value; KL-CRM is dashed.

    The weight of total variation at the largest z is written if it is above the axis. Reverse KL, which is close to
    squared Hellinger, is left out.
    """
    figure, panels, columns = _panels(frame[frame["divergence"] != "reverse_kl"], 1, 3.4)
    for (axes,), part in columns:
        for name, curve in part.groupby("divergence", sort=False):
            look = replace(BOUND_LOOKS[str(name)], marker="")
            line = "--" if name == "kl_crm" else "-"
            axes.plot(curve["z"], curve["weight"], **look.style, linestyle=line, linewidth=1)
        axes.plot(curve["z"], [0] * len(curve), "|", color="black", markersize=5, zorder=3, label="a loss")
        is_variation = part["divergence"] == "total_variation"
        end, largest = 1.1 * part.loc[~is_variation, "weight"].max(), part.loc[is_variation, "weight"].max()
        axes.set_ylim(top=end)
        if largest > end:
            look = BOUND_LOOKS["total_variation"]
            text = f"{look.label}: {largest:.2g} ↑"
            axes.text(0.03, 0.93, text, transform=axes.transAxes, color=look.colour, fontsize=SMALL)
    return _label(figure, panels, "loss z", "weight n q (1: as in the log)")


def _panels(
    frame: pd.DataFrame, rows: int, height: float, **shared: Any
) -> tuple[Figure, np.ndarray, list[tuple[np.ndarray, pd.DataFrame]]]:
    """Return a figure, its panels, and for each kind of tail its column of panels and its rows of the frame."""
    figure = Figure(figsize=(WIDE, height))
    panels = figure.subplots(rows, len(TAILS), squeeze=False, **shared)
    for axes, title in zip(panels[0], TAILS.values(), strict=True):
        axes.set_title(title)
    columns = [(column, frame[frame["tail"] == tail]) for column, tail in zip(panels.T, TAILS, strict=True)]
    return figure, panels, columns


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
    columns = min(len(handles), int(WIDE / (LINE + CHARACTER * max(map(len, handles)))))
    figure.legend(list(handles.values()), list(handles), loc="outside lower center", ncols=columns)
    return figure


FIGURES = {
    draw.__name__: draw
    for draw in (
        *(coverage_95, coverage_80, coverage_divergences),
        *(width, expansion, penalty, duality, temperature, every_look, weights),
    )
}
