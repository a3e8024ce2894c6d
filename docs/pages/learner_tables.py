"""Table that compares learned scores with boosted trees, from published results."""

from __future__ import annotations

import pandas as pd

from pages.published import metrics, study
from pages.reference_pages import format_table

ETAS = {"_soft": 0.25, "": 1.0, "_sharp": 4.0}
TREES = {"reward-weighted trees": "rewarded_rows_trees", "importance-weighted trees": "importance_weighted_trees"}
SCORES = "kl_dro_dr_scores"


def score_errors() -> pd.DataFrame:
    """Return errors in % on the runs that have learned scores, with a row per algorithm, data set, η, costs and seed.

    Classifiers take their most probable actions; the other policies draw their actions.
    """
    runs = study("learned_scores")
    keys = ["dataset", "clicks", "eta", "seed"]
    parts = [runs.assign(error=100 * runs["expected_loss"])]
    for clicks in ("", "_clicks"):
        for suffix, eta in ETAS.items():
            rows = metrics(f"single_choice{clicks}{suffix}").query("selection == 'dr_bound'")
            rows = rows.assign(clicks=bool(clicks), eta=eta).merge(runs[keys].drop_duplicates(), on=keys)
            loss = rows["expected_loss"].where(~rows["algorithm"].isin(TREES.values()), rows["greedy_loss"])
            parts.append(rows.assign(error=100 * loss))
    return pd.concat(parts)[["algorithm", *keys, "error"]]


def mean_errors(errors: pd.DataFrame) -> pd.DataFrame:
    """Return the means over η and seeds, then over data sets, with a row per algorithm and a column per kind of costs.

    Data sets have different numbers of seeds, so each of them has the same weight.
    """
    by_set = errors.groupby(["algorithm", "clicks", "dataset"])["error"].mean()
    return by_set.groupby(["algorithm", "clicks"]).mean().unstack("clicks")


def learned_scores() -> str:
    """Return mean errors by data set, costs and η, and their means over data sets and η."""
    errors = score_errors()
    columns = {
        "π0, drawn": "logging",
        **TREES,
        "`dm_trees`": "dm_trees",
        "`kl_dro_dr_map`": "kl_dro_dr_map",
        "`kl_dro_dr_scores`": SCORES,
    }
    cells, means = errors.groupby(["dataset", "clicks", "algorithm", "eta"])["error"].mean(), mean_errors(errors)
    sets = {"satimage": "satimage", "pendigits": "pendigits", "digits": "digits_single", "letter": "letter"}
    rows = []
    for clicks, suffix in ((False, ""), (True, ", clicks")):
        for label, data in sets.items():
            values = [
                " · ".join(f"{cells[data, clicks, name, eta]:.1f}" for eta in ETAS.values())
                for name in columns.values()
            ]
            rows.append((f"{label}{suffix}", *values))
        rows.append((f"mean{suffix}", *(f"{means.loc[name, clicks]:.2f}" for name in columns.values())))
    return format_table(("error in %, at η = ¼ · 1 · 4", *columns), rows)
