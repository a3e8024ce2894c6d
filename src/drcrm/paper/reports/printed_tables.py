"""Printed tables of an experiment: frames of texts, written in Markdown, LaTeX (booktabs) or HTML."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np
import pandas as pd

from drcrm.paper import ENOUGH_SEEDS, LOGGING, LOSSES, ROLES, SKYLINE, WITHOUT_HYPERPARAMETER
from drcrm.paper.reports.markup import PrintedTable, number, p_value_text, power_of_ten, with_error
from drcrm.paper.reports.plan import Names, Plan, join
from drcrm.paper.reports.result_tables import NO_SKYLINE
from drcrm.selection.score_names import SCORES

TESTS = (
    "p tests if a mean is larger than that of the best learned algorithm. p (Holm) is adjusted for all tests on a data "
    "set. "
)
_TAILS = {"less": "one-tailed {} for a smaller loss", "two-sided": "two-tailed {}"}


def printed_tables(tables: Mapping[str, pd.DataFrame], plan: Plan) -> dict[str, dict[str, PrintedTable]]:
    """Return the printed tables of each table of ``all_tables``, by the name of its LaTeX file.

    The first has the name of the table and is by the headline criterion.
    """
    names = plan.names
    printed: dict[str, dict[str, PrintedTable]] = {}
    for metric in LOSSES:
        arguments = {f"by_{by}": (tables[metric], metric, by, names) for by in plan.selections}
        losses = {key: print_losses(*values) for key, values in arguments.items()}
        details = {f"in_detail_{key}": print_details(*values) for key, values in arguments.items()}
        printed[metric] = losses | details
    printed["hyperparameters"] = {
        f"by_{by}": print_hyperparameters(tables["hyperparameters"], plan, [by]) for by in plan.selections
    }
    if (published := tables.get("paper_comparison")) is not None:
        printed["paper_comparison"] = {
            f"{metric}_by_{by}": print_comparison(published[published["selection"] == by], metric, names)
            for metric, by in product(dict.fromkeys(published["metric"]), plan.selections)
        }
    if (paired := tables.get(paired_name := f"differences_to_{plan.reference}")) is not None:
        printed[paired_name] = {
            f"{metric}_by_{by}": print_differences(paired, metric, by, plan)
            for metric, by in product(dict.fromkeys(paired["metric"]), plan.selections)
        }
    if (ranks := tables.get("average_ranks")) is not None:
        cells = ranks[["metric", "selection"]].drop_duplicates().itertuples(index=False)
        printed["average_ranks"] = {f"{metric}_by_{by}": print_ranks(ranks, metric, by, plan) for metric, by in cells}
    return {
        name: {f"{name}_{key}" if place else name: table for place, (key, table) in enumerate(parts.items())}
        for name, parts in printed.items()
    }


def report_tables(tables: Mapping[str, pd.DataFrame], plan: Plan) -> dict[str, dict[str, PrintedTable]]:
    """Return the printed tables of ``all_tables`` by section and title.

    Losses are tabulated by each selection criterion, all other tables by the headline criterion. Empty tables are left
    out. Titles consist of letters, hyphens and spaces, because the report puts them into data URIs.
    """
    names, headline, sections = plan.names, plan.selections[0], {}
    titles = {metric: names.title(metric, plan.datasets) for metric in LOSSES}
    for metric, title in titles.items():
        by_criterion = {
            f"{title} by {SCORES[by]}": print_losses(tables[metric], metric, by, names) for by in plan.selections
        }
        details = {f"{title} in detail": print_details(tables[metric], metric, headline, names)}
        sections[f"{LOSSES[metric]} loss"] = by_criterion | details
    if len(tables["hyperparameters"]):
        chosen = print_hyperparameters(tables["hyperparameters"], plan, plan.selections)
        sections["Hyper-parameters"] = {"Chosen hyper-parameters": chosen}
    if (published := tables.get("paper_comparison")) is not None:
        sections["Comparison with the paper"] = {
            f"{titles[metric]} compared with the paper": print_comparison(published, metric, names)
            for metric in dict.fromkeys(published["metric"])
        }
    label = names.label(plan.reference)
    title = label if re.fullmatch("[A-Za-z -]+", label) else plan.reference.replace("_", " ")
    if (paired := tables.get(f"differences_to_{plan.reference}")) is not None:
        sections[f"Differences to {label}"] = {
            f"{titles[metric]} compared with {title}": print_differences(paired, metric, headline, plan)
            for metric in dict.fromkeys(paired["metric"])
        }
    if (ranks := tables.get("average_ranks")) is not None:
        sections["Ranks over data sets"] = {
            f"{titles[metric]} ranks over data sets": print_ranks(ranks, metric, headline, plan)
            for metric in dict.fromkeys(ranks[ranks["selection"] == headline]["metric"])
        }
    return sections


def print_losses(
    table: pd.DataFrame, metric: str, selection: str, names: Names, decimals: int = 3, where: str = ""
) -> PrintedTable:
    """Return a loss table of one selection criterion, algorithms × data sets: mean ± standard error, the best bold.

    Several groups of algorithms have headings; π0 comes before them, the skyline after them. ``where`` follows the name
    of the loss, by default the test sets.
    """
    caption = (
        f"{names.loss(metric, table['dataset'])}{where or _test_sets(table, names)}, hyper-parameters chosen by "
        f"{SCORES[selection]}: {_means(table, names, 'mean ± standard error')}. {_explain_bold(table, names)}"
    )
    rows = _rows_of_selection(table, selection)
    texts = [with_error(_mean(row, decimals), row["standard_error"], decimals) for row in rows.to_dict("records")]
    cells = rows.assign(text=texts).pivot(index="algorithm", columns="dataset", values="text").fillna("")
    cells = cells[list(dict.fromkeys(rows["dataset"]))]
    learned = names.grouped(name for name in dict.fromkeys(rows["algorithm"]) if name not in ROLES)
    lines = []
    for group, members in (("", [LOGGING]), *learned.items(), ("Skyline", [SKYLINE])):
        present = [name for name in members if name in cells.index]
        if group and present and len(learned) > 1:
            lines.append([f"*{group}*", *[""] * cells.shape[1]])
        lines += [[names.label(name), *cells.loc[name]] for name in present]
    return PrintedTable(caption, pd.DataFrame(lines, columns=["", *map(names.dataset, cells)]))


def print_details(table: pd.DataFrame, metric: str, selection: str, names: Names) -> PrintedTable:
    """Return all columns of a loss table for one selection criterion, one row per data set and algorithm.

    One seed has no intervals and no tests.
    """
    has_tests = max(_seeds(table).values()) > 1
    caption = (
        f"{names.loss(metric, table['dataset'])}{_test_sets(table, names)}, hyper-parameters chosen by "
        f"{SCORES[selection]}: {_means(table, names, 'means with 95 % intervals (Student t)')}. "
        f"{TESTS if has_tests else ''}Converged is the share of the chosen fits that converged. "
        f"{_explain_bold(table, names)}"
    )
    rows = [
        {
            "Data": names.dataset(row["dataset"]),
            "Algorithm": names.label(row["algorithm"]),
            "Mean": _mean(row),
            "95 % interval": "" if np.isnan(row["ci_low"]) else f"{number(row['ci_low'])} … {number(row['ci_high'])}",
            "p": p_value_text(row["p_value"]),
            "p (Holm)": p_value_text(row["p_holm"]),
            "Seeds": str(row["n_seeds"]),
            "Converged": number(row["converged"], ".0%", missing=""),
        }
        for row in _rows_of_selection(table, selection).to_dict("records")
    ]
    frame = pd.DataFrame(rows)
    return PrintedTable(caption, frame if has_tests else frame.drop(columns=["95 % interval", "p", "p (Holm)"]))


def _means(table: pd.DataFrame, names: Names, means: str) -> str:
    """Return the words for the means of a loss table over its seeds."""
    seeds = _seeds(table)
    return f"{means} over {names.seeds(seeds)}" if max(seeds.values()) > 1 else "losses of 1 seed"


def _test_sets(table: pd.DataFrame, names: Names) -> str:
    """Return the words for the test sets of a table."""
    datasets = [names.dataset(name) for name in dict.fromkeys(table["dataset"])]
    return f" on the test set{'s' * (len(datasets) > 1)} of {join(datasets)}"


def _explain_bold(table: pd.DataFrame, names: Names) -> str:
    """Return which means are bold: all that are not significantly worse than the best, or the best if seeds are few."""
    few = {name: n for name, n in _seeds(table).items() if n < ENOUGH_SEEDS}
    where = f" on {', '.join(map(names.dataset, few))}" if set(table["dataset"]) - set(few) else ""
    tested = "Bold: not significantly worse than the best learned algorithm (one-tailed paired t-test at 0.05)"
    if not few:
        return f"{tested}."
    seeds = max(few.values())
    power = f"; {seeds} seeds have too little power to tell which are worse" if seeds > 1 else ""
    smallest = f"the smallest mean of the learned algorithms{power}."
    return f"{tested};{where} {smallest}" if where else f"Bold: {smallest}"


def _seeds(table: pd.DataFrame) -> dict[str, int]:
    """Return how many seeds each data set of a loss table has."""
    return table.groupby("dataset", sort=False)["n_seeds"].max().to_dict()


def _mean(row: Mapping, decimals: int = 3) -> str:
    mean = number(row["mean"], f".{decimals}f")
    return f"**{mean}**" if row["best"] else mean


def _rows_of_selection(table: pd.DataFrame, selection: str) -> pd.DataFrame:
    """Return the rows of one selection criterion, with ``best`` for the means that are printed bold."""
    rows = table[table["selection"] == selection]
    is_learned = ~rows["algorithm"].isin(ROLES)
    smallest = rows["mean"].where(is_learned).groupby(rows["dataset"]).transform("min")
    has_enough = rows["dataset"].map(_seeds(table)) >= ENOUGH_SEEDS
    return rows.assign(best=rows["best"].where(has_enough, (rows["mean"] == smallest) & is_learned))


def print_hyperparameters(table: pd.DataFrame, plan: Plan, selections: Sequence[str]) -> PrintedTable:
    """Return the range of each grid, and the values that were chosen on each data set with the number of seeds."""
    names, rows, table = plan.names, [], table[table["selection"].isin(selections)]
    for (algorithm, selection), group in table.groupby(["algorithm", "selection"], sort=False):
        chosen = group[group["times_chosen"] > 0].sort_values("value")
        texts = chosen["value"].map(power_of_ten) + ": " + chosen["times_chosen"].astype(str)
        cells = texts.groupby(chosen["dataset"]).agg(", ".join).reindex(plan.datasets, fill_value="")
        ends = " … ".join(map(power_of_ten, (group["value"].min(), group["value"].max())))
        rows.append([names.label(str(algorithm)), ends, SCORES[str(selection)], *cells])
    header = ["Algorithm", "Range", "Chosen by", *map(names.dataset, plan.datasets)]
    frame, criteria = pd.DataFrame(rows, columns=header), join((SCORES[name] for name in selections), "or")
    return PrintedTable(
        f"Values of each grid that {criteria} chose on {join(header[3:])}, each with the number of seeds, of "
        f"{plan.seeds_in_words}.",
        frame.drop(columns="Chosen by") if len(selections) == 1 else frame,
    )


def print_comparison(table: pd.DataFrame, metric: str, names: Names) -> PrintedTable:
    """Return our results in one metric next to the published ones, with numbered notes.

    Algorithms without a hyper-parameter have one row. If there is one selection criterion, the caption names it.
    """
    cells, criteria = table[table["metric"] == metric], list(dict.fromkeys(table["selection"]))
    chosen = f", hyper-parameters chosen by {SCORES[criteria[0]]}" if len(criteria) == 1 else ""
    brackets = (
        "In brackets is the difference divided by a standard error, which is ours for the paper, since it prints none, "
        "and the joint one for the public code. "
    )
    caption = (
        f"{names.loss(metric, cells['dataset'])}{_test_sets(cells, names)}{chosen}: "
        f"{_means(cells, names, 'mean ± standard error')}, and the difference from the paper and from the public code. "
        f"{brackets if max(_seeds(cells).values()) > 1 else ''}Algorithms without a hyper-parameter need no selection "
        "criterion. The last column numbers the differences in data or protocol that are listed below."
    )
    has_criterion = ~cells["algorithm"].isin(WITHOUT_HYPERPARAMETER) & (len(criteria) > 1)
    cells = cells.assign(selection=cells["selection"].where(has_criterion, ""))
    cells = cells.drop_duplicates(["dataset", "algorithm", "selection"])
    notes: dict[str, int] = {}
    parts = [part for _, part in cells.groupby(["dataset", "algorithm"], sort=False)]
    rows = pd.DataFrame([_comparison_row(row, notes, names) for part in parts for row in part.to_dict("records")])
    listed = "; ".join(f"({index}) {note}" for note, index in notes.items())
    below = [f"Differs, ours first: {listed}."] * bool(notes) + [NO_SKYLINE] * (metric == "expected_loss")
    return PrintedTable(caption, rows.loc[:, (rows != "").any()], " ".join(below))


def _comparison_row(row: Mapping, notes: dict[str, int], names: Names) -> dict[str, str]:
    """Return the cells of an algorithm. New notes get the next number."""

    def difference(value: float, in_errors: float) -> str:
        return number(value, "+.3f") + ("" if np.isnan(in_errors) else f" ({number(in_errors, '+.1f')})")

    has_code = not np.isnan(row["code"])
    indices = [notes.setdefault(note, len(notes) + 1) for note in row["differs"].split("; ") if note]
    code_difference = row["ours"] - row["code"], row["code_difference_in_errors"]
    return {
        "Data": names.dataset(row["dataset"]),
        "Algorithm": names.label(row["algorithm"]),
        "Chosen by": SCORES.get(row["selection"], ""),
        "Paper": number(row["paper"]),
        "Ours": with_error(number(row["ours"]), row["standard_error"]),
        "Difference to paper": difference(row["difference"], row["difference_in_errors"]),
        "Public code": with_error(number(row["code"]), row["code_standard_error"]) if has_code else "",
        "Difference to code": difference(*code_difference) if has_code else "",
        "Differs": ", ".join(map(str, sorted(indices))),
    }


def print_differences(table: pd.DataFrame, metric: str, selection: str, plan: Plan) -> PrintedTable:
    """Return the differences to the reference in one loss: data sets and replay counts × algorithms."""
    names, chosen = plan.names, table[(table["metric"] == metric) & (table["selection"] == selection)]
    tests = (
        f": mean ± standard error; in brackets the p-value of a {_TAILS[plan.alternative].format('paired t-test')}, "
        "adjusted by Holm for all algorithms and data sets at a replay count"
    )
    caption = (
        f"{names.loss(metric, chosen['dataset'])}{_test_sets(chosen, names)} minus that of "
        f"{names.label(plan.reference)} on the same seed, hyper-parameters chosen by {SCORES[selection]}"
        f"{tests if chosen['n_seeds'].max() > 1 else ''}."
    )
    p_values = chosen["p_holm"].where(chosen["difference"].notna()).map(p_value_text)
    chosen = chosen.assign(text=_differences(chosen) + p_values.map(lambda text: text and f" ({text})"))
    labels, rows = {name: names.label(name) for name in chosen["algorithm"]}, []
    for (data, count), group in chosen.groupby(["dataset", "replay_count"], sort=False):
        seeds = " … ".join(map(str, dict.fromkeys((min(group["n_seeds"]), max(group["n_seeds"])))))
        cells = group.set_index("algorithm")["text"].reindex(labels, fill_value="")
        rows.append([names.dataset(str(data)), str(count), seeds, *cells])
    return PrintedTable(caption, pd.DataFrame(rows, columns=["Data", "Δ", "Seeds", *labels.values()]))


def _differences(table: pd.DataFrame) -> list[str]:
    """Return the paired differences with their standard errors."""
    return [with_error(number(row["difference"], "+.3f"), row["standard_error"]) for row in table.to_dict("records")]


def print_ranks(table: pd.DataFrame, metric: str, selection: str, plan: Plan) -> PrintedTable:
    """Return the average ranks in one loss over data sets, with their tests, from the smallest rank."""
    rows = table[(table["metric"] == metric) & (table["selection"] == selection)].sort_values("average_rank")
    friedman, p_value = rows[["friedman", "friedman_p"]].iloc[0]
    overall = f"Friedman's test of all ranks: χ² = {number(friedman, '.2f')}, p = {p_value_text(p_value)}. "
    tests = {
        "nemenyi": "two-tailed test of Nemenyi, adjusted for all pairs of algorithms",
        "signed_ranks": f"{_TAILS[plan.alternative].format('signed-rank test')} over data sets, adjusted by Holm",
    }
    reference, data = plan.names.label(plan.reference), [*map(plan.names.dataset, plan.datasets)]
    caption = (
        f"{plan.names.loss(metric, plan.datasets)}: average ranks on the test sets of {len(data)} data sets "
        f"({join(data)}), by means over {plan.seeds_in_words}, hyper-parameters chosen by {SCORES[selection]}. Rank 1 "
        f"is the smallest loss. {'' if np.isnan(p_value) else overall}The last column compares with {reference}: "
        f"p of a {tests[plan.rank_test]}."
    )
    lines = [
        [
            plan.names.label(row["algorithm"]),
            number(row["average_rank"], ".2f"),
            number(row["difference"], "+.2f"),
            p_value_text(row["p_adjusted"]),
        ]
        for row in rows.to_dict("records")
    ]
    return PrintedTable(caption, pd.DataFrame(lines, columns=["Algorithm", "Average rank", f"Minus {reference}", "p"]))
