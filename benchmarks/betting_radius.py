"""Width of bounds by betting in 360 settings: ``python benchmarks/betting_radius.py``.

The settings are those of Sakhi, Aouali, Alquier & Chopin (NeurIPS 2024) on eight data sets, of which only the numbers
of rows with each label matter. A policy takes the action a with a probability in proportion to exp(1(a = l)/T). Its
label l is the true label y for the evaluated policy. For the logging policy, it is y + 1 modulo K if y is 0 or 1. The
reward is 1(a = y), flipped with probability 0, 0.1 or 0.2. A log has 98 % of the rows. The relative radius of a lower
bound on the mean reward is (truth − bound)/truth, at δ = 0.05.
"""

from itertools import product

import numpy as np
import pandas as pd

from drcrm import BanditLog
from drcrm.certificates import policy_certificate
from drcrm.policies.tabular import TabularPolicy

LABELS = {
    "ecoli": (143, 77, 2, 2, 35, 20, 5, 52),
    "balance": (49, 288, 288),
    "vehicle": (218, 212, 217, 199),
    "yeast": (463, 5, 35, 44, 51, 163, 244, 429, 20, 30),
    "page-blocks": (4913, 329, 28, 88, 115),
    "optdigits": (554, 571, 557, 572, 568, 558, 558, 566, 554, 562),
    "satimage": (1533, 703, 1358, 626, 707, 1508),
    "kropt": (2796, 1433, 2854, 2166, 471, 198, 4553, 1712, 78, 683, 592, 390, 1985, 4194, 81, 3597, 246, 27),
}
TEMPERATURES, LOGGING, FLIPS = (0.1, 0.2, 0.3, 0.4, 0.5), (0.3, 0.25, 0.2), (0.0, 0.1, 0.2)
METHODS = ("betting", "anytime")
SHARE = 0.98


def softmax_policy(label: np.ndarray, actions: int, temperature: float) -> np.ndarray:
    """Return the probabilities of all actions, (n, K)."""
    score = np.exp((label[:, None] == np.arange(actions)) / temperature)
    return score / score.sum(axis=1, keepdims=True)


def measure(counts: tuple[int, ...], temperature: float, logging: float, flip: float, seed: int) -> dict[str, float]:
    """Return the relative radius of each method on one log; it is below 0 if the bound is false."""
    rng, actions = np.random.default_rng(seed), len(counts)
    y = rng.permutation(np.repeat(np.arange(actions), counts))
    y = y[: int(SHARE * len(y))]
    policy = softmax_policy(y, actions, temperature)
    propensity = softmax_policy(np.where(y < 2, (y + 1) % actions, y), actions, logging)
    action = (rng.random(len(y))[:, None] > propensity.cumsum(axis=1)).sum(axis=1).clip(0, actions - 1)
    reward = (action == y) ^ (rng.random(len(y)) < flip)
    index = np.arange(len(y))
    log = BanditLog(
        np.ones((len(y), 1)), action, propensity[index, action], -reward.astype(float), n_actions=actions, context=index
    )
    right = policy.max()
    truth = right * (1 - flip) + (1 - right) * flip
    # The policy takes the action l, or with the share ``explore`` any action.
    explore, label = (1 - right) * actions / (actions - 1), (y[:, None] == np.arange(actions)) * 1.0
    known = {"cost_range": (-1.0, 0.0), "least_propensity": propensity.min()}
    tabular = TabularPolicy.for_log(np.log(policy[index, action]), label, log, explore)
    bounds = {method: -policy_certificate(tabular, log, "ips", method=method, **known).bound for method in METHODS}
    return {method: (truth - bound) / truth for method, bound in bounds.items()}


def measure_all() -> pd.DataFrame:
    """Return a row for each setting."""
    settings = product(LABELS, TEMPERATURES, LOGGING, FLIPS)
    return pd.DataFrame(
        {"data": name} | measure(LABELS[name], *numbers, seed) for seed, (name, *numbers) in enumerate(settings)
    )


if __name__ == "__main__":
    radii = measure_all()
    print(radii.groupby("data")[[*METHODS]].mean().round(3).to_string())
    print("mean relative radius:", radii[[*METHODS]].mean().round(4).to_dict())
    print("false bounds:", (radii[[*METHODS]] < 0).sum().to_dict(), "of", len(radii))
