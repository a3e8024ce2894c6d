"""How often is a bound that someone looks at every 50 rows ever false, and how wide is it?

A log has 5000 rows and three actions. It is looked at after every 50 rows. There are six kinds:

clicks           Softmax logging policy. A reward is 1 with probability 0.1 to 0.2.
revenue          The same policy. A reward is lognormal, cut at 10, in 20 % of the rows.
heavy weights    ε-greedy logging policy with ε = 5 %. The policy takes the other actions, with weights up to 48.
missing actions  The logging policy never takes an action that the policy takes with probability 0.3.
adaptive         After every 50 rows, the logging policy is ε-greedy for the action with the best mean reward so far.
groups           Users with 1 to 9 rows share features and the level of rewards. A user is one unit.

Terms are computed by :mod:`drcrm.certificates.terms.anytime`: `ips` and `dr` for the policy's cost, and `paired` for
its difference from the logged costs. The cost model of `dr` has the true mean rewards, multiplied by lognormal errors.

The table has a row per kind and estimate. ``false`` is the share of logs in which a bound with confidence 0.95 is ever
below the truth. Other columns:

student             The same share for Student's bound, which holds at one look.
sequence            The same for the asymptotic confidence sequence. Only looks count if the skewness is at most 0.3.
looks               The share of such looks.
width N             Mean distance from bound to mean after N units, divided by the distance of Student's bound.
smoothing, betting  This ratio at 1000 units for two bounds that also hold at one look.

Log number s of each kind has seed s.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.special import ndtri, softmax
from synthetic import draw_actions

from drcrm.certificates import upper_bound
from drcrm.certificates.independent_units import group_means
from drcrm.certificates.skewness import LARGEST_SKEWNESS, upper_skewness
from drcrm.certificates.terms.anytime import anytime_terms
from drcrm.certificates.terms.evaluation import EvaluationInputs
from drcrm.data.bandit_log import BanditLog

ROWS, LOOK, CONFIDENCE, TUNED, ACTIONS = 5000, 50, 0.95, 1000, 3
KINDS = ("clicks", "revenue", "heavy weights", "missing actions", "adaptive", "groups")
ESTIMATES = tuple((estimate, baseline) for estimate in ("ips", "dr") for baseline in (None, "logging"))
WIDTHS = (400, 1000, 3200)


class World(NamedTuple):
    """A log, the policy and the logging policy on its contexts, modelled rewards, and the largest reward.

    ``truth`` has the expected cost of the policy, and that of the logging policy if it does not change.
    """

    log: BanditLog
    policy: np.ndarray
    logging: np.ndarray
    modelled: np.ndarray
    largest: float
    truth: tuple[float, float]
    user: np.ndarray | None


def policies(kind: str, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the probabilities of the policy and of the logging policy."""
    scores = x[:, None] * np.array([1, 0, -1])
    fixed = {
        "heavy weights": ([0.1, 0.1, 0.8], [0.95 + 0.05 / 3, 0.05 / 3, 0.05 / 3]),
        "missing actions": ([0.3, 0.4, 0.3], [0.6, 0.4, 0.0]),
    }
    if kind in fixed:
        return tuple(np.tile(probability, (len(x), 1)) for probability in fixed[kind])
    return softmax(3 * scores, axis=1), softmax(scores / 2, axis=1)


def click_rates(x: np.ndarray) -> np.ndarray:
    return 0.1 + 0.1 / (1 + np.exp(-x[:, None] * np.array([1, 0, -1])))


@cache
def expected_costs(kind: str, size: float) -> tuple[float, float]:
    """Return the expected costs of the policy and of the logging policy, over 10⁵ quantiles of x."""
    x = ndtri((np.arange(10**5) + 0.5) / 10**5)
    return tuple(-float((probability * click_rates(x)).sum(axis=1).mean() * size) for probability in policies(kind, x))


def draw_world(kind: str, seed: int, rows: int = ROWS) -> World:
    """Return the log number ``seed`` of a kind."""
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    x, user, is_revenue = rng.normal(size=rows), None, kind == "revenue"
    if kind == "groups":
        user = np.repeat(np.arange(rows), rng.integers(1, 10, rows))[:rows]
        x = x[user]
    policy, logging = policies(kind, x)
    rate = click_rates(x)
    if user is not None:
        rate = rate * rng.choice([0.5, 1.5], rows)[user][:, None]
    size = np.minimum(np.exp(rng.normal(size=rows)), 10) if is_revenue else np.ones(rows)
    mean_size = expected_size() if is_revenue else 1.0
    wins = rng.random((rows, ACTIONS)) < rate
    if kind == "adaptive":
        action, logging = draw_adaptively(wins, rng)
    else:
        action = draw_actions(logging, rng)
    index = np.arange(rows)
    modelled = rate * mean_size * np.exp(0.3 * rng.normal(size=rate.shape))
    cost = -(wins[index, action] * size)
    log = BanditLog(np.ones((rows, 1)), action, logging[index, action], cost, n_actions=ACTIONS, context=index)
    return World(log, policy, logging, modelled, 10.0 if is_revenue else 1.0, expected_costs(kind, mean_size), user)


