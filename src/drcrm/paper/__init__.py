"""Experiments of the paper and beyond, run by Snakemake: data, fits, results, tables, figures and reports.

All parts of the package use the names in this file: the roles of algorithms, and the columns of results.
"""

from drcrm.selection.score_names import SCORES

LOGGING, SKYLINE = "logging", "skyline"  # the logging policy π0, and full supervision
ROLES = (LOGGING, SKYLINE)  # part of every experiment, in addition to the configured algorithms
BASELINE = "cips"  # the plain importance-weighted estimate
POEM = "poem"  # the algorithm whose grid can be in units of λ0
PAPER_ALGORITHMS = ("cips", "poem", "kl_crm", "akl_crm", "akl_crm_sum", "kl_dro", "chi2_dro")  # default of experiments
ENOUGH_SEEDS = 5  # with fewer, an interval of the mean says little, and hardly any difference is significant
WITHOUT_HYPERPARAMETER = (*ROLES, BASELINE)

LOSSES = {"expected_loss": "Expected", "greedy_loss": "Greedy"}  # of a drawn action, and of the most probable action

LABELS, SINGLE = "labels", "single"  # kinds of actions: a vector of labels, or one of K classes

CERTIFICATE = ["estimate", "bound", "effective_size"]  # of the policy that a selection criterion chose
FIT_COLUMNS = ["iterations", "converged"]
KEY = ["dataset", "replay_count", "seed", "algorithm"]

COLUMNS = [*KEY, "selection", *LOSSES, "hyperparameter", "score", *FIT_COLUMNS, "tilt", *CERTIFICATE]
GRID_COLUMNS = [*KEY, "hyperparameter", *SCORES, *LOSSES, *FIT_COLUMNS]
