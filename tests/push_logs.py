"""Logs of push messages: a second action raises clicks, and perhaps unsubscriptions."""

import numpy as np
import pandas as pd

SHARE = 0.8  # probability of the second action under the policy in the column "mine"; the logging policy has ½
MAPPING = {
    "action": "a",
    "propensity": "p",
    "reward": "click",
    "features": {"numeric": ["x"]},
    "algorithm": "kl_dro_dr",
    "booleans": "yes/no",
}
UNSUBSCRIBED = {"cost": "unsubscribed", "at_most": 0.01}
REVENUE = {"reward": "revenue", "at_least": "-1 %"}


def push_log(n: int, seed: int = 0, harm: float = 0.0, clicks: float = 0.15) -> pd.DataFrame:
    """Return n rows; the second action has ``clicks`` more clicks and ``harm`` more unsubscriptions per row."""
    rng = np.random.default_rng(seed)
    x, a = rng.normal(size=n), rng.integers(0, 2, n)
    click = (rng.random(n) < 0.15 + clicks * a).astype(int)
    unsubscribed = rng.random(n) < 0.05 + harm * a
    revenue = np.round(click * rng.uniform(1, 3, n), 2)
    frame = pd.DataFrame({"x": x, "a": a, "p": 0.5, "click": click, "revenue": revenue})
    return frame.assign(unsubscribed=np.where(unsubscribed, "yes", "no"), mine=np.where(a == 1, SHARE, 1 - SHARE))
