"""
Learn from a dsjson log
=======================

Vowpal Wabbit's dsjson format has one event per line: the context, a list of actions with features, the chosen action,
its probability and its cost. `drcrm learn` reads it without a mapping, the file that describes the columns of a table.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from drcrm import load_policy

rng = np.random.default_rng(0)
folder = Path(tempfile.mkdtemp())
TOPICS = "art", "food", "news"


def event() -> dict:
    """Return one decision of a uniform logging policy. It shows one of three articles, one for each topic."""
    age = int(rng.integers(18, 80))
    chosen = int(rng.integers(3))
    # readers like food up to an age of 35, then news, and art from 61
    likes = TOPICS[0] if age > 60 else TOPICS[2] if age > 35 else TOPICS[1]
    clicked = rng.random() < (0.3 if TOPICS[chosen] == likes else 0.1)
    order = [chosen, *(place for place in range(3) if place != chosen)]  # the chosen action first
    return {
        "_label_cost": -int(clicked),
        "_label_probability": 1 / 3,
        "_label_Action": chosen + 1,
        "_labelIndex": chosen,
        "a": [place + 1 for place in order],
        "p": [1 / 3] * 3,
        "c": {"User": {"age": age / 40}, "_multi": [{"Article": {"topic": topic}} for topic in TOPICS]},
    }


# %%
# Write 6000 events. The first one is below; ages are divided by 40, as drcrm does not standardise numbers of dsjson.
lines = [json.dumps(event()) for _ in range(6000)]
(folder / "events.dsjson").write_text("\n".join(lines))
print(lines[0])

# %%
# Run `drcrm learn`, as in a terminal. The example *Read a verdict* explains its answer.
command = [sys.executable, "-m", "drcrm", "learn", "events.dsjson", "--output", "policy.npz"]
print(subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout)

# %%
# The policy decides for contexts in the same format. An action is a position in `_multi`, from 0. For every age, the
# policy chooses the topic that readers of this age like.
policy = load_policy(folder / "policy.npz")
ages = np.arange(18, 80)
articles = [{"Article": {"topic": topic}} for topic in TOPICS]
places, propensities = policy.decide([{"User": {"age": age / 40}, "_multi": articles} for age in ages], random_state=0)

figure, axes = plt.subplots(figsize=(6, 2.2), layout="constrained")
axes.scatter(ages, places, s=12)
axes.set(yticks=range(3), yticklabels=TOPICS, xlabel="age", ylabel="chosen topic", ylim=(-0.5, 2.5))
plt.show()
