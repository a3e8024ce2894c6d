"""Small logs of label vectors and of lists of actions, with their mappings."""

import numpy as np
import pandas as pd

N = 600
LABELS = {"labels": ["a", "b"], "propensity": "p", "reward": "r", "features": {"numeric": ["x"], "categorical": ["g"]}}
LISTS = {"list": "visit", "chosen": "shown", "propensity": "p", "reward": "r", "features": {"numeric": ["x", "size"]}}


def label_log() -> pd.DataFrame:
    """Return a log of two labels by a logging policy with independent labels."""
    rng = np.random.default_rng(0)
    x, g = rng.normal(size=N), rng.choice(["u", "v"], N)
    mean = 1 / (1 + np.exp(-np.column_stack([x, 0.5 - x])))
    Y = (rng.random((N, 2)) < mean).astype(int)
    p = np.where(Y == 1, mean, 1 - mean).prod(axis=1)
    reward = (rng.random(N) < 0.2 + 0.3 * Y[:, 0] * (g == "u") + 0.3 * (1 - Y[:, 1])).astype(int)
    return pd.DataFrame({"x": x, "g": g, "a": Y[:, 0], "b": Y[:, 1], "p": p, "r": reward})


def list_log() -> pd.DataFrame:
    """Return a log with a row for each candidate: 2 to 4 candidates a list, chosen uniformly."""
    rng = np.random.default_rng(1)
    frames = []
    for visit in range(N):
        size = int(rng.integers(2, 5))
        frame = pd.DataFrame({"visit": visit, "x": rng.normal(size=size), "size": rng.exponential(size=size)})
        place = int(rng.integers(size))
        reward = int(rng.random() < 0.2 + 0.4 * (frame["x"][place] > 0))
        frames.append(frame.assign(shown=np.arange(size) == place, p=1 / size, r=reward))
    return pd.concat(frames).astype({"shown": int})
