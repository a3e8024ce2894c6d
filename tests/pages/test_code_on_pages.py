"""Code, sizes and mappings on pages are those of the project, and the pages stay short."""

import json
import re
import runpy
import shlex
import subprocess
import sys
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
import yaml
from fixtures.page_numbers import ROOT

from drcrm import cluster, read_log
from drcrm.__main__ import main
from drcrm.data import chunked_log, folds
from drcrm.logs import successive_halving
from drcrm.logs.decisions import opened_log
from drcrm.optimization import lbfgs as optimiser
from drcrm.optimization import objective
from drcrm.policies import prepared_log
from drcrm.selection.algorithms import as_algorithm
from drcrm.selection.fit_settings import make_regressor

DOCS = ROOT / "docs"
PAGE = (DOCS / "user-guide/extending.md").read_text(encoding="utf-8")
EXAMPLE = (DOCS / "examples/own_risk.py").read_text(encoding="utf-8").split("# %%\n# Compare")[0]


@pytest.fixture
def page(monkeypatch):
    """The module of the page's code, importable as ``my_risks``."""
    module = ModuleType("my_risks")
    monkeypatch.setitem(sys.modules, "my_risks", module)
    for block in [EXAMPLE, *re.findall(r"```py\n(.*?)```", PAGE, re.S)]:
        exec(block, vars(module))
    return module


def test_the_risk_and_its_estimator_work(page):
    assert page.SemideviationRisk(0.5)([0.0, 4.0])[0] == 2 + 0.5 * 1
    Y = np.arange(60) % 2
    fitted = page.Semideviation(penalty=0.2).fit(np.ones((60, 1)), Y, propensity=np.full(60, 0.5), cost=-1.0 * Y)
    assert fitted.predict(np.ones((1, 1))) == [1]
    assert page.policy.step_ > 0
    assert page.off_policy_value(page.competitor, page.log) < page.costs.mean() - 0.2


@pytest.mark.usefixtures("page")
def test_a_configuration_accepts_the_algorithms():
    with_risk, classifier = (
        yaml.safe_load(re.search(rf"`(\{{{key}: .*?\}})`", PAGE)[1]) for key in ("estimator", "classifier")
    )
    criteria = as_algorithm(with_risk).variants()
    assert [risk.penalty for risk, _ in criteria] == [0.1, 0.5, 1]
    model = yaml.safe_load(re.search(r"`cost_model: (.*?)`", PAGE)[1])
    modelled = {**with_risk, "grid": [0.1], "options": {**with_risk["options"], "cost_model": model}}
    assert make_regressor(as_algorithm(modelled).settings.cost_model).min_samples_leaf == 20
    assert as_algorithm(classifier).classifier.min_samples_leaf == 20


LARGE_LOGS = (ROOT / "docs/user-guide/large-logs.md").read_text(encoding="utf-8")
SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")


def table(first: str) -> list[list[str]]:
    """Return the cells of the table whose heading begins with ``first``."""
    block = next(text for text in LARGE_LOGS.split("\n\n") if text.startswith(f"| {first} "))
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines()[2:]]


def numbers_of(text: str) -> set[int]:
    """Return the whole numbers and the powers of 2 in a text."""
    powers = {2 ** int(power.translate(SUPERSCRIPTS)) for power in re.findall(r"2([⁰-⁹¹²³]+)", text)}
    numbers = re.findall(r"(?<![\d.])\d+(?: \d{3})*(?!\d|\.\d)", text)
    return powers | {int(number.replace(" ", "")) for number in numbers}


def section(title: str) -> str:
    return LARGE_LOGS.split(f"## {title}\n")[1].split("\n## ")[0]


@pytest.mark.parametrize(
    ("title", "constants"),
    [
        ("Larger than memory", {opened_log.LARGE, folds.MOST, objective.MAX_KEPT_SCORES}),
        ("Fewer passes", {prepared_log.LARGE, prepared_log.SAMPLE, 4 * prepared_log.SAMPLE}),
        ("Threads", {chunked_log.LARGE, chunked_log.MOST_CONTEXTS, chunked_log.BLOCK_SCORES}),
        ("Clusters", {cluster.FEW}),
        (
            "Many actions",
            {
                successive_halving.MANY_SCORES,
                successive_halving.MANY_ACTIONS,
                successive_halving.LARGEST_SAMPLE,
                successive_halving.FEW_UNITS,
            },
        ),
    ],
)
def test_sizes_on_the_page_are_those_of_the_code(title, constants):
    assert constants <= numbers_of(section(title))


