"""What rules ask for on a cluster, from dry runs, beside what was used: docs/cluster.md has the figures."""

from __future__ import annotations

import math
from pathlib import Path

import pandas as pd
import pytest
import yaml
from needs import AROUND_MB, AROUND_S, LEAST, MOST, asked, cost, needs

PROJECT = Path(__file__).resolve().parents[2]
ASKED = ["asked_mb", "asked_min"]


@pytest.fixture(scope="module")
def sample() -> pd.DataFrame:
    return asked("sample")


@pytest.fixture(scope="module")
def measured() -> pd.DataFrame:
    """The table of docs/cluster.md: the most that a job of each step used."""
    lines = (PROJECT / "docs/cluster.md").read_text().split("<!-- needs -->")[1].split("<!-- end -->")[0].split("\n")
    head, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    table = pd.DataFrame(rows, columns=head).set_index(["data", "step"])
    return table[["used_mb", "cpu_s"]].astype(float)


def test_steps_ask_for_some_more_than_they_use(sample, measured):
    """Memory within its bounds everywhere, time where it is more than the least; in the runs of the tables."""
    assert set(sample["data"]) - {""} <= {data for data, _ in measured.index}
    replays = sample.index.str.extract(r"replay(\d+)", expand=False).fillna("4")
    most = sample[replays == "4"].groupby(["data", "step"])[ASKED].max().join(measured, how="inner")
    memory = most["asked_mb"] / (most["used_mb"] + AROUND_MB)
    assert memory.between(LEAST, MOST).all()
    time = 60 * most["asked_min"] / (most["cpu_s"] + AROUND_S)
    assert (time >= LEAST).all()
    of_run = ~most.index.isin(["collect", "provenance", "tables", "figure"], level="step")
    long = time[of_run & (most["asked_min"] > 1)]
    assert len(long)
    assert (long <= MOST).all()


def test_all_grows_with_the_attempt(sample):
    again = asked("sample", attempt=3)
    assert (again["asked_min"] == 3 * sample["asked_min"]).all()
    assert ((again["asked_mb"] - 3 * sample["asked_mb"]).abs() <= 2).all()  # each is rounded up


def test_memory_is_known_before_any_file_is(sample):
    """Of every step of a run, and more where there are more rows, features, labels or passes."""
    assert sample[ASKED].notna().all(axis=None)
    of_yeast = sample[(sample["data"] == "yeast") & (sample["step"] == "fit")]
    by_count = of_yeast.groupby(of_yeast.index.str.extract(r"replay(\d+)", expand=False).astype(int))["asked_mb"].max()
    assert by_count.is_monotonic_increasing
    assert by_count[256] > by_count[1]


def test_a_data_set_without_rows_has_a_default(tmp_path):
    given = {
        "datasets": {"mine": {"train": ["train.svm"], "test": ["test.svm"], "features": 50, "labels": 3}},
        "experiments": {"quick": {"datasets": ["mine"], "seeds": 1, "algorithms": ["cips"]}},
    }
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(given))
    steps = asked("quick", [tmp_path / "mine.yaml"])
    assert steps["asked_mb"].between(300, 1000).all()
    assert steps["asked_min"].between(1, 5).all()


def test_the_profile_submits_runs_on_one_core_and_fetches_where_it_is_started(sample):
    profile = yaml.safe_load((PROJECT / "profiles/slurm/config.yaml").read_text())
    assert profile["cores"] == 1
    assert set(sample["step"]) | {"cost_model", "classify", "overview"} == set(profile["groups"])
    assert set(profile["groups"].values()) == set(profile["group-components"]) == {"run", "results"}
    assert "localrule: True" in (PROJECT / "workflow/rules/data.smk").read_text()


def test_a_table_of_needs_and_a_cost():
    """Two runs of two steps and a table; what has no measurement counts as its like."""
    names = ["runs/a/seed0/benchmarks/split.tsv", "runs/a/seed0/replay4/benchmarks/cips.tsv"]
    names += ["runs/a/seed1/benchmarks/split.tsv", "runs/a/seed1/replay4/benchmarks/cips.tsv", "benchmarks/tables.tsv"]
    jobs = pd.DataFrame(
        {
            "step": ["split", "fit", "split", "fit", "tables"],
            "data": ["a", "a", "a", "a", ""],
            "run": ["0", "0", "1", "1", ""],
            "asked_mb": [450.0, 900, 450, 900, 450],
            "asked_min": [1.0, 40, 1, 40, 1],
            "used_mb": [10, 1000, math.nan, math.nan, 50],
            "cpu_s": [0.0, 1196, math.nan, math.nan, 0],
        },
        index=names,
    )
    table = needs(jobs)
    assert table["mb_note"].tolist() == ["", "WRONG", ""]
    assert table["min_note"].tolist() == ["floor", "", "floor"]
    assert table.loc[("a", "fit"), "min_ratio"] == pytest.approx(2)
    total = cost(jobs).loc["all"]
    assert total[["jobs", "steps", "measured"]].tolist() == [3, 5, 3]
    assert total["core_hours"] == pytest.approx((2 * (1200 + 4) + 4) / 3600)
    assert total["longest_h"] == pytest.approx((1200 + 4 + 4) / 3600)
    assert total["asked_h"] == pytest.approx(41 / 60)
