"""The command: one line on stderr, whatever was wrong."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from shop import MAPPING, decisions

from drcrm import __version__
from drcrm.__main__ import COMMANDS as LOGS
from drcrm.__main__ import main
from drcrm.errors import InputError, escape_unprintable, prefix_errors
from drcrm.experiments.columns import COLUMNS
from drcrm.files import write_npz

ROOT = Path(__file__).parent.parent


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
    assert escape_unprintable("ε\n\x1b[0m\udcff") == r"ε\n\x1b[0m\udcff"
    with pytest.raises(InputError, match=r"^a\\nb: c$"), prefix_errors("a\nb"):
        raise InputError("c")
    assert said(capsys, "fit", "a\nb", "--estimator", "CIPS", "--log", "a", "--output", "b").endswith(
        r"arguments: a\nb"
    )
    error = said(capsys, "fit", "--estimator", "CIPS", "--log", "a\n\udcff", "--output", "b")
    assert error == r"drcrm fit: a\n\udcff: no such file"


@pytest.mark.parametrize("options", ["[" * 100_000, '{"a": ' * 100_000, '{"tilt": ' + "1" * 5000 + "}"])
def test_json_without_end(capsys, options):
    error = said(capsys, "fit", "--estimator", "CIPS", "--log", "a", "--output", "b", "--options", options)
    assert ": argument --options: is not JSON: " in error


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


RISK = """
from helper import SHARE
from drcrm.risks import Risk

class Own(Risk):
    robust_end = "low"

    def __init__(self, share):
        self.share = share

    def evaluate(self, z, share, n, guess=None):
        return share @ z, share, None
"""
PYTHONS = "import runpy, sys; print(*sys.modules)"  # what python -m imports before it comes to drcrm
COMMANDS = {
    "the module": [sys.executable, "-m", "drcrm"],
    "the installed command": [sys.executable, "-P", "-c", "from drcrm.__main__ import command; command()"],
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
class TestWorkingFolder:
    """What is beside a log is data, but for the module of a risk that an algorithm names."""

    @pytest.fixture
    def folder(self, tmp_path):
        """A log, its mapping, and modules beside it that must not run, of every name that a library may import."""
        decisions(200).to_csv(tmp_path / "log.csv", index=False)
        (tmp_path / "map.yaml").write_text(json.dumps(MAPPING | {"algorithm": "cips"}))
        listed = subprocess.run([sys.executable, "-c", PYTHONS], capture_output=True, text=True, check=True).stdout
        others = "yaml", "numpy", "pandas", "scipy", "pyarrow", "bottleneck", "numexpr"
        for name in {*sys.stdlib_module_names, *others} - {*listed.split()}:
            (tmp_path / f"{name}.py").write_text(f"open('ran-{name}', 'w').close()\nraise SystemExit('{name} ran')\n")
        return tmp_path

    def run(self, command, folder, mapping="map.yaml", fails=False) -> str:
        given = ["learn", "log.csv", "--config", mapping, "--output", "policy.npz", "--report", "page.html"]
        environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
        done = subprocess.run([*command, *given], cwd=folder, env=environment, capture_output=True, text=True)
        assert (done.returncode != 0) == fails, done.stderr
        assert not [*folder.glob("ran-*")]
        return done.stderr

    def test_modules_beside_a_log_do_not_run(self, folder, command):
        self.run(command, folder)
        assert (folder / "policy.npz").exists()

    def test_a_risk_of_the_folder_is_found_with_what_it_imports(self, folder, command):
        (folder / "own.py").write_text(RISK)
        (folder / "helper.py").write_text("SHARE = 1\n")
        entry = {"estimator": "own:Own", "parameter": "share", "grid": [1]}
        self.run(command, folder, json.dumps(MAPPING | {"algorithm": entry}))
        assert (folder / "policy.npz").exists()

    def test_a_risk_of_pythons_name_is_not_taken_from_the_folder(self, folder, command):
        entry = {"estimator": "bisect:Own", "parameter": "share", "grid": [1]}
        said = self.run(command, folder, json.dumps(MAPPING | {"algorithm": entry}), fails=True)
        assert said == "drcrm learn: estimator bisect:Own: module 'bisect' has no attribute 'Own'\n"


LOADED = """
import sys
sys.modules["fcntl"] = None  # as on Windows
from drcrm.__main__ import main
statuses = []
for arguments in ARGUMENTS:
    try:
        statuses.append(main(arguments))
    except SystemExit as end:
        statuses.append(end.code)
