"""The entry point of the steps: wrong arguments, one line for each error, and imports."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from fixtures.pipeline import AXES, SPLIT, error_of

from drcrm.files import write_npz
from drcrm.paper.steps.__main__ import main, parse

SOURCE = Path(__file__).parents[3] / "src"


def python(*arguments: str, **options) -> subprocess.CompletedProcess:
    environment = os.environ | {"PYTHONPATH": str(SOURCE)}
    return subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, **options)


@pytest.mark.parametrize("arguments", [[], ["fit"]])
def test_wrong_arguments_print_the_usage(capsys, arguments):
    assert main(arguments) == 2
    assert capsys.readouterr().err.startswith("usage: python -P -m drcrm.paper.steps MODULE.STEP --NAME=PATH")


def test_names_have_a_path_or_a_list_of_paths():
    """Snakemake writes an input that is not needed as an empty string."""
    arguments = "--log=a.npz", "--cost_model=", "--fits", "c.npz", "d.npz", "--classifiers", '--settings={"seed": 3}'
    files = {"log": "a.npz", "fits": ["c.npz", "d.npz"], "classifiers": []}
    assert parse(arguments) == (files, {"seed": 3})


def test_a_process_uses_one_thread(tmp_path):
    """A json.py in the working folder is not imported instead of Python's."""
    (tmp_path / "json.py").write_text("raise SystemExit('json ran')")
    files = "--runs", "nothing.csv", "--table=metrics.csv"
    done = python("-P", "-m", "drcrm.paper.steps", "results.collect", *files, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "drcrm collect: nothing.csv: no such file\n"
    code = "import os; from drcrm.paper.steps.__main__ import main; main([]); print(os.environ['OMP_NUM_THREADS'])"
    assert python("-c", code, cwd=tmp_path.parent).stdout == "1\n"


@pytest.mark.parametrize(
    ("module", "heavy"),
    [
        ("learn", ["pandas", "scipy.optimize", "matplotlib", "sklearn", "sklearn_crfsuite", "pycrfsuite", "pooch"]),
        ("data", ["pandas", "scipy.optimize", "matplotlib", "sklearn", "drcrm.cost_models", "drcrm.evaluation"]),
        ("results", ["pandas", "scipy.sparse", "matplotlib", "sklearn", "statsmodels", "drcrm.policies"]),
        ("learn, drcrm.certificates", ["pandas", "scipy.optimize", "sklearn"]),  # evaluate
        ("data, drcrm.bench.simulate, drcrm.paper.reports.markup", ["pandas", "sklearn"]),  # the workflow's rules
    ],
)
def test_a_step_imports_only_what_it_needs(module, heavy):
    code = f"import sys, drcrm.paper.steps.{module}; print([name for name in {heavy} if name in sys.modules])"
    assert python("-c", code).stdout == "[]\n"


@pytest.mark.parametrize("output", ["folder", "file/x", "x" * 300])
def test_an_output_that_cannot_be_written_is_one_line(tmp_path, monkeypatch, capsys, output):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("")
    write_npz("train.npz", X=[[1.0], [2.0]], labels=[[0], [1]])
    message = error_of(capsys, "split", {"train": "train.npz"}, {"split": output}, {**SPLIT, **AXES})
    assert message.startswith("[Errno ")
