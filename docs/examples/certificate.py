"""
Certify a policy
================

A certificate is an upper confidence bound on a policy's cost. Compute it on rows that the policy was not trained on.
This example certifies fixed policies on logs of different sizes.
"""

import matplotlib.pyplot as plt
import numpy as np

from drcrm import BanditLog, SoftmaxPolicy, off_policy_value
from drcrm.certificates import policy_certificate

coef = np.random.default_rng(0).normal(size=(4, 3))
logging_policy, policy = SoftmaxPolicy(0.3 * coef), SoftmaxPolicy(1.5 * coef)


def draw_log(n: int, seed: int) -> BanditLog:
    """Return a log of n visits to a shop with three sections. A click is a cost of −1."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=(n, 3)), np.ones(n)])
    action = logging_policy.sample(X, random_state=seed)
    rates = 0.4 / (1 + np.exp(-X @ coef))
    click = rng.random(n) < rates[np.arange(n), action]
    return BanditLog(X, action, np.exp(logging_policy.log_prob(X, action)), -click.astype(float))


# %%
# The certificate for 3000 rows. Its text names the cost that it bounds and its confidence level.
log = draw_log(3000, seed=1)
print(policy_certificate(policy, log))

# %%
# `baseline="logging"` bounds the difference to the logging policy's cost. Below 0, the policy is better.
print(policy_certificate(policy, log, baseline="logging"))

# %%
# The bound comes closer to the true cost with more rows. A policy far from the logging policy needs more of them: its
# importance weights are larger, so the effective sample size is smaller.
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
