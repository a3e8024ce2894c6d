"""Do certificates hold if outcomes of the log that a policy was learned from have changed?

`learn` gets a log of 2 000 rows. Later, outcomes change, and `certify` gets the changed log. A context is a number, or
one of seven values, without or with a column ``id``. Changes:

late 1, 5, 10 %  this share of the rows without a click gets one
corrected        5 % of the clicks are removed
appended         5 % late clicks, and 1 000 new rows, which have all their clicks
second outcome   another reward, a sale after half of the clicks
shuffled         5 % late clicks, and the rows are in another order

The table has a row for each kind of context and each change. ``certified`` is the share of logs with a certificate. In
the others, the log cannot say. ``holds`` is the share of certificates that hold for the policy's expected reward after
the change. ``difference_holds`` is the same for the difference from the logging policy. ``learned`` is the largest
number of training rows that a certificate used. Log number s of each kind has seed s.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
from synthetic import draw_actions

import drcrm
from drcrm.logs.decisions.question import Question, open_case
from drcrm.logs.policy_file import read_policy

ROWS, NEW, ACTIONS, DRAWN = 2000, 1000, 3, 20_000
KINDS = "number", "seven values", "seven values, id"
LATE = {"late 1 %": 0.01, "late 5 %": 0.05, "late 10 %": 0.1, "appended": 0.05, "shuffled": 0.05}
CHANGES = (*LATE, "corrected", "second outcome")
CORRECTED, SALES = 0.05, 0.5
MAPPING = {
    "action": "a",
    "propensity": "p",
    "reward": "click",
    "features": {"numeric": ["x"]},
    "algorithm": "kl_dro_dr",
}


def contexts(kind: str, rows: int, rng: np.random.Generator) -> np.ndarray:
    """Return the contexts of a kind."""
    x = rng.normal(size=rows)
    return x if kind == "number" else np.clip(np.round(2 * x), -3, 3) / 2


def click_rates(x: np.ndarray) -> np.ndarray:
    """Return the probability of a click by context and action, before outcomes change."""
    return 0.1 + 0.2 * (np.clip(np.round(x), -1, 1)[:, None] + 1 == np.arange(ACTIONS))


def changed(change: str, rates: np.ndarray) -> np.ndarray:
    """Return the expected rewards after a change."""
    if change in LATE:
        return rates + LATE[change] * (1 - rates)
    return rates * ((1 - CORRECTED) if change == "corrected" else SALES)


def logging_probabilities(x: np.ndarray) -> np.ndarray:
    scores = np.column_stack([-x, np.zeros(len(x)), 0.5 * x])
    return np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)


def draw_log(kind: str, rows: int, first: int, rng: np.random.Generator) -> pd.DataFrame:
    """Return a log, whose ids begin with ``first``."""
    x = contexts(kind, rows, rng)
    probability = logging_probabilities(x)
    a = draw_actions(probability, rng)
    place = np.arange(rows), a
    click = (rng.random(rows) < click_rates(x)[place]).astype(int)
    return pd.DataFrame({"id": first + np.arange(rows), "x": x, "a": a, "p": probability[place], "click": click})


def change_log(change: str, log: pd.DataFrame, new: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Return a log with changed outcomes."""
    log = pd.concat([log, new]) if change == "appended" else log
    if change in LATE:
        log = log.assign(click=np.where(rng.random(len(log)) < LATE[change], 1, log["click"]))
    kept = (1 - CORRECTED) if change == "corrected" else SALES if change == "second outcome" else 1.0
    log = log.assign(**{"sale" if kept == SALES else "click": log["click"] * (rng.random(len(log)) < kept)})
    return log.sample(frac=1, random_state=rng) if change == "shuffled" else log


def judge(kind: str, seed: int) -> list[dict[str, object]]:
    """Return the results of all changes of one log."""
    rng = np.random.default_rng([KINDS.index(kind), seed])
    log, new = draw_log(kind, ROWS, 0, rng), draw_log(kind, NEW, ROWS, rng)
    mapping = MAPPING | ({"id": "id"} if kind.endswith("id") else {})
    x = contexts(kind, DRAWN, rng)
    with TemporaryDirectory() as name:
        path, policy = (Path(name) / file for file in ("log.csv", "policy.npz"))
        drcrm.learn(log, mapping, output=policy)
        stored = read_policy(policy, with_rows=True)
        learned = stored.policy.marginals(stored.encoding.contexts(pd.DataFrame({"x": x})))
        trained = set(log["id"][~stored.rows.heldout])
        results = []
        for change in CHANGES:
            later = change_log(change, log, new, rng)
            later.to_csv(path, index=False)
            config = mapping | ({"reward": "sale"} if change == "second outcome" else {})
            answer = drcrm.certify(policy, path, config).as_dict()
            with open_case(policy, path, config, Question(), lambda text: None) as case:
                used = later["id"].to_numpy()[case.opened.evaluated.rows.get("number")]
            rates = changed(change, click_rates(x))
            truth = float((learned * rates).sum(axis=1).mean())
            gain = truth - float((logging_probabilities(x) * rates).sum(axis=1).mean())
            results.append({"kind": kind, "change": change, **read_answer(answer, truth, gain)})
            results[-1]["learned"] = len(trained.intersection(used)) if results[-1]["certified"] else 0
    return results


def read_answer(answer: dict, truth: float, gain: float) -> dict[str, object]:
    """Return whether a log is certified, and whether its certificates hold."""
    if answer["verdict"]["verdict"] != "certified":
        return {"certified": False, "holds": np.nan, "difference_holds": np.nan}
    [candidate] = answer["candidates"]
    holds = -candidate["certificate"]["bound"] <= truth, -candidate["difference"]["bound"] <= gain
    return {"certified": True, "holds": float(holds[0]), "difference_holds": float(holds[1])}


def measure(repetition: int) -> Iterator[dict[str, object]]:
    """Yield a row for each kind of context and each change."""
    for kind in KINDS:
        yield from judge(kind, repetition)


def tabulate(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the shares for each kind of context and each change."""
    groups = rows.groupby(["kind", "change"], sort=False)
    shares = groups[["certified", "holds", "difference_holds"]].mean()
    return shares.assign(learned=groups["learned"].max(), logs=groups.size()).reset_index()
