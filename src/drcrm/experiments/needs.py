"""The memory and run time that rules ask for, computed from the configuration: in a group of jobs no file exists yet.

The constants are calibrated by ``python benchmarks/needs.py results/EXPERIMENT``, which prints what is asked beside
what was used. The LibSVM format does not say how dense its rows are: at most NONZEROS features of a row are taken to be
non-zero.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

from drcrm.experiments.lookups import n_labels, run_algorithms

AROUND = 350  # MB of the two Snakemakes around a step on a cluster, and some more
RESERVE = 1.5  # what is asked for each MB and second that a step is expected to take
ROWS = (20_000, 20_000)  # of a training and a test part of which the configuration does not say it
NONZEROS = 100  # RCV1 has 76 on average, TMC2007 with 500 words 23
CONDITIONED = 1700  # features up to which the equations of a cost model are preconditioned
ITERATIONS = 400  # of L-BFGS, on average over a grid
MOMENT = 10  # seconds of a step of a run that takes some
MOMENTS = 100  # seconds of tables and figures: some as well, but they read what all runs have left


class Needs(NamedTuple):
    """What a job takes, or asks for."""

    megabytes: float
    seconds: float


@dataclass(frozen=True)
class Size:
    """What the needs of a job grow with.

    Parameters
    ----------
    rows : (int, int)
        Of the training and of the test part.
    features, labels, replays : int
    grids : tuple of int
        How many values the grid of each algorithm has that the job fits or measures.
    repetitions : int
        Samples that the theory judges by every bound.
    """

    rows: tuple[int, int] = ROWS
    features: int = 1
    labels: int = 1
    replays: int = 1
    grids: tuple[int, ...] = (1,)
    repetitions: int = 0

    def nonzeros(self, part: int = 0) -> int:
        """Non-zero features of the training (0) or the test part (1)."""
        return self.rows[part] * min(self.features, NONZEROS)

    def contexts(self, part: int = 0) -> float:
        """Megabytes of one copy of a part's contexts."""
        return 16e-6 * self.nonzeros(part)

    @property
    def logged(self) -> int:
        """Rows of a log, at most."""
        return self.rows[0] * self.replays

    @property
    def log(self) -> float:
        """Megabytes of a log as fits hold it: its contexts twice, and its rows with their actions and weights."""
        return 2 * self.contexts() + 8e-6 * self.logged * (self.labels + 5)

    @property
    def coefficients(self) -> int:
        """Of a policy."""
        return (self.features + 1) * self.labels


def size_of(config: Mapping, wildcards: Mapping[str, str]) -> Size:
    """The size of a job with these wildcards: those of dataset, replays, experiment, seed, algorithm, lemma it has."""
    known = dict(wildcards)
    sizes = {"repetitions": config["theory"]["repetitions"]} if known.get("lemma") == "lemma1" else {}
    if "dataset" in known:
        dataset = config["datasets"][known["dataset"]]
        sizes |= {"features": dataset["features"], "labels": n_labels(config, known["dataset"])}
        sizes["rows"] = tuple(dataset.get("rows", ROWS))
    if "replays" in known:
        run = known["dataset"], int(known["replays"]), int(known["seed"])
        algorithms = [known["algorithm"]] if "algorithm" in known else run_algorithms(config, known["experiment"], *run)
        sizes["replays"] = run[1]
        sizes["grids"] = tuple(len(config["algorithms"][name].get("grid", [0])) for name in algorithms)
    return Size(**sizes)


def asked(config: Mapping, step: str, wildcards: Mapping[str, str], attempt: int = 1) -> tuple[int, int]:
    """The megabytes and whole minutes that a job of a step asks for, more with each attempt."""
    needs = STEPS[step](size_of(config, wildcards))
    return ceil(attempt * (AROUND + RESERVE * needs.megabytes)), attempt * max(1, ceil(RESERVE * needs.seconds / 60))


def skyline(size: Size) -> Needs:
    """Contexts as CRFsuite holds them, feature by feature; up to five CRFs for each label, some seeds climb higher."""
    return Needs(150 + 6 * size.contexts(), 1.2e-6 * size.nonzeros() * size.labels + 2e-4 * size.coefficients)


def cost_model(size: Size) -> Needs:
    """The log, a copy of its contexts and rows, conjugate gradients' vectors, and the preconditioner."""
    solution = 280e-6 * size.coefficients + 40e-6 * min(size.features, CONDITIONED) ** 2
    return Needs(75 + 1.5 * size.log + solution, 2e-5 * size.coefficients + 1e-6 * size.logged * size.labels)


def fit(size: Size) -> Needs:
    """The log, L-BFGS's pairs of vectors, and the coefficients of the whole grid.

    Iterations: evaluations, which grow with the log, and L-BFGS's own part, slower once its vectors leave the caches.
    """
    [grid] = size.grids
    vectors = 2 * 10 + 10 + 2 * grid
    evaluation = 5e-4 + 5e-11 * size.nonzeros() * size.labels + size.logged * (3e-8 + 1e-9 * size.labels)
    own = 7e-8 * size.coefficients + 1e-13 * size.coefficients**2
    return Needs(90 + size.log + 8e-6 * vectors * size.coefficients, ITERATIONS * grid * (evaluation + own))


def classify(size: Size) -> Needs:
    """Scikit-learn, the logged rows' contexts, and boosted trees: a hundred for each action."""
    rows = Needs(8e-6 * size.logged * min(size.features, NONZEROS), 0)
    return Needs(180 + size.log + 3 * rows.megabytes, 5 + 2e-5 * size.logged * size.labels)


def evaluate(size: Size) -> Needs:
    """The log, the test contexts, the probabilities of their labels, and the fits of the largest grid.

    Losses of all fits of a run, and certificates of at most all of them.
    """
    test = 2 * size.contexts(1) + 24e-6 * size.rows[1] * size.labels
    loss = 1e-9 * size.nonzeros(1) + 2e-8 * size.rows[1]
    certificate = 1e-2 + 1e-9 * size.nonzeros() * size.labels + 4e-8 * size.logged
    megabytes = 70 + size.log + test + 12e-6 * max(size.grids) * size.coefficients
    return Needs(megabytes, sum(size.grids) * (size.labels * loss + certificate))


def theory_table(size: Size) -> Needs:
    """The contexts, and some vectors as long as there are pairs of a context and an action."""
    return Needs(150 + size.contexts() + 200e-6 * size.rows[0] * 2**size.labels, 60 + 0.15 * size.repetitions)


STEPS = {
    "split": lambda size: Needs(70 + 3 * size.contexts(), MOMENT),
    "log_crf": lambda size: Needs(150 + 3 * size.contexts(), MOMENT),
    "replay": lambda size: Needs(70 + size.contexts() + size.log, MOMENT),
    **{function.__name__: function for function in (skyline, cost_model, fit, classify, evaluate, theory_table)},
    **dict.fromkeys(("collect", "provenance"), lambda size: Needs(80, MOMENTS)),
    "tables": lambda size: Needs(150, MOMENTS),
    "study": lambda size: Needs(1100, 24_000),
    **dict.fromkeys(("overview", "figure", "theory_figure"), lambda size: Needs(200, MOMENTS)),
}
