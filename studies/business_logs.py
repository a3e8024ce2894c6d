"""How much of the gain of per-action boosting does ``drcrm learn`` reach on logs like those of a business?

e-mail   30 000 customers with 6 features get one of 6 campaigns. A customer buys with a probability of 1 to 7 %, 3 % on
         average, for a lognormal amount (σ = 1) whose mean depends on customer and campaign. The reward is revenue.
shop     30 000 visits with 19 numeric features, of which 15 % are missing, and a category with 200 values. One of 5
         banners is shown, and the reward is a click.

Preferences are not linear in the features. The logging policy π0 is a softmax of a rule of thumb, with a tenth of
uniform actions. Learners only know the propensities of the logged actions:

learn        the policy that ``learn`` writes, with its default algorithms and 5 % of uniform actions
unexplored   the same policy without uniform actions
candidate    the best candidate of ``learn``, even if it is not shown to be better than π0
boosting     the action with the best prediction, by a boosted regression of the reward for each action

The table has a row per log, seed and learner: the true mean rewards of the policy, of π0 and of the best policy on
50 000 new contexts, the verdict of ``learn``, and the gain over π0 relative to the gain of boosting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd
from cells import joined, table_of
from scipy.special import expit, softmax
from sklearn.ensemble import HistGradientBoostingRegressor
from synthetic import draw_actions

import drcrm

ROWS, CONTEXTS = 30_000, 50_000
SIGMA, MISSING, STORES, NUMBERS = 1.0, 0.15, 200, 19
World = tuple[pd.DataFrame, np.ndarray, np.ndarray]  # contexts, π0 and mean rewards, (n, K)


def draw_emails(n: int, rng: np.random.Generator) -> World:
    """Return customers, π0, and the mean revenue of each campaign."""
    age, visits = rng.uniform(18, 80, n), rng.poisson(3, n)
    days, spent = rng.exponential(40, n), rng.lognormal(3, 1, n)
    country, device = rng.integers(0, 5, n), rng.integers(0, 3, n)
    likes = [
        (age < 35) & (device == 0),
        (age > 55) & (days > 20),
        (spent > 30) & (visits > 2),
        (days < 15) | (country == 2),
        (country < 2) & (device > 0),
        (visits < 2) & (spent < 30),
    ]
    buys = 0.02 + 0.05 * np.column_stack(likes) * (0.5 + 0.5 * (days < 60))[:, None]
    amount = np.column_stack([20 + 0.4 * age, 60 - 0.2 * days.clip(0, 100), 25 + 10 * np.log1p(spent)])
    amount = np.hstack([amount, amount[:, ::-1] * 1.1])
    logging = softmax(
        np.column_stack([0.03 * (40 - age), 0.02 * (days - 40), np.log(spent) / 2 - 1, *np.zeros((3, n))]), 1
    )
    frame = pd.DataFrame({"age": age, "visits": visits, "days": days, "spent": spent})
    frame["country"], frame["device"] = country.astype(str), device.astype(str)
    return frame, 0.9 * logging + 0.1 / 6, buys * amount


def draw_visits(n: int, rng: np.random.Generator) -> World:
    """Return visits with missing values, π0, and the click rate of each banner."""
    x, store = rng.normal(size=(n, NUMBERS)), (STORES * rng.random(n) ** 2).astype(int)
    level = np.random.default_rng(0).normal(size=(STORES, 5))[store]
    tastes = [x[:, 0] * x[:, 1], abs(x[:, 2]) - 0.8, np.where(x[:, 3] > 0, x[:, 4], -x[:, 4]), x[:, 5] > 0.5, -x[:, 6]]
    rates = expit(-2.5 + np.column_stack(tastes) + 0.7 * level)
    logging = softmax(np.column_stack([x[:, 0], x[:, 3], np.zeros(n), x[:, 7], -0.5 * x[:, 6]]), axis=1)
    frame = pd.DataFrame(np.where(rng.random(x.shape) < MISSING, np.nan, x), columns=[f"x{j}" for j in range(NUMBERS)])
    return frame.assign(store=np.char.add("store ", store.astype(str))), 0.9 * logging + 0.1 / 5, rates


DRAW: dict[str, Callable[[int, np.random.Generator], World]] = {"e-mail": draw_emails, "shop": draw_visits}


def draw_rewards(kind: str, mean: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return rewards with these means, (n,): clicks, or lognormal amounts in the rows of buyers."""
    if kind == "shop":
        return (rng.random(len(mean)) < mean).astype(float)
    buys = np.clip(mean / 50, 0.01, 0.07)
    amount = mean / buys * np.exp(SIGMA * rng.normal(size=len(mean)) - SIGMA**2 / 2)
    return np.where(rng.random(len(mean)) < buys, amount.round(2), 0.0)


