"""Reproduce the single-choice protocol from its formulas: python benchmarks/peers.py MIRROR [--output FILE]

The script trains the logging policy π0, CIPS and classifiers of the logged actions with numpy, scipy and scikit-learn.
It imports nothing from the project and uses other random streams. MIRROR is a folder with the LibSVM files of the data
sets. The script prints and writes, for each data set, sharpness, click rates and algorithm, the mean expected and
greedy errors on the test file over the seeds, and their standard errors. tests/pages/test_one_action.py compares the
experiment `single_choice` with them.

Two choices of the project affect results but are not part of a formula:

- CIPS is not convex. L-BFGS finds another optimum if features are divided by their largest |x|, like with `stopping:
  scaled`. `cips_scaled` divides them; `cips` does not, like `single_choice`.
- scikit-learn's trees count rows for the smallest leaf, and stop early beyond 10 000 rows. `…_trees` have a row for
  each distinct (context, action), its weight multiplied by its count, like the project's logs. `…_trees_as_logged` have
  each logged row. The two are equivalent for linear classifiers.
"""

from __future__ import annotations

import argparse
import math
import warnings
import zlib
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax
from sklearn.datasets import load_svmlight_files
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

DATASETS = ["satimage", "pendigits"]
CONDITIONS = [(1, (1, 0)), (4, (1, 0)), (1, (0.7, 0.2))]  # sharpness; click rates of the right action and of others
PASSES, LOGGING_SHARE, HELDOUT_SHARE = 4, 0.05, 0.25
ABSENT_SCORE = -5
LARGEST_WEIGHT = 100
FIRST_SEED = 1000
CONDITION = ["dataset", "sharpness", "right", "wrong"]
KEYS = [*CONDITION, "algorithm"]
ERRORS = ["expected_error", "greedy_error"]


class Log(NamedTuple):
    """Logged rows: context (row of the training file), action, propensity, cost and count."""

    context: np.ndarray
    action: np.ndarray
    propensity: np.ndarray
    cost: np.ndarray
    count: np.ndarray


