"""Who learns the best policy from few clicks, and is it better than the logging policy?

The logging policy π0 of a run, with its scores times η, logs a sample of the training contexts, each context once. The
right action has a click with probability 0.7, others with 0.2. A quarter of the rows is held out:

kl_dro_dr_scores   the fit to learned scores
kl_dro_dr          the linear fit with the smallest `dr_bound`
candidate          the choice of ``drcrm learn`` among all candidates of these two, even if it is not shown to be better
learn              the same choice if it is shown to be better, else π0

Baselines by boosted trees use all rows: `rewarded_rows_trees`, `importance_weighted_trees` and `dm_trees`. Learners
only know the propensities of the logged actions, but `dm_trees` knows π0.

There is a row per run, η, number of contexts and algorithm: the expected loss on the test set, which is the share
of wrong actions, of the learned policy and of π0. For the candidate, ``certified_loss`` is the largest loss
that the certificate allows, at 95 % and adjusted for the number of candidates. It is empty if no certificate was
issued. The summary has the mean gains over π0 in percentage points, with standard errors, also as means over data sets,
and the share of certificates that hold on the test set.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from cells import number, table_of
from finished import Run

from drcrm.data.bandit_log import BanditLog
from drcrm.evaluation.evaluation import Evaluation
from drcrm.logs.diagnostics.comparison.policy_comparison import certify, choose_estimate
from drcrm.logs.diagnostics.comparison.reference import ComparisonSettings
from drcrm.logs.successive_halving import fit_algorithm
from drcrm.paper.array_files import read_truth
from drcrm.paper.reference_policies import action_probabilities, cheapest_actions
from drcrm.policies.exponential import LinearPolicy
from drcrm.selection.algorithms import Algorithm
from drcrm.selection.candidates import Learned, PairedDifferences

BY_BOUND = "dr_bound"
LEARNERS = {  # in the summary
    "`learn`, keeps π0 if not shown better": "learn",
    "`kl_dro_dr_scores`": "kl_dro_dr_scores",
    "`kl_dro_dr`": "kl_dro_dr",
    "reward-weighted trees": "rewarded_rows_trees",
    "importance-weighted trees": "importance_weighted_trees",
    "`dm_trees`": "dm_trees",
}


class Choice(NamedTuple):
    """The choice of ``drcrm learn``, whether it is shown to be better than π0, and the certified bound on its cost."""

    policy: LinearPolicy
    is_shown: bool
    bound: float


def choose(results: Sequence[Learned], heldout: BanditLog) -> Choice:
    """Return the choice among all candidates."""
    candidates = [(fit, learned.cost_model) for learned in results for fit in learned.candidates]
    differences = PairedDifferences.join([learned.differences for learned in results])
    choices = differences.effective_choices()
    index = differences.choose(choices, differences.grade == 2)
    is_shown = index is not None
    if index is None:
        grade = np.where([fit.is_logging for fit, _ in candidates], -1, differences.grade)
        index = int(np.argmin(np.where(grade == grade.max(), differences.cautious_means(), np.inf)))
    fit, model = candidates[index]
    settings = ComparisonSettings(effective_choices=choices)
    estimate = choose_estimate(fit.policy, settings, model)
    certificate, _ = certify(Evaluation.of(fit.policy, heldout, cost_model=model).by(estimate), settings)
    return Choice(fit.policy, is_shown, np.nan if certificate is None else certificate.bound)


def learned_policies(
    log: tuple, algorithms: Mapping, X: np.ndarray, seed: int
) -> Iterator[tuple[str, np.ndarray, float]]:
    """Yield the names of the policies, their probabilities of all actions, (m, K), and bounds on their costs."""
    train, heldout, logging_policy = log
    columns = (np.concatenate([getattr(part, name) for part in log[:2]]) for name in ("X", "Y", "propensity", "cost"))
    whole, results = BanditLog(*columns, **train.actions.log_options), []
    for name, entry in algorithms.items():
        if "estimator" in entry:
            algorithm = Algorithm(**entry).with_settings(safe=True)  # with all candidates of ``drcrm learn``
            learned = fit_algorithm(train, heldout, algorithm)
            results.append(learned)
            fits = learned.candidates[: len(algorithm.values)]
            yield name, min(fits, key=lambda fit: fit.scores[BY_BOUND]).policy.marginals(X), np.nan
        elif entry["classifier"] == "cost_trees":
            yield name, cheapest_actions(whole, X, logging_policy, seed), np.nan
        else:
            probabilities = action_probabilities(whole, X, entry["classifier"], entry.get("weights", "none"), seed)
            yield name, probabilities, np.nan
    chosen = choose(results, heldout)
    yield "candidate", chosen.policy.marginals(X), chosen.bound
    yield "learn", (chosen.policy if chosen.is_shown else logging_policy).marginals(X), np.nan


def measure(
    run: Run, algorithms: Mapping, sizes: Sequence[int], sharpness: Sequence[float], click_rates: Sequence[float]
) -> Iterator[dict]:
    """Yield a row per η, size and algorithm."""
    X, truth = read_truth(run.resources / "test.npz")
    right, wrong = click_rates
    for eta in sharpness:
        for size in sizes:
            log = run.draw_log(eta, 1, size, click_rates)
            logging = truth.losses(log[2], X)["expected_loss"]
            key = {"dataset": run.dataset, "seed": run.seed, "sharpness": eta, "contexts": size}
            for name, probability, bound in learned_policies(log, algorithms, X, run.seed):
                loss = truth.losses_of_probabilities(probability)["expected_loss"]
                certified = (bound + right) / (right - wrong)
                losses = {"expected_loss": loss, "logging": logging, "certified_loss": certified}
                yield {**key, "algorithm": name} | {column: round(value, 6) for column, value in losses.items()}


def gains(table: pd.DataFrame) -> pd.DataFrame:
    """Return gains over π0 in percentage points: mean and standard error over the draws.

    There is a row per algorithm and number of contexts, and a column per statistic and η.
    """
    gain = table.assign(gain=100 * (table["logging"] - table["expected_loss"]))
    keys = ["algorithm", "contexts", "sharpness"]
    of_draws = gain.groupby([*keys, "seed"])["gain"].mean()
    return of_draws.groupby(keys).agg(["mean", "sem"]).unstack("sharpness")


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """Return the gains, with a row per algorithm, and a column per η and number of contexts."""
    by_algorithm = gains(table)
    cells = by_algorithm["mean"].map(number, digits=1) + " ± " + by_algorithm["sem"].map(number, digits=1)
    columns = [(n, eta) for eta in cells.columns for n in cells.index.unique("contexts")]
    header = ("points fewer wrong actions than π0", *(f"{n} rows, η = {eta:g}" for n, eta in columns))
    rows = [(label, *(cells.loc[(name, n), eta] for n, eta in columns)) for label, name in LEARNERS.items()]
    return table_of(header, rows)
