"""Tables of an experiment: tidy frames computed from its metrics, and the comparison with published results."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd

from drcrm.errors import InputError
from drcrm.reports.roles import LOGGING, LOSSES, REFERENCE, ROLES, SKYLINE, WITHOUT_HYPERPARAMETER
from drcrm.reports.tables.comparisons import compare, interval, larger_p_value
from drcrm.reports.tables.plan import Plan
from drcrm.selection.score_names import SCORES

CELL = ["metric", "paper_dataset", "algorithm"]
FOLDER = Path(__file__).parent / "data"
COMPARISON = ["metric", "dataset", "algorithm", "selection", "paper_dataset", "paper", "ours", "difference"]
COMPARISON += ["standard_error", "difference_in_errors", "n_seeds", "code", "code_standard_error"]
COMPARISON += ["code_difference_in_errors", "differs"]

PAPER = {  # protocol of the paper
    "replay_count": 4,
    "logging_fraction": 0.05,
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

PAIRED = ["metric", "dataset", "replay_count", "selection", "algorithm", "difference", "standard_error"]
PAIRED += ["ci_low", "ci_high", "p_larger", "p_smaller", "n_seeds"]


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
    """Return the tables by name. All are about the plan's runs, but the differences to POEM are about all runs.

    Raises
    ------
    InputError
        If a data set or a selection criterion of the plan has no runs.
    """
    order = {name: index for index, name in enumerate(plan.datasets)}
    metrics = plan.of_algorithms(metrics)
    metrics = metrics.sort_values("dataset", key=lambda names: names.map(order), kind="stable")  # unknown ones last
    differences = paired_differences(metrics, REFERENCE, plan.selections)
    metrics = plan.of_runs(metrics)
    require_runs(metrics, dataset=plan.datasets, selection=plan.selections)
    losses = {metric: loss_table(metrics, metric, plan) for metric in LOSSES}
    return {
        **losses,
        "hyperparameters": hyperparameter_table(metrics, plan.grids, plan.datasets, plan.selections),
        "paper_comparison": paper_comparison(losses, plan),
        "differences_to_poem": differences,
    }


def ablation_table(metrics: pd.DataFrame, plan: Plan) -> pd.DataFrame:
    """Return the expected losses of an ablation's algorithms from each start, by the headline criterion."""
    algorithms = [key for keys in plan.names.starts.values() for key in keys.values()]
    metrics = plan.of_runs(metrics[metrics["algorithm"].isin(algorithms)])
    return loss_table(metrics, "expected_loss", replace(plan, selections=plan.selections[:1]))


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


def paired_differences(metrics: pd.DataFrame, reference: str, selections: Sequence[str]) -> pd.DataFrame:
    """Compare every learned algorithm with a reference on the same seeds, at every replay count.

    ``difference`` is the mean loss minus the reference's. ``p_larger`` and ``p_smaller`` belong to one-tailed paired
    t-tests. A seed that lacks one of the two makes the row missing. The table is empty without the reference.
    """
    rows = []
    runs, keys = metrics[metrics["selection"].isin(selections)], ["dataset", "replay_count", "selection"]
    for metric, (key, cell) in product(LOSSES, runs.groupby(keys, sort=False)):
        losses = cell.pivot(index="seed", columns="algorithm", values=metric)
        learned = [name for name in dict.fromkeys(cell["algorithm"]) if name not in (reference, *ROLES)]
        for name in learned if reference in losses else ():
            differences = losses[name] - losses[reference]
            p_values = larger_p_value(losses[name], losses[reference]), larger_p_value(losses[reference], losses[name])
            rows.append((metric, *key, name, *interval(differences).values(), *p_values, int(differences.count())))
    return pd.DataFrame(rows, columns=PAIRED)


def differences(ours: Mapping, theirs: Mapping, source: str, algorithm: str) -> list[str]:
    """Return the differences between two protocols that concern an algorithm, in words."""
    words = {  # option → sentence, and whether it concerns the algorithm
        "replay_count": ("replay count {}, {}: {}", True),
        "logging_fraction": ("π0 trained on {:.3g} of the contexts, {}: {:.3g}", algorithm != SKYLINE),
        "logging_c": ("π0 with C = {:g}, {}: {:g}", algorithm != SKYLINE),
        "logging_sharpness": ("π0's coefficients times {:g}, {}: {:g}", algorithm != SKYLINE),
        "heldout_fraction": ("held out {:.3g}, {}: {:.3g}", algorithm != SKYLINE),
        "split_unit": ("held out by {}, {}: by {}", algorithm != SKYLINE),
        "selection": ("chosen by {}, {}: {}", algorithm not in WITHOUT_HYPERPARAMETER),
        "absent_label_score": ("labels absent from π0's contexts: {}, {}: {}", algorithm == LOGGING),
        "variance_penalty_scale": ("scale of λ: {}, {}: {}", algorithm == REFERENCE),
        "stopping": ("stopping: {}, {}: {}", algorithm not in (LOGGING, SKYLINE)),
    }
    return [
        sentence.format(ours[key], source, theirs[key])
        for key, (sentence, concerns) in words.items()
        if concerns and key in theirs and ours[key] != theirs[key]
    ]


def published(name: str, columns: Mapping[str, str]) -> pd.DataFrame:
    """Return the first row of a published table for each metric, data set and algorithm, with renamed columns."""
    table = pd.read_csv(FOLDER / f"{name}.csv").rename(columns={"dataset": "paper_dataset"})
    return table.drop_duplicates(CELL)[[*CELL, *columns]].rename(columns=columns)


def paper_comparison(tables: Mapping[str, pd.DataFrame], plan: Plan) -> pd.DataFrame:
    """Compare each cell of the loss tables with the paper, and with the public code if it has the cell.

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
