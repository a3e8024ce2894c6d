"""Configurations and their schemas, parsed once for all tests."""

from copy import deepcopy
from functools import cache

import pytest
from snakemake import utils

from drcrm.paper import config


@pytest.fixture(scope="session", autouse=True)
def parsed_schemas():
    with pytest.MonkeyPatch.context() as patch:
        parse = cache(config.parse_yaml)
        patch.setattr(config, "parse_yaml", lambda text: deepcopy(parse(text)))
        patch.setattr(utils, "_load_configfile", cache(utils._load_configfile))
        yield
