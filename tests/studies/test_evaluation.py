"""Experiments of the kind ``evaluation``: their measures, their configuration, and the study of the page."""

import base64
import html
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from fixtures.pipeline import snakemake

from drcrm.errors import InputError
from drcrm.paper.config import project_config
from drcrm.paper.runs import module_files, options_of_entry
from drcrm.paper.steps import results as steps

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/user-guide/estimators.md").read_text(encoding="utf-8")
OWN = "my_simulator.py", "my_logging.py", "my_estimators.py"


@pytest.fixture
def page_files(tmp_path, monkeypatch):
    """Write the files of the page into the working folder, and return the folder."""
    blocks = re.findall(r"```py\n(.*?)```", PAGE, re.DOTALL)
    by_class = {
        name: next(block for block in blocks if f"class {name}" in block) for name in ("Prices", "Ranks", "Median")
    }
    median = "import numpy as np\n\n\n" + by_class.pop("Median").partition("\n\n\n")[0]
    for name, text in zip(OWN, (*by_class.values(), median), strict=True):
        assert len(text.splitlines()) <= 25
        (tmp_path / name).write_text(text)
    [experiment] = re.findall(r"```yaml\n(experiments:.*?)```", PAGE, re.DOTALL)
    assert len(experiment.splitlines()) <= 25
    (tmp_path / "mine.yaml").write_text(experiment)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def options_of(config):
    return json.loads(json.dumps(options_of_entry(config, config["evaluations"]["mine"])))


def test_the_measures_are_those_of_loops_over_the_logs(study):
    rng, covers = np.random.default_rng(0), [1.0, 0.0, 1.0]
    errors = {"a": rng.normal(size=3), "b": rng.normal(size=3)}
    setting = {"simulator": "s", "logging": "l", "policy": "p", "n": 10}
    rows = [
        {**setting, "estimator": name, "repetition": i, "error": error[i], "covers": covers[i], "width": 2.0 + i}
        | {"truth": -1.0, "truth_error": 0.3}
        for i in range(3)
        for name, error in errors.items()
    ]
    table = study("evaluation").tabulate(pd.DataFrame(rows)).set_index("estimator")
    mse = {name: np.mean(error**2) for name, error in errors.items()}
    best = min(mse, key=mse.get)
    for name, error in errors.items():
        paired = error**2 / mse[name] - errors[best] ** 2 / mse[best]
        relative = np.sqrt(mse[name] / mse[best])
        expected = {
            "bias": error.mean(),
            "bias_error": np.sqrt(np.var(error, ddof=1) / 3 + 0.09),
            "variance": np.var(error, ddof=1),
            "mse": mse[name],
            "mse_error": np.std(error**2, ddof=1) / np.sqrt(3),
            "coverage": 2 / 3,
            "square_50": np.median(error**2),
            "square_90": np.sort(error**2)[1:] @ [0.2, 0.8],
            "width": 3,
            "relative": relative,
            "relative_error": relative / 2 * np.std(paired, ddof=1) / np.sqrt(3),
        }
        assert table.loc[name, list(expected)].to_dict() == pytest.approx(expected)
    assert table.loc[best, "relative"] == 1
    assert (table["logs"] == 3).all()


def test_three_files_of_the_page_give_a_table_and_figures(study, page_files):
    config = project_config(ROOT, [page_files / "mine.yaml"])
    assert "mine" not in config["experiments"]
    entry = config["evaluations"]["mine"]
    assert [path.name for path in module_files(entry)] == [*OWN]
    options = options_of(config) | {"sizes": [60, 120]}
    options["simulators"]["linear"]["linear"]["actions"] = 10
    evaluation = study("evaluation")
    rows = pd.DataFrame([row for number in range(2) for row in evaluation.measure(number, **options)])
    again = pd.DataFrame(evaluation.measure(1, **options))
    pd.testing.assert_frame_equal(rows[rows["repetition"] == 1].reset_index(drop=True), again)
    assert len(rows) == 2 * 2 * 2 * 2 * 3
    evaluation.tabulate(rows).to_csv("metrics.csv", index=False)
    files = {"metrics": "metrics.csv", "tables": [f"relative.{end}" for end in ("csv", "md", "tex", "html")]}
    steps.evaluation_tables(files, {"title": "mine"})
    lines = Path("relative.md").read_text().splitlines()
    assert "| prices | ranks | greedy | 60 |" in "\n".join(lines)
    assert sum("**1.00**" in line for line in lines) == 8
    assert pd.read_csv("relative.csv")[["ips", "dr", "median"]].min(axis=1).eq(1).all()
    for measure in ("rmse", "coverage", "distribution"):
        steps.evaluation_figure(
            {"metrics": "metrics.csv", "figures": [f"{measure}.svg"]}, {"measure": measure, "simulator": "prices"}
        )
        svg = Path(f"{measure}.svg").read_text()
        panels = ("prices: greedy, logged by ranks", "prices: softmax, logged by ranks", "median")
        assert all(text in svg for text in panels)


