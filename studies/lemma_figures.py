"""Figures of the paper's lemmas: a column of panels for each kind of tail, from the table of a lemma on one data set.

The module ``lemma_tables`` describes the columns.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from drcrm.paper.reports.plan import GREY, SMALL, Look

WIDE = 8.0  # inches: three panels side by side
LINE, CHARACTER = 0.6, 0.075  # inches: widths of a legend's line with its margins, and of a character
SIZE, RADIUS = "sample size n", "radius ε"
EXACT = 1e-16  # drawn in place of a difference of 0 on a logarithmic axis
NEGLIGIBLE = 1e-3  # drawn in place of smaller α_n
REFERENCE: dict[str, Any] = {"color": "black", "linewidth": 0.8, "zorder": 0}  # a horizontal line
CALIBRATED: dict[str, Any] = {"color": GREY, "linestyle": ":", "label": "ε of Lemma 1, δ = 0.05"}
HIGHEST_BOUND = 1.0  # the axis of bounds at every look ends here
LARGEST_RATIO = 6.0  # the axis of temperature ratios ends here
TAILS = {"light": "clipped, z ≤ 0", "left": "unclipped, z ≤ 0", "right": "unclipped, z ≥ 0"}
BOUND_LOOKS = {
    "kl": Look("KL", "#009E73", "P"),
    "chi2": Look("χ²", "#D55E00", "X"),
    "squared_hellinger": Look("squared Hellinger", "#0072B2", "v"),
    "reverse_kl": Look("reverse KL", "#CC79A7", "D"),
    "cressie_read_3": Look("Cressie–Read, k = 3", "#E69F00", "s"),
    "total_variation": Look("total variation", "#882255", "<"),
    "cvar": Look("CVaR", "#000000", ">"),
    "kl_crm": Look("KL-CRM", "#56B4E9", "^"),
    "mean": Look("naive mean", GREY, "o"),
    "student": Look("Student", "#000000", "o"),
    "empirical_bernstein": Look("empirical Bernstein", "#882255", "^"),
    "log_smoothing": Look("log smoothing, λ = 1/√n", "#44AA99", "<"),
    "log_smoothing_best": Look("log smoothing, best λ", "#117733", "*"),
    "anytime": Look("holds at every look", "#D55E00", "v"),
    "betting": Look("betting", "#332288", ">"),
}
BALLS = ("kl", "chi2", "squared_hellinger", "reverse_kl", "cressie_read_3")
BALL_LOOKS = {(name, "one_sided"): BOUND_LOOKS[name] for name in BALLS}
COVERED = {  # method and radius → look
    ("kl", "printed"): Look("KL ball, printed radius", "#D55E00", "P"),
    ("kl", "rescaled"): Look("KL ball, radius × φ''(1)/2", "#E69F00", "X"),
    ("kl", "one_sided"): Look("KL ball, one-sided radius", "#009E73", "s"),
    **{(name, ""): BOUND_LOOKS[name] for name in ("student", "empirical_bernstein", "betting", "log_smoothing_best")},
}


@dataclass(frozen=True)
class TailFigure:
    """A figure with a column of panels for each kind of tail.

    Attributes
    ----------
    draw : callable
        Draws a column, given its panels from top to bottom and its rows of the table.
    height : float
        In inches.
    x_label : str
    y_labels : sequence of str
        One for each row of panels.
    shared : mapping
        The arguments ``sharex`` and ``sharey`` of matplotlib.
    """

    draw: Callable[[Sequence[Axes], pd.DataFrame], None]
    height: float
    x_label: str
    y_labels: Sequence[str]
    shared: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, frame: pd.DataFrame) -> Figure:
        """Return the figure of a table. Its legend has each label once."""
        figure = Figure(figsize=(WIDE, self.height))
        panels = figure.subplots(len(self.y_labels), len(TAILS), squeeze=False, **self.shared)
        handles: dict[str, Any] = {}
        for column, (tail, title) in zip(panels.T, TAILS.items(), strict=True):
            self.draw(column, frame[frame["tail"] == tail])
            column[0].set_title(title)
            column[-1].set_xlabel(self.x_label)
            for axes in column:
                handles |= dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
        for axes, label in zip(panels[:, 0], self.y_labels, strict=True):
            axes.set_ylabel(label)
        columns = min(len(handles), int(WIDE / (LINE + CHARACTER * max(map(len, handles)))))
        figure.legend(list(handles.values()), list(handles), loc="outside lower center", ncols=columns)
        return figure


def _draw_coverage(
    panels: Sequence[Axes], part: pd.DataFrame, looks: Mapping[tuple[str, str], Look], confidence: float = 0.95
) -> None:
    """Draw the coverage of bounds against n with Monte Carlo intervals. Dashed lines are limits.

    Curves are shifted so that their intervals do not overlap. If the coverage of the naive mean is below the axis, it
    is written there.
    """
    [axes], lowest = panels, confidence
    part = part[part["confidence"] == confidence]
    for place, ((name, radius), look) in enumerate(looks.items()):
        curve = part[(part["method"] == name) & (part["radius"].fillna("") == radius)]
        if curve.empty:  # logarithmic smoothing needs z ≤ 0
            continue
        shift, lowest = 1.1 ** (place - (len(looks) - 1) / 2), min(lowest, curve["low"].min())
        around = [curve["coverage"] - curve["low"], curve["high"] - curve["coverage"]]
        axes.errorbar(curve["n"] * shift, curve["coverage"], around, **look.style, elinewidth=0.7, linewidth=0.7)
        axes.axhline(curve["limit"].iloc[0], color=look.colour, linestyle="--", linewidth=0.6, zorder=0)
    axes.axhline(confidence, **REFERENCE)
    axes.set_ylim(lowest - (1 - confidence) / 2, 1 + (1 - confidence) / 10)
    naive = part.loc[part["method"] == "mean", "coverage"]
    if naive.max() < axes.get_ylim()[0]:
        _write_in(axes, 0.03, f"naive mean: {naive.min():.2f} … {naive.max():.2f} ↓")
    _mark_sizes(axes, part)


def _draw_width(panels: Sequence[Axes], part: pd.DataFrame) -> None:
    """Draw the mean width of bounds relative to Student's, at δ = 0.05. A band covers the balls of all divergences."""
    [axes] = panels
    part = part[(part["confidence"] == 0.95) & part["radius"].fillna("one_sided").eq("one_sided")]
    low, high = (part[part["method"].isin(BALLS)].groupby("n")["width"].agg(end) for end in ("min", "max"))
    axes.fill_between(low.index, low, high, color="#009E73", alpha=0.5, label="balls of five divergences")
    axes.axhline(1, color="black", linewidth=0.8, label="Student")
    _draw_lines(axes, part[~part["method"].isin(("mean", "student", *BALLS))], "n", "width", "method")
    axes.set_yscale("log")
    _mark_sizes(axes, part)
    _write_numbers(axes)


