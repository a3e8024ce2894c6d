"""How good are the estimates of a policy's cost, and how often do their intervals cover it?

A log of n rows has contexts drawn from a population, and actions drawn by a logging policy π0. Costs are −1 for the
right class and 0 for others, Hamming losses minus the number of labels, or negated clicks. The cost model has its
default: it is cross-fitted on the log itself.

    digits, satimage   one of K classes; the population is one half of the data set
    scene              six labels; the population is one half of the data set
    shop               one of four sections in new visits, as ``drcrm example`` draws them

For data sets, π0 is 0.6 times a logistic regression on 200 contexts of the other half, plus 0.4 times the uniform
policy. Three policies are evaluated. ``near`` is halfway from π0 to ``learned``, a logistic regression on the other
half. ``greedy`` is 0.9 times the most probable actions of ``learned``, plus 0.1 times the uniform policy. In the shop,
``learned`` has probability 0.7 on the best section and 0.1 on the others, and ``greedy`` 0.97 and 0.01.

The table has a row per kind, policy and estimate: the policy's expected cost, the share of logs in which the 95 %
interval covers it, with its standard error, and the bias, standard deviation and root mean squared error. ``stated`` is
the mean standard error that the estimate reports. "auto" is the default of ``off_policy_value``. "fitted to the log" is
the doubly robust estimate with a cost model of the same rows, which was the default before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from cells import number, table_of
from sklearn.linear_model import LogisticRegression
from sklearn.multioutput import MultiOutputClassifier
from synthetic import draw_actions

from drcrm.cost_models.cross_fitting import cross_fit
from drcrm.cost_models.ridge_model import CostModel
from drcrm.data.bandit_log import BanditLog
from drcrm.evaluation.off_policy_value import off_policy_value, off_policy_values
from drcrm.logs.cli.example import SECTIONS, draw_visits
from drcrm.paper.array_files import read_truth
from drcrm.paper.dataset_formats import load_digits

ROWS = 1000
LOGGING_ROWS = 200  # contexts that fit the logging policy
UNIFORM = 0.4  # share of the uniform policy in the logging policy
VISITS = 200_000  # of the shop's population
IN_SAMPLE = "dr, fitted to the log"


@dataclass(frozen=True)
class Population:
    """Contexts X, probabilities of π0 and of the evaluated policies by name, and the right labels or classes."""

    X: np.ndarray
    logging: np.ndarray
    policies: dict[str, np.ndarray]
    labels: np.ndarray

    def expected_cost(self, mean: np.ndarray) -> float:
        """Return the expected cost of a policy from its probabilities of all actions."""
        if self.labels.ndim == 1:
            return -float(mean[np.arange(len(mean)), self.labels].mean())
        return -float(np.where(self.labels == 1, mean, 1 - mean).sum(axis=1).mean())

    def draw(self, rng: np.random.Generator) -> tuple[BanditLog, dict[str, np.ndarray]]:
        """Return a log, and the probabilities of the evaluated policies in its contexts."""
        rows = rng.integers(0, len(self.X), ROWS)
        mean, labels = self.logging[rows], self.labels[rows]
        if labels.ndim == 1:
            action = draw_actions(mean, rng)
            propensity, cost = mean[np.arange(ROWS), action], -(action == labels).astype(float)
            log = BanditLog(self.X[rows], action, propensity, cost, n_actions=mean.shape[1])
        else:
            action = (rng.random(mean.shape) < mean).astype(int)
            propensity = np.where(action == 1, mean, 1 - mean).prod(axis=1)
            log = BanditLog(self.X[rows], action, propensity, -1.0 * (action == labels).sum(axis=1))
        return log, {name: policy[rows] for name, policy in self.policies.items()}


class Shop:
    """Visits of the shop of ``drcrm example``."""

    def __init__(self):
        self.seed = 10**6
        frame, logging = draw_visits(VISITS, 0.7, self.seed)
        rates, policies = self.rates(frame), self.policies_on(frame, logging)
        self.truth = {name: -float((policy * rates).sum(axis=1).mean()) for name, policy in policies.items()}
        self.mapping = {"action": "section", "propensity": "p", "reward": "click"}
        self.mapping["features"] = {"numeric": ["age", "spent"], "categorical": ["city", "device"]}

    @staticmethod
    def best(frame: pd.DataFrame) -> np.ndarray:
        """Return, for each visit and section, whether the section is the best one."""
        city = frame["city"].map({"Bern": 0, "Basel": 1, "Geneva": 2, "Zurich": 3}).to_numpy()
        return np.eye(len(SECTIONS))[(city + (frame["age"].to_numpy() > 45)) % len(SECTIONS)]

    def rates(self, frame: pd.DataFrame) -> np.ndarray:
        """Return the probability of a click for each visit and section."""
        return np.where(self.best(frame) == 1, 0.25, 0.08)

    def policies_on(self, frame: pd.DataFrame, logging: np.ndarray) -> dict[str, np.ndarray]:
        """Return the probabilities of the evaluated policies in each visit."""
        best = self.best(frame)
        learned, greedy = 0.6 * best + 0.1, 0.96 * best + 0.01
        return {"near": (logging + learned) / 2, "learned": learned, "greedy": greedy}

    def draw(self, rng: np.random.Generator) -> tuple[BanditLog, dict[str, np.ndarray]]:
        """Return a log, and the probabilities of the evaluated policies in its contexts."""
        frame, logging = draw_visits(ROWS, 0.7, int(rng.integers(2**31)))
        log = BanditLog.from_frame(frame, self.mapping)
        order = [[*SECTIONS].index(name) for name in log.encoding.names]
        return log, {name: policy[:, order] for name, policy in self.policies_on(frame, logging).items()}


def population(X: np.ndarray, labels: np.ndarray) -> Population:
    """Return one half of a data set, with policies that were fitted to the other half."""
    order = np.random.default_rng(0).permutation(len(X))
    inside, other = np.array_split(order, 2)

    def probabilities(rows: np.ndarray, C: float) -> np.ndarray:
        regression = LogisticRegression(C=C, max_iter=2000)
        if labels.ndim == 1:
            return regression.fit(X[rows], labels[rows]).predict_proba(X[inside])
        fitted = MultiOutputClassifier(regression).fit(X[rows], labels[rows])
        return np.column_stack([mean[:, 1] for mean in fitted.predict_proba(X[inside])])

    confident, learned = probabilities(other[:LOGGING_ROWS], 0.1), probabilities(other, 1)
    uniform = 1 / learned.shape[1] if labels.ndim == 1 else 0.5
    best = learned == learned.max(axis=1, keepdims=True) if labels.ndim == 1 else learned > 0.5
    logging = (1 - UNIFORM) * confident + UNIFORM * uniform
    policies = {"near": (logging + learned) / 2, "learned": learned, "greedy": 0.9 * best + 0.1 * uniform}
    return Population(X[inside], logging, policies, labels[inside])


@cache
def kinds(resources: Path | None, datasets: Sequence[str]) -> list[tuple[str, Population | Shop, dict[str, float]]]:
    """Return the kinds of logs by name, with the true costs of the policies."""
    parts, worlds = {"digits": load_digits(single=True)[0]}, []
    for name in datasets if resources else ():
        X, truth = read_truth(resources / name / "train.npz")
        parts[name] = np.asarray(X), truth.labels
    for name, (X, labels) in parts.items():
        part = population(np.column_stack([X, np.ones(len(X))]), np.asarray(labels).astype(int))
        worlds.append((name, part, {policy: part.expected_cost(mean) for policy, mean in part.policies.items()}))
    shop = Shop()
    return [*worlds, ("shop", shop, shop.truth)]


def estimates(log: BanditLog, policy: np.ndarray, model: np.ndarray, in_sample: CostModel) -> pd.DataFrame:
    """Return all estimates of a policy, with the default's cross-fitted model, which is fitted once for each log."""
    table = off_policy_values(policy, log, cost_model=model)
    table.loc["auto"] = table.loc[off_policy_value(policy, log, cost_model=model).estimate]
    value = off_policy_value(policy, log, "dr", cost_model=in_sample)
    table.loc[IN_SAMPLE] = [float(value), value.standard_error, *value.interval]
    return table


