"""The figures of studies: each takes the table of the study of its name and returns a matplotlib figure."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from .style import GREY, Look

WIDE = 8.0  # inches: three panels side by side
KINDS = {"label_vectors": "Label vectors", "single_choice": "One action of K", "action_lists": "Lists of actions"}
LOOKS = {
    "logging": Look("π0", GREY, line=":"),
    "cips": Look("CIPS, not clipped", "#000000", "o"),
    "doubly_robust_dro": Look("DoublyRobustDRO, not clipped", "#009E73", "P"),
}
SHIFT = 1.06  # by which algorithms stand beside each n


def kinds(rows: pd.DataFrame) -> Figure:
    """Expected cost above the best policy's against n, a panel for each kind, with intervals that are above 0."""
    figure = Figure(figsize=(WIDE, 3.4))
    panels = figure.subplots(1, len(KINDS), sharex=True, sharey=True)
    for axes, (kind, title) in zip(panels, KINDS.items(), strict=True):
        axes.set_title(title)
        axes.set_xlabel("n, logged rows")
        axes.set_xscale("log")
        axes.set_yscale("log", nonpositive="clip")
        for place, (name, look) in enumerate(LOOKS.items()):
            part = rows[(rows["kind"] == kind) & (rows["algorithm"] == name)].sort_values("n")
            style = {"color": look.colour, "label": look.label, "linestyle": look.line}
            if look.marker:
                error = [part["mean"] - part["low"], part["high"] - part["mean"]]
                n = part["n"] * SHIFT ** (2 * place - 3)
                axes.errorbar(n, part["mean"], error, marker=look.marker, capsize=2, linewidth=1, **style)
            else:
                axes.plot(part["n"], part["mean"], linewidth=1, **style)
    panels[0].set_ylim(rows["mean"].min() / 2, rows["mean"].max() * 1.5)
    panels[0].set_ylabel("expected cost above the best")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(LOOKS))
    return figure


FIGURES = {draw.__name__: draw for draw in (kinds,)}
