"""How often is the verdict on a policy wrong, and do the diagnostics name planted faults?

Contexts x are normal with a constant. The logging policy, a softmax, draws one of 5 actions; its preferences are
unrelated to the clicks. A click has probability 0.5 for the best action of the context and 0.2 for the others. In the
world ``no effect`` it always has 0.2. A cost model is fitted to one log. The verdict, by dr at 0.95, is on a second log
of 2000 rows. The policy ``good`` prefers the best action, ``bad`` avoids it. Without an effect all policies have the
same value.

soft, sharp         The logging policy, and the same policy with its scores times 4.
doubled, halved     Soft, with propensities times 2 (at most 1), and divided by 2.
some doubled        Soft, with the propensities of two of the actions times 2.
missing             In contexts with x_0 > 0, the logging policy never takes the best action.
drift               Clicks are 0.15 more likely in the last half of the rows.
duplicated          500 rows, each written four times, shuffled.
out of step         Soft. Each row has the propensity of the row before it.
out of step, sharp  The same with sharp.

The table has a row per log, world and policy:

- The share of each verdict.
- ``falsely better``: The share of *better* if the policy is not better. ``falsely worse`` is its counterpart.
- ``falsely accused``: The share of "the log is wrong" if the propensities are right.
- ``named``: The share of logs with a planted fault that a diagnostic names. It is empty for ``bad`` with ``missing``,
  since that policy hardly takes the missing action.
- ``unfounded``: The share of logs in which a diagnostic names a fault that was not planted.
- ``coverage``: The share of intervals that contain the true difference.

Without an effect, one log cannot lead to both false claims, and each of them is allowed in 5 % of the logs.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np
import pandas as pd
from cells import means, number, table_of, with_shares
from synthetic import draw_actions, normal_coefficients, normal_contexts

from drcrm.cost_models.ridge_model import CostModel
from drcrm.data.bandit_log import BanditLog
from drcrm.logs.diagnostics.comparison.policy_comparison import compare_with_logging
from drcrm.logs.diagnostics.comparison.verdict import Bounds, decide
from drcrm.logs.diagnostics.diagnosis import check_log, diagnose
from drcrm.policies.exponential import SoftmaxPolicy

ROWS = 2000
FEATURES, ACTIONS = 4, 5
CLICKS, MORE = 0.2, 0.3
DRIFT = 0.15
COPIES = 4
POPULATION = 200_000
AUDIT = "audit_mean_ratio", "audit_likelihood_ratio"
FAULTS = {  # the diagnostics that name each planted fault
    "soft": (),
    "sharp": (),
    "doubled": AUDIT,
    "halved": AUDIT,
    "some doubled": AUDIT,
    "missing": ("mean_weight", "unsupported", "effective_size"),
    "drift": ("cost_drift",),
    "duplicated": ("duplicated_rows",),
    "out of step": AUDIT,
    "out of step, sharp": AUDIT,
}
CAUTIONS = "cost_drift", "action_drift", "duplicated_rows"  # these name a fault without failing
WRONG = ("doubled", "halved", "some doubled", "out of step", "out of step, sharp")


class World:
    """The logging policy, the policies under test, click probabilities and true costs."""

    def __init__(self, is_null: bool):
        rng = np.random.default_rng(0)
        self.best = normal_coefficients(rng, FEATURES, ACTIONS)
        self.base = normal_coefficients(rng, FEATURES, ACTIONS, 0.5)
        self.is_null = is_null
        self.policies = {"good": SoftmaxPolicy(self.base + self.best), "bad": SoftmaxPolicy(self.base - self.best)}
        self.population = self.contexts(POPULATION, rng)

    def contexts(self, n: int, rng) -> np.ndarray:
        return normal_contexts(rng, n, FEATURES)

    def logging(self, kind: str, X: np.ndarray) -> np.ndarray:
        """Return the probability of each action under the logging policy, (n, K)."""
        mean = SoftmaxPolicy(self.base * (4 if "sharp" in kind else 1)).marginals(X)
        if kind == "missing":
            mean[np.arange(len(X)), (X @ self.best).argmax(axis=1)] *= X[:, 0] <= 0
            mean /= mean.sum(axis=1, keepdims=True)
        return mean

    def clicks(self, X: np.ndarray) -> np.ndarray:
        """Return the probability of a click for each action, (n, K)."""
        is_best = np.arange(ACTIONS) == (X @ self.best).argmax(axis=1)[:, None]
        return CLICKS + MORE * is_best * (not self.is_null)

    def differences(self, kind: str) -> dict[str, float]:
        """Return the cost of each policy minus that of the logging policy."""
        if self.is_null:
            return dict.fromkeys(self.policies, 0.0)
        X = self.population
        clicks, logging = self.clicks(X), self.logging(kind, X)
        gains = {name: ((pi.marginals(X) - logging) * clicks).sum(axis=1) for name, pi in self.policies.items()}
        return {name: -float(gain.mean()) for name, gain in gains.items()}

    def log(self, kind: str, rng, n_rows: int = ROWS) -> BanditLog:
        """Return a log with its fault."""
        n = n_rows // COPIES if kind == "duplicated" else n_rows
        X = self.contexts(n, rng)
        mean = self.logging(kind, X)
        action = draw_actions(mean, rng)
        p, clicks = mean[np.arange(n), action], self.clicks(X)[np.arange(n), action]
        if kind == "drift":
            clicks = clicks + DRIFT * (np.arange(n) >= n // 2)
        cost = -(rng.random(n) < clicks).astype(float)
        if kind in ("doubled", "halved", "some doubled"):
            factor = np.where((kind != "some doubled") | (action < 2), 0.5 if kind == "halved" else 2, 1)
            p = np.minimum(p * factor, 1)
        if kind.startswith("out of step"):
            p = np.roll(p, 1)
        rows = rng.permutation(np.repeat(np.arange(n), COPIES)) if kind == "duplicated" else np.arange(n)
        return BanditLog(X[rows], action[rows], p[rows], cost[rows], n_actions=ACTIONS)


def reach_verdicts(world: World, kind: str, truth: dict[str, float], seed: int) -> list[dict[str, object]]:
    """Return a row per policy: the verdict from one log and whether it is right."""
    rng = np.random.default_rng(seed)
    log, model = world.log(kind, rng), CostModel().fit(world.log(kind, rng))
    checks, rows = check_log(log), []
    for name, policy in world.policies.items():
        diagnosis = diagnose(log, policy, checks, cost_model=model)
        comparison = compare_with_logging(policy, log.with_groups(diagnosis.units), cost_model=model)
        verdict, difference = decide(diagnosis.diagnostics, Bounds.of(comparison)).name, comparison.difference
        raised = [check.key for check in diagnosis.diagnostics if check.level != "good"]
        blamed = {check.key for check in diagnosis.failed} & {*AUDIT} | {*raised} & {*CAUTIONS}
        is_hidden = kind == "missing" and name == "bad"
        rows.append(
            {
                "log": kind,
                "world": "no effect" if world.is_null else "clicks",
                "policy": name,
                "verdict": verdict,
                "falsely better": verdict == "better" and truth[name] >= 0,
                "falsely worse": verdict == "worse" and truth[name] <= 0,
                "falsely accused": verdict == "the log is wrong" and kind not in WRONG,
                "named": np.nan if is_hidden or not FAULTS[kind] else any(map(FAULTS[kind].__contains__, raised)),
                "unfounded": bool(blamed - {*FAULTS[kind]}),
                "coverage": difference.low <= truth[name] <= difference.high,
            }
        )
    return rows


@cache
def worlds() -> tuple[World, World]:
    return World(is_null=False), World(is_null=True)


@cache
def true_differences(world: World, kind: str) -> dict[str, float]:
    return world.differences(kind)


def measure(repetition: int) -> Iterator[dict[str, object]]:
    """Yield a row per log, world and policy."""
    for place, kind in enumerate(FAULTS):
        for world in worlds():
            yield from reach_verdicts(world, kind, true_differences(world, kind), 10_000 * place + repetition)


def tabulate(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the shares by log, world and policy."""
    return means(with_shares(rows), ["log", "world", "policy"])


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """Return the worst case over policies and worlds."""
    rows = table.groupby("log", sort=False)
    falsely = rows[["falsely better", "falsely worse", "falsely accused"]].max()
    worst = falsely.join(rows[["named", "coverage"]].min())
    header = ("log", *falsely.columns[:2], 'falsely "the log is wrong"', "fault named", "coverage of the 95 % interval")
    return table_of(header, ((log, *map(number, row)) for log, row in zip(worst.index, worst.values, strict=True)))
