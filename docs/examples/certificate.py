"""
Certify a policy
================

A certificate is an upper confidence bound on a policy's cost. Compute it on rows that the policy was not trained on.
The policies of this example are given, not learned from the log, so all rows of a log can certify them.
"""

import matplotlib.pyplot as plt
import numpy as np

from drcrm import BanditLog, SoftmaxPolicy, off_policy_value
from drcrm.certificates import policy_certificate

coef = np.random.default_rng(0).normal(size=(4, 3))
logging_policy, policy = SoftmaxPolicy(0.3 * coef), SoftmaxPolicy(1.5 * coef)  # 1.5: chooses the best more often


def draw_log(n: int, seed: int) -> BanditLog:
    """Return a log of n visits to a shop with three sections. A click is a cost of −1."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=(n, 3)), np.ones(n)])
    action = logging_policy.sample(X, random_state=seed)
    rates = 0.4 / (1 + np.exp(-X @ coef))
    click = rng.random(n) < rates[np.arange(n), action]
    return BanditLog(X, action, np.exp(logging_policy.log_prob(X, action)), -click.astype(float))


# %%
# The certificate for 3000 rows starts with the bound. "As n → ∞" means that its confidence is only approximate. In
# brackets are:
#
# - the cost, estimated by importance weights and a cost model (`dr`). A weight is the policy's probability of an action
#   divided by its propensity. The cost model is cross-fitted;
# - the method of the bound (`asymptotic`), the unit that counts as one observation (`row`), and the number of units;
# - the effective sample size: how many rows with equal weights are worth as much;
# - the mean weight, which is close to 1 if the propensities are right and the log has all actions of the policy.
log = draw_log(3000, seed=1)
print(policy_certificate(policy, log))

# %%
# `baseline="logging"` bounds the policy's cost minus the logging policy's. A bound below 0 shows that the policy is
# better.
print(policy_certificate(policy, log, baseline="logging"))

# %%
# The bound comes closer to the true cost with more rows. A policy far from the logging policy needs more rows, because
# larger importance weights make its effective sample size smaller. A log of 300 000 rows estimates the true cost.
sizes = [300, 1000, 3000, 10_000, 30_000]
logs, large_log = [draw_log(n, seed=3) for n in sizes], draw_log(300_000, seed=2)
figure, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
for name, factor in {"near the logging policy": 0.5, "farther": 1.5, "far": 5}.items():
    policy = SoftmaxPolicy(factor * coef)
    truth = off_policy_value(policy, large_log)
    certificates = [policy_certificate(policy, log) for log in logs]
    share = certificates[-1].effective_size / sizes[-1]
    distances = [certificate.bound - truth for certificate in certificates]
    axes.plot(sizes, distances, marker="o", label=f"{name}: {share:.0%} of the rows are effective")
axes.set(xscale="log", yscale="log", xlabel="rows of the log", ylabel="bound minus true cost")
figure.legend(loc="outside upper center")
plt.show()
