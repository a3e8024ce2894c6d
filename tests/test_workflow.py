"""The workflow end to end: a user's own data set, algorithm and experiment, added by a configuration file alone."""

from __future__ import annotations

import base64
import html
import json
import os
import re
import shutil
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from scipy import stats
from shop import MAPPING, decisions
from workflows import (
    PROJECT,
    TOY,
    check,
    command,
    contents,
    copied,
    jobs,
    remove,
    snakemake,
    write_config,
    write_data,
)

from drcrm.reports.figures.style import FIGURE_TITLES

CODE = ["Snakefile", "config.yaml", "environment.yml", "profiles", "src", "workflow"]

SELECTIONS = ["snips", "ips"]
GRIDS = {"cips": [], "poem": [0.01, 1.0], "my_dro": [0.01, 0.1], "my_robust": [0.01, 0.1]}
CURVE = ["poem", "my_robust"]  # the algorithms of the replay-count figure
# (replay count, seed): the runs of the tables, and what the figure needs beside them, with their algorithms
ADDED = {"my_dro_from_logging": GRIDS["my_dro"], "my_robust_from_logging": GRIDS["my_robust"]}  # by the ablation
RUNS = {(2, 0): [*GRIDS, *ADDED], (2, 1): list(GRIDS), (1, 0): CURVE}
FITTED = GRIDS | ADDED
POLICIES = ["logging", *GRIDS, "skyline"]
CONFIG = {
    "run": ["tiny"],
    "datasets": {
        "toy": {**TOY, "paper": "yeast", "differs": "made up: by a test"},
    },
    "algorithms": {
        "poem": {"grid": GRIDS["poem"]},
        "my_dro": {"estimator": "KLDRO", "parameter": "radius", "grid": GRIDS["my_dro"]},
        "my_robust": {
            "estimator": "KLDRO",
            "parameter": "radius",
            "grid": GRIDS["my_robust"],
            "options": {"estimate": "dr", "start": "model", "tilt": "auto"},
        },
    },
    "experiments": {
        "tiny": {
            "datasets": ["toy"],
            "seeds": 2,
            "replay_count": 2,
            "selection": SELECTIONS,
            "logging_fraction": 0.5,
            "algorithms": list(GRIDS),
            "replay_curve": {"datasets": ["toy"], "counts": [1, 2], "seeds": 1, "algorithms": CURVE},
            "ablation": {"algorithms": ["my_dro", "my_robust"], "starts": ["logging"], "seeds": 1},
        }
    },
}
KEYS = ["dataset", "replay_count", "seed", "algorithm", "selection"]
COLUMNS = [*KEYS, "expected_loss", "greedy_loss", "hyperparameter", "score", "iterations", "converged", "tilt"]
COLUMNS += ["estimate", "bound", "effective_size"]
FIGURES = ["replay_count", "grid", "surprise", "certificates", "paired", "ablation"]
DRAWN = ["overview", *(f"{name}_toy" for name in FIGURES)]
TABLES = ["expected_loss", "greedy_loss", "hyperparameters", "paper_comparison", "differences_to_poem"]
PAGES = [
    "Expected Hamming loss by SNIPS",
    "Expected Hamming loss by IPS",
    "Expected Hamming loss in detail",
    "Greedy Hamming loss by SNIPS",
    "Greedy Hamming loss by IPS",
    "Greedy Hamming loss in detail",
    "Chosen hyper-parameters",
    "Expected Hamming loss compared with the paper",
    "Greedy Hamming loss compared with the paper",
    "Expected Hamming loss compared with POEM",
    "Greedy Hamming loss compared with POEM",
]
RESULTS = {
    "metrics.csv",
    "grids.csv",
    "provenance.json",
    "summary.rst",
    *(f"tables/{name}.{kind}" for name, kind in product(TABLES, ["csv", "md", "tex"])),
    *(f"pages/{number:02} {title}.html" for number, title in enumerate(PAGES, start=1)),
    *(f"figures/{name}.{kind}" for name, kind in product(DRAWN, ["pdf", "svg", "png"])),
}
OUTER = f"""
module drcrm:
    snakefile: "{PROJECT}/Snakefile"
    config: config["drcrm"]
    prefix: "inner"

use rule * from drcrm as drcrm_*

rule summary:
    input: "inner/results/tiny/metrics.csv"
    output: "summary.txt"
    params: given=sorted(config["drcrm"])
    shell:
        "wc -l < {{input}} > {{output}};"
        " echo ${{{{PYTHONPATH-no PYTHONPATH}}}}, ${{{{DRCRM_MIRROR-no DRCRM_MIRROR}}}} >> {{output}};"
        " echo {{params.given}} >> {{output}}"
"""


