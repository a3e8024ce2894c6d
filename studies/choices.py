"""What each choice in kl_dro_dr brings.

The algorithm as it stands is kl_dro_dr of config.yaml at radius 0.01; a variant changes one thing in it, and is fitted
to the same log. The radius is judged by the fits of the run: those with a grid, beside the mean of the same estimate.

A row has the expected Hamming loss on the test set of a variant; the summary the mean difference to the algorithm as it
stands with its standard error, paired over seeds; negative is better.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from unittest.mock import patch

import numpy as np
import pandas as pd
from finished import Run

from drcrm.core import starts
from drcrm.core.cost_model import FOLDS, CostModel, action_effects
from drcrm.core.design import Design
from drcrm.core.log import BanditLog, clipping_constant
from drcrm.core.objective import Objective
from drcrm.core.optimiser import minimize_objectives
from drcrm.core.policies import ExponentialPolicy
from drcrm.core.risks import KLBall
from drcrm.core.scores import SCORES, HeldoutScores, choose
from drcrm.core.weights import Clipped
from drcrm.files import read_npz
from drcrm.simulation.losses import greedy_hamming

RADIUS = 0.01
TILTS = (0.5, 1.0, 2.0, 3.0, 5.0)
MULTIPLES = (0.5, 1.0, 2.0, 3.0)
COLUMNS = ("dataset", "seed", "algorithm", "choice", "variant", "expected_loss")
Found = Iterator[tuple[str, str, float]]


class Variants:
    """The variants of kl_dro_dr on one log: iterating fits them, one after the other, as (choice, variant, loss)."""

    def __init__(self, run: Run):
        self.run = run
        self.clip = clipping_constant(run.train)
        self.effects = action_effects(run.model, run.train.X, run.train.actions)
        self.base, _ = starts.start_coef("logging", Design(run.train), run.logging)

    def __iter__(self) -> Found:
        tilt = starts.automatic_tilt(self.run.train, self.base, self.run.model.coef_)
        standing = self.fit(tilt)
        yield "none", "fitted again", self.run.loss(standing)
        yield "none", "its greedy action", greedy_hamming(ExponentialPolicy(standing), self.run.X, self.run.labels)
        yield from self.objectives(tilt)
        yield from self.tilts(tilt, standing)

    def start(self, tilt: float) -> np.ndarray:
        return self.base - tilt * self.run.train.actions.moving(self.run.model.coef_)

    def fit(self, tilt: float, clip: bool = True, effects: np.ndarray | None = None, **options) -> np.ndarray:
        """Return Θ of a fit, by default with the effects of the run's cost model."""
        weight = Clipped(self.clip if clip else None)
        effects = self.effects if effects is None else effects
        objective = Objective(Design(self.run.train, effects, trains=True), KLBall(RADIUS), weight, "dr")
        [found] = minimize_objectives([objective], self.start(tilt), **options)
        return found.coef

    def objectives(self, tilt: float) -> Found:
        """What a fit minimises, and when it stops."""
        crossed = crossed_effects(self.run.train, read_npz(self.run.folder / "cost_model.npz", ["penalty"])["penalty"])
        changes = {
            ("cost model", "cross-fitted"): {"effects": crossed},
            ("ridge", "1e-4"): {"ridge": 1e-4},
            ("ridge", "1e-5"): {"ridge": 1e-5},
            ("iterations", "at most 5"): {"max_iter": 5},
            ("iterations", "at most 20"): {"max_iter": 20},
            ("iterations", "at most 40"): {"max_iter": 40},
            ("clip", "none"): {"clip": False},
        }
        yield "iterations", "none", self.run.loss(self.start(tilt))
        for (choice, variant), options in changes.items():
            yield choice, variant, self.run.loss(self.fit(tilt, **options))

    def tilts(self, tilt: float, standing: np.ndarray) -> Found:
        """How far the start is tilted, and several starts together."""
        for parts in (2, 4):
            with patch.object(starts, "EFFECTIVE", 1 / parts):
                share = starts.automatic_tilt(self.run.train, self.base, self.run.model.coef_)
            yield "tilt", f"n/{parts}", self.run.loss(self.fit(share))
        fits = {value: self.fit(value) for value in TILTS}
        for value in (1.0, 3.0):
            yield "tilt", f"{value:g}", self.run.loss(fits[value])
        heldout = self.run.heldout
        score = HeldoutScores(heldout, self.clip, action_effects(self.run.model, heldout.X, heldout.actions))
        for of, policies in (("start", map(self.start, TILTS)), ("fit", fits.values())):
            scores = [score(coef) for coef in policies]
            for name in ("dr", "clipped_snips"):
                best = TILTS[choose([each[name] for each in scores], TILTS, "low")]
                yield "tilt", f"by {name} of the {of}", self.run.loss(fits[best])
        absolute = [fits[value] for value in TILTS[:4]]
        relative = [standing if value == 1 else self.fit(value * tilt) for value in MULTIPLES]
        for which, several in (("κ = ½, 1, 2, 3", absolute), ("½, 1, 2, 3 times κ", relative)):
            for how, loss in together(self.run, several):
                yield "four starts", f"{how}, {which}", loss


