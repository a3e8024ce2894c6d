"""Tables have the same cells in each language, missing values as words, and special characters escaped."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from drcrm.reports.tables.markup import HTML, LATEX, MARKDOWN, Markup
from drcrm.reports.tables.plan import Plan
from drcrm.reports.tables.printed_tables import (
    format_comparison,
    format_details,
    format_hyperparameters,
    format_losses,
)
from drcrm.reports.tables.published_results import COMPARISON
from drcrm.reports.tables.result_tables import hyperparameter_table, loss_table

MARKUPS = {"md": MARKDOWN, "tex": LATEX, "html": HTML}


@pytest.fixture(params=MARKUPS)
def kind(request) -> str:
    return request.param


@pytest.fixture
def to(kind, names) -> Markup:
    return replace(MARKUPS[kind], names=names)


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


def test_losses(table, to):
    text = format_losses(
        loss_table(table, "expected_loss", Plan(["my_set"], ["snips"], 5, [4])), "expected_loss", "snips", to
    )
    assert to.bold.format("1.000") + to.error.format(0.035) in text
    assert to.bold.format("1.001") in text
    assert to.bold.format("2.000") not in text
    assert [("aKL-CRM" in line) for line in text.splitlines() if "missing" in line] == [True]


@pytest.mark.parametrize("seeds", [1, 4])
def test_with_few_seeds_only_the_smallest_mean_is_bold(table, to, seeds):
    """The title says so. π0 and the skyline are not learned, so they are never bold."""
    few = loss_table(table[table["seed"] < seeds], "expected_loss", Plan(["my_set"], ["snips"], seeds, [4]))
    for format_part in (format_losses, format_details):
        text = format_part(few, "expected_loss", "snips", to)
        assert text.count(to.bold.format("1.000")) == (1 if seeds == 4 else 0)
        assert sum(to.bold.format(f"{mean:.3f}") in text for mean in few["mean"].dropna().unique()) == 1
        assert ("1 seed has too little power" if seeds == 1 else "4 seeds have too little power") in text


def test_details(table, to):
    frame = loss_table(table, "expected_loss", Plan(["my_set"], ["snips"], 5, [4]))
    text = format_details(frame, "expected_loss", "snips", to)
    assert to.text("80%") in text
    assert "0.902 … 1.098" in text


def test_hyperparameters(table, to):
    grids = {"poem": [0.001, 0.01], "kl_crm": [0.7, 3.16]}
    text = format_hyperparameters(hyperparameter_table(table, grids, ["my_set"], ["snips"]), ["my_set"], to)
    sign = "-" if to.table is LATEX.table else "−"  # a minus sign in LaTeX mathematics
    assert f"{to.power.format(f'{sign}3')} … {to.power.format(f'{sign}2')}" in text
    assert f"0.7 … {to.power.format('0.5')}" in text
    assert f"{to.power.format(f'{sign}2')}: 5" in text
    assert f"{to.power.format('0.5')}: 5" in text
    assert ": 0" not in text


def test_notes_are_escaped(kind, to):
    row = dict.fromkeys(COMPARISON, np.nan) | {"metric": "greedy_loss", "dataset": "yeast", "algorithm": "poem"}
    row |= {"selection": "ips", "paper": 1.0, "differs": "a|b & c_d <e> 5%"}
    text = format_comparison(pd.DataFrame([row]), to)
    expected = {"md": r"a\|b & c_d <e> 5%", "tex": r"a|b \& c\_d <e> 5\%", "html": "a|b &amp; c_d &lt;e&gt; 5%"}
    assert expected[kind] in text
    assert "missing" in text


def test_the_comparison_has_one_row_for_algorithms_without_hyperparameter(to):
    cell = dict.fromkeys(COMPARISON, np.nan) | {"metric": "greedy_loss", "dataset": "yeast", "differs": ""}
    cell |= {"paper": 4.0, "ours": 4.1, "difference": 0.1, "standard_error": 0.04, "difference_in_errors": 2.5}
    code = {"code": 4.2, "code_standard_error": 0.03, "code_difference_in_errors": -2.0}
    rows = [
        cell | code | {"algorithm": "cips", "selection": "snips"},
        cell | {"algorithm": "poem", "selection": "snips", "differs": "this"},
        cell | code | {"algorithm": "cips", "selection": "ips"},
        cell | {"algorithm": "poem", "selection": "ips"},
    ]
    text = format_comparison(pd.DataFrame(rows), to)
    assert text.count("| CIPS |" if to.table is MARKDOWN.table else "CIPS") == 1
    assert text.count("POEM") == 2
    assert "+0.100 (+2.5)" in text
    assert f"{to.minus}0.100 ({to.minus}2.0)" in text
    assert not re.search(r"(?<!\$)-\d", text)
    assert "4.100" + to.error.format(0.04) in text
    assert "4.200" + to.error.format(0.03) in text


def test_greek_names(kind, to):
    labels = [to.algorithm(name) for name in ("chi2_dro", "logging", "my_own")]
    assert labels == ([r"$\chi^2$-DRO", r"$\pi_0$", "my own"] if kind == "tex" else ["χ²-DRO", "π0", "my own"])
