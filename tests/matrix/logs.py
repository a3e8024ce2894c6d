"""Small logs of known truth for a row of the matrix, and their files in each format."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit, softmax

from matrix.options import TABLES, Row

ARMS = ("left", "middle", "right")
LABELS = ("banner", "mail")
EXPLORED = 0.3  # share of uniform actions of the logging policy
SEED = [int(seed) for seed in os.environ.get("MATRIX_SEED", "").split()]  # draws other logs
N, EARLIER = 330, 200  # rows that evaluate policies, and rows of the earlier log that a policy file recognises
CATEGORIES = {
    "city": ("Bern", "Genf", "Zürich"),
    "member": (False, True),
    "code": ("1E5", "100000", "10e2", "2.50"),
}
RANGES = {  # of the costs
    "click": (-1.0, 0.0),
    "revenue": (-20.0, 0.0),
    "cost": (0.0, 2.0),
    "reward_1000": (-1001.0, -1000.0),
    "uptime": (-100.0, -95.0),
    "negative_mean": (-1.0, 3.0),
}
UNITS = {"groups_equal": (2,), "groups_unequal": (1, 2, 5)}  # sizes of groups, in turn
MOST_ROWS = 6  # known limit on the rows of a group, and on the weight of an event


@dataclass(frozen=True)
class SmallLog:
    """Rows of a log. Arrays have a value for each row.

    Attributes
    ----------
    contexts : DataFrame
        Features as an application has them: Python's numbers, texts, booleans and None.
    phi : array (n, d)
        The same as numbers: a missing number is 0, a category has an indicator for each value.
    action : int array (n,), or (n, 2) for labels
    logging : array (n, 3), or (n, 2) for labels
        Probability of each action, or of each label, before ``EXPLORED``.
    cost, guard : array (n,)
        The outcome and that of the guardrail, as costs.
    weight : array (n,)
        Number of rows that a row stands for.
    dropped : array (n,)
        Probability with which the logger dropped the event.
    """

    row: Row
    contexts: pd.DataFrame
    phi: np.ndarray
    action: np.ndarray
    logging: np.ndarray
    propensity: np.ndarray
    cost: np.ndarray
    guard: np.ndarray
    group: np.ndarray
    count: np.ndarray
    dropped: np.ndarray
    when: np.ndarray
    place: np.ndarray
    ids: np.ndarray
    mine: np.ndarray
    cost_range: tuple[float, float]
    names: tuple[str, ...] = ARMS
    is_reward: bool = True
    columns_reversed: bool = False
    is_nested: bool = False

    @property
    def n(self) -> int:
        return len(self.cost)

    @property
    def weight(self) -> np.ndarray:
        return self.count / (1 - self.dropped)

    def take(self, rows: np.ndarray) -> SmallLog:
        values = {name: value for name, value in vars(self).items() if isinstance(value, np.ndarray)}
        taken = {name: value[rows] for name, value in values.items()}
        return replace(self, contexts=self.contexts.iloc[rows].reset_index(drop=True), **taken)


def draw_features(kind: str, n: int, rng: np.random.Generator) -> tuple[pd.DataFrame, np.ndarray]:
    """Return contexts and their numbers."""
    x = np.round(rng.uniform(-1.5, 1.5, n), 6)
    columns: dict[str, Any] = {"x": x.astype(object)}
    numbers = [x]
    if kind == "numbers":
        z = np.round(rng.exponential(20, n).clip(0, 60), 3)
        columns["z"], numbers = z.astype(object), [x, z / 40]
    elif kind == "times":
        start = datetime.fromisoformat("2026-01-05T00:00:00+02:00")
        hours = np.array([8, 13, 23])[rng.integers(0, 3, n)]
        times = [start + timedelta(days=int(d), hours=int(h)) for d, h in zip(np.arange(n) % 7, hours, strict=True)]
        columns["at"] = [time.isoformat() for time in times]
        numbers += [hours == 8, hours == 13, np.arange(n) % 7 >= 5]
    else:
        name = {"booleans": "member", "codes": "code"}.get(kind, "city")
        codes = rng.integers(0, len(CATEGORIES[name]), n)
        values = np.array(CATEGORIES[name], dtype=object)[codes]
        if kind == "missing":
            values[lost := rng.random(n) < 0.1] = None
            codes = np.where(lost, -1, codes)
            columns["x"] = np.where(lost := rng.random(n) < 0.15, None, columns["x"])
            numbers = [np.where(lost, 0, x)]
        columns[name] = values
        numbers += [codes == code for code in range(len(CATEGORIES[name]))]
    return pd.DataFrame(columns, dtype=object), np.column_stack([*numbers, np.ones(n)]).astype(float)


def linear_scores(phi: np.ndarray, seed: int, n_actions: int, size: float) -> np.ndarray:
    """Return φ·Θ for fixed coefficients that depend on the seed."""
    return phi @ (size * np.random.default_rng([seed, phi.shape[1]]).uniform(-1, 1, (phi.shape[1], n_actions)))


def probabilities(scores: np.ndarray, is_labels: bool, explored: float, action: np.ndarray) -> np.ndarray:
    """Return the probability of each row's action under a policy with these scores and a share of uniform actions."""
    if is_labels:
        mean = expit(scores)
        return (1 - explored) * np.where(action == 1, mean, 1 - mean).prod(axis=1) + explored / 2 ** scores.shape[1]
    return (1 - explored) * softmax(scores, axis=1)[np.arange(len(action)), action] + explored / scores.shape[1]


