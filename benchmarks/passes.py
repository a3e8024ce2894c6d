"""What the fewer passes over a large log save, and what they change: python -m benchmarks.passes [ROWS …]

``DoublyRobustDRO`` on made logs of 20 features, with a cost model, imitation and held-out rows as by default:

labels   vectors of 5 labels, the cost −1 for each label that is right, with noise
single   one action of 5, clicks with probability 0.7 for the right one and 0.2 for another

``all at once`` has neither samples nor a coarser tolerance, and fits with a ridge beside; it still has the moments of
the cost model. ``passes`` are rows passed over by fits and scores, over those of the log; ``cost`` is the expected cost
of the policy on 100 000 fresh contexts, ``old`` that of the one that logged.
"""

from __future__ import annotations

import argparse
import time
from unittest.mock import patch

import numpy as np
import pandas as pd
from scipy.special import expit, softmax

from drcrm import DoublyRobustDRO
from drcrm.data.listeners import Listener, use_listener
from drcrm.policies import linear_predictor as design

FEATURES, ACTIONS, FRESH = 20, 5, 100_000
WAYS = {
    "by stages": {"LARGE": design.LARGE, "SAMPLE": design.SAMPLE},
    "all at once": {"LARGE": np.inf, "SAMPLE": np.inf},
}


def contexts(n: int, rng: np.random.Generator) -> np.ndarray:
    return np.column_stack([rng.standard_normal((n, FEATURES - 1)), np.ones(n)])


class Labels:
    def __init__(self, rng: np.random.Generator):
        self.logging, self.truth = (scale * rng.standard_normal((FEATURES, ACTIONS)) for scale in (0.3, 1))

    def log(self, X: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
        mean = self.probabilities(X)
        Y = rng.random(mean.shape) < mean
        cost = -((X @ self.truth > 0) == Y).sum(axis=1) + 0.5 * rng.standard_normal(len(X))
        return Y.astype(np.uint8), np.where(Y, mean, 1 - mean).prod(axis=1), cost

    def probabilities(self, X: np.ndarray) -> np.ndarray:
        return expit(X @ self.logging)

    def cost(self, X: np.ndarray, mean: np.ndarray) -> float:
        return float(-np.where(X @ self.truth > 0, mean, 1 - mean).sum(axis=1).mean())


class Single(Labels):
    def log(self, X, rng):
        mean, rows = self.probabilities(X), np.arange(len(X))
        Y = (np.cumsum(mean, axis=1) > rng.random((len(X), 1))).argmax(axis=1)
        chance = np.where((X @ self.truth).argmax(axis=1) == Y, 0.7, 0.2)
        return Y, mean[rows, Y], -(rng.random(len(X)) < chance).astype(float)

    def probabilities(self, X):
        return softmax(X @ self.logging, axis=1)

    def cost(self, X, mean):
        return float(-(0.2 + 0.5 * mean[np.arange(len(X)), (X @ self.truth).argmax(axis=1)]).mean())


def measured(world: Labels, n: int, way: dict[str, float], rng: np.random.Generator) -> dict[str, float]:
    X, fresh = contexts(n, rng), contexts(FRESH, rng)
    Y, propensity, cost = world.log(X, rng)
    rows = []
    before = time.process_time()
    with patch.multiple(design, **way):
        estimator = Listening(rows).fit(X, Y, propensity=propensity, cost=cost)
    return {
        "cpu s": time.process_time() - before,
        "passes": sum(rows) / n,
        "cost": world.cost(fresh, estimator.predict_proba(fresh)),
        "old": world.cost(fresh, world.probabilities(fresh)),
    }


class Listening(DoublyRobustDRO):
    """The estimator, whose passes are heard."""

    def __init__(self, rows: list[int] | None = None):
        super().__init__()
        self.rows = rows

    def _working(self):
        listener = Listener()
        listener.receive_pass = self.rows.append
        return use_listener(listener)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("rows", nargs="*", type=lambda text: int(float(text)), default=[10_000, 100_000, 1_000_000])
    found = []
    for n in options.parse_args().rows:
        for kind in (Labels, Single):
            for name, way in WAYS.items():
                rng = np.random.default_rng(0)
                found.append(
                    {"kind": kind.__name__.lower(), "rows": n, "way": name, **measured(kind(rng), n, way, rng)}
                )
                print(found[-1], flush=True)
    print(pd.DataFrame(found).to_string(index=False, float_format="{:.4g}".format))


if __name__ == "__main__":
    main()
