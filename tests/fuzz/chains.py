"""The steps that hand npz files to each other, one of these files spoilt."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from random import Random

import numpy as np

from drcrm.selection.score_names import SCORES

from . import arrays
from .harness import Kind, expect, step
from .mutations import mutated

STEPS = ["split", "log_crf", "skyline", "replay", "cost_model", "evaluate"]
AXES = ["--dataset", "../../x", "--seed", "0"]


def make(r: Random) -> tuple[str, dict[str, bytes], list[str]]:
    """Draw a step, the files there are, and its arguments."""
    n, d, q = r.randint(2, 6), r.randint(1, 3), r.randint(1, 3)
    labels = np.array([[r.randrange(2) for _ in range(q)] for _ in range(n)], dtype=np.uint8)
    rows = r.sample(range(n), n)
    cut, k = r.randint(1, n - 1), r.randint(1, 3)
    made = {
        "contexts": {**arrays.features("X", r, n, d), "labels": labels},
        "split": {
            name: np.array(part)
            for name, part in (("logging", rows[:cut]), ("train", rows[:cut]), ("heldout", rows[cut:]))
        },
        "policy": {**arrays.policy(r, d + 1, q), "absent": np.array([r.random() < 0.3 for _ in range(q)])},
        "log": arrays.log(r, d + 1, q),
        "fit": {
            "grid": np.array([10.0**i for i in range(k)]) if r.random() < 0.7 else np.full(k := 1, np.nan),
            "coef": np.array([arrays.policy(r, d + 1, q)["coef"] for _ in range(k)]),
            "objective": np.array([arrays.normal(r) for _ in range(k)]),
            "iterations": np.array([r.randrange(9) for _ in range(k)]),
            "converged": np.array([r.random() < 0.5 for _ in range(k)]),
            "scores": np.array([[r.choice([arrays.normal(r), math.nan]) for _ in SCORES] for _ in range(k)]),
            "chosen": np.array([r.randint(-1, k - 1) for _ in SCORES]),
            "tilt": np.array([r.choice([math.nan, 1.0])]),
            **{name: np.array([r.random() for _ in range(k)]) for name in ("ridge", "step")},
        },
    }
    name = r.choice(STEPS)
    if r.random() < 0.6:
        used = {"split": ["contexts"], "cost_model": ["log"], "evaluate": ["contexts", "log", "policy", "fit", "fit"]}
        spoil = r.choice(used.get(name, ["contexts", "split", *(["policy"] if name == "replay" else [])]))
        made[spoil] = arrays.spoilt(r, made[spoil])
    files = {file: arrays.packed(r, content) for file, content in made.items()}
    if r.random() < 0.1:
        file = r.choice(sorted(files))
        files[file] = mutated(r, files[file])
    unit = r.choice(["row", "context"])
    shares = [str(r.choice([0.25, 0.5, 0.9, 1e-9])), str(r.choice([0.25, 0.5, 1 - 1e-12]))]
    train, output = ["--train", "contexts.npz", "--split", "split.npz"], ["--output", f"results/{name}"]
    words = {
        "split": [
            *train[:2],
            "--split-unit",
            unit,
            "--logging-fraction",
            shares[0],
            "--heldout-fraction",
            shares[1],
            *AXES,
        ],
        "log_crf": [*train, "--logging-c", str(r.choice([0.1, 1e-300, 1e300]))],
        "skyline": train,
        "replay": [*train, "--policy", "policy.npz", "--replay-count", "2", "--split-unit", unit, *AXES],
        "cost_model": ["--log", "log.npz"],
        "evaluate": [
            "--test",
            "contexts.npz",
            "--log",
            "log.npz",
            "--logging",
            "policy.npz",
            "--skyline",
            "policy.npz",
            "--fit",
            "a=fit.npz",
            "--selection",
            "snips",
            "dr",
            "--absent-label-score",
            r.choice(["logged", "half"]),
            "--replay-count",
            "1",
            *AXES,
            "--output-grids",
            "results/grids",
        ],
    }[name]
    if name == "replay" and unit == "row":
        words += ["--heldout-fraction", shares[1]]
    return name, files, [*words, *output]


def check(case: tuple[str, dict[str, bytes], list[str]], folder: Path) -> bool:
    name, files, words = case
    for file, content in files.items():
        (folder / f"{file}.npz").write_bytes(content)
    done, _ = step(name, *words)
    if done and name == "evaluate":
        for table in ("evaluate", "grids"):
            with open(folder / "results" / table, newline="") as stream:
                for row in csv.DictReader(stream):
                    losses = [row[loss] for loss in ("expected_loss", "greedy_loss")]
                    chosen = any(losses) or table == "grids" or row["algorithm"] != "a"
                    expect(not chosen or all(0 <= float(loss) <= 3 for loss in losses), f"losses {losses}")
    elif done:
        with np.load(folder / "results" / name) as found:
            for array in found.files:
                expect(bool(np.isfinite(found[array]).all()), f"{array} is not finite")
    return done


KIND = Kind("chains", 60, make, check)
