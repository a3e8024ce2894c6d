"""What an evaluation on a Dask cluster sends and takes: python -m benchmarks.cluster [ROWS …]

A local cluster of two workers of one thread, and the made log of ``benchmarks.passes`` with one action of 5; the
objective of ``kl_dro_dr`` at Θ that move as those of a fit do. ``alone`` is the time of an evaluation on one thread,
``two threads`` and ``workers`` the same with these; ``rounds`` is how often all workers are asked in an evaluation.
``bytes`` are those of what is pickled for one of the shares of the rows, there and back, in an evaluation; of the rows
themselves none travel.
"""

from __future__ import annotations

import argparse
import pickle
import time
from unittest.mock import patch

import numpy as np
import pandas as pd
from distributed import Client, LocalCluster
from threadpoolctl import threadpool_limits

from drcrm import BanditLog
from drcrm.core import cluster
from drcrm.core.design import Design
from drcrm.core.objective import Objective
from drcrm.core.passes import passes
from drcrm.core.risks import KLBall

from .passes import ACTIONS, Single, contexts

EVALUATIONS = 10


def objective_of(n: int) -> Objective:
    rng = np.random.default_rng(0)
    world, X = Single(rng), contexts(n, rng)
    Y, propensity, cost = world.log(X, rng)
    effects = X @ rng.normal(size=(X.shape[1], ACTIONS)) / 10
    design = Design(BanditLog(X, Y, propensity, cost, n_actions=ACTIONS), effects, trains=True)
    return Objective(design, KLBall(0.01), estimate="dr")


def measured(objective: Objective) -> tuple[float, np.ndarray]:
    """Seconds of an evaluation, of many the median, and the last gradient."""
    coef, guess, took = np.zeros(objective.design.shape), None, []
    for step in range(EVALUATIONS):
        before = time.perf_counter()
        _, gradient, guess = objective.evaluate(coef + 0.01 * step, guess)
        took.append(time.perf_counter() - before)
    return float(np.median(took[1:])), gradient


def on_workers(objective: Objective, client: Client) -> dict[str, object]:
    asked, sizes = cluster.Scattered._asked, []

    def counted(self, function, *given):
        found = asked(self, function, *given)
        sizes.append((len(pickle.dumps((self._coef, *given))), len(pickle.dumps(found[0]))))
        return found

    with cluster.on_cluster(client), patch.object(cluster.Scattered, "_asked", counted):
        objective(np.zeros(objective.design.shape))  # what reads the rows
        sizes.clear()
        seconds, gradient = measured(objective)
    there, back = np.sum(sizes, axis=0) / EVALUATIONS
    return {
        "workers": seconds,
        "rounds": len(sizes) / EVALUATIONS,
        "bytes there": there,
        "bytes back": back,
        "gradient": gradient,
    }


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("rows", nargs="*", type=lambda text: int(float(text)), default=[100_000, 1_000_000])
    found = []
    options_of = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0"}
    with threadpool_limits(1), LocalCluster(**options_of) as local, Client(local) as client:
        for n in options.parse_args().rows:
            objective = objective_of(n)
            alone, gradient = measured(objective)
            with passes(2):
                two, _ = measured(objective)
            row = on_workers(objective, client)
            missed = np.abs(row.pop("gradient") - gradient).max() / np.abs(gradient).max()
            found.append({"rows": n, "alone": alone, "two threads": two, **row, "gradient differs by": missed})
    print(pd.DataFrame(found).to_string(index=False, float_format="{:.3g}".format))


if __name__ == "__main__":
    main()
