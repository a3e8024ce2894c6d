"""What `drcrm learn` takes on dsjson: python -m benchmarks.text [DECISIONS …]

Made logs of 10 actions a decision, drawn from 200 items with five numbers and a name each; a context is a city of 20
and an age. A click depends on items and contexts, π0 on some of both, with 2 % for each action.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
from scipy.special import expit, softmax

from .scale import measured

ACTIONS, ITEMS, CITIES, NUMBERS = 10, 200, 20, 5


def events(n: int, seed: int = 1) -> Iterator[dict]:
    rng, world = np.random.default_rng(seed), np.random.default_rng(7)
    items, cities, liked = (world.normal(size=size) for size in ((ITEMS, NUMBERS), (CITIES, NUMBERS), NUMBERS))
    items = items.round(3)
    for number in range(n):
        listed = rng.choice(ITEMS, ACTIONS, replace=False)
        city, age = int(rng.integers(CITIES)), round(float(rng.random()), 3)
        score = items[listed] @ (cities[city] + age * liked)
        p = 0.2 / ACTIONS + 0.8 * softmax(0.4 * items[listed] @ liked + 0.3 * score)
        chosen = int(rng.choice(ACTIONS, p=p / p.sum()))
        order = [chosen, *(each for each in range(ACTIONS) if each != chosen)]
        yield {
            "_label_cost": -float(rng.random() < expit(0.7 * score[chosen] - 2)),
            "_label_probability": p[chosen],
            "_label_Action": chosen + 1,
            "_labelIndex": chosen,
            "EventId": f"e{number}",
            "a": [each + 1 for each in order],
            "c": {
                "User": {"city": f"c{city}", "age": age},
                "_multi": [{"A": {"id": f"i{each}", **_named(items[each])}} for each in listed],
            },
            "p": p[order].tolist(),
        }


def _named(numbers: np.ndarray) -> dict[str, float]:
    return {f"f{place}": float(each) for place, each in enumerate(numbers)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("decisions", nargs="*", type=int, default=[100_000], metavar="DECISIONS")
    found = []
    with TemporaryDirectory() as folder:
        log = Path(folder) / "log.dsjson"
        for n in parser.parse_args().decisions:
            with log.open("w", encoding="utf-8") as file:
                file.writelines(f"{json.dumps(each)}\n" for each in events(n))
            size = log.stat().st_size / 1e6
            used = measured(sys.executable, "-m", "drcrm", "learn", log, "--output", log.with_suffix(".npz"))
            found.append({"decisions": n, "text MB": size, **used})
    print(pd.DataFrame(found).round(1).to_string(index=False))


if __name__ == "__main__":
    main()
