"""How often does the propensity audit detect wrong propensities, by the number of rows?

The logs are those of the study ``verdicts`` without an effect: normal contexts and one of 5 actions, drawn by the
policy ``soft`` or ``sharp``. This study audits each log with its true propensities and with wrong ones:

none           the true probabilities of the drawn actions
uniform        1/5
complement     1 − p
constant       the mean of p
other rows     p of the previous row
doubled        2 p, at most 1
halved         p/2
some doubled   2 p of two of the actions, at most 1

The table has a row per policy, number of rows and fault. Its columns are the shares of logs whose audit ``fails``, is
``untested``, or raises another ``caution``. If the audit fails, the verdict is "the log is wrong". In the rows of
``none`` these shares are false alarms.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from verdicts import ACTIONS, World

from drcrm.data.bandit_log import BanditLog
from drcrm.diagnostics.propensity_audit import audit_propensities, cross_fit_propensities

ROWS = 100, 200, 400, 1000, 2000, 5000
POLICIES = "soft", "sharp"
LEVELS = "fails", "untested", "caution"


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


def audit(world: World, policy: str, rows: int, seed: int) -> list[dict[str, object]]:
    """Return the outcome of the audit of one log with each fault."""
    log = world.log(policy, np.random.default_rng(seed), rows)
    modelled, results = cross_fit_propensities(log), []
    for fault, propensity in wrong_propensities(log.propensity, log.Y).items():
        tests, _ = audit_propensities(BanditLog(log.X, log.Y, propensity, log.cost, n_actions=ACTIONS), modelled)
        levels = {test.name: test.level for test in tests}
        fails = "fail" in levels.values()
        is_untested = not fails and "propensity audit" in levels
        outcome = fails, is_untested, not fails and not is_untested and "caution" in levels.values()
        results.append({"policy": policy, "rows": rows, "fault": fault} | dict(zip(LEVELS, outcome, strict=True)))
    return results


def table(repetitions: int) -> pd.DataFrame:
    """Return a row per policy, number of rows and fault."""
    world = World(is_null=True)
    results = [
        result
        for policy in POLICIES
        for rows in ROWS
        for seed in range(repetitions)
        for result in audit(world, policy, rows, seed)
    ]
    return pd.DataFrame(results).groupby(["policy", "rows", "fault"], sort=False)[[*LEVELS]].mean().reset_index()


def summary(rows: pd.DataFrame) -> str:
    """Return the shares that fail, by fault and number of rows."""
    wide = rows.pivot_table("fails", ["policy", "fault"], "rows", sort=False)
    return wide.to_string(float_format="%.3f")