def _draw_expansion(panels: Sequence[Axes], part: pd.DataFrame) -> None:
    """Draw √n |α_n| against n, as printed (above, tends to the dashed lines) and rescaled (below)."""
    for axes, kind in zip(panels, ("printed", "rescaled"), strict=True):
        _draw_lines(axes, part.assign(drawn=part[kind].clip(lower=NEGLIGIBLE)), "n", "drawn", "divergence")
        axes.set(xscale="log", yscale="log")
        _write_in(axes, 0.08, "0.001 or less ↓")
    for name, limit in part[part["limit"] > 0].groupby("divergence")["limit"].first().items():
        panels[0].axhline(limit, color=BOUND_LOOKS[str(name)].colour, linestyle="--", linewidth=0.6, zorder=0)


def _draw_penalty(panels: Sequence[Axes], part: pd.DataFrame) -> None:
    """Draw the χ² ball and mean + √(εV) (above), and their difference (below), against ε.

    A vertical line marks the first ε with a weight of 0. The value of the ball is that of the primal problem, which
    does not use a variance.
    """
    above, below = panels
    above.loglog(part["radius"], part["penalised"], color="#E69F00", label="variance penalty √(εV)")
    above.loglog(part["radius"], part["primal"], "--", color="#D55E00", label="χ² ball − mean")
    gap = (part["penalised"] - part["primal"]).abs().clip(lower=EXACT)
    below.loglog(part["radius"], gap, color="black", label="difference")
    for axes in panels:
        axes.axvline(part["breaking"].iloc[0], color=GREY, linewidth=1, label="a weight reaches 0")
        axes.axvline(part["calibrated"].iloc[0], **CALIBRATED)


