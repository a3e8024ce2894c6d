"""A finished run of an experiment: its logging policy, and new logs that this policy draws."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from drcrm.data.bandit_log import BanditLog
from drcrm.paper.array_files import read_policy, read_truth
from drcrm.paper.simulation import CERTAIN, Rates, generator, heldout_rows, replay
from drcrm.policies.exponential import ExponentialPolicy, LinearPolicy, SoftmaxPolicy, make_policy

HELDOUT_SHARE = 0.25


@dataclass(frozen=True)
class Run:
    """The logging policy of a finished run, and the folder of its data set."""

    dataset: str
    seed: int
    resources: Path
    logging: ExponentialPolicy | SoftmaxPolicy

    def draw_log(
        self, sharpness: float, replays: int = 1, contexts: int | None = None, click_rates: Rates = CERTAIN
    ) -> tuple[BanditLog, BanditLog, LinearPolicy]:
        """Draw a new log from the logging policy with its scores multiplied by ``sharpness``.

        Parameters
        ----------
        sharpness : float
            η, the factor of the scores.
        replays : int
            How often each context is logged.
        contexts : int, optional
            Number of training contexts to draw; by default all are used.
        click_rates : pair of float
            Click probabilities of the right action and of the others. Only single choices have clicks.

        Returns
        -------
        training rows, held-out rows (a quarter of all), and the logging policy
        """
        X, truth = read_truth(self.resources / "train.npz")
        policy = make_policy(truth.actions, sharpness * self.logging.coef)
        if contexts is not None:
            rows = np.sort(generator(self.dataset, self.seed, "small logs").permutation(X.shape[0])[:contexts])
            X, truth = X[rows], truth[rows]
        rates = click_rates if truth.labels.ndim == 1 else CERTAIN
        rng, click_rng = (generator(self.dataset, self.seed, name) for name in ("replay", "clicks"))
        log = replay(policy, X, truth, replays, rng, rates, click_rng)
        is_heldout = heldout_rows(log.size, HELDOUT_SHARE, generator(self.dataset, self.seed, "heldout"))
        return log.recount(~is_heldout), log.recount(is_heldout), policy


def read_run(folder: Path, resources: Path, dataset: str, seed: int) -> Run:
    """Read the logging policy from a run's folder; ``resources`` is the folder of its data set."""
    _, truth = read_truth(resources / "test.npz")
    return Run(dataset, seed, resources, read_policy(folder / "logging.npz", truth.actions))
