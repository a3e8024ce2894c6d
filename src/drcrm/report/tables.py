"""The paper's tables from an experiment's metrics, as tidy frames; in print they are ``drcrm.report.markup``'s."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from .comparisons import UNCHOSEN, UNRANKED, compare, interval, larger_p_value
from .style import METRICS, SELECTIONS


def loss_table(metrics: pd.DataFrame, metric: str, datasets: Sequence[str], selections: Sequence[str], seeds: int):
    """Summarise one metric for every data set and selection: a row per (dataset, selection, algorithm).

    A run that is missing among the seeds 0 … seeds − 1 makes its algorithm's mean missing. ``converged`` is the share
    of the chosen fits that converged.
    """
    frames = []
    for dataset in datasets:
        for selection in selections:
            cell = metrics[(metrics["dataset"] == dataset) & (metrics["selection"] == selection)]
            losses = cell.pivot(index="seed", columns="algorithm", values=metric).reindex(range(seeds))
            compared = compare(losses[list(dict.fromkeys(cell["algorithm"]))])
            compared["converged"] = cell.groupby("algorithm")["converged"].mean()
            compared.insert(0, "dataset", dataset)
            compared.insert(1, "selection", selection)
            frames.append(compared.rename_axis("algorithm").reset_index())
    table = pd.concat(frames, ignore_index=True)
    return table[["dataset", "algorithm", "selection", *table.columns[3:]]]


def hyperparameter_table(metrics: pd.DataFrame, grids: Mapping[str, Sequence[float]], datasets, selections):
    """Count how often each value of each grid was chosen: a row per (dataset, algorithm, selection, value)."""
    rows = []
    for dataset in datasets:
        for algorithm, grid in grids.items():
            for selection in selections:
                at = [
                    metrics[name] == value
                    for name, value in {"dataset": dataset, "algorithm": algorithm, "selection": selection}.items()
                ]
                chosen = metrics.loc[np.logical_and.reduce(at), "hyperparameter"]
                key = {"dataset": dataset, "algorithm": algorithm, "selection": selection}
                rows += [{**key, "value": value, "times_chosen": int((chosen == value).sum())} for value in grid]
    return pd.DataFrame(rows, columns=["dataset", "algorithm", "selection", "value", "times_chosen"])


def paired_differences(metrics: pd.DataFrame, reference: str, selections: Sequence[str]) -> pd.DataFrame:
    """Compare every learned algorithm with one of them, seed by seed: a row per (metric, dataset, replay count, …).

    ``difference`` is the mean of its loss less the reference's; ``p_larger`` and ``p_smaller`` are of one-tailed paired
    t-tests. A seed that lacks one of the two makes the row missing. Empty where the reference was not run.
    """
    rows = []
    for metric in METRICS:
        cells = metrics[metrics["selection"].isin(selections)].groupby(
            ["dataset", "replay_count", "selection"], sort=False
        )
        for (dataset, count, selection), cell in cells:
            losses = cell.pivot(index="seed", columns="algorithm", values=metric)
            for algorithm in dict.fromkeys(cell["algorithm"]):
                if reference not in losses or algorithm in (reference, *UNRANKED):
                    continue
                of = interval(losses[algorithm] - losses[reference])
                rows.append(
                    {
                        "metric": metric,
                        "dataset": dataset,
                        "replay_count": count,
                        "selection": selection,
                        "algorithm": algorithm,
                        "difference": of.mean,
                        "standard_error": of.standard_error,
                        "ci_low": of.low,
                        "ci_high": of.high,
                        "p_larger": larger_p_value(losses[algorithm], losses[reference]),
                        "p_smaller": larger_p_value(losses[reference], losses[algorithm]),
                        "n_seeds": int((losses[algorithm] - losses[reference]).notna().sum()),
                    }
                )
    return pd.DataFrame(rows, columns=PAIRED)


PAIRED = ["metric", "dataset", "replay_count", "selection", "algorithm", "difference", "standard_error"]
PAIRED += ["ci_low", "ci_high", "p_larger", "p_smaller", "n_seeds"]


@dataclass(frozen=True)
class Protocol:
    """The options of an experiment in which the paper's text and the public POEM code differ."""

    replay_count: int
    split_unit: str
    logging_c: float
    absent_label_score: str
    variance_penalty_scale: str

    def differences(self, data: str, algorithm: str, selection: str, of: Protocol, by: str, whose: str) -> list[str]:
        """Say in words where a cell's data or protocol differ from another's: its protocol, selection and name."""
        said = [
            (data, data),
            (self.replay_count != of.replay_count, f"replay count {self.replay_count}, {whose}: {of.replay_count}"),
            (
                self.logging_c != of.logging_c and algorithm != "skyline",
                f"π0 with C = {self.logging_c:g}, {whose}: {of.logging_c:g}",
            ),
            (
                self.split_unit != of.split_unit and algorithm != "skyline",
                f"held out by {self.split_unit}, {whose}: by {of.split_unit}",
            ),
            (
                selection != by and algorithm not in UNCHOSEN,
                f"chosen by {SELECTIONS[selection]}, {whose}: {SELECTIONS[by]}",
            ),
            (
                self.absent_label_score != of.absent_label_score and algorithm == "logging",
                f"labels absent from π0's contexts: {self.absent_label_score}, {whose}: {of.absent_label_score}",
            ),
            (
                self.variance_penalty_scale != of.variance_penalty_scale and algorithm == "poem",
                f"scale of λ: {self.variance_penalty_scale}, {whose}: {of.variance_penalty_scale}",
            ),
        ]
        return [words for differs, words in said if differs]


