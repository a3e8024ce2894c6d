"""How often is *better* false with estimated propensities, and what do good logs lose?

``learn`` (``algorithm: cips``) estimates the propensities by ``propensity_model: auto``. In the first four kinds of
logs all actions have the same reward, so *better* is a false claim. The draw of one of three actions and the reward
depend on the same function of the context:

product       x·y of two normal features: the score of the first action is 1.5 x·y, and the mean reward is x·y.
categories    Two categories of 8 values: the pair of values has a preferred action, with probability 0.7. The reward
              is 1 if this is the first action.
signs         The same as product with the sign of the product of three normal features.
nested        A threshold within a threshold: y > 0 where x > 0, else z > 0.

Rewards have normal noise with standard deviation 0.5. In the good logs, those of the study ``verdicts``, a softmax
draws one of 5 actions, and a click has probability 0.5 for the best action and 0.2 for the others. They are judged with
the ``logged`` propensities, too.

The part ``verdict`` of the table has a row per kind of log and number of rows: the number of logs, and the share of
each verdict. The part ``weights`` is about logs of a softmax with scores times 4 that explores 10 % of the time, and
the policy ``good`` of ``verdicts``. It has medians over the logs of the largest weight and of the effective sample
size: with true propensities, with estimates, and with estimates without a floor.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from cells import means, number, table_of, verdict_table, with_shares
from synthetic import draw_actions
from verdicts import FEATURES, World

import drcrm
from drcrm.logs import estimated_propensities
from drcrm.logs.read_log import read_raw_log
from drcrm.policies.exponential import SoftmaxPolicy
from drcrm.weights import effective_sample_size

NULLS = (("product", 1000), ("product", 3000), ("categories", 6000), ("signs", 6000), ("nested", 3000))
GOOD = 1000, 2000
ACTIONS, NOISE, VALUES = 3, 0.5, 8
SHARPNESS, EXPLORATION = 4, 0.1
ESTIMATED = {"propensity": None, "propensity_model": "auto"}


@cache
def world() -> World:
    return World(is_null=False)


def draw_null(kind: str, rows: int, seed: int) -> pd.DataFrame:
    """Return a log whose rewards do not depend on the actions."""
    rng = np.random.default_rng([len(kind), rows, seed])
    if kind == "categories":
        codes = rng.integers(0, VALUES, (rows, 2))
        preferred = rng.integers(0, ACTIONS, (VALUES, VALUES))[codes[:, 0], codes[:, 1]]
        mean = np.where(preferred[:, None] == np.arange(ACTIONS), 0.7, 0.15)
        level, features = preferred == 0, pd.DataFrame({"u": codes[:, 0], "v": codes[:, 1]}).map("v{}".format)
    else:
        X = rng.normal(size=(rows, 2 if kind == "product" else 3))
        nested = np.sign(np.where(X[:, 0] > 0, X[:, 1], X[:, -1]))
        level = {"product": X.prod(axis=1), "signs": np.sign(X.prod(axis=1)), "nested": nested}[kind]
        mean = SoftmaxPolicy(np.array([[1.5, 0.0, 0.0]])).marginals(level[:, None])
        features = pd.DataFrame(X, columns=[*"xyz"][: X.shape[1]])
    reward = level + NOISE * rng.normal(size=rows)
    return features.assign(action=draw_actions(mean, rng), reward=reward)


def draw_good(world: World, rows: int, seed: int) -> pd.DataFrame:
    """Return a log of the study ``verdicts`` with its true propensities."""
    log = world.log("soft", np.random.default_rng(seed), rows)
    columns = {"action": log.Y, "p": log.propensity, "reward": -log.cost}
    return pd.DataFrame(log.X[:, :FEATURES]).rename(columns="x{}".format).assign(**columns)


def mapping(log: pd.DataFrame, source: dict[str, Any]) -> dict[str, Any]:
    """Return the mapping of a log; texts are categories."""
    names = [name for name in log if name not in ("action", "reward", "p")]
    texts = [name for name in names if name in ("u", "v")]
    features = {"numeric": [name for name in names if name not in texts], "categorical": texts}
    return {"action": "action", "reward": "reward", "features": features, "algorithm": "cips"} | source


def judge(log: pd.DataFrame, source: dict[str, Any]) -> str:
    """Return the verdict of ``learn``."""
    return drcrm.learn(log, mapping(log, source)).verdict.name


def verdicts(repetition: int) -> Iterator[dict[str, Any]]:
    """Yield the verdict on each kind of log."""
    cases = [(kind, rows, ESTIMATED) for kind, rows in NULLS]
    cases += [("good", rows, source) for rows in GOOD for source in (ESTIMATED, {"propensity": "p"})]
    for kind, rows, source in cases:
        log = draw_good(world(), rows, repetition) if kind == "good" else draw_null(kind, rows, repetition)
        label = kind if source is ESTIMATED else f"{kind}, logged"
        yield {"part": "verdict", "log": label, "rows": rows, "verdict": judge(log, source)}


def weigh(rows: int, seed: int) -> dict[str, float]:
    """Return the largest weight and the effective sample size with three kinds of propensities."""
    rng = np.random.default_rng([rows, seed])
    X = world().contexts(rows, rng)
    logging = SoftmaxPolicy(SHARPNESS * world().base).with_exploration(EXPLORATION).marginals(X)
    action, place = draw_actions(logging, rng), np.arange(rows)
    log = pd.DataFrame(X[:, :FEATURES]).rename(columns="x{}".format).assign(action=action, reward=0.0)
    raw, least = read_raw_log(log, mapping(log, ESTIMATED)), estimated_propensities.SUPPORT_ROWS
    propensities = {"true": logging[place, action]}
    for kind, needed in (("estimated", least), ("no floor", rows + 1)):
        estimated_propensities.SUPPORT_ROWS = needed
        propensities[kind] = estimated_propensities.estimate_propensities(raw).propensity
    estimated_propensities.SUPPORT_ROWS = least
    probability = world().policies["good"].marginals(X)[place, action]
    values = {}
    for kind, p in propensities.items():
        weight = probability / p
        values |= {f"largest, {kind}": weight.max(), f"size, {kind}": effective_sample_size(weight, np.ones(rows))}
    return values


def measure(repetition: int) -> Iterator[dict[str, Any]]:
    """Yield the rows of both parts."""
    yield from verdicts(repetition)
    for rows in (2000, 8000):
        yield {"part": "weights", "log": "explored", "rows": rows} | weigh(rows, repetition)


def tabulate(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the shares of the verdicts, and the medians of weights."""
    keys, is_verdict = ["part", "log", "rows"], rows["part"] == "verdict"
    shares = means(with_shares(rows.loc[is_verdict, [*keys, "verdict"]]), keys)
    groups = rows[~is_verdict].drop(columns="verdict").groupby(keys, sort=False)
    return pd.concat([shares, groups.median().assign(logs=groups.size()).reset_index()], ignore_index=True)


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """Return the share of each verdict by kind of log."""
    return verdict_table(table[table["part"] == "verdict"].astype({"rows": int}), ["log", "rows"])


def weights(table: pd.DataFrame) -> pd.DataFrame:
    """Return the medians of the largest weight and of the effective sample size."""
    part = table[table["part"] == "weights"].astype({"rows": int})
    values = [name for name in table if name.startswith(("largest, ", "size, "))]
    cells = (
        (str(row[0]), *(number(value, 0) for value in row[1:])) for row in part[["rows", *values]].to_numpy(object)
    )
    return table_of(("rows", *values), cells)
