"""How often does `learn` say *better* about faulty logs in which no policy can be better?

Rewards do not depend on actions, so every policy earns the same, and *better* is a false claim. A
log has 1000 rows with two numeric features, a city and one of three actions, drawn by a softmax. Each kind of log has
one fault:

none               no fault
duplicated         500 rows with categorical features only, written twice, one copy after the other
learned from       the policy is judged on its own log with 100 new rows appended (the verdict of `evaluate_policy`)
rare losses        a cost of lognormal size (σ = 1.5) in 5 % of the rows, else 0
rare revenue       a reward of lognormal size (σ = 2) in 5 % of the rows, else 0
same action        100 users with 10 rows each; the rows of a user share features, action and the level of rewards
jittered           200 rows, each five times, with `age` moved by 10⁻³ standard deviations
uniform p          1/3 in place of the propensity
complement p       1 − p in place of the propensity p
constant p         the mean propensity in place of each
leaked             a copy of the reward among the features

The table has a row per kind: the number of logs, the share of each verdict, and the p-value of a one-sided binomial
test that more than 5 % of the verdicts are *better*. Log number s of each kind has seed s.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
from cells import means, verdict_table, with_shares
from scipy.stats import binom
from synthetic import draw_actions

import drcrm

ROWS, APPENDED, COPIES, USERS = 1000, 100, 5, 100
CITIES, ACTIONS = np.array(["Bern", "Geneva", "Zurich"]), np.array(["music", "news", "sport"])
ALLOWED = 0.05
MAPPING = {
    "action": "action",
    "propensity": "p",
    "reward": "reward",
    "features": {"numeric": ["age", "spent"], "categorical": ["city"]},
}
KINDS = (
    "none",
    "duplicated",
    "learned from",
    "rare losses",
    "rare revenue",
    "same action",
    "jittered",
    "uniform p",
    "complement p",
    "constant p",
    "leaked",
)


def contexts(n: int, rng: np.random.Generator) -> pd.DataFrame:
    """Return features of n visitors."""
    return pd.DataFrame(
        {"age": rng.normal(40, 9, n), "spent": rng.exponential(30, n), "city": CITIES[rng.integers(0, 3, n)]}
    )


def decisions(frame: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Return the frame with an action for each row, drawn by the logging policy, and its propensity."""
    scores = np.column_stack([frame["age"] / 20, frame["spent"] / 40, np.full(len(frame), 1.5)])
    scores += frame["city"].to_numpy()[:, None] == CITIES
    probability = np.exp(scores - scores.max(axis=1, keepdims=True))
    probability /= probability.sum(axis=1, keepdims=True)
    action = draw_actions(probability, rng)
    return frame.assign(action=ACTIONS[action], p=probability[np.arange(len(frame)), action])


def rewards(frame: pd.DataFrame, rng: np.random.Generator) -> np.ndarray:
    """Return rewards that depend on the context, not on the action."""
    return 1 + 0.2 * (frame["city"] == "Bern") + 0.02 * (frame["age"] - 40) + rng.normal(size=len(frame))


def draw_log(kind: str, rng: np.random.Generator, rows: int = ROWS) -> pd.DataFrame:
    """Return a log with its fault."""
    sizes = {"duplicated": rows // 2, "jittered": rows // COPIES, "same action": USERS}
    frame = contexts(sizes.get(kind, rows), rng)
    if kind == "duplicated":
        frame["age"], frame["spent"] = 40 + 10 * rng.integers(0, 3, len(frame)), 30 * rng.integers(0, 2, len(frame))
    frame = decisions(frame, rng)
    if kind == "same action":
        level = rng.normal(size=USERS)
        frame = frame.assign(visitor=np.arange(USERS), level=level)
        frame = frame.loc[rng.permutation(np.repeat(np.arange(USERS), rows // USERS))].reset_index(drop=True)
        return frame.assign(reward=rewards(frame, rng) + frame["level"]).drop(columns="level")
    frame["reward"] = rewards(frame, rng)
    if kind.startswith("rare"):
        is_loss = kind == "rare losses"
        size = np.exp((1.5 if is_loss else 2) * rng.normal(size=rows))
        frame["reward"] = (-1 if is_loss else 1) * size * (rng.random(rows) < 0.05)
    if kind == "duplicated":
        frame = pd.concat([frame, frame], ignore_index=True)
    if kind == "jittered":
        frame = frame.loc[rng.permutation(np.repeat(np.arange(len(frame)), COPIES))].reset_index(drop=True)
        frame["age"] += 9e-3 * rng.normal(size=len(frame))
    if kind == "uniform p":
        frame["p"] = 1 / len(ACTIONS)
    if kind == "complement p":
        frame["p"] = 1 - frame["p"]
    if kind == "constant p":
        frame["p"] = frame["p"].mean()
    if kind == "leaked":
        frame["copy"] = frame["reward"]
    return frame


def mapping(kind: str) -> dict[str, object]:
    """Return the mapping of a kind of log."""
    if kind == "duplicated":
        return MAPPING | {"features": {"categorical": ["age", "spent"]}}
    if kind == "leaked":
        return MAPPING | {"features": {"numeric": ["age", "spent", "copy"], "categorical": ["city"]}}
    return MAPPING


def verdict(kind: str, seed: int, **settings: object) -> str:
    """Return the verdict on one log; ``settings`` are further keys of the mapping."""
    rng = np.random.default_rng([KINDS.index(kind), seed])
    with TemporaryDirectory() as name:
        policy, frame = Path(name) / "policy.npz", draw_log(kind, rng)
        answer = drcrm.learn(frame, mapping(kind) | settings, output=policy)
        if kind == "learned from":
            later = pd.concat([frame, draw_log("none", rng, APPENDED)])
            answer = drcrm.evaluate(policy, later, mapping(kind))
        return answer.verdict.name


def measure(repetition: int, kinds: tuple[str, ...] = KINDS) -> Iterator[dict[str, object]]:
    """Yield a row per kind of log."""
    for kind in kinds:
        yield {"log": kind, "verdict": verdict(kind, repetition)}


def tabulate(rows: pd.DataFrame, keys: Sequence[str] = ("log",)) -> pd.DataFrame:
    """Return the shares by kind of log, and by other keys."""
    table = means(with_shares(rows), keys)
    return table.assign(p_value=binom.sf((table["better"] * table["logs"]).round() - 1, table["logs"], ALLOWED))


def summary(table: pd.DataFrame) -> pd.DataFrame:
    return verdict_table(table, ["log"])