@cache
def expected_size() -> float:
    """Return E min(S, 10) of a standard lognormal S, by 10⁵ quantiles."""
    return float(np.minimum(np.exp(ndtri((np.arange(10**5) + 0.5) / 10**5)), 10).mean())


def draw_adaptively(wins: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return the actions and probabilities of a policy with ε = 0.3 that follows the best mean reward so far."""
    action, logging = np.empty(len(wins), dtype=int), np.empty((len(wins), ACTIONS))
    total, taken, best = np.zeros(ACTIONS), np.full(ACTIONS, 1e-9), 0
    for start in range(0, len(wins), LOOK):
        block = slice(start, start + LOOK)
        logging[block] = 0.3 / ACTIONS + 0.7 * np.eye(ACTIONS)[best]
        action[block] = draw_actions(logging[block], rng)
        of_block = np.arange(start, start + len(action[block]))
        np.add.at(total, action[block], wins[of_block, action[block]])
        np.add.at(taken, action[block], 1)
        best = int(np.argmax(total / taken))
    return action, logging


def measure(kind: str, seed: int, rows: int = ROWS) -> list[dict]:
    """Return a row for each estimate of one log."""
    world, measured = draw_world(kind, seed, rows), []
    log, costs = world.log, (-world.largest, 0.0)
    for estimate, baseline in ESTIMATES:
        if kind == "adaptive" and baseline:
            continue  # the logging policy changes, and with it the difference
        model = -world.modelled if estimate == "dr" else None
        inputs = EvaluationInputs.create(world.policy, log, baseline, None, world.logging, model)
        terms, high = anytime_terms(inputs, estimate, costs)
        residual = log.cost + (world.modelled[np.arange(rows), log.Y] if estimate == "dr" else 0)
        values = terms.z, terms.weight - (baseline is not None), residual
        if world.user is not None:
            *values, _ = group_means(world.user, np.ones(rows), *values)
        truth = world.truth[0] - (world.truth[1] if baseline else 0)
        name = f"{estimate}, paired" if baseline else estimate
        measured.append({"estimate": name} | watch(*values, truth, high))
    return measured


def watch(z: np.ndarray, weight: np.ndarray, residual: np.ndarray, truth: float, high: float) -> dict[str, float]:
    """Return whether bounds are ever below the truth, and how wide they are."""
    ever, looks, result = {"false": False, "student": False, "sequence": False}, [], {}
    for n in range(LOOK, len(z) + 1, LOOK):
        part, mean, deviation = z[:n], z[:n].mean(), z[:n].std(ddof=1)
        bound, student, sequence = (
            upper_bound(part, CONFIDENCE, method, **limit)
            for method, limit in (("anytime", {"high": high}), ("student", {}), ("confidence_sequence", {}))
        )
        looks.append(upper_skewness(weight[:n], residual[:n], np.ones(n), n) <= LARGEST_SKEWNESS)
        ever["false"] |= bound < truth
        ever["student"] |= student < truth
        ever["sequence"] |= looks[-1] and sequence < truth
        if n in WIDTHS and deviation > 0:
            result[f"width {n}"] = (bound - mean) / (student - mean)
        if n == TUNED and deviation > 0:
            others = {
                "smoothing": upper_bound(part - high, CONFIDENCE, "log_smoothing") + high,
                "betting": upper_bound(part, CONFIDENCE, "betting", low=min(z.min(), -high), high=high),
            }
            result |= {name: (value - mean) / (student - mean) for name, value in others.items()}
    return ever | {"looks": np.mean(looks)} | result


def table(repetitions: int, kinds: tuple[str, ...] = KINDS, rows: int = ROWS) -> pd.DataFrame:
    """Return a row per kind and estimate."""
    measured = [
        {"kind": kind} | row for kind in kinds for seed in range(repetitions) for row in measure(kind, seed, rows)
    ]
    frame = pd.DataFrame(measured)
    numbers = [name for name in frame.columns if name not in ("kind", "estimate")]
    frame[numbers] = frame[numbers].astype(float)
    return frame.groupby(["kind", "estimate"], sort=False)[numbers].mean().assign(logs=repetitions).reset_index()


def summary(rows: pd.DataFrame) -> str:
    """Return the table, and the largest share of logs in which the anytime bound was ever false."""
    return f"{rows.to_string(index=False, float_format='%.3f')}\never false: at most {rows['false'].max():.3f}"
