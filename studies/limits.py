"""How often does a limit that is shown to hold hold on new rows, and what does the limit cost?

The log has 8000 rows with three actions, drawn uniformly. A call gains .12 + .6 x², with x uniform on [0, 1], and mail
gains .1; the rewards are 0 or 1. Without a limit, everybody is called. `learn` chooses a policy with the limit
`{call: 20 %}`, and with a budget of .3 at prices of .1 for mail and 1 for a call. New rows are 100 000 contexts.

The table has a row per limit and kind of candidates, which are ``readable`` (trees and single actions) or ``linear``
(KL-DRO on doubly robust costs): the number of ``logs``; the share of *better*; ``shown``, the share in which the answer
says that the limit holds; ``wrong``, the share in which it says so and the limit is exceeded on new rows; ``covered``,
the share in which the share or mean price on new rows is at most the bound; ``used``, its mean on new rows; ``gain``,
the mean true gain over the logging policy of the policy with the limit; and ``best``, the gain of the best policy
within the limit, which knows the gain of each context and has the same share of uniform actions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from cells import means, number, table_of

import drcrm

ROWS, NEW = 8000, 10**5
ACTIONS = ["call", "mail", "none"]
EXPLORE = 0.05
PRICES = {"call": 1.0, "mail": 0.1, "none": 0.0}
LIMITS: dict[str, dict[str, Any]] = {
    "share of call": {"limits": {"call": "20 %"}},
    "budget": {"budget": {"prices": PRICES, "at_most": 0.3}},
}
MAPPING = {"action": "a", "propensity": "p", "reward": "r", "features": {"numeric": ["x", "y"]}, "explore": EXPLORE}
CANDIDATES = ("readable", "linear")


def gains(x: np.ndarray) -> np.ndarray:
    """Return the mean rewards of the actions, (n, 3), without that of no action."""
    return np.column_stack([0.12 + 0.6 * x**2, np.full(len(x), 0.1), np.zeros(len(x))])


def draw_log(rows: int, rng: np.random.Generator) -> pd.DataFrame:
    """Return a log of uniform actions."""
    x, y, a = rng.random(rows), rng.random(rows), rng.integers(0, 3, rows)
    reward = 1 * (rng.random(rows) < 0.2 + gains(x)[np.arange(rows), a])
    return pd.DataFrame({"x": x, "y": y, "a": np.array(ACTIONS)[a], "p": 1 / 3, "r": reward})


def best_gain(limit: str) -> float:
    """Return the gain of the best policy within a limit, with the share of uniform actions, over the uniform policy.

    Calls go to the contexts with the largest x, and mail to all others. With c calls, the share is c and the price
    c + .1 (1 − c), before uniform actions join.
    """
    uniform_share, uniform_price = 1 / 3, 1.1 / 3
    share = (0.2 - EXPLORE * uniform_share) / (1 - EXPLORE)
    if limit == "budget":
        share = ((0.3 - EXPLORE * uniform_price) / (1 - EXPLORE) - 0.1) / 0.9
    calls = 0.12 * share + 0.2 * (1 - (1 - share) ** 3)
    return (1 - EXPLORE) * (calls + 0.1 * (1 - share) - (0.32 + 0.1) / 3)


def measure(repetition: int, candidates: tuple[str, ...] = CANDIDATES) -> Iterator[dict[str, object]]:
    """Yield a row per limit and kind of candidates."""
    rng = np.random.default_rng([repetition, 0])
    frame, later = draw_log(ROWS, rng), draw_log(NEW, rng)
    for limit, keys in LIMITS.items():
        for kind in candidates:
            mapping = MAPPING | keys | ({} if kind == "readable" else {"algorithm": "kl_dro_dr"})
            answer = drcrm.learn(frame, mapping, readable=kind == "readable", seed=repetition)
            [result] = answer.as_dict()["limits"]
            stored = answer.policy if answer.is_better else answer.candidate
            probability = stored.policy.marginals(stored.encoding.contexts(later))
            order = [list(map(str, stored.encoding.names)).index(name) for name in ACTIONS]
            probability = probability[:, order]
            prices = [1.0, 0.0, 0.0] if limit != "budget" else [PRICES[name] for name in ACTIONS]
            used, shown = float((probability @ prices).mean()), result["status"] == "holds"
            yield {
                "limit": limit,
                "candidates": kind,
                "better": answer.is_better,
                "shown": shown,
                "wrong": shown and used > result["at_most"],
                "covered": used <= result["bound"],
                "used": used,
                "gain": float(((probability - 1 / 3) * gains(later["x"].to_numpy())).sum(axis=1).mean()),
            }


def tabulate(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the shares and means by limit and kind of candidates."""
    table = means(rows, ["limit", "candidates"])
    return table.assign(best=table["limit"].map(best_gain))


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """Return how often limits hold, and their cost."""
    shares = {"better": "*better*", "shown": "said to hold", "wrong": "wrongly", "covered": "use ≤ bound"}
    columns = shares | {"used": "use", "gain": "gain", "best": "gain of the best policy"}
    cells = ((row["limit"], row["candidates"], *(number(row[name]) for name in columns)) for _, row in table.iterrows())
    return table_of(("limit", "candidates", *columns.values()), cells)
