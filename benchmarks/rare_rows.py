"""Certificates of small logs whose rare rows have large weights: false bounds, and the power on harmless logs.

    python benchmarks/rare_rows.py [REPETITIONS]

The first table is of the harmful kind: two actions; in 5 % of the contexts the policy's action has propensity 0.02 and
cost 1, and elsewhere it is better by 0.05. Costs are about 0.3 there, of a known range from 0 to 1. It counts, of all
logs, the bounds on the change below the truth, those below 0, and the logs without a certificate.

The second table is of softmax logging policies with two actions, and a policy that takes the better action in 95 % of
the contexts. It counts the bounds below 0, which are right. Scale 1 explores less than scale 0.5.

All bounds are doubly robust, with a cost model from another log of the same size.
"""

from __future__ import annotations

import sys
import warnings

import numpy as np
import pandas as pd
from scipy.special import softmax

from drcrm import BanditLog, CostModel
from drcrm.certificates import policy_certificate
from drcrm.errors import InputError

SIZES, RARE = (400, 1000, 2000), 0.05
OUTCOMES = "rare loss", "revenue", "lognormal cost", "time"


def draw_harmful(n: int, rng: np.random.Generator) -> tuple[BanditLog, np.ndarray, tuple[float, float]]:
    """Return a log of the harmful kind, the policy's probabilities, and the range of the costs."""
    place = rng.random(n)
    is_rare = place < RARE
    chance = np.where(is_rare, 0.02, 0.5)
    action = (rng.random(n) < chance).astype(int)
    cost = np.where(is_rare & (action == 1), 1.0, 0.3 + 0.1 * rng.uniform(-1, 1, n) - 0.05 * (action & ~is_rare))
    X = np.column_stack([np.ones(n), place, is_rare])
    log = BanditLog(X, action, np.where(action == 1, chance, 1 - chance), cost, n_actions=2)
    return log, np.tile([0.0, 1.0], (n, 1)), (0.0, 1.0)


HARM = RARE * 0.98 * 0.7 - (1 - RARE) * 0.5 * 0.05  # true change of the harmful kind


def draw_good(
    outcome: str, scale: float, n: int, rng: np.random.Generator
) -> tuple[BanditLog, np.ndarray, tuple[float, float]]:
    """Return a log of a softmax policy, the probabilities of a better policy, and the range of the costs."""
    world = np.random.default_rng(5)
    of_logger, of_best = world.normal(size=(4, 2)), world.normal(size=(4, 2))
    X = np.column_stack([np.ones(n), rng.normal(size=(n, 3))])
    P, best = softmax(scale * X @ of_logger, axis=1), (X @ of_best).argmax(axis=1)
    action = (P.cumsum(axis=1) > rng.random(n)[:, None]).argmax(axis=1)
    is_best = action == best
    cost, costs = {
        "rare loss": lambda: (rng.random(n) < np.where(is_best, 0.04, 0.10), (0.0, 1.0)),
        "revenue": lambda: (-np.where(is_best, 0.32, 0.22) * np.exp(rng.normal(size=n)), (-1000.0, 0.0)),
        "lognormal cost": lambda: (
            np.minimum(np.where(is_best, 0.22, 0.32) * np.exp(0.8 * rng.normal(size=n)), 20),
            (0.0, 20.0),
        ),
        "time": lambda: (np.clip(np.where(is_best, 0.3, 0.34) + 0.1 * rng.normal(size=n), 0, 1), (0.0, 1.0)),
    }[outcome]()
    log = BanditLog(X, action, P[np.arange(n), action], np.asarray(cost, dtype=float), n_actions=2)
    return log, 0.95 * np.eye(2)[best] + 0.025, costs


def bounds(draw, n: int, repetitions: int) -> np.ndarray:
    """Return the bound on the change in each log; infinite without a certificate."""
    found = np.full(repetitions, np.inf)
    for seed in range(repetitions):
        rng = np.random.default_rng([seed, n])
        model, (log, policy, costs) = CostModel().fit(draw(n, rng)[0]), draw(n, rng)
        try:
            options = {"baseline": "logging", "cost_range": costs, "cost_model": model}
            found[seed] = policy_certificate(policy, log, "dr", **options).bound
        except InputError:
            continue
    return found


def main(repetitions: int) -> None:
    warnings.simplefilter("ignore")
    harmful = {n: bounds(draw_harmful, n, repetitions) for n in SIZES}
    rows = {n: [(b < HARM).sum(), (b < 0).sum(), np.isinf(b).sum()] for n, b in harmful.items()}
    print(f"harmful kind, true change {HARM:.4f}, of {repetitions} logs:")
    print(pd.DataFrame(rows, index=["below the truth", "below 0", "none"]).T.to_string(), flush=True)
    print(f"good kinds, bounds below 0 of {repetitions} logs:")
    for scale in (0.5, 1.0):
        for outcome in OUTCOMES:

            def draw(n, rng, outcome=outcome, scale=scale):
                return draw_good(outcome, scale, n, rng)

            counts = [int((bounds(draw, n, repetitions) < 0).sum()) for n in SIZES]
            print(f"scale {scale:g}, {outcome}: {counts}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
