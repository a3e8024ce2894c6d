"""The workflow end to end: a user's data set, algorithm and experiment, added by a configuration file."""

import base64
import html
import json
import re
import shutil
from itertools import product
from pathlib import Path

import pandas as pd
import pytest
import yaml
from fixtures.pipeline import ROOT, TOY, contents, copied, jobs, snakemake, write_config, write_data

from drcrm.paper.reports.plan import FIGURE_TITLES

CODE = ["Snakefile", "config.yaml", "profiles", "src", "studies", "workflow"]
SELECTIONS = ["snips", "ips"]
GRIDS = {"cips": [], "poem": [0.01, 1.0], "my_robust": [0.01, 0.1]}
CURVE = ["my_robust"]  # algorithms of the replay-count figure
RUN = (2, 0)  # replay count and seed
DRO = {"estimator": "KLDRO", "parameter": "radius"}
CONFIG = {
    "run": ["tiny"],
    "datasets": {"toy": {**TOY, "paper": "yeast", "differs": "synthetic: from a test"}},
    "algorithms": {
        "poem": {"grid": GRIDS["poem"]},
        "my_robust": {
            **DRO,
            "grid": GRIDS["my_robust"],
            "options": {"estimate": "dr", "start": "model", "tilt": "auto"},
        },
    },
    "experiments": {
        "tiny": {
            "datasets": ["toy"],
            "seeds": 1,
            "replay_count": 2,
            "selection": SELECTIONS,
            "logging_fraction": 0.5,
            "algorithms": list(GRIDS),
            "replay_curve": {"datasets": ["toy"], "counts": [2], "seeds": 1, "algorithms": CURVE},
        }
    },
}
KEYS = ["dataset", "replay_count", "seed", "algorithm", "selection"]
COLUMNS = [*KEYS, "expected_loss", "greedy_loss", "hyperparameter", "score", "iterations", "converged", "tilt"]
COLUMNS += ["estimate", "bound", "effective_size"]
FIGURES = ["replay_count", "grid", "certificates"]
PICTURES = ["overview", *(f"{name}_toy" for name in FIGURES)]
TABLES = ["expected_loss", "greedy_loss", "hyperparameters", "paper_comparison", "differences_to_poem"]
FILES = {
    *("metrics.csv", "grids.csv", "provenance.json", "summary.rst"),
    *(f"tables/{name}.{kind}" for name, kind in product(TABLES, ["csv", "md", "tex"])),
    *(f"figures/{name}.{kind}" for name, kind in product(PICTURES, ["pdf", "svg", "png", "tex"])),
}


@pytest.fixture(scope="module")
def config(tmp_path_factory) -> Path:
    """The configuration in a user's folder, next to 40 training and 20 test contexts as LibSVM text."""
    folder = tmp_path_factory.mktemp("user")
    write_data(folder)
    return write_config(folder, {**CONFIG, "mirror": str(folder)})


@pytest.fixture(scope="module")
def finished(tmp_path_factory, config) -> Path:
    """The working folder of a run without tables and figures; tests that change it copy it first."""
    work = tmp_path_factory.mktemp("finished")
    snakemake(work, config, "results/tiny/grids.csv", "results/tiny/provenance.json")
    return work


@pytest.fixture(scope="module")
def complete(tmp_path_factory, finished, config) -> Path:
    """The working folder of a run with all files of the experiment."""
    work = copied(finished, tmp_path_factory.mktemp("complete"))
    (work / "output.txt").write_text(snakemake(work, config, "tiny"))
    return work


def changed_config(config: Path, folder: Path, key: str, value: object) -> Path:
    """Write a copy of a configuration with a new value at a dotted key, and return its path."""
    content = yaml.safe_load(config.read_text())
    *path, last = key.split(".")
    parent = content
    for name in path:
        parent = parent[name]
    parent[last] = value
    return write_config(folder, content)


def copied_code(folder: Path) -> Path:
    """Return a copy of the parts of the project that runs need."""
    folder.mkdir(parents=True)
    for name in CODE:
        (shutil.copytree if (ROOT / name).is_dir() else shutil.copy2)(ROOT / name, folder / name)
    return folder


