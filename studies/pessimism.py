"""What each held-out score chooses, and how often it is worse than π0.

The fits of a run are scored again on the log's held-out part, and the value that each score chooses is judged on the
test set.

There is a row per run, algorithm and score. The summary has, per data set and score, the mean expected Hamming loss
over runs and algorithms, its difference to that by clipped SNIPS, and how many choices are worse than π0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd
from finished import Run

from drcrm.core.algorithms import Algorithm
from drcrm.core.cost_model import action_effects
from drcrm.core.log import clipping_constant
from drcrm.core.scores import SCORES, HeldoutScores, choose
from drcrm.files import read_npz

BESIDE = "clipped_snips"  # the score that others are compared with


def rows(run: Run, algorithms: Mapping) -> Iterator[dict]:
    """The losses of what each score chooses along the grid of each algorithm."""
    effects = action_effects(run.model, run.heldout.X, run.heldout.actions)
    score = HeldoutScores(run.heldout, clipping_constant(run.train), effects)
    logged = run.loss(run.logging.coef)
    for name, algorithm in algorithms.items():
        fits = read_npz(run.folder / f"{name}.npz", ["grid", "coef"])
        losses = [run.loss(coef) for coef in fits["coef"]]
        scores = [score(coef) for coef in fits["coef"]]
        for by in SCORES:
            index = choose([each[by] for each in scores], fits["grid"], Algorithm(**algorithm).robust_end)
            loss = np.nan if index is None else losses[index]
            key = {"dataset": run.dataset, "seed": run.seed, "algorithm": name, "selection": by}
            yield {**key, "expected_loss": loss, "least": min(losses), "logging": logged}


def table(rows: pd.DataFrame) -> pd.DataFrame:
    """Per data set and score: mean loss, its paired difference to ``BESIDE``, and how often π0 is better."""
    runs = rows.pivot_table(index=["dataset", "seed", "algorithm"], columns="selection", values="expected_loss")
    difference = runs.sub(runs[BESIDE], axis=0).groupby(["dataset", "seed"]).mean()
    worse = rows.assign(worse=rows["expected_loss"] > rows["logging"])
    by = ["dataset", "selection"]
    return pd.DataFrame(
        {
            "loss": rows.groupby(by)["expected_loss"].mean(),
            "difference": difference.groupby("dataset").mean().stack(),
            "±": difference.groupby("dataset").sem().stack(),
            "worse than π0": worse.groupby(by)["worse"].sum(),
            "choices": rows.groupby(by)["expected_loss"].count(),
        }
    )


def summary(rows: pd.DataFrame) -> str:
    return table(rows).to_string(float_format="%.3f")
