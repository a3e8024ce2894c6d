"""The command: one line on stderr, whatever was wrong."""

from __future__ import annotations

import runpy
import sys

import pytest

from drcrm.__main__ import main
from drcrm.errors import InputError, located, printable
from drcrm.pipeline.columns import COLUMNS
from drcrm.pipeline.files import write_npz


def said(capsys, *arguments: str) -> str:
    """What a step that fails says, in one line."""
    with pytest.raises(SystemExit) as end:
        raise SystemExit(main(list(arguments)))
    assert end.value.code in (1, 2)
    error = capsys.readouterr().err
    assert error.endswith("\n")
    assert error[:-1].isprintable()
    return error[:-1]


def test_what_cannot_be_printed_is_escaped(capsys):
    assert printable("ε\n\x1b[0m\udcff") == r"ε\n\x1b[0m\udcff"
    with pytest.raises(InputError, match=r"^a\\nb: c$"), located("a\nb"):
        raise InputError("c")
    assert said(capsys, "fit", "a\nb", "--estimator", "CIPS", "--log", "a", "--output", "b").endswith(
        r"arguments: a\nb"
    )
    error = said(capsys, "fit", "--estimator", "CIPS", "--log", "a\n\udcff", "--output", "b")
    assert error == r"drcrm fit: a\n\udcff: no such file"


@pytest.mark.parametrize("options", ["[" * 100_000, '{"a": ' * 100_000, '{"tilt": ' + "1" * 5000 + "}"])
def test_json_without_end(capsys, options):
    error = said(capsys, "fit", "--estimator", "CIPS", "--log", "a", "--output", "b", "--options", options)
    assert ": argument --options: not JSON (" in error


@pytest.mark.parametrize("option", ["tilt", "sharpness"])
def test_a_number_beyond_floats(capsys, option):
    estimator = "WeightedLikelihood" if option == "sharpness" else "CIPS"
    options = f'{{"{option}": 1{"0" * 400}}}'
    error = said(capsys, "fit", "--estimator", estimator, "--log", "a", "--output", "b", "--options", options)
    assert error.startswith(f"drcrm fit: {option} is 1000")
    assert error.endswith("a finite number ≥ 0")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("toy,4,0", f"line 2 has not a cell for each of {len(COLUMNS)} columns"),
        ("," * len(COLUMNS), f"line 2 has not a cell for each of {len(COLUMNS)} columns"),
        ("," * (len(COLUMNS) - 1) + "x" * 200_000, "line 2: field larger than field limit (131072)"),
    ],
)
def test_rows_of_metrics_that_are_cut_off(tmp_path, monkeypatch, capsys, line, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text(",".join(COLUMNS) + "\n" + line + "\n")
    assert said(capsys, "collect", "a.csv", "--output", "b.csv") == f"drcrm collect: a.csv: {message}"
    assert not (tmp_path / "b.csv").exists()


@pytest.mark.parametrize("output", ["folder", "file/x", "x" * 300])
def test_a_place_that_cannot_be_written(tmp_path, monkeypatch, capsys, output):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("")
    write_npz("contexts.npz", X=[[1.0], [2.0]], labels=[[0], [1]])
    before = sorted(tmp_path.rglob("*"))
    shares = "--split-unit", "row", "--logging-fraction", "0.5", "--heldout-fraction", "0.5"
    axes = "--dataset", "toy", "--seed", "0"
    error = said(capsys, "split", "--train", "contexts.npz", *shares, *axes, "--output", output)
    assert error.startswith("drcrm split: [Errno ")
    assert sorted(tmp_path.rglob("*")) == before


def test_out_of_memory_is_said(monkeypatch, capsys):
    """Python's own error has no message."""

    def run(options):
        raise MemoryError

    monkeypatch.setattr("drcrm.pipeline.steps.collect.run", run)
    assert main(["collect", "a.csv", "--output", "b.csv"]) == 1
    assert capsys.readouterr().err == "drcrm collect: out of memory\n"


def test_an_interruption_is_one_line(monkeypatch):
    """By Ctrl-C, which reaches every job of a run."""

    def interrupted(arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("drcrm.pipeline.steps.collect.run", interrupted)
    monkeypatch.delitem(sys.modules, "drcrm.__main__")  # runpy wants to import it
    monkeypatch.setattr(sys, "argv", ["drcrm", "collect", "a.csv", "--output", "b.csv"])
    with pytest.raises(SystemExit) as end:
        runpy.run_module("drcrm", run_name="__main__")
    assert end.value.code == "drcrm: interrupted"
