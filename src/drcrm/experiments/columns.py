"""Columns of the csv files: losses of each run, held-out scores of each grid value, and tables of the lemmas."""

from drcrm.reports.roles import LOSSES
from drcrm.selection.score_names import SCORES

CERTIFICATE = ["estimate", "bound", "effective_size"]  # of the policy that a selection criterion chose
FIT_COLUMNS = ["iterations", "converged"]
KEY = ["dataset", "replay_count", "seed", "algorithm"]

COLUMNS = [*KEY, "selection", *LOSSES, "hyperparameter", "score", *FIT_COLUMNS, "tilt", *CERTIFICATE]
GRID_COLUMNS = [*KEY, "hyperparameter", *SCORES, *LOSSES, *FIT_COLUMNS]

LEMMA_COLUMNS = {
    "lemma1": ["tail", "n", "method", "radius", "confidence", "coverage", "low", "high", "limit", "width"],
    "lemma2": ["tail", "divergence", "n", "printed", "rescaled", "limit"],
    "lemma3": ["tail", "radius", "ball", "primal", "dual", "penalised", "least_weight", "breaking", "calibrated"],
    "lemma4": ["tail", "radius", "temperature", "primal", "dual", "boltzmann", "divergence"],
    "lemma5": ["tail", "radius", "ratio", "premium", "premium_sum", "reached", "calibrated"],
    "anytime": ["tail", "n", "method", "bound", "false", "low", "high"],
    "weights": ["tail", "divergence", "z", "weight"],
}
