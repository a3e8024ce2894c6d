"""How often does `learn` say *better* if a rule that was not logged changes the draw of the actions?

A log has four normal features and one of four actions. Its propensities are those of a softmax with random
coefficients. In a part of the contexts a rule multiplies the probability of the first action. Rewards depend on the
context only, so every policy earns the same, and *better* is a false claim:

tail rule   where |x_0| > 1, the first action has 3 times its probability, relative to the others; the reward is |x_0|
sign rule   the same where x_0 x_1 > 0, and a third elsewhere; the reward is 1 where x_0 x_1 > 0, else 0
no rule     the reward is |x_0|; the propensities are right

Rewards have normal noise with standard deviation 0.5. `learn` uses ``algorithm: kl_dro_dr``.

The table has a row per kind and number of rows: the number of logs, the share of each verdict, and the share of logs
``named``, in which the propensity audit or the mean weight fails.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
import pandas as pd
from audit_power import rules
from cells import means, verdict_table, with_shares
from synthetic import draw_actions

import drcrm
from drcrm.policies.exponential import SoftmaxPolicy

SIZES = 1500, 6000
KINDS = "tail rule", "sign rule", "no rule"
FEATURES, ACTIONS, NOISE = 4, 4, 0.5
NAMES = [f"x{number}" for number in range(FEATURES)]
MAPPING = {
    "action": "action",
    "propensity": "p",
    "reward": "reward",
    "features": {"numeric": NAMES},
    "algorithm": "kl_dro_dr",
}


def draw_log(kind: str, rows: int, seed: int) -> pd.DataFrame:
    """Return a log whose rewards do not depend on the actions."""
    rng = np.random.default_rng([KINDS.index(kind), rows, seed])
    X = rng.normal(size=(rows, FEATURES))
    logged = SoftmaxPolicy(0.5 * rng.normal(size=(FEATURES, ACTIONS))).marginals(X)
    drawn = logged.copy()
    drawn[:, 0] *= rules(X).get(kind, 1)
    action = draw_actions(drawn / drawn.sum(axis=1, keepdims=True), rng)
    reward = (X[:, 0] * X[:, 1] > 0 if kind == "sign rule" else abs(X[:, 0])) + NOISE * rng.normal(size=rows)
    columns = {"action": action, "p": logged[np.arange(rows), action], "reward": reward}
    return pd.DataFrame(X, columns=NAMES).assign(**columns)


def judge(kind: str, rows: int, seed: int) -> tuple[str, bool]:
    """Return the verdict on one log, and whether a check names the fault."""
    answer = drcrm.learn(draw_log(kind, rows, seed), MAPPING)
    failed = [check["name"] for check in answer.as_dict()["diagnostics"] if check["level"] == "fail"]
    return answer.verdict.name, any(name.startswith(("propensity audit", "mean weight")) for name in failed)


def measure(repetition: int) -> Iterator[dict[str, object]]:
    """Yield a row per kind of log and number of rows."""
    for kind, rows in product(KINDS, SIZES):
        verdict, is_named = judge(kind, rows, repetition)
        yield {"log": kind, "rows": rows, "verdict": verdict, "named": is_named}


def tabulate(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the shares by kind of log and number of rows."""
    return means(with_shares(rows), ["log", "rows"])


def summary(table: pd.DataFrame) -> pd.DataFrame:
    return verdict_table(table, ["log", "rows"])