TEXT = {"split_unit": "context", "absent_label_score": "logged", "variance_penalty_scale": "unit"}
PUBLIC = {"split_unit": "row", "absent_label_score": "half", "variance_penalty_scale": "calibrated"}
PAPER = Protocol(replay_count=4, logging_c=0.1, **TEXT), "ips", "the paper's text"
CODE = Protocol(replay_count=4, logging_c=0.1, **PUBLIC), "snips", "the public code"


def paper_comparison(
    tables: Mapping[str, pd.DataFrame],
    paper: pd.DataFrame,
    code: pd.DataFrame,
    stands_for: Mapping[str, tuple[str, str]],
    protocol: Protocol,
) -> pd.DataFrame:
    """Put each cell beside the paper's, and the public code's where there is one: a row per (metric, dataset, …).

    Parameters
    ----------
    tables : metric → loss table
    paper, code : DataFrame
        Cells of the paper, which come without errors, and of the public code.
    stands_for : data set → (the paper's data set, how the data differ)

    Returns
    -------
    DataFrame
        ``difference`` and ``difference_in_errors`` are to the paper's cell, the second in our standard errors;
        ``code_difference_in_errors`` is in joint ones. ``differs`` says where data or protocol are not the same.
    """
    rows = []
    for metric, table in tables.items():
        for row in table[table["dataset"].isin(stands_for)].to_dict("records"):
            papers, data = stands_for[row["dataset"]]
            key = {"metric": metric, "dataset": papers, "algorithm": row["algorithm"]}
            printed, known = _find(paper, key), _find(code, key)
            if printed is None:
                continue
            cell = data, row["algorithm"], row["selection"]
            differs = protocol.differences(*cell, *PAPER)
            if known is not None:
                differs += [words for words in protocol.differences(*cell, *CODE) if words != data]
            difference, error = row["mean"] - printed["value"], row["standard_error"]
            found = {
                "metric": metric,
                "dataset": row["dataset"],
                "algorithm": row["algorithm"],
                "selection": row["selection"],
                "paper_dataset": papers,
                "paper": printed["value"],
                "ours": row["mean"],
                "difference": difference,
                "standard_error": error,
                "difference_in_errors": difference / error,
                "n_seeds": row["n_seeds"],
            }
            if known is not None:
                found["code"] = known["mean"]
                found["code_standard_error"] = known["standard_error"]
                joint = np.hypot(error, known["standard_error"])
                found["code_difference_in_errors"] = (row["mean"] - known["mean"]) / joint
            rows.append({**found, "differs": "; ".join(differs)})
    return pd.DataFrame(rows, columns=COMPARISON)


COMPARISON = [
    "metric",
    "dataset",
    "algorithm",
    "selection",
    "paper_dataset",
    "paper",
    "ours",
    "difference",
    "standard_error",
    "difference_in_errors",
    "n_seeds",
    "code",
    "code_standard_error",
    "code_difference_in_errors",
    "differs",
]


def _find(table: pd.DataFrame, key: Mapping[str, str]) -> dict | None:
    """The row of a table with these values, if it has one."""
    rows = table[np.logical_and.reduce([table[name] == value for name, value in key.items()])].to_dict("records")
    return rows[0] if rows else None
