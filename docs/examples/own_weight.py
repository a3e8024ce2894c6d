"""
Write your own weight
=====================

An importance weight multiplies each logged cost. The plain weight, the policy's probability of the logged action
divided by the propensity, can be large and noisy. This example implements a weight that raises the plain one to a power
below 1.
"""

import numpy as np

from drcrm import CIPS, SoftmaxPolicy
from drcrm.weights import Weight, check_weight


class Tempered(Weight):
    """Importance weight (π/p)^power. A smaller power gives less noise but more bias."""

    robust_end = "low"  # the pessimistic end of a grid of powers

    def __init__(self, power: float = 0.5):
        self.power = power

    def __call__(self, log_prob, log_propensity):
        """Return the weights and their derivatives in log π."""
        weight = np.exp(self.power * (log_prob - log_propensity))
        return weight, self.power * weight


# %%
# `check_weight` compares the derivative with finite differences.
check_weight(Tempered())

# %%
# Every estimator takes the weight. Here it competes with the clipped weight, on 20 small logs of a synthetic problem
# with known click rates.


def clicks_lost(weight: object, seed: int) -> float:
    """Return the clicks that the learned policy loses per visitor, compared with the best action for each context."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=(2300, 3)), np.ones(2300)])
    rates = 0.5 / (1 + np.exp(-X @ rng.normal(size=(4, 3))))
    logging_policy = SoftmaxPolicy(rng.normal(size=(4, 3)))
    action = logging_policy.sample(X[:300], random_state=seed)
    cost = -(rng.random(300) < rates[np.arange(300), action]).astype(float)
    propensity = np.exp(logging_policy.log_prob(X[:300], action))
    policy = CIPS(weight=weight).fit(X[:300], action, propensity=propensity, cost=cost)
    return (rates[300:].max(axis=1) - (policy.predict_proba(X[300:]) * rates[300:]).sum(axis=1)).mean()


weights = {"clipped": "clipped", "power 0.5": Tempered(0.5), "power 0.8": Tempered(0.8)}
print(
    {
        name: round(float(np.mean([clicks_lost(weight, seed) for seed in range(20)])), 3)
        for name, weight in weights.items()
    }
)
