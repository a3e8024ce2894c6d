"""Truncated, overwritten and swapped result files."""

import random
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fixtures.pipeline import copied

from drcrm.paper.steps.__main__ import main
from faults.harness import FIT, FOLDER, assert_same_files, run

RUN = "results/tiny/runs/toy/seed0"
LOG, METRICS, ALL_METRICS = f"{FOLDER}/log.npz", f"{FOLDER}/metrics.csv", "results/tiny/metrics.csv"
# File → step that reads it.
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
    """Replace 48 bytes, at this share of the content, by random bytes."""
    start = int(share * (len(content) - 48))
    return content[:start] + random.Random(0).randbytes(48) + content[start + 48 :]


DAMAGE = {
    "empty": lambda content: b"",
    "half": lambda content: content[: len(content) // 2],
    "cut": lambda content: content[:-7],
    "html": lambda content: b"<html>no such file</html>\n",
    "zeros": lambda content: bytes(len(content)),
    **{f"noise {share}": lambda content, share=share: noise(content, share) for share in (0, 0.5, 1)},
}


@pytest.fixture(scope="module")
def work(finished, tmp_path_factory) -> Path:
    """A copy of the finished run, in which a test damages a file and restores it."""
    return copied(finished, tmp_path_factory.mktemp("damaged") / "work")


@pytest.fixture(scope="module")
def commands(work, config) -> dict[str, tuple]:
    """The arguments of each step in the workflow, with only one of the fits."""
    output = run(work, config, "--dry-run", "--forceall", "--printshellcmds")
    steps = re.findall(r"python -P -m drcrm\.paper\.steps \w+\.(\w+) .*", output)
    lines = re.findall(r"python -P -m drcrm\.paper\.steps (.*) 2> ", output)
    return {step: shlex.split(line) for step, line in zip(steps, lines, strict=True)}


@contextmanager
def replaced(path: Path, content: bytes) -> Iterator[None]:
    """Replace the content of a file inside the block."""
    before = path.read_bytes()
    path.write_bytes(content)
    try:
        yield
    finally:
        path.write_bytes(before)


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("name", READERS)
def test_a_step_names_a_damaged_input(work, commands, finished, monkeypatch, capsys, name, damage):
    """The step reports the file in one line and keeps its results. Noise in unused bytes may pass."""
    monkeypatch.chdir(work)
    step = READERS[name]
    with replaced(work / name, DAMAGE[damage]((work / name).read_bytes())):
        status = main(commands[step])
    message = capsys.readouterr().err
    if status:
        assert message.startswith(f"drcrm {step}: {name}: ")
        assert message.count("\n") == 1
    else:
        assert damage.startswith("noise")
    assert_same_files(work, finished)


@pytest.mark.parametrize(("name", "wrong"), [(FIT, LOG), (LOG, FIT), (ALL_METRICS, f"{FOLDER}/grids.csv")])
def test_a_step_names_an_input_with_the_content_of_another_file(work, commands, monkeypatch, capsys, name, wrong):
    monkeypatch.chdir(work)
    with replaced(work / name, (work / wrong).read_bytes()):
        assert main(commands[READERS[name]]) == 1
    assert name in capsys.readouterr().err


def test_metrics_without_their_last_row_are_reported(work, commands, monkeypatch, capsys):
    """The file looks like a complete file of fewer runs, but the tables know which runs are required."""
    monkeypatch.chdir(work)
    rows = (work / ALL_METRICS).read_bytes().splitlines(keepends=True)
    with replaced(work / ALL_METRICS, b"".join(rows[:-1])):
        assert main(commands["tables"]) == 1
    assert capsys.readouterr().err.startswith(f"drcrm tables: {ALL_METRICS}: ")
