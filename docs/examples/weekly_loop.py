"""
Log, learn, prove, deploy, log again
====================================

This script writes the files of the page *The loop*, and runs its `learn` and `certify` commands. A shop draws one of
three banners for each visitor, and logs the banner, its probability ``p`` and the click. `python weekly_loop.py FOLDER`
keeps the files.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

from drcrm import load_policy

BANNERS, DEVICES = np.array(["music", "news", "sport"]), np.array(["desktop", "mobile", "tablet"])
FEATURES = "{numeric: [spent, visits], categorical: [device]}"
MAPPING = f"action: banner\npropensity: p\nreward: click\nfeatures: {FEATURES}\nalgorithm: kl_dro_dr\n"
folder, rng = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()), np.random.default_rng(0)
folder.mkdir(parents=True, exist_ok=True)


def draw_visitors(n: int = 2000) -> pd.DataFrame:
    """Return the visitors of a week."""
    numbers = {"spent": rng.exponential(30, n).round(2), "visits": rng.gamma(2, 3, n).round(2)}
    return pd.DataFrame({"visitor": np.arange(n), **numbers, "device": rng.choice(DEVICES, n)})


def click(visitors: pd.DataFrame, banner: np.ndarray) -> np.ndarray:
    """Return whether each visitor clicks: with probability 0.12 on the best banner of the device, else with 0.06."""
    is_best = np.searchsorted(BANNERS, banner) == np.searchsorted(DEVICES, visitors["device"])
    return (rng.random(len(visitors)) < np.where(is_best, 0.12, 0.06)).astype(int)


def write_week(name: str) -> None:
    """Write the file of a week in which the shop draws banners by its first policy, a softmax."""
    visitors = draw_visitors()
    scores = np.column_stack([visitors["visits"] / 6 - 1, np.zeros(len(visitors)), visitors["device"] == "mobile"])
    p = np.exp(scores / 2)
    p /= p.sum(axis=1, keepdims=True)
    place = (p.cumsum(axis=1) > rng.random((len(p), 1))).argmax(axis=1)
    logged = {"banner": BANNERS[place], "p": p[np.arange(len(p)), place], "click": click(visitors, BANNERS[place])}
    visitors.assign(**logged).to_csv(folder / name, index=False)


def run(*arguments: str) -> int:
    """Run a command of drcrm in the folder, print its answer, and return its exit status."""
    result = subprocess.run([sys.executable, "-m", "drcrm", *arguments], cwd=folder, capture_output=True, text=True)
    print(f"$ drcrm {' '.join(arguments)}\n{result.stdout}{result.stderr}exit status {result.returncode}\n")
    return result.returncode


# %%
# **Learn** a candidate from week 1.
(folder / "shop.yaml").write_text(MAPPING)
for week in range(1, 7):
    write_week(f"week{week}.csv")
run("learn", "week1.csv", "--config", "shop.yaml", "--output", "policy.npz")
candidate = "policy.candidate.npz" if (folder / "policy.candidate.npz").exists() else "policy.npz"

# %%
# **Look** each week, until the candidate is shown to be better.
for week in range(2, 7):
    weeks = [f"week{number}.csv" for number in range(2, week + 1)]
    if run("certify", candidate, *weeks, "--anytime", "--fail-unless", "better") == 0:
        break
else:
    print("Not shown in six weeks. A shop would go on looking, or learn again; the example deploys the candidate.\n")

# %%
# **Deploy** it, and **log again**. In a service, ``decide`` draws each banner and returns its probability.
visitors = draw_visitors()
banner, p = load_policy(folder / candidate).decide(visitors, random_state=rng)
visitors.assign(banner=banner, p=p, click=click(visitors, banner)).to_csv(folder / "second.csv", index=False)
(folder / "second.yaml").write_text(f"{MAPPING}least_propensity: 0.0166\n")  # a third of 5 %
run("learn", "second.csv", "--config", "second.yaml", "--output", "second.npz")

# %%
# The second log compares the deployed policy with itself. A baseline is another policy: here an estimate of the first
# one, which `learn` wrote to ``policy.npz`` if the candidate was not shown to be better at once.
run("certify", candidate, "second.csv")
run("certify", candidate, "second.csv", "--baseline", "policy.npz")