OWN_RISK = """
import numpy as np
from drcrm.risks import Risk


class UpperMean(Risk):
    \"\"\"The mean of the largest share of the costs.\"\"\"

    robust_end = "low"

    def __init__(self, share):
        self.share = share

    def evaluate(self, z, share, n, start=None):
        order, worst = np.argsort(-z), np.zeros(len(z))
        before = np.cumsum(share[order]) - share[order]
        worst[order] = np.clip(self.share - before, 0, share[order]) / self.share
        return worst @ z, worst, None
"""
OWN_ALGORITHM = {
    "estimator": "trimmed:UpperMean",
    "parameter": "share",
    "grid": [0.5, 1.0],
    "label": "My risk",
    "colour": "#123456",
    "marker": "d",
}


@pytest.fixture(scope="module")
def config(tmp_path_factory) -> Path:
    """A user's folder: 40 training and 20 test contexts as LibSVM text, and a configuration that names them."""
    folder = tmp_path_factory.mktemp("user")
    write_data(folder)
    return write_config(folder, {**CONFIG, "mirror": str(folder)})


@pytest.fixture(scope="module")
def finished(tmp_path_factory, config) -> Path:
    """The working folder of a finished run on all cores; tests that change it copy it first."""
    work = tmp_path_factory.mktemp("finished")
    (work / "said").write_text(check([each for each in command(work, config, "tiny") if each != "--cores=2"]))
    return work


def copied_code(to: Path) -> Path:
    """A copy of the project, as far as runs need it."""
    to.mkdir(parents=True)
    for name in CODE:
        (shutil.copytree if (PROJECT / name).is_dir() else shutil.copy2)(PROJECT / name, to / name)
    return to


def test_grids_have_a_row_for_each_run_and_grid_value(finished):
    """Its losses are those of the metrics where a score chose it."""
    grids = pd.read_csv(finished / "results/tiny/grids.csv")
    expected = {
        ("toy", *run, name, value) for run, names in RUNS.items() for name in names for value in FITTED[name] or [-1]
    }
    keys = [*KEYS[:4], "hyperparameter"]
    assert set(grids[keys].fillna(-1).itertuples(index=False, name=None)) == expected
    assert len(grids) == len(expected)
    metrics = pd.read_csv(finished / "results/tiny/metrics.csv").dropna(subset="score")
    joined = metrics.merge(grids, on=keys, suffixes=("", "_grid"))
    assert len(joined) == len(metrics)
    for name in ["expected_loss", "greedy_loss", "iterations", "converged"]:
        assert (joined[name] == joined[f"{name}_grid"]).all()
    best = grids.groupby(KEYS[:4])["ips"].transform("min")
    chosen = joined[joined["selection"] == "ips"]
    assert (chosen["score"] == chosen["ips"]).all()
    assert set(chosen["score"]) == set(best)


def test_metrics_have_a_row_for_each_run_algorithm_and_selection(finished):
    metrics = pd.read_csv(finished / "results/tiny/metrics.csv")
    assert list(metrics.columns) == COLUMNS
    expected = {
        ("toy", *run, name, selection)
        for run, names in RUNS.items()
        for name, selection in product(["logging", *names, "skyline"], SELECTIONS)
    }
    assert set(metrics[KEYS].itertuples(index=False, name=None)) == expected
    assert len(metrics) == len(expected)
    assert metrics["expected_loss"].between(0, 3).all()
    for algorithm, chosen in metrics.groupby("algorithm")["hyperparameter"]:
        assert set(chosen.dropna()) <= set(FITTED.get(algorithm, []))
        assert chosen.notna().all() if FITTED.get(algorithm) else chosen.isna().all()
    tilted = metrics[metrics["algorithm"] == "my_robust"]
    assert (tilted["tilt"] > 0).all()
    assert tilted.groupby(KEYS[:4])["tilt"].nunique().eq(1).all()  # before anything is chosen
    assert metrics.loc[metrics["algorithm"] != "my_robust", "tilt"].isna().all()


def test_all_files_of_an_experiment_are_there(finished):
    folder = finished / "results/tiny"
    parts = {"runs", "logs", "benchmarks"}
    found = {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}
    kept = {path.as_posix() for path in found if path.parts[0] not in parts and path.name != ".snakemake_timestamp"}
    assert kept == RESULTS
    assert all((folder / name).stat().st_size for name in RESULTS)


def test_table_holds_the_means_and_tests_of_the_metrics(finished):
    metric = "expected_loss"
    metrics = pd.read_csv(finished / "results/tiny/metrics.csv").query("replay_count == 2")
    table = pd.read_csv(finished / f"results/tiny/tables/{metric}.csv").set_index(["selection", "algorithm"])
    assert len(table) == len(SELECTIONS) * len(POLICIES)
    for selection in SELECTIONS:
        losses = metrics.query("selection == @selection").pivot(index="seed", columns="algorithm", values=metric)
        best = losses[list(GRIDS)].mean().idxmin()
        for algorithm in POLICIES:
            row, loss = table.loc[(selection, algorithm)], losses[algorithm]
            error = loss.std(ddof=1) / np.sqrt(2)
            reach = stats.t.ppf(0.975, 1) * error
            expected = {"mean": loss.mean(), "standard_error": error}
            expected |= {"ci_low": loss.mean() - reach, "ci_high": loss.mean() + reach}
            assert row[list(expected)].to_dict() == pytest.approx(expected)
            assert row["n_seeds"] == 2
            if algorithm in (best, "skyline"):
                assert np.isnan(row["p_value"])
            else:
                p_value = stats.ttest_rel(loss, losses[best], alternative="greater").pvalue
                assert row["p_value"] == pytest.approx(p_value)
            assert row["best"] == (algorithm in GRIDS and not row["p_value"] < 0.05)


