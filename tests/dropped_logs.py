"""Logs whose logger dropped events without a click, as dsjson's ``pdrop`` says."""

import numpy as np

from drcrm import BanditLog


def draw_dropped_log(n: int, seed: int, dropped: float, gain: float = 0.2) -> BanditLog:
    """Return the events that remain of n, for two actions in two kinds of contexts. The right action gets more."""
    rng = np.random.default_rng(seed)
    home, action = rng.integers(0, 2, (2, n))
    click = rng.random(n) < 0.1 + gain * (home == action)
    kept = click | (rng.random(n) >= dropped)
    home, action, click = home[kept], action[kept], click[kept]
    count = np.where(click, 1, round(1 / (1 - dropped)))
    X = np.column_stack([home, 1 - home]).astype(float)
    log = BanditLog(X, action, np.full(len(action), 0.5), -click.astype(float), count=count, n_actions=2)
    return log.replace(is_weighted=True)