def _draw_duality(panels: Sequence[Axes], part: pd.DataFrame) -> None:
    """Draw the dual and the Boltzmann mean against γ (above), and their gap to the primal at γ* (below)."""
    above, below = panels
    radius = part["radius"].quantile(interpolation="lower")
    curve, best = part[part["radius"] == radius], part[(part["temperature"] - 1).abs() < 1e-9]
    for name, colour, marker in (("dual", "#0072B2", "v"), ("Boltzmann", "#E69F00", "^")):
        above.semilogx(curve["temperature"], curve[name.lower()], color=colour, label=f"{name} at γ")
        gap = (best[name.lower()] - best["primal"]).abs().clip(lower=EXACT)
        below.loglog(best["radius"], gap, marker, color=colour, label=f"|{name} at γ* − primal|")
    primal = curve["primal"].iloc[0]
    above.axhline(primal, color="black", linestyle="--", label=f"primal at ε = {radius:.2g}")
    above.set(xlabel="γ / γ*", ylim=(0, 3 * primal))
    below.set_ylim(EXACT / 2, 1e-8)


def _draw_temperature(panels: Sequence[Axes], part: pd.DataFrame) -> None:
    """Draw √(V/2ε) / γ* (above), and the premium of aKL-CRM relative to the KL ball's (below), against ε."""
    above, below = panels
    above.loglog(part["radius"], part["ratio"], color="black", label="√(V/2ε)")
    below.loglog(part["radius"], part["premium"], color="#0072B2", label="aKL-CRM, V of Lemma 5")
    below.loglog(part["radius"], part["premium_sum"], color="#CC79A7", label="aKL-CRM, sum of Algorithm 1")
    above.set_ylim(0.15, LARGEST_RATIO)
    if part["ratio"].max() > LARGEST_RATIO:
        _write_in(above, 0.93, "to ∞ ↑")
    for axes in panels:
        axes.axhline(1, **REFERENCE)
        axes.axvline(part["calibrated"].iloc[0], **CALIBRATED)
        _write_numbers(axes)


def _draw_every_look(panels: Sequence[Axes], part: pd.DataFrame) -> None:
    """Draw the bounds on one growing sample (above), and how often a bound was ever false up to n (below).

    The horizontal lines are the true mean and the allowed error probability.
    """
    above, below = panels
    _draw_lines(above, part, "n", "bound", "method", marker="")
    _draw_lines(below, part, "n", "false", "method", marker="")
    for name, curve in part.groupby("method"):
        colour = BOUND_LOOKS[str(name)].colour
        below.fill_between(curve["n"], curve["low"], curve["high"], color=colour, alpha=0.15, linewidth=0)
    for axes, level in zip(panels, (0, 0.05), strict=True):
        axes.axhline(level, **REFERENCE)
        axes.set_xscale("log")
    above.set_ylim(-0.1, HIGHEST_BOUND)


