"""How often is *better* said although a guardrail is at its margin, and how often if it has slack?

`learn` learns a policy from one log, which clearly raises clicks. `certify` then judges it on further logs of 3000
rows, with three actions drawn by a softmax, each with a probability of at least 0.002. The mapping says so, because a
certificate would otherwise test whether the log lacks actions. The margin of each guardrail is chosen so that the
policy's true difference is at the margin, or below it by 3 standard errors. Two guardrails are judged:

unsubscribed   a cost, 1 in 3 to 7 % of the rows, with an absolute margin
revenue        a reward of lognormal size for half of the clicks, with a margin in per cent of the logging policy's mean

The table has a row for each guardrail and slack, in standard errors: the number of logs, the number that end in
*better* with this guardrail, and the number in which the bound on the main outcome is below 0. The verdict *better*
needs both bounds, so one run of `certify` with all guardrails answers for each of them. Log number s has seed s + 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
from scipy.special import softmax
from synthetic import draw_actions

import drcrm
from drcrm.logs.policy_file import read_policy

LEARNED, ROWS, CONTEXTS, PILOTS = 6000, 3000, 10**6, 5
SLACKS = 0, 3  # standard errors
SIGMA = 0.5
MAPPING = {
    "action": "a",
    "propensity": "p",
    "reward": "click",
    "features": {"numeric": ["x", "y"]},
    "algorithm": "kl_dro_dr",
    "least_propensity": 0.002,  # y is normal, and the probability of an action is smaller only if |y| > 6.2
}
ALLOWED = 34 / 500  # share of false verdicts; the 99 % point of a binomial law with 500 logs at 5 % is 37


def means(contexts: np.ndarray) -> dict[str, np.ndarray]:
    """Return the logging policy's probabilities, and the mean outcomes of each action, (n, 3) each."""
    x, y = contexts.T
    clicks = 0.15 + 0.2 * (np.digitize(x, [-0.5, 0.5])[:, None] == np.arange(3))
    unsubscribed = np.column_stack([np.full(len(x), 0.03), np.full(len(x), 0.05), 0.05 + 0.02 * (y > 0)])
    revenue = clicks * 0.5 * np.exp(SIGMA**2 / 2)
    logging = softmax(np.column_stack([-0.5 * y, np.zeros(len(x)), 0.5 * y]), axis=1)
    return {"logging": logging, "click": clicks, "unsubscribed": unsubscribed, "revenue": revenue}


def draw_log(rows: int, seed: int) -> pd.DataFrame:
    """Return a log of random contexts."""
    rng = np.random.default_rng(seed)
    contexts = rng.normal(size=(rows, 2))
    world = means(contexts)
    a, place = draw_actions(world["logging"], rng), np.arange(rows)
    click, unsubscribed = ((rng.random(rows) < world[name][place, a]).astype(int) for name in ("click", "unsubscribed"))
    revenue = click * (rng.random(rows) < 0.5) * np.exp(SIGMA * rng.normal(size=rows))
    frame = pd.DataFrame({"x": contexts[:, 0], "y": contexts[:, 1], "a": a, "p": world["logging"][place, a]})
    return frame.assign(click=click, unsubscribed=unsubscribed, revenue=revenue)


def true_differences(policy: Path) -> tuple[dict[str, float], float]:
    """Return the policy's mean outcomes minus the logging policy's, by name, and the logging policy's mean revenue."""
    contexts = np.random.default_rng(0).normal(size=(CONTEXTS, 2))
    stored, world = read_policy(policy), means(contexts)
    learned = stored.policy.marginals(stored.encoding.contexts(pd.DataFrame(contexts, columns=["x", "y"])))
    change = learned - world["logging"]
    differences = {name: float((change * world[name]).sum(axis=1).mean()) for name in ("unsubscribed", "revenue")}
    return differences, float((world["logging"] * world["revenue"]).sum(axis=1).mean())


def guardrails(differences: dict[str, float], mean: float, errors: dict[str, float]) -> dict[str, dict]:
    """Return a guardrail for each outcome and slack, named "OUTCOME SLACK"."""
    rails: dict[str, dict] = {}
    for slack in SLACKS:
        most = differences["unsubscribed"] + slack * errors["unsubscribed"]
        least = 100 * (differences["revenue"] - slack * errors["revenue"]) / mean
        rails[f"unsubscribed {slack}"] = {"cost": "unsubscribed", "at_most": most}
        rails[f"revenue {slack}"] = {"reward": "revenue", "at_least": f"{least:.6f} %"}
    return rails


def certify(folder: Path, rails: dict[str, dict], seed: int) -> dict:
    """Return the answer of ``certify`` on a new log."""
    mapping = MAPPING | {"guardrails": rails}
    return drcrm.certify(folder / "policy.npz", draw_log(ROWS, seed), mapping).as_dict()


def standard_errors(answers: list[dict]) -> dict[str, float]:
    """Return the mean standard error of each outcome's difference."""
    errors = [
        {rail["outcome"]: rail["difference"]["standard_error"] for rail in answer["guardrails"]} for answer in answers
    ]
    return pd.DataFrame(errors).mean().to_dict()


@cache
def experiment() -> tuple[TemporaryDirectory, dict[str, dict]]:
    """Return a folder with a learned policy, and the guardrails."""
    temporary = TemporaryDirectory()
    folder = Path(temporary.name)
    drcrm.learn(draw_log(LEARNED, 0), MAPPING, output=folder / "policy.npz")
    truth = true_differences(folder / "policy.npz")
    trial = guardrails(*truth, dict.fromkeys(("unsubscribed", "revenue"), 0.0))
    pilots = [certify(folder, trial, 10**6 + seed) for seed in range(PILOTS)]
    return temporary, guardrails(*truth, standard_errors(pilots))


def measure(repetition: int) -> Iterator[dict[str, object]]:
    """Yield a row for each guardrail and slack."""
    temporary, rails = experiment()
    answer = certify(Path(temporary.name), rails, repetition + 1)
    is_better = answer["candidates"][0]["difference"]["bound"] < 0
    for label, rail in zip(rails, answer["guardrails"], strict=True):
        outcome, slack = label.split()
        is_shown = is_better and rail["status"] == "holds"
        yield {"guardrail": outcome, "slack": int(slack), "better": is_shown, "main": is_better}


def tabulate(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the counts for each guardrail and slack."""
    groups = rows.groupby(["guardrail", "slack"], sort=False)
    return groups[["better", "main"]].sum().astype(int).assign(logs=groups.size()).reset_index()
