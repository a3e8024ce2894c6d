"""
Learn from a table with a row for each candidate
================================================

Each visitor has a list of candidate articles. The table has a row for each candidate, and one of the rows of a list is
the article that was shown. `drcrm learn` multiplies the articles' features by the visitor's.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

from drcrm import load_policy

rng = np.random.default_rng(0)
folder = Path(tempfile.mkdtemp())

# %%
# 3000 visitors have 2 to 5 candidates each, and a uniform logging policy showed one of them. Young readers like food,
# the others news.
size = rng.integers(2, 6, 3000)
visitor = np.repeat(np.arange(3000), size)
table = pd.DataFrame({"visitor": visitor, "age": rng.integers(18, 80, 3000)[visitor]})
table["topic"] = rng.choice(["art", "food", "news"], len(table))
table["shown"] = rng.random(len(table))
table["shown"] = (table["shown"] == table.groupby("visitor")["shown"].transform("max")).astype(int)
table["p"] = 1 / size[visitor]
likes = np.where(table["age"] < 40, "food", "news")
table["click"] = (rng.random(len(table)) < np.where(table["topic"] == likes, 0.4, 0.1)).astype(int)
table.loc[table["shown"] == 0, ["p", "click"]] = np.nan  # only the shown article has an outcome
table.to_csv(folder / "log.csv", index=False)
print(table.head(6).to_string(index=False))

# %%
# In the mapping, `list` is the column with the visitor's id, and `chosen` marks the shown article.
mapping = (
    "{list: visitor, chosen: shown, propensity: p, reward: click, features: {numeric: [age], categorical: [topic]}}"
)
(folder / "mapping.yaml").write_text(mapping)
command = [sys.executable, "-m", "drcrm", "learn", "log.csv", "--config", "mapping.yaml", "--output", "policy.npz"]
print(subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout)

# %%
# An application passes the candidates in `_multi`. The answer is a position in this list, from 0, and its probability.
articles = [{"topic": topic} for topic in ("art", "food", "news")]
policy = load_policy(folder / "policy.npz")
for age in (25, 70):
    place, propensity = policy.decide({"age": age, "_multi": articles}, random_state=0)
    print(f"age {age}: {articles[place]['topic']} with probability {propensity:.2f}")