def test_metrics_and_grids_have_a_row_for_each_run_algorithm_and_value(finished):
    """The metrics are the grid rows that a selection criterion chose."""
    metrics, grids = (pd.read_csv(finished / f"results/tiny/{name}.csv") for name in ("metrics", "grids"))
    assert list(metrics.columns) == COLUMNS
    expected = {("toy", *RUN, name, score) for name, score in product(["logging", *GRIDS, "skyline"], SELECTIONS)}
    assert set(metrics[KEYS].itertuples(index=False, name=None)) == expected
    assert len(metrics) == len(expected)
    for algorithm, chosen in metrics.groupby("algorithm")["hyperparameter"]:
        assert set(chosen.dropna()) <= set(GRIDS.get(algorithm, []))
        assert chosen.notna().all() if GRIDS.get(algorithm) else chosen.isna().all()
    expected = {("toy", *RUN, name, value) for name, grid in GRIDS.items() for value in grid or [-1]}
    assert set(grids[[*KEYS[:4], "hyperparameter"]].fillna(-1).itertuples(index=False, name=None)) == expected
    assert len(grids) == len(expected)
    chosen = metrics.dropna(subset="score").query("selection == 'ips'")
    assert set(chosen["score"]) == set(grids.groupby(KEYS[:4])["ips"].transform("min"))


@pytest.mark.slow
def test_a_run_writes_all_files_of_an_experiment(complete):
    folder = complete / "results/tiny"
    files = {path.relative_to(folder) for path in folder.rglob("*") if path.is_file() and path.stat().st_size}
    apart = {"runs", "logs", "pages", "more_tables"}
    kept = {path.as_posix() for path in files if path.parts[0] not in apart and path.name != ".snakemake_timestamp"}
    assert kept == FILES
    assert Path("more_tables/expected_loss_by_ips.tex") in files


def test_provenance_has_the_options_with_their_defaults(finished):
    record = json.loads((finished / "results/tiny/provenance.json").read_text())
    experiment = CONFIG["experiments"]["tiny"]
    assert {key: record["options"][key] for key in experiment} == experiment
    assert record["options"]["split_unit"] == "row"
    assert all(library["architecture"] for library in record["blas"])


def test_a_change_of_the_configuration_runs_only_what_it_affects(finished, config, tmp_path):
    """The change is a second seed, another unit of POEM's grid, and another mirror, which affects nothing.

    The command has no target, so it builds ``run``.
    """
    changed = changed_config(config, tmp_path, "experiments.tiny.variance_penalty_scale", "unit")
    changed = changed_config(changed, tmp_path, "experiments.tiny.seeds", 2)
    arguments = "--dry-run", "--printshellcmds", "--config", "mirror=/nowhere", "run=[tiny]"
    output = snakemake(finished, changed, *arguments)
    planned = jobs(output)
    assert "fetch" not in planned
    of_seed = {"split": 1, "log_crf": 1, "skyline": 1, "replay": 1, "cost_model": 1}
    assert {rule: planned[rule] for rule in of_seed} == of_seed
    assert (planned["fit"], planned["evaluate"]) == (len(GRIDS) + 1, 2)  # POEM of the first seed, too
    assert '"seed": 1' in output


# Only these rules run after a change of the module, with those whose inputs they update.
RESULTS = {"tables", "overview", "figure"}
DATA = {"fetch", "split", "log_crf", "skyline", "replay"}
CHANGED = {
    "paper/reports/result_tables.py": RESULTS,
    "risks/closed_forms.py": {*DATA, "cost_model", "fit", "evaluate", "collect", "provenance", *RESULTS},
}


@pytest.mark.slow
@pytest.mark.parametrize("module", CHANGED)
def test_a_code_change_reruns_the_rules_that_use_it(finished, config, tmp_path, module):
    """A comment and a docstring are no change. The test copies project and run to another root."""
    project, work = (tmp_path / path.relative_to("/") for path in (ROOT, finished))
    copied(finished, work)
    copied_code(project)
    for path in (project / "src/drcrm").rglob("*.py"):
        path.write_text(path.read_text().replace('"""', '"""Really: ', 1) + "# a comment\n")
    with open(project / "src/drcrm" / module, "a") as stream:
        stream.write("changed = True\n")
    assert set(jobs(snakemake(work, config, "tiny", "--dry-run", project=project))) == {*CHANGED[module], "tiny"}


