"""
Learn a non-linear policy with a feature map
============================================

The scores of a policy are linear in the features. If the best action depends on the features in another way, a feature
map helps. It appends non-linear functions of the features. `features={"nystroem": 100}` appends 100 features that
approximate a Gaussian kernel. `RandomTreesEmbedding(30)` of scikit-learn appends a 0/1 feature per leaf of 30 trees.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import RandomTreesEmbedding

from drcrm import DoublyRobustDRO, SoftmaxPolicy

rng = np.random.default_rng(0)

# %%
# Action 1 is right on a ring, action 0 elsewhere. A line cannot separate the two regions.
X = np.column_stack([rng.uniform(-2, 2, size=(1500, 2)), np.ones(1500)])
radius = np.hypot(X[:, 0], X[:, 1])
right = ((radius > 0.8) & (radius < 1.6)).astype(int)
logging_policy = SoftmaxPolicy(np.zeros((3, 2)))  # chooses uniformly
action = logging_policy.sample(X, random_state=1)
cost = -1.0 * (action == right)
log = {"propensity": np.full(1500, 0.5), "cost": cost, "logging_policy": logging_policy}

# %%
# Fit an estimator without a feature map, and with two. White circles are the edges of the ring. Without a map, the
# policy takes action 0 everywhere. *Wrong* is the share of contexts in the log whose most probable action is wrong.
trees = RandomTreesEmbedding(30, random_state=0)
maps = {"linear": None, "Nyström, 100": {"nystroem": 100}, "random trees, 30": trees}
grid = np.linspace(-2, 2, 80)
points = np.column_stack([*(part.ravel() for part in np.meshgrid(grid, grid)), np.ones(80 * 80)])
figure, panels = plt.subplots(1, 3, figsize=(9, 3.2), layout="constrained", sharey=True)
for axes, (title, features) in zip(panels, maps.items(), strict=True):
    policy = DoublyRobustDRO(features=features).fit(X, action, **log)
    errors = (policy.predict(X) != right).mean()
    image = axes.imshow(
        policy.predict_proba(points)[:, 1].reshape(80, 80), origin="lower", extent=(-2, 2, -2, 2), vmin=0, vmax=1
    )
    axes.contour(grid, grid, np.hypot(*np.meshgrid(grid, grid)), levels=[0.8, 1.6], colors="white")
    axes.set(title=f"{title}: {errors:.0%} wrong", xlabel="feature 1")
panels[0].set_ylabel("feature 2")
figure.colorbar(image, ax=panels, label="probability of action 1")
plt.show()
