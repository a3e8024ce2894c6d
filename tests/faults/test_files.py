"""Results that something has truncated, overwritten or mixed up."""

from __future__ import annotations

import random
import re
import shlex
from pathlib import Path

import pytest
from workflows import copied

from drcrm.experiments.steps.__main__ import main
from faults.harness import AFTER_FIT, FIT, FOLDER, TABLE, line, run, same, unfinished

RUN = "results/tiny/runs/toy/seed0"
LOG, METRICS, ALL_METRICS = f"{FOLDER}/log.npz", f"{FOLDER}/metrics.csv", "results/tiny/metrics.csv"
# Each file, and the step that reads it.
READERS = {
    "resources/toy/train.npz": "split",
    "resources/toy/test.npz": "evaluate",
    f"{RUN}/split.npz": "log_crf",
    f"{RUN}/logging.npz": "replay",
    f"{RUN}/skyline.npz": "evaluate",
    LOG: "fit",
    FIT: "evaluate",
    METRICS: "collect",
    ALL_METRICS: "tables",
}


def noise(content: bytes, share: float) -> bytes:
    """Random bytes in place of 48, from this share of the content on."""
    at = int(share * (len(content) - 48))
    return content[:at] + random.Random(0).randbytes(48) + content[at + 48 :]


DAMAGE = {
    "empty": lambda content: b"",
    "half": lambda content: content[: len(content) // 2],
    "cut": lambda content: content[:-7],
    "html": lambda content: b"<html>no such file</html>\n",
    "zeros": lambda content: bytes(len(content)),
    **{f"noise {share}": lambda content, share=share: noise(content, share) for share in (0, 0.3, 0.5, 0.7, 1)},
}


@pytest.fixture(scope="module")
def work(finished, tmp_path_factory) -> Path:
    """A copy of the finished run, in which a test damages a file and puts it back."""
    return copied(finished, tmp_path_factory.mktemp("damaged") / "work")


@pytest.fixture(scope="module")
def commands(work, config) -> dict[str, list[str]]:
    """The arguments that the workflow gives to each step; of the fits, to one."""
    said = run(work, config, "--dry-run", "--forceall", "--printshellcmds")
    found = re.findall(r"^.*python -P -m drcrm\.experiments\.steps (.*) 2> ", said, re.MULTILINE)
    return {words[0]: words for words in map(shlex.split, found)}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("name", READERS)
def test_a_damaged_file(work, commands, finished, monkeypatch, capsys, name, damage):
    """Its reader names it in one line and leaves its results as they are; or what is damaged is of no account."""
    monkeypatch.chdir(work)
    step = READERS[name]
    before = (work / name).read_bytes()
    (work / name).write_bytes(DAMAGE[damage](before))
    try:
        status = main(commands[step])
    finally:
        (work / name).write_bytes(before)
    said = capsys.readouterr().err
    if status:
        assert said.startswith(f"drcrm {step}: {name}: ")
        assert said.count("\n") == 1
    else:
        assert damage.startswith("noise")
    same(work, finished)


@pytest.mark.parametrize(("name", "other"), [(FIT, LOG), (LOG, FIT), (ALL_METRICS, f"{FOLDER}/grids.csv")])
def test_a_file_in_the_place_of_another(work, commands, finished, monkeypatch, capsys, name, other):
    monkeypatch.chdir(work)
    before = (work / name).read_bytes()
    (work / name).write_bytes((work / other).read_bytes())
    try:
        assert main(commands[READERS[name]]) == 1
    finally:
        (work / name).write_bytes(before)
    assert name in capsys.readouterr().err


@pytest.mark.parametrize("name", [METRICS, ALL_METRICS])
def test_metrics_that_end_after_a_whole_row(work, commands, monkeypatch, capsys, name):
    """They cannot be told from those of fewer runs by themselves, but the tables know which there must be."""
    monkeypatch.chdir(work)
    names = {name, ALL_METRICS}
    before = {each: (work / each).read_bytes() for each in names}
    rows = before[name].splitlines(keepends=True)
    (work / name).write_bytes(b"".join(rows[:-1]))
    try:
        assert name == ALL_METRICS or main(commands["collect"]) == 0
        assert main(commands["tables"]) == 1
    finally:
        for each, content in before.items():
            (work / each).write_bytes(content)
    assert capsys.readouterr().err.startswith(f"drcrm tables: {ALL_METRICS}: ")


def test_a_truncated_fit_is_named_and_made_again_once_removed(config, finished, tmp_path):
    work = unfinished(finished, tmp_path, *AFTER_FIT[1:])
    (work / FIT).write_bytes((work / FIT).read_bytes()[:-100])
    line(run(work, config, fails=True), f"drcrm evaluate: {FIT}: not a readable npz file (")
    assert not (work / TABLE).exists()
    (work / FIT).unlink()
    run(work, config)
    same(work, finished)
