"""Null logs with dependent rows: rewards do not depend on actions, and all rows of a user have the same action."""

import numpy as np
import pandas as pd
from drawn_actions import draw_actions
from scipy.special import softmax

USERS, VISITS = 200, 5
FEATURES = ["x0", "x1", "x2"]
MAPPING = {"action": "a", "propensity": "p", "reward": "r", "features": {"numeric": FEATURES}}


def draw_rows(rng, n: int) -> pd.DataFrame:
    """Return independent rows by a softmax policy."""
    X = rng.normal(size=(n, 3))
    p = softmax(X @ rng.normal(size=(3, 3)), axis=1)
    a = draw_actions(p, rng)
    return pd.DataFrame(X, columns=FEATURES).assign(
        a=np.array(list("uvw"))[a], p=p[np.arange(n), a], r=rng.normal(size=n)
    )


def draw_users(rng) -> pd.DataFrame:
    """Return five rows for each visitor, with the same features and action."""
    frame = draw_rows(rng, USERS).assign(visitor=[f"v{number}" for number in range(USERS)])
    frame = frame.loc[np.repeat(np.arange(USERS), VISITS)].reset_index(drop=True)
    frame["r"] += rng.normal(size=len(frame))
    return frame.sample(frac=1, random_state=0)
