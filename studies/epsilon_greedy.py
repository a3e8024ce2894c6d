"""How often does `learn` answer on ε-greedy and uniform logs, and how often is *better* false?

A log has a count, a device and a segment of each visitor, and one of K actions. A rule chooses an action by device and
segment. There are four kinds of logging policies:

ε-greedy       takes the rule's action with probability 1 − ε, otherwise a uniformly random action
step           ε-greedy, with ε/2 for small counts and 3ε/2 for large counts
explored       a policy learned from an ε-greedy log, applied by `predict --explore ε`
uniform        takes a uniformly random action

A reward is 1 with probability 0.16 for the best action, otherwise 0.09. With the effect *harm*, the rule chooses the
best action, and with *gain* another one. With *no effect*, the probability is 0.12 for all actions. *Better* is false
if the learned policy's expected reward, over all contexts, is not above the logging policy's.

The table has a row per cell: the kind, ε, the number of actions and of rows, the effect, the number of logs, the share
of each verdict, and the share of ``false`` claims of *better*. ``sampled`` is the share of logs with an effective
sample size above 100, and ``cannot`` is the share of *the log cannot say* among them. ``rare`` is the share of logs in
which a check that is not good, or the verdict, speaks of actions that are rarely logged. The cells of *ε-greedy* are a
balanced half of all combinations. Log number s of each cell has seed s.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

import numpy as np
import pandas as pd
from cells import means, number, table_of, with_shares
from synthetic import draw_actions

import drcrm
from drcrm.logs.diagnostics.comparison.verdict import VERDICTS
from drcrm.logs.policy_file import StoredPolicy

EPSILONS, ACTIONS, SIZES, EFFECTS = (0.05, 0.1, 0.2), (2, 5, 10), (1000, 8000), ("no effect", "harm", "gain")
DEVICES, SEGMENTS, RATE, BEST, OTHER = ("desktop", "mobile"), ("x", "y", "z"), 0.12, 0.16, 0.09
COUNTS = np.arange(13)  # Poisson counts; larger ones are drawn again
ENOUGH, ROUNDING = 100, 1e-9
RARE = "hardly", "rarely", "support"
MAPPING = {
    "action": "action",
    "propensity": "propensity",
    "reward": "signup",
    "features": {"numeric": ["visits"], "categorical": ["device", "segment"]},
    "algorithm": "kl_dro_dr",
}


class Cell(NamedTuple):
    """A logging policy, the size of its logs, and the effect of actions on rewards."""

    kind: str
    epsilon: float
    actions: int
    rows: int
    effect: str


def cells() -> list[Cell]:
    """Return the cells of the table."""
    axes = [range(len(axis)) for axis in (EPSILONS, ACTIONS, EFFECTS)]
    greedy = [
        Cell("ε-greedy", EPSILONS[e], ACTIONS[k], SIZES[(e + k + f) % 2], EFFECTS[f]) for e, k, f in product(*axes)
    ]
    others = [Cell(*kind, 1000, effect) for kind in (("step", 0.2, 2), ("explored", 0.2, 5)) for effect in EFFECTS[::2]]
    others += [Cell("uniform", 1.0, actions, 1000, "no effect") for actions in (2, 10)]
    return greedy + others


def all_contexts() -> tuple[pd.DataFrame, np.ndarray]:
    """Return all contexts and their probabilities."""
    frame = pd.DataFrame(product(COUNTS, DEVICES, SEGMENTS), columns=["visits", "device", "segment"])
    factorial = np.cumprod(np.maximum(COUNTS, 1)).astype(float)
    weight = (3.0**COUNTS / factorial)[frame["visits"]]
    return frame, weight / weight.sum()


def rule(contexts: pd.DataFrame, actions: int) -> np.ndarray:
    """Return the action that the rule chooses in each context."""
    place = (contexts["device"] == "mobile").astype(int) + contexts["segment"].map(SEGMENTS.index)
    return (place % actions).to_numpy()


def logging_probabilities(cell: Cell, contexts: pd.DataFrame) -> np.ndarray:
    """Return the probabilities of all actions under an ε-greedy, step or uniform policy."""
    epsilon = np.full(len(contexts), cell.epsilon)
    if cell.kind == "step":
        epsilon *= np.where(contexts["visits"] > 3, 1.5, 0.5)
    probability = np.tile((epsilon / cell.actions)[:, None], cell.actions)
    probability[np.arange(len(contexts)), rule(contexts, cell.actions)] += 1 - epsilon
    return probability


def reward_rates(cell: Cell, contexts: pd.DataFrame) -> np.ndarray:
    """Return the expected rewards of all actions."""
    if cell.effect == "no effect":
        return np.full((len(contexts), cell.actions), RATE)
    best = (rule(contexts, cell.actions) + (cell.effect == "gain")) % cell.actions
    return np.where(best[:, None] == np.arange(cell.actions), BEST, OTHER)


def draw_log(cell: Cell, probability: np.ndarray, rng: np.random.Generator) -> pd.DataFrame:
    """Return a log whose actions have given probabilities in each of all contexts."""
    frame, weight = all_contexts()
    place = rng.choice(len(frame), cell.rows, p=weight)
    number = draw_actions(probability[place], rng)
    rate = reward_rates(cell, frame)[place, number]
    columns = {"action": [f"a{n}" for n in number], "propensity": probability[place, number]}
    return frame.iloc[place].assign(**columns, signup=(rng.random(cell.rows) < rate).astype(int))


def policy_probabilities(
    stored: StoredPolicy, contexts: pd.DataFrame, actions: int, explore: float | None = None
) -> np.ndarray:
    """Return the probabilities of all actions by ``predict`` or ``predict --explore``."""
    probability = np.zeros((len(contexts), actions))
    policy = stored.policy if explore is None else stored.policy.with_exploration(explore)
    columns = [int(str(name)[1:]) for name in stored.encoding.names]
    probability[:, columns] = policy.marginals(stored.encoding.contexts(contexts))
    return probability


def judge(cell: Cell, seed: int) -> dict[str, object]:
    """Return the verdict on one log, whether it is a false *better*, and what the checks say."""
    rng = np.random.default_rng([cells().index(cell), seed])
    contexts, weight = all_contexts()
    logged = logging_probabilities(cell, contexts)
    if cell.kind == "explored":
        first = drcrm.learn(draw_log(cell, logged, rng), MAPPING).policy
        logged = policy_probabilities(first, contexts, cell.actions, cell.epsilon)
    answer = drcrm.learn(draw_log(cell, logged, rng), MAPPING)
    learned, result = policy_probabilities(answer.policy, contexts, cell.actions), answer.as_dict()
    verdict = result["verdict"]
    gain = weight @ ((learned - logged) * reward_rates(cell, contexts)).sum(axis=1)
    sentences = [check["sentence"] for check in result["diagnostics"] if check["level"] != "good"]
    text = " ".join([*sentences, verdict["sentence"], *verdict["changes"]])
    [size] = (check["value"] for check in result["diagnostics"] if check["name"] == "effective sample size")
    return {
        "verdict": verdict["verdict"],
        "false": verdict["verdict"] == "better" and gain <= ROUNDING,
        "size": size * result["log"]["heldout"],
        "rare": any(word in text for word in RARE),
    }


def measure(repetition: int) -> Iterator[dict[str, object]]:
    """Yield a row per cell."""
    for cell in cells():
        yield cell._asdict() | judge(cell, repetition)


def tabulate(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the shares by cell."""
    is_sampled = rows["size"] > ENOUGH
    cannot = (rows["verdict"] == VERDICTS[3]).where(is_sampled)
    measured = rows.drop(columns="size").assign(sampled=is_sampled, cannot=cannot)
    return means(with_shares(measured), Cell._fields)


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """Return shares over all cells with the same kind of policy and ε."""
    lines = []
    for (kind, epsilon), rows in table.groupby(["kind", "epsilon"], sort=False):
        label = kind if kind == "uniform" else f"{kind}, ε = {100 * epsilon:g} %"
        sampled = (rows["cannot"].fillna(0) * rows["sampled"]).sum() / rows["sampled"].sum()
        false = rows["false"].mean(), rows["false"].max()
        lines.append((label, *map(number, (rows["the log cannot say"].mean(), sampled, rows["better"].mean(), *false))))
    header = ("logging policy", "cannot say", "if sampled", "better", "falsely better", "in the worst cell")
    return table_of(header, lines)