def text_columns(log: pd.DataFrame, names: list[str]) -> list[str]:
    """Return the columns that are not numbers."""
    return [name for name in names if log[name].dtype.kind not in "if"]


def boost(log: pd.DataFrame, names: list[str], new: pd.DataFrame) -> np.ndarray:
    """Return the action with the best prediction in each new context, (m,)."""
    text = text_columns(log, names)
    kinds = {name: pd.CategoricalDtype(sorted(log[name].unique())) for name in text}
    predictions = []
    for _, part in log.groupby("action"):
        model = HistGradientBoostingRegressor(categorical_features="from_dtype", random_state=0)
        predictions.append(model.fit(part[names].astype(kinds), part["reward"]).predict(new.astype(kinds)))
    return np.argmax(predictions, axis=0)


def learn(log: pd.DataFrame, names: list[str], new: pd.DataFrame) -> tuple[dict[str, np.ndarray], str]:
    """Return the probabilities of the policies of ``learn`` in new contexts, (m, K), by name, and the verdict."""
    text = text_columns(log, names)
    features = {"numeric": [name for name in names if name not in text], "categorical": text}
    mapping = {"action": "action", "propensity": "p", "reward": "reward", "features": features}
    answer = drcrm.learn(log, mapping)
    policies = {"learn": answer.policy.policy, "candidate": (answer.candidate or answer.policy).policy}
    policies["unexplored"] = policies["learn"].with_exploration(0)
    X = answer.policy.encoding.contexts(new)
    return {name: policy.marginals(X) for name, policy in policies.items()}, answer.verdict.name


def measure(repetition: int) -> Iterator[dict]:
    """Yield a row per log and learner."""
    for kind in DRAW:
        yield from learners(kind, repetition)


def learners(kind: str, seed: int) -> list[dict]:
    """Return a row per learner on one log."""
    rng = np.random.default_rng([seed, len(kind)])
    contexts, logging, mean = DRAW[kind](ROWS, rng)
    action, place, names = draw_actions(logging, rng), np.arange(ROWS), [*contexts]
    reward = draw_rewards(kind, mean[place, action], rng)
    log = contexts.assign(action=action, p=logging[place, action], reward=reward)
    new, logging, mean = DRAW[kind](CONTEXTS, np.random.default_rng([seed, len(kind), 1]))
    policies, verdict = learn(log, names, new)
    policies["boosting"] = np.eye(mean.shape[1])[boost(log, names, new)]
    values = {name: float((policy * mean).sum(axis=1).mean()) for name, policy in policies.items()}
    known = {"logging": float((logging * mean).sum(axis=1).mean()), "best": float(mean.max(axis=1).mean())}
    gain = values["boosting"] - known["logging"]
    key = {"log": kind, "seed": seed, "rows": ROWS}
    return [
        {
            **key,
            "learner": name,
            "reward": value,
            **known,
            "ratio": (value - known["logging"]) / gain,
            "verdict": verdict,
        }
        for name, value in values.items()
    ]


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """Return the true mean rewards of all policies, and the gain of ``learn`` relative to the gain of boosting."""
    means, cells = table.groupby(["log", "learner"], sort=False)[["logging", "reward", "best"]].mean(), []
    for log in means.index.unique("log"):
        of_log = means.loc[log]
        known, rewards = of_log.loc["learn", ["logging", "best"]], of_log.loc[["boosting", "learn"], "reward"]
        values = known["logging"], *rewards, known["best"]
        ratios = table.query("log == @log and learner == 'learn'")["ratio"]
        cells.append((log, *(f"{value:.4g}" for value in values), joined(ratios, 2)))
    header = ("log", "π0", "boosting", "`learn`", "best policy", "gain of `learn` ÷ gain of boosting, by seed")
    return table_of(header, cells)