@pytest.mark.slow
def test_the_report_is_one_page_that_opens_with_the_summary_of_the_run(complete, config, tmp_path_factory):
    work = copied(complete, tmp_path_factory.mktemp("report"))
    snakemake(work, config, "tiny", "--report", "results/tiny/report.html", "--config", "run=[tiny]")
    page = (work / "results/tiny/report.html").read_text(encoding="utf-8")
    assert not re.findall(r"<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)\s*=\s*[\"']?(?!data:|#)[\w./]", page)
    pages = [*(work / "results/tiny/pages").glob("*.html")]
    for path in [*pages, *(work / "results/tiny/figures").glob("*.svg")]:
        assert base64.b64encode(path.read_bytes()).decode() in page
    text = re.sub(r"\\n|\s+", " ", html.unescape(page))
    assert "algorithms learned a policy from the log of " in text
    assert "Expected losses for comparison: " in text
    assert "Expected Hamming loss on toy against the replay count" in text
    assert set(re.findall(r"\"table\": \"([^\"]*)\"", page)) == {path.stem for path in pages}
    titles = sorted(set(re.findall(r"\"figure\": \"(\d [^\"]*)\"", page)))
    assert [title.partition(" ")[2] for title in titles] == [FIGURE_TITLES[name] for name in FIGURES]


@pytest.mark.slow
def test_a_table_of_many_runs_is_collected(config, tmp_path):
    """The names of its files exceed an argument of a process, which has at most 128 KiB."""
    name, n_seeds = "toy" * 60, 700
    changed = changed_config(config, tmp_path, f"datasets.{name}", CONFIG["datasets"]["toy"])
    changed = changed_config(changed, tmp_path, "experiments.tiny.datasets", [name])
    changed = changed_config(changed, tmp_path, "experiments.tiny.replay_curve.datasets", [name])
    changed = changed_config(changed, tmp_path, "experiments.tiny.seeds", n_seeds)
    for seed in range(n_seeds):
        (path := tmp_path / f"results/tiny/runs/{name}/seed{seed}/replay2/metrics.csv").parent.mkdir(parents=True)
        path.write_text(f"{','.join(COLUMNS)}\n{name},2,{seed}{',' * (len(COLUMNS) - 3)}\n")
    assert n_seeds * len(str(path.relative_to(tmp_path))) > 2**17
    snakemake(tmp_path, changed, "results/tiny/metrics.csv", "--allowed-rules", "collect")
    assert pd.read_csv(tmp_path / "results/tiny/metrics.csv")["seed"].tolist() == list(range(n_seeds))


OUTER = """
module drcrm:
    snakefile: "{project}/Snakefile"
    config: config["drcrm"]
    prefix: "inner"

use rule * from drcrm as drcrm_*

rule summary:
    input: expand("inner/results/tiny/{{file}}", file={files})
    output: "summary.txt"
    params: sections=sorted(config["drcrm"])
    shell: "wc -l < {{input[0]}} > {{output}}; echo $PYTHONPATH, {{params.sections}} >> {{output}}"
"""


@pytest.mark.slow
def test_results_do_not_depend_on_cores_location_and_an_outer_workflow(complete, config, tmp_path):
    """Only the commit differs, because a copy without the repository does not know it.

    Environment and config of the outer workflow do not change.
    """
    project, work = copied_code(tmp_path / "with a space/project"), tmp_path / "with a space/work"
    files = ["metrics.csv", "provenance.json", "tables/expected_loss.csv", "figures/overview.svg"]
    (tmp_path / "Snakefile").write_text(OUTER.format(project=project, files=files))
    outer = {"drcrm": yaml.safe_load(config.read_text())}
    arguments = work, write_config(tmp_path, outer), "summary", "--cores=1"
    snakemake(*arguments, project=tmp_path)
    copy = contents(work / "inner")
    original = {name: content for name, content in contents(complete).items() if name in copy}
    known, unknown = (json.loads(files.pop("results/tiny/provenance.json")) for files in (original, copy))
    assert copy == original
    assert {"results/tiny/metrics.csv", "results/tiny/runs/toy/seed0/replay2/my_robust.npz"} <= set(copy)
    assert {**known, "commit": None, **dict.fromkeys(("clean", "changed", "untracked"))} == unknown
    lines = len(copy["results/tiny/metrics.csv"].splitlines())
    assert (work / "summary.txt").read_text() == f"{lines}\n{ROOT}/src, {' '.join(sorted(outer['drcrm']))}\n"
    assert "Nothing to be done" in snakemake(*arguments, project=tmp_path)
