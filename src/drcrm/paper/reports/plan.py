"""Plans of tables and figures, which steps get as JSON, and the names, colours and markers that all of them share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import TYPE_CHECKING, Any

from drcrm.paper import LABELS, LOGGING, LOSSES, ROLES, SINGLE, SKYLINE
from drcrm.selection.score_names import SCORES

if TYPE_CHECKING:  # the workflow makes plans while Snakemake reads it
    import pandas as pd

GREY = "#666666"
SPARE_COLOURS = ("#882255", "#44AA99", "#999933", "#332288")
SPARE_MARKERS = "*hpd<>HX"
SCORE_MARKERS = dict(zip(SCORES, "sDo^vPX*h", strict=True))
FIGURE_TITLES = {
    "replay_count": "Loss and replay count",
    "grid": "Loss along the grids",
    "certificates": "Certified and true loss",
}
WORDS = {  # words for a kind of action: the loss, its unit, the skyline, and a phrase that states a loss
    LABELS: {
        "loss": "Hamming loss",
        "unit": "wrong labels per context",
        "supervised": "a CRF that sees all labels",
        "wrong": "labels are wrong per context of the test set",
    },
    SINGLE: {
        "loss": "error rate",
        "unit": "share of contexts",
        "supervised": "a logistic regression that sees the right actions",
        "wrong": "of the actions on the test set are wrong",
    },
}
WIDTH = 4.8  # inches; text of 9 and 10 points is then readable on a phone, on a page and in a paper's column
SMALL = 9  # points, for legends and text inside axes
RC: dict[Any, Any] = {
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
PROTOCOL = (
    *("split_unit", "logging_fraction", "logging", "logging_c", "logging_sharpness", "heldout_fraction"),
    *("absent_label_score", "variance_penalty_scale", "stopping"),
)
TESTS = ("reference", "alternative", "rank_test")


@dataclass(frozen=True)
class Look:
    """How a curve is drawn: label, colour-blind-safe colour, marker, line style, group, and its grid's quantity."""

    label: str
    colour: str
    marker: str = ""
    line: Any = "-"
    group: str = ""
    parameter: str = "hyper-parameter"

    @property
    def style(self) -> dict[str, Any]:
        """The keywords with which matplotlib draws a curve with this colour, marker and label."""
        return {"color": self.colour, "marker": self.marker, "label": self.label}


ROLE_LOOKS = {LOGGING: Look("π0", GREY, line=":"), SKYLINE: Look("CRF", GREY, line="--")}

BOUND = Look("certified bound", GREY, "<")
TRUE_LOSS = Look("true loss on the test set", GREY, "o")


@dataclass(frozen=True)
class Names:
    """Looks of algorithms and labels of data sets. An unknown name is its own label.

    Parameters
    ----------
    algorithms : mapping from a name to label, colour, marker, group and the quantity of the grid
    datasets : mapping from a name to a label
    actions : mapping from a data set to a key of ``WORDS``
        By default, actions are vectors of labels.
    """

    algorithms: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    datasets: Mapping[str, str] = field(default_factory=dict)
    actions: Mapping[str, str] = field(default_factory=dict)

    def look(self, algorithm: str) -> Look:
        """Return the look of an algorithm, of π0 or of the skyline."""
        if algorithm in ROLE_LOOKS:
            is_single = algorithm == SKYLINE and SINGLE in self.actions.values()
            return replace(ROLE_LOOKS[algorithm], label="full supervision") if is_single else ROLE_LOOKS[algorithm]
        default = {"label": algorithm.replace("_", " "), "colour": GREY, "marker": "*"}
        return Look(**{**default, **self.algorithms.get(algorithm, {})})

    def label(self, algorithm: str) -> str:
        """Return the label of an algorithm."""
        return self.look(algorithm).label

    def grouped(self, algorithms: Iterable[str]) -> dict[str, list[str]]:
        """Return algorithms by group, in the order of ``self.algorithms``. Members are in the order of the argument."""
        group_of = {name: self.look(name).group for name in algorithms}
        families = dict.fromkeys([*(self.look(name).group for name in self.algorithms), *group_of.values()])
        members = {family: [name for name in group_of if group_of[name] == family] for family in families}
        return {family: names for family, names in members.items() if names}

    def dataset(self, dataset: str) -> str:
        """Return the label of a data set."""
        return self.datasets.get(dataset, dataset.replace("_", " "))

    def by_actions(self, datasets: Iterable[str]) -> dict[str, list[str]]:
        """Return data sets by their kind of action."""
        datasets = list(dict.fromkeys(datasets))
        kinds = {kind: [name for name in datasets if self.actions.get(name, LABELS) == kind] for kind in WORDS}
        return {kind: names for kind, names in kinds.items() if names}

    def word(self, key: str, datasets: Iterable[str]) -> str:
        """Return a word of ``WORDS`` for data sets. If they have different words, name the data sets of each."""
        words = {WORDS[kind][key]: names for kind, names in self.by_actions(datasets).items()}
        if len(words) == 1:
            return next(iter(words))
        return " or ".join(f"{word} ({', '.join(map(self.dataset, names))})" for word, names in words.items())

    def loss(self, metric: str, datasets: Iterable[str]) -> str:
        """Return the name of a loss on data sets."""
        return f"{LOSSES[metric]} {self.word('loss', datasets)}"

    def title(self, metric: str, datasets: Iterable[str]) -> str:
        """Return the name of a loss in letters and spaces: "loss" if the data sets have different names for it."""
        kinds = list(self.by_actions(datasets))
        return f"{LOSSES[metric]} {WORDS[kinds[0]]['loss'] if len(kinds) == 1 else 'loss'}"

    def seeds(self, numbers: Mapping[str, int]) -> str:
        """Return the most frequent number of seeds, with exceptions in brackets: "20 seeds (Letter 5)"."""
        [(usual, _)] = Counter(numbers.values()).most_common(1)
        exceptions = ", ".join(f"{self.dataset(name)} {n}" for name, n in numbers.items() if n != usual)
        return f"{usual} seed{'' if usual == 1 else 's'}" + (f" ({exceptions})" if exceptions else "")


