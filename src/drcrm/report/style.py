"""How algorithms and data sets are named and drawn: the same in every table and figure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..registry import GREY, ROLES, Look

FIGURE_TITLES = {
    "replay_count": "Loss and replay count",
    "grid": "Loss along the grids",
    "surprise": "Post-decision surprise",
    "certificates": "Certified and true loss",
    "paired": "Paired differences to POEM",
    "ablation": "Estimate, start and risk",
}

START_LOOKS = {
    "zero": Look("Θ = 0", "#000000", "o"),
    "logging": Look("π0", "#0072B2", "s"),
    "model": Look("π0, tilted by the cost model", "#D55E00", "^"),
    "imitation": Look("imitation", "#CC79A7", "D"),
}

COLUMN = 3.4  # inches: the width of a paper's column

RC = {
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 8,
    "figure.constrained_layout.use": True,
    "font.size": 8,
    "grid.alpha": 0.3,
    "legend.frameon": False,
    "lines.linewidth": 1.2,
    "lines.markersize": 4,
    "pdf.fonttype": 42,
    "savefig.dpi": 200,
    "svg.fonttype": "none",
    "svg.hashsalt": "drcrm",
}


@dataclass(frozen=True)
class Names:
    """The looks of algorithms, and what data sets are called; what it does not know goes by its key.

    Parameters
    ----------
    algorithms : mapping from a name to label, colour and marker
    datasets : mapping from a name to a label
    starts : mapping from an algorithm to its names by start
        Of an ablation.
    """

    algorithms: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    datasets: Mapping[str, str] = field(default_factory=dict)
    starts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def look(self, algorithm: str) -> Look:
        """The look of an algorithm, or of π0 and the skyline."""
        if algorithm in ROLES:
            return ROLES[algorithm]
        known = {"label": algorithm.replace("_", " "), "colour": GREY, "marker": "*"}
        return Look(**{**known, **self.algorithms.get(algorithm, {})})

    def label(self, algorithm: str) -> str:
        """The name of an algorithm in print."""
        return self.look(algorithm).label

    def dataset(self, dataset: str) -> str:
        """The name of a data set in print."""
        return self.datasets.get(dataset, dataset.replace("_", " "))
