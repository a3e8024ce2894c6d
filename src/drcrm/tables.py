"""The paper's tables from an experiment's metrics: tidy frames, and their Markdown and LaTeX."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from .statistics import compare
from .style import METRICS, SELECTIONS, dataset_label, look


def loss_table(metrics: pd.DataFrame, metric: str, datasets: Sequence[str], selections: Sequence[str], seeds: int):
    """Summarise one metric for every data set and selection: a row per (dataset, selection, algorithm).

    A run that is missing among the seeds 0 … seeds − 1 makes its algorithm's mean missing.
    """
    frames = []
    for dataset in datasets:
        for selection in selections:
            cell = metrics[(metrics["dataset"] == dataset) & (metrics["selection"] == selection)]
            losses = cell.pivot(index="seed", columns="algorithm", values=metric).reindex(range(seeds))
            compared = compare(losses[list(dict.fromkeys(cell["algorithm"]))])
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


def paper_comparison(tables: Mapping[str, pd.DataFrame], paper: pd.DataFrame, stands_for: Mapping[str, tuple]):
    """Put each cell beside the paper's: a row per (metric, dataset, algorithm, selection) that the paper has.

    ``tables``: metric → loss table; ``stands_for``: data set → (the paper's data set, how the data differ).
    """
    rows = []
    for metric, table in tables.items():
        for row in table.to_dict("records"):
            if row["dataset"] not in stands_for:
                continue
            papers, differs = stands_for[row["dataset"]]
            printed = paper[
                (paper["metric"] == metric) & (paper["dataset"] == papers) & (paper["algorithm"] == row["algorithm"])
            ]
            for value in printed["value"]:
                rows.append(
                    {
                        "metric": metric,
                        "dataset": row["dataset"],
                        "algorithm": row["algorithm"],
                        "selection": row["selection"],
                        "paper_dataset": papers,
                        "paper": value,
                        "ours": row["mean"],
                        "difference": row["mean"] - value,
                        "standard_error": row["standard_error"],
                        "n_seeds": row["n_seeds"],
                        "data_differ": differs,
                    }
                )
    columns = ["metric", "dataset", "algorithm", "selection", "paper_dataset", "paper", "ours", "difference"]
    return pd.DataFrame(rows, columns=[*columns, "standard_error", "n_seeds", "data_differ"])


def loss_markdown(table: pd.DataFrame, metric: str, datasets: Sequence[str], selections: Sequence[str]) -> str:
    """One Markdown table per selection: algorithms down, data sets across, mean ± standard error, the best bold."""
    parts = []
    for selection in selections:
        header = ["", *map(dataset_label, datasets)]
        rows = [[label, *cells] for label, cells in _cells(table, datasets, selection, _markdown_cell, "label")]
        seeds = table["n_seeds"].max()
        parts.append(
            f"**{METRICS[metric]}** on the test set, hyper-parameters chosen by {SELECTIONS[selection]}: "
            f"mean ± standard error over {seeds} seeds. Bold: not significantly worse than the best learned "
            "algorithm (one-tailed paired t-test at 0.05).\n\n" + markdown(header, rows)
        )
    return "\n".join(parts)


def loss_latex(table: pd.DataFrame, metric: str, datasets: Sequence[str], selections: Sequence[str]) -> str:
    """One booktabs tabular per selection, with the same cells."""
    parts = []
    for selection in selections:
        header = ["", *(rf"\textbf{{{dataset_label(name)}}}" for name in datasets)]
        rows = [[label, *cells] for label, cells in _cells(table, datasets, selection, _latex_cell, "latex")]
        parts.append(f"% {METRICS[metric]}, chosen by {SELECTIONS[selection]}\n" + latex(header, rows))
    return "\n".join(parts)


def hyperparameter_markdown(table: pd.DataFrame, datasets: Sequence[str]) -> str:
    """The range of each grid, and how often each value was chosen on each data set."""
    return markdown(*_hyperparameter_cells(table, datasets, "label", power=_plain_power))


def hyperparameter_latex(table: pd.DataFrame, datasets: Sequence[str]) -> str:
    """The same as a booktabs tabular."""
    return latex(*_hyperparameter_cells(table, datasets, "latex", power=lambda value: f"${_power(value)}$"))


def comparison_markdown(comparison: pd.DataFrame) -> str:
    """The paper's cells beside ours."""
    if comparison.empty:
        return "None of this experiment's data sets stands for one of the paper's.\n"
    header = ["Metric", "Data", "Algorithm", "Chosen by", "Paper", "Ours", "Difference", "Std. error", "Data differ"]
    rows = [
        [
            METRICS[row.metric],
            dataset_label(row.dataset),
            look(row.algorithm).label,
            SELECTIONS[row.selection],
            f"{row.paper:.3f}",
            _number(row.ours),
            _number(row.difference, "+.3f"),
            _number(row.standard_error),
            row.data_differ,
        ]
        for row in comparison.itertuples()
    ]
    return markdown(header, rows)


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A pipe table."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def latex(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A booktabs tabular."""
    lines = [rf"\begin{{tabular}}{{l{'c' * (len(header) - 1)}}}", r"\toprule", " & ".join(header) + r" \\", r"\midrule"]
    lines += [" & ".join(row) + r" \\" for row in rows]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def _cells(table, datasets, selection, cell, label):
    """(label, its cell in each data set) for each algorithm, in the table's order."""
    for algorithm in dict.fromkeys(table["algorithm"]):
        at = table[(table["algorithm"] == algorithm) & (table["selection"] == selection)].set_index("dataset")
        yield getattr(look(algorithm), label), [cell(at.loc[name]) if name in at.index else "" for name in datasets]


def _markdown_cell(row) -> str:
    mean = _number(row["mean"])
    mean = f"**{mean}**" if row["best"] else mean
    return mean if np.isnan(row["standard_error"]) else f"{mean} ± {row['standard_error']:.3f}"


def _latex_cell(row) -> str:
    mean = _number(row["mean"])
    mean = rf"\textbf{{{mean}}}" if row["best"] else mean
    return mean if np.isnan(row["standard_error"]) else rf"{mean} {{\scriptsize $\pm$ {row['standard_error']:.3f}}}"


def _hyperparameter_cells(table, datasets, label, power):
    header = ["Algorithm", "Range", "Chosen by", *map(dataset_label, datasets)]
    rows = []
    for (algorithm, selection), group in table.groupby(["algorithm", "selection"], sort=False):
        grid = sorted(set(group["value"]))
        cells = []
        for dataset in datasets:
            at = group[(group["dataset"] == dataset) & (group["times_chosen"] > 0)]
            cells.append(", ".join(f"{power(v)}: {n}" for v, n in zip(at["value"], at["times_chosen"], strict=True)))
        ends = f"{power(grid[0])} … {power(grid[-1])}"
        rows.append([getattr(look(algorithm), label), ends, SELECTIONS[selection], *cells])
    return header, rows


def _power(value: float) -> str:
    """A value as a power of ten where its exponent is a whole or half number (3.16 counts as √10)."""
    exponent = round(2 * np.log10(value)) / 2
    return f"10^{{{exponent:g}}}" if abs(np.log10(value) - exponent) < 1e-3 else f"{value:g}"


def _plain_power(value: float) -> str:
    return _power(value).replace("{", "").replace("}", "")


def _number(value: float, form: str = ".3f") -> str:
    return "missing" if np.isnan(value) else format(value, form)
