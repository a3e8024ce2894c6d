"""A smaller demo through the profile on a real Slurm: what it asks for, where it runs, and that it is the demo."""

from __future__ import annotations

from collections import Counter

import pytest
import yaml
from needs import asked
from runs import results, run_here

EXPERIMENT = "demo"
SMALLER = {"experiments": {EXPERIMENT: {"seeds": 2, "replay_curve": {"counts": [1, 4], "seeds": 1}}}}


@pytest.fixture
def smaller(tmp_path):
    """A configuration of the demo with fewer runs."""
    (tmp_path / "smaller.yaml").write_text(yaml.safe_dump(SMALLER))
    return tmp_path / "smaller.yaml"


def test_the_demo_on_slurm_is_the_demo(smaller, cluster, submit, tmp_path):
    run = submit(tmp_path / "slurm", EXPERIMENT, f"--configfile={smaller}")
    (tmp_path / "here").mkdir()
    run_here(tmp_path / "here", EXPERIMENT, f"--configfile={smaller}")
    here, said = results(tmp_path / "here", EXPERIMENT), run.end()
    assert results(tmp_path / "slurm", EXPERIMENT) == here
    assert {"metrics.csv", "grids.csv", "tables/expected_loss.csv"} <= set(here)

    # Each run is a job, and so are the tables and figures: one core, the memory of the largest step, the time of all.
    steps = asked(EXPERIMENT, [smaller])
    by_job = steps.assign(run=steps["run"].mask(~steps.index.str.startswith("runs/"), "")).groupby("run")
    wanted = Counter(zip(by_job["asked_mb"].max(), by_job["asked_min"].sum(), strict=True))
    record = cluster.record().values()
    assert Counter((job["megabytes"], job["minutes"]) for job in record) == wanted
    assert {(job["state"], job["cpus"]) for job in record} == {("COMPLETED", 1)}
    assert len(record) == 3
    assert said.count("has been submitted with SLURM jobid") == len(record)
    assert "localrule fetch" in said or "fetch digits" in said

    # No accounting database answers here: the workflow has said so, and asked squeue.
    assert "no accounting database" in said
