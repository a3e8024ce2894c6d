"""The workflow on what users add: a risk, a multiclass data set, and their own log."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from fixtures.pipeline import TOY, jobs, snakemake, write_config, write_data
from fixtures.user_logs import MAPPING, decisions

OWN_RISK = """
import numpy as np
from drcrm.risks.base import Risk


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


OWN_LOGGING = """
import numpy as np


class Best:
    def __call__(self, X, scores):
        return 0.8 * np.eye(scores.shape[1])[scores.argmax(axis=1)] + 0.2 / scores.shape[1]
"""


@pytest.mark.slow
def test_a_user_compares_on_csv_and_npz_files_with_an_own_logging_policy(tmp_path):
    """A change of the policy's module draws the logs again."""
    rng = np.random.default_rng(0)
    X, weights = rng.normal(size=(80, 3)), rng.normal(size=(3, 3))
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(
        kind=np.array(["x", "y", "z"])[(X @ weights).argmax(axis=1)]
    )
    np.savez(tmp_path / "arrays.npz", X=X, labels=(X @ weights > 0).astype(int))
    frame.to_csv(tmp_path / "table.csv", index=False)
    (tmp_path / "own_logging.py").write_text(OWN_LOGGING)
    table = {"path": "table.csv", "label_columns": ["kind"], "actions": "single"}
    experiment = {"datasets": ["table", "arrays"], "seeds": 1, "replay_count": 1, "logging_fraction": 0.5}
    experiment |= {"algorithms": ["cips", "kl_dro"], "logging": "own_logging:Best", "selection": ["snips"]}
    entries = {"datasets": {"table": table, "arrays": {"path": "arrays.npz"}}, "experiments": {"mine": experiment}}
    config = write_config(tmp_path, entries)
    snakemake(tmp_path, config, "results/mine/metrics.csv")
    metrics = pd.read_csv(tmp_path / "results/mine/metrics.csv").set_index(["dataset", "algorithm"])
    assert set(metrics.index) == {(d, a) for d in ("table", "arrays") for a in ("logging", "cips", "kl_dro", "skyline")}
    assert metrics["expected_loss"].notna().all()
    with np.load(tmp_path / "results/mine/runs/table/seed0/replay1/log.npz") as log:
        assert np.unique(log["propensity"]).round(9).tolist() == [round(0.2 / 3, 9), round(0.8 + 0.2 / 3, 9)]
    (tmp_path / "own_logging.py").write_text(OWN_LOGGING.replace("0.8", "0.7").replace("0.2", "0.3"))
    planned = jobs(snakemake(tmp_path, config, "--dry-run", "results/mine/metrics.csv"))
    assert planned["log_crf"] == 2
    assert "fetch" not in planned


@pytest.mark.slow
def test_a_user_adds_a_risk_by_a_module_and_a_config_entry(tmp_path):
    """With a share of 1 it is CIPS. A change of the module only runs its fit again."""
    write_data(tmp_path)
    (tmp_path / "trimmed.py").write_text(OWN_RISK)
    look = {"label": "My risk", "colour": "#123456", "marker": "d"}
    mine = {"estimator": "trimmed:UpperMean", "parameter": "share", "grid": [0.5, 1.0], **look}
    experiment = {"datasets": ["toy"], "seeds": 1, "replay_count": 1, "logging_fraction": 0.5}
    experiment |= {"selection": ["snips"], "algorithms": ["cips", "mine"]}
    content = {"mirror": str(tmp_path), "datasets": {"toy": TOY}, "algorithms": {"mine": mine}}
    content |= {"experiments": {"tiny": experiment}}
    path, results = write_config(tmp_path, content), tmp_path / "results/tiny"
    targets = [f"results/tiny/{name}" for name in ("grids.csv", "tables/expected_loss.md", "figures/grid_toy.svg")]
    snakemake(tmp_path, path, *targets)
    assert not list(results.rglob("cost_model.npz"))  # nothing uses one
    grids = pd.read_csv(results / "grids.csv").set_index("algorithm")
    losses = grids.loc["mine"].set_index("hyperparameter")["expected_loss"]
    assert losses[1.0] == pytest.approx(grids.loc["cips", "expected_loss"], rel=1e-3)
    assert losses[0.5] != pytest.approx(losses[1.0], rel=1e-3)
    assert "| My risk |" in (results / "tables/expected_loss.md").read_text()
    assert "#123456" in (results / "figures/grid_toy.svg").read_text()
    assert "Nothing to be done" in snakemake(tmp_path, path, *targets, "--dry-run")
    (tmp_path / "trimmed.py").write_text(OWN_RISK + "# changed\n")
    output = snakemake(tmp_path, path, *targets, "--dry-run")
    assert jobs(output)["fit"] == 1
    reasons = re.findall(r"^Job \d+: (.*)\nReason: .*trimmed\.py", output, flags=re.MULTILINE)
    assert reasons == ["mine on toy, seed 0, replay count 1"]


