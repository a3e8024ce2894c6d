"""What goes wrong on a cluster: a job too long or too large, one cancelled, a node lost, a run interrupted.

The same command then ends with the results of a run without Slurm.
"""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest
import yaml
from runs import results, run_here

FAULTY = """
import os
import time
from pathlib import Path

import numpy as np
from drcrm.risks import MeanRisk

ON_SLURM = "SLURM_JOB_ID" in os.environ


class Large(MeanRisk):
    \"\"\"The mean, which takes some megabytes.\"\"\"

    def __init__(self, megabytes):
        self.megabytes, self.taken = megabytes, None

    def evaluate(self, *given):
        if ON_SLURM and self.taken is None and Path("large").exists():
            self.taken = np.ones(int(self.megabytes * 2**17))
            time.sleep(5)
        return super().evaluate(*given)


class Slow(MeanRisk):
    \"\"\"The mean, which the first time takes some seconds.\"\"\"

    def __init__(self, seconds):
        self.seconds = seconds

    def evaluate(self, *given):
        if ON_SLURM and Path("slow").exists():
            Path("slow").unlink()
            time.sleep(self.seconds)
        return super().evaluate(*given)
"""
LOOK = {"colour": "#123456", "marker": "d"}
CONFIG = {
    "algorithms": {
        "large": {"estimator": "faulty:Large", "parameter": "megabytes", "grid": [1500.0], "label": "large", **LOOK},
        "slow": {"estimator": "faulty:Slow", "parameter": "seconds", "grid": [600.0], "label": "slow", **LOOK},
    },
    "experiments": {"faults": {"datasets": ["digits"], "seeds": 1, "algorithms": ["cips", "large", "slow"]}},
}
TARGETS = ["results/faults/grids.csv", "results/faults/tables/expected_loss.csv"]


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """What the same leaves without Slurm."""
    work = prepared(tmp_path_factory.mktemp("here"))
    run_here(work, *TARGETS, "--configfile=config.yaml")
    return results(work, "faults")


@pytest.fixture
def run(submit, tmp_path):
    """Start the experiment in a folder that is ready for it."""
    prepared(tmp_path)
    return lambda *arguments: submit(tmp_path, *(arguments or TARGETS), "--configfile=config.yaml")


def test_a_job_over_its_memory_is_tried_again_with_more(here, cluster, run, tmp_path):
    (tmp_path / "large").touch()
    before = set(cluster.record())
    run().end()
    first, again, *_ = new_jobs(cluster, before)
    assert (first["state"], again["state"]) == ("FAILED", "COMPLETED")
    assert again["megabytes"] == pytest.approx(2 * first["megabytes"], abs=2)
    assert results(tmp_path, "faults") == here


def test_a_job_over_its_time_is_tried_again_with_more(here, cluster, run, tmp_path):
    fit = "results/faults/runs/digits/seed0/replay4/slow.npz"
    run("results/faults/runs/digits/seed0/replay4/log.npz").end()
    (tmp_path / "slow").touch()
    before = set(cluster.record())
    run(fit, "--set-resources", "fit:runtime=attempt").end()
    assert [(job["state"], job["minutes"]) for job in new_jobs(cluster, before)] == [("TIMEOUT", 1), ("COMPLETED", 2)]
    run().end()
    assert results(tmp_path, "faults") == here


def test_a_cancelled_job_is_submitted_again(here, cluster, run, tmp_path):
    before = set(cluster.record())
    started = run()
    cluster.ask("scancel", await_step(cluster, tmp_path))
    started.end()
    assert sorted(job["state"] for job in new_jobs(cluster, before))[:2] == ["CANCELLED", "COMPLETED"]
    assert results(tmp_path, "faults") == here


def test_jobs_of_a_node_that_dies_are_run_again(here, cluster, run, tmp_path):
    started = run()
    await_step(cluster, tmp_path)
    cluster.kill_node()
    time.sleep(2)
    cluster.start_node()
    started.end()
    assert results(tmp_path, "faults") == here


def test_an_interrupted_run_cancels_its_jobs_and_resumes(here, cluster, run, tmp_path):
    started = run()
    await_step(cluster, tmp_path)
    started.process.send_signal(signal.SIGINT)
    assert started.process.wait(timeout=120) != 0
    assert cluster.ask("squeue", "-h", "--states=RUNNING,PENDING") == ""
    run().end()
    assert results(tmp_path, "faults") == here


def prepared(work: Path) -> Path:
    """A working folder with the experiment's configuration and the module of its risks."""
    (work / "config.yaml").write_text(yaml.safe_dump(CONFIG))
    (work / "faulty.py").write_text(FAULTY)
    return work


def await_step(cluster, work: Path) -> str:
    """Wait until a first step has left its file, and return the number of a running job."""
    deadline = time.monotonic() + 300
    while not list(work.rglob("split.npz")):
        assert time.monotonic() < deadline, "no job has begun"
        time.sleep(0.2)
    return cluster.ask("squeue", "-h", "--states=RUNNING", "-o", "%i").split()[0]


def new_jobs(cluster, before: set[str]) -> list[dict]:
    """Slurm's record of the jobs that have ended since, the first submitted first."""
    record = cluster.record()
    return [record[number] for number in sorted(set(record) - before, key=int)]