def draw_log(row: Row, n: int = N, seed: int = 0) -> SmallLog:
    """Return a log for a row of the matrix."""
    rng = np.random.default_rng([seed, n, *SEED])
    contexts, phi = draw_features(row.features, n, rng)
    is_labels, n_actions = row.kind == "labels", 2 if row.kind == "labels" else 3
    scores, explored = linear_scores(phi, 1, n_actions, 0.5), EXPLORED
    if row.propensity in ("uniform", "constant"):
        scores = 0 * scores
    elif row.propensity == "rule":
        scores = np.where(scores == scores.max(axis=1, keepdims=True), 0.0, -np.inf)
    elif row.propensity == "estimated":
        explored = 0.0
    action = _draw_actions(scores, is_labels, explored, rng)
    sizes = np.resize(UNITS.get(row.units, (1,)), n)
    group = np.repeat(np.arange(n), sizes)[:n]
    shared = rng.random(n)[group]
    number = action @ (1, 2) if is_labels else action
    mean = np.clip(0.5 + 0.3 * np.sin(phi[:, 0] + 2 * number) + 0.1 * phi[:, 1], 0.05, 0.95)
    luck = np.where(rng.random(n) < 0.5, shared, rng.random(n)) if row.units in UNITS else rng.random(n)
    success, size = (luck < mean).astype(float), rng.random(n)
    cost = {
        "click": -success,
        "revenue": -success * (5 + 15 * size),
        "cost": (1 - success) * (0.5 + 1.5 * size),
        "reward_1000": -1000 - success,
        "uptime": -95 - 5 * size * (1 + success) / 2,
        "negative_mean": 3 * (1 - success) * size - success,
    }[row.outcome]
    harm = (rng.random(n) < 0.3 + 0.2 * (number == 0)).astype(float)
    drops = row.units == "pdrop"
    dropped = np.where(success == 1, 0.0, 0.5) if drops else np.zeros(n)
    log = SmallLog(
        row,
        contexts,
        phi,
        action,
        scores,
        probabilities(scores, is_labels, explored, action),
        np.round(cost, 9) + 0.0,
        3 * harm - 1 if row.outcome == "negative_mean" else harm,
        group,
        np.resize([1, 2, 1, 3], n) if row.units == "count" else np.ones(n, dtype=int),
        dropped,
        np.arange(n),
        np.resize([0, 1, 1, 2], n),
        10 * (np.arange(n) + 100_000 * seed),
        np.zeros(n),
        RANGES[row.outcome],
        LABELS if is_labels else ARMS,
        row.outcome != "cost",
    )
    return log.take(np.flatnonzero(rng.random(n) >= dropped)) if drops else log


def _draw_actions(scores: np.ndarray, is_labels: bool, explored: float, rng: np.random.Generator) -> np.ndarray:
    n, k = scores.shape
    is_uniform = rng.random(n) < explored
    if is_labels:
        mean = np.where(is_uniform[:, None], 0.5, expit(scores))
        return (rng.random((n, k)) < mean).astype(int)
    p = np.where(is_uniform[:, None], 1 / k, softmax(scores, axis=1))
    return (rng.random(n)[:, None] > p.cumsum(axis=1)).sum(axis=1).clip(0, k - 1)


