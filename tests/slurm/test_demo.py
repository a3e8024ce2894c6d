"""A smaller demo through the profile on a real Slurm cluster: resources, jobs and results."""

import pytest
import yaml
from runs import results, run_here

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