def test_comparison_with_the_paper_subtracts_its_cells(finished):
    tables = finished / "results/tiny/tables"
    comparison = pd.read_csv(tables / "paper_comparison.csv")
    paper = pd.read_csv(PROJECT / "src/drcrm/reports/tables/data/paper_tables.csv")
    ours = pd.concat({m: pd.read_csv(tables / f"{m}.csv") for m in ("expected_loss", "greedy_loss")})
    ours = ours.droplevel(1).rename_axis("metric").reset_index()
    both = ours.merge(paper[paper["dataset"] == "yeast"], on=["metric", "algorithm"])
    assert len(comparison) == len(both) > 0
    cell = ["metric", "algorithm", "selection"]
    difference = both.set_index(cell)["mean"] - both.set_index(cell)["value"]
    assert comparison.set_index(cell)["difference"].to_dict() == pytest.approx(difference.to_dict())
    assert comparison["differs"].str.startswith("made up: by a test; replay count 2, the paper's text: 4").all()
    of_poem = comparison[comparison["algorithm"] == "poem"].set_index("selection")["differs"]
    assert "chosen by SNIPS, the paper's text: IPS" in of_poem["snips"].iloc[0]
    assert "chosen by IPS, the public code: SNIPS" in of_poem["ips"].iloc[0]


def test_differences_to_poem_are_paired_by_seed(finished):
    """At the tables' replay count by scipy's own test; at the other, with one seed, there is none."""
    table = pd.read_csv(finished / "results/tiny/tables/differences_to_poem.csv").set_index(
        ["metric", "replay_count", "selection", "algorithm"]
    )
    metrics = pd.read_csv(finished / "results/tiny/metrics.csv")
    assert len(table) == 2 * 2 * (3 + 1)  # beside POEM: three in the tables, one in the figure
    for (metric, count, selection, algorithm), row in table.iterrows():
        at = metrics[(metrics["replay_count"] == count) & (metrics["selection"] == selection)]
        losses = at.pivot(index="seed", columns="algorithm", values=metric)
        assert row["difference"] == pytest.approx((losses[algorithm] - losses["poem"]).mean())
        assert row["n_seeds"] == (2 if count == 2 else 1)
        if count == 2 and not (losses[algorithm] == losses["poem"]).all():
            test = stats.ttest_rel(losses[algorithm], losses["poem"], alternative="greater")
            assert row["p_larger"] == pytest.approx(test.pvalue)
            assert row["p_smaller"] == pytest.approx(1 - test.pvalue)


@pytest.mark.slow
def test_cores_and_place_change_no_byte(finished, config, tmp_path):
    """But for the commit, which a copy without the repository does not know."""
    project, work = copied_code(tmp_path / "with a space/project"), tmp_path / "with a space/work"
    made = [f"results/tiny/{name}" for name in ("provenance.json", "tables/expected_loss.csv", "figures/overview.svg")]
    snakemake(work, config, *made, "--cores=1", project=project)
    there = contents(work)
    here = {name: content for name, content in contents(finished).items() if name in there}
    known, unknown = (json.loads(each.pop("results/tiny/provenance.json")) for each in (here, there))
    assert here == there
    assert {*made[1:], "results/tiny/metrics.csv", "results/tiny/runs/toy/seed1/replay2/my_dro.npz"} <= set(there)
    assert {**known, "commit": None, "clean": None} == unknown


def test_provenance_has_the_options_with_their_defaults(finished):
    found = json.loads((finished / "results/tiny/provenance.json").read_text())
    given = CONFIG["experiments"]["tiny"]
    assert {key: found["options"][key] for key in given} == given
    assert found["options"]["split_unit"] == "row"
    assert found["versions"]["numpy"] == np.__version__
    if {"avx2", "fma"} <= {*Path("/proc/cpuinfo").read_text().split()}:  # the same kernels on all of these
        assert {each["architecture"] for each in found["blas"]} == {"Haswell"}


def test_another_mirror_reruns_nothing(finished, config):
    """The data are the same from anywhere, and fetched files stay."""
    output = snakemake(finished, config, "tiny", "--dry-run", "--config", "mirror=/nowhere")
    assert "Nothing to be done" in output
    assert "was made with" not in output


