"""A finished run of an experiment, as the studies read it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from drcrm.core.cost_model import CostModel
from drcrm.core.log import BanditLog
from drcrm.core.policies import ExponentialPolicy
from drcrm.pipeline.formats import read_contexts, read_log, read_policy
from drcrm.pipeline.steps.cost_model import read_cost_model
from drcrm.simulation.losses import expected_hamming


@dataclass(frozen=True)
class Run:
    """A log with what its fits need, and the test set that judges them; ``folder`` has the fits that were made."""

    dataset: str
    seed: int
    folder: Path
    resources: Path
    train: BanditLog
    heldout: BanditLog
    logging: ExponentialPolicy
    model: CostModel
    X: object
    labels: np.ndarray

    def loss(self, coef: np.ndarray) -> float:
        """Return the expected Hamming loss on the test set of the policy with Θ, (d, q)."""
        return expected_hamming(ExponentialPolicy(coef), self.X, self.labels)


def read_run(folder: Path, resources: Path, dataset: str, seed: int) -> Run:
    """Read a run from the folder of its log and that of its data set."""
    return Run(
        dataset,
        seed,
        folder,
        resources,
        *read_log(folder / "log.npz"),
        read_policy(folder.parent / "logging.npz"),
        read_cost_model(folder / "cost_model.npz"),
        *read_contexts(resources / "test.npz"),
    )
