"""
Compare your own learner
========================

An experiment of the workflow can compare drcrm with any class that learns from a log. The class needs ``fit(X, Y,
propensity=, cost=)``, and ``predict_proba`` (one action of K) or ``marginals`` (label vectors). This example writes
such a class and evaluates it on a log of known truth. In a configuration it is an algorithm with the entry
``{competitor: {"my_learners:NearestClicks": {n_neighbors: 50}}, label: nearest clicks}``.
"""

import numpy as np
from sklearn.neighbors import NearestNeighbors

from drcrm import DoublyRobustDRO, SoftmaxPolicy


class NearestClicks:
    """Take each action in proportion to its estimated reward in the most similar contexts."""

    def __init__(self, n_neighbors: int = 50):
        self.n_neighbors = n_neighbors

    def fit(self, X, Y, propensity, cost):
        """Store the reward of each row, divided by its propensity."""
        self.classes_ = np.unique(Y)
        self.value = (Y[:, None] == self.classes_) * ((cost.max() - cost) / propensity)[:, None]
        self.index = NearestNeighbors(n_neighbors=self.n_neighbors).fit(X)
        return self

    def predict_proba(self, X):
        """Return the probabilities of the actions, (n, K)."""
        value = self.value[self.index.kneighbors(X, return_distance=False)].mean(axis=1) + 1e-6
        return value / value.sum(axis=1, keepdims=True)


# %%
# The log has 3000 visitors, two features and a constant, and four offers.
rng = np.random.default_rng(0)
X = np.column_stack([rng.normal(size=(5000, 2)), np.ones(5000)])
rates = 0.5 / (1 + np.exp(-2 * np.sin(X @ rng.normal(size=(3, 4)))))
logging_policy = SoftmaxPolicy(rng.normal(size=(3, 4)))
offer = logging_policy.sample(X[:3000], random_state=0)
log = {
    "propensity": np.exp(logging_policy.log_prob(X[:3000], offer)),
    "cost": -(rng.random(3000) < rates[np.arange(3000), offer]).astype(float),
}

# %%
# Clicks per new visitor:
for name, learner in {"nearest clicks": NearestClicks(), "drcrm": DoublyRobustDRO()}.items():
    probability = learner.fit(X[:3000], offer, **log).predict_proba(X[3000:])
    print(f"{name}: {(probability * rates[3000:]).sum(axis=1).mean():.3f}")
print(f"logging policy: {(logging_policy.marginals(X[3000:]) * rates[3000:]).sum(axis=1).mean():.3f}")
