"""Schemas of configurations, parsed once for all tests."""

from functools import cache

import pytest
from snakemake import utils


@pytest.fixture(scope="session", autouse=True)
def parsed_schemas():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(utils, "_load_configfile", cache(utils._load_configfile))
        yield
