"""Tables have the same cells in each language, missing values as words, and special characters escaped."""

import re
import shutil
import subprocess

import numpy as np
import pandas as pd
import pytest
from matplotlib.pyplot import imsave

from drcrm.paper.reports.markup import latex_figure
from drcrm.paper.reports.plan import Names, Plan
from drcrm.paper.reports.printed_tables import (
    PrintedTable,
    print_comparison,
    print_details,
    print_hyperparameters,
    print_losses,
    printed_tables,
    report_tables,
)
from drcrm.paper.reports.result_tables import CODE, COMPARISON, all_tables, hyperparameter_table, loss_table


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
        assert ("4 seeds have too little power" in text) == (seeds == 4)


def test_hyperparameters(table, names):
    grids = {"poem": [0.001, 0.01], "kl_crm": [0.7, 3.16]}
    plan = Plan(["my_set"], ["snips"], 5, [4], names=names, grids=grids)
    printed = print_hyperparameters(hyperparameter_table(table, grids, ["my_set"], ["snips"]), plan, ["snips"])
    assert "that SNIPS chose on my set" in printed.caption
    printed = printed.frame
    assert printed["Range"].tolist() == ["10^−3 … 10^−2", "0.7 … 10^0.5"]
    assert printed["my set"].tolist() == ["10^−2: 5", "10^0.5: 5"]


MARKED = {
    "markdown": r"a\|b & c_d <e> 5%",
    "latex": r"a\textbar{}b \& c\_d \textless{}e\textgreater{} 5\%",
    "html": "a|b &amp; c_d &lt;e&gt; 5%",
}
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
    printed = PrintedTable(marked, frame, marked)
    text = printed.latex("x") if language == "latex" else getattr(printed, language)()
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


LABELS = {"poem": "P_O{E}M #1 & 50% [new]", "kl_crm": "λ0 ≥ 10^−2 ~ χ²-DRO", "cips": "* π0^2 \\ $x$"}
COMMANDS = (
    "begin|end|centering|caption|label|small|footnotesize|scriptsize|setlength|tabcolsep|par|(small|med)skip|parbox|"
    "sbox|usebox|ifdim|fi|wd|ht|dp|dimexpr|relax|resizebox|linewidth|textheight|raggedright|strut|"
    "toprule|midrule|bottomrule|text(bf|it|backslash|asciitilde|asciicircum|less|greater|bar)|dots|includegraphics|"
    "pm|chi|pi|lambda|geq|cdot|Delta"
)


def assert_compiles(text: str) -> None:
    """Check what LaTeX needs: matching braces and environments, equal rows, escaped signs and known commands."""
    signs = re.sub(r"\\ifdim.*|\\([A-Za-z]+|.)", " ", text)
    assert all(re.fullmatch(COMMANDS, name) for name in re.findall(r"\\([A-Za-z]+)", text))
    depth = np.cumsum([{"{": 1, "}": -1}.get(sign, 0) for sign in signs])
    assert depth.min() >= 0
    assert depth[-1] == 0
    assert signs.count("$") % 2 == 0
    assert not set(re.sub(r"\$[^$]*\$", "", signs)) & set("_^%#<>|")
    assert text.isascii()
    environments = re.findall(r"\\(begin|end)\{(\w+)\}", text)
    opened = [name for kind, name in environments if kind == "begin"]
    assert opened[::-1] == [name for kind, name in environments if kind == "end"]
    bodies = re.findall(r"\\toprule\n(.*)\\bottomrule", text, flags=re.DOTALL)
    rows = [row for body in bodies for row in re.split(r"\\\\\n", body) if row.strip()]
    assert len({len(re.findall(r"(?<!\\)&", row)) for row in rows}) <= 1


@pytest.fixture
def printed(table) -> dict[str, dict[str, PrintedTable]]:
    """All tables of an experiment. Labels have the characters that are commands in LaTeX."""
    names = Names({name: {"label": label} for name, label in LABELS.items()}, {"my_set": "My_set & Co"})
    metrics = table[table["algorithm"] != "akl_crm"].assign(replay_count=4, greedy_loss=table["expected_loss"] / 2)
    papers, protocol = {"my_set": ("scene", "100 % synthetic")}, {**CODE, "split_unit": "context"}
    grids = {"cips": [], "poem": [0.01, 0.1], "kl_crm": [3.16, 1.0]}
    plan = Plan(["my_set"], ["snips"], 5, [4], names=names, grids=grids, papers=papers, protocol=protocol)
    return printed_tables(all_tables(metrics, plan), plan)


