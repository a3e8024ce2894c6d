"""Null logs of dependent rows: rewards do not depend on actions, and rows of a user have one action."""

from __future__ import annotations

import numpy as np
import pandas as pd

USERS, VISITS = 200, 5
FEATURES = ["x0", "x1", "x2"]
MAPPING = {"action": "a", "propensity": "p", "reward": "r", "features": {"numeric": FEATURES}}


def drawn(rng, n: int) -> pd.DataFrame:
    X = rng.normal(size=(n, 3))
    p = np.exp(X @ rng.normal(size=(3, 3)))
    p /= p.sum(axis=1, keepdims=True)
    a = (p.cumsum(axis=1) > rng.random(n)[:, None]).argmax(axis=1)
    return pd.DataFrame(X, columns=FEATURES).assign(
        a=np.array(list("uvw"))[a], p=p[np.arange(n), a], r=rng.normal(size=n)
    )


def users(rng, is_constant: bool) -> pd.DataFrame:
    """Each visitor has the same action at each visit; features may be drawn anew."""
    frame = drawn(rng, USERS).assign(visitor=[f"v{number}" for number in range(USERS)])
    frame = frame.loc[np.repeat(np.arange(USERS), VISITS)].reset_index(drop=True)
    frame["r"] += rng.normal(size=len(frame))
    if not is_constant:
        frame[FEATURES] = rng.normal(size=(len(frame), 3))
    return frame.sample(frac=1, random_state=0)


def jittered(rng) -> pd.DataFrame:
    frame = drawn(rng, USERS).loc[np.repeat(np.arange(USERS), VISITS)].reset_index(drop=True)
    return frame.assign(x0=frame["x0"] + 1e-3 * rng.normal(size=len(frame))).sample(frac=1, random_state=0)
