"""The figures: each takes a tidy frame and returns a matplotlib figure; saving is elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from .statistics import UNRANKED, interval
from .style import GREY, METRICS, SELECTIONS, dataset_label, look


def replay_count(metrics: pd.DataFrame, dataset: str, selection: str, seeds: int, counts: Sequence[int]) -> Figure:
    """Expected Hamming loss against the replay count: means over seeds, with 95 % intervals. The paper's Figure 1.

    π0 and the skyline are lines; a count at which a seed is missing is a gap. Algorithms stand side by side at each
    count, so that their intervals can be told apart.
    """
    metric = "expected_hamming"
    at = metrics[(metrics["dataset"] == dataset) & (metrics["selection"] == selection) & (metrics["seed"] < seeds)]
    figure = Figure(figsize=(3.4, 3.0))
    axes = figure.subplots()
    algorithms = list(dict.fromkeys(at["algorithm"]))
    for place, algorithm in enumerate(algorithms):
        runs = at[at["algorithm"] == algorithm].pivot(index="seed", columns="replay_count", values=metric)
        runs = runs.reindex(index=range(seeds), columns=counts)
        drawn = look(algorithm)
        of = [interval(runs[count].to_numpy()) for count in counts]
        mean = np.array([i.mean for i in of])
        if algorithm in UNRANKED:
            style = ":" if algorithm == "logging" else "--"
            axes.plot(counts, mean, style, color=GREY, label=drawn.label)
            continue
        beside = np.array(counts) * 2 ** (0.5 * (place / (len(algorithms) - 1) - 0.5))
        reach = [i.high - i.mean for i in of]
        axes.errorbar(beside, mean, reach, color=drawn.colour, marker=drawn.marker, label=drawn.label, elinewidth=0.7)
    axes.set_xscale("log", base=2)
    axes.set_xticks(counts, [str(count) for count in counts])
    axes.minorticks_off()
    axes.set_xlabel("Replay count Δ")
    axes.set_ylabel(METRICS[metric])
    axes.set_title(f"{dataset_label(dataset)}: {seeds} seeds, chosen by {SELECTIONS[selection]}")
    figure.legend(loc="outside lower center", ncols=3, fontsize=7)
    return figure


FIGURES = {"replay_count": replay_count}
