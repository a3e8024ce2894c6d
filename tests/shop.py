"""Log of a shop by a known logging policy."""

import numpy as np
import pandas as pd
from drawn_actions import draw_actions
from scipy.special import softmax

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
    p = softmax(np.column_stack([age / 20, price / 40, np.full(n, 1.5)]), axis=1)
    item = draw_actions(p, rng)
    click = rng.random(n) < np.where(item == (city + (price > 30)) % 3, 0.6, 0.15)
    frame = pd.DataFrame({"age": age, "price": price, "city": CITIES[city], "item": NAMES[item]})
    return frame.assign(p=p[np.arange(n), item], click=click.astype(int), position=rng.integers(1, 3, n))
