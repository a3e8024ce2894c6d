"""Format the tables of an experiment: the same cells in Markdown, LaTeX and HTML."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from drcrm.reports.roles import LOGGING, ROLES, SKYLINE, WITHOUT_HYPERPARAMETER
from drcrm.reports.tables.comparisons import ENOUGH_SEEDS
from drcrm.reports.tables.markup import Markup
from drcrm.selection.score_names import SCORES


def records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a table as mappings."""
    return table.to_dict("records")  # type: ignore[return-value]


def format_losses(table: pd.DataFrame, metric: str, selection: str, to: Markup) -> str:
    """Return a loss table of one selection criterion, algorithms × data sets: mean ± standard error, the best bold.

    Several groups of algorithms have headings; π0 comes before them, the skyline after them.
    """
    title = (
        f"{_loss_name(table, metric, to)} on the test set, hyper-parameters chosen by {SCORES[selection]}: mean ± "
        f"standard error over {format_seeds(table, to)}. {explain_bold(table, to)}"
    )
    return to.titled(title, *loss_columns(table, selection, to))


def loss_columns(table: pd.DataFrame, selection: str, to: Markup) -> tuple[list[str], list[list[str]]]:
    """Return the header and the rows of ``format_losses``."""
    cells = _rows_of_selection(table, selection).set_index(["dataset", "algorithm"]).to_dict("index")
    datasets, algorithms = (list(dict.fromkeys(keys)) for keys in zip(*cells, strict=True))
    groups = to.names.grouped(name for name in algorithms if name not in ROLES)

    def rows_of(names: Sequence[str], heading: str = "") -> list[list[str]]:
        headings = [[to.italic.format(to.text(heading)), *[""] * len(datasets)]] if heading and len(groups) > 1 else []
        present = [name for name in names if name in algorithms]
        lines = [
            [to.algorithm(name), *(_loss_cell(cells.get((data, name)), to) for data in datasets)] for name in present
        ]
        return headings + lines if present else []

    rows = rows_of([LOGGING])
    for group, members in groups.items():
        rows += rows_of(members, group)
    return ["", *map(to.names.dataset, datasets)], rows + rows_of([SKYLINE], "Skyline")


def _loss_cell(row: Mapping | None, to: Markup) -> str:
    if row is None:
        return ""
    mean = to.number(row["mean"])
    return to.with_error(to.bold.format(mean) if row["best"] else mean, row["standard_error"])


def format_details(table: pd.DataFrame, metric: str, selection: str, to: Markup) -> str:
    """Return all columns of a loss table for one selection criterion, one row per data set and algorithm."""
    title = (
        f"{_loss_name(table, metric, to)}, chosen by {SCORES[selection]}: means with 95 % intervals (Student t). p "
        "tests if a mean is larger than that of the best learned algorithm. p (Holm) is adjusted for all tests on a "
        f"data set. Converged is the share of the chosen fits that converged. {explain_bold(table, to)}"
    )
    header = ["Data", "Algorithm", "Mean", "95 % interval", "p", "p (Holm)", "Seeds", "Converged"]
    rows = [
        [
            to.names.dataset(row["dataset"]),
            to.algorithm(row["algorithm"]),
            to.bold.format(to.number(row["mean"])) if row["best"] else to.number(row["mean"]),
            "" if np.isnan(row["ci_low"]) else f"{to.number(row['ci_low'])} … {to.number(row['ci_high'])}",
            to.number(row["p_value"], ".2g", missing=""),
            to.number(row["p_holm"], ".2g", missing=""),
            str(row["n_seeds"]),
            to.text(to.number(row["converged"], ".0%", missing="")),
        ]
        for row in records(_rows_of_selection(table, selection))
    ]
    return to.titled(title, header, rows)


def format_seeds(table: pd.DataFrame, to: Markup) -> str:
    """Return how many seeds the data sets of a loss table have."""
    return to.text(to.names.seeds(_seeds(table)))