def test_a_latex_file_has_one_table_that_compiles_with_its_facts_in_the_caption(printed):
    for name, tables in printed.items():
        assert next(iter(tables)) == name
        for file, one in tables.items():
            text = one.latex(f"my exp_{file}")
            assert_compiles(text)
            assert text.count(r"\begin{table}") == text.count(r"\caption{") == text.count(r"\begin{tabular}") == 1
            assert rf"\label{{tab:my-exp-{file.replace('_', '-')}}}" in text
            assert r"My\_set \& Co" in one.latex("x").split("tabular")[0]
            assert "5 seeds" in text or r"\textbf{Seeds}" in text
    [losses] = (table.latex("x") for file, table in printed["expected_loss"].items() if file == "expected_loss")
    assert "chosen by SNIPS" in losses
    assert r"P\_O\{E\}M \#1 \& 50\% {[}new] & \textbf{1.000} {\scriptsize $\pm$ 0.035} \\" in losses
    assert r"$\lambda_0$ $\geq$ $10^{-2}$ \textasciitilde{} $\chi^2$-DRO & " in losses


def test_a_figure_has_its_caption_in_latex():
    text = latex_figure("grid_my_set.pdf", "Loss of A_B at Δ = 4, 95 % intervals", "exp-grid_my_set")
    assert_compiles(text.replace("grid_my_set.pdf", ""))
    assert r"\includegraphics[width=\linewidth,height=.75\textheight,keepaspectratio]{grid_my_set.pdf}" in text
    assert r"\caption{Loss of A\_B at $\Delta$ = 4, 95~\% intervals}" in text
    assert r"\label{fig:exp-grid-my-set}" in text


@pytest.mark.skipif(not shutil.which("pdflatex"), reason="needs LaTeX")
def test_latex_fits_wide_tables_and_high_figures_to_the_page(printed, tmp_path):
    wide = pd.DataFrame({f"column {place}": ["10^−5: 3, 10^−4: 12, 10^−3: 5", "word"] * 40 for place in range(12)})
    texts = [one.latex(file) for tables in printed.values() for file, one in tables.items()]
    imsave(tmp_path / "high.png", np.zeros((900, 100)))
    texts += [PrintedTable("Wide.", wide, "Note.").latex("wide"), latex_figure("high.png", "High.", "high")]
    lines = [r"\documentclass{article}\usepackage{booktabs,graphicx}\begin{document}", *texts, r"\end{document}"]
    (tmp_path / "paper.tex").write_text(r"\clearpage".join(lines))
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "paper.tex"]
    log = subprocess.run(command, cwd=tmp_path, text=True, capture_output=True, check=False).stdout
    assert "Output written on paper.pdf" in log
    assert not re.search(r"Overfull \\hbox|Float too large", log)


def test_tiny_p_values_are_powers_of_ten(table, names):
    details = print_details(losses_of(table, 5), "expected_loss", "snips", names).frame.set_index("Algorithm")
    assert re.fullmatch(r"\d(\.\d)?·10\^−\d+", details.loc["π0", "p"])


def test_tables_of_one_seed_do_not_mention_significance(table, names):
    metrics = table[table["seed"] == 0].assign(replay_count=4, greedy_loss=table["expected_loss"] / 2)
    papers, protocol = {"my_set": ("scene", "")}, {**CODE, "split_unit": "context"}
    grids = {"cips": [], "poem": [0.01, 0.1], "kl_crm": [3.16, 1.0]}
    plan = Plan(["my_set"], ["snips"], 1, [4], names=names, grids=grids, papers=papers, protocol=protocol)
    frames = all_tables(metrics, plan)
    files = [one for part in printed_tables(frames, plan).values() for one in part.values()]
    pages = [one for section in report_tables(frames, plan).values() for one in section.values()]
    words = re.compile(r"significan|\btests?\b(?! sets?\b)|p-value|p \(Holm\)|power|interval")
    assert len(files) > 5
    assert [words.search(one.markdown()) for one in files + pages] == [None] * len(files + pages)