print()
print(*statuses, *sorted({"numpy", "scipy", "pandas", "pyarrow", "sklearn", "tqdm"} & {*sys.modules}))
"""


def loaded(*arguments: list[str]) -> tuple[str, str]:
    """Return the exit statuses of calls in one process and the heavy packages it imported, and its standard error."""
    program = LOADED.replace("ARGUMENTS", repr(arguments))
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "COLUMNS": "80"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1], done.stderr


def test_help_and_wrong_arguments_import_no_numpy():
    assert loaded(["--help"], *([command, "--help"] for command in LOGS)) == ("0 0 0 0 0 0", "")
    given = ["learn", "a.csv", "--output", "b.npz"]
    wrong = {"--confidence": "0.5", "--jobs": "0", "--seed": "-1", "--config": "{"}
    status, error = loaded(["diagnose"], *([*given, f"{name}={value}"] for name, value in wrong.items()))
    assert status == "2 2 2 2 2"
    assert len(error.splitlines()) == 5


def test_a_log_without_a_feature_map_is_learned_from_without_scikit_learn(tmp_path):
    decisions(200).to_csv(tmp_path / "log.csv", index=False)
    mapping, output = json.dumps(MAPPING | {"algorithm": "cips"}), str(tmp_path / "policy.npz")
    log = [str(tmp_path / "log.csv"), "--config", mapping]
    assert loaded(["learn", *log, "--output", output], ["diagnose", *log])[0] == "0 0 numpy pandas pyarrow scipy"


@pytest.mark.parametrize("value", ["nan", "-0.1", "1.1", "x", ""])
def test_a_share_is_from_0_to_1(capsys, value):
    error = said(capsys, "predict", "a.npz", "a.csv", "--output", "b.csv", f"--explore={value}")
    assert error == f"drcrm predict: argument --explore: {value!r}, expected a number from 0 to 1"


def test_version(capsys):
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert (end.value.code, capsys.readouterr().out) == (0, f"drcrm {__version__}\n")


class TestCheck:
    """A configuration and an experiment's name, before anything runs."""

    def test_of_what_is_right_nothing_is_said(self, tmp_path, capsys):
        (mine := tmp_path / "mine.yaml").write_text("experiments: {mine: {datasets: [digits]}}")
        for arguments in ([], ["demo"], ["theory"], ["mine", "--configfile", str(mine)]):
            assert main(["check", *arguments, "--project", str(ROOT)]) == 0
            assert capsys.readouterr() == ("", "")

    def test_an_experiment_that_there_is_not(self, tmp_path, monkeypatch, capsys):
        monkeypatch.chdir(tmp_path)
        error = said(capsys, "check", "dmeo", "--project", str(ROOT))
        assert error.startswith(
            "drcrm check: there is no experiment 'dmeo'; did you mean 'demo'? (allowed: demo, sample, "
        )
        (tmp_path / "results/mine").mkdir(parents=True)
        (tmp_path / "results/mine/metrics.csv").write_text("")
        error = said(capsys, "check", "mine", "--project", str(ROOT))
        assert error.startswith("drcrm check: results/mine is of an experiment that the configuration lacks: give its ")

    def test_each_error_is_a_line(self, tmp_path, capsys):
        (mine := tmp_path / "mine.yaml").write_text("run: [dmo]\nexperiments: {demo: {sedes: 3, selection: [snip]}}")
        assert main(["check", "demo", "--configfile", str(mine), "--project", str(ROOT)]) == 1
        lines = capsys.readouterr().err.splitlines()
        places = (
            "run: unknown experiment",
            "experiments.demo.sedes: unknown key",
            "experiments.demo.selection: unknown",
        )
        assert len(lines) == len(places)
        assert all(line.startswith(f"drcrm check: config: {place}") for line, place in zip(lines, places, strict=True))


def test_out_of_memory_is_said(monkeypatch, capsys):
    """Python's own error has no message."""

    def run(options):
        raise MemoryError

    monkeypatch.setattr("drcrm.experiments.steps.collect.run", run)
    assert main(["collect", "a.csv", "--output", "b.csv"]) == 1
    assert capsys.readouterr().err == "drcrm collect: out of memory\n"


def test_an_interruption_is_one_line(monkeypatch):
    """By Ctrl-C, which reaches every job of a run."""

    def interrupted(arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("drcrm.experiments.steps.collect.run", interrupted)
    monkeypatch.delitem(sys.modules, "drcrm.__main__")  # runpy wants to import it
    monkeypatch.setattr(sys, "argv", ["drcrm", "collect", "a.csv", "--output", "b.csv"])
    with pytest.raises(SystemExit) as end:
        runpy.run_module("drcrm", run_name="__main__")
    assert end.value.code == "drcrm: interrupted"


def test_a_step_without_the_extra_says_what_to_install(tmp_path, capsys, monkeypatch):
    """One that imports it, and one that comes to need it as it runs."""
    monkeypatch.setitem(sys.modules, "snakemake.utils", None)
    monkeypatch.setitem(sys.modules, "sklearn_crfsuite", None)
    gone = ("drcrm.experiments.simulation.crf", "drcrm.experiments.steps", "drcrm.experiments.config")
    for name in [each for each in sys.modules if each.startswith(gone)]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(SystemExit) as error:
        main(["check", "--help"])
    assert error.value.code == 2
    assert capsys.readouterr().err == "drcrm: check needs snakemake.utils: pip install 'drcrm[pipeline]'\n"
    train, split = tmp_path / "train.npz", tmp_path / "split.npz"
    write_npz(train, X=np.eye(3), labels=np.eye(3)[:, :2])
    write_npz(split, **dict.fromkeys(("logging", "train", "heldout"), np.arange(3)))
    contexts = "--train", str(train), "--split", str(split)
    with pytest.raises(SystemExit) as error:
        main(["log_crf", *contexts, "--logging-c", "1", "--output", str(tmp_path / "out.npz")])
    assert error.value.code == 2
    assert capsys.readouterr().err == "drcrm: log_crf needs sklearn_crfsuite: pip install 'drcrm[pipeline]'\n"
