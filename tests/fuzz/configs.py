"""Configuration documents: the shipped one and a small one, with keys and values out of place."""

from __future__ import annotations

import datetime
import json
import math
import re
from copy import deepcopy
from functools import cache
from pathlib import Path
from random import Random

import yaml

from drcrm.experiments import lookups
from drcrm.experiments.config import complete, shipped_config
from drcrm.experiments.lookups import planned
from drcrm.reports.tables.plan import Plan

from .harness import Kind, expect, in_lines

ROOT = Path(__file__).parents[2]
NAMES = [
    "../../x",
    "/x",
    "a b",
    "a\n",
    "A",
    "",
    "..",
    ".",
    "-x",
    "é",
    "a'b",
    "$(x)",
    "x" * 300,
    "toy",
    "demo",
    "cips",
    "log",
    "fetch",
]
NUMBERS = [
    0,
    1,
    -1,
    2,
    0.5,
    1.0,
    math.nan,
    math.inf,
    -math.inf,
    10**400,
    -(10**400),
    1e-320,
    10000,
    10001,
    True,
    "1",
    "1e-5",
    "nan",
]
ODD = [
    None,
    True,
    False,
    [],
    {},
    [[]],
    [None],
    {"a": 1},
    [1, 1],
    [1, "1"],
    datetime.date(2020, 1, 1),
    b"x",
    (1, 2),
    {1: 2},
    {None: 1},
]


@cache
def read(path: str) -> dict:
    return yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))


def schema() -> dict:
    return read("workflow/schemas/config.schema.yaml")


SMALL = {
    "datasets": {
        "toy": {"train": ["a.svm"], "test": ["b.svm"], "features": 3, "labels": [2, 5], "rows": [3, 4]},
        "digits": {"embedded": "digits", "features": 64, "labels": 10, "sha256": {}},
    },
    "algorithms": {
        "cips": {"estimator": "CIPS"},
        "kl": {"estimator": "KLDRO", "parameter": "radius", "grid": [0.1, 1], "marker": "o"},
        "akl": {"estimator": "AdaptiveKLCRM", "parameter": "radius", "grid": [0.1], "options": {"variance": "sum"}},
        "dr": {"estimator": "CIPS", "options": {"estimate": "dr", "start": "model", "tilt": "auto"}},
    },
    "experiments": {
        "demo": {
            "datasets": ["toy"],
            "algorithms": ["cips", "kl", "dr"],
            "replay_curve": {"datasets": ["toy"], "counts": [1, 4]},
            "ablation": {"algorithms": ["dr"], "starts": ["zero", "model"]},
        }
    },
}


def make(r: Random) -> dict:
    """Draw a document: a valid one, with some changes."""
    config = deepcopy(SMALL if r.random() < 0.95 else shipped_config(ROOT))
    for _ in range(r.choice([0, 1, 1, 1, 2, 3])):
        places = [*nodes(config)]
        if not places:
            break
        holder, key = r.choice(places)
        change = r.randrange(7)
        if change == 0:
            del holder[key]
        elif change == 1 and isinstance(holder, dict):
            holder[r.choice([*NAMES, 1, None, True, (1, 2), str(key)[:-1]])] = holder.pop(key)
        elif change == 2:
            other, at = r.choice(places)
            holder[key] = deepcopy(other[at])
        elif change == 3 and isinstance(holder, list):
            holder.insert(r.randint(0, len(holder)), r.choice([*NAMES, *NUMBERS]))
        elif change == 4:
            holder[key] = str(holder[key])
        else:
            holder[key] = deepcopy(r.choice([r.choice(NAMES), r.choice(NUMBERS), r.choice(ODD)]))
    return config


def nodes(value):
    """All places of a document: what holds them, and under which key."""
    for key, each in list(value.items()) if isinstance(value, dict) else enumerate(value):
        yield value, key
        if isinstance(each, dict | list):
            yield from nodes(each)


def check(case: dict, folder: Path) -> bool:
    before = repr(case)
    config, lines = in_lines(complete, case, schema())
    expect(repr(case) == before, "the document given is changed")
    if config is None:
        expect(all(line.startswith("config: ") for line in lines), f"no place in: {lines}")
        expect(len(set(lines)) == len(lines), f"said twice: {lines}")
        return False
    text = json.dumps(config, allow_nan=False)
    expect(json.dumps(complete(json.loads(text), schema())) == text, "completing what is complete changes it")
    for section in ("datasets", "algorithms", "experiments"):
        for name in config[section]:
            expect(re.fullmatch(r"[a-z][a-z0-9_]*", name) is not None, f"a file may be called {name!r}")
    for dataset in config["datasets"].values():
        for name in (*dataset.get("train", []), *dataset.get("test", [])):
            safe = "/" not in name and name not in (".", "..") and not name.startswith("-") and name.isprintable()
            expect(safe and len(name.encode()) < 256, f"a file of a data set may be called {name!r}")
    for name, experiment in config["experiments"].items():
        looked_up(config, name, experiment)
    return True


def looked_up(config: dict, name: str, experiment: dict) -> None:
    """Look up what rules do."""
    for dataset in lookups.all_datasets(experiment):
        expect(lookups.n_labels(config, dataset) >= 1, "no labels")
        seeds = lookups.seeds_of(experiment, dataset) if dataset in experiment["datasets"] else 1
        for seed in (0, seeds - 1):
            expect(set(lookups.run_algorithms(config, name, dataset, 4, seed)) <= set(config["algorithms"]), "unknown")
    for figure, datasets in lookups.figure_datasets(experiment).items():
        if datasets:
            lookups.shown_algorithms(config, name, figure)
            expect(min(planned(config, name, figure, datasets[:1]).counts) >= 1, "no replays")
    for part in ("tables", "overview"):
        expect(Plan.parse(planned(config, name, part).json()).datasets == experiment["datasets"], "another plan")
    for values in planned(config, name, "tables").grids.values():
        expect(all(0 < value < math.inf for value in values), "a grid out of range")
    for algorithm in lookups.all_algorithms(config, name):
        if lookups.is_classifier(config, algorithm):
            lookups.classifier_options(config, algorithm)
        else:
            lookups.fit_options(config, name, algorithm)
    lookups.heldout_options(experiment)
    lookups.uses_cost_model(config, name)


KIND = Kind("configs", 120, make, check)
