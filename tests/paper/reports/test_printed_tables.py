"""Tables have the same cells in each language, missing values as words, and special characters escaped."""

import numpy as np
import pandas as pd
import pytest

from drcrm.paper.reports.plan import Plan
from drcrm.paper.reports.printed_tables import (
    PrintedTable,
    print_comparison,
    print_details,
    print_hyperparameters,
    print_losses,
)
from drcrm.paper.reports.result_tables import COMPARISON, hyperparameter_table, loss_table


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    """Five seeds: POEM is best, KL-CRM is not significantly worse, CIPS is, and aKL-CRM lacks a seed."""
    means = {"logging": 3.0, "cips": 2.0, "poem": 1.0, "kl_crm": 1.001, "akl_crm": 1.0, "skyline": 0.5}
    noise = np.array([0.1, -0.1, 0.05, -0.05, 0.0])
    rows = [
        {
            "dataset": "my_set",
            "seed": seed,
            "algorithm": name,
            "selection": "snips",
            "expected_loss": mean + noise[seed] * (1 - 0.1 * (name == "kl_crm")),
            "hyperparameter": {"poem": 0.01, "kl_crm": 3.16}.get(name),
            "converged": {"poem": float(seed > 0), "kl_crm": 1.0}.get(name),
        }
        for name, mean in means.items()
        for seed in range(5)
        if (name, seed) != ("akl_crm", 2)
    ]
    return pd.DataFrame(rows)


def losses_of(table: pd.DataFrame, seeds: int) -> pd.DataFrame:
    plan = Plan(["my_set"], ["snips"], seeds, [4])
    return loss_table(table[table["seed"] < seeds], "expected_loss", plan)


def test_losses_and_details(table, names):
    printed = print_losses(losses_of(table, 5), "expected_loss", "snips", names).frame.set_index("")["my set"]
    assert printed[["POEM", "CIPS", "aKL-CRM"]].tolist() == ["**1.000** ± 0.035", "2.000 ± 0.035", "missing"]
    assert printed["kl crm"].startswith("**1.001** ± ")
    details = print_details(losses_of(table, 5), "expected_loss", "snips", names).frame.set_index("Algorithm")
    assert details.loc["POEM", ["95 % interval", "Converged"]].tolist() == ["0.902 … 1.098", "80%"]


@pytest.mark.parametrize("seeds", [1, 4])
def test_with_few_seeds_only_the_smallest_mean_is_bold(table, names, seeds):
    """The title says so. π0 and the skyline are not learned, so they are never bold."""
    for print_table in (print_losses, print_details):
        text = print_table(losses_of(table, seeds), "expected_loss", "snips", names).markdown()
        assert text.count("**1.000**") == (1 if seeds == 4 else 0)
        assert text.count("**") == 2
        assert ("1 seed has too little power" if seeds == 1 else "4 seeds have too little power") in text


def test_hyperparameters(table, names):
    grids = {"poem": [0.001, 0.01], "kl_crm": [0.7, 3.16]}
    plan = Plan(["my_set"], ["snips"], 5, [4], names=names, grids=grids)
    printed = print_hyperparameters(hyperparameter_table(table, grids, ["my_set"], ["snips"]), plan).frame
    assert printed["Range"].tolist() == ["10^−3 … 10^−2", "0.7 … 10^0.5"]
    assert printed["my set"].tolist() == ["10^−2: 5", "10^0.5: 5"]


MARKED = {"markdown": r"a\|b & c_d <e> 5%", "latex": r"a|b \& c\_d <e> 5\%", "html": "a|b &amp; c_d &lt;e&gt; 5%"}
CELLS = {
    "markdown": ["**−1.0** ± 0.5", "*Theirs*", "10^−0.5: 3", "χ²-DRO π0"],
    "latex": [
        r"\textbf{$-$1.0} {\scriptsize $\pm$ 0.5}",
        r"\textit{Theirs}",
        "$10^{-0.5}$: 3",
        r"$\chi^2$-DRO $\pi_0$",
    ],
    "html": ["<b>−1.0</b> ± 0.5", "<i>Theirs</i>", "10<sup>−0.5</sup>: 3", "χ²-DRO π0"],
}


@pytest.mark.parametrize("language", CELLS)
def test_marks_and_special_characters_are_those_of_the_language(language):
    """In the caption, the header, the cells and the note."""
    marked = "a|b & c_d <e> 5%"
    frame = pd.DataFrame({marked: [marked, *CELLS["markdown"]]})
    text = getattr(PrintedTable(marked, frame, marked), language)()
    assert text.count(MARKED[language]) == 4
    assert all(cell in text for cell in CELLS[language])


def test_the_comparison_has_one_row_for_algorithms_without_hyperparameter(names):
    cell = dict.fromkeys(COMPARISON, np.nan) | {"metric": "greedy_loss", "dataset": "yeast", "differs": ""}
    cell |= {"paper": 4.0, "ours": 4.1, "difference": 0.1, "standard_error": 0.04, "difference_in_errors": 2.5}
    code = {"code": 4.2, "code_standard_error": 0.03, "code_difference_in_errors": -2.0}
    rows = [
        cell | code | {"algorithm": "cips", "selection": "snips"},
        cell | {"algorithm": "poem", "selection": "snips", "differs": "this; that", "ours": np.nan},
        cell | code | {"algorithm": "cips", "selection": "ips"},
        cell | {"algorithm": "poem", "selection": "ips", "differs": "that"},
    ]
    printed = print_comparison(pd.DataFrame(rows), "greedy_loss", names)
    assert printed.note == "Differs, ours first: (1) this; (2) that."
    assert printed.frame["Algorithm"].tolist() == ["CIPS", "POEM", "POEM"]
    assert printed.frame["Differs"].tolist() == ["", "1, 2", "2"]
    assert printed.frame["Ours"].tolist() == ["4.100 ± 0.040", "missing ± 0.040", "4.100 ± 0.040"]
    assert printed.frame.iloc[0, 5:-1].tolist() == ["+0.100 (+2.5)", "4.200 ± 0.030", "−0.100 (−2.0)"]