def tell_apart(algorithms: Mapping[str, dict]) -> None:
    """Complete missing colours and markers so that no two algorithms share both."""
    taken = {(algorithm.get("marker"), algorithm.get("colour")) for algorithm in algorithms.values()}
    for algorithm in algorithms.values():
        markers = [algorithm["marker"]] if "marker" in algorithm else SPARE_MARKERS
        colours = [algorithm["colour"]] if "colour" in algorithm else SPARE_COLOURS
        pairs = list(product(markers, colours))
        algorithm["marker"], algorithm["colour"] = pair = next((pair for pair in pairs if pair not in taken), pairs[0])
        taken.add(pair)


def join(parts: Iterable[str], conjunction: str = "and") -> str:
    """Return a list in words. Parts with commas are separated by semicolons."""
    *first, last = parts = list(parts)
    if any("," in part for part in parts):
        return "; ".join([*first, f"{conjunction} {last}" if first else last])
    return f"{', '.join(first)} {conjunction} {last}" if first else last


@dataclass(frozen=True)
class Plan:
    """The part of an experiment's results that a table or figure shows.

    A plan contains only what a step uses, so that other changes of the configuration do not run the step again.

    Parameters
    ----------
    datasets, selections : sequences of str
        In order; the first selection criterion is the headline.
    seeds : int, or mapping from a data set to int
        The number of seeds, which start at 0. A mean over fewer seeds is missing.
    counts : sequence of int
        Replay counts. The first is used if only one is shown.
    algorithms : sequence of str, optional
        Algorithms in addition to π0 and the skyline; by default all.
    title, figure, caption : str
        The name of the experiment, that of a figure, and its caption.
    names : Names
    protocol : mapping from the options in ``PROTOCOL`` to values
        Options in which an experiment can differ from the paper's text or the public code.
    grids : mapping from an algorithm to the values of its grid
    papers : mapping from a data set to (data set of the paper, differences in words)
    reference, alternative, rank_test : str
        The algorithm with which tests compare the others, and the options of the tests.
    log : str
        What differs from an ordinary log, in words; empty for an ordinary log.
    """

    datasets: Sequence[str]
    selections: Sequence[str]
    seeds: int | Mapping[str, int]
    counts: Sequence[int]
    algorithms: Sequence[str] | None = None
    title: str = ""
    figure: str = ""
    caption: str = ""
    names: Names = field(default_factory=Names)
    protocol: Mapping[str, object] = field(default_factory=dict)
    grids: Mapping[str, Sequence[float]] = field(default_factory=dict)
    papers: Mapping[str, Sequence[str]] = field(default_factory=dict)
    reference: str = "poem"
    alternative: str = "less"
    rank_test: str = "signed_ranks"
    log: str = ""

    @classmethod
    def parse(cls, values: Mapping[str, Any]) -> Plan:
        """Return the plan whose ``asdict`` these values are."""
        return cls(**{**values, "names": Names(**values["names"])})

    def of_algorithms(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return the rows of the plan's algorithms, π0 and the skyline."""
        return rows[rows["algorithm"].isin([*self.algorithms, *ROLES])] if self.algorithms else rows

    def of_runs(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return the rows of the first replay count and the plan's seeds."""
        return self.of_seeds(rows[rows["replay_count"] == self.counts[0]])

    def of_seeds(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return the rows of the plan's seeds."""
        return rows[rows["seed"] < rows["dataset"].map(self.seeds_of).astype(float)]

    def seeds_of(self, dataset: str) -> int:
        """Return the number of seeds of a data set, 0 if ``seeds`` is a mapping without this data set."""
        return self.seeds.get(dataset, 0) if isinstance(self.seeds, Mapping) else self.seeds

    @property
    def seeds_in_words(self) -> str:
        """The numbers of seeds, in words."""
        return self.names.seeds({dataset: self.seeds_of(dataset) for dataset in self.datasets})
