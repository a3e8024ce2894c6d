"""Tables of an experiment: means over seeds with paired tests, and the comparison with published results."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.special import stdtr, stdtrit

from drcrm.errors import InputError
from drcrm.paper import LOGGING, LOSSES, POEM, ROLES, SKYLINE, WITHOUT_HYPERPARAMETER
from drcrm.paper.reports.plan import Plan
from drcrm.selection.score_names import SCORES

CELL = ["metric", "paper_dataset", "algorithm"]
FOLDER = Path(__file__).parent / "data"
COMPARISON = ["metric", "dataset", "algorithm", "selection", "paper_dataset", "paper", "ours", "difference"]
COMPARISON += ["standard_error", "difference_in_errors", "n_seeds", "code", "code_standard_error"]
COMPARISON += ["code_difference_in_errors", "differs"]

PAPER = {  # protocol of the paper
    "replay_count": 4,
    "logging_fraction": 0.05,
    "logging": "crf",
    "logging_c": 0.1,
    "logging_sharpness": 1,
    "heldout_fraction": 0.25,
    "split_unit": "context",
    "absent_label_score": "logged",
    "variance_penalty_scale": "unit",
    "selection": "IPS",
}
CODE = {  # protocol of the public code
    **PAPER,
    "split_unit": "row",
    "absent_label_score": "half",
    "variance_penalty_scale": "calibrated",
    "stopping": "public_code",  # the paper's text does not mention it
    "selection": "SNIPS",
}

DIFFERENCES = {  # option → sentence: ours, the source, the source's
    "replay_count": "replay count {}, {}: {}",
    "logging_fraction": "π0 trained on {:.3g} of the contexts, {}: {:.3g}",
    "logging": "logging policy {}, {}: {}",
    "logging_c": "π0 with C = {:g}, {}: {:g}",
    "logging_sharpness": "π0's coefficients times {:g}, {}: {:g}",
    "heldout_fraction": "held out {:.3g}, {}: {:.3g}",
    "split_unit": "held out by {}, {}: by {}",
    "selection": "chosen by {}, {}: {}",
    "absent_label_score": "labels absent from π0's contexts: {}, {}: {}",
    "variance_penalty_scale": "scale of λ: {}, {}: {}",
    "stopping": "stopping: {}, {}: {}",
}
NO_SKYLINE = (
    "The paper's CRF is left out: Table 1 prints it as an expected loss, but 0.646 on Scene and 2.817 on Yeast match "
    "greedy losses."
)

PAIRED = ["metric", "dataset", "replay_count", "selection", "algorithm", "difference", "standard_error"]
PAIRED += ["ci_low", "ci_high", "p_larger", "p_smaller", "n_seeds"]
RANKED = ["metric", "selection", "algorithm", "average_rank", "difference", "p_adjusted"]
RANKED += ["friedman", "friedman_p", "n_datasets"]
OPTIONAL = ("paper_comparison", "differences_to_*", "average_ranks")  # tables that an experiment may lack
LEVEL = 0.05
ROUNDING = 1e-12  # relative difference of two losses that are equal up to rounding


def require_runs(metrics: pd.DataFrame, **values: Iterable) -> None:
    """Raise an InputError for the first combination of values of the columns that no row has."""
    runs = set(metrics[list(values)].itertuples(index=False, name=None))
    for run in product(*values.values()):
        if run not in runs:
            words = (f"{column} {value!r}" for column, value in zip(values, run, strict=True))
            raise InputError(f"no run with {', '.join(words)}")


def require_all_runs(metrics: pd.DataFrame, plan: Plan) -> None:
    """Raise an InputError for the first run of the plan without metrics."""
    runs, columns = plan.of_runs(metrics), {"selection": plan.selections, "algorithm": [*plan.grids, *ROLES]}
    for dataset in plan.datasets:
        require_runs(runs, dataset=[dataset], seed=range(plan.seeds_of(dataset)), **columns)


def all_tables(metrics: pd.DataFrame, plan: Plan) -> dict[str, pd.DataFrame]:
    """Return the tables by name. All are about the plan's runs, but paired differences are about all runs.

    An optional table without rows is left out.

    Raises
    ------
    InputError
        If a data set or a selection criterion of the plan has no runs.
    """
    order = {name: index for index, name in enumerate(plan.datasets)}
    metrics = plan.of_algorithms(metrics)
    metrics = metrics.sort_values("dataset", key=lambda names: names.map(order), kind="stable")  # unknown ones last
    differences = paired_differences(metrics, plan)
    metrics = plan.of_runs(metrics)
    require_runs(metrics, dataset=plan.datasets, selection=plan.selections)
    losses = {metric: loss_table(metrics, metric, plan) for metric in LOSSES}
    optional = {
        "paper_comparison": paper_comparison(losses, plan),
        f"differences_to_{plan.reference}": differences,
        "average_ranks": average_ranks(losses, plan),
    }
    return {
        **losses,
        "hyperparameters": hyperparameter_table(metrics, plan.grids, plan.datasets, plan.selections),
        **{name: table for name, table in optional.items() if len(table)},
    }


def loss_table(metrics: pd.DataFrame, metric: str, plan: Plan) -> pd.DataFrame:
    """Summarise one metric: one row per data set, selection criterion and algorithm of a plan.

    A missing run makes its algorithm's mean missing. ``converged`` is the share of chosen fits that converged.
    """
    frames = []
    for dataset, selection in product(plan.datasets, plan.selections):
        cell = metrics[(metrics["dataset"] == dataset) & (metrics["selection"] == selection)]
        losses = cell.pivot(index="seed", columns="algorithm", values=metric).reindex(range(plan.seeds_of(dataset)))
        compared = compare(losses[list(dict.fromkeys(cell["algorithm"]))])
        compared["converged"] = cell.groupby("algorithm")["converged"].mean()
        frames.append(compared.rename_axis("algorithm").reset_index().assign(dataset=dataset, selection=selection))
    table = pd.concat(frames, ignore_index=True)
    keys = ["dataset", "algorithm", "selection"]
    return table[[*keys, *table.columns.drop(keys)]]


def hyperparameter_table(
    metrics: pd.DataFrame, grids: Mapping[str, Sequence[float]], datasets: Sequence[str], selections: Sequence[str]
) -> pd.DataFrame:
    """Count how often each value of each grid was chosen."""
    keys = ["dataset", "algorithm", "selection"]
    counts = metrics.groupby([*keys, "hyperparameter"]).size()
    rows = [(*key, value) for key in product(datasets, grids, selections) for value in grids[key[1]]]
    table = pd.DataFrame(rows, columns=[*keys, "value"])
    return table.assign(times_chosen=[int(counts.get(row, 0)) for row in rows])


def paired_differences(metrics: pd.DataFrame, plan: Plan) -> pd.DataFrame:
    """Compare every learned algorithm with the plan's reference on the same seeds, at every replay count.

    ``difference`` is the mean loss minus the reference's. ``p_larger`` and ``p_smaller`` belong to one-tailed paired
    t-tests. ``p_value`` is ``p_smaller``, or that of the two-tailed test, and ``p_holm`` is adjusted for all tests of a
    loss, selection criterion and replay count. A seed that lacks one of the two makes the row missing. The table is
    empty without the reference.
    """
    rows = []
    runs, keys = metrics[metrics["selection"].isin(plan.selections)], ["dataset", "replay_count", "selection"]
    for metric, (key, cell) in product(LOSSES, runs.groupby(keys, sort=False)):
        losses = cell.pivot(index="seed", columns="algorithm", values=metric)
        reference, learned = losses.get(plan.reference), losses.columns.drop([plan.reference, *ROLES], errors="ignore")
        for name in [name for name in dict.fromkeys(cell["algorithm"]) if name in learned and reference is not None]:
            p_values = larger_p_value(losses[name], reference), larger_p_value(reference, losses[name])
            differences = losses[name] - reference
            rows.append((metric, *key, name, *interval(differences).values(), *p_values, int(differences.count())))
    table = pd.DataFrame(rows, columns=PAIRED)
    two_tailed = 2 * table[["p_larger", "p_smaller"]].min(axis=1)
    table["p_value"] = table["p_smaller"] if plan.alternative == "less" else two_tailed
    return table.assign(p_holm=table.groupby(["metric", "replay_count", "selection"])["p_value"].transform(holm))


def average_ranks(losses: Mapping[str, pd.DataFrame], plan: Plan) -> pd.DataFrame:
    """Rank the learned algorithms by their mean losses on each data set, and test the ranks over data sets.

    Rank 1 is the smallest loss, and equal losses share their ranks. Algorithms that lack a run on a data set are left
    out. The table is empty without the reference, with one data set, and with one seed.

    Returns
    -------
    DataFrame
        One row per loss, selection criterion and algorithm. ``difference`` is the average rank minus the reference's.
        ``friedman`` and ``friedman_p`` are the statistic and the p-value of Friedman's test with three or more
        algorithms. ``p_adjusted`` compares an algorithm with the reference: signed-rank tests on the mean losses of the
        data sets, adjusted by Holm, or Nemenyi's two-tailed test of the average ranks, which is adjusted for all pairs.

    Notes
    -----
    Nemenyi's p-value is P(Q > |R_i − R_j| / √(k (k + 1) / (12 N))) for average ranks R of k algorithms on N data sets
    and the studentised range Q of k values with infinitely many degrees of freedom. Source: Demšar 2006.
    """
    rows = []
    for metric, selection in product(LOSSES, plan.selections):
        cell = losses[metric][losses[metric]["selection"] == selection]
        means = cell.pivot(index="dataset", columns="algorithm", values="mean")
        means = means[[name for name in dict.fromkeys(cell["algorithm"]) if name not in ROLES]].dropna(axis=1)
        if plan.reference in means and len(means) > 1 and means.shape[1] > 1 and cell["n_seeds"].max() > 1:
            means = means.map(lambda mean: float(f"{mean:.12g}"))  # losses that are equal up to rounding are ties
            rows.append(_test_ranks(means, plan).assign(metric=metric, selection=selection, n_datasets=len(means)))
    return pd.concat(rows).reindex(columns=RANKED) if rows else pd.DataFrame(columns=RANKED)


def _test_ranks(means: pd.DataFrame, plan: Plan) -> pd.DataFrame:
    """Return the ranks and tests of algorithms from their mean losses (data sets × algorithms)."""
    from scipy import stats  # imported here: slow, and most experiments have few data sets

    (n, k), ranks = means.shape, means.rank(axis=1).mean()
    table = pd.DataFrame({"average_rank": ranks, "difference": ranks - ranks[plan.reference]})
    if k > 2:
        table["friedman"], table["friedman_p"] = stats.friedmanchisquare(*means.to_numpy().T)
    rivals = means.columns.drop(plan.reference)
    if plan.rank_test == "nemenyi":
        range_of_ranks = table["difference"][rivals].abs() / np.sqrt(k * (k + 1) / (12 * n))
        p_values = stats.studentized_range.sf(range_of_ranks, k, np.inf)
    else:
        differences = [means[name] - means[plan.reference] for name in rivals]
        tests = [stats.wilcoxon(d, alternative=plan.alternative).pvalue if d.any() else 1.0 for d in differences]
        p_values = holm(tests)
    table["p_adjusted"] = pd.Series(p_values, rivals)
    return table.rename_axis("algorithm").reset_index()


def differences(ours: Mapping, theirs: Mapping, source: str, algorithm: str) -> list[str]:
    """Return the differences between two protocols that concern an algorithm, in words."""
    concerns = {
        "selection": algorithm not in WITHOUT_HYPERPARAMETER,
        "absent_label_score": algorithm == LOGGING,
        "variance_penalty_scale": algorithm == POEM,
        "stopping": algorithm != LOGGING,
    }
    return [
        sentence.format(ours[key], source, theirs[key])
        for key, sentence in DIFFERENCES.items()
        if concerns.get(key, True) and key in theirs and ours[key] != theirs[key]
    ]


def published(name: str, columns: Mapping[str, str]) -> pd.DataFrame:
    """Return the first row of a published table for each metric, data set and algorithm, with renamed columns."""
    table = pd.read_csv(FOLDER / f"{name}.csv").rename(columns={"dataset": "paper_dataset"})
    return table.drop_duplicates(CELL)[[*CELL, *columns]].rename(columns=columns)


def paper_comparison(tables: Mapping[str, pd.DataFrame], plan: Plan) -> pd.DataFrame:
    """Compare each cell of the loss tables with the paper, and with the public code if it has the cell.

    The skyline is left out: the paper prints it as an expected loss, but two of its values match greedy losses.

    Returns
    -------
    DataFrame
        One row per metric, data set, algorithm and selection. ``difference_in_errors`` is the difference from the paper
        in our standard errors, ``code_difference_in_errors`` that from the public code in joint standard errors.
        ``differs`` lists differences in data and protocol.
    """
    ours = pd.concat([table.assign(metric=metric) for metric, table in tables.items()], ignore_index=True)
    ours = ours[ours["dataset"].isin(plan.papers)].rename(columns={"mean": "ours"})
    ours["paper_dataset"] = [plan.papers[name][0] for name in ours["dataset"]]
    code = published("reference_code", {"mean": "code", "standard_error": "code_standard_error"})
    ours = ours[ours["algorithm"] != SKYLINE]
    table = ours.merge(published("paper_tables", {"value": "paper"}), on=CELL).merge(code, "left", on=CELL)
    errors, code_difference = table["standard_error"], table["ours"] - table["code"]
    table["difference"] = table["ours"] - table["paper"]
    table["difference_in_errors"] = table["difference"] / errors
    table["code_difference_in_errors"] = code_difference / np.hypot(errors, table["code_standard_error"])
    table["differs"] = [_differs(row, plan) for row in table.to_dict("records")]
    return table.reindex(columns=COMPARISON)


def _differs(row: Mapping, plan: Plan) -> str:
    """Return the differences of a cell in data and protocol, in words."""
    ours = {"replay_count": plan.counts[0], **plan.protocol, "selection": SCORES[row["selection"]]}
    words = [plan.papers[row["dataset"]][1], *differences(ours, PAPER, "the paper's text", row["algorithm"])]
    if not np.isnan(row["code"]):
        words += differences(ours, CODE, "the public code", row["algorithm"])
    return "; ".join(filter(None, words))


def interval(values: ArrayLike) -> dict[str, float]:
    """Return mean, standard_error, low and high of the values of n seeds, by Student's t at 95 %.

    If a value is missing, so is the mean. One seed has no standard error.
    """
    values = np.asarray(values, dtype=float)
    n, mean = len(values), values.mean() if len(values) else np.nan
    error = values.std(ddof=1) / np.sqrt(n) if n > 1 else np.nan
    half = stdtrit(n - 1, 0.975) * error
    return {"mean": mean, "standard_error": error, "low": mean - half, "high": mean + half}


def larger_p_value(values: ArrayLike, best: ArrayLike) -> float:
    """Return the p-value of a one-tailed paired t-test of whether ``values`` have the larger mean.

    Seeds with both values are pairs. Values that are equal up to rounding count as equal. The p-value is ½ if all
    differences are zero, and NaN for fewer than two pairs.
    """
    values, best = np.asarray(values, dtype=float), np.asarray(best, dtype=float)
    difference = np.where(np.isclose(values, best, rtol=ROUNDING, atol=ROUNDING / 1000), 0, values - best)
    difference = difference[np.isfinite(difference)]
    if len(difference) < 2:
        return np.nan
    spread = difference.std(ddof=1)
    if spread == 0:
        return {0: 0.5, 1: 0.0, -1: 1.0}[int(np.sign(difference[0]))]
    return float(stdtr(len(difference) - 1, -difference.mean() / (spread / np.sqrt(len(difference)))))


def holm(p_values: ArrayLike) -> np.ndarray:
    """Return p-values of one family, adjusted by Holm's method. Missing values stay missing and are not counted."""
    p_values = np.asarray(p_values, dtype=float)
    order = np.argsort(p_values)[: np.isfinite(p_values).sum()]  # missing values are last
    adjusted = np.full_like(p_values, np.nan)
    adjusted[order] = np.maximum.accumulate(p_values[order] * np.arange(len(order), 0, -1))
    return np.minimum(adjusted, 1)


