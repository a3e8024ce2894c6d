"""How algorithms, data sets and metrics are named and drawn: the same in every table and figure."""

from __future__ import annotations

from dataclasses import dataclass

GREY = "#666666"


@dataclass(frozen=True)
class Look:
    """A label in text and in LaTeX, a colour the colour-blind can tell apart (Okabe & Ito), a marker and a line."""

    label: str
    latex: str
    colour: str
    marker: str
    line: str = "-"


LOOKS = {
    "logging": Look("π0", r"$\pi_0$", GREY, "", ":"),
    "cips": Look("CIPS", "CIPS", "#000000", "o"),
    "poem": Look("POEM", "POEM", "#E69F00", "s"),
    "kl_crm": Look("KL-CRM", "KL-CRM", "#56B4E9", "^"),
    "akl_crm": Look("aKL-CRM", "aKL-CRM", "#0072B2", "v"),
    "akl_crm_sum": Look("aKL-CRM (sum)", "aKL-CRM (sum)", "#CC79A7", "D"),
    "kl_dro": Look("KL-DRO", "KL-DRO", "#009E73", "P"),
    "chi2_dro": Look("χ²-DRO", r"$\chi^2$-DRO", "#D55E00", "X"),
    "skyline": Look("CRF", "CRF", GREY, "", "--"),
}

DATASETS = {
    "digits": "Digits",
    "scene": "Scene",
    "yeast": "Yeast",
    "rcv1_topics": "RCV1-Topics",
    "rcv1_subset": "RCV1 subset",
    "tmc2007": "TMC2007",
    "tmc2007_500": "TMC2007-500",
}

METRICS = {"expected_loss": "Expected Hamming loss", "greedy_loss": "Greedy Hamming loss"}

FIGURES = {
    "replay_count": "Loss and replay count",
    "grid": "Loss along the grids",
    "surprise": "Post-decision surprise",
    "paired": "Paired differences to POEM",
}

SELECTIONS = {
    "ips": "IPS",
    "clipped_ips": "clipped IPS",
    "snips": "SNIPS",
    "clipped_snips": "clipped SNIPS",
}

SELECTION_MARKERS = {"ips": "s", "clipped_ips": "D", "snips": "o", "clipped_snips": "^"}

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


def look(algorithm: str) -> Look:
    """The look of an algorithm; one of the user's own goes by its name, in a colour that depends on it alone."""
    spare = ["#882255", "#44AA99", "#999933", "#332288"]
    name = algorithm.replace("_", " ")
    return LOOKS.get(algorithm) or Look(name, name, spare[sum(map(ord, algorithm)) % len(spare)], "*")


def dataset_label(dataset: str) -> str:
    """The name of a data set in print."""
    return DATASETS.get(dataset, dataset.replace("_", " "))
