"""A temporary Slurm cluster for the tests of this folder, and runs of the workflow on it."""

import signal

import pytest
from cluster import Cluster, Run, describe_missing_programs


def pytest_configure(config):
    """Exit with one line if Slurm is missing, and clean up if the tests are terminated."""
    if message := describe_missing_programs():
        pytest.exit(message, returncode=1)
    signal.signal(signal.SIGTERM, signal.default_int_handler)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    """A Slurm cluster of one node, which declares eight CPUs and 16 GB."""
    with Cluster(tmp_path_factory.mktemp("slurm")) as cluster:
        yield cluster


@pytest.fixture
def submit(cluster):
    """Start the workflow in a folder with arguments of snakemake. A run that outlives the test is interrupted."""
    runs = []

    def start(work, *arguments):
        runs.append(Run(cluster, work, *arguments))
        return runs[-1]

    yield start
    for run in runs:
        run.interrupt()
