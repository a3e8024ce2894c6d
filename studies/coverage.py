"""How often certificates hold where the truth is known.

Every setting has costs z ≤ 0 of a known mean in a known range, so that all methods are defined. Replayed logs are of
contexts with three labels, four passes of a logging policy and another policy's costs w c: by row, the contexts stay
and the truth is the mean over them; by context, they are drawn anew, and the truth is the mean over all.

A row per setting, n and method: the share of repetitions whose bound is not below the truth, its standard error, and
the mean of bound − truth, also ÷ that of Student's. n counts rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import numpy as np
import pandas as pd
from scipy import stats
from scipy.integrate import quad
from scipy.special import expit

from drcrm.certificates.bounds import FINITE_SAMPLE, upper_bound

CONFIDENCE = 0.95
SIZES = (50, 200, 1000, 4000)
ASYMPTOTIC = ("kl", "chi2", "squared_hellinger", "reverse_kl", "student")
METHODS = (*ASYMPTOTIC, *FINITE_SAMPLE)
PASSES = 4


@dataclass(frozen=True)
class Setting:
    """Costs of a known mean: ``draw(rng, n)`` → z (n,); with groups, which rows are of one context."""

    tails: str
    low: float
    truth: Callable[[int], float]
    draw: Callable[[np.random.Generator, int], np.ndarray]
    grouped: bool = False


def plain(tails: str, distribution, low: float) -> Setting:
    """z = −X, X of a scipy distribution between 0 and −low."""
    mean = -float(distribution.mean())
    return Setting(tails, low, lambda n: mean, lambda rng, n: -distribution.rvs(n, random_state=rng).astype(float))


def cut(tails: str, distribution, most: float, upwards: bool = False) -> Setting:
    """z = −min(X, most), or with its tail towards high costs min(X, most) − most."""
    mean = quad(distribution.sf, 0, most, limit=500)[0]
    origin, sign = (-most, 1) if upwards else (0.0, -1)

    def draw(rng: np.random.Generator, n: int) -> np.ndarray:
        return origin + sign * np.minimum(distribution.rvs(n, random_state=rng), most)

    return Setting(tails, -most, lambda n: origin + sign * mean, draw)


def two_values(tails: str, low: float, probability: float, high: float) -> Setting:
    """z is low with a probability, else high."""
    truth = probability * low + (1 - probability) * high
    return Setting(tails, low, lambda n: truth, lambda rng, n: np.where(rng.random(n) < probability, low, high))


class Population:
    """Contexts with three labels, and for every action of each: its probabilities by two policies, and its cost − 3."""

    def __init__(self, distance: float, contexts: int = 2000):
        rng = np.random.default_rng(0)
        actions = np.array(list(product((0, 1), repeat=3)))
        labels = rng.random((contexts, 3)) < 0.4
        base = rng.normal(size=(contexts, 3))
        logging, policy = (expit(base + shift * (2 * labels - 1)) for shift in (0.0, distance))
        self.logging, other = (
            np.prod(np.where(actions[None] == 1, p[:, None], 1 - p[:, None]), axis=2) for p in (logging, policy)
        )
        cost = (actions[None] != labels[:, None]).sum(axis=2) - 3.0
        self.z = cost * other / self.logging
        self.mean = (self.logging * self.z).sum(axis=1)

    def replay(self, rng: np.random.Generator, contexts: np.ndarray) -> np.ndarray:
        """The costs w c of some passes over contexts, those of one context beside one another."""
        thresholds = np.cumsum(self.logging[contexts], axis=1)
        drawn = rng.random((len(contexts), PASSES))
        actions = np.minimum((drawn[:, :, None] > thresholds[:, None]).sum(axis=2), 7)
        return self.z[contexts[:, None], actions].ravel()

    def by_row(self, tails: str) -> Setting:
        first = lambda n: np.arange(n // PASSES) % len(self.z)  # noqa: E731
        truth = lambda n: float(self.mean[first(n)].mean())  # noqa: E731
        return Setting(tails, float(self.z.min()), truth, lambda rng, n: self.replay(rng, first(n)))

    def by_context(self, tails: str) -> Setting:
        drawn = lambda rng, n: rng.integers(0, len(self.z), n // PASSES)  # noqa: E731
        truth = lambda n: float(self.mean.mean())  # noqa: E731
        return Setting(tails, float(self.z.min()), truth, lambda rng, n: self.replay(rng, drawn(rng, n)), grouped=True)


def settings() -> dict[str, Setting]:
    near, far = Population(0.7), Population(1.5)
    return {
        "uniform": plain("light", stats.uniform(), -1),
        "beta(2, 2)": plain("light", stats.beta(2, 2), -1),
        "beta(½, ½)": plain("light", stats.beta(0.5, 0.5), -1),
        "a coin": plain("light", stats.bernoulli(0.5), -1),
        "Hamming loss − 6": plain("light", stats.binom(6, 0.3), -6),
        "exponential, cut at 20": cut("light", stats.expon(), 20),
        "log-normal, cut at 100": cut("heavy", stats.lognorm(1.5), 100),
        "Pareto 1.5, cut at 1000": cut("heavy", stats.pareto(1.5), 1000),
        "Pareto 1.5, cut at 1000, towards high costs": cut("heavy", stats.pareto(1.5), 1000, upwards=True),
        "−50 once in 100, else −1": two_values("long towards low costs", -50, 0.01, -1.0),
        "−1 once in 20, else 0": two_values("long towards low costs", -1, 0.05, 0.0),
        "0 once in 20, else −1": two_values("long towards high costs", -1, 0.95, 0.0),
        "0 once in 50, else −10": two_values("long towards high costs", -10, 0.98, 0.0),
        "replayed, near π0, by row": near.by_row("replayed"),
        "replayed, near π0, by context": near.by_context("replayed"),
        "replayed, far from π0, by row": far.by_row("replayed"),
        "replayed, far from π0, by context": far.by_context("replayed"),
    }


def bounds(setting: Setting, n: int, repetitions: int, seed: int = 0) -> dict[str, np.ndarray]:
    """The bounds by each method, (repetitions,)."""
    rng = np.random.default_rng([seed, n])
    found = {method: np.empty(repetitions) for method in METHODS}
    groups = np.repeat(np.arange(n // PASSES), PASSES) if setting.grouped else None
    for repetition in range(repetitions):
        z = setting.draw(rng, n)
        for method in METHODS:
            ranged = {"low": setting.low, "high": 0.0} if method in ("empirical_bernstein", "betting") else {}
            found[method][repetition] = upper_bound(z, CONFIDENCE, method, **ranged, groups=groups)
    return found


def measure(name: str, setting: Setting, n: int, repetitions: int) -> pd.DataFrame:
    """A row per method."""
    found, truth = bounds(setting, n, repetitions), setting.truth(n)
    student = np.mean(found["student"] - truth)
    rows = []
    for method, values in found.items():
        coverage, width = np.mean(values >= truth - 1e-12), np.mean(values - truth)
        error = np.sqrt(coverage * (1 - coverage) / repetitions)
        rows.append([name, setting.tails, n, method, CONFIDENCE, repetitions, coverage, error, width, width / student])
    columns = ["setting", "tails", "n", "method", "confidence", "repetitions", "coverage", "standard_error"]
    return pd.DataFrame(rows, columns=[*columns, "width", "width_to_student"])


def table(repetitions: int) -> pd.DataFrame:
    """The rows of all settings, at every n."""
    return pd.concat(
        measure(name, setting, n, repetitions) for (name, setting), n in product(settings().items(), SIZES)
    )


def summary(rows: pd.DataFrame) -> str:
    """The coverage."""
    return rows.pivot(index=["setting", "n"], columns="method", values="coverage").to_string(float_format="%.4f")
