"""The logs of docs/user-guide/own-logs.md: ``python docs/make_logs.py FOLDER`` writes them.

A shop shows each visitor one of four sections, by an old rule with some chance in it; a click is a reward. Which
section is best depends on the visitor's city and age. ``rule.csv`` is of an old rule that left nothing to chance.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd

SECTIONS = np.array(["news", "sport", "music", "travel"])
CITIES = np.array(["Bern", "Basel", "Geneva", "Zurich"])
MAPPING = """\
action: section
propensity: p
reward: click
features: {numeric: [age, spent], categorical: [city, device]}
slice: device
group: visitor
"""


def visits(n: int, sharp: float, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """What was logged of n visits, and the old rule's probabilities, (n, 4)."""
    rng = np.random.default_rng(seed)
    age, spent, city = rng.normal(42, 12, n).round(), rng.exponential(30, n).round(2), rng.integers(0, 4, n)
    scores = sharp * np.column_stack([age / 20 - 2, 1.5 - spent / 40, np.where(city == 2, 1.0, 0.1), np.zeros(n)])
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    section = (p.cumsum(axis=1) > rng.random(n)[:, None]).argmax(axis=1)
    best = (city + (age > 45)) % 4
    click = rng.random(n) < np.where(section == best, 0.25, 0.08)
    frame = pd.DataFrame({"visitor": rng.integers(0, n // 2, n), "age": age, "spent": spent, "city": CITIES[city]})
    shown = {"section": SECTIONS[section], "p": p[np.arange(n), section], "click": click.astype(int)}
    return frame.assign(**shown, device=rng.choice(["phone", "desktop"], n)), p


def event(row: dict, p: np.ndarray) -> str:
    """A visit as Vowpal Wabbit writes it: actions in a shuffled order, that which was shown first."""
    shown = int([*SECTIONS].index(row["section"]))
    order = [shown, *(each for each in range(4) if each != shown)]
    context = {"Visitor": {"age": row["age"] / 40, "city": row["city"]}}
    context["_multi"] = [{"Section": {"name": section}} for section in SECTIONS]
    labels = {"_label_cost": -row["click"], "_label_probability": p[shown]}
    places = {"_label_Action": shown + 1, "_labelIndex": shown, "a": [each + 1 for each in order]}
    return json.dumps({**labels, **places, "p": [p[each] for each in order], "c": context})


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    frame, p = visits(12_000, 0.7, 0)
    frame.to_csv(folder / "shop.csv", index=False)
    (folder / "shop.yaml").write_text(MAPPING, encoding="utf-8")
    visits(6000, 0.7, 1)[0].to_csv(folder / "later.csv", index=False)
    visits(4000, 1e9, 2)[0].to_csv(folder / "rule.csv", index=False)
    rows = frame.head(6000).to_dict("records")
    lines = [event(row, p[place]) for place, row in enumerate(rows)]
    (folder / "shop.dsjson").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
