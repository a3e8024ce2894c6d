"""Random logs in Vowpal Wabbit's formats: dsjson with irregular lines, text of lists and of single actions."""

import json

import numpy as np


def dsjson(n: int, seed: int = 0, dropped=(0, 0.3, 0.5), base: int = 1, odd: float = 0.1) -> str:
    """Return decisions among 2 to 5 items, with irregular lines and copies. The cheapest item is best."""
    rng, lines = np.random.default_rng(seed), []
    for number in range(n):
        prices = rng.normal(size=rng.integers(2, 6)).round(2)
        p = 0.8 * rng.dirichlet(np.ones(len(prices))).round(3) + 0.2 / len(prices)
        chosen = int(rng.integers(len(prices)))
        order = [chosen, *(item for item in range(len(prices)) if item != chosen)]
        event = {
            "_label_cost": -float(rng.random() < (0.6 if prices[chosen] == prices.min() else 0.2)),
            "_label_probability": p[0],
            "_label_Action": chosen + base,
            "_labelIndex": chosen,
            "EventId": str(number),
            "a": [item + base for item in order],
            "c": {
                "User": {"city": f"c{rng.integers(4)}", "age": int(rng.integers(3))},
                "_multi": [{"A": {"id": f"i{rng.integers(8)}", "price": price}} for price in prices],
            },
            "p": p.tolist(),
        }
        if len(dropped) > 1:
            event["pdrop"] = float(rng.choice(dropped))
        drawn = (rng.random(4) < odd).tolist()
        if drawn[0]:
            event["_skipLearn"] = True
        lines += [json.dumps(event)] * (1 + 2 * drawn[1])
        lines += ['[CHECKPOINT {"a": 1}]'] * drawn[2] + ['{"RewardValue": 1, "EventId": "e"}', ""] * drawn[3]
    return "\n".join(lines) + "\n"


def vw_lists(n: int, seed: int = 0) -> str:
    """Return blocks of 1 to 4 actions, some without a label or a shared line, separated by one or two empty lines."""
    rng, lines = np.random.default_rng(seed), []
    for _ in range(n):
        n_items = int(rng.integers(1, 5))
        chosen = int(rng.integers(n_items)) if rng.random() < 0.9 else None
        lines += [f"shared |user age:{rng.integers(3)}"] * int(rng.random() < 0.8)
        label = f"0:{-rng.integers(3)}:{rng.choice([0.25, 0.5, 0.75])} "
        items = rng.permutation(5)[:n_items]
        lines += [f"{label * (at == chosen)}|a id{item} n:{rng.integers(4)}" for at, item in enumerate(items)]
        lines += [""] * rng.integers(1, 3)
    return "\n".join(lines)


def vw_single(n: int, seed: int = 0) -> str:
    """Return lines with one of 4 actions; the last line has action 7."""
    rng = np.random.default_rng(seed)
    actions = [*rng.integers(1, 5, n - 1), 7]
    lines = [
        f"{a}:{-rng.integers(3)}:0.{rng.integers(1, 9)} |user age:{rng.integers(4)} c{rng.integers(9)}" for a in actions
    ]
    return "\n".join(line + "\n" * int(rng.random() < 0.1) for line in lines)


LOGS = {
    "log.dsjson": dsjson(150),
    "plain.json": dsjson(150, 1, dropped=(), odd=0),
    "copies.dsjson": dsjson(150, 2, dropped=(), base=0, odd=0.4),
    "lists.vw": vw_lists(150),
    "single.txt": vw_single(150),
}
