"""A finished run of an experiment, as the studies read it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from drcrm.data.bandit_log import BanditLog
from drcrm.experiments.datasets.array_files import read_policy
from drcrm.experiments.datasets.truths import read_truth
from drcrm.experiments.simulation.replay import replay
from drcrm.experiments.simulation.split import heldout_rows
from drcrm.experiments.simulation.truth import CERTAIN, Rates
from drcrm.experiments.steps import generator
from drcrm.policies.exponential import ExponentialPolicy, LinearPolicy, SoftmaxPolicy, make_policy

HELD_OUT = 0.25  # of the rows of a run that is logged again


@dataclass(frozen=True)
class Run:
    """π0 of a finished run, and the folder of its data set."""

    dataset: str
    seed: int
    resources: Path
    logging: ExponentialPolicy | SoftmaxPolicy

    def logged_again(
        self, sharpness: float, replays: int = 1, contexts: int | None = None, click_rates: Rates = CERTAIN
    ) -> tuple[BanditLog, BanditLog, LinearPolicy]:
        """The training and the held-out part of another log, and the π0 that logged it, its scores times η.

        Of all training contexts, or some that are drawn. A quarter of the rows is held out; with one action of K there
        are clicks.
        """
        X, truth = read_truth(self.resources / "train.npz")
        policy = make_policy(truth.actions, sharpness * self.logging.coef)
        if contexts is not None:
            drawn = np.sort(generator(self.dataset, self.seed, "small logs").permutation(X.shape[0])[:contexts])
            X, truth = X[drawn], truth[drawn]
        rates = click_rates if truth.labels.ndim == 1 else CERTAIN
        rng, click_rng = (generator(self.dataset, self.seed, name) for name in ("replay", "clicks"))
        log = replay(policy, X, truth, replays, rng, rates, click_rng)
        held = heldout_rows(log.size, HELD_OUT, generator(self.dataset, self.seed, "heldout"))
        return log.recount(~held), log.recount(held), policy


def read_run(folder: Path, resources: Path, dataset: str, seed: int) -> Run:
    """Read π0 of a run, by the run's folder and that of its data set."""
    _, truth = read_truth(resources / "test.npz")
    return Run(dataset, seed, resources, read_policy(folder / "logging.npz", truth.actions))
