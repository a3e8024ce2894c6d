"""
Write your own weight
=====================

An importance weight multiplies each logged cost. The plain weight, the policy's probability of the logged action
divided by the propensity, can be large and noisy. This example implements a weight that raises the plain one to a power
below 1.
"""

import numpy as np
import sklearn
from sklearn.model_selection import GridSearchCV

from drcrm import CIPS
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
# Every estimator takes the weight, and scikit-learn's grid search reaches its parameter as ``weight__power``. The log
# has 500 visitors and three offers. The first feature decides which offer gets the most clicks.
rng = np.random.default_rng(0)
X = np.column_stack([rng.normal(size=500), np.ones(500)])
propensities = rng.dirichlet([0.3, 0.3, 0.3], 500) * 0.97 + 0.01
offer = (propensities.cumsum(axis=1) > rng.random((500, 1))).argmax(axis=1)
rates = 0.1 + 0.2 * (np.digitize(X[:, 0], [-0.5, 0.5])[:, None] == np.arange(3))
log = {"propensity": propensities[np.arange(500), offer]}
log["cost"] = -(rng.random(500) < rates[np.arange(500), offer]).astype(float)
with sklearn.config_context(enable_metadata_routing=True):
    search = GridSearchCV(CIPS(weight=Tempered()), {"weight__power": [0.25, 0.5, 0.75, 1.0]}).fit(X, offer, **log)

# %%
# Clicks per visitor, by the true rates:
for name, policy in {"chosen power": search.best_estimator_, "clipped weight": CIPS().fit(X, offer, **log)}.items():
    print(f"{name}: {(policy.predict_proba(X) * rates).sum(axis=1).mean():.3f}")
print(f"power {search.best_params_['weight__power']}, logging policy: {(propensities * rates).sum(axis=1).mean():.3f}")
