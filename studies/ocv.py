"""How accurate is the selection of an estimator by OCV and SLOPE, compared with the published table?

The setting is that of Cief, Kveton & Kompan (AAAI 2025) on the data set letter. One half of the data set is evaluated.
A policy is π = softmax(T p) with the probabilities p of a logistic regression (C = 1). The regression is fitted to a
bootstrap of the other half and one row of zeros for each class. T is 1 for π0, and 10 or −10 for π. Each context of the
evaluated half is logged once. The reward is 1 for the right class. The modelled rewards are those of a ridge regression
for each action on the same rows, and 0 for actions never taken. The regressions are solved by Newton's method, which
takes a fifth of the time of the authors' L-BFGS.

The table has a row per T and method: ``value`` is the mean squared error, with its ``standard_error`` over ``runs``.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from cells import compare, number, table_of
from scipy.special import softmax
from sklearn.datasets import load_svmlight_file
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from synthetic import draw_actions

from drcrm import BanditLog, make_estimator

TEMPERATURES = 10, -10
RIDGE = 1e-3
SELECTORS = {
    "SLOPE": ("slope", {"rule": "overlap"}),
    "OCV by IPS": ("ocv", {"validator": "ips"}),
    "OCV by DR": ("ocv", {}),
}


@cache
def read_letter(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return the features as whole numbers from 0 to 15, and the classes from 0."""
    parts = [load_svmlight_file(str(folder / f"letter_{part}.svm.bz2")) for part in ("train", "test")]
    X, y = np.vstack([X.toarray() for X, _ in parts]), np.concatenate([y for _, y in parts])
    return np.round(15 * X), np.unique(y, return_inverse=True)[1]


def class_probabilities(
    X: np.ndarray, y: np.ndarray, other: np.ndarray, inside: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Return the probabilities of a logistic regression on a bootstrap of the other half, for the evaluated half."""
    rows, classes = rng.choice(other, len(other)), np.arange(y.max() + 1)
    dummies = np.zeros((len(classes), X.shape[1]))
    regression = LogisticRegression(solver="newton-cholesky")
    regression.fit(np.vstack([dummies, X[rows]]), np.concatenate([classes, y[rows]]))
    return regression.predict_proba(X[inside])


def modelled_costs(log: BanditLog) -> np.ndarray:
    """Return the predictions of one ridge regression for each action on the same rows; 0 for actions never taken."""
    features = log.X.shape[1]
    coef, intercept = np.zeros((features, log.actions.shape[0])), np.zeros(log.actions.shape)
    for action in np.unique(log.Y):
        rows = action == log.Y
        X, cost = log.X[log.context[rows]], log.cost[rows]
        centre = X.mean(axis=0)
        centred = X - centre
        gram = centred.T @ centred + RIDGE * np.eye(features)
        coef[:, action] = np.linalg.solve(gram, centred.T @ (cost - cost.mean()))
        intercept[action] = cost.mean() - centre @ coef[:, action]
    return log.X @ coef + intercept


def estimators(repetition: int) -> dict[str, Any]:
    """Return the estimators and the selectors by the name of the method."""
    plain = {name: make_estimator(name.lower()) for name in ("IPS", "DM", "DR")}
    selectors = {}
    for method, (name, options) in SELECTORS.items():
        order = ("ips", "dr", "dm") if name == "slope" else ("ips", "dm", "dr")
        of_parts = {} if name == "slope" else {"fit": modelled_costs, "seed": repetition}
        selectors[method] = make_estimator({name: {"estimators": order, **options, **of_parts}})
    return plain | selectors


def measure(repetition: int, resources: Path) -> Iterator[dict]:
    """Yield the squared error of each method at each T."""
    X, y = read_letter(resources)
    inside, other = train_test_split(np.arange(len(X)), train_size=0.5, random_state=repetition)
    rng = np.random.default_rng(repetition)
    logging, target = (class_probabilities(X, y, other, inside, rng) for _ in range(2))
    logging = softmax(logging, axis=1)
    rows = np.arange(len(inside))
    action = draw_actions(logging, rng)
    cost = -(action == y[inside]).astype(float)
    log = BanditLog(X[inside], action, logging[rows, action], cost, n_actions=logging.shape[1])
    model = modelled_costs(log)
    for temperature in TEMPERATURES:
        policy = softmax(temperature * target, axis=1)
        truth = -policy[rows, y[inside]].mean()
        for method, estimator in estimators(repetition).items():
            error = estimator.terms(log, policy, model).mean() - truth
            yield {"setting": f"T={temperature}", "method": method, "squared_error": error**2}


def tabulate(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the mean squared error of each method with its standard error."""
    groups = rows.groupby(["setting", "method"], sort=False)["squared_error"]
    table = groups.agg(value="mean", standard_error="sem", runs="size").reset_index()
    table.insert(0, "table", "ocv")
    table.insert(2, "dataset", "letter")
    return table


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """Return our errors, the published ones, and published − ours in joint standard errors."""
    rows = []
    for cell in compare(table).itertuples():
        exponent = int(np.floor(np.log10(cell.value)))
        ours, published = (
            f"{number(value / 10**exponent, 2)} ± {number(error / 10**exponent, 2)}"
            for value, error in ((cell.value, cell.standard_error), (cell.published, cell.standard_error_published))
        )
        temperature, unit = cell.setting.removeprefix("T=").replace("-", "−"), f"10^{exponent}".replace("-", "−")
        rows.append((temperature, cell.method, unit, ours, published, number(cell.difference_in_errors, 1, "+")))
    return table_of(("T", "method", "unit", "ours", "published", "(published − ours)/error"), rows)
