"""The undisturbed run, the reference for all faulty runs."""

from pathlib import Path

import pytest
from fixtures.pipeline import write_config, write_data

from faults import CONFIG, run


@pytest.fixture(scope="session")
def config(tmp_path_factory) -> Path:
    """The configuration in a user's folder, next to the synthetic data."""
    folder = tmp_path_factory.mktemp("user")
    write_data(folder)
    return write_config(folder, {**CONFIG, "mirror": str(folder)})


@pytest.fixture(scope="session")
def finished(tmp_path_factory, config) -> Path:
    """The folder of a finished run.

    Copies need the same depth, because Snakemake compares the relative path to the code.
    """
    work = tmp_path_factory.mktemp("finished") / "work"
    work.mkdir()
    run(work, config)
    return work