def compare(losses: pd.DataFrame) -> pd.DataFrame:
    """Summarise and compare algorithms for one data set, metric and selection criterion.

    Parameters
    ----------
    losses : DataFrame (seeds × algorithms)
        A missing value is a missing run. The mean of its algorithm is then missing too.

    Returns
    -------
    DataFrame (algorithms × mean, standard_error, ci_low, ci_high, best, p_value, p_holm, n_seeds)
        ``p_value`` tests whether the mean is larger than that of the best learned algorithm. The best algorithm and the
        skyline have none. ``best`` is 1 for the best algorithm and for each learned algorithm that is not significantly
        worse at level 0.05; one seed allows no test. ``p_holm`` is adjusted for all tests of the column.
    """
    columns, names = ["mean", "standard_error", "ci_low", "ci_high"], list(map(str, losses))
    table = pd.DataFrame([[*interval(losses[name]).values()] for name in names], losses.columns, columns, dtype=float)
    means = table["mean"].drop(list(ROLES), errors="ignore").dropna()
    best = str(means.idxmin()) if len(means) else None
    tested = [name for name in names if name not in (best, SKYLINE) and not np.isnan(table["mean"][name])]
    p_values = {name: larger_p_value(losses[name], losses[best]) for name in tested if best is not None}
    table["p_value"] = pd.Series(p_values, index=table.index, dtype=float)
    table["best"] = [int(name in means.index and (name == best or table["p_value"][name] >= LEVEL)) for name in names]
    table["p_holm"] = holm(table["p_value"])
    table["n_seeds"] = losses.notna().sum()
    return table[[*columns, "best", "p_value", "p_holm", "n_seeds"]]