def measure(
    repetition: int, resources: Path | None = None, datasets: Sequence[str] = ()
) -> Iterator[dict[str, object]]:
    """Yield a row per kind, policy and estimate."""
    for kind, world, truth in kinds(resources, tuple(datasets)):
        log, policies = world.draw(np.random.default_rng([repetition, len(kind)]))
        model, in_sample = cross_fit(log).values, CostModel().fit(log)
        for name, policy in policies.items():
            for estimate, row in estimates(log, policy, model, in_sample).iterrows():
                yield {"kind": kind, "policy": name, "estimate": estimate, "cost": truth[name], **row}


def tabulate(values: pd.DataFrame) -> pd.DataFrame:
    """Return coverage, bias, standard deviation and root mean squared error of all estimates."""
    error = values["value"] - values["cost"]
    covers = (values["low"] <= values["cost"]) & (values["cost"] <= values["high"])
    values = values.assign(covers=covers, error=error, square=error**2)
    groups = values.groupby(["kind", "policy", "estimate"], sort=False)
    share, n = groups["covers"].mean(), groups.size()
    columns = {
        "cost": groups["cost"].mean(),
        "logs": n,
        "coverage": share,
        "coverage_error": np.sqrt(share * (1 - share) / n),
        "bias": groups["error"].mean(),
        "deviation": groups["error"].std(),
        "stated": groups["standard_error"].mean(),
        "rmse": np.sqrt(groups["square"].mean()),
    }
    return pd.DataFrame(columns).reset_index()


def relative_errors(table: pd.DataFrame) -> pd.Series:
    """Return each estimate's root mean squared error divided by the least, the geometric mean over all settings."""
    errors = table.pivot(index=["kind", "policy"], columns="estimate", values="rmse")
    least = errors.drop(columns=["auto", IN_SAMPLE]).min(axis=1)
    return np.exp(np.log(errors.div(least, axis=0)).mean()).sort_values()


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """Return coverage and bias of estimates with the default, cross-fitted cost model."""
    rows, cells = table.set_index(["kind", "policy", "estimate"]), []
    names = {"dr": "DR", IN_SAMPLE: "DR, model fitted to the log itself", "snips": "SNIPS", "ips": "IPS", "dm": "DM"}
    for kind, policy in rows.index.droplevel("estimate").unique():
        pairs = (rows.loc[(kind, policy, name), ["coverage", "bias"]] for name in names)
        label = f"{kind.capitalize()}, {policy}"
        cells.append((label, *(f"{number(coverage)}, {number(bias, sign='+')}" for coverage, bias in pairs)))
    return table_of(("log, policy", *names.values()), cells)


def errors(table: pd.DataFrame) -> pd.DataFrame:
    """Return the relative errors."""
    ratios = relative_errors(table).drop(index=["auto", IN_SAMPLE])
    return table_of(("estimate", *ratios.index), [("RMSE ÷ the least", *(number(ratio, 2) for ratio in ratios))])
