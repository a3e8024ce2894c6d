"""How algorithms and data sets are named and drawn: the same in every table and figure."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from typing import NamedTuple

from drcrm.reports.roles import LABELS, LOGGING, LOSSES, SINGLE, SKYLINE
from drcrm.selection.score_names import SCORES


@dataclass(frozen=True)
class Look:
    """A label, a colour the colour-blind can tell apart, a marker, a line, and under which heading it is listed."""

    label: str
    colour: str
    marker: str = ""
    line: str = "-"
    group: str = ""


GREY = "#666666"
ROLE_LOOKS = {LOGGING: Look("π0", GREY, line=":"), SKYLINE: Look("CRF", GREY, line="--")}
SPARE_COLOURS = ("#882255", "#44AA99", "#999933", "#332288")
SPARE_MARKERS = "*hpd<>HX"
SCORE_MARKERS = dict(zip(SCORES, "sDo^vPX*h", strict=True))

FIGURE_TITLES = {
    "replay_count": "Loss and replay count",
    "grid": "Loss along the grids",
    "surprise": "Post-decision surprise",
    "certificates": "Certified and true loss",
    "paired": "Paired differences to POEM",
    "ablation": "Estimate, start and risk",
}


class Words(NamedTuple):
    """How one speaks of a loss: its name, its unit on an axis, who sees all, and what a number of it says."""

    loss: str
    unit: str
    supervised: str
    wrong: str


WORDS = {
    LABELS: Words(
        loss="Hamming loss",
        unit=", in labels",
        supervised="a CRF that sees all labels",
        wrong="labels are wrong per context of the test set",
    ),
    SINGLE: Words(
        loss="error rate",
        unit="",
        supervised="a logistic regression that sees the right actions",
        wrong="of the actions on the test set are wrong",
    ),
}


class LemmaFigure(NamedTuple):
    """The table that a figure of the theory is drawn from, and its title."""

    lemma: str
    title: str


LEMMA_FIGURES = {
    "coverage_95": LemmaFigure("lemma1", "Lemma 1: coverage at δ = 0.05"),
    "coverage_80": LemmaFigure("lemma1", "Lemma 1: coverage at δ = 0.2"),
    "width": LemmaFigure("lemma1", "Lemma 1: width"),
    "expansion": LemmaFigure("lemma2", "Lemma 2: the variance expansion"),
    "penalty": LemmaFigure("lemma3", "Lemma 3: χ² ball and variance penalty"),
    "duality": LemmaFigure("lemma4", "Lemma 4: primal, dual and Boltzmann"),
    "temperature": LemmaFigure("lemma5", "Lemma 5: temperature"),
    "weights": LemmaFigure("weights", "Worst-case weights"),
}

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
    "betting": Look("betting", "#332288", ">"),
}

START_LOOKS = {
    "zero": Look("Θ = 0", "#000000", "o"),
    "logging": Look("π0", "#0072B2", "s"),
    "model": Look("π0, tilted by the cost model", "#D55E00", "^"),
    "imitation": Look("imitation", "#CC79A7", "D"),
}

WIDTH = 4.8  # inches: with text of 9 and 10 points, readable as wide as a phone, a page, or a paper's column
SMALL = 9  # points: of legends and of what is written into the axes

RC = {
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 10,
    "figure.constrained_layout.use": True,
    "figure.labelsize": 10,
    "figure.titlesize": 10,
    "font.size": 10,
    "grid.alpha": 0.3,
    "legend.fontsize": SMALL,
    "legend.frameon": False,
    "legend.title_fontsize": SMALL,
    "lines.linewidth": 1.5,
    "lines.markersize": 5,
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
    algorithms : mapping from a name to label, colour, marker and group
    datasets : mapping from a name to a label
    starts : mapping from an algorithm to its names by start
        Of an ablation.
    actions : mapping from a data set to what an action is
        A key of ``WORDS``; a vector of labels where it has none.
    """

    algorithms: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    datasets: Mapping[str, str] = field(default_factory=dict)
    starts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    actions: Mapping[str, str] = field(default_factory=dict)

    def look(self, algorithm: str) -> Look:
        """The look of an algorithm, or of π0 and the skyline."""
        if algorithm == SKYLINE and SINGLE in self.actions.values():
            return replace(ROLE_LOOKS[SKYLINE], label="full supervision")
        if algorithm in ROLE_LOOKS:
            return ROLE_LOOKS[algorithm]
        known = {"label": algorithm.replace("_", " "), "colour": GREY, "marker": "*"}
        return Look(**{**known, **self.algorithms.get(algorithm, {})})

    def label(self, algorithm: str) -> str:
        """The name of an algorithm in print."""
        return self.look(algorithm).label

    def grouped(self, algorithms: Iterable[str]) -> dict[str, list[str]]:
        """Algorithms by their groups: these in the order in which all algorithms have them, those as they are given."""
        group = {name: self.look(name).group for name in algorithms}
        order = dict.fromkeys([*(self.look(name).group for name in self.algorithms), *group.values()])
        return {each: names for each in order if (names := [name for name in group if group[name] == each])}

    def dataset(self, dataset: str) -> str:
        """The name of a data set in print."""
        return self.datasets.get(dataset, dataset.replace("_", " "))

    def by_actions(self, datasets: Iterable[str]) -> dict[str, list[str]]:
        """Data sets by what an action of theirs is."""
        datasets = list(datasets)
        kinds = {kind: [name for name in datasets if self.actions.get(name, LABELS) == kind] for kind in WORDS}
        return {kind: names for kind, names in kinds.items() if names}

    def word(self, what: str, datasets: Iterable[str]) -> str:
        """A word of ``WORDS`` for data sets; where they do not share it, each with those that it is of."""
        kinds = self.by_actions(datasets)
        if len(kinds) == 1:
            return getattr(WORDS[next(iter(kinds))], what)
        of = {kind: ", ".join(map(self.dataset, names)) for kind, names in kinds.items()}
        return " or ".join(f"{getattr(WORDS[kind], what)} ({names})" for kind, names in of.items())

    def loss(self, metric: str, datasets: Iterable[str]) -> str:
        """What a loss is called on data sets."""
        return f"{LOSSES[metric]} {self.word('loss', datasets)}"

    def title(self, metric: str, datasets: Iterable[str]) -> str:
        """The same in letters and spaces: a loss, where data sets do not share its name."""
        kinds = list(self.by_actions(datasets))
        return f"{LOSSES[metric]} {WORDS[kinds[0]].loss if len(kinds) == 1 else 'loss'}"

    def seeds(self, numbers: Mapping[str, int]) -> str:
        """How many seeds data sets have, in words: the usual number, in brackets those that have another."""
        usual = Counter(numbers.values()).most_common(1)[0][0]
        others = ", ".join(f"{self.dataset(name)} {number}" for name, number in numbers.items() if number != usual)
        return f"{usual} seed{'' if usual == 1 else 's'}" + (f" ({others})" if others else "")


def tell_apart(algorithms: Mapping[str, dict]) -> None:
    """Give the algorithms without a colour or a marker one, so that no two algorithms share both."""
    taken = {(each.get("marker"), each.get("colour")) for each in algorithms.values()}
    for each in algorithms.values():
        if not {"colour", "marker"} <= each.keys():
            markers = [each["marker"]] if "marker" in each else SPARE_MARKERS
            colours = [each["colour"]] if "colour" in each else SPARE_COLOURS
            pairs = list(product(markers, colours))
            each["marker"], each["colour"] = next((pair for pair in pairs if pair not in taken), pairs[0])
            taken.add((each["marker"], each["colour"]))
