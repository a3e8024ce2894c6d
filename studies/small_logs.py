"""What is learned from few, noisy rows, and whether it is better than π0.

From the contexts of a run's training part some are drawn, and each is logged once by π0, its scores times η; with one
action of K the costs are clicks. A quarter of the rows is held out and chooses. All contexts are logged too.

There is a row per run, η, number of contexts, algorithm and score: the expected loss of what the score chooses on the
test set, π0's, and the least of all candidates. A step of 0 in what is chosen is π0 itself. The summary has the mean
differences to π0 with standard errors, how often what was chosen is worse, and what share of the least candidate's gain
is kept; in the last line of each score over all settings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pandas as pd
from finished import Run

from drcrm.experiments.datasets.truths import read_truth
from drcrm.experiments.simulation.truth import Truth
from drcrm.optimization.lbfgs import LbfgsSettings
from drcrm.policies.exponential import make_policy
from drcrm.reports.tables.comparisons import interval, larger_p_value
from drcrm.selection.algorithms import Algorithm
from drcrm.selection.grid_search import LearnSettings, learn
from drcrm.selection.score_names import SCORES

PUBLIC_CODE = LearnSettings(lbfgs=LbfgsSettings(stopping="public_code"))
BY = ("dr_bound", "improvement_bound")
LEVEL = 0.05  # of one-tailed paired t-tests that what was chosen is worse than π0
SETTING = ["dataset", "sharpness", "contexts"]


def loss(truth: Truth, policy, X) -> float:
    return round(truth.losses(policy, X)["expected_loss"], 6)


def rows(
    run: Run, algorithms: Mapping, sizes: Sequence[int], sharpness: Sequence[float], click_rates: Sequence[float]
) -> Iterator[dict]:
    """What each score chooses of each algorithm's candidates, at every η and size."""
    X, truth = read_truth(run.resources / "test.npz")
    everything = read_truth(run.resources / "train.npz")[0].shape[0]
    for eta in sharpness:
        for size in [*(each for each in sizes if each < everything), everything]:
            train, heldout, policy = run.logged_again(eta, 1, size, click_rates)
            key = {"dataset": run.dataset, "seed": run.seed, "sharpness": eta, "contexts": size}
            logging = loss(truth, policy, X)
            for name, entry in algorithms.items():
                fits = learn(train, Algorithm(**entry), heldout, policy, settings=PUBLIC_CODE).fits
                losses = [loss(truth, make_policy(truth.actions, coef), X) for coef in fits.coef]
                for by in BY:
                    chosen = fits.chosen[list(SCORES).index(by)] if len(losses) > 1 else 0
                    found = {"expected_loss": losses[chosen], "step": fits.step[chosen], "ridge": fits.ridge[chosen]}
                    about = {"logging": logging, "least": min(losses)}
                    yield {**key, "all": size == everything, "algorithm": name, "selection": by, **found, **about}


def table(rows: pd.DataFrame) -> pd.DataFrame:
    """By setting, algorithm and score: the difference to π0, how often it is above 0, and the share of the gain."""
    found = rows.assign(difference=rows["expected_loss"] - rows["logging"], gain=rows["logging"] - rows["least"])
    lines = []
    for key, of in found.groupby([*SETTING, "algorithm", "selection"], sort=True):
        difference = interval(of["difference"])
        share = -of["difference"].sum() / of["gain"].sum()
        values = {"loss": of["expected_loss"].mean(), "logging": of["logging"].mean(), "least": of["least"].mean()}
        values |= {"difference": difference.mean, "±": difference.standard_error}
        values["p"] = larger_p_value(of["expected_loss"], of["logging"])
        lines.append(dict(zip([*SETTING, "algorithm", "selection"], key, strict=True)) | values | {"kept": share})
    return pd.DataFrame(lines)


def summary(rows: pd.DataFrame) -> str:
    found = table(rows)
    worse = found.assign(worse=found["p"] < LEVEL).groupby(["algorithm", "selection"])[["worse"]].sum()
    several = rows.assign(large=rows["contexts"] >= 3000)
    gains = several.assign(gain=rows["logging"] - rows["least"], kept=rows["logging"] - rows["expected_loss"])
    total = gains.groupby(["algorithm", "selection", "large"])[["kept", "gain"]].sum()
    shares = (total["kept"] / total["gain"]).unstack("large")
    return "\n\n".join(
        [
            found.to_string(index=False, float_format="%.3f"),
            f"significantly worse than π0, of {found.groupby(SETTING).ngroups} settings\n{worse.to_string()}",
            f"share of all gains kept, by whether 3000 contexts or more\n{shares.to_string(float_format='%.2f')}",
        ]
    )
