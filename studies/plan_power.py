"""Does the power that ``drcrm plan`` predicts agree with simulated logs?

A log has three actions. The plan has the true difference, and the spread of the terms from a log of 200 000 rows. It
predicts the power: the share of logs that show that the policy is better. The study counts them among simulated logs.
There are three kinds of log and two sets of options. The bound is the certificate of the difference. For clicks it is
by "dr", and the cost model has the true mean rewards times lognormal errors. For the other logs it is by "snips". Logs:

clicks         softmax logging policy; a reward is 1 with probability 0.1 to 0.3
revenue        the same, but each reward of 1 is replaced by a lognormal number, cut at 10
ε-greedy       ε-greedy logging policy with ε = 30 %, and a softmax policy

Options, both with a predicted power near 0.8, that of the plan:

1 candidate    no exploration
20 candidates  10 % exploration

The table has a row per setting: the number of rows, the predicted and the simulated power, and the true difference.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from anytime import expected_size
from scipy.special import expit, ndtri, softmax
from synthetic import draw_actions

from drcrm.certificates import policy_certificate
from drcrm.certificates.sample_size import OneLook
from drcrm.certificates.terms.evaluation import EvaluationInputs
from drcrm.certificates.terms.policy_terms import TermBuilder
from drcrm.data.bandit_log import BanditLog
from drcrm.diagnostics.comparison.exploration_plan import PlannedPolicy, plan_exploration

KINDS = "clicks", "revenue", "ε-greedy"
OPTIONS = (1, 0.0), (20, 0.1)  # candidates, exploration rate
POPULATION, STEP = 200_000, 50
SCORES = np.array([1, 0, -1])


def probabilities(kind: str, x: np.ndarray, rate: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the probabilities of the policy and of the logging policy, and the mean rewards, each (n, 3)."""
    policy = softmax(1.5 * x[:, None] * SCORES, axis=1)
    logging = softmax(x[:, None] * SCORES / -2, axis=1)
    if kind == "ε-greedy":
        logging = np.tile([0.8, 0.1, 0.1], (len(x), 1))
    means = 0.1 + 0.2 * expit(1.5 * x[:, None] * SCORES)
    return policy, (1 - rate) * logging + rate / 3, means


def true_values(kind: str) -> tuple[float, float]:
    """Return the true gain of the policy, and how much more the uniform policy costs than the logging policy."""
    policy, logging, means = probabilities(kind, ndtri((np.arange(10**5) + 0.5) / 10**5), 0.0)
    size = expected_size() if kind == "revenue" else 1.0
    gain = ((policy - logging) * means).sum(axis=1).mean()
    return float(gain * size), float(((logging - 1 / 3) * means).sum(axis=1).mean() * size)


def draw(kind: str, rows: int, rate: float, seed: int) -> tuple[BanditLog, np.ndarray, np.ndarray]:
    """Return a log, the probabilities of the policy, and modelled costs."""
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    x = rng.normal(size=rows)
    policy, logging, means = probabilities(kind, x, rate)
    action, index = draw_actions(logging, rng), np.arange(rows)
    reward = (rng.random(rows) < means[index, action]).astype(float)
    if kind == "revenue":
        reward *= np.minimum(np.exp(rng.normal(size=rows)), 10)
        means = means * expected_size()
    modelled = -means * np.exp(0.3 * rng.normal(size=means.shape))
    log = BanditLog(np.ones((rows, 1)), action, logging[index, action], -reward, n_actions=3, context=index)
    return log, policy, modelled


def tested_policy(kind: str) -> tuple[BanditLog, PlannedPolicy, float]:
    """Return the large log, the policy's terms in it, and how much more the uniform policy costs."""
    log, policy, modelled = draw(kind, POPULATION, 0.0, seed=10**6)
    estimate = estimate_of(kind)
    inputs = EvaluationInputs.create(policy, log, None, None, None, modelled if estimate == "dr" else None)
    terms = TermBuilder(inputs, estimate).terms(inputs.policy)
    gain, cost = true_values(kind)
    return log, PlannedPolicy(terms.weight, terms.modelled, terms.residual, gain=gain), cost


def estimate_of(kind: str) -> str:
    return "dr" if kind == "clicks" else "snips"


def largest_reward(kind: str) -> float:
    return 10.0 if kind == "revenue" else 1.0


def is_shown(kind: str, rows: int, rate: float, choices: int, seed: int) -> bool:
    """Return whether the policy is shown to be better by one simulated log."""
    log, policy, modelled = draw(kind, rows, rate, seed)
    options = {"baseline": "logging", "choices": choices, "cost_range": (-largest_reward(kind), 0.0)}
    estimate = estimate_of(kind)
    model = {"cost_model": modelled} if estimate == "dr" else {}
    return policy_certificate(policy, log, estimate, **options, **model).bound < 0


def table(repetitions: int) -> pd.DataFrame:
    """Return a row per kind and options."""
    rows = []
    for kind in KINDS:
        plan = tested_policy(kind)
        for choices, rate in OPTIONS:
            rows.append(measure(kind, choices, rate, plan, repetitions))
    return pd.DataFrame(rows)


def measure(
    kind: str,
    choices: int,
    rate: float,
    plan: tuple[BanditLog, PlannedPolicy, float],
    repetitions: int,
) -> dict[str, object]:
    """Return the predicted and the simulated power at the number of rows that a plan asks for."""
    log, tested, cost = plan
    look = OneLook(1.0, choices=choices)
    [planned] = [entry for entry in plan_exploration(log, tested, look, 1, cost) if entry["rate"] == rate]
    n = STEP * round(planned["needed"] / STEP)
    difference = tested.gain + rate * cost
    predicted = OneLook(planned["deviation"], choices=choices).power_of(difference, n)
    shown = [is_shown(kind, n, rate, choices, seed) for seed in range(repetitions)]
    return {
        **{"kind": kind, "choices": choices, "rate": rate, "rows": n, "logs": repetitions},
        **{"difference": difference, "predicted": predicted, "simulated": np.mean(shown)},
    }


def summary(rows: pd.DataFrame) -> str:
    """Return the table, and the largest gap between predicted and simulated power."""
    gap = (rows["predicted"] - rows["simulated"]).abs().max()
    return f"{rows.to_string(index=False, float_format='%.3f')}\nlargest gap: {gap:.3f}"
