"""The workflow through the profile on a real Slurm cluster: a smaller demo, and faults of the cluster.

After a fault, the same command produces the results of a run without Slurm.
"""

import signal
import time
from pathlib import Path

import pytest
import yaml
from cluster import results, run_here

EXPERIMENT = "demo"
CURVE = {"counts": [1, 4], "seeds": 1}
ALGORITHMS = ["cips", "poem", "kl_dro_dr"]
SMALLER = {"experiments": {EXPERIMENT: {"seeds": 2, "algorithms": ALGORITHMS, "replay_curve": CURVE}}}


@pytest.fixture
def smaller(tmp_path):
    """A configuration of the demo with fewer runs."""
    (tmp_path / "smaller.yaml").write_text(yaml.safe_dump(SMALLER))
    return tmp_path / "smaller.yaml"


def test_the_demo_has_the_same_results_on_slurm_and_without(smaller, cluster, submit, tmp_path):
    run = submit(tmp_path / "slurm", EXPERIMENT, f"--configfile={smaller}")
    (tmp_path / "here").mkdir()
    run_here(tmp_path / "here", EXPERIMENT, f"--configfile={smaller}")
    here, output = results(tmp_path / "here", EXPERIMENT), run.end()
    assert results(tmp_path / "slurm", EXPERIMENT) == here
    assert {"metrics.csv", "grids.csv", "tables/expected_loss.csv"} <= set(here)

    # Each run is one job, and the tables and figures are another. A job requests one core and a multiple of 10 minutes.
    record = cluster.record().values()
    assert {(job["state"], job["cpus"]) for job in record} == {("COMPLETED", 1)}
    assert all(job["megabytes"] >= 1000 and job["minutes"] % 10 == 0 for job in record)
    assert len(record) == 3
    assert output.count("has been submitted with SLURM jobid") == len(record)


FAULTY = """
import os
import time
from pathlib import Path

import numpy as np
from drcrm.risks import MeanRisk

ON_SLURM = "SLURM_JOB_ID" in os.environ


class Large(MeanRisk):
    \"\"\"The mean, which allocates some megabytes.\"\"\"

    def __init__(self, megabytes):
        self.megabytes, self.memory = megabytes, None

    def evaluate(self, *arguments):
        if ON_SLURM and self.memory is None and Path("large").exists():
            self.memory = np.ones(int(self.megabytes * 2**17))
            time.sleep(5)
        return super().evaluate(*arguments)


class Slow(MeanRisk):
    \"\"\"The mean, whose first evaluation takes some seconds.\"\"\"

    def __init__(self, seconds):
        self.seconds = seconds

    def evaluate(self, *arguments):
        if ON_SLURM and Path("slow").exists():
            Path("slow").unlink()
            time.sleep(self.seconds)
        return super().evaluate(*arguments)
"""
LOOK = {"colour": "#123456", "marker": "d"}
FAULTS_CONFIG = {
    "algorithms": {
        "large": {"estimator": "faulty:Large", "parameter": "megabytes", "grid": [1500.0], "label": "large", **LOOK},
        "slow": {"estimator": "faulty:Slow", "parameter": "seconds", "grid": [600.0], "label": "slow", **LOOK},
    },
    "experiments": {"faults": {"datasets": ["digits"], "seeds": 1, "algorithms": ["cips", "large", "slow"]}},
}
TARGETS = ["results/faults/grids.csv", "results/faults/tables/expected_loss.csv"]


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """The results of the same experiment without Slurm."""
    work = prepare(tmp_path_factory.mktemp("here"))
    run_here(work, *TARGETS, "--configfile=config.yaml")
    return results(work, "faults")


@pytest.fixture
def run(submit, tmp_path):
    """Start the experiment in a prepared folder."""
    prepare(tmp_path)
    return lambda *arguments: submit(tmp_path, *(arguments or TARGETS), "--configfile=config.yaml")


def test_a_job_over_its_memory_limit_is_retried_with_more(here, cluster, run, tmp_path):
    (tmp_path / "large").touch()
    before = set(cluster.record())
    run().end()
    first, second, *_ = new_jobs(cluster, before)
    assert (first["state"], second["state"]) == ("FAILED", "COMPLETED")
    assert second["megabytes"] == pytest.approx(2 * first["megabytes"], abs=2)
    assert results(tmp_path, "faults") == here


def test_a_job_over_its_time_limit_is_retried_with_more(here, cluster, run, tmp_path):
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
    workflow = run()
    cluster.output_of("scancel", await_step(cluster, tmp_path))
    workflow.end()
    assert sorted(job["state"] for job in new_jobs(cluster, before))[:2] == ["CANCELLED", "COMPLETED"]
    assert results(tmp_path, "faults") == here


def test_jobs_of_a_lost_node_run_again(here, cluster, run, tmp_path):
    workflow = run()
    await_step(cluster, tmp_path)
    cluster.kill_node()
    time.sleep(2)
    cluster.start_node()
    workflow.end()
    assert results(tmp_path, "faults") == here


def test_an_interrupted_run_cancels_its_jobs_and_resumes(here, cluster, run, tmp_path):
    workflow = run()
    await_step(cluster, tmp_path)
    workflow.process.send_signal(signal.SIGINT)
    assert workflow.process.wait(timeout=120) != 0
    assert cluster.output_of("squeue", "-h", "--states=RUNNING,PENDING") == ""
    run().end()
    assert results(tmp_path, "faults") == here


def prepare(work: Path) -> Path:
    """Write the experiment's configuration and the module of its risks into a folder, and return the folder."""
    (work / "config.yaml").write_text(yaml.safe_dump(FAULTS_CONFIG))
    (work / "faulty.py").write_text(FAULTY)
    return work


def await_step(cluster, work: Path) -> str:
    """Wait until a first step has written its file, and return the number of a running job."""
    deadline = time.monotonic() + 300
    while not list(work.rglob("split.npz")):
        assert time.monotonic() < deadline, "no job has started"
        time.sleep(0.2)
    return cluster.output_of("squeue", "-h", "--states=RUNNING", "-o", "%i").split()[0]


def new_jobs(cluster, before: set[str]) -> list[dict]:
    """Return Slurm's record of the jobs that finished since, in the order of submission."""
    record = cluster.record()
    return [record[number] for number in sorted(set(record) - before, key=int)]