@pytest.mark.slow
def test_a_user_adds_a_multiclass_file_by_a_config_entry(tmp_path):
    """The experiment has non-consecutive ids, classifiers, seeds by data set, a flatter π0 and clicks."""
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
        "algorithms": ["cips", "rewarded_rows", "importance_weighted_trees"],
    }
    entry = {**files, "labels": [2, 4, 9], "actions": "single"}
    content = {"mirror": str(tmp_path), "run": ["tiny"], "datasets": {"mine": entry}, "experiments": {"tiny": tiny}}
    tables = "results/tiny/metrics.csv", "results/tiny/grids.csv"
    snakemake(tmp_path, write_config(tmp_path, content), *tables)
    metrics = pd.read_csv(tmp_path / tables[0])
    assert sorted(set(metrics["algorithm"])) == sorted(["logging", *tiny["algorithms"], "skyline"])
    assert metrics[["expected_loss", "greedy_loss"]].stack().between(0, 1).all()
    mean = metrics.set_index(["algorithm", "selection"])["expected_loss"].xs("snips", level="selection")
    assert mean["skyline"] < mean["logging"]
    tiny["click_rates"] = [1, 0]
    planned = jobs(snakemake(tmp_path, write_config(tmp_path, content), "-n", tables[0]))
    assert planned == {"replay": 1, "cost_model": 1, "fit": 1, "classify": 2, "evaluate": 1, "collect": 1}


@pytest.mark.slow
def test_the_report_on_a_users_log_is_a_target(tmp_path):
    """The log's job runs again if the mapping changes."""
    decisions(3000).to_csv(tmp_path / "log.csv", index=False)
    entry = {
        "estimator": "KLDRO",
        "parameter": "radius",
        "grid": [0.01],
        "options": {"estimate": "dr", "start": "model"},
    }
    shop = {"path": "log.csv", **MAPPING, "algorithm": "mine"}
    content = {"logs": {"shop": shop}, "algorithms": {"mine": entry}}
    snakemake(tmp_path, write_config(tmp_path, content), "shop")
    answer = json.loads((tmp_path / "results/shop/answer.json").read_text())
    assert [candidate["name"] for candidate in answer["candidates"]] == ["mine"]
    assert answer["verdict"]["verdict"] == "better"
    assert "<title>" in (tmp_path / "results/shop/report.html").read_text()
    assert "Nothing to be done" in snakemake(tmp_path, write_config(tmp_path, content), "shop")
    shop["split"] = "last 30 %"
    assert jobs(snakemake(tmp_path, write_config(tmp_path, content), "shop", "--dry-run"))["learn"] == 1
    shop["reward"] = "clicks"
    output = snakemake(tmp_path, write_config(tmp_path, content), "shop", fails=True)
    assert "drcrm learn: " in output
    assert "'clicks'" in output
    assert not (tmp_path / "results/shop/policy.npz").exists()