@pytest.mark.slow
def test_a_data_sets_scale_is_an_option_of_its_fetch(finished, config, tmp_path):
    """None is as if it were not said; another scale makes other data, and all that follows from them."""
    for name, kind in {"none": "none", "scaled": "standard"}.items():
        given = yaml.safe_load(config.read_text())
        given["datasets"]["toy"]["scale"] = kind
        work = tmp_path / name
        work.mkdir()
        snakemake(work, write_config(work, given), "resources/toy/train.npz")
    [plain, none, scaled] = [folder / "resources/toy/train.npz" for folder in (finished, *sorted(tmp_path.iterdir()))]
    assert none.read_bytes() == plain.read_bytes()
    with np.load(scaled) as arrays:
        assert arrays["X"].mean(axis=0) == pytest.approx(0, abs=1e-12)
        assert arrays["X"].std(axis=0) == pytest.approx(1)
    again = copied(finished, tmp_path / "again")
    output = snakemake(again, tmp_path / "scaled/config.yaml", "tiny", "--dry-run")
    assert jobs(output)["fetch"] == 1
    assert jobs(output)["fit"] > 0


def test_results_that_were_made_with_other_options_are_noticed(finished, config, tmp_path, tmp_path_factory):
    """In one line, and also where Snakemake's own records are gone and it finds nothing to be done."""
    work = copied(finished, tmp_path_factory.mktemp("redefined"))
    shutil.rmtree(work / ".snakemake")
    changed = yaml.safe_load(config.read_text())
    changed["experiments"]["tiny"]["logging_c"] = 1.0
    output = snakemake(work, write_config(tmp_path, changed), "tiny", "--dry-run")
    assert "Nothing to be done" in output
    assert output.count("drcrm: results/tiny was made with other logging_c: ") == 1


def test_an_experiment_that_there_is_not_is_answered_with_those_there_are(finished, config):
    """In one line, the last; a word that is no target is none."""
    *_, last = snakemake(finished, config, "tinny", "--dry-run", fails=True).splitlines()
    assert re.fullmatch(r"drcrm: there is no experiment 'tinny'; did you mean 'tiny'\? \(allowed: .*\)", last)
    output = check(command(finished, None, "tiny", "--dry-run"), fails=True)
    assert "drcrm: results/tiny is of an experiment that the configuration lacks: give its file, --configfile" in output


@pytest.mark.slow
@pytest.mark.parametrize(
    "given", [["tiny", "--until", "tables"], ["results/tiny/metrics.csv"], ["tiny", "--config", "mirror=tinny"]]
)
def test_what_is_no_target_is_no_experiment(finished, config, given):
    assert "Nothing to be done" in snakemake(finished, config, *given, "--dry-run")


@pytest.mark.slow
def test_two_experiments_of_one_name_are_an_error(config, tmp_path):
    doubled = tmp_path / "doubled.yaml"
    doubled.write_text("experiments:\n  mine: {datasets: [toy]}\n  mine: {datasets: [toy], seeds: 2}\n")
    output = snakemake(tmp_path, doubled, "mine", "--dry-run", fails=True)
    assert f"{doubled}, line 3: experiments.mine occurs twice, first in line 2" in output.splitlines()


@pytest.mark.slow
def test_an_edited_file_of_a_mirror_is_fetched_again(finished, config, tmp_path, tmp_path_factory):
    """Its content counts: not its time, not the mirror's place, nor whether there is a mirror any more."""
    work = copied(finished, tmp_path_factory.mktemp("edited"))
    origin = json.loads((work / "resources/toy/origin.json").read_text())
    assert {entry["from"] for entry in origin.values()} == {str(config.parent)}

    mirror = tmp_path / "mirror"
    mirror.mkdir()
    for name in origin:
        (mirror / name).write_bytes((config.parent / name).read_bytes())
    moved = "--config", f"mirror={mirror}"
    assert "Nothing to be done" in snakemake(work, config, "tiny", "--dry-run", *moved)

    *first, last = (mirror / "test.svm").read_text().splitlines(keepends=True)
    edited = "".join([last, *first])
    (mirror / "test.svm").write_text(edited)
    assert jobs(snakemake(work, config, "tiny", "--dry-run", *moved))["fetch"] == 1
    snakemake(work, config, "resources/toy/test.npz", *moved)
    assert (work / "resources/toy/raw/test.svm").read_text() == edited
    assert json.loads((work / "resources/toy/origin.json").read_text())["test.svm"]["from"] == str(mirror)
    before, after = (np.load(folder / "resources/toy/test.npz")["X"] for folder in (finished, work))
    assert np.array_equal(np.roll(before, 1, axis=0), after)
    for place in (mirror, "/nowhere", "http://127.0.0.1:9"):
        again = snakemake(work, config, "resources/toy/test.npz", "--dry-run", "--config", f"mirror={place}")
        assert "Nothing to be done" in again