def _draw_weights(panels: Sequence[Axes], part: pd.DataFrame) -> None:
    """Draw the worst-case weights n q of a small sample against z, for balls of equal value; KL-CRM is dashed.

    The weight of total variation at the largest z is written if it is above the axis. Reverse KL, which is close to
    squared Hellinger, is left out.
    """
    [axes] = panels
    part = part[part["divergence"] != "reverse_kl"]
    is_dashed, is_variation = part["divergence"] == "kl_crm", part["divergence"] == "total_variation"
    _draw_lines(axes, part[~is_dashed], "z", "weight", "divergence", marker="", linewidth=1)
    _draw_lines(axes, part[is_dashed], "z", "weight", "divergence", marker="", linewidth=1, linestyle="--")
    axes.plot(part["z"], [0] * len(part), "|", color="black", markersize=5, zorder=3, label="a loss")
    end, largest = 1.1 * part.loc[~is_variation, "weight"].max(), part.loc[is_variation, "weight"].max()
    axes.set_ylim(top=end)
    if largest > end:
        look = BOUND_LOOKS["total_variation"]
        _write_in(axes, 0.93, f"{look.label}: {largest:.2g} ↑", 0.03, "left", look.colour)


def _draw_lines(axes: Axes, part: pd.DataFrame, x: str, y: str, key: str, **style: Any) -> None:
    """Draw a column against another, a line for each bound or divergence."""
    for name, curve in part.groupby(key, sort=False):
        axes.plot(curve[x], curve[y], **BOUND_LOOKS[str(name)].style | style)


def _write_in(
    axes: Axes, height: float, text: str, left: float = 0.97, side: str = "right", colour: str = GREY
) -> None:
    """Write a text inside the axes, at shares of their height and width."""
    axes.text(left, height, text, transform=axes.transAxes, ha=side, color=colour, fontsize=SMALL)


def _mark_sizes(axes: Axes, part: pd.DataFrame) -> None:
    """Set a tick at each n of a logarithmic axis."""
    sizes = sorted(set(part["n"]))
    axes.set_xscale("log")
    axes.set_xticks(sizes, [str(n) for n in sizes])
    axes.xaxis.minorticks_off()


def _write_numbers(axes: Axes) -> None:
    """Label the vertical logarithmic axis with numbers instead of powers."""
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.minorticks_off()


ROWS = {"sharex": True, "sharey": "row"}
FIGURES = {
    "coverage_95": TailFigure(partial(_draw_coverage, looks=COVERED), 3.9, SIZE, ["coverage (nominal 0.95)"]),
    "coverage_80": TailFigure(
        partial(_draw_coverage, looks=COVERED, confidence=0.8), 3.9, SIZE, ["coverage (nominal 0.8)"]
    ),
    "coverage_divergences": TailFigure(
        partial(_draw_coverage, looks=BALL_LOOKS), 3.5, SIZE, ["coverage (nominal 0.95)"]
    ),
    "width": TailFigure(_draw_width, 3.4, SIZE, ["width / Student's width\n(↓ tighter)"], {"sharey": True}),
    "expansion": TailFigure(
        _draw_expansion,
        *(4.6, SIZE, ["√n |α$_n$| / σ\nas printed", "√n |α$_n$| / σ\nrescaled"]),
        {"sharex": True, "sharey": True},
    ),
    "penalty": TailFigure(
        _draw_penalty, 4.2, RADIUS, ["(value − mean) / √V", "difference / √V\n(0 is drawn at 10⁻¹⁶)"], ROWS
    ),
    "duality": TailFigure(
        _draw_duality,
        *(4.6, RADIUS, ["(value − mean) / √V", "difference / √V\n(0 is drawn at 10⁻¹⁶)"]),
        {"sharex": "row", "sharey": "row"},
    ),
    "temperature": TailFigure(
        _draw_temperature,
        *(5.0, RADIUS, ["temperature / γ*", "increase over the mean\n/ increase by the KL ball"]),
        ROWS,
    ),
    "every_look": TailFigure(_draw_every_look, 4.6, SIZE, ["(bound − true mean) / σ", "share ever false"], ROWS),
    "weights": TailFigure(_draw_weights, 3.4, "loss z", ["weight n q (1: as in the log)"]),
}