def explain_bold(table: pd.DataFrame, to: Markup) -> str:
    """Return which means are bold: all that are not significantly worse than the best, or the best if seeds are few."""
    few = {name: number for name, number in _seeds(table).items() if number < ENOUGH_SEEDS}
    where = f" on {to.text(', '.join(map(to.names.dataset, few)))}" if set(table["dataset"]) - set(few) else ""
    tested = "Bold: not significantly worse than the best learned algorithm (one-tailed paired t-test at 0.05)"
    if not few:
        return f"{tested}."
    seeds = to.names.seeds({"": max(few.values())})
    verb = "has" if seeds == "1 seed" else "have"
    smallest = f"the smallest mean of the learned algorithms; {seeds} {verb} too little power to tell which are worse."
    return f"{tested};{where} {smallest}" if where else f"Bold: {smallest}"


def _seeds(table: pd.DataFrame) -> dict[str, int]:
    """Return how many seeds each data set of a loss table has."""
    seeds = table.groupby("dataset", sort=False)["n_seeds"].max()
    return {str(dataset): int(number) for dataset, number in seeds.items()}


def _loss_name(table: pd.DataFrame, metric: str, to: Markup) -> str:
    return to.text(to.names.loss(metric, dict.fromkeys(table["dataset"])))


def _rows_of_selection(table: pd.DataFrame, selection: str) -> pd.DataFrame:
    """Return the rows of one selection criterion, with ``best`` for the means that are printed bold."""
    rows = table[table["selection"] == selection]
    is_learned = ~rows["algorithm"].isin(ROLES)
    smallest = rows["mean"].where(is_learned).groupby(rows["dataset"]).transform("min")
    has_enough = rows["dataset"].map(_seeds(table)) >= ENOUGH_SEEDS
    return rows.assign(best=rows["best"].where(has_enough, (rows["mean"] == smallest) & is_learned))


def format_hyperparameters(table: pd.DataFrame, datasets: Sequence[str], to: Markup) -> str:
    """Return the range of each grid, and the values that were chosen on each data set with the number of seeds."""
    rows = []
    for (algorithm, selection), group in table.groupby(["algorithm", "selection"], sort=False):
        grid = sorted(set(group["value"]))
        counts = [group[group["dataset"] == data].set_index("value")["times_chosen"] for data in datasets]
        cells = [
            ", ".join(f"{to.power_of_ten(value)}: {count[value]}" for value in grid if count.get(value, 0))
            for count in counts
        ]
        ends = f"{to.power_of_ten(grid[0])} … {to.power_of_ten(grid[-1])}"
        rows.append([to.algorithm(str(algorithm)), ends, SCORES[str(selection)], *cells])
    title = "The chosen values of each grid, and how many seeds chose them."
    return to.titled(title, ["Algorithm", "Range", "Chosen by", *map(to.names.dataset, datasets)], rows)


def format_comparison(table: pd.DataFrame, to: Markup) -> str:
    """Return our results next to the published ones, one table per metric."""
    if table.empty:
        return to.title.format("The paper uses none of the data sets of this experiment.")
    return "\n".join(format_metric_comparison(table, metric, to) for metric in dict.fromkeys(table["metric"]))


def format_metric_comparison(table: pd.DataFrame, metric: str, to: Markup) -> str:
    """Return the comparison of one metric with the paper. Algorithms without a hyper-parameter have one row."""
    cells = table[table["metric"] == metric]
    title = (
        f"{_loss_name(cells, metric, to)}: mean ± standard error, and the difference from the paper and from the "
        "public code. In brackets is the difference divided by a standard error, which is ours for the paper, since it "
        "prints none, and the joint one for the public code. Algorithms without a hyper-parameter need no selection "
        "criterion. The last column numbers the differences in data or protocol that are listed below."
    )
    cells = cells.assign(selection=cells["selection"].where(~cells["algorithm"].isin(WITHOUT_HYPERPARAMETER), ""))
    cells = cells.drop_duplicates(["dataset", "algorithm", "selection"])
    notes: dict[str, int] = {}
    groups = cells.groupby(["dataset", "algorithm"], sort=False)
    rows = [_comparison_row(row, notes, to) for _, group in groups for row in records(group)]
    header = ["Data", "Algorithm", "Chosen by", "Paper", "Ours", "Difference to paper"]
    header += ["Public code", "Difference to code", "Differs"]
    columns = [column for column in zip(header, *rows, strict=True) if any(column[1:])]
    header, *rows = (list(line) for line in zip(*columns, strict=True))
    text = to.titled(title, header, rows)
    listed = "; ".join(f"({number}) {to.text(note)}" for note, number in notes.items())
    return f"{text}\n{to.title.format(f'Differs, ours first: {listed}.').rstrip()}\n" if notes else text


