"""
Choose a hyper-parameter by grid search
=======================================

The estimators follow scikit-learn's conventions, so `GridSearchCV` chooses their hyper-parameters. The score of a
candidate is its mean reward, estimated from held-out rows of the log. Higher is better.
"""

import matplotlib.pyplot as plt
import numpy as np
import sklearn
from sklearn.model_selection import GridSearchCV

from drcrm import KLDRO, ExponentialPolicy

rng = np.random.default_rng(1)

# %%
# A log of 200 rows. An action is a vector of three labels, each 0 or 1. Its cost is the number of wrong labels minus 3,
# so no cost is above 0. Otherwise a policy that avoids the logged actions could look best.
X = np.column_stack([rng.normal(size=(200, 4)), np.ones(200)])
coef = rng.normal(size=(5, 3))
right = rng.random((200, 3)) < 1 / (1 + np.exp(-X @ coef))
logging_policy = ExponentialPolicy(0.3 * rng.normal(size=(5, 3)))
Y = logging_policy.sample(X, random_state=1)
propensity = np.exp(logging_policy.log_prob(X, Y))
cost = (right != Y).sum(axis=1) - 3.0

# %%
# Metadata routing passes propensities and costs to `fit` and `score`. The default score is minus the mean cost,
# weighted by clipped importance weights (clipped SNIPS). A larger radius of `KLDRO` makes the policy more cautious.
radii = np.geomspace(0.001, 1, 7)
with sklearn.config_context(enable_metadata_routing=True):
    search = GridSearchCV(KLDRO(), {"radius": radii}).fit(X, Y, propensity=propensity, cost=cost)
print(f"best radius: {search.best_params_['radius']:.2g}")

# %%
# The data are synthetic, so the true loss of each policy is known. A small radius overfits the log, and a large one
# makes the policy too cautious. The best radius is 0.01, next to the chosen one.
X_new = np.column_stack([rng.normal(size=(5000, 4)), np.ones(5000)])
p_new = 1 / (1 + np.exp(-X_new @ coef))
losses = []
for radius in radii:
    p = KLDRO(radius=radius).fit(X, Y, propensity=propensity, cost=cost).predict_proba(X_new)
    losses.append((p * (1 - p_new) + (1 - p) * p_new).sum(axis=1).mean())

figure, panels = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
panels[0].plot(radii, search.cv_results_["mean_test_score"], marker="o")
panels[0].set_ylabel("score (higher is better)")
panels[1].plot(radii, losses, marker="o", color="C1")
panels[1].set_ylabel("true loss: wrong labels of 3")
for axes in panels:
    axes.set(xscale="log", xlabel="radius ε of the KL ball")
    axes.axvline(search.best_params_["radius"], color="0.7", linestyle="--", label="chosen radius")
panels[0].legend()
plt.show()
