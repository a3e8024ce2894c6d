"""The undisturbed run that all others are compared with."""

from __future__ import annotations

from pathlib import Path

import pytest
from workflows import write_config, write_data

from faults.harness import CONFIG, run


@pytest.fixture(scope="session")
def config(tmp_path_factory) -> Path:
    """A user's folder with the made-up data, and a configuration that names them."""
    folder = tmp_path_factory.mktemp("user")
    write_data(folder)
    return write_config(folder, {**CONFIG, "mirror": str(folder)})


@pytest.fixture(scope="session")
def finished(tmp_path_factory, config) -> Path:
    """The folder of a finished run. Copies lie as deep as it: the way to the code is among what Snakemake compares."""
    work = tmp_path_factory.mktemp("finished") / "work"
    work.mkdir()
    run(work, config)
    return work
