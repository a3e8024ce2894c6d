"""How often does the propensity audit detect wrong propensities, by the number of rows?

The study draws its logs like the study ``verdicts``, without an effect: normal contexts and one of 5 actions, by the
policy ``soft`` or ``sharp``. This study audits each log with its true propensities and with wrong ones:

none           the true probabilities of the drawn actions
uniform        1/5
complement     1 − p
constant       the mean of p
other rows     p of the previous row
doubled        2 p, at most 1
halved         p/2
some doubled   2 p of two of the actions, at most 1

Three other logs of the same policies are drawn differently:

new action     the last action does not occur in the first half of the rows; p is its true probability
tail rule      where |x_0| > 1, the first action is drawn 3 times as often as p says, relative to the others
sign rule      the same where x_0 x_1 > 0; elsewhere the first action is drawn a third as often

The table has a row per policy, number of rows and fault. Its columns are the shares of logs whose audit ``fails``, is
``untested``, or raises another ``caution``. If the audit fails, the verdict is "the log is wrong". In the rows of
``none`` and ``new action`` these shares are false alarms.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import product

import numpy as np
import pandas as pd
from cells import means, number, table_of
from synthetic import draw_actions
from verdicts import ACTIONS, World

from drcrm.data.bandit_log import BanditLog
from drcrm.logs.diagnostics.propensity_audit import audit_propensities, boost_model, cross_fit_propensities

ROWS = 100, 200, 400, 1000, 2000, 5000
POLICIES = "soft", "sharp"
LEVELS = "fails", "untested", "caution"


@cache
def null_world() -> World:
    return World(is_null=True)


def wrong_propensities(propensity: np.ndarray, action: np.ndarray) -> dict[str, np.ndarray]:
    """Return the propensities with each fault."""
    doubled = np.minimum(2 * propensity, 1)
    return {
        "none": propensity,
        "uniform": np.full(len(propensity), 1 / ACTIONS),
        "complement": np.maximum(1 - propensity, np.finfo(float).tiny),
        "constant": np.full(len(propensity), propensity.mean()),
        "other rows": np.roll(propensity, 1),
        "doubled": doubled,
        "halved": propensity / 2,
        "some doubled": np.where(action < 2, doubled, propensity),
    }


def draw_differently(world: World, policy: str, rows: int, rng: np.random.Generator) -> Iterator[tuple[str, BanditLog]]:
    """Yield the name and the log of a new action and of the rules."""
    X = world.contexts(rows, rng)
    mean = world.logging(policy, X)
    for name, factor in rules(X).items():
        drawn = mean.copy()
        if name == "new action":
            drawn[: rows // 2, -1] = 0
        drawn[:, 0] *= factor
        drawn /= drawn.sum(axis=1, keepdims=True)
        action = draw_actions(drawn, rng)
        propensity = (drawn if name == "new action" else mean)[np.arange(rows), action]
        yield name, BanditLog(X, action, propensity, np.zeros(rows), n_actions=ACTIONS)


def rules(X: np.ndarray) -> dict[str, np.ndarray]:
    """Return how many times as often as its propensity says the first action is drawn in each row, (n,)."""
    return {
        "new action": np.ones(len(X)),
        "tail rule": np.where(abs(X[:, 0]) > 1, 3, 1),
        "sign rule": np.where(X[:, 0] * X[:, 1] > 0, 3, 1 / 3),
    }


def audit(world: World, policy: str, rows: int, seed: int) -> list[dict[str, object]]:
    """Return the outcome of the audit of one log with each fault."""
    rng = np.random.default_rng(seed)
    log = world.log(policy, rng, rows)
    faults = wrong_propensities(log.propensity, log.Y).items()
    logs = [(fault, BanditLog(log.X, log.Y, propensity, log.cost, n_actions=ACTIONS)) for fault, propensity in faults]
    results = []
    for fault, audited in (*logs, *draw_differently(world, policy, rows, rng)):
        if fault == "none" or fault not in dict(logs):  # the models do not depend on propensities
            modelled = cross_fit_propensities(audited)
            boosted = boost_model(audited, modelled)
        tests = audit_propensities(audited, modelled, boosted=boosted)
        levels = {test.name: test.level for test in tests}
        fails = "fail" in levels.values()
        is_untested = not fails and "propensity audit" in levels
        outcome = fails, is_untested, not fails and not is_untested and "caution" in levels.values()
        results.append({"policy": policy, "rows": rows, "fault": fault} | dict(zip(LEVELS, outcome, strict=True)))
    return results


def measure(repetition: int) -> Iterator[dict[str, object]]:
    """Yield a row per policy, number of rows and fault."""
    for policy, rows in product(POLICIES, ROWS):
        yield from audit(null_world(), policy, rows, repetition)


def tabulate(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the shares by policy, number of rows and fault."""
    return means(rows, ["policy", "rows", "fault"])


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """Return the shares that fail, by fault and number of rows."""
    rows = table.pivot_table("fails", ["policy", "fault"], "rows", sort=False)
    faults = {
        "none": "p",
        "uniform": "1/K",
        "complement": "1 − p",
        "constant": "mean of p over the log",
        "other rows": "p of the previous row",
        "doubled": "2 p",
        "halved": "p/2",
        "some doubled": "2 p for two actions",
        "new action": "p; an action is new in the last half",
        "tail rule": "p without the tail rule",
        "sign rule": "p without the sign rule",
    }
    cells = (
        (policy, faults[fault], *map(number, row)) for (policy, fault), row in zip(rows.index, rows.values, strict=True)
    )
    return table_of(("logging policy", "logged as propensity", *map(str, rows.columns)), cells)
