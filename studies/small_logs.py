"""What is learned from few, noisy rows, and is it better than the logging policy?

The logging policy of a run, with its scores times η, logs a sample of the training contexts, each context once. Single
choices have clicks. A quarter of the rows is held out and selects a candidate. One log has all training contexts.

There is a row per run, η, number of contexts, algorithm and selection criterion. It has the expected loss on the test
set of the selected policy, of the logging policy and of the best candidate. A selected step of 0 means the logging
policy. The summary has mean differences from the logging policy with standard errors, and how often the selected policy
is worse. It also has the share of the best candidate's gain that is kept. Its last lines summarise all settings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pandas as pd
from finished import Run

from drcrm.logging_policy import LoggingPolicy
from drcrm.optimization.lbfgs import LbfgsSettings
from drcrm.paper.array_files import read_truth
from drcrm.paper.reports.result_tables import interval, larger_p_value
from drcrm.paper.simulation import Truth
from drcrm.selection.algorithms import Algorithm
from drcrm.selection.fit_settings import FitSettings
from drcrm.selection.grid_search import learn

PUBLIC_CODE = LbfgsSettings(stopping="public_code")
CRITERIA = ("dr_bound", "improvement_bound")
SETTING = ["dataset", "sharpness", "contexts"]


def expected_loss(truth: Truth, policy, X) -> float:
    return round(truth.losses(policy, X)["expected_loss"], 6)


def measure(
    run: Run, algorithms: Mapping, sizes: Sequence[int], sharpness: Sequence[float], click_rates: Sequence[float]
) -> Iterator[dict]:
    """Yield a row per η, size, algorithm and selection criterion."""
    X, truth = read_truth(run.resources / "test.npz")
    n_contexts = read_truth(run.resources / "train.npz")[0].shape[0]
    for eta in sharpness:
        for size in [*(size for size in sizes if size < n_contexts), n_contexts]:
            train, heldout, policy = run.draw_log(eta, 1, size, click_rates)
            key = {"dataset": run.dataset, "seed": run.seed, "sharpness": eta, "contexts": size}
            logging = expected_loss(truth, policy, X)
            for name, entry in algorithms.items():
                learned = learn(
                    train,
                    Algorithm(**entry, settings=FitSettings(PUBLIC_CODE)),
                    heldout,
                    LoggingPolicy.of(policy, train),
                )
                losses = [expected_loss(truth, candidate.policy, X) for candidate in learned.candidates]
                for criterion in CRITERIA:
                    best = learned.chosen[criterion] if len(losses) > 1 else 0
                    candidate = learned.candidates[best]
                    selected = {"expected_loss": losses[best], "step": candidate.step, "ridge": candidate.ridge}
                    names = {"all": size == n_contexts, "algorithm": name, "selection": criterion}
                    yield {**key, **names, **selected, "logging": logging, "least": min(losses)}


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """Return a row per setting, algorithm and criterion: the difference from the logging policy, and the gain kept."""
    rows = rows.assign(difference=rows["expected_loss"] - rows["logging"], gain=rows["logging"] - rows["least"])
    keys, lines = [*SETTING, "algorithm", "selection"], []
    for key, part in rows.groupby(keys, sort=True):
        difference = interval(part["difference"])
        values = {
            "loss": part["expected_loss"].mean(),
            "logging": part["logging"].mean(),
            "least": part["least"].mean(),
        }
        values |= {"difference": difference["mean"], "±": difference["standard_error"]}
        values["p"] = larger_p_value(part["expected_loss"], part["logging"])
        values["kept"] = -part["difference"].sum() / part["gain"].sum()
        lines.append(dict(zip(keys, key, strict=True)) | values)
    return pd.DataFrame(lines)
