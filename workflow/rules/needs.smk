"""The memory and run time that rules ask for, computed from the configuration: in a group of jobs no file exists yet.

The constants are calibrated by `python benchmarks/needs.py results/EXPERIMENT`, which prints what is asked beside what was
used. The LibSVM format does not say how dense its rows are: at most NONZEROS features of a row are taken to be non-zero.
"""

from math import ceil

AROUND = 350  # MB of the two Snakemakes around a step on a cluster, and some more
RESERVE = 1.5  # what is asked for each MB and second that a step is expected to take
ROWS = [20_000, 20_000]  # of a training and a test part of which the configuration does not say it
NONZEROS = 100  # RCV1 has 76 on average, TMC2007 with 500 words 23
DIRECT = 5500  # coefficients of a cost model up to which it may be solved directly
ITERATIONS = 400  # of L-BFGS, on average over a grid


def asked_megabytes(expected):
    """The memory that a rule asks for, from a function with what its step is expected to take."""
    return lambda wildcards, attempt: ceil(attempt * (AROUND + RESERVE * expected(wildcards)))


def asked_minutes(expected):
    """The run time that a rule asks for, whole minutes, from a function with the seconds its step is expected to take."""
    return lambda wildcards, attempt: attempt * max(1, ceil(RESERVE * expected(wildcards) / 60))


def interpreter(megabytes):
    """What a step expects that takes little beside the interpreter and its modules."""
    return lambda wildcards: megabytes


def moment(wildcards):
    """What a step of a run expects that takes some seconds."""
    return 10


def moments(wildcards):
    """What tables and figures expect: some seconds as well, but they read what all runs have left."""
    return 100


def n_rows(wildcards, part):
    """How many rows the training (0) or the test part (1) of a data set has."""
    return config["datasets"][wildcards.dataset].get("rows", ROWS)[part]


def n_nonzeros(wildcards, part):
    """How many non-zero features a part of a data set is taken to have."""
    return n_rows(wildcards, part) * min(config["datasets"][wildcards.dataset]["features"], NONZEROS)


def n_coefficients(wildcards):
    """How many coefficients a policy has."""
    return (config["datasets"][wildcards.dataset]["features"] + 1) * n_labels(wildcards)


def n_logged(wildcards):
    """How many rows a log has at most."""
    return n_rows(wildcards, 0) * int(wildcards.replays)


def n_grid(wildcards):
    """How many values the grid of an algorithm has."""
    return len(config["algorithms"][wildcards.algorithm].get("grid", [0]))


def contexts_megabytes(wildcards, part=0):
    """One copy of the contexts of a part."""
    return 16e-6 * n_nonzeros(wildcards, part)


def log_megabytes(wildcards):
    """A log as fits hold it: its contexts twice, and its rows with their actions and weights."""
    return 2 * contexts_megabytes(wildcards) + 8e-6 * n_logged(wildcards) * (n_labels(wildcards) + 5)


def split_megabytes(wildcards):
    return 70 + 3 * contexts_megabytes(wildcards)


def log_crf_megabytes(wildcards):
    return 150 + 3 * contexts_megabytes(wildcards)


def skyline_megabytes(wildcards):
    """Contexts as CRFsuite holds them, feature by feature."""
    return 150 + 6 * contexts_megabytes(wildcards)


def skyline_seconds(wildcards):
    """Up to five CRFs for each label; some seeds climb higher than others."""
    return 1.2e-6 * n_nonzeros(wildcards, 0) * n_labels(wildcards) + 2e-4 * n_coefficients(wildcards)


def replay_megabytes(wildcards):
    return 70 + contexts_megabytes(wildcards) + log_megabytes(wildcards)


def cost_model_megabytes(wildcards):
    """The log, and the matrix of a direct solution with a copy, or the systems and vectors of conjugate gradients."""
    size = n_coefficients(wildcards)
    return 75 + log_megabytes(wildcards) + (16e-6 * size**2 if size < DIRECT else 220e-6 * size)


def cost_model_seconds(wildcards):
    return 2e-5 * n_coefficients(wildcards) + 1e-6 * n_logged(wildcards) * n_labels(wildcards)


def fit_megabytes(wildcards):
    """The log, L-BFGS's pairs of vectors, and the coefficients of the whole grid."""
    vectors = 2 * 10 + 10 + 2 * n_grid(wildcards)
    return 90 + log_megabytes(wildcards) + 8e-6 * vectors * n_coefficients(wildcards)


def fit_seconds(wildcards):
    """Iterations: evaluations, which grow with the log, and L-BFGS's own part, slower once its vectors leave the caches."""
    labels, coefficients = n_labels(wildcards), n_coefficients(wildcards)
    evaluation = 5e-4 + 5e-11 * n_nonzeros(wildcards, 0) * labels + n_logged(wildcards) * (3e-8 + 1e-9 * labels)
    return ITERATIONS * n_grid(wildcards) * (evaluation + 7e-8 * coefficients + 1e-13 * coefficients**2)


def evaluate_megabytes(wildcards):
    """The log, the test contexts, the probabilities of their labels, and the fits of the largest grid."""
    grid = max(len(config["algorithms"][name].get("grid", [0])) for name in fits(wildcards))
    labels = 24e-6 * n_rows(wildcards, 1) * n_labels(wildcards)
    test = 2 * contexts_megabytes(wildcards, 1) + labels
    return 70 + log_megabytes(wildcards) + test + 12e-6 * grid * n_coefficients(wildcards)


def evaluate_seconds(wildcards):
    """Losses of all fits of a run, and certificates of at most all of them."""
    policies = sum(len(config["algorithms"][name].get("grid", [0])) for name in fits(wildcards))
    loss = 1e-9 * n_nonzeros(wildcards, 1) + 2e-8 * n_rows(wildcards, 1)
    certificate = 1e-2 + 1e-9 * n_nonzeros(wildcards, 0) * n_labels(wildcards) + 4e-8 * n_logged(wildcards)
    return policies * (n_labels(wildcards) * loss + certificate)


def theory_megabytes(wildcards):
    """The contexts, and some vectors as long as there are pairs of a context and an action."""
    return 150 + contexts_megabytes(wildcards) + 200e-6 * n_rows(wildcards, 0) * 2 ** n_labels(wildcards)


def theory_seconds(wildcards):
    """Samples of every size, each judged by every bound."""
    return 60 + 0.15 * config["theory"]["repetitions"] * (wildcards.lemma == "lemma1")
