"""``drcrm example``: write synthetic logs of a shop, and the mapping of their columns.

The shop shows each visitor one of four sections, drawn from the logging policy, and logs whether the visitor clicks.
The best section depends on the visitor's city and age.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import numpy as np
import pandas as pd

from drcrm.errors import InputError

SECTIONS = np.array(["news", "sport", "music", "travel"])
CITIES = np.array(["Bern", "Basel", "Geneva", "Zurich"])
FILES = {
    "shop.csv": "12 000 visits: features, the section shown, its probability, and whether the visitor clicked",
    "shop.yaml": "the mapping, which describes the columns of shop.csv",
    "later.csv": "6000 later visits",
    "rule.csv": "4000 visits of a shop whose sections followed a deterministic rule",
    "shop.dsjson": "the first 6000 visits of shop.csv in a format of Vowpal Wabbit",
}
MAPPING = """\
action: section
propensity: p
reward: click
features: {numeric: [age, spent], categorical: [city, device]}
slice: device
group: visitor
"""


def example(folder: Path) -> None:
    """Write the files, and print what they are and what to do next."""
    if folder.is_file():
        raise InputError(f"{folder} is a file, expected a folder")
    if existing := [name for name in FILES if (folder / name).exists()]:
        raise InputError(f"{folder / existing[0]} exists already, expected a folder without it; nothing was written")
    write_logs(folder)
    width = max(map(len, FILES))
    for name, description in FILES.items():
        print(f"{name:{width}}  {description}")
    names = {"shop.csv": "", "shop.yaml": "--config", "policy.npz": "--output", "report.html": "--report"}
    words = [word for name, flag in names.items() for word in (flag, str(folder / name)) if word]
    print(f"\nNext, learn a policy from shop.csv:\n\n    drcrm learn {shlex.join(words)}")


def write_logs(folder: Path) -> None:
    """Write the files into a folder, which is created if necessary."""
    folder.mkdir(parents=True, exist_ok=True)
    frame, p = draw_visits(12_000, 0.7, 0)
    frame.to_csv(folder / "shop.csv", index=False)
    (folder / "shop.yaml").write_text(MAPPING, encoding="utf-8")
    draw_visits(6000, 0.7, 1)[0].to_csv(folder / "later.csv", index=False)
    draw_visits(4000, 1e9, 2)[0].to_csv(folder / "rule.csv", index=False)
    rows = frame.head(6000).to_dict("records")
    lines = [_as_event(row, probabilities) for row, probabilities in zip(rows, p, strict=False)]
    (folder / "shop.dsjson").write_text("\n".join(lines) + "\n", encoding="utf-8")


def draw_visits(n: int, scale: float, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Draw n visits. Return the log and the logging policy's probabilities of all sections, (n, 4).

    The logging policy is a softmax of scores times ``scale``.
    """
    rng = np.random.default_rng(seed)
    age, spent, city = rng.normal(42, 12, n).round(), rng.exponential(30, n).round(2), rng.integers(0, 4, n)
    scores = scale * np.column_stack([age / 20 - 2, 1.5 - spent / 40, np.where(city == 2, 1.0, 0.1), np.zeros(n)])
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    section = (p.cumsum(axis=1) > rng.random(n)[:, None]).argmax(axis=1)
    best = (city + (age > 45)) % 4
    click = rng.random(n) < np.where(section == best, 0.25, 0.08)
    frame = pd.DataFrame({"visitor": rng.integers(0, n // 2, n), "age": age, "spent": spent, "city": CITIES[city]})
    logged = {"section": SECTIONS[section], "p": p[np.arange(n), section], "click": click.astype(int)}
    return frame.assign(**logged, device=rng.choice(["phone", "desktop"], n)), p


def _as_event(row: dict, p: np.ndarray) -> str:
    """Return a visit in the format dsjson. The section that was shown is the first in the order of ``a``."""
    chosen = int(SECTIONS.tolist().index(row["section"]))
    order = [chosen, *(section for section in range(4) if section != chosen)]
    context = {"Visitor": {"age": row["age"] / 40, "city": row["city"]}}
    context["_multi"] = [{"Section": {"name": section}} for section in SECTIONS]
    labels = {"_label_cost": -row["click"], "_label_probability": p[chosen]}
    places = {"_label_Action": chosen + 1, "_labelIndex": chosen, "a": [section + 1 for section in order]}
    return json.dumps({**labels, **places, "p": [p[section] for section in order], "c": context})
