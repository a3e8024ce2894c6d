"""Commands on the pages about users' logs print what the pages show, and false verdicts are rare."""

import html
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import yaml

from drcrm import read_log
from drcrm.logs.cli.example import write_logs

ROOT = Path(__file__).parent.parent
PAGES = "get-started/own-log", "user-guide/own-logs"
TUTORIAL, GUIDE = ((ROOT / f"docs/{name}.md").read_text(encoding="utf-8") for name in PAGES)
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", TUTORIAL + GUIDE, re.S)
NUMBER = re.compile(r"[−+-]?\d+(?:\.\d+)?")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The example logs with their mapping, which the tutorial shows."""
    folder = tmp_path_factory.mktemp("own")
    write_logs(folder)
    mapping = next(text for kind, text in BLOCKS if kind == "yaml")
    assert yaml.safe_load(mapping) == yaml.safe_load((folder / "shop.yaml").read_text(encoding="utf-8"))
    return folder


def same(printed: str, stated: str) -> bool:
    """Whether a text begins with what is stated, its numbers within 5 %."""
    texts = [" ".join(text.replace("−", "-").split()) for text in (printed, stated)]
    numbers = [[float(number) for number in NUMBER.findall(text)] for text in texts]
    words = [NUMBER.sub("#", text) for text in texts]
    return words[0].startswith(words[1]) and numbers[0][: len(numbers[1])] == pytest.approx(numbers[1], rel=0.05)


def test_the_csv_is_the_one_that_is_shown(folder):
    [table] = [text for kind, text in BLOCKS if kind == "csv"]
    assert (folder / "shop.csv").read_text().startswith(table.rstrip("\n"))
    log = read_log(folder / "shop.csv", folder / "shop.yaml")
    assert (len(log.Y), log.actions.shape) == (12_000, (4,))


@pytest.mark.slow
def test_every_command_says_what_the_page_says(folder):
    commands = [(place, text) for place, (kind, text) in enumerate(BLOCKS) if kind == "sh" and " example " not in text]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    for place, command in commands:
        words = command.split()
        assert words[0] == "drcrm"
        run = [sys.executable, "-m", *words]
        done = subprocess.run(run, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        following = BLOCKS[place + 1] if place + 1 < len(BLOCKS) else ("", "")
        if following[0] == "text":
            assert same(done.stdout, following[1]), done.stdout
    chosen = pd.read_csv(folder / "actions.csv")
    assert list(chosen.columns) == ["section", "propensity"]
    assert chosen["propensity"].min() >= 0.0125 * (1 - 1e-9)
    page, answer = (folder / "report.html").read_text(), json.loads((folder / "answer.json").read_text())
    assert answer["verdict"]["sentence"][:40] in html.unescape(page)


def test_the_page_has_every_verdict():
    from drcrm.logs.diagnostics.comparison.verdict import VERDICTS

    assert re.findall(r"^\| ([a-z ]+) \| (?!when)", GUIDE, re.M)[: len(VERDICTS)] == [*VERDICTS]


def test_false_verdicts_are_as_rare_as_the_page_says():
    rows, audits = (pd.read_csv(ROOT / f"docs/results/{name}.csv") for name in ("verdicts", "audit_power"))
    assert rows[["falsely better", "falsely worse", "falsely accused"]].to_numpy().max() <= 0.05
    assert rows["named"].min() >= 0.99
    assert (audits.loc[audits["fault"] == "none", "fails"] == 0).all()
    assert (audits.loc[audits["fault"] == "uniform"].query("rows >= 400")["fails"] == 1).all()