def mapping_of(log: SmallLog, **changes: Any) -> dict[str, Any]:
    """Return the mapping of a log's file, also if the combination of options is one that drcrm must refuse."""
    row, listed = log.row, "candidates" if log.is_nested else "visit"
    arm = {"lists": ["candidates.arm" if log.is_nested else "arm"]}.get(row.kind, [])
    features = {
        "numeric": [name for name in log.contexts if name in ("x", "z")],
        "categorical": [name for name in log.contexts if name in CATEGORIES] + arm,
    }
    actions = {"single": {"action": "a"}, "labels": {"labels": list(log.names)}}
    known = {
        "uniform": {"uniform": True},
        "rule": {"rule": "rule", "exploration": EXPLORED},
        "weights": {"weights": "w", "actions": list(log.names)},
        "constant": {"constant": 0.25 if row.kind == "labels" else 1 / 3},
    }
    has_events = row.units in UNITS or row.units == "pdrop"
    of_units = {"count": (*TABLES, "dsjson"), "pdrop": (*TABLES, "npz", "arrays")}
    entries = [  # when an entry is in the mapping
        (True, {"algorithm": "cips"}),
        (row.is_table, {"reward" if log.is_reward else "cost": "y", "propensity": "p", "id": "id"}),
        (row.is_table, actions.get(row.kind, {"list": listed, "chosen": "shown"}) | {"features": features}),
        (row.is_table and "at" in log.contexts, {"features": features | {"time": ["at"]}}),
        (row.propensity in known, {"propensity": known.get(row.propensity)}),
        (row.propensity == "estimated", {"propensity": None, "propensity_model": "softmax"}),
        (row.units in UNITS, {"group": "user"}),
        (row.format in of_units.get(row.units, ()), {row.units: row.units}),
        (row.extra == "time", {"time": "when"}),
        (row.extra == "slices", {"slice": "place"}),
        (row.outcome != "click" or log.cost_range != (-1, 0), {"cost_range": list(log.cost_range)}),
        (row.reference == "baseline", {"least_propensity": 0.05}),
        (row.look == "anytime" and has_events, {"most_rows": MOST_ROWS}),
        (row.shift == "shift", {"shift": 0.05}),
        (row.guardrail != "none", {"guardrails": {"guard": guardrail_of(row)}}),
    ]
    return {key: value for applies, entry in entries if applies for key, value in entry.items()} | changes


def guardrail_of(row: Row) -> dict[str, Any]:
    """Return the guardrail of a row: on a cost, or on a reward with a negative mean."""
    is_reward, is_relative = row.outcome == "negative_mean", row.guardrail == "percent"
    ends = [-1, 2] if is_reward else [0, 1]
    if is_reward:
        return {"reward": "g", "at_least": "-20 %" if is_relative else -0.1, "range": [-ends[1], -ends[0]]}
    return {"cost": "g", "at_most": "20 %" if is_relative else 0.1, "range": ends}


def table_of(log: SmallLog) -> pd.DataFrame:
    """Return the log as a table; for lists with a row for each candidate, in another order in each list."""
    outcome = -log.cost if log.is_reward else log.cost
    guard = -log.guard if log.row.outcome == "negative_mean" else log.guard
    days = [f"2026-02-{1 + int(day) * 8 // (2 * N):02d}T{int(day) % 24:02d}:00:00" for day in log.when]
    frame = log.contexts.assign(
        **{"id": log.ids, "p": log.propensity, "y": outcome + 0.0, "g": guard, "user": [f"u{g}" for g in log.group]},
        **{"when": days, "place": np.array(["north", "south", "west"])[log.place], "mine": log.mine},
    )
    if log.row.kind == "labels":
        frame = frame.assign(**dict(zip(log.names, log.action.T, strict=True)))
    elif log.row.kind == "single":
        frame = frame.assign(a=np.array(log.names)[log.action], rule=np.array(log.names)[log.logging.argmax(axis=1)])
        if log.row.propensity == "weights":
            weights = logging_probabilities(log)
            frame = frame.assign(w=weights.tolist(), **{f"w_{name}": weights[:, a] for a, name in enumerate(log.names)})
    elif log.is_nested:
        arms, rule = list_orders(log), log.logging.argmax(axis=1)
        shown, of_rule = ((arms == action[:, None]).argmax(axis=1) for action in (log.action, rule))
        candidates = [[{"arm": log.names[arm]} for arm in row] for row in arms]
        frame = frame.assign(candidates=candidates, shown=shown, rule=of_rule, id=frame["id"] + shown)
    else:
        arms = list_orders(log)
        frame = frame.loc[np.repeat(np.arange(log.n), 3)].reset_index(drop=True)
        shown = (arms == log.action[:, None]).ravel()
        frame = frame.assign(visit=frame["id"], id=frame["id"] + np.tile([0, 1, 2], log.n))
        frame = frame.assign(
            arm=np.array(log.names)[arms.ravel()],
            shown=shown.astype(int),
            rule=(arms == log.logging.argmax(axis=1)[:, None]).ravel().astype(int),
            **{name: frame[name].where(shown) for name in ("p", "y", "g", "mine")},
        )
    return frame[frame.columns[::-1]] if log.columns_reversed else frame