@pytest.mark.slow
def test_as_a_module_of_another_workflow(finished, config, tmp_path):
    """Results are the same in a folder of their own, and the other workflow's commands and config stay its own."""
    (tmp_path / "Snakefile").write_text(OUTER)
    outer = {"drcrm": yaml.safe_load(config.read_text()), "own": 1}
    snakemake(tmp_path / "work", write_config(tmp_path, outer), "summary", project=tmp_path)
    inner = contents(tmp_path / "work/inner")
    assert "results/tiny/metrics.csv" in inner
    assert inner == {name: content for name, content in contents(finished).items() if name in inner}
    lines = len((finished / "results/tiny/metrics.csv").read_text().splitlines())
    given = " ".join(sorted(outer["drcrm"]))
    assert (tmp_path / "work/summary.txt").read_text() == f"{lines}\nno PYTHONPATH, no DRCRM_MIRROR\n{given}\n"
    again = snakemake(tmp_path / "work", tmp_path / "config.yaml", "summary", project=tmp_path)
    assert "Nothing to be done" in again


@pytest.mark.slow
def test_a_risk_of_ones_own_is_a_module_and_a_config(config, tmp_path):
    """Two files and no change of the project; at a share of 1 it is CIPS. A change of the module concerns it alone."""
    (tmp_path / "trimmed.py").write_text(OWN_RISK)
    given = yaml.safe_load(config.read_text())
    given["algorithms"] = {"mine": OWN_ALGORITHM}
    of_one = {"datasets": ["toy"], "seeds": 1, "replay_count": 1, "logging_fraction": 0.5}
    given["experiments"] = {"tiny": {**of_one, "selection": ["snips"], "algorithms": ["cips", "mine"]}}
    added = write_config(tmp_path, given)
    snakemake(tmp_path, added, "tiny")

    results = tmp_path / "results/tiny"
    assert not list(results.rglob("cost_model.npz"))  # which nothing here would use
    metrics, grids = (pd.read_csv(results / f"{name}.csv").set_index("algorithm") for name in ("metrics", "grids"))
    assert metrics.loc["mine", "hyperparameter"] in OWN_ALGORITHM["grid"]
    assert grids.loc["mine", "hyperparameter"].tolist() == OWN_ALGORITHM["grid"]
    of_mine = grids.loc["mine"].set_index("hyperparameter")["expected_loss"]
    assert of_mine[1.0] == pytest.approx(grids.loc["cips", "expected_loss"], rel=1e-3)
    assert of_mine[0.5] != pytest.approx(of_mine[1.0], rel=1e-3)
    assert "| My risk |" in (results / "tables/expected_loss.md").read_text()
    assert "#123456" in (results / "figures/grid_toy.svg").read_text()

    assert "Nothing to be done" in snakemake(tmp_path, added, "tiny", "--dry-run")
    (tmp_path / "trimmed.py").write_text(OWN_RISK + "# changed\n")
    output = snakemake(tmp_path, added, "tiny", "--dry-run")
    assert jobs(output)["fit"] == 1
    assert re.findall(r"^Job \d+: (.*)\nReason: .*trimmed\.py", output, flags=re.MULTILINE) == [
        "mine on toy, seed 0, replay count 1"
    ]


@pytest.mark.slow
def test_a_file_of_one_class_a_row_is_a_config_entry(tmp_path):
    """Ids that are no range, peers among the algorithms, seeds by data set, a softer π0 and clicks."""
    rng, slopes = np.random.default_rng(3), np.array([[2, -1, 0], [0, 2, -1], [-1, 0, 2]])
    for name, n in (("train.svm", 120), ("test.svm", 40)):
        X = rng.normal(size=(n, 3))
        ids = np.array([2, 9, 4])[(X @ slopes + rng.gumbel(size=(n, 3))).argmax(axis=1)]
        rows = (" ".join(f"{k}:{v:.4f}" for k, v in enumerate(x, 1)) for x in X)
        (tmp_path / name).write_text("".join(f"{a}.0 {row}\n" for a, row in zip(ids, rows, strict=True)))
    files = {"train": ["train.svm"], "test": ["test.svm"], "features": 3, "scale": "standard"}
    tiny = {
        "datasets": ["mine"],
        "seeds": {"mine": 1},
        "logging_fraction": 0.2,
        "logging_c": 1,
        "logging_sharpness": 0.5,
        "click_rates": [0.9, 0.1],
        "selection": ["snips", "dr_bound"],
        "algorithms": ["cips", "poem", "kl_dro_dr", "rewarded_rows", "importance_weighted_trees"],
    }
    given = {
        "mirror": str(tmp_path),
        "datasets": {"mine": {**files, "labels": [2, 4, 9], "actions": "single"}},
        "experiments": {"tiny": tiny},
    }
    snakemake(tmp_path, write_config(tmp_path, given), "results/tiny/metrics.csv", "results/tiny/grids.csv")
    metrics = pd.read_csv(tmp_path / "results/tiny/metrics.csv")
    assert sorted(set(metrics["algorithm"])) == sorted(["logging", *tiny["algorithms"], "skyline"])
    assert metrics[["expected_loss", "greedy_loss"]].stack().between(0, 1).all()
    mean = metrics.set_index(["algorithm", "selection"])["expected_loss"].xs("snips", level="selection")
    assert mean["skyline"] < mean["logging"]
    peers = metrics[metrics["algorithm"].isin(["rewarded_rows", "importance_weighted_trees"])]
    assert peers[["score", "hyperparameter", "bound"]].isna().all(axis=None)
    again = snakemake(tmp_path, write_config(tmp_path, given), "-n", "results/tiny/metrics.csv")
    assert not jobs(again)
    tiny["click_rates"] = [1, 0]
    reruns = jobs(snakemake(tmp_path, write_config(tmp_path, given), "-n", "results/tiny/metrics.csv"))
    assert reruns == {"replay": 1, "cost_model": 1, "fit": 3, "classify": 2, "evaluate": 1, "collect": 1}


