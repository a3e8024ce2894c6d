"""The arguments of the step ``fit``, on the command line."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from random import Random

from drcrm.selection.algorithms import ESTIMATORS

from . import arrays
from .harness import Kind, step
from .logs import FITS, finite
from .mutations import NUMBERS

DEEP = "[" * 100_000
TEXTS = [
    "",
    "x",
    "/dev/null/x",
    "a b",
    "-x",
    "--",
    "--help",
    "é",
    "\udcff",
    "\x1b[0m",
    "a\nb",
    "x" * 300,
    "log.npz",
    "results",
]
TEXTS += ["link.npz", "log.npz/x", ".", "..", DEEP, '{"a": ' + "1" * 5000 + "}", '{"a": ' + DEEP]
OPTIONS = [
    "estimate",
    "weight",
    "start",
    "tilt",
    "radius",
    "variance",
    "weight.exploration",
    "smoothing",
    "temperature",
    "x",
]
VALUES = [
    None,
    True,
    [],
    {},
    "auto",
    "dr",
    "snips",
    "model",
    "imitation",
    "logging",
    "implicit",
    "sum",
    -1,
    0,
    1e-320,
    1e308,
    10**400,
    float("nan"),
    2,
]
FILES = {"log": arrays.log, "policy": arrays.policy, "model": arrays.cost_model}


@cache
def stored(name: str, number: int) -> tuple[dict, bytes]:
    """One of a few small files of a kind."""
    r = Random(f"{name}/{number}")
    content = FILES[name](r)
    return content, arrays.packed(r, content)


def make(r: Random) -> tuple[int, list[str], list[str]]:
    """Draw which log there is, and the arguments."""
    name, parameter, grid, options = r.choice(FITS)
    words = [
        "--log",
        "log.npz",
        "--estimator",
        name,
        "--output",
        r.choice(["results/fit.npz", "results/a b/fit.npz", "fit.npz"]),
    ]
    if parameter:
        words += ["--parameter", parameter, "--grid", *map(str, grid)]
    if options or r.random() < 0.2:
        words += ["--options", json.dumps(options)]
    if r.random() < 0.3:
        words += ["--logging", "policy.npz", "--cost-model", "model.npz"]
    for _ in range(r.choice([0, 1, 1, 2])):
        at, change = r.randrange(len(words)), r.randrange(8)
        if change == 0:
            del words[at]
        elif change == 1:
            words[at] = r.choice(TEXTS)
        elif change == 2:
            words.insert(at, r.choice(TEXTS))
        elif change == 3 and "--grid" in words[:-1]:
            words[words.index("--grid") + 1] = r.choice(NUMBERS)
        elif change == 4:
            some = {r.choice(OPTIONS): r.choice(VALUES) for _ in range(r.randint(1, 3))}
            words += ["--options", json.dumps({**options, **some})]
        elif change == 5:
            words += ["--output", r.choice(["results", "link.npz", "log.npz/x", "results/../x.npz", ".", "x" * 300])]
        elif change == 6:
            words += ["--variance-penalty-scale", r.choice(["unit", "calibrated", "x"])]
        else:
            words += [
                "--estimator",
                r.choice([*ESTIMATORS, "KLDR", "math:sqrt", ":", "os:", "nowhere:Risk", "", "a:b:c"]),
            ]
        if not words:
            break
    return r.randrange(40), words


def check(case: tuple[int, list[str]], folder: Path) -> bool:
    number, words = case
    for name in FILES:
        (folder / f"{name}.npz").write_bytes(stored(name, number)[1])
    (folder / "results").mkdir()
    (folder / "link.npz").symlink_to(folder.parents[2] / "canary.svm")
    before = {path: path.read_bytes() for path in folder.glob("*.npz")}
    done, _said = step("fit", *words)
    if not done or "--help" in words:
        return done
    outputs = [path for path in folder.rglob("*.npz") if path not in before or path.read_bytes() != before[path]]
    for path in outputs:
        finite(path, stored("log", number)[0])
    return True


KIND = Kind("arguments", 30, make, check)