def read(mirror: Path, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return X and y of the training and of the test file, standardised by the training file, with classes 0 … K−1."""
    files = [str(mirror / f"{name}_{part}.svm.bz2") for part in ("train", "test")]
    train, y_train, test, y_test = load_svmlight_files(files)
    train, test = train.toarray(), test.toarray()
    mean, deviation = train.mean(axis=0), train.std(axis=0)
    classes = np.unique(y_train)
    to_number = [np.searchsorted(classes, y) for y in (y_train, y_test)]
    return (train - mean) / deviation, to_number[0], (test - mean) / deviation, to_number[1]


def with_constant(X: np.ndarray) -> np.ndarray:
    return np.column_stack([X, np.ones(len(X))])


def share(n: int, fraction: float) -> int:
    return math.ceil(n * fraction)


def logging_coefficients(X: np.ndarray, y: np.ndarray, n_actions: int, sharpness: float, generator) -> np.ndarray:
    """Return η Θ0, (d + 1, K), by multinomial logistic regression on a share of the contexts."""
    rows = generator.choice(len(X), share(len(X), LOGGING_SHARE), replace=False)
    model = LogisticRegression(C=1, tol=1e-8, max_iter=10_000).fit(X[rows], y[rows])
    coef = np.zeros((X.shape[1] + 1, n_actions))
    coef[-1] = ABSENT_SCORE
    coef[:, model.classes_] = np.vstack([model.coef_.T, model.intercept_])
    return sharpness * coef


def replayed(probability: np.ndarray, y: np.ndarray, clicks: tuple[float, float], generator) -> Log:
    """Draw PASSES rows per context: an action from π0, its propensity, and a cost of −1 for a click."""
    context = np.tile(np.arange(len(y)), PASSES)
    steps = np.cumsum(probability, axis=1)[context]
    action = (generator.random((len(context), 1)) * steps[:, -1:] >= steps).sum(axis=1)
    cost = -(generator.random(len(context)) < np.where(action == y[context], *clicks)).astype(float)
    return Log(context, action, probability[context, action], cost, np.ones(len(context)))


def training_part(log: Log, generator) -> Log:
    n = len(log.cost)
    kept = generator.permutation(n)[share(n, HELDOUT_SHARE) :]
    return Log(*(column[kept] for column in log))


def distinct(log: Log) -> Log:
    """Merge rows with the same context, action and cost, and count them."""
    keys = np.column_stack([log.context, log.action, log.cost])
    _, first, count = np.unique(keys, axis=0, return_index=True, return_counts=True)
    return Log(*(column[first] for column in log[:-1]), count)


def clip_of(propensity: np.ndarray) -> float:
    """Return M: the 90th over the 10th percentile (values that occur), at least e."""
    high, low = np.percentile(propensity, 90, method="lower"), np.percentile(propensity, 10, method="higher")
    return max(math.e, high / low)


def cips(X: np.ndarray, log: Log, n_actions: int, scale: np.ndarray | float, tolerance: float = 1e-6) -> np.ndarray:
    """Return Θ (d + 1, K) that minimises (1/n) Σ c min(M, π(a|x)/p), by L-BFGS from 0, for rows with count 1.

    The tolerance is relative to the gain since the start, in standard deviations of the cost; features are divided by
    ``scale``.
    """
    X = X / scale
    clip, n, unit = clip_of(log.propensity), len(log.cost), log.cost.std()
    start = log.cost @ np.minimum(clip, 1 / (n_actions * log.propensity)) / n

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        log_prob = log_softmax(X @ flat.reshape(-1, n_actions), axis=1)
        weight = np.exp(log_prob[log.context, log.action]) / log.propensity
        value = log.cost @ np.minimum(clip, weight) / n
        slope = np.where(weight < clip, log.cost * weight, 0) / n  # of log π(a|x)
        by_score = np.zeros_like(log_prob)
        np.add.at(by_score, (log.context, log.action), slope)
        by_score -= by_score.sum(axis=1, keepdims=True) * np.exp(log_prob)
        return (value - start) / unit, (X.T @ by_score).ravel() / unit

    options = {"maxiter": 1000, "maxfun": 10_000, "ftol": tolerance, "gtol": tolerance, "maxcor": 10}
    fit = minimize(objective, np.zeros(X.shape[1] * n_actions), jac=True, method="L-BFGS-B", options=options)
    if not fit.success:
        warnings.warn(f"CIPS: {fit.message}", stacklevel=2)
    return fit.x.reshape(-1, n_actions) / np.reshape(scale, (-1, 1))


def classified(model, X: np.ndarray, log: Log, by_propensity: bool, n_actions: int, X_test: np.ndarray) -> np.ndarray:
    """Return π(a|x) on the test contexts by a classifier of the logged actions, weighted by their gains."""
    gain = log.cost.max() - log.cost
    weight = log.count * (np.minimum(gain / log.propensity, LARGEST_WEIGHT) if by_propensity else gain)
    rows = gain > 0
    model.fit(X[log.context[rows]], log.action[rows], sample_weight=weight[rows])
    probability = np.zeros((len(X_test), n_actions))
    probability[:, model.classes_] = model.predict_proba(X_test)
    return probability


def repetition(data, name: str, sharpness: float, clicks: tuple[float, float], seed: int) -> dict[str, np.ndarray]:
    """Return π(a|x), (test contexts, K), of each algorithm."""
    X, y, X_test, _ = data
    n_actions = int(y.max()) + 1
    generator = np.random.default_rng([zlib.crc32(f"peers {name} {sharpness} {clicks}".encode()), seed])
    coef = logging_coefficients(X, y, n_actions, sharpness, generator)
    log = replayed(softmax(with_constant(X) @ coef, axis=1), y, clicks, generator)
    log = training_part(log, generator)

    Z, Z_test = with_constant(X), with_constant(X_test)
    policies = {
        "logging": softmax(Z_test @ coef, axis=1),
        "cips": softmax(Z_test @ cips(Z, log, n_actions, 1), axis=1),
        "cips_scaled": softmax(Z_test @ cips(Z, log, n_actions, np.abs(Z).max(axis=0)), axis=1),
    }
    for algorithm, by_propensity in (("rewarded_rows", False), ("importance_weighted", True)):

        def classify(model, rows: Log, by_propensity: bool = by_propensity) -> np.ndarray:
            return classified(model, X, rows, by_propensity, n_actions, X_test)

        policies[algorithm] = classify(LogisticRegression(C=1, max_iter=1000), log)
        policies[f"{algorithm}_trees"] = classify(HistGradientBoostingClassifier(random_state=seed), distinct(log))
        policies[f"{algorithm}_trees_as_logged"] = classify(HistGradientBoostingClassifier(random_state=seed), log)
    return policies


def errors(probability: np.ndarray, y: np.ndarray) -> dict[str, float]:
    expected = np.mean(1 - probability[np.arange(len(y)), y])
    return dict(zip(ERRORS, (expected, np.mean(probability.argmax(axis=1) != y)), strict=True))


def by_seed(mirror: Path, seeds: int) -> pd.DataFrame:
    rows = []
    for name in DATASETS:
        data = read(mirror, name)
        for sharpness, clicks in CONDITIONS:
            condition = dict(zip(CONDITION, (name, sharpness, *clicks), strict=True))
            for seed in range(FIRST_SEED, FIRST_SEED + seeds):
                policies = repetition(data, name, sharpness, clicks, seed)
                rows += [
                    {**condition, "algorithm": algorithm, "seed": seed, **errors(probability, data[3])}
                    for algorithm, probability in policies.items()
                ]
            print(f"{name}, sharpness {sharpness}, clicks {clicks}: done", flush=True)
    return pd.DataFrame(rows)


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """Return means over seeds, their standard errors, and the number of seeds."""
    groups = rows.groupby(KEYS, sort=False)
    table = pd.DataFrame(index=groups.size().index)
    for error in ERRORS:
        table[error], table[f"{error}_se"] = groups[error].mean(), groups[error].sem()
    table["seeds"] = groups.size()
    return table.reset_index()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mirror", type=Path, metavar="MIRROR")
    parser.add_argument("--output", type=Path, default=Path("results/peers.csv"), help="default: %(default)s")
    parser.add_argument("--seeds", type=int, default=10, help="default: %(default)s")
    options = parser.parse_args()
    table = summary(by_seed(options.mirror, options.seeds))
    print(table.round(4).to_string(index=False))
    options.output.parent.mkdir(parents=True, exist_ok=True)
    table.round(6).to_csv(options.output, index=False)


if __name__ == "__main__":
    main()
