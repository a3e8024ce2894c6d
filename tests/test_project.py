"""What must stay in step across the project's files."""

import ast
import itertools
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from inspect import signature
from pathlib import Path

import pytest
import yaml

import drcrm
from drcrm.estimates import ESTIMATES
from drcrm.optimization.lbfgs import STOPPING
from drcrm.optimization.starts import STARTS
from drcrm.paper import BASELINE, LOGGING, PAPER_ALGORITHMS, POEM, ROLES
from drcrm.paper.config import project_config
from drcrm.paper.dataset_formats import SCALES
from drcrm.paper.runs import CLASSIFIERS
from drcrm.policies import CLASSIFIER_WEIGHTS
from drcrm.risks import Risk
from drcrm.selection.algorithms import ESTIMATORS
from drcrm.selection.score_names import SCORES
from drcrm.weights import WEIGHTS

ROOT = Path(__file__).parent.parent
CONFIG = project_config(ROOT)


def dependencies(*extras: str) -> set[str]:
    """Return the names of the packages that the project needs, with those of its extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    entries = sum([project["optional-dependencies"][name] for name in extras], project["dependencies"])
    return {re.split("[<>=]", entry)[0].lower() for entry in entries}


def imported_packages(paths: Iterable[Path]) -> set[str]:
    """Return the packages that files import, without those of Python and of the project."""
    nodes = [node for path in paths for node in ast.walk(ast.parse(path.read_bytes()))]
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module for node in nodes if isinstance(node, ast.ImportFrom)]
    return {name.partition(".")[0] for name in names} - sys.stdlib_module_names - {"drcrm"}


def test_every_import_is_declared_and_conda_has_every_dependency():
    names = {"sklearn": "scikit-learn", "yaml": "pyyaml", "PIL": "pillow", "pycrfsuite": "sklearn-crfsuite"}
    names |= {"sklearn_crfsuite": "sklearn-crfsuite", "dask": "distributed"}
    declared = dependencies("dask", "logs", "pipeline")
    packages = imported_packages((ROOT / "src/drcrm").rglob("*.py"))
    assert {names.get(package, package) for package in packages} <= declared
    listed = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    assert declared <= {re.split("[ <>=]", entry)[0].lower() for entry in listed}


def test_every_dependency_is_pinned():
    lines = [line for name in ("", "docs/") for line in (ROOT / f"{name}requirements.txt").read_text().split()]
    pinned = {line.split("==")[0].lower() for line in lines}
    needed = dependencies("dask", "logs", "pipeline", "dev", "site")
    assert {name for name in needed if not name.startswith("drcrm[")} <= pinned
    assert len(set(lines)) == len(pinned), "a package has two pins"
    assert {"numpy", "snakemake", "pytest"} <= needed


def test_the_library_imports_only_what_the_bare_package_installs():
    """The library needs no package of the pipeline, the reports and the readers."""
    above = {"logs", "mapping", "paper"}
    folders = [path for path in (ROOT / "src/drcrm").iterdir() if path.is_dir() and path.name not in above]
    files = {path for folder in folders for path in folder.rglob("*.py")} - {ROOT / "src/drcrm/cluster.py"}
    packages = imported_packages(files)
    assert {"numpy", "scipy", "sklearn"} <= packages
    assert packages <= {"numpy", "scipy", "pandas", "sklearn", "threadpoolctl", "yaml"}  # yaml reads shipped algorithms


def test_names_are_those_of_the_classes_and_of_the_configuration():
    schema = yaml.safe_load((ROOT / "workflow/schemas/config.schema.yaml").read_text())
    selection = schema["$defs"]["experiment"]["properties"]["selection"]
    assert set(selection["default"]) <= set(SCORES)
    rules = "".join(path.read_text() for path in (ROOT / "workflow/rules").glob("*.smk"))
    next_to_fits = set(re.findall(r"\{LOG\}/(\w+)\.npz", rules)) - {"name"}  # the fits of algorithms are files there
    assert set(schema["properties"]["algorithms"]["propertyNames"]["not"]["enum"]) == {*ROLES, *next_to_fits}
    texts = [rules, *(path.read_text() for path in (ROOT / "Snakefile", ROOT / "workflow/Snakefile"))]
    refused = schema["properties"]["experiments"]["propertyNames"]["not"]["anyOf"][1]["enum"]
    assert {*re.findall(r"^rule (\w+):", "\n".join(texts), re.M), "theory", "studies"} <= set(refused)
    assert {BASELINE, POEM} <= set(CONFIG["algorithms"])
    entries = CONFIG["algorithms"].values()
    assert {entry["estimator"] for entry in entries if "estimator" in entry} <= set(ESTIMATORS)
    keys = schema["$defs"]["algorithm"]["properties"]
    assert tuple(keys["classifier"]["anyOf"][0]["enum"]) == CLASSIFIERS
    assert tuple(keys["weights"]["enum"]) == CLASSIFIER_WEIGHTS
    assert schema["$defs"]["dataset"]["properties"]["scale"]["enum"] == list(SCALES)
    assert list(CONFIG["algorithms"])[: len(PAPER_ALGORITHMS)] == list(PAPER_ALGORITHMS)
    assert set(schema["$defs"]["experiment"]["properties"]["stopping"]["enum"]) == set(STOPPING)
    assert LOGGING in STARTS
    for kind in WEIGHTS.values():
        assert len(signature(kind).parameters) == 1
    assert Risk.estimates == tuple(ESTIMATES)
    for name, risk in ESTIMATORS.items():
        parameters = [parameter for parameter in signature(risk).parameters if parameter != "atom"]  # of certificates
        assert set(risk.estimates) <= set(ESTIMATES)
        assert [*signature(getattr(drcrm, name)).parameters][: len(parameters)] == parameters


@pytest.mark.parametrize("name", [*ESTIMATORS, "DoublyRobustDRO"])
def test_estimators_document_their_parameters_in_the_order_of_the_signature(name):
    estimator = getattr(drcrm, name)
    parameters = estimator.__doc__.partition("\n\nAttributes\n")[0]
    assert re.findall(r"^(\w+) : ", parameters, re.M) == list(signature(estimator).parameters)


def test_examples_print_what_the_readme_and_the_library_page_state(capsys):
    [example] = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    [certificate] = re.findall(r"```py\n(.*?)```", (ROOT / "docs/user-guide/library.md").read_text(), re.S)
    outputs = []
    for code in (example, example + certificate):
        exec(code, {})
        outputs.append(capsys.readouterr().out)
    [stated] = re.findall(r"wrong labels: ([\d.]+); tossing coins gives", example)
    assert float(outputs[0]) == pytest.approx(float(stated), abs=0.005)
    *_, bound, logging = outputs[1].splitlines()
    assert bound.startswith(re.search(r"# (cost at most .*?) …", certificate)[1])
    assert logging == re.search(r"# (-[\d.]+): with", certificate)[1]


def test_the_protocol_says_which_options_experiments_combine():
    lines = (ROOT / "docs/paper/protocol.md").read_text().splitlines()
    [first] = [index for index, line in enumerate(lines) if line.startswith("| experiment |")]
    cells = [re.findall(r"(?<=\|)[^|]+", line.replace("`", "")) for line in itertools.takewhile(bool, lines[first:])]
    (_, *options), _, *rows = [[cell.strip() for cell in row] for row in cells]
    stated = {name: dict(zip(options, row, strict=True)) for names, *row in rows for name in names.split(", ")}
    experiments = CONFIG["experiments"]
    text = lambda value: ", ".join(value) if isinstance(value, list) else str(value)  # noqa: E731
    assert stated == {name: {option: text(of[option]) for option in options} for name, of in experiments.items()}


def test_paths_named_in_contributing_exist():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    paths = re.findall(r"`([\w./]+/[\w./]*|[\w.]+\.(?:py|yaml|md))`", text)
    assert len(paths) > 10
    assert not [path for path in paths if not (ROOT / path).exists() and path not in ("results/", "weights.py")]


def make(*arguments: str) -> subprocess.CompletedProcess:
    """Run make without the variables of a make that runs the tests."""
    outside = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL")}
    return subprocess.run(["make", *arguments], cwd=ROOT, env=outside, capture_output=True, text=True, check=False)


def test_a_report_of_ones_own_experiment_takes_ones_own_configuration(tmp_path):
    installed = "--old-file", ".venv/installed"
    (mine := tmp_path / "mine.yaml").write_text("experiments: {mine: {datasets: [digits]}}")
    output = make("--dry-run", *installed, "report", "EXPERIMENT=mine", f"CONFIG={mine}").stdout
    assert f"snakemake --cores 2 mine --report results/mine/report.html --configfile {mine}" in output
    assert '--config "run=[mine]"' in output
