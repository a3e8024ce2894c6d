"""Tables that compare learned scores with boosted trees, from published results."""

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


def click_gains() -> pd.DataFrame:
    """Return gains over π0 from few clicks, in percentage points: mean and standard error over the draws.

    There is a row per algorithm and number of contexts, and a column per statistic and η.
    """
    rows = study("click_logs")
    rows = rows.assign(gain=100 * (rows["logging"] - rows["expected_loss"]))
    keys = ["algorithm", "contexts", "sharpness"]
    of_draws = rows.groupby([*keys, "seed"])["gain"].mean()
    return of_draws.groupby(keys).agg(["mean", "sem"]).unstack("sharpness")


def click_logs() -> str:
    """Return gains over π0 from few clicks, with a row per algorithm."""
    gains = click_gains()
    learners = {
        "`learn`, keeps π0 if not shown better": "learn",
        "`kl_dro_dr_scores`": SCORES,
        "`kl_dro_dr`": "kl_dro_dr",
        **TREES,
        "`dm_trees`": "dm_trees",
    }
    number = "{:.1f}".format
    cells = (gains["mean"].map(number) + " ± " + gains["sem"].map(number)).replace("-", "−", regex=True)
    columns = [(n, eta) for eta in cells.columns for n in cells.index.unique("contexts")]
    header = ("points fewer wrong actions than π0", *(f"{n} rows, η = {eta:g}" for n, eta in columns))
    rows = [(label, *(cells.loc[(name, n), eta] for n, eta in columns)) for label, name in learners.items()]
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