def test_shares_and_tolerances_on_the_page_are_those_of_the_code():
    assert successive_halving.STAGES == ((1 / 8, 3), (1 / 4, 1))
    assert successive_halving.VALIDATION == 1 / 3
    assert (prepared_log.GROWTH, optimiser.LARGE_TOLERANCE) == (8, 2e-4)


def test_the_first_table_has_the_sizes_of_the_code():
    rows = table("size of the log | method") + table("size of the log | shortcut")
    text = " ".join(row[0] for row in rows)
    sizes = {opened_log.LARGE, chunked_log.LARGE, 4 * prepared_log.SAMPLE, successive_halving.MANY_SCORES}
    assert sizes | {successive_halving.MANY_ACTIONS} <= numbers_of(text)


ROUTER_LOGS = (DOCS / "user-guide/router-logs.md").read_text(encoding="utf-8")
ROUTER, EXPOSURES = (yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", ROUTER_LOGS, re.S))


def test_weights_of_exposures_are_texts_in_csv(tmp_path):
    frame = pd.DataFrame(
        {"variation_id": [0, 1, 1, 0], "variation_weights": ["[0.9, 0.1]", "[0.9,0.1]", "[0.5,0.5]", "0.5 0.5"]}
    )
    frame = frame.assign(converted=[0, 1, 0, 1], country="ch", device=["a", "b", "a", "b"], user_id=range(4))
    frame.to_csv(tmp_path / "exposures.csv", index=False)
    log = read_log(tmp_path / "exposures.csv", EXPOSURES)
    np.testing.assert_allclose(log.propensity, [0.9, 0.1, 0.5, 0.5])


def test_the_code_computes_weights():
    [code] = re.findall(r"```py\n(.*?)```", ROUTER_LOGS, re.S)
    scope = {"draws": np.random.default_rng(0).normal([0, 0, 3], 1, (1000, 3))}
    exec(code, scope)
    assert scope["weights"].sum() == pytest.approx(1)
    assert scope["weights"].argmax() == 2


@pytest.mark.slow
def test_the_command_learns_a_better_router(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["router.py", str(tmp_path)])
    example = runpy.run_path(str(DOCS / "examples/router.py"))
    assert yaml.safe_load(example["MAPPING"]) == ROUTER
    assert example["answer"].as_dict()["verdict"]["verdict"] == "better"
    [command] = re.findall(r"```sh\n(.*?)\n```", ROUTER_LOGS, re.S)
    monkeypatch.chdir(tmp_path)
    arguments = shlex.split(command)[1:]
    assert main([*arguments, "--json", "answer.json"]) == 0
    answer = json.loads((tmp_path / "answer.json").read_text())
    assert {rail["name"] for rail in answer["guardrails"]} == {"price", "latency"}


GENERATED = re.compile(r"<!-- (?!end )[^\n]+ -->\n.*?<!-- end -->\n*", re.DOTALL)
MAX_LINES, MAX_WORDS = 2840, 1000


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    """The text of every committed page, without generated blocks."""
    command = ["git", "ls-files", "README.md", "CONTRIBUTING.md", "docs/*.md"]
    paths = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    return {path: GENERATED.sub("", (ROOT / path).read_text(encoding="utf-8")) for path in paths}


def test_pages_together_have_few_lines(pages):
    lines = {path: len(text.splitlines()) for path, text in pages.items()}
    assert sum(lines.values()) <= MAX_LINES, sorted(lines.items(), key=lambda item: -item[1])[:10]


def test_every_page_has_few_words(pages):
    words = {path: sum(any(map(str.isalpha, word)) for word in text.split()) for path, text in pages.items()}
    assert {path: count for path, count in words.items() if count > MAX_WORDS} == {}
