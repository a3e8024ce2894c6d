"""A throw-away Slurm for the tests of this folder, and runs of the workflow on it."""

from __future__ import annotations

import signal

import pytest
from cluster import Cluster, missing
from runs import Run


def pytest_configure(config):
    """Without Slurm, say so in one line; what was started is ended where the tests are terminated, too."""
    if missing():
        pytest.exit(missing(), returncode=1)
    signal.signal(signal.SIGTERM, signal.default_int_handler)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    """A Slurm of one node that says it has eight CPUs and 16 GB."""
    with Cluster(tmp_path_factory.mktemp("slurm")) as cluster:
        yield cluster


@pytest.fixture
def submit(cluster):
    """Start the workflow in a folder, with arguments of snakemake; it is interrupted where the test ends before it."""
    started = []

    def start(work, *arguments):
        started.append(Run(cluster, work, *arguments))
        return started[-1]

    yield start
    for run in started:
        run.interrupt()
