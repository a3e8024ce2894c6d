"""
Learn a first policy
====================

A shop shows one of four sections to each visitor. The log has the visitor's features, the section, the probability with
which the shop chose it, and whether the visitor clicked. `DoublyRobustDRO` learns a policy from this log that gets more
clicks. A policy gives each section a probability, depending on the features.

The log is synthetic, so the true click rate of every policy is known.
"""

import matplotlib.pyplot as plt
import numpy as np

from drcrm import DoublyRobustDRO, SoftmaxPolicy

rng = np.random.default_rng(0)

# %%
# A context, one row of X, has three features and a constant. The logging policy, which chose the sections in the log,
# is a softmax policy.
X = np.column_stack([rng.normal(size=(5000, 3)), np.ones(5000)])
logging_policy = SoftmaxPolicy(0.5 * rng.normal(size=(4, 4)))
interests = rng.normal(size=(4, 4))  # how click rates depend on the features, which the log does not contain


def click_rates(X: np.ndarray) -> np.ndarray:
    """Return the click rate of each section."""
    return 0.3 / (1 + np.exp(-X @ interests))


# %%
# The log has an action, its probability (the propensity) and a cost for each visitor. A click is a cost of −1.
section = logging_policy.sample(X, random_state=1)
propensity = np.exp(logging_policy.log_prob(X, section))
clicked = rng.random(5000) < click_rates(X)[np.arange(5000), section]
cost = -clicked.astype(float)

# %%
# `fit` holds out a quarter of the visitors, and tests several policies on them. If none is shown to be better than the
# logging policy, it returns the logging policy. A negative difference is a lower cost, that is, more clicks. The
# printed bound is a little too low, because it ignores that several policies were tested.
policy = DoublyRobustDRO().fit(X, section, propensity=propensity, cost=cost, logging_policy=logging_policy)
print(f"cost difference from the logging policy: at most {policy.improvement_bound_:.3f} per visitor")

# %%
# The click rates on 20 000 new visitors, computed from the true click rates of the sections:
X_new = np.column_stack([rng.normal(size=(20_000, 3)), np.ones(20_000)])
rates = click_rates(X_new)
true_rates = {
    "logging policy": (logging_policy.marginals(X_new) * rates).sum(axis=1).mean(),
    "learned policy": (policy.predict_proba(X_new) * rates).sum(axis=1).mean(),
    "best section": rates.max(axis=1).mean(),
}
figure, axes = plt.subplots(figsize=(6, 2.4), layout="constrained")
axes.barh([*true_rates], [*true_rates.values()], color=["0.6", "C0", "0.8"])
axes.invert_yaxis()
axes.set_xlabel("clicks per visitor")
plt.show()
