"""How often do certificates cover the truth, for costs with a known mean?

In every setting the costs z ≤ 0 have a known mean and a known range, so that all methods are defined. The settings
``replayed`` use contexts with three labels, four passes of a logging policy, and costs w c of a second policy. ``by
row`` keeps the contexts fixed, and the truth is the mean over them. ``by context`` draws new contexts, and the truth is
the mean over all contexts.

The table has a row per setting, n (the number of rows) and method: the share of repetitions whose bound is not below
the truth, and its standard error. ``width`` is the mean of bound − truth, ``width_to_student`` its ratio to the width
of Student's bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product

import numpy as np
import pandas as pd
from scipy import stats
from scipy.integrate import quad
from scipy.special import expit

from drcrm.certificates import upper_bound

CONFIDENCE = 0.95
SIZES = (50, 200, 1000, 4000)
ASYMPTOTIC = ("kl", "chi2", "squared_hellinger", "reverse_kl", "student")
FINITE_SAMPLE = ("empirical_bernstein", "log_smoothing", "betting")  # the study anytime measures "anytime"
METHODS = (*ASYMPTOTIC, *FINITE_SAMPLE)
PASSES = 4
ROUNDING = 1e-12


@dataclass(frozen=True)
class Setting:
    """Costs with a known mean.

    Attributes
    ----------
    tails : str
        The kind of distribution.
    low : float
        The smallest possible cost.
    truth : function of n
        The mean that a bound from n rows must cover.
    draw : function of a generator and n
        Draws costs z, (n,).
    is_grouped : bool
        Whether the rows of one context form a group.
    """

    tails: str
    low: float
    truth: Callable[[int], float]
    draw: Callable[[np.random.Generator, int], np.ndarray]
    is_grouped: bool = False


def negated(tails: str, distribution, low: float) -> Setting:
    """Return z = −X, for X from a scipy distribution on [0, −low]."""
    mean = -float(distribution.mean())
    return Setting(tails, low, lambda n: mean, lambda rng, n: -distribution.rvs(n, random_state=rng).astype(float))


def truncated(tails: str, distribution, limit: float, is_upwards: bool = False) -> Setting:
    """Return z = −min(X, limit), or z = min(X, limit) − limit, whose tail is towards high costs."""
    mean = quad(distribution.sf, 0, limit, limit=500)[0]
    origin, sign = (-limit, 1) if is_upwards else (0.0, -1)

    def draw(rng: np.random.Generator, n: int) -> np.ndarray:
        return origin + sign * np.minimum(distribution.rvs(n, random_state=rng), limit)

    return Setting(tails, -limit, lambda n: origin + sign * mean, draw)


def two_values(tails: str, low: float, probability: float, high: float) -> Setting:
    """Return z that is ``low`` with the given probability and ``high`` otherwise."""
    truth = probability * low + (1 - probability) * high
    return Setting(tails, low, lambda n: truth, lambda rng, n: np.where(rng.random(n) < probability, low, high))


class Population:
    """Contexts with three labels, two policies, and the costs (Hamming loss − 3) of all eight actions."""

    def __init__(self, distance: float, contexts: int = 2000):
        rng = np.random.default_rng(0)
        actions = np.array(list(product((0, 1), repeat=3)))
        labels = rng.random((contexts, 3)) < 0.4
        base = rng.normal(size=(contexts, 3))
        self.logging, policy = (
            np.prod(np.where(actions[None] == 1, p[:, None], 1 - p[:, None]), axis=2)
            for p in (expit(base + shift * (2 * labels - 1)) for shift in (0.0, distance))
        )
        cost = (actions[None] != labels[:, None]).sum(axis=2) - 3.0
        self.z = cost * policy / self.logging
        self.mean = (self.logging * self.z).sum(axis=1)

    def replay(self, rng: np.random.Generator, contexts: np.ndarray) -> np.ndarray:
        """Return the costs w c of all passes; the rows of one context are adjacent."""
        thresholds = np.cumsum(self.logging[contexts], axis=1)
        uniform = rng.random((len(contexts), PASSES))
        actions = np.minimum((uniform[:, :, None] > thresholds[:, None]).sum(axis=2), 7)
        return self.z[contexts[:, None], actions].ravel()

    def by_row(self, tails: str) -> Setting:
        def first(n: int) -> np.ndarray:
            return np.arange(n // PASSES) % len(self.z)

        truth = lambda n: float(self.mean[first(n)].mean())  # noqa: E731
        return Setting(tails, float(self.z.min()), truth, lambda rng, n: self.replay(rng, first(n)))

    def by_context(self, tails: str) -> Setting:
        def draw(rng: np.random.Generator, n: int) -> np.ndarray:
            return self.replay(rng, rng.integers(0, len(self.z), n // PASSES))

        return Setting(tails, float(self.z.min()), lambda n: float(self.mean.mean()), draw, is_grouped=True)


@cache
def settings() -> dict[str, Setting]:
    near, far = Population(0.7), Population(1.5)
    return {
        "uniform": negated("light", stats.uniform(), -1),
        "beta(2, 2)": negated("light", stats.beta(2, 2), -1),
        "beta(½, ½)": negated("light", stats.beta(0.5, 0.5), -1),
        "a coin": negated("light", stats.bernoulli(0.5), -1),
        "Hamming loss − 6": negated("light", stats.binom(6, 0.3), -6),
        "exponential, cut at 20": truncated("light", stats.expon(), 20),
        "log-normal, cut at 100": truncated("heavy", stats.lognorm(1.5), 100),
        "Pareto 1.5, cut at 1000": truncated("heavy", stats.pareto(1.5), 1000),
        "Pareto 1.5, cut at 1000, towards high costs": truncated("heavy", stats.pareto(1.5), 1000, is_upwards=True),
        "−50 once in 100, else −1": two_values("long towards low costs", -50, 0.01, -1.0),
        "−1 once in 20, else 0": two_values("long towards low costs", -1, 0.05, 0.0),
        "0 once in 20, else −1": two_values("long towards high costs", -1, 0.95, 0.0),
        "0 once in 50, else −10": two_values("long towards high costs", -10, 0.98, 0.0),
        "replayed, near π0, by row": near.by_row("replayed"),
        "replayed, near π0, by context": near.by_context("replayed"),
        "replayed, far from π0, by row": far.by_row("replayed"),
        "replayed, far from π0, by context": far.by_context("replayed"),
    }


def measure(repetition: int) -> Iterator[dict[str, object]]:
    """Yield a row per setting, n and method: the width of its bound."""
    for (name, setting), n in product(settings().items(), SIZES):
        z = setting.draw(np.random.default_rng([repetition, n]), n)
        groups = np.repeat(np.arange(n // PASSES), PASSES) if setting.is_grouped else None
        for method in METHODS:
            ranged = {"low": setting.low, "high": 0.0} if method in ("empirical_bernstein", "betting") else {}
            width = upper_bound(z, CONFIDENCE, method, **ranged, groups=groups) - setting.truth(n)
            yield {"setting": name, "tails": setting.tails, "n": n, "method": method, "width": width}


def tabulate(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the coverage by setting, n and method."""
    keys = ["setting", "tails", "n"]
    table = mean_coverage(rows, [*keys, "method"], ["coverage", "width"])
    student = table[table["method"] == "student"].set_index(keys)["width"]
    relative = table["width"] / student.loc[pd.MultiIndex.from_frame(table[keys])].to_numpy()
    repetitions = len(rows) // len(table)
    return table.assign(confidence=CONFIDENCE, repetitions=repetitions, width_to_student=relative)


def mean_coverage(rows: pd.DataFrame, keys: Sequence[str], measured: Sequence[str]) -> pd.DataFrame:
    """Return means by key of ``coverage`` and other columns, and the standard error of the coverage.

    ``width`` is bound − truth. Rows without a bound, whose width is NaN, do not count for the coverage.
    """
    is_refused = rows["width"].isna()
    rows = rows.assign(refused=is_refused, coverage=(rows["width"] >= -ROUNDING).where(~is_refused))
    groups = rows.astype(dict.fromkeys(measured, float)).groupby([*keys], sort=False)
    means = groups[[*measured]].mean()
    means["standard_error"] = np.sqrt(means["coverage"] * (1 - means["coverage"]) / groups["width"].count())
    return means.reset_index()
