"""The tables in print: from the frames of ``tables`` and ``paper`` to text in a markup, the same cells in each."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from drcrm.reports.roles import LOGGING, ROLES, SKYLINE, WITHOUT_HYPERPARAMETER
from drcrm.reports.tables.markup import Markup
from drcrm.selection.score_names import SCORES

ENOUGH_SEEDS = 5  # with fewer, nearly nothing is significantly worse than the best


def losses(table: pd.DataFrame, metric: str, selection: str, to: Markup) -> str:
    """Algorithms × data sets, as one selection has them: mean ± standard error, the best bold.

    ``table`` is a loss table of ``result_tables``. Several groups of algorithms stand under their names, π0
    before them, and the skyline after them under its own heading. With few seeds only the smallest mean of the learned
    is bold.
    """
    said = (
        f"{_loss(table, metric, to)} on the test set, hyper-parameters chosen by {SCORES[selection]}: mean ± standard "
        f"error over {seeds_in_print(table, to)}. {meaning_of_bold(table, to)}"
    )
    return to.titled(said, *loss_columns(table, selection, to))


def loss_columns(table: pd.DataFrame, selection: str, to: Markup) -> tuple[list[str], list[list[str]]]:
    """The header and the rows of ``losses``."""
    at = _rows_of_selection(table, selection).set_index(["dataset", "algorithm"])
    datasets, algorithms = (list(dict.fromkeys(at.index.get_level_values(level))) for level in (0, 1))
    groups = to.names.grouped(name for name in algorithms if name not in ROLES)

    def row(algorithm: str) -> list[str]:
        cells = (_loss_cell(at.loc[data, algorithm], to) if (data, algorithm) in at.index else "" for data in datasets)
        return [to.algorithm(algorithm), *cells]

    def heading(group: str) -> list[str]:
        return [to.italic.format(to.text(group)), *[""] * len(datasets)]

    rows = [row(LOGGING)] if LOGGING in algorithms else []
    for group, members in groups.items():
        rows += [*([heading(group)] if len(groups) > 1 else []), *map(row, members)]
    if SKYLINE in algorithms:
        rows += [*([heading("Skyline")] if len(groups) > 1 else []), row(SKYLINE)]
    return ["", *map(to.names.dataset, datasets)], rows


def details(table: pd.DataFrame, metric: str, selection: str, to: Markup) -> str:
    """All that a loss table knows of one selection, a row per data set and algorithm."""
    said = (
        f"{_loss(table, metric, to)}, chosen by {SCORES[selection]}: 95 % intervals (Student t), p-values of a larger "
        "mean than that of the best learned algorithm, the same adjusted by Holm over a data set, seeds, and the "
        f"share of the chosen fits that converged. {meaning_of_bold(table, to)}"
    )
    header = ["Data", "Algorithm", "Mean", "95 % interval", "p", "p (Holm)", "Seeds", "Converged"]
    rows = [
        [
            to.names.dataset(row.dataset),
            to.algorithm(row.algorithm),
            to.bold.format(to.number(row.mean)) if row.best else to.number(row.mean),
            "" if np.isnan(row.ci_low) else f"{to.number(row.ci_low)} … {to.number(row.ci_high)}",
            to.number(row.p_value, ".2g", absent=""),
            to.number(row.p_holm, ".2g", absent=""),
            str(row.n_seeds),
            to.text(to.number(row.converged, ".0%", absent="")),
        ]
        for row in _rows_of_selection(table, selection).itertuples()
    ]
    return to.titled(said, header, rows)


def seeds_in_print(table: pd.DataFrame, to: Markup) -> str:
    """How many seeds the data sets of a loss table have, in words."""
    return to.text(to.names.seeds(_seeds(table)))


def meaning_of_bold(table: pd.DataFrame, to: Markup) -> str:
    """What ``best`` says as it is printed."""
    few = {name: number for name, number in _seeds(table).items() if number < ENOUGH_SEEDS}
    where = f" on {to.text(', '.join(map(to.names.dataset, few)))}" if set(table["dataset"]) - set(few) else ""
    tested = "Bold: not significantly worse than the best learned algorithm (one-tailed paired t-test at 0.05)"
    if not few:
        return f"{tested}."
    seeds = to.names.seeds({"": max(few.values())})
    has = "has" if seeds == "1 seed" else "have"
    said = f"the smallest mean of what is learned; {seeds} {has} too little power to tell which are worse."
    return f"{tested};{where} {said}" if where else f"Bold: {said}"


def _seeds(table: pd.DataFrame) -> dict[str, int]:
    """How many seeds each data set of a loss table has."""
    return table.groupby("dataset", sort=False)["n_seeds"].max().to_dict()


def _loss(table: pd.DataFrame, metric: str, to: Markup) -> str:
    """What a loss is called on the data sets of a table."""
    return to.text(to.names.loss(metric, dict.fromkeys(table["dataset"])))


def _rows_of_selection(table: pd.DataFrame, selection: str) -> pd.DataFrame:
    """The rows of a loss table that one selection has, with ``best`` as it is printed."""
    at = table[table["selection"] == selection]
    learned = ~at["algorithm"].isin(ROLES)
    smallest = at["mean"].where(learned).groupby(at["dataset"]).transform("min")
    enough = at["dataset"].map(_seeds(table)) >= ENOUGH_SEEDS
    return at.assign(best=at["best"].where(enough, (at["mean"] == smallest) & learned))


def hyperparameters(table: pd.DataFrame, datasets: Sequence[str], to: Markup) -> str:
    """The range of each grid, and how often each of its values was chosen on each data set, from low to high."""
    header = ["Algorithm", "Range", "Chosen by", *map(to.names.dataset, datasets)]
    rows = []
    for (algorithm, selection), group in table.groupby(["algorithm", "selection"], sort=False):
        grid = sorted(set(group["value"]))
        counts = [group[group["dataset"] == data].set_index("value")["times_chosen"] for data in datasets]
        cells = [" ".join(str(count[value]) for value in grid) if len(count) else "" for count in counts]
        ends = f"{to.power_of_ten(grid[0])} … {to.power_of_ten(grid[-1])}"
        rows.append([to.algorithm(algorithm), ends, SCORES[selection], *cells])
    said = "How often each value of a grid was chosen, from its low end to its high."
    return to.titled(said, header, rows)


def comparison(table: pd.DataFrame, to: Markup) -> str:
    """The paper's and the public code's cells beside ours: a table per metric."""
    if table.empty:
        return to.heading.format("None of this experiment's data sets stands for one of the paper's.")
    return "\n".join(comparison_of(table, metric, to) for metric in dict.fromkeys(table["metric"]))


def comparison_of(table: pd.DataFrame, metric: str, to: Markup) -> str:
    """The cells of one metric beside ours, one row for what chooses nothing."""
    header = ["Data", "Algorithm", "Chosen by", "Paper", "Ours", "Less the paper's", "Public code", "Less the code's"]
    cells = table[table["metric"] == metric]
    said = (
        f"{_loss(cells, metric, to)}: mean ± standard error, and what ours is above (+) or below (−) the others; in "
        "brackets the same in standard errors: ours for the paper, which prints none, joint ones for the public "
        "code. Where nothing is chosen nothing stands under chosen by; what differs in data or protocol is below."
    ).replace("−", to.minus)
    cells = cells.assign(selection=cells["selection"].where(~cells["algorithm"].isin(WITHOUT_HYPERPARAMETER), ""))
    cells = cells.drop_duplicates(["dataset", "algorithm", "selection"])
    groups = cells.groupby(["dataset", "algorithm"], sort=False)
    numbers: dict[str, int] = {}
    rows = [_comparison_row(row, numbers, to) for _, group in groups for row in group.to_dict("records")]
    columns = [column for column in zip([*header, "Differs"], *rows, strict=True) if any(column[1:])]
    header, *rows = (list(line) for line in zip(*columns, strict=True))
    table = to.titled(said, header, rows)
    notes = "; ".join(f"({number}) {to.text(note)}" for note, number in numbers.items())
    return f"{table}\n{to.heading.format(f'Differs: {notes}.').rstrip()}\n" if notes else table


def differences(table: pd.DataFrame, to: Markup) -> str:
    """Paired differences to POEM, a row each."""
    header = ["Metric", "Data", "Δ", "Chosen by", "Algorithm"]
    header += ["Difference to POEM", "p (larger)", "p (smaller)", "Seeds"]
    rows = [
        [
            to.text(to.names.loss(row.metric, [row.dataset])),
            to.names.dataset(row.dataset),
            str(row.replay_count),
            SCORES[row.selection],
            to.algorithm(row.algorithm),
            to.with_error(to.number(row.difference, "+.3f"), row.standard_error),
            to.number(row.p_larger, ".2g", absent=""),
            to.number(row.p_smaller, ".2g", absent=""),
            str(row.n_seeds),
        ]
        for row in table.itertuples()
    ]
    said = (
        "Losses less POEM's on the same seed: mean ± standard error, and the p-values of one-tailed paired t-tests "
        "that the difference is larger or smaller than 0."
    )
    return to.titled(said, header, rows)


def differences_by_count(table: pd.DataFrame, metric: str, selection: str, to: Markup) -> str:
    """Paired differences to POEM in one loss and by one selection: data sets and replay counts × algorithms."""
    chosen = table[(table["metric"] == metric) & (table["selection"] == selection)]
    names = list(dict.fromkeys(chosen["algorithm"]))
    rows = []
    for (data, count), group in chosen.groupby(["dataset", "replay_count"], sort=False):
        of = group.set_index("algorithm").to_dict("index")
        ends = min(group["n_seeds"]), max(group["n_seeds"])
        seeds = " … ".join(map(str, dict.fromkeys(ends)))
        cells = [_difference_cell(of[name], to) if name in of else "" for name in names]
        rows.append([to.names.dataset(data), str(count), seeds, *cells])
    said = (
        f"{_loss(chosen, metric, to)} less POEM's on the same seed, chosen by {SCORES[selection]}: mean ± standard "
        "error; in brackets the p-value of a one-tailed paired t-test that it is smaller."
    )
    return to.titled(said, ["Data", "Δ", "Seeds", *map(to.names.label, names)], rows)


def _difference_cell(row: dict, to: Markup) -> str:
    difference = to.with_error(to.number(row["difference"], "+.3f"), row["standard_error"])
    known = np.isfinite([row["difference"], row["p_smaller"]]).all()
    return f"{difference} ({to.number(row['p_smaller'], '.2g')})" if known else difference


def _loss_cell(row, to: Markup) -> str:
    mean = to.number(row["mean"])
    return to.with_error(to.bold.format(mean) if row["best"] else mean, row["standard_error"])


def _comparison_row(row: dict, numbers: dict[str, int], to: Markup) -> list[str]:
    def more(difference: float, in_errors: float) -> str:
        return to.number(difference, "+.3f") + ("" if np.isnan(in_errors) else f" ({to.number(in_errors, '+.1f')})")

    known = not np.isnan(row["code"])
    notes = [numbers.setdefault(note, len(numbers) + 1) for note in row["differs"].split("; ") if note]
    return [
        to.names.dataset(row["dataset"]),
        to.algorithm(row["algorithm"]),
        SCORES.get(row["selection"], ""),
        f"{row['paper']:.3f}",
        to.with_error(to.number(row["ours"]), row["standard_error"]),
        more(row["difference"], row["difference_in_errors"]),
        to.with_error(to.number(row["code"]), row["code_standard_error"]) if known else "",
        more(row["ours"] - row["code"], row["code_difference_in_errors"]) if known else "",
        ", ".join(map(str, sorted(notes))),
    ]
