"""How often is a bound that someone looks at every 50 rows ever false, and how wide is it?

A log has 5000 rows and three actions. It is looked at after every 50 rows. There are six kinds:

clicks           Softmax logging policy. A reward is 1 with probability 0.1 to 0.2.
revenue          The same policy. A reward is lognormal, cut at 10, in 20 % of the rows.
heavy weights    ε-greedy logging policy with ε = 5 %. The policy takes the other actions, with weights up to 48.
missing actions  The logging policy never takes an action that the policy takes with probability 0.3.
adaptive         After every 50 rows, the logging policy is ε-greedy for the action with the best mean reward so far.
groups           Users with 1 to 9 rows share features and the level of rewards. A user is one unit.

Terms are computed by :mod:`drcrm.evaluation.bounds.betting_terms`: `ips` and `dr` for the cost, and `paired` for its
difference from the logged costs. The cost model of `dr` has the true mean rewards, multiplied by lognormal errors. The
least propensity is known for ε-greedy logging policies. The other kinds have no bound by `dr`.

The table has a row per kind and estimate. ``false`` is the share of logs in which a bound with confidence 0.95 is ever
below the truth. The bound is the mixture of bets at every look, "anytime". Other columns:

student             The same share for Student's bound, which holds at one look.
sequence            The same for the bound of ``certify --anytime --asymptotic``, with its terms, charges and refusals.
                    A refused bound is not false.
looks               The share of looks with a skewness of at most 0.3. The asymptotic bound is refused at the others.
width N             Mean distance from bound to mean after N units, divided by the distance of Student's bound.
ball N              The same ratio for the ball, which also holds at every look. Its terms are those of `ips`.
smoothing, betting  The same ratio after 1000 units, for two bounds that hold at one look. They are logarithmic
                    smoothing with the terms of `ips`, and the mixture of bets.

Log number s of each kind has seed s.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import numpy as np
import pandas as pd
from cells import means, number, table_of
from scipy.special import ndtri, softmax
from synthetic import draw_actions

from drcrm.certificates import policy_certificate, upper_bound
from drcrm.data.bandit_log import BanditLog
from drcrm.errors import InputError
from drcrm.evaluation.bounds.asymptotic_bounds import LARGEST_SKEWNESS, estimate_skewness
from drcrm.evaluation.bounds.betting_mixture import BettingUnits
from drcrm.evaluation.bounds.betting_terms import CostMixture, betting_mixture
from drcrm.evaluation.bounds.independent_units import grouped_values
from drcrm.evaluation.bounds.upper_bound import SEQUENCE, as_bound
from drcrm.evaluation.certified_terms import CertificateSettings
from drcrm.evaluation.evaluation import Evaluation

ROWS, LOOK, CONFIDENCE, TUNED, ACTIONS = 5000, 50, 0.95, 1000, 3
KINDS = ("clicks", "revenue", "heavy weights", "missing actions", "adaptive", "groups")
ESTIMATES = tuple((estimate, baseline) for estimate in ("ips", "dr") for baseline in (None, "logging"))
WIDTHS = (400, 1000, 3200)
LEAST = {"heavy weights": 0.05 / 3, "adaptive": 0.1}  # known least propensities
MOST_ROWS = 9  # of a user


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


def measure_log(kind: str, seed: int, rows: int = ROWS) -> list[dict]:
    """Return a row for each estimate of one log."""
    world, measured = draw_world(kind, seed, rows), []
    for estimate, baseline in ESTIMATES:
        if (kind == "adaptive" and baseline) or (kind not in LEAST and estimate == "dr"):
            continue  # the logging policy changes, and with it the difference; or weights have no known limit
        truth = world.truth[0] - (world.truth[1] if baseline else 0)
        name = f"{estimate}, paired" if baseline else estimate
        watched = watch(world, LEAST.get(kind), estimate, baseline, truth)
        measured.append({"estimate": name} | watched | watch_sequence(world, estimate, baseline, truth))
    return measured


def mixture_of(
    world: World, least: float | None, estimate: str, baseline: str | None, method: str, rows: int
) -> CostMixture:
    """Return the bets by the first rows of a log."""
    log, costs = first_rows(world.log, rows), (-world.largest, 0.0)
    log = log if world.user is None else log.with_groups(world.user[:rows])
    model = -world.modelled[:rows] if estimate == "dr" else None
    evaluation = Evaluation.of(world.policy[:rows], log, baseline=baseline, cost_model=model).by(estimate)
    limits = {"least_propensity": least, "most_rows": MOST_ROWS}
    settings = CertificateSettings.of(log, as_bound(CONFIDENCE, method), CONFIDENCE, 1, costs, **limits)
    return betting_mixture(evaluation, settings, BettingUnits.of(log, method == "anytime", MOST_ROWS))


def watch(
    world: World, least: float | None, estimate: str, baseline: str | None, truth: float
) -> dict[str, float | bool]:
    """Return whether bounds are ever below the truth, and how wide they are. Bounds at every look never rise."""
    of_ips = terms_of(world, "ips", baseline)[1]
    user, z = terms_of(world, estimate, baseline)
    ends = np.flatnonzero(np.diff(user, append=-1)) + 1
    bets = mixture_of(world, least, estimate, baseline, "anytime", ends[-1])
    looks = np.array([n for n in WIDTHS if n <= len(ends)])
    bounds = dict(zip(looks, bets.bounds(looks), strict=True))
    result: dict[str, float | bool] = {"false": bets.bound() < truth, "student": False}
    for n in range(LOOK, len(ends) + 1, LOOK):
        rows = ends[n - 1]
        part, of_ball, _ = grouped_values(user[:rows], np.ones(rows), z[:rows], of_ips[:rows])
        mean, student = part.mean(), upper_bound(part, CONFIDENCE, "student")
        result["student"] |= student < truth
        if n not in WIDTHS or student <= mean:
            continue
        largest = max(world.largest * (baseline is not None), of_ball.max())  # those of unequal groups can be larger
        widths = {f"width {n}": bounds[n], f"ball {n}": upper_bound(of_ball, CONFIDENCE, "anytime", high=largest)}
        if n == TUNED:
            widths["betting"] = mixture_of(world, least, estimate, baseline, "betting", rows).bound()
            widths["smoothing"] = upper_bound(of_ball - largest, CONFIDENCE, "log_smoothing") + largest
        result |= {name: (value - mean) / (student - mean) for name, value in widths.items()}
    return result


def terms_of(world: World, estimate: str, baseline: str | None) -> tuple[np.ndarray, np.ndarray]:
    """Return the user and the term of each row: w c, or m + w (c − ĉ), minus the logged cost if there is a baseline."""
    log, index = world.log, np.arange(len(world.log.Y))
    model = -world.modelled * (estimate == "dr")
    weight = world.policy[index, log.Y] / log.propensity
    z = (world.policy * model).sum(axis=1) + weight * (log.cost - model[index, log.Y])
    return index if world.user is None else world.user, z - log.cost * (baseline is not None)


def first_rows(log: BanditLog, rows: int) -> BanditLog:
    """Return the first rows of a log."""
    parts = log.X[:rows], log.Y[:rows], log.propensity[:rows], log.cost[:rows]
    return BanditLog(*parts, n_actions=ACTIONS, context=np.arange(rows))


def watch_sequence(world: World, estimate: str, baseline: str | None, truth: float) -> dict[str, float]:
    """Return whether the bound of ``certify --anytime --asymptotic`` is ever below the truth, and the share of looks.

    Its terms are m + w (c − ĉ), or w c if the largest cost, 0, is charged for actions that the log lacks. The command's
    bound is at least the smaller bound of these two, so it is computed only if this one is below the truth.
    """
    log, index = world.log, np.arange(len(world.log.Y))
    model = -world.modelled * (estimate == "dr")
    weight, residual = world.policy[index, log.Y] / log.propensity, log.cost - model[index, log.Y]
    logged = log.cost * (baseline is not None)
    plain = (world.policy * model).sum(axis=1) + weight * residual - logged
    user = index if world.user is None else world.user
    ends = np.flatnonzero(np.diff(user, append=-1)) + 1  # rows after which the units are complete
    is_false, looks = False, []
    for units in range(LOOK, len(ends) + 1, LOOK):
        rows = ends[units - 1]
        ones, parts = np.ones(rows), (plain[:rows], (weight * log.cost - logged)[:rows])
        smaller = min(upper_bound(z, CONFIDENCE, SEQUENCE) for z in grouped_values(user[:rows], ones, *parts)[:-1])
        change = weight[:rows] - (baseline is not None)
        skewness = estimate_skewness(change, residual[:rows], log.cost[:rows], ones, units)
        looks.append(skewness <= LARGEST_SKEWNESS)
        if smaller < truth and not is_false:
            is_false = sequence_bound(world, estimate, baseline, rows) < truth
    return {"sequence": is_false, "looks": float(np.mean(looks))}


def sequence_bound(world: World, estimate: str, baseline: str | None, rows: int) -> float:
    """Return the bound of ``certify --anytime --asymptotic`` after the first rows; infinite if it is refused."""
    index, part = np.arange(rows), first_rows(world.log, rows)
    model = -world.modelled[:rows] if estimate == "dr" else None
    groups = index if world.user is None else world.user[:rows]
    options = {"cost_model": model, "baseline": baseline, "groups": groups}
    try:
        with warnings.catch_warnings(action="ignore"):
            return policy_certificate(world.policy[:rows], part, estimate, CONFIDENCE, SEQUENCE, **options).bound
    except InputError:
        return np.inf


def measure(repetition: int, kinds: tuple[str, ...] = KINDS, rows: int = ROWS) -> Iterator[dict]:
    """Yield a row per kind and estimate, of the log with the number of the repetition."""
    for kind in kinds:
        yield from ({"kind": kind} | row for row in measure_log(kind, repetition, rows))


def tabulate(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the means by kind and estimate."""
    return means(rows, ["kind", "estimate"])


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """Return how many logs have a bound that is ever false, and widths relative to Student's bound."""
    counts = {"false": "at every look", "student": "Student", "sequence": "sequence"}
    widths = {f"{name} {n}": f"{name} at {n}" for name in ("width", "ball") for n in WIDTHS}
    widths |= {"smoothing": "smoothing", "betting": "betting"}
    widths = {name: title for name, title in widths.items() if name in table}
    cells = []
    for row in table.to_dict("records"):
        numbers = [number(row[name] * row["logs"], 0) for name in counts] + [number(row[name], 1) for name in widths]
        cells.append((f"{row['kind']}, {row['estimate']}", *numbers))
    return table_of(("log, estimate", *counts.values(), *widths.values()), cells)
