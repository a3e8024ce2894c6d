"""How often do blocks show a gain on logs in which no policy can be better?

Rewards do not depend on actions, so every policy earns the same, and a shown gain is a false claim. A log has 1000
rows. Except in the first two kinds, it has two numeric features and a city, and a softmax of them logs one of three
actions:

2 arms      no features, two actions with equal probabilities, and normal rewards
6 arms      no features, six actions with equal probabilities, and normal rewards
clicks      clicks with a probability of about 10 %, which depends on the features
revenue     a reward of lognormal size (σ = 1) in 10 % of the rows, else 0
ε-greedy    clicks; a rule takes one of three actions by city with probability 0.8, otherwise a random one
groups      200 users with 5 rows each; the rows of a user share features and the level of rewards
drift       features, rewards and the shares of actions change in time, and blocks are in the order of time

The study learns and tests policies like `learn`, with three blocks. It leaves out the checks of the log, which can only
refuse more logs. The learner is KL-DRO on doubly robust costs with one radius. Its candidates are the fit, a fit with a
ridge, and policies a quarter and half of the way from π0 to the fit.

The table has a row per kind, with the number of ``logs``. In the share ``better``, the 95 % bound on the mixture of the
blocks' policies shows a gain. The share ``refused`` has no bound. The p-value is that of a one-sided binomial test that
more than 5 % are *better*. Every policy's true gain is 0, so *better* is also the share of
false bounds. Log number s of each kind has seed s.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from cells import means, number, table_of
from null_verdicts import ALLOWED, CITIES, contexts
from scipy.special import expit, softmax
from scipy.stats import binom
from synthetic import draw_actions

from drcrm.arrays.tables import Table
from drcrm.data.bandit_log import BanditLog
from drcrm.evaluation.bounds.upper_bound import as_bound
from drcrm.evaluation.certified_terms import CertificateSettings
from drcrm.evaluation.evaluation import Evaluation
from drcrm.logs.block_policies import learn_policies
from drcrm.optimization.lbfgs import LbfgsSettings
from drcrm.selection.algorithms import Algorithm
from drcrm.selection.fit_settings import FitSettings, SafeCandidates

ROWS, USERS, ACTIONS, EPSILON = 1000, 200, 3, 0.2
KINDS = ("2 arms", "6 arms", "clicks", "revenue", "ε-greedy", "groups", "drift")
CONFIDENCE = 0.95
ALGORITHM = Algorithm(
    "KLDRO",
    "radius",
    (0.01,),
    {"estimate": "dr", "start": "model", "tilt": "auto"},
    FitSettings(LbfgsSettings(tol=1e-4), safe=True, around=SafeCandidates(ridges=(1e-2,), steps=(0.25, 0.5))),
)


def log_actions(kind: str, frame: pd.DataFrame, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return the actions of visitors in the order of time, and their propensities, (n,)."""
    is_city = frame["city"].to_numpy()[:, None] == CITIES
    trend = np.linspace(-1, 1, len(frame)) if kind == "drift" else 0.0
    probability = softmax(
        np.column_stack([frame["age"] / 20 + trend, frame["spent"] / 40, np.full(len(frame), 1.5)]) + is_city, axis=1
    )
    if kind == "ε-greedy":
        probability = EPSILON / ACTIONS + (1 - EPSILON) * is_city
    action = draw_actions(probability, rng)
    return action, probability[np.arange(len(frame)), action]


def draw_rewards(kind: str, frame: pd.DataFrame, rng: np.random.Generator) -> np.ndarray:
    """Return rewards that do not depend on the action, (n,)."""
    level, n = 0.5 * (frame["city"] == "Bern") + 0.05 * (frame["age"] - 40), len(frame)
    if kind == "revenue":
        return np.exp(0.3 * level + rng.normal(size=n)).to_numpy() * (rng.random(n) < 0.1)
    if kind in ("clicks", "ε-greedy"):
        return (rng.random(n) < expit(level - 2.2)).astype(float)
    trend = 2 * np.sin(np.linspace(0, 6, n)) if kind == "drift" else 0.0
    return level.to_numpy() + trend + rng.normal(size=n)


def draw_log(kind: str, rng: np.random.Generator) -> BanditLog:
    """Return a log of a kind, whose costs are minus the rewards."""
    if kind.endswith("arms"):
        arms = int(kind.split()[0])
        action, cost = rng.integers(0, arms, ROWS), rng.normal(size=ROWS)
        return BanditLog(np.ones((ROWS, 1)), action, np.full(ROWS, 1 / arms), cost, n_actions=arms)
    frame, user = contexts(USERS if kind == "groups" else ROWS, rng), np.arange(ROWS)
    level = 0.0
    if kind == "groups":
        user = rng.permutation(np.repeat(np.arange(USERS), ROWS // USERS))
        frame, level = frame.iloc[user].reset_index(drop=True), rng.normal(size=USERS)[user]
    if kind == "drift":
        frame["age"] += np.linspace(0, 9, ROWS)
    action, propensity = log_actions(kind, frame, rng)
    cost = -(draw_rewards(kind, frame, rng) + level)
    cities = frame["city"].to_numpy()[:, None] == CITIES
    X = np.column_stack([np.ones(ROWS), (frame["age"] - 40) / 9, frame["spent"] / 30 - 1, cities])
    log = BanditLog(X, action, propensity, cost, n_actions=ACTIONS)
    if kind == "groups":
        return log.with_groups(user)
    return log.replace(rows=Table(ROWS).assign(time=np.arange(ROWS, dtype=float))) if kind == "drift" else log


def bound_gain(log: BanditLog, seed: int) -> float:
    """Return the upper bound on the cost of the mixture of the blocks' policies minus that of π0; ∞ without one."""
    parts = learn_policies(log, [ALGORITHM], lambda message: None, seed)
    evaluation = Evaluation.of(parts.policy, parts.tested, baseline="logging", cost_model=parts.cost_model).by("dr")
    settings = CertificateSettings.of(parts.tested, as_bound(CONFIDENCE, "kl"), CONFIDENCE, 1, None)
    return parts.blocks.certify(evaluation, settings)[0]


def measure(repetition: int, kinds: tuple[str, ...] = KINDS) -> Iterator[dict[str, object]]:
    """Yield a row per kind of log."""
    for kind in kinds:
        bound = bound_gain(draw_log(kind, np.random.default_rng([KINDS.index(kind), repetition])), repetition)
        yield {"log": kind, "better": bound < 0, "refused": np.isinf(bound)}


def tabulate(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the shares by kind of log."""
    table = means(rows, ["log"])
    return table.assign(p_value=binom.sf((table["better"] * table["logs"]).round() - 1, table["logs"], ALLOWED))


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """Return the number of logs of each kind, and in how many of them a gain was shown."""
    counts = [table["logs"], table["better"] * table["logs"]]
    cells = zip(
        table["log"],
        *(column.round().astype(int).astype(str) for column in counts),
        table["better"].map(number),
        table["refused"].map(number),
        strict=True,
    )
    return table_of(("log", "logs", "*better*", "share", "no bound"), cells)
