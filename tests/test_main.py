"""The command drcrm: errors are one line, help is fast, and files next to a log are never imported."""

import io
import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from fixtures.user_logs import MAPPING, decisions

from drcrm.__main__ import COMMANDS, command, main
from drcrm.errors import InputError, escape_unprintable, prefix_errors

ROOT = Path(__file__).parent.parent


@pytest.fixture
def error(capsys):
    """Run a command that fails; return its only line on standard error."""

    def error(*arguments: str) -> str:
        with pytest.raises(SystemExit) as end:
            raise SystemExit(main(list(arguments)))
        assert end.value.code in (1, 2)
        line = capsys.readouterr().err
        assert line.endswith("\n")
        assert line[:-1].isprintable()
        return line[:-1]

    return error


def test_unprintable_characters_are_escaped(error):
    assert escape_unprintable("ε\n\x1b[0m\udcff") == r"ε\n\x1b[0m\udcff"
    with pytest.raises(InputError, match=r"^a\\nb: c$"), prefix_errors("a\nb"):
        raise InputError("c")
    assert error("export", "a", "--output", "b", "a\nb").endswith(r"arguments: a\nb")
    assert r"a\n\udcff" in error("certify", "a\n\udcff", "log.csv")


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
INSTALLED = [sys.executable, "-P", "-c", "from drcrm.__main__ import command; command()"]
PRELOADED = "import runpy, sys; print(*sys.modules)"  # modules that python -m imports before drcrm
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT / "src"), "COLUMNS": "80"}


def test_only_the_module_of_a_named_risk_is_imported_from_the_working_folder(tmp_path):
    """Learn with a risk next to modules that must not be imported: files next to a log are data."""
    decisions(200).to_csv(tmp_path / "log.csv", index=False)
    preloaded = subprocess.run([sys.executable, "-c", PRELOADED], capture_output=True, text=True, check=True).stdout
    packages = "yaml", "numpy", "pandas", "scipy", "pyarrow", "bottleneck", "numexpr"
    for name in {*sys.stdlib_module_names, *packages} - {*preloaded.split()}:
        (tmp_path / f"{name}.py").write_text(f"open('ran-{name}', 'w').close()\nraise SystemExit('{name} ran')\n")
    (tmp_path / "own.py").write_text(RISK)
    (tmp_path / "helper.py").write_text("SHARE = 1\n")
    config = json.dumps(MAPPING | {"algorithm": {"estimator": "own:Own", "parameter": "share", "grid": [1]}})
    arguments = ["learn", "log.csv", "--config", config, "--output", "policy.npz", "--report", "report.html"]
    done = subprocess.run([*INSTALLED, *arguments], cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True)
    assert not [*tmp_path.glob("ran-*")]
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "policy.npz").exists()


PROGRAM = """
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


def run_in_one_process(*arguments: list[str]) -> tuple[str, str]:
    """Return the exit statuses of several calls and the heavy packages that they import, and standard error."""
    program = [sys.executable, "-c", PROGRAM.replace("ARGUMENTS", repr(arguments))]
    done = subprocess.run(program, env=ENVIRONMENT, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1], done.stderr


def test_help_and_wrong_arguments_import_no_numpy():
    helps = ["--help"], *([command, "--help"] for command in COMMANDS)
    learn = ["learn", "a.csv", "--output", "b.npz"]
    wrong = {"--confidence": "0.5", "--jobs": "0", "--seed": "-1", "--config": "{"}
    calls = ["diagnose"], *([*learn, f"{name}={value}"] for name, value in wrong.items())
    statuses, error = run_in_one_process(*helps, *calls)
    assert statuses.split() == ["0"] * len(helps) + ["2"] * len(calls)
    assert len(error.splitlines()) == 5


def test_learning_without_a_feature_map_imports_no_scikit_learn(tmp_path):
    """The log has every action: the search for missing actions takes trees from scikit-learn."""
    decisions(200).to_csv(tmp_path / "log.csv", index=False)
    log = [str(tmp_path / "log.csv"), "--config", json.dumps(MAPPING | {"algorithm": "cips", "least_propensity": 0.01})]
    output = ["--output", str(tmp_path / "policy.npz")]
    assert run_in_one_process(["learn", *log, *output])[0] == "0 numpy pandas pyarrow scipy"


@pytest.mark.parametrize("value", ["nan", "1.1", "x"])
def test_shares_are_numbers_from_0_to_1(error, value):
    line = error("predict", "a.npz", "a.csv", "--output", "b.csv", f"--explore={value}")
    assert line == f"drcrm predict: argument --explore: {value!r}, expected a number from 0 to 1"


def test_interruptions_are_one_line(monkeypatch):
    def interrupt(**options):
        raise KeyboardInterrupt

    monkeypatch.setattr("drcrm.logs.cli.questions.diagnose", interrupt)
    monkeypatch.delitem(sys.modules, "drcrm.__main__")  # runpy imports it again
    monkeypatch.setattr(sys, "argv", ["drcrm", "diagnose", "log.csv"])
    with pytest.raises(SystemExit) as end:
        runpy.run_module("drcrm", run_name="__main__")
    assert end.value.code == "drcrm: interrupted"


def test_missing_packages_name_the_extra_to_install(error, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setattr("drcrm.__main__.import_module", lambda name: __import__("pyarrow"))
    assert error("diagnose", "log.csv") == "drcrm: diagnose needs pyarrow: pip install 'drcrm[logs]'"


def test_output_in_a_small_encoding_is_complete(tmp_path, monkeypatch):
    """What the encoding lacks is escaped: names of columns, and of files."""
    decisions(40).rename(columns={"city": "Stadt ε"}).to_csv(tmp_path / "log.csv", index=False)
    (tmp_path / "log.json").write_text(json.dumps(MAPPING).replace('"city"', '"Stadt ε"'), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for options, expected in ((["log.csv", "--config", "log.json"], 0), (["log ε.csv"], 1)):
        out, err = (io.TextIOWrapper(io.BytesIO(), encoding="ascii") for _ in range(2))
        monkeypatch.setattr("sys.stdout", out)
        monkeypatch.setattr("sys.stderr", err)
        monkeypatch.setattr("sys.argv", ["drcrm", "diagnose", *options])
        with pytest.raises(SystemExit) as end:
            command()
        assert end.value.code == expected
        out.flush()
        err.flush()
        assert out.buffer.getvalue() or b"log \\u03b5.csv" in err.buffer.getvalue()