def together(run: Run, fits: Sequence[np.ndarray]) -> Iterator[tuple[str, float]]:
    """The losses of several Θ together: voting by their greedy actions, and their mean."""
    greedy = [ExponentialPolicy(coef).greedy(run.X) for coef in fits]
    yield "votes", vote_hamming(greedy, run.labels)
    yield "mean Θ", run.loss(np.mean(fits, axis=0))


def crossed_effects(log: BanditLog, penalty: float) -> np.ndarray:
    """Return what labels add to the cost of each context, (m, q + 1), by the cost model of folds it is not in."""
    m = log.X.shape[0]
    fold = np.random.default_rng(0).permutation(m) % FOLDS
    effects = np.empty((m, log.Y.shape[1] + 1))
    for held in range(FOLDS):
        model = CostModel(float(penalty)).fit_log(log.recount(log.count * (fold[log.context] != held)))
        effects[fold == held] = model.effects(log.X[fold == held])
    return effects


def vote_hamming(actions: list[np.ndarray], labels: np.ndarray) -> float:
    """Return the mean Hamming loss of what most of the ``actions``, each (n, q), say; a tie is a coin toss."""
    share = np.mean(actions, axis=0)
    chance = np.where(share == 0.5, 0.5, share > 0.5)
    return float(np.abs(chance - labels).sum(axis=1).mean())


def by_radius(run: Run, algorithms: Mapping) -> Iterator[tuple[str, str, str, float]]:
    """The losses along the grids of the run's fits, and of what each held-out score chooses of them."""
    for algorithm in (name for name, each in algorithms.items() if "grid" in each):
        fits = read_npz(run.folder / f"{algorithm}.npz", ["grid", "coef", "chosen"])
        losses = np.array([run.loss(coef) for coef in fits["coef"]])
        mean = read_npz(run.folder / f"{algorithms[algorithm]['options']['estimate']}.npz", ["coef"])["coef"][0]
        yield algorithm, "radius", "0", run.loss(mean)
        for value, loss in zip(fits["grid"], losses, strict=True):
            yield algorithm, "radius", f"{value:g}", loss
        for name, index in zip(SCORES, fits["chosen"], strict=True):
            yield algorithm, "radius chosen by", name, losses[index]
        yield algorithm, "radius chosen by", "the test set", losses.min()
        for how, loss in together(run, fits["coef"]):
            yield algorithm, "four radii", how, loss


def differences(rows: pd.DataFrame) -> pd.DataFrame:
    """Mean differences to each algorithm as it stands with their standard errors over seeds, a column for each set."""
    keys = ["dataset", "seed", "algorithm"]
    standing = rows[(rows["choice"] == "radius") & (rows["variant"] == f"{RADIUS:g}")].set_index(keys)["expected_loss"]
    losses = rows.join(standing.rename("standing"), on=keys)
    losses["difference"] = losses["expected_loss"] - losses["standing"]
    groups = losses.groupby(["algorithm", "choice", "variant", "dataset"], sort=False)["difference"]
    table = groups.agg(["mean", "sem"]).map("{:.4f}".format)
    return (table["mean"] + " ± " + table["sem"]).unstack("dataset", fill_value="")


def summary(rows: pd.DataFrame) -> str:
    return differences(rows).to_string()


def rows(run: Run, algorithms: Mapping) -> Iterator[dict]:
    """The losses of all variants on one log."""
    for each in chain((("kl_dro_dr", *found) for found in Variants(run)), by_radius(run, algorithms)):
        yield dict(zip(COLUMNS, (run.dataset, run.seed, *each), strict=True))
