"""How often the verdict on a policy is wrong, and whether planted faults are named.

Contexts x are normal, with a constant; one of 5 actions is drawn by π0, a softmax; a reward is clicked with
probability 0.5 for the action that is best for the context, and else 0.2; in the world ``no effect`` with 0.2 always. A
cost model is fitted to one log, and the verdict, by dr at 0.95, is of another, of 2000 rows. π0 leans towards actions
that are no better than others. Policies: ``good`` leans to the best action, ``bad`` away from it; with no effect both
are worth as much as π0.

soft, sharp        π0, and the same with scores times 4
doubled, halved    soft, propensities times 2 (at most 1), and divided by 2
some doubled       those of a third of the actions
missing            π0 never takes the best action in the half of the contexts with x_0 > 0
drift              clicks are 0.15 more likely in the last half of the rows
duplicated         500 rows, each four times, shuffled
out of step        propensities moved by a row
out of step, sharp

A row per log, world and policy: the shares of the verdicts; what is wrong of them, ``falsely better`` where the policy
is no better, ``falsely worse`` where it is no worse, ``falsely accused`` where "the log is wrong" is said of right
propensities; ``named``, the share in which the planted fault is (not of ``bad`` where the best action is missing, which
it hardly takes); ``unfounded``, that in which one is named that was not planted; and ``coverage``, that of the interval
of the difference. Without an effect the two false claims exclude each other, and each has its own 5 %.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from drcrm.cost_models.ridge_model import CostModel
from drcrm.data.bandit_log import BanditLog
from drcrm.diagnostics.diagnosis import check_rows, diagnose
from drcrm.diagnostics.propensity_audit import cross_fit_propensities
from drcrm.diagnostics.verdict import VERDICTS, compare_with_logging, reach_verdict
from drcrm.policies.exponential import SoftmaxPolicy

ROWS = 2000
FEATURES, ACTIONS = 4, 5
CLICKS, MORE = 0.2, 0.3
DRIFT = 0.15
COPIES = 4
POPULATION = 200_000
AUDIT = (
    "propensity audit, arithmetic mean",
    "propensity audit, harmonic mean",
    "propensity audit, likelihood ratio",
)
FAULTS = {  # in which diagnostics a planted fault is named
    "soft": (),
    "sharp": (),
    "doubled": AUDIT,
    "halved": AUDIT,
    "some doubled": AUDIT,
    "missing": ("mean weight", "mass without support", "effective sample size"),
    "drift": ("drift of costs",),
    "duplicated": ("duplicated rows",),
    "out of step": AUDIT,
    "out of step, sharp": AUDIT,
}
CAUTIONS = "drift of costs", "drift of actions", "duplicated rows"  # which name a fault without failing
WRONG = ("doubled", "halved", "some doubled", "out of step", "out of step, sharp")


class World:
    """What is best, π0 and the policies that are judged, and what each costs."""

    def __init__(self, is_null: bool):
        rng = np.random.default_rng(0)
        self.best = np.vstack([rng.normal(size=(FEATURES, ACTIONS)), np.zeros(ACTIONS)])
        leaning = np.vstack([rng.normal(size=(FEATURES, ACTIONS)) / 2, np.zeros(ACTIONS)])
        self.is_null, self.leaning = is_null, leaning
        self.policies = {"good": SoftmaxPolicy(leaning + self.best), "bad": SoftmaxPolicy(leaning - self.best)}
        self.population = self.contexts(POPULATION, rng)

    def contexts(self, n: int, rng) -> np.ndarray:
        return np.column_stack([rng.normal(size=(n, FEATURES)), np.ones(n)])

    def logging(self, kind: str, X: np.ndarray) -> np.ndarray:
        """π0 of each action, (n, K)."""
        mean = SoftmaxPolicy(self.leaning * (4 if "sharp" in kind else 1)).marginals(X)
        if kind == "missing":
            mean[np.arange(len(X)), (X @ self.best).argmax(axis=1)] *= X[:, 0] <= 0
            mean /= mean.sum(axis=1, keepdims=True)
        return mean

    def clicks(self, X: np.ndarray) -> np.ndarray:
        """The probability of a click for each action, (n, K)."""
        is_best = np.arange(ACTIONS) == (X @ self.best).argmax(axis=1)[:, None]
        return CLICKS + MORE * is_best * (not self.is_null)

    def differences(self, kind: str) -> dict[str, float]:
        """How much more each policy costs than π0."""
        if self.is_null:
            return dict.fromkeys(self.policies, 0.0)
        X = self.population
        clicks, logging = self.clicks(X), self.logging(kind, X)
        found = {name: ((each.marginals(X) - logging) * clicks).sum(axis=1) for name, each in self.policies.items()}
        return {name: -float(each.mean()) for name, each in found.items()}

    def log(self, kind: str, rng, n_rows: int = ROWS) -> BanditLog:
        """Return a log with its fault."""
        n = n_rows // COPIES if kind == "duplicated" else n_rows
        X = self.contexts(n, rng)
        mean = self.logging(kind, X)
        action = (np.cumsum(mean, axis=1) > rng.random(n)[:, None]).argmax(axis=1)
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


def judged(world: World, kind: str, truth: dict[str, float], seed: int) -> list[dict[str, object]]:
    """The verdicts on each policy by one log, a row each."""
    rng = np.random.default_rng(seed)
    log, model = world.log(kind, rng), CostModel().fit_log(world.log(kind, rng))
    modelled, found = cross_fit_propensities(log, check_rows(log)[1]), []
    for name, policy in world.policies.items():
        diagnosis = diagnose(log, policy, cost_model=model, modelled=modelled)
        comparison = compare_with_logging(policy, log, cost_model=model, groups=diagnosis.units)
        given, difference = reach_verdict(comparison, diagnosis).verdict, comparison.difference
        raised = [each.name for each in diagnosis.diagnostics if each.level != "good"]
        accused = {*diagnosis.failed} & {*AUDIT} | {*raised} & {*CAUTIONS}
        is_hidden = kind == "missing" and name == "bad"
        found.append(
            {
                "log": kind,
                "world": "no effect" if world.is_null else "clicks",
                "policy": name,
                "verdict": given,
                "falsely better": given == "better" and truth[name] >= 0,
                "falsely worse": given == "worse" and truth[name] <= 0,
                "falsely accused": given == "the log is wrong" and kind not in WRONG,
                "named": np.nan if is_hidden or not FAULTS[kind] else any(map(FAULTS[kind].__contains__, raised)),
                "unfounded": bool(accused - {*FAULTS[kind]}),
                "coverage": difference.low <= truth[name] <= difference.high,
            }
        )
    return found


def table(repetitions: int) -> pd.DataFrame:
    """A row per log, world and policy."""
    worlds = [World(is_null) for is_null in (False, True)]
    rows = []
    for place, kind in enumerate(FAULTS):
        for world in worlds:
            truth = world.differences(kind)
            for repetition in range(repetitions):
                rows += judged(world, kind, truth, 10_000 * place + repetition)
    rows = pd.DataFrame(rows)
    keys = ["log", "world", "policy"]
    shares = pd.get_dummies(rows["verdict"]).reindex(columns=list(VERDICTS), fill_value=False)
    counted = ["falsely better", "falsely worse", "falsely accused", "named", "unfounded", "coverage"]
    rows = pd.concat([rows[keys], shares, rows[counted].astype(float)], axis=1)
    return rows.groupby(keys, sort=False).mean().reset_index()


def summary(rows: pd.DataFrame) -> str:
    """The whole table."""
    return rows.to_string(index=False, float_format="%.3f")