def logging_probabilities(log: SmallLog) -> np.ndarray:
    """Return the probability of each action under the logging policy, (n, 3)."""
    return (1 - EXPLORED) * softmax(log.logging, axis=1) + EXPLORED / log.logging.shape[1]


def list_orders(log: SmallLog) -> np.ndarray:
    """Return the arm at each place of the lists, (n, 3)."""
    return (np.arange(3) + (log.ids // 10)[:, None]) % 3


def arrays_of(log: SmallLog) -> dict[str, np.ndarray]:
    """Return the arrays of an npz file: X is φ, or for lists its products with the indicators of the arms."""
    arrays = {"propensity": log.propensity, "id": log.ids, "X": log.phi, "Y": log.action}
    arrays["reward" if log.is_reward else "cost"] = (-log.cost if log.is_reward else log.cost) + 0.0
    if log.row.units == "count":
        arrays["count"] = log.count
    if log.row.kind == "lists":
        arms = list_orders(log)
        blocks = np.eye(3)[arms][:, :, :, None] * log.phi[:, None, None, :]
        arrays |= {"X": blocks.reshape(3 * log.n, -1), "starts": np.arange(0, 3 * log.n + 1, 3)}
        arrays["Y"] = (arms == log.action[:, None]).argmax(axis=1)
    return arrays


def events_of(log: SmallLog) -> list[dict[str, Any]]:
    """Return the events of dsjson; for other kinds than lists without the list, which drcrm must refuse."""
    arms, events = list_orders(log), []
    for number, context in enumerate(log.contexts.to_dict("records")):
        shared = {name: value for name, value in context.items() if value is not None and name != "at"}
        if "at" in context:
            time = datetime.fromisoformat(context["at"])
            shared |= {"hour": f"h{time.hour}", "weekend": "yes" if time.weekday() >= 5 else "no"}
        if log.row.kind == "lists":
            shared["_multi"] = [{"arm": log.names[arm]} for arm in arms[number]]
        place = 0 if log.row.kind == "labels" else int(np.argmax(arms[number] == log.action[number]))
        event = {"_label_cost": float(log.cost[number]), "_label_probability": float(log.propensity[number])}
        event |= {"_label_Action": place + 1, "EventId": f"e{log.ids[number]}", "c": shared}
        events.append(event | ({"pdrop": log.dropped[number]} if log.row.units == "pdrop" else {}))
    return events


def write_log(log: SmallLog, folder: Path, form: str | None = None, files: str | None = None) -> list[Path]:
    """Write the log, in the format and the number of files of its row, and return the arguments of a command."""
    form, files = form or log.row.format, files or log.row.files
    folder.mkdir(parents=True)
    form = {"frame": "csv", "arrays": "npz"}.get(form, form)
    form = "jsonl" if log.is_nested and form == "csv" else form
    parts = [log] if files == "one" else [log.take(part) for part in np.array_split(np.arange(log.n), 3)]
    paths = [folder / f"part{number}.{form}" for number in range(len(parts))]
    for path, part in zip(paths, parts, strict=True):
        if form == "npz":
            np.savez(path, **arrays_of(part))
        elif form == "dsjson":
            path.write_text("".join(json.dumps(event) + "\n" for event in events_of(part)), encoding="utf-8")
        else:
            _write_table(table_of(part), path, form)
    return [folder] if files == "folder" else paths


def _write_table(frame: pd.DataFrame, path: Path, form: str) -> None:
    if form == "csv":
        frame.to_csv(path, index=False)
    elif form == "parquet":
        frame.infer_objects().to_parquet(path, index=False)
    else:
        frame.to_json(path, orient="records", lines=True, double_precision=15, force_ascii=False)
