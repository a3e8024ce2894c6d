"""Lower bounds on a mean by a mixture of bets on units, for every number of units or at every look.

A gambler bets on each unit in turn that its mean reward is above m. A unit has the sums X^(k) of its terms x^(k), for J
numbers k, and the multiplicity h of its rows. All x^(k) are at least −s^(k), which is known before the unit. The
capital after n units is

    C_n(m) = mean over k of Π_{i≤n} (1 + b_i (X_i − m h_i)),      b_i = min(λ_i, ½/(H (m + s_i))),
    λ_i = √(2 ln(J/δ)/(N_i σ²_{i−1})),      N_i = n for one look, i ln(i + 1) for every look,

where H is the largest possible h, σ²_i = (1 + Σ_{j≤i} (x_j − mean_j)²)/(i + 1) and mean_j = (½ + Σ_{l≤j} x_l)/(j + 1).
Groups have X_j − h_j mean_{j−1} instead of x_j − mean_j, with mean_j = (½ + Σ_{l≤j} X_l)/(1 + Σ_{l≤j} h_l).

If the conditional means of X_i − m h_i are at most 0, C is a non-negative supermartingale that starts at 1. So it ever
reaches 1/δ with probability at most δ (Ville 1939), and the least m with max_t C_t(m) < 1/δ is a lower bound. Factors
decrease in m, so the bound is the root of a decreasing function. Sources: Waudby-Smith & Ramdas 2024; Karampatziakis,
Mineiro & Ramdas 2021; Ryu, Kwon, Koppe & Jun 2025.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import scipy  # loads scipy.optimize, which is slow, at its first use

from drcrm.arrays.validation import check_integers
from drcrm.data.bandit_log import BanditLog
from drcrm.errors import InputError

LARGEST_LOSS = 0.5  # share of the capital that a bet can lose
PRECISION = 1e-10  # absolute, of a bound on rewards in [0, 1]
NEGLIGIBLE = 1e-11  # difference of a logarithm of the capital
MOST_EVALUATIONS = 15  # of the capital
WIDENING = 4.0  # growth of the steps that search for a bracket
PRIOR = 1.0  # σ²_0
ROUNDING = 1e-9  # relative, of multiplicities
MOST_UNITS = 10**8  # copies of rows, of which each is one unit
ADVICE = (
    "bounds by betting on groups or weighted rows need most_rows, the largest number of rows that a group can have, or "
    "the largest weight of a row. It must be known beforehand. Or use asymptotic bounds"
)


@dataclass(frozen=True, eq=False)
class BettingMixture:
    """Terms of units in the order of the bets, and the capital that they give.

    Attributes
    ----------
    terms : array (J, n)
        X of each k and unit.
    limits : array (J, n)
        s of each k and unit.
    delta : float
        Error probability δ.
    is_every_look : bool
        Whether bets are for every look, instead of one look at all n units.
    least, most : float
        Range of the mean. The bound is at least ``least``.
    sizes : array (n,), optional
        h of each unit; None if each unit is a single row.
    largest_size : float
        H.
    prior : float
        σ²_0 of the bets.
    """

    terms: np.ndarray
    limits: np.ndarray
    delta: float
    is_every_look: bool
    least: float = 0.0
    most: float = 1.0
    sizes: np.ndarray | None = None
    largest_size: float = 1.0
    prior: float = PRIOR

    @property
    def size(self) -> int:
        """Number n of units."""
        return self.terms.shape[1]

    @property
    def goal(self) -> float:
        """The logarithm of the capital that rejects a mean, ln(1/δ)."""
        return float(np.log(1 / self.delta))

    @cached_property
    def _moments(self) -> tuple[np.ndarray, np.ndarray]:
        """The mean and σ² after each unit, (J, n)."""
        seen = np.arange(2, self.size + 2)
        total = 0.5 + np.cumsum(self.terms, axis=1)
        if self.sizes is None:
            mean = total / seen
            deviation = self.terms - mean
        else:
            mean = total / (1 + np.cumsum(self.sizes))
            before = np.concatenate([np.full((len(mean), 1), 0.5), mean[:, :-1]], axis=1)
            deviation = self.terms - self.sizes * before
        return mean, (self.prior + np.cumsum(deviation**2, axis=1)) / seen

    @cached_property
    def stakes(self) -> np.ndarray:
        """λ of each k and unit, (J, n)."""
        number = np.arange(1, self.size + 1)
        horizon = number * np.log(number + 1) if self.is_every_look else self.size
        variance = self._moments[1]
        before = np.concatenate([np.full((len(variance), 1), self.prior), variance[:, :-1]], axis=1)
        return np.sqrt(2 * np.log(len(variance) / self.delta) / (horizon * before))

    def log_capital(self, m: float, n: int | None = None) -> np.ndarray:
        """Return ln C_t(m) after each of the first n units, (n,)."""
        first = slice(n)
        with np.errstate(divide="ignore"):
            span = self.largest_size * (m + self.limits[:, first])
            gains = np.minimum(self.stakes[:, first], np.where(span > 0, LARGEST_LOSS / span, np.inf))
        gains *= self.terms[:, first] - (m if self.sizes is None else m * self.sizes[first])
        np.log1p(gains, out=gains)
        np.cumsum(gains, axis=1, out=gains)
        if len(gains) == 1:
            return gains[0]
        top = gains.max(axis=0)
        gains -= top
        return top + np.log(np.exp(gains, out=gains).mean(axis=0))

    def first_reached(self, m: float) -> int | None:
        """Return the first number of units after which a mean of at most m is rejected; None if it never is."""
        is_rejected = self.log_capital(m) >= self.goal
        return int(is_rejected.argmax()) + 1 if is_rejected.any() else None

    def lower_bound(self, n: int | None = None, known: float | None = None) -> float:
        """Return the lower bound on the mean after the first n units, by default all.

        ``known`` is the bound after fewer units. It is a lower limit of this bound.
        """
        least = self.least if known is None else known

        values: dict[float, float] = {}

        def excess(m: float) -> float:
            # Secants find the root of this function sooner if large values are compressed, and stop at 0.
            if m not in values:
                value = float(self.log_capital(m, n).max()) - self.goal
                values[m] = 0.0 if abs(value) < NEGLIGIBLE else float(np.arcsinh(value))
            return values[m]

        if known is not None and known > self.least and excess(known + PRECISION) < 0:
            return known
        guess, step = self._guess(n)
        low = high = min(max(guess, least), self.most)
        while excess(low) < 0 and low > least:
            low, high, step = max(least, low - step), low, WIDENING * step
        while excess(high) >= 0 and high < self.most:
            low, high, step = high, min(self.most, high + step), WIDENING * step
        if excess(low) < 0:
            return least
        if excess(high) >= 0:
            return self.most
        left = MOST_EVALUATIONS - len(values)
        scipy.optimize.brentq(excess, low, high, xtol=PRECISION, rtol=PRECISION, maxiter=left, disp=False)
        return max(m for m, value in values.items() if value >= 0)

    def _guess(self, n: int | None) -> tuple[float, float]:
        """Return where the bound is about, from the moments of the terms, and how far from it."""
        n = self.size if n is None else n
        size = 1.0 if self.sizes is None else self.sizes[:n].mean()
        mean, variance = (moment[:, n - 1] for moment in self._moments)
        goal = np.log(len(mean) / self.delta)
        span = self.largest_size * np.maximum(mean + self.limits[:, n - 1], 1e-3)
        bet = np.minimum(np.sqrt(2 * goal / (n * variance)), LARGEST_LOSS / span)
        radius = (goal / (n * bet) + bet * variance / 2) / size  # of a constant bet
        best = int(np.argmax(mean - radius))
        return float(mean[best] - radius[best]), float(radius[best]) / 8


@dataclass(frozen=True, eq=False)
class BettingUnits:
    """The units of a log, in the order of the bets.

    Attributes
    ----------
    rows : int array (M,)
        Row of each observation. A row of count c occurs c times if its copies are units.
    place : int array (M,) or None
        Number of each observation's unit; None if each is a unit.
    multiplicity : array (M,) or None
        Weight of each observation in its unit; None if each is a unit.
    largest_size : float
        Largest possible sum of the weights of a unit.
    """

    rows: np.ndarray
    place: np.ndarray | None = None
    multiplicity: np.ndarray | None = None
    largest_size: float = 1.0

    @classmethod
    def of(
        cls,
        log: BanditLog,
        is_every_look: bool,
        most_rows: float | None = None,
        order: np.ndarray | None = None,
    ) -> Self:
        """Return the units in order, or in a fixed random order for one look.

        Parameters
        ----------
        log : BanditLog
            Log with its units. The first row of a group gives its place.
        is_every_look : bool
        most_rows : float, optional
            Largest possible number of rows of a group, or weight of a row. It is rounded up, because weights are
            rounded up or down to counts.
        order : int array (n,), optional
            The rows in order; by default that of the log.
        """
        order = np.arange(len(log.Y)) if order is None else order
        if log.units is None:
            if log.size > MOST_UNITS:
                raise InputError(f"bounds by betting need at most {MOST_UNITS:.0e} rows and copies, got {log.size:.6g}")
            rows = np.repeat(order, check_integers(log.count, len(log.Y), "count")[order])
            return cls(rows if is_every_look else rows[_shuffle(len(rows))])
        if most_rows is None:
            raise InputError(ADVICE)
        number, multiplicity = log.unit_numbers[order], log.count[order].astype(float)
        _, first, number = np.unique(number, return_index=True, return_inverse=True)
        sequence = np.argsort(first)
        place = np.argsort(sequence if is_every_look else sequence[_shuffle(len(sequence))])[number]
        sizes = np.bincount(place, multiplicity)
        limit = float(np.ceil(most_rows * (1 - ROUNDING)))
        if sizes.max() > limit:
            raise InputError(
                f"most_rows is {most_rows:g}, expected at least the number of rows of every group, or the weight of "
                f"every row, but they are up to {sizes.max():.6g}"
            )
        if most_rows == 1 and len(sizes) == len(order):
            return cls(order[np.argsort(place)])
        return cls(order, place, multiplicity, limit)

    @property
    def size(self) -> int:
        """Number N of units."""
        return len(self.rows) if self.place is None else int(self.place.max()) + 1

    @property
    def completed(self) -> np.ndarray:
        """Number of observations after which each unit and all earlier ones are complete, (N,)."""
        last = np.arange(len(self.rows))
        if self.place is not None:
            last = np.zeros(self.size, dtype=int)
            np.maximum.at(last, self.place, np.arange(len(self.rows)))
        return np.maximum.accumulate(last) + 1

    @property
    def total(self) -> float:
        """Sum of the weights of all observations."""
        return float(len(self.rows) if self.multiplicity is None else self.multiplicity.sum())

    @property
    def sizes(self) -> np.ndarray | None:
        """Sum h of the weights of each unit, (N,); None if each observation is a unit."""
        return None if self.place is None else np.bincount(self.place, self.multiplicity)

    def sums(self, values: np.ndarray) -> np.ndarray:
        """Return the weighted sum of values of the observations, (M,), in each unit, (N,)."""
        return values if self.place is None else np.bincount(self.place, self.multiplicity * values)

    def spread(self, values: np.ndarray) -> np.ndarray:
        """Return the value of its unit, from (N,), for each observation, (M,)."""
        return values if self.place is None else values[self.place]


def _shuffle(n: int) -> np.ndarray:
    """Return a random order of n units, which is always the same."""
    return np.random.default_rng(0).permutation(n)


def check_most_rows(value: Any) -> float | None:
    """Return the largest number of rows of a group as a float; InputError unless it is at least 1."""
    if value is None:
        return None
    if not isinstance(value, int | float | np.number) or not 1 <= value < np.inf:
        raise InputError(f"most_rows is {value!r}, expected a number of at least 1")
    return float(value)