def test_weights_of_clusters_have_the_clusters_of_the_simulator(study):
    """Weights are at most 2. Those of actions would be 0 or 200, with errors of 0.2."""
    simulators = {"l": {"linear": {"actions": 200, "clusters": 2}}}
    measured = study("evaluation").measure(
        0, {"greedy": {"epsilon_greedy": {"epsilon": 0}}}, ["mips", "cluster_dr"], [2000], simulators
    )
    rows = pd.DataFrame(measured).set_index("estimator")
    assert rows["error"].abs().max() < 0.1
    assert rows["covers"].all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"estimators": ["ipw"]}, "evaluations.mine.estimators.ipw: estimator is 'ipw'"),
        ({"policies": {"p": {"softmax": {"heat": 1}}}}, "evaluations.mine.policies.p: policy"),
        ({"datasets": ["scene"]}, "evaluations.mine.datasets: 'scene' has label vectors"),
        ({"logging": []}, "evaluations.mine.logging"),
        ({"cost_model": "trees"}, "evaluations.mine.cost_model"),
    ],
)
def test_faults_are_found_before_anything_runs(tmp_path, changes, message):
    entry = {
        "kind": "evaluation",
        "simulators": ["linear"],
        "policies": ["uniform"],
        "estimators": ["ips"],
        "sizes": [9],
    }
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump({"experiments": {"mine": entry | changes}}))
    with pytest.raises(InputError) as error:
        project_config(ROOT, [path])
    assert message in str(error.value)


@pytest.mark.slow
def test_the_workflow_runs_the_study_of_the_page(page_files):
    path = page_files / "mine.yaml"
    path.write_text(path.read_text().replace("[300, 1000, 3000]", "[50]").replace("repetitions: 100", "repetitions: 2"))
    snakemake(page_files, path, "mine")
    metrics = pd.read_csv(page_files / "results/mine/metrics.csv")
    assert set(metrics["simulator"]) == {"prices", "linear"}
    for file in ("tables/relative.tex", "figures/rmse_prices.pdf", "pages/coverage.html", "provenance.json"):
        assert (page_files / "results/mine" / file).exists()
    snakemake(page_files, path, "mine", "--report", "results/mine/report.html", "--config", "run=[mine]")
    assert faults_of_report(page_files / "results/mine") == []


LABELS = (
    *("Relative errors", "Errors", "Coverage"),
    *("1 Error against rows", "2 Coverage against width", "3 Distribution of squared errors"),
)
CAPTIONS = {  # of tables and figures, by their measure
    "rmse": "Root mean squared error of each estimator by the number of rows",
    "relative": "divided by the least one of the setting",
    "coverage": "intervals that contain the true cost of the policy",
    "distribution": "Share of logs whose squared error is below a value",
}


def faults_of_report(folder):
    """Return which tables, figures and captions a report lacks."""
    report = (folder / "report.html").read_text(encoding="utf-8")
    text = re.sub(r"\\n|\s+", " ", html.unescape(report))
    files = [*(folder / "pages").glob("*.html"), *(folder / "figures").glob("*.svg")]
    assert len(files) == 3 + 3 * 2
    lacks = [path.name for path in files if base64.b64encode(path.read_bytes()).decode() not in report]
    lacks += [caption for caption in CAPTIONS.values() if caption not in text]
    return lacks + [label for label in LABELS if f'"{label}"' not in report]