def _comparison_row(row: Mapping, notes: dict[str, int], to: Markup) -> list[str]:
    """Return the cells of an algorithm. New notes get the next number."""

    def difference(value: float, in_errors: float) -> str:
        return to.number(value, "+.3f") + ("" if np.isnan(in_errors) else f" ({to.number(in_errors, '+.1f')})")

    has_code = not np.isnan(row["code"])
    numbers = [notes.setdefault(note, len(notes) + 1) for note in row["differs"].split("; ") if note]
    return [
        to.names.dataset(row["dataset"]),
        to.algorithm(row["algorithm"]),
        SCORES.get(row["selection"], ""),
        f"{row['paper']:.3f}",
        to.with_error(to.number(row["ours"]), row["standard_error"]),
        difference(row["difference"], row["difference_in_errors"]),
        to.with_error(to.number(row["code"]), row["code_standard_error"]) if has_code else "",
        difference(row["ours"] - row["code"], row["code_difference_in_errors"]) if has_code else "",
        ", ".join(map(str, sorted(numbers))),
    ]


def format_differences(table: pd.DataFrame, to: Markup) -> str:
    """Return all paired differences to POEM."""
    header = ["Metric", "Data", "Δ", "Chosen by", "Algorithm"]
    header += ["Difference to POEM", "p (larger)", "p (smaller)", "Seeds"]
    rows = [
        [
            to.text(to.names.loss(row["metric"], [row["dataset"]])),
            to.names.dataset(row["dataset"]),
            str(row["replay_count"]),
            SCORES[row["selection"]],
            to.algorithm(row["algorithm"]),
            to.with_error(to.number(row["difference"], "+.3f"), row["standard_error"]),
            to.number(row["p_larger"], ".2g", missing=""),
            to.number(row["p_smaller"], ".2g", missing=""),
            str(row["n_seeds"]),
        ]
        for row in records(table)
    ]
    title = (
        "Losses minus POEM's on the same seed: mean ± standard error, and the p-values of one-tailed paired t-tests "
        "that the difference is larger or smaller than 0."
    )
    return to.titled(title, header, rows)


def format_differences_by_count(table: pd.DataFrame, metric: str, selection: str, to: Markup) -> str:
    """Return the differences to POEM in one loss: data sets and replay counts × algorithms."""
    chosen = table[(table["metric"] == metric) & (table["selection"] == selection)]
    names = list(dict.fromkeys(chosen["algorithm"]))
    rows = []
    for (data, count), group in chosen.groupby(["dataset", "replay_count"], sort=False):
        by_algorithm = group.set_index("algorithm").to_dict("index")
        seeds = " … ".join(map(str, dict.fromkeys((min(group["n_seeds"]), max(group["n_seeds"])))))
        cells = [_difference_cell(by_algorithm.get(name), to) for name in names]
        rows.append([to.names.dataset(str(data)), str(count), seeds, *cells])
    title = (
        f"{_loss_name(chosen, metric, to)} minus POEM's on the same seed, chosen by {SCORES[selection]}: mean ± "
        "standard error; in brackets the p-value of a one-tailed paired t-test for a smaller loss than POEM's."
    )
    return to.titled(title, ["Data", "Δ", "Seeds", *map(to.names.label, names)], rows)


def _difference_cell(row: Mapping | None, to: Markup) -> str:
    if row is None:
        return ""
    difference = to.with_error(to.number(row["difference"], "+.3f"), row["standard_error"])
    is_tested = np.isfinite([row["difference"], row["p_smaller"]]).all()
    return f"{difference} ({to.number(row['p_smaller'], '.2g')})" if is_tested else difference
