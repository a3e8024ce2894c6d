"""How much of a result is rounding.

Each algorithm is fitted along its grid, as the pipeline does, and ``repetitions`` times more with the last bit of a
random half of the gradient's entries flipped in each evaluation; the latter for the first seeds of a data set only.

A row has the expected Hamming loss on the test set of a fit at a fixed value, the one that clipped SNIPS chooses
without noise, and at the value it chooses then, and the farthest that any fit of the grid moved. The summary has for
each algorithm the standard deviation under noise, pooled over seeds, and the widest range of a seed, of both; the
farthest move; and the standard deviation over seeds of what is chosen without noise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from unittest.mock import patch

import numpy as np
import pandas as pd
from finished import Run

from drcrm.core import learning
from drcrm.core.algorithms import Algorithm, find_estimator
from drcrm.core.learning import GridFit, learn
from drcrm.core.names import SCORES
from drcrm.core.objective import Objective
from drcrm.core.optimiser import minimize_objectives
from drcrm.core.risks import Evaluation

NOISED = {"digits": 3, "scene": 3, "yeast": 2}  # seeds that are fitted under noise
HEADLINE = [*SCORES].index("clipped_snips")


def flipped(values: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Return values (n,) with the last bit of each flipped with chance ½."""
    return (values.view(np.int64) ^ random.integers(0, 2, len(values))).view(float)


@dataclass(frozen=True)
class Shaken:
    """An objective with rounding noise in its gradient where a fit follows it; all else is the objective's."""

    objective: Objective
    random: np.random.Generator

    def __getattr__(self, name: str):
        return getattr(self.objective, name)

    def __call__(self, coef: np.ndarray) -> tuple[float, np.ndarray]:
        return self.objective(coef)

    def with_features(self, features: np.ndarray) -> Shaken:
        return Shaken(self.objective.with_features(features), self.random)

    def evaluate(self, coef: np.ndarray, guess: object = None) -> Evaluation:
        value, gradient, guess = self.objective.evaluate(coef, guess)
        return value, flipped(gradient, self.random), guess


def fits(run: Run, algorithm: Mapping, random: np.random.Generator | None) -> GridFit:
    """Fit an algorithm of the configuration along its grid; with a generator, under noise."""

    def minimize(objectives, *arguments, **options):
        shaken = (Shaken(each, random) for each in objectives) if random else objectives
        return minimize_objectives(shaken, *arguments, **options)

    calibrated = find_estimator(algorithm["estimator"]).calibrated
    with patch.object(learning, "minimize_objectives", minimize):
        known = run.heldout, run.logging, run.model
        return learn(run.train, Algorithm(**algorithm), *known, calibrated=calibrated).fits


def measured(run: Run, algorithm: Mapping, repeats: int) -> list[dict]:
    """The losses of an algorithm without noise, and of its repeats under noise, a row each."""
    rows = []
    for noise in range(1 + repeats):
        found = fits(run, algorithm, np.random.default_rng([run.seed, noise]) if noise else None)
        losses, chosen = np.array([run.loss(coef) for coef in found.coef]), int(found.chosen[HEADLINE])
        if not noise:
            fixed, before = chosen, losses
        row = {"noise": noise, "fixed": found.grid[fixed], "fixed_loss": losses[fixed], "chosen": found.grid[chosen]}
        rows.append({**row, "chosen_loss": losses[chosen], "farthest": np.abs(losses - before).max()})
    return rows


def spreads(rows: pd.DataFrame) -> pd.DataFrame:
    """Standard deviations and widest ranges under noise, beside the standard deviation over seeds."""
    keys = ["dataset", "algorithm"]
    table = {}
    for loss in ("fixed_loss", "chosen_loss"):
        by_seed = rows[rows["noise"] > 0].groupby([*keys, "seed"], sort=False)[loss]
        name = loss.removesuffix("_loss")
        table[f"{name}: sd"] = by_seed.var().groupby(keys, sort=False).mean() ** 0.5
        table[f"{name}: range"] = (by_seed.max() - by_seed.min()).groupby(keys, sort=False).max()
    table["any: farthest"] = rows.groupby(keys, sort=False)["farthest"].max()
    table["over seeds: sd"] = rows[rows["noise"] == 0].groupby(keys, sort=False)["chosen_loss"].std()
    return pd.DataFrame(table)


def summary(rows: pd.DataFrame) -> str:
    return spreads(rows).to_string(float_format="%.1e")


def rows(run: Run, algorithms: Mapping, repetitions: int) -> Iterator[dict]:
    repeats = repetitions if run.seed < NOISED.get(run.dataset, 0) else 0
    for name, algorithm in algorithms.items():
        key = {"dataset": run.dataset, "seed": run.seed, "algorithm": name}
        yield from ({**key, **row} for row in measured(run, algorithm, repeats))
