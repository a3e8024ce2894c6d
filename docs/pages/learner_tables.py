"""Tables that compare learned scores with boosted trees, from published results."""

from __future__ import annotations

import pandas as pd

from pages.published import metrics, study
from pages.reference_pages import format_table

ETAS = {"_soft": 0.25, "": 1.0, "_sharp": 4.0}
TREES = {"reward-weighted trees": "rewarded_rows_trees", "importance-weighted trees": "importance_weighted_trees"}
SCORES = "kl_dro_dr_scores"


def score_errors(letter: bool = False) -> pd.DataFrame:
    """Return errors in % on the runs that have learned scores, with a row per algorithm, data set, η, costs and seed.

    The data set is letter, which has one seed, or one of the others. Classifiers take their
    most probable actions; the other policies draw their actions.
    """
    runs = study("learned_scores")
    runs = runs[(runs["dataset"] == "letter") == letter]
    keys = ["dataset", "clicks", "eta", "seed"]
    parts = [runs.assign(error=100 * runs["expected_loss"])]
    for clicks in ("", "_clicks"):
        for suffix, eta in ETAS.items():
            rows = metrics(f"single_choice{clicks}{suffix}").query("selection == 'dr_bound'")
            rows = rows.assign(clicks=bool(clicks), eta=eta).merge(runs[keys].drop_duplicates(), on=keys)
            loss = rows["expected_loss"].where(~rows["algorithm"].isin(TREES.values()), rows["greedy_loss"])
            parts.append(rows.assign(error=100 * loss))
    return pd.concat(parts)[["algorithm", *keys, "error"]]


def learned_scores() -> str:
    """Return mean errors by data set, costs and η, and their means over all of these for each kind of costs."""
    errors = score_errors()
    lines = {
        "π0, actions drawn": "logging",
        **TREES,
        "`dm_trees`: least modelled cost": "dm_trees",
        "`kl_dro_dr_map`": "kl_dro_dr_map",
        "`kl_dro_dr_scores`": SCORES,
    }
    cells = errors.groupby(["algorithm", "clicks", "dataset", "eta"])["error"].mean()
    means = cells.groupby(["algorithm", "clicks"]).mean()
    sets = ("satimage", "pendigits", "digits_single")
    rows = []
    for label, name in lines.items():
        columns = [
            " · ".join(f"{cells[name, clicks, data, eta]:.1f}" for eta in ETAS.values())
            for clicks in (False, True)
            for data in sets
        ]
        rows.append((label, *columns, f"{means[name, False]:.2f}", f"{means[name, True]:.2f}"))
    names = ("satimage", "pendigits", "digits")
    header = ("error in % at η = ¼ · 1 · 4", *names, *(f"{name}, clicks" for name in names), "mean", "mean, clicks")
    return format_table(header, rows)


def business_logs() -> str:
    """Return the true mean rewards of all policies, and the gain of ``learn`` relative to the gain of boosting."""
    rows = study("business_logs")
    means = rows.groupby(["log", "learner"], sort=False)[["logging", "reward", "best"]].mean()
    cells = []
    for log in rows["log"].unique():
        of_log = means.loc[log]
        known, rewards = of_log.loc["learn", ["logging", "best"]], of_log.loc[["boosting", "learn"], "reward"]
        values = known["logging"], *rewards, known["best"]
        ratios = rows.query("log == @log and learner == 'learn'")["ratio"]
        cells.append(
            (
                log,
                *(f"{value:.4g}" for value in values),
                " · ".join(f"{ratio:.2f}" for ratio in ratios).replace("-", "−"),
            )
        )
    header = ("log", "π0", "boosting", "`learn`", "best policy", "gain of `learn` ÷ gain of boosting, by seed")
    return format_table(header, cells)
