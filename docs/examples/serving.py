"""
Serve a policy
==============

`load_policy` reads a learned policy. `decide` draws an action for a context and returns it with its probability, the
propensity. Write the context, the action and the propensity to the next log.
"""

import json
import subprocess
import sys
import tempfile
import timeit
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from drcrm import load_policy

rng = np.random.default_rng(0)
folder = Path(tempfile.mkdtemp())

# %%
# A log with two features. Visitors over 50 like music, others sport.
log = pd.DataFrame({"age": rng.integers(18, 80, 4000), "city": rng.choice(["Basel", "Bern", "Zug"], 4000)})
log["section"] = rng.choice(["music", "sport"], 4000)
log["p"] = 0.5
log["click"] = (rng.random(4000) < np.where((log["age"] > 50) == (log["section"] == "music"), 0.3, 0.1)).astype(int)
log.to_csv(folder / "log.csv", index=False)

# %%
# Learn a policy from it.
features = {"numeric": ["age"], "categorical": ["city"]}
mapping = {"action": "section", "propensity": "p", "reward": "click", "features": features, "algorithm": "kl_dro_dr"}
command = [sys.executable, "-m", "drcrm", "learn", "log.csv", "--config", json.dumps(mapping), "--output", "policy.npz"]
print(subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout)

# %%
# Decide for two visitors, one at a time. A missing value is `None`; a city that the log lacks has no effect. Both
# propensities are close to 1, so the next log would hardly have other actions.
policy = load_policy(folder / "policy.npz")
print(policy.decide({"age": 70, "city": "Bern"}, random_state=0))
print(policy.decide({"age": None, "city": "Lugano"}, random_state=0))
seconds = min(timeit.repeat(lambda: policy.decide({"age": 70, "city": "Bern"}), number=1000, repeat=3)) / 1000
print(f"a decision takes less than a millisecond: {seconds < 1e-3}")

# %%
# `decide` also takes a data frame.
visitors = pd.DataFrame({"age": rng.integers(18, 80, 5000), "city": "Bern"})
sections, propensities = policy.decide(visitors, random_state=1)
shares = pd.crosstab(visitors["age"] // 5 * 5, np.asarray(sections), normalize="index")
axes = shares.plot.bar(stacked=True, figsize=(6, 3), width=0.9)
axes.set(xlabel="age, in steps of 5 years", ylabel="share of the decisions")
axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
plt.tight_layout()
plt.show()
