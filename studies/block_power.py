"""In how many logs with a real gain does ``learn`` say *better*, with held-out rows and with blocks?

e-mail        30 000 customers get one of three variants at random, and 2 to 4 % of them click. Which variant is the
              best depends on age and device.
recommender   15 000 visits. A rule shows one of eight items with probability 0.75, by device, otherwise one of all
              items at random, and about a tenth of the visitors click. Which item is the best depends on four numbers.

The strength of the preferences was chosen on logs with other seeds, so that held-out rows show the gain in about 40 %
of the logs. Both validations get the same logs. A single algorithm, `kl_dro_dr` with one radius, replaces
the default ones.

The table has a row per kind of log and validation: the number of ``logs``, the number and ``share`` in which the
verdict is *better*, and the mean of the estimated changes in clicks per row. Log number s of each kind has seed s.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
from cells import means, number, table_of
from scipy.special import expit, logit
from synthetic import draw_actions

import drcrm
from drcrm.mapping.checks import VALIDATIONS

ALGORITHM = {
    "estimator": "KLDRO",
    "parameter": "radius",
    "grid": [0.01],
    "options": {"estimate": "dr", "start": "model", "tilt": "auto"},
}
DEVICES = np.array(["desktop", "phone", "tablet"])
VARIANTS, ITEMS, EPSILON = 3, 8, 0.25
ROWS = {"e-mail": 30_000, "recommender": 15_000}
STRENGTH = {"e-mail": 0.175, "recommender": 0.345}  # of the preferences, in log odds
World = tuple[pd.DataFrame, np.ndarray, np.ndarray]  # contexts, π0 and click rates, (n, K)


def draw_customers(n: int, strength: float, rng: np.random.Generator) -> World:
    """Return customers, π0, and the click rate of each variant."""
    age, device = rng.uniform(18, 80, n), rng.integers(0, 3, n)
    days = rng.exponential(40, n)
    level = logit(0.028) + 0.2 * (age < 40) - 0.002 * days
    taste = np.column_stack([(45 - age) / 18, (age - 53) / 18, np.where(device == 1, 1.0, -0.5)])
    frame = pd.DataFrame({"age": age, "days": days, "device": DEVICES[device]})
    return frame, np.full((n, VARIANTS), 1 / VARIANTS), expit(level[:, None] + strength * taste)


def draw_visitors(n: int, strength: float, rng: np.random.Generator) -> World:
    """Return visits, π0, and the click rate of each item."""
    x, device = rng.normal(size=(n, 4)), rng.integers(0, 3, n)
    favourite = np.arange(ITEMS) == 2 * device[:, None]
    logging = EPSILON / ITEMS + (1 - EPSILON) * favourite
    rates = expit(-2.3 + 0.2 * favourite + strength * np.hstack([x, -x]))
    return pd.DataFrame(x, columns=[f"x{j}" for j in range(4)]).assign(device=DEVICES[device]), logging, rates


DRAW = {"e-mail": draw_customers, "recommender": draw_visitors}
FEATURES = {
    "e-mail": {"numeric": ["age", "days"], "categorical": ["device"]},
    "recommender": {"numeric": [f"x{j}" for j in range(4)], "categorical": ["device"]},
}


def draw_log(kind: str, seed: int) -> pd.DataFrame:
    """Return a log of a kind."""
    rng = np.random.default_rng([list(DRAW).index(kind), seed])
    frame, logging, rates = DRAW[kind](ROWS[kind], STRENGTH[kind], rng)
    action, row = draw_actions(logging, rng), np.arange(len(frame))
    click = rng.random(len(frame)) < rates[row, action]
    return frame.assign(action=action, p=logging[row, action], click=click.astype(int))


def measure(repetition: int, kinds: Sequence[str] = tuple(DRAW)) -> Iterator[dict[str, object]]:
    """Yield a row per kind of log and validation."""
    for kind in kinds:
        mapping = {"action": "action", "propensity": "p", "reward": "click", "features": FEATURES[kind]}
        log = draw_log(kind, repetition)
        for validation in VALIDATIONS:
            answer = drcrm.learn(log, mapping | {"algorithm": ALGORITHM}, validation=validation)
            entries = answer.as_dict()["candidates"]
            [cost] = [entry["difference"]["value"] for entry in entries if "difference" in entry]
            yield {"log": kind, "validation": validation, "better": answer.is_better, "change": -cost}


def tabulate(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the shares by kind of log and validation."""
    table = means(rows, ["log", "validation"]).rename(columns={"better": "share"})
    better = (table["share"] * table["logs"]).round().astype(int)
    return table.assign(better=better)[["log", "validation", "logs", "better", "share", "change"]]


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """Return the number of *better* verdicts, their share, and the mean estimated change per 1000 rows."""
    changes = (1000 * table["change"]).map(number, digits=1)
    columns = table["log"], "`" + table["validation"] + "`", table["logs"].astype(str), table["better"].astype(str)
    cells = zip(*columns, table["share"].map(number, digits=2), changes, strict=True)
    return table_of(("log", "validation", "logs", "*better*", "share", "change, clicks per 1000 rows"), cells)
