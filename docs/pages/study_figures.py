"""Figures of the studies. Each function takes the table of the study of its name and returns a figure."""

from __future__ import annotations

from itertools import product

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.markers import CARETLEFTBASE

from drcrm.paper.reports.plan import GREY, Look

WIDE = 8.0  # inches: three panels side by side
KINDS = {"label_vectors": "Label vectors", "single_choice": "One action of K", "action_lists": "Lists of actions"}
LOOKS = {
    "logging": Look("π0 (logging policy)", GREY, line=":"),
    "cips": Look("CIPS without clipping", "#000000", "o"),
    "doubly_robust_dro": Look("KL-DRO, DR without clipping", "#009E73", "P"),
}
SHIFT = 1.06  # factor between the curves at each n
SETS = {"men": "Men", "women": "Women"}
LOGS = {"bts": "learned from bts,\nevaluated on random", "random": "learned from random,\nevaluated on bts"}
POLICIES = {  # name in the study → label
    "bts": "bts (Thompson sampling)",
    "random": "random (uniform)",
    "imitation": "behaviour cloning",
    "best item": "most clicked item",
    "kl_dro_dr": "KL-DRO, DR",
    "kl_dro_dr_map": "KL-DRO, DR, feature map",
    "cips": "CIPS",
    "poem": "POEM",
    "snips": "SNIPS",
    "kl_dro": "KL-DRO",
    "weighted_likelihood": "weighted likelihood",
}
BY_VERDICT = {
    "own average": Look("logged: average of its log", "#000000", "s"),
    "not shown": Look("not shown", "#0072B2", "o"),
    "worse": Look("worse", "#D55E00", "v"),
    "the log cannot say": Look("the log cannot say", "#999999", "D"),
    "better": Look("better", "#009E73", "^"),
    "the log is wrong": Look("the log is wrong", "#CC79A7", "X"),
}
MAX_CLICK_RATE = 2.5  # percent, the end of the axis


def kinds(rows: pd.DataFrame) -> Figure:
    """Draw the expected cost in excess of the best policy against n, one panel per kind of action."""
    figure = Figure(figsize=(WIDE, 3.4))
    panels = figure.subplots(1, len(KINDS), sharex=True, sharey=True)
    for axes, (kind, title) in zip(panels, KINDS.items(), strict=True):
        axes.set_title(title)
        axes.set_xlabel("logged rows n")
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
    panels[0].set_ylabel("expected cost − best policy's\n(↓ better)")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(LOOKS))
    return figure


def obd(rows: pd.DataFrame) -> Figure:
    """Draw click rates with intervals: the average of policies that logged, the DR estimate of all others.

    An interval that reaches below 0 ends in an arrow.
    """
    figure = Figure(figsize=(WIDE, 6.2))
    panels = figure.subplots(len(SETS), len(LOGS), sharex=True, sharey=True)
    policies, drawn = list(dict.fromkeys(rows["policy"])), {}
    rows = rows.assign(verdict=rows["verdict"].fillna("own average"), place=rows["policy"].map(policies.index))
    for (clothes, log), axes in zip(product(SETS, LOGS), panels.flat, strict=True):
        part = rows[(rows["set"] == clothes) & (rows["learned"] == log)]
        axes.set_title(f"{SETS[clothes]}: {LOGS[log]}")
        bts_interval = 100 * part[part["policy"] == "bts"][["ips_low", "ips_high"]].to_numpy()[0]
        drawn["95 % interval of bts"] = axes.axvspan(*bts_interval, color="#000000", alpha=0.08, linewidth=0)
        for verdict, look in BY_VERDICT.items():
            judged = part[part["verdict"] == verdict]
            if judged.empty:
                continue
            estimate = "ips" if verdict == "own average" else "dr"
            value, low, high = (100 * judged[name] for name in (estimate, f"{estimate}_low", f"{estimate}_high"))
            style = {"color": look.colour, "marker": look.marker, "linestyle": ""}
            drawn[look.label] = axes.errorbar(value, judged["place"], xerr=[value - low, high - value], **style)
            for place in judged["place"][low < 0]:
                axes.plot(0, place, color=look.colour, marker=CARETLEFTBASE, clip_on=False)
    panels[0, 0].set_yticks(range(len(policies)), [POLICIES[policy] for policy in policies])
    panels[0, 0].invert_yaxis()
    panels[0, 0].set_xlim(0, MAX_CLICK_RATE)
    for axes in panels[-1]:
        axes.set_xlabel("click rate, % (better →)")
    figure.legend(drawn.values(), drawn.keys(), loc="outside lower center", ncols=len(drawn))
    return figure


FIGURES = {draw.__name__: draw for draw in (kinds, obd)}