@pytest.mark.slow
def test_deleted_files_come_back_the_same(finished, config, tmp_path_factory):
    work = copied(finished, tmp_path_factory.mktemp("deleted"))
    before = contents(work)
    names = ["split.npz", "logging.npz", "skyline.npz", "replay2/log.npz", "replay2/cost_model.npz"]
    names += ["replay2/my_dro.npz", "replay2/my_robust.npz", "replay2/metrics.csv", "replay2/grids.csv"]
    lost = [f"results/tiny/runs/toy/seed1/{name}" for name in names]
    lost += ["resources/toy/raw/train.svm", "resources/toy/train.npz"]

    # What nothing needs is not missed …
    remove(work, lost)
    assert "Nothing to be done" in snakemake(work, config, "tiny")
    assert contents(work) == {name: content for name, content in before.items() if name not in lost}
    # … and comes back when it is asked for, here with the download it is made from …
    snakemake(work, config, "resources/toy/train.npz")
    # … or when a result needs it, this one alone. Other runs stay, as the data they come from are what they were.
    tables = "results/tiny/tables/expected_loss.csv"
    remove(work, [tables, "results/tiny/figures/replay_count_toy.svg"])
    assert jobs(snakemake(work, config, "tiny")) == {"tables": 1, "figure": 1, "tiny": 1}
    remove(work, ["results/tiny/metrics.csv", "results/tiny/grids.csv"])
    of_seed = {"split": 1, "log_crf": 1, "skyline": 1, "replay": 1, "cost_model": 1, "fit": 4, "evaluate": 1}
    assert jobs(snakemake(work, config, tables, "results/tiny/grids.csv")) == {**of_seed, "collect": 2, "tables": 1}
    assert contents(work) == before


def test_a_run_says_in_a_line_a_job_what_it_does_and_at_the_end_where_its_results_are(finished, config):
    """What Snakemake says beside is in its log file. Without --cores it takes them all."""
    lines = (finished / "said").read_text().splitlines()
    [planned] = [line for line in lines if re.fullmatch(r"\d+ jobs: .*1 tables, .*1 tiny", line)]
    count = int(planned.partition(" ")[0])
    assert [line for line in lines if re.fullmatch(rf"{count} of {count}  \d+:\d\d  all of tiny", line)]
    assert [line for line in lines if re.match(r"CIPS +\S+ ± ", line)]
    [last] = [line for line in lines if line.startswith("Tables and figures: results/tiny. Report: make report EXP")]
    assert last.endswith(f"EXPERIMENT=tiny CONFIG={Path(os.path.relpath(config, finished))}")
    assert len(lines) < count + 28
    log = min((finished / ".snakemake/log").glob("*.log")).read_text()
    assert "Job stats:" in log
    assert "Reason: " in log


@pytest.mark.slow
def test_a_data_set_that_fails_stops_no_other(config, tmp_path):
    """Here one whose training part is one context, repeated; a damaged file is called so."""
    (tmp_path / "same.svm").write_text("0,1 1:1 2:2\n" * 40)
    for name in ("train.svm", "test.svm"):
        (tmp_path / name).write_bytes((config.parent / name).read_bytes())
    given = yaml.safe_load(config.read_text())
    given["datasets"]["same"] = {**TOY, "train": ["same.svm"], "drop_repeats": True}
    experiment = {"datasets": ["same", "toy"], "seeds": 1, "logging_fraction": 0.5, "algorithms": ["cips"]}
    given |= {"mirror": str(tmp_path), "experiments": {"tiny": experiment}}
    output = snakemake(tmp_path, write_config(tmp_path, given), "tiny", "--cores=1", fails=True)
    assert "drcrm split: resources/same/train.npz: 1 contexts" in output
    assert (tmp_path / "results/tiny/runs/toy/seed0/replay4/metrics.csv").exists()


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        pytest.param(
            "experiments.tiny.sedes",
            2,
            "config: experiments.tiny.sedes: unknown key; did you mean 'seeds'?",
            marks=pytest.mark.slow,
        ),
        ("datasets.toy.train", ["trian.svm"], "drcrm fetch: trian.svm: could not be fetched: "),
    ],
)
def test_a_fault_in_the_config_is_one_message(config, tmp_path, key, value, message):
    (tmp_path / "work").mkdir()
    changed = yaml.safe_load(config.read_text())
    *path, last = key.split(".")
    inner = changed
    for name in path:
        inner = inner[name]
    inner[last] = value
    output = snakemake(tmp_path / "work", write_config(tmp_path, changed), "tiny", fails=True)
    assert len([line for line in output.splitlines() if line.startswith(message)]) == 1
    assert "Traceback" not in output
    assert not list((tmp_path / "work").rglob("*.npz"))


