"""Log of a shop by a known logging policy."""

from __future__ import annotations

import numpy as np
import pandas as pd

NAMES = np.array(["news", "sport", "art & <b>music</b>"])
MAPPING = {
    "action": "item",
    "propensity": "p",
    "reward": "click",
    "features": {"numeric": ["age", "price"], "categorical": ["city"]},
    "slice": "position",
    "algorithm": "kl_dro_dr",
}
CITIES = np.array(["Bern", "Zürich", "Genf"])


def decisions(n: int, seed: int = 0) -> pd.DataFrame:
    """Return n rows of a softmax logging policy; the best action depends on the city and the price."""
    rng = np.random.default_rng(seed)
    age, price, city = rng.normal(40, 9, n), rng.exponential(30, n), rng.integers(0, 3, n)
    scores = np.column_stack([age / 20, price / 40, np.full(n, 1.5)])
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    item = (p.cumsum(axis=1) > rng.random(n)[:, None]).argmax(axis=1)
    click = rng.random(n) < np.where(item == (city + (price > 30)) % 3, 0.6, 0.15)
    frame = pd.DataFrame({"age": age, "price": price, "city": CITIES[city], "item": NAMES[item]})
    return frame.assign(p=p[np.arange(n), item], click=click.astype(int), position=rng.integers(1, 3, n))
