"""The demo through the profile on a real Slurm: what it asks for, where it runs, and that it is the demo."""

from __future__ import annotations

from collections import Counter

import pytest
from needs import asked
from runs import PROJECT, results, run_here

EXPERIMENT = "demo"


@pytest.fixture(scope="session")
def here():
    """The demo's results in the project's folder, made or completed without Slurm."""
    run_here(PROJECT, EXPERIMENT)
    return results(PROJECT, EXPERIMENT)


def test_the_demo_on_slurm_is_the_demo(here, cluster, submit, tmp_path):
    said = submit(tmp_path, EXPERIMENT).end()
    assert results(tmp_path, EXPERIMENT) == here
    assert {"metrics.csv", "grids.csv", "tables/expected_loss.csv"} <= set(here)

    # Each run is a job, and so are the tables and figures: one core, the memory of the largest step, the time of all.
    steps = asked(EXPERIMENT)
    by_job = steps.assign(run=steps["run"].mask(~steps.index.str.startswith("runs/"), "")).groupby("run")
    wanted = Counter(zip(by_job["asked_mb"].max(), by_job["asked_min"].sum(), strict=True))
    record = cluster.record().values()
    assert Counter((job["megabytes"], job["minutes"]) for job in record) == wanted
    assert {(job["state"], job["cpus"]) for job in record} == {("COMPLETED", 1)}
    assert len(record) == 6
    assert said.count("has been submitted with SLURM jobid") == len(record)
    assert "localrule fetch" in said or "fetch digits" in said

    # No accounting database answers here: the workflow has said so, and asked squeue.
    assert "no accounting database" in said