def test_all_faults_in_the_config_are_said_at_once(config, tmp_path):
    changed = yaml.safe_load(config.read_text())
    changed["experiments"]["tiny"] |= {"sedes": 2, "datasets": ["toi"]}
    changed["algorithms"]["my_dro"]["options"] = {"estimate": "sips"}
    path = write_config(tmp_path, changed)
    path.write_text(path.read_text() + "run: [tiny]\n")
    lines = snakemake(tmp_path, path, "tiny", fails=True).splitlines()
    assert [line.partition(": ")[0] for line in lines if "config" in line] == [
        f"{path}, line {len(path.read_text().splitlines())}"
    ] + ["config"] * 3


def test_an_experiment_with_other_algorithms_says_what_it_leaves_out(config, tmp_path):
    other = "--config", "experiments={tiny: {algorithms: [cips, my_dro]}}"
    output = snakemake(tmp_path, config, "tiny", "--dry-run", *other)
    said = "not among its algorithms, and left out: poem, my_robust of its replay_curve, which shows all it has; "
    assert [line for line in output.splitlines() if line.startswith("drcrm: ")] == [
        f"drcrm: tiny: {said}my_robust of its ablation"
    ]
    assert jobs(output)["fit"] == 7  # two algorithms in three runs, and one of them from its other start


@pytest.mark.slow
def test_an_old_report_does_not_stay_beside_what_is_made_anew(finished, config, tmp_path):
    work = copied(finished, tmp_path)
    (report := work / "results/tiny/report.html").write_text("old")
    snakemake(work, config, "tiny")
    assert report.exists()
    remove(work, ["results/tiny/metrics.csv"])
    assert "Tables and figures" not in snakemake(work, config, "results/tiny/metrics.csv")
    assert not report.exists()


# Of what comes after them the reason is that they are updated.
CHANGED = {
    "optimization/objective.py": {"fit"},
    "policies/exponential.py": {"split"},
    "cost_models/ridge_model.py": {"cost_model"},
    "experiments/simulation/losses.py": {"log_crf", "skyline"},
    "experiments/datasets/source_formats.py": {"fetch"},
    "reports/tables/result_tables.py": {"tables", "overview"},
    "reports/figures/experiment_figures.py": {"figure", "overview"},
}


@pytest.mark.parametrize("module", [pytest.param(each, marks=pytest.mark.slow) for each in CHANGED])
def test_a_change_of_code_reruns_the_rules_that_use_it(finished, config, tmp_path, module):
    """The change of a comment starts the first rules that use it; of others those alone whose input then changes.

    Project and run lie under another root, the one as far from the other as they were.
    """
    project, work = (tmp_path / path.relative_to("/") for path in (PROJECT, finished))
    copied(finished, work)
    with open(copied_code(project) / "src/drcrm" / module, "a") as stream:
        stream.write("# changed\n")
    output = snakemake(work, config, "tiny", "--dry-run", project=project)
    plans = re.findall(r"^Job \d+: (\w+).*\nReason: (.*)", output, flags=re.MULTILINE)
    called = {"logging": "log_crf", "metrics": "collect", "grids": "collect"}
    called["cost"] = "cost_model"
    called |= dict.fromkeys(FITTED, "fit") | dict.fromkeys(FIGURES, "figure")
    reasons = [(called.get(word, word), reason) for word, reason in plans]
    rules = CHANGED[module]
    assert {rule for rule, reason in reasons if f"src/drcrm/{module}" in reason} == rules
    assert all("Input files updated by another job" in reason for rule, reason in reasons if rule not in rules)
    if module.startswith("reports/"):
        assert set(jobs(output)) == {*rules, "tiny"}


def test_the_unit_of_poems_grid_concerns_poem_alone(finished, config, tmp_path):
    changed = yaml.safe_load(config.read_text())
    changed["experiments"]["tiny"]["variance_penalty_scale"] = "unit"
    planned = jobs(snakemake(finished, write_config(tmp_path, changed), "tiny", "--dry-run"))
    assert planned["fit"] == len(RUNS)
    assert not {"fetch", "split", "log_crf", "skyline", "replay"} & set(planned)


def test_a_page_of_the_report_is_one_table_with_a_caption(finished):
    for page in (finished / "results/tiny/pages").glob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert text.count("<table>") == 1
        assert re.search(r"<p>[^<]{60,}</p>\n<table>", text)
        assert not re.search(r">[^<]*(?<!\w)-\d[^<]*</td>", text)  # but minus signs
        if "loss by" in page.name or "in detail" in page.name:
            assert "2 seeds have too little power" in text


