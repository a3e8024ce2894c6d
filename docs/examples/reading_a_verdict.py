"""
Read a verdict
==============

`drcrm learn` compares the learned policy with the logging policy on held-out rows. Its answer starts with one of five
verdicts: better, not shown, worse, the log cannot say, the log is wrong. This example shows four logs of the same shop
and the verdict on each; none is *worse*.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

MAPPING = {"action": "section", "propensity": "p", "reward": "click", "features": {"numeric": ["age"]}}
folder = Path(tempfile.mkdtemp())


def visits(n: int, sharpness: float, seed: int) -> pd.DataFrame:
    """Return a log. The larger the sharpness, the less often the logging policy takes other than its first choice."""
    rng = np.random.default_rng(seed)
    age = rng.normal(40, 12, n).round()
    scores = sharpness * np.column_stack([age / 20 - 2, 1 - age / 40, np.zeros(n)])
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    section = (p.cumsum(axis=1) > rng.random(n)[:, None]).argmax(axis=1)
    best = np.where(age > 45, 0, np.where(age > 35, 1, 2))
    click = (rng.random(n) < np.where(section == best, 0.3, 0.1)).astype(int)
    names = np.array(["art", "food", "news"])[section]
    return pd.DataFrame({"age": age, "section": names, "p": p[np.arange(n), section], "click": click})


def learn(name: str, log: pd.DataFrame) -> dict:
    """Run `drcrm learn` on a log, print its answer, and return the answer in JSON."""
    log.to_csv(folder / "log.csv", index=False)
    mapping = json.dumps({**MAPPING, "algorithm": "kl_dro_dr"})
    files = ["log.csv", "--config", mapping, "--output", "policy.npz", "--json", "answer.json"]
    command = [sys.executable, "-m", "drcrm", "learn", *files]
    print(f"--- {name}\n{subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout}")
    return json.loads((folder / "answer.json").read_text())


# %%
# **Better.** The log has 6000 visits, and the logging policy explores: it often takes other sections than its first
# choice. After the verdict comes the estimated gain, and a lower confidence bound on it. `learn` chose the policy from
# 16 candidates, which makes the bound lower. The columns of the table are:
#
# - *certified ≥*: a lower confidence bound on the reward, also adjusted for the candidates;
# - *eff. sample size*: the number of equally weighted rows with the same precision as the held-out rows;
# - *by*: the estimate, DR (doubly robust) or IPS (importance-weighted).
answers = {"explores": learn("explores", visits(6000, 1, 0))}

# %%
# **Not shown.** With 300 visits the estimated gain is as large, but it could be chance, so `learn` returns the logging
# policy. The answer estimates how many rows would show such a gain in half of the cases.
answers["few rows"] = learn("few rows", visits(300, 1, 1))

# %%
# **The log cannot say.** The logging policy is a fixed rule, so the log has no information about other actions. More
# rows of this kind would not help. Do not trust the gain in the table.
answers["fixed rule"] = learn("fixed rule", visits(6000, 1e9, 2))

# %%
# **The log is wrong.** The column of propensities has ⅓ everywhere, but the logging policy preferred sections by age.
# The likelihood ratio of the audit is a logarithm to base 10.
answers["wrong propensities"] = learn("wrong propensities", visits(6000, 1, 3).assign(p=1 / 3))

# %%
# All four 95 % intervals are above 0, but only one verdict is *better*. The bound of the verdict is adjusted for the
# number of candidates, and the log must also pass the checks.
figure, axes = plt.subplots(figsize=(7, 2.8), layout="constrained")
for place, answer in enumerate(answers.values()):
    [gain] = [candidate["difference"] for candidate in answer["candidates"] if candidate["name"] == "kl_dro_dr"]
    axes.plot([-gain["low"], -gain["high"]], [place, place], color="C0", linewidth=2)
    axes.plot(-gain["value"], place, "o", color="C0")
    axes.text(0.27, place, answer["verdict"]["verdict"], va="center")
axes.axvline(0, color="0.6", linestyle="--")
axes.set(yticks=range(4), yticklabels=answers, xlim=(-0.02, 0.42), ylim=(3.5, -0.5))
axes.set_xlabel("estimated gain over the logging policy, in clicks per visit")
plt.show()
