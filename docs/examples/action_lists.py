"""
Choose from a list of candidates
================================

Each visitor has a list of candidate articles, and lists differ in length. The policy scores every candidate by its
features. A feature of the visitor, such as age, is equal for the whole list and has no effect. Use its products with
features of the articles.
"""

import matplotlib.pyplot as plt
import numpy as np

from drcrm import ActionLists, DoublyRobustDRO, SoftmaxPolicy

rng = np.random.default_rng(0)
taste = rng.normal(size=4)  # how the click rate depends on a candidate's features

# %%
# The log has 4000 lists of 2 to 8 candidates, and `features` has a row for each candidate. `starts` has the first row
# of each list and, at its end, the number of rows.
lengths = rng.integers(2, 9, size=4000)
features = rng.normal(size=(lengths.sum(), 4))
starts = np.concatenate([[0], lengths.cumsum()])
lists = ActionLists(features, starts)
click_rates = 1 / (1 + np.exp(1 - features @ taste))

# %%
# All coefficients of the logging policy are 0, so it chooses uniformly. An action is a position in the list, from 0. A
# click is a cost of −1.
logging_policy = SoftmaxPolicy(np.zeros(4))
place = logging_policy.sample(lists, random_state=1)
propensity = 1 / lengths
cost = -(rng.random(4000) < click_rates[starts[:-1] + place]).astype(float)

# %%
# The data are synthetic, so the true click rate of a policy is known. It is the mean of the candidates' click rates,
# weighted by the policy's probabilities.
policy = DoublyRobustDRO().fit(lists, place, propensity=propensity, cost=cost, logging_policy=logging_policy)
probability = policy.predict_proba(lists)  # one entry for each candidate
learned = np.add.reduceat(probability * click_rates, starts[:-1])
uniform = np.add.reduceat(click_rates, starts[:-1]) / lengths
best = np.maximum.reduceat(click_rates, starts[:-1])
print(f"clicks per visitor: {uniform.mean():.3f} logged, {learned.mean():.3f} learned, {best.mean():.3f} at best")

# %%
# A longer list gives the policy more to choose from. The learned policy stays close to the best candidate.
figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
for name, rates in {"best candidate": best, "learned policy": learned, "logging policy": uniform}.items():
    axes.plot(range(2, 9), [rates[lengths == n].mean() for n in range(2, 9)], marker="o", label=name)
axes.set(xlabel="candidates in the list", ylabel="clicks per visitor", ylim=(0, None))
axes.legend()
plt.show()