def test_the_theory_has_a_table_for_each_lemma_and_its_figures(config, tmp_path):
    """Made for a data set of the configuration, with samples and a seed from there; of nothing but its contexts."""
    changed = yaml.safe_load(config.read_text())
    changed["theory"] = {"datasets": ["toy"], "repetitions": 3, "seed": 7}
    asked = write_config(tmp_path, changed)
    output = snakemake(tmp_path, asked, "theory", "--dry-run", "--printshellcmds")
    assert jobs(output) == {"fetch": 1, "theory": 1, "theory_table": 6, "provenance": 1, "theory_figure": 8}
    assert output.count("--repetitions 3 --dataset toy --seed 7 --output results/theory/") == 6


@pytest.mark.slow
def test_a_figure_of_the_theory_needs_its_table_alone(config, tmp_path):
    changed = yaml.safe_load(config.read_text())
    changed["theory"] = {"datasets": ["toy"], "repetitions": 3, "seed": 7}
    snakemake(tmp_path, write_config(tmp_path, changed), "results/theory/figures/weights_toy.svg")
    assert {path.name for path in (tmp_path / "results/theory").glob("*.csv")} == {"weights_toy.csv"}
    assert b"KL-CRM" in (tmp_path / "results/theory/figures/weights_toy.svg").read_bytes()


def test_report_is_one_page_with_tables_and_figures(finished, config, tmp_path_factory):
    """It opens on what was run and found by the experiment that is asked for, whatever a bare snakemake builds."""
    work = copied(finished, tmp_path_factory.mktemp("report"))
    snakemake(work, config, "tiny", "--report", "results/tiny/report.html", "--config", "run=[demo]")
    page = (work / "results/tiny/report.html").read_text(encoding="utf-8")
    assert not re.findall(r"<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)\s*=\s*[\"']?(?!data:|#)[\w./]", page)
    for name in [name for name in RESULTS if name.endswith((".html", ".svg"))]:
        assert base64.b64encode((work / "results/tiny" / name).read_bytes()).decode() in page
    text = re.sub(r"\\n|\s+", " ", html.unescape(page))
    assert "algorithms learned a policy from the log of " in text
    assert "The log contains the actions of " in text
    assert "of the way from CIPS to full supervision" in text
    assert "2 seeds at replay count 2, hyper-parameters chosen by SNIPS, IPS" in text
    labels = set(re.findall(r"\"table\": \"([^\"]*)\"", page))
    assert labels == {f"{number:02} {title}" for number, title in enumerate(PAGES, start=1)}
    titles = sorted(set(re.findall(r"\"figure\": \"(\d [^\"]*)\"", page)))
    assert [title.partition(" ")[2] for title in titles] == [FIGURE_TITLES[name] for name in FIGURES]
    heads = re.findall(r"data:text/html;charset=utf8;filename=([^;]*);base64,", page)
    assert len(heads) == len(PAGES) == page.count("data:text/html")
    assert not [head for head in heads if re.search(r"[^\w. -]", head)]
    assert "PYTHONPATH" not in page
    assert "Post-decision surprise on toy: the held-out score (SNIPS, IPS) by which a policy was chosen" in text
    assert "Expected Hamming loss on toy against the replay count" in text


@pytest.mark.slow
def test_a_log_of_ones_own_is_a_target(tmp_path):
    """The same policy and answer as by hand; nothing runs again, but where the mapping or the log changes."""
    decisions(3000).to_csv(tmp_path / "log.csv", index=False)
    entry = {"estimator": "KLDRO", "parameter": "radius", "grid": [0.01]}
    own = {"path": "log.csv", **MAPPING, "algorithm": "mine"}
    config = {"logs": {"shop": own}, "algorithms": {"mine": {**entry, "options": {"estimate": "dr", "start": "model"}}}}
    output = snakemake(tmp_path, write_config(tmp_path, config), "shop")
    assert "Page: results/shop/report.html" in output
    answer = json.loads((tmp_path / "results/shop/answer.json").read_text())
    assert [each["name"] for each in answer["candidates"]] == ["mine"]
    assert answer["verdict"]["verdict"] == "better"
    assert "<title>" in (tmp_path / "results/shop/report.html").read_text()
    assert "Nothing to be done" in snakemake(tmp_path, write_config(tmp_path, config), "shop")
    own["split"] = "last 30 %"
    assert jobs(snakemake(tmp_path, write_config(tmp_path, config), "shop", "--dry-run"))["learn"] == 1
    own["reward"] = "clicks"
    output = snakemake(tmp_path, write_config(tmp_path, config), "shop", fails=True)
    assert "drcrm learn: " in output
    assert "'clicks'" in output
    assert not (tmp_path / "results/shop/policy.npz").exists()
