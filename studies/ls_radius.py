"""How narrow are bounds by betting, compared with published bounds on the settings of logarithmic smoothing?

The settings are those of Sakhi, Aouali, Alquier & Chopin (NeurIPS 2024). Only the numbers of rows with each label
matter, and the order of the labels. A policy takes action a with a probability in proportion to exp(1(a = l)/T). Its
label l is the true label y for the evaluated policy. For the logging policy, it is y + 1 modulo K if y is 0 or 1. The
reward is 1(a = y), flipped with probability 0, 0.1 or 0.2. A log has 98 % of the rows, and a data set 45 settings.

A bound is below the mean reward at δ = 0.05, and at least 0. Its relative radius is (truth − bound)/truth, or 0 if the
bound is false. The table has a row per data set and method: ``value`` is the mean radius of the 45 settings, with its
``standard_error`` over ``runs`` draws. ``false`` counts the false bounds of all draws and settings.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
import pandas as pd
from cells import compare, number, table_of
from synthetic import draw_actions

from drcrm import BanditLog
from drcrm.certificates import policy_certificate, upper_bound
from drcrm.policies.tabular import TabularPolicy

LABELS = {
    "ecoli": (143, 77, 2, 2, 35, 20, 5, 52),
    "balance": (49, 288, 288),
    "vehicle": (218, 212, 217, 199),
    "yeast": (463, 5, 35, 44, 51, 163, 244, 429, 20, 30),
    "page-blocks": (4913, 329, 28, 88, 115),
    "optdigits": (554, 571, 557, 572, 568, 558, 558, 566, 554, 562),
    "satimage": (1533, 703, 1358, 626, 707, 1508),
    "kropt": (2796, 1433, 2854, 2166, 471, 198, 4553, 1712, 78, 683, 592, 390, 1985, 4194, 81, 3597, 246, 27),
}
TEMPERATURES, LOGGING, FLIPS = (0.1, 0.2, 0.3, 0.4, 0.5), (0.3, 0.25, 0.2), (0.0, 0.1, 0.2)
SHARE, CONFIDENCE = 0.98, 0.95
BETTING = {"betting, one look": "betting", "betting, every look": "anytime"}


def softmax_policy(label: np.ndarray, actions: int, temperature: float) -> np.ndarray:
    """Return the probabilities of all actions, (n, K)."""
    score = np.exp((label[:, None] == np.arange(actions)) / temperature)
    return score / score.sum(axis=1, keepdims=True)


def published_bounds(pi: np.ndarray, p: np.ndarray, reward: np.ndarray) -> dict[str, float]:
    """Return lower bounds on the mean reward by the methods of the source, and Student's.

    With λ = 1/√n, implicit exploration has the weights π/(p + λ/2), and the two methods that clip the limit √n.
    Without the logarithm, smoothing is the second-order bound of "clipping".
    """
    n, gain = len(reward), pi / p * reward
    root, log_term = np.sqrt(n), -np.log1p(-CONFIDENCE)
    clipped = np.minimum(pi / p, root) * reward
    exponent = clipped.mean() / root - (clipped**2).mean() / (2 * n) - log_term / n
    return {
        "logarithmic smoothing": -upper_bound(-gain, CONFIDENCE, "log_smoothing"),
        "implicit exploration": (pi / (p + 0.5 / root) * reward).mean() - log_term / root,
        "empirical Bernstein": -upper_bound(-clipped, CONFIDENCE, "empirical_bernstein", low=-root, high=0.0),
        "clipping": np.expm1(exponent) * root,
        "Student": -upper_bound(-gain, CONFIDENCE, "student"),
    }


def measure_radii(
    counts: tuple[int, ...], temperature: float, logging: float, flip: float, rng: np.random.Generator
) -> dict[str, tuple[float, bool]]:
    """Return the relative radius of each method on one log, and whether its bound is false."""
    actions = len(counts)
    y = rng.permutation(np.repeat(np.arange(actions), counts))
    y = y[: int(SHARE * len(y))]
    policy = softmax_policy(y, actions, temperature)
    propensity = softmax_policy(np.where(y < 2, (y + 1) % actions, y), actions, logging)
    action, index = draw_actions(propensity, rng), np.arange(len(y))
    reward = ((action == y) ^ (rng.random(len(y)) < flip)).astype(float)
    pi, p = policy[index, action], propensity[index, action]
    log = BanditLog(np.ones((len(y), 1)), action, p, -reward, n_actions=actions, context=index)
    right = policy.max()
    # The policy takes the action l, or with the share ``explore`` any action.
    explore, label = (1 - right) * actions / (actions - 1), (y[:, None] == np.arange(actions)) * 1.0
    tabular = TabularPolicy.for_log(np.log(pi), label, log, explore)
    known = {"cost_range": (-1.0, 0.0), "least_propensity": propensity.min(), "confidence": CONFIDENCE}
    bounds = published_bounds(pi, p, reward)
    for name, method in BETTING.items():
        bounds[name] = -policy_certificate(tabular, log, "ips", method=method, **known).bound
    truth = right * (1 - flip) + (1 - right) * flip
    return {name: (max(0.0, truth - max(0.0, bound)) / truth, bound > truth) for name, bound in bounds.items()}


def measure(repetition: int) -> Iterator[dict]:
    """Yield the mean radius of each method on each data set, and the number of false bounds."""
    for number_of_set, (name, counts) in enumerate(LABELS.items()):
        rng, settings = np.random.default_rng([repetition, number_of_set]), product(TEMPERATURES, LOGGING, FLIPS)
        rows = pd.DataFrame([measure_radii(counts, *setting, rng) for setting in settings])
        for method, cells in rows.items():
            radii, false = map(list, zip(*cells, strict=True))
            yield {"dataset": name, "method": method, "radius": np.mean(radii), "false": sum(false)}


def tabulate(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the mean radius by data set and method, and the number of false bounds."""
    groups = rows.groupby(["dataset", "method"], sort=False)
    table = groups["radius"].agg(value="mean", standard_error="sem", runs="size").join(groups["false"].sum())
    table = table.reset_index()
    table.insert(0, "table", "ls_radius")
    table.insert(1, "setting", "mean of 45 settings")
    return table


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """Return the mean radii, with published − ours in brackets, and the mean of all data sets."""
    compared = table.merge(compare(table)[["dataset", "method", "difference"]], "left", ["dataset", "method"])
    cells = compared.assign(text=[_cell(*row) for row in compared[["value", "difference"]].values])
    methods = compared["method"].unique()
    texts = cells.pivot(index="dataset", columns="method", values="text").loc[[*LABELS], methods]
    means = compared.groupby("method")["value"].mean()[methods]
    rows = [(name, *texts.loc[name]) for name in LABELS]
    rows.append(("**mean**", *(number(mean) for mean in means)))
    false, bounds = table.groupby("method")["false"].sum()[methods], table.groupby("method")["runs"].sum()[methods]
    rows.append(("false, per 360", *(number(360 * share, 1) for share in false / (45 * bounds))))
    return table_of(("data set", *methods), rows)


def _cell(radius: float, difference: float) -> str:
    return number(radius) if np.isnan(difference) else f"{number(radius)} ({number(difference, sign='+')})"
