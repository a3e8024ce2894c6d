"""Small configurations of experiments, and the message of a change that makes one invalid."""

from copy import deepcopy
from pathlib import Path

import pytest

from drcrm.errors import InputError
from drcrm.paper.config import SCHEMA as SCHEMA_PATH
from drcrm.paper.config import complete

ROOT = Path(__file__).resolve().parents[1]
SCHEMA = ROOT / SCHEMA_PATH
MISSING = object()
SMALL = {
    "datasets": {
        "toy": {"train": ["a.svm"], "test": ["b.svm"], "features": 3, "labels": 2},
        "digits": {"embedded": "digits", "features": 64, "labels": 10},
    },
    "algorithms": {
        "cips": {"estimator": "CIPS"},
        "kl": {"estimator": "KLDRO", "parameter": "radius", "grid": [0.1, 1]},
        "akl": {"estimator": "AdaptiveKLCRM", "parameter": "radius", "grid": [0.1], "options": {"variance": "sum"}},
    },
    "experiments": {
        "demo": {
            "datasets": ["toy"],
            "algorithms": ["cips", "kl"],
            "replay_curve": {"datasets": ["toy"], "counts": [1, 4]},
        }
    },
}
SINGLE = {
    "datasets": SMALL["datasets"] | {"classes": {**SMALL["datasets"]["toy"], "actions": "single"}},
    "algorithms": SMALL["algorithms"] | {"peer": {"classifier": "linear"}},
    "experiments": {
        "demo": {"datasets": ["toy"], "algorithms": ["cips"]},
        "choice": {"datasets": ["classes"], "algorithms": ["cips", "peer"]},
    },
}


def changed(key: str, value: object, config: dict = SMALL) -> dict:
    """Return a copy of a configuration with the value of a dotted key set, or removed."""
    config = deepcopy(config)
    *path, last = key.split(".")
    parent = config
    for name in path:
        parent = parent[name]
    if value is MISSING:
        del parent[last]
    else:
        parent[last] = value
    return config


def faults_of(config: dict) -> list[str]:
    """Return the messages about an invalid configuration, each printable in one line."""
    with pytest.raises(InputError) as error:
        complete(config, SCHEMA)
    assert all(line.isprintable() for line in error.value.args)
    return list(error.value.args)


def fault_of(key: str, value: object, config: dict = SMALL) -> str:
    """Return the only message about a configuration with one changed value."""
    [message] = faults_of(changed(key, value, config))
    return message
