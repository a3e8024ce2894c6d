"""Bounds by betting, by plain loops over the formulas of the pages, to compare with."""

import math
from collections.abc import Sequence

import numpy as np


def bound_by_loops(
    weight: Sequence[float],
    reward: Sequence[float],
    *,
    largest: float | None = None,
    factor: float = 0.0,
    baseline: Sequence[float] | None = None,
    largest_of_baseline: float | None = None,
    model: tuple[Sequence[float], Sequence[float]] | None = None,
    unit: Sequence[int] | None = None,
    size: Sequence[float] | None = None,
    most_rows: float = 1.0,
    delta: float = 0.05,
    is_every_look: bool = True,
    rows: int | None = None,
) -> float:
    """Return a lower bound on the mean reward minus ``factor`` times that of the log, or of a baseline.

    Rows are in the order of the bets; the rows of a unit are adjacent. ``model`` has the modelled reward of the logged
    action, and its mean under the policy.
    """
    n = len(weight) if rows is None else rows
    unit = list(range(n)) if unit is None else unit
    size = [1.0] * n if size is None else size
    units: list[list[int]] = []
    for i in range(n):
        if i and unit[i] == unit[i - 1]:
            units[-1].append(i)
        else:
            units.append([i])
    shares = [0.0] if largest is None else [0.0, 0.5, 1.0]
    bets, won, seen = [[] for _ in shares], 0.5, 1.0
    for members in units:
        beta = won / seen
        for place, k in enumerate(shares):
            total, lowest = 0.0, None
            for i in members:
                x, s = term(i, k, beta, weight, reward, largest, factor, baseline, largest_of_baseline, model)
                total, lowest = total + size[i] * x, s
            bets[place].append((total, lowest, sum(size[i] for i in members)))
        for i in members:
            won, seen = won + size[i] * weight[i] * reward[i], seen + size[i] * weight[i]
    stakes = [stakes_of(part, len(shares), delta, is_every_look, most_rows) for part in bets]
    low, high = -factor, 1.0
    if not is_rejected(low, bets, stakes, most_rows, delta):
        return low
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if is_rejected(middle, bets, stakes, most_rows, delta) else (low, middle)
    return high


def term(i, k, beta, weight, reward, largest, factor, baseline, largest_of_baseline, model):
    """Return x and s of a row."""
    w, r = weight[i], reward[i]
    if model is not None:
        q, mean = model[0][i], model[1][i]
        return w * (r - k * q) + k * mean - factor * r, max(factor, k * largest)
    x = w * r - k * beta * (w - 1)
    if baseline is None:
        return x - factor * r, max(factor - k * beta, k * beta * ((largest or 1) - 1))
    if largest_of_baseline is None:
        return x - factor * (1 - baseline[i] * (1 - r)), factor
    of_baseline = baseline[i] * r - k * beta * (baseline[i] - 1)
    lowest = max(factor * largest_of_baseline * (1 - k * beta), (largest or 0) * k * beta)
    return x - factor * of_baseline, lowest - k * beta * (1 - factor)


def stakes_of(bets, choices, delta, is_every_look, most_rows):
    """Return λ before each unit."""
    stakes, total, weight, squares, before = [], 0.5, 1.0, 1.0, 0.5
    for number, (x, _, h) in enumerate(bets, 1):
        horizon = number * math.log(number + 1) if is_every_look else len(bets)
        stakes.append(math.sqrt(2 * math.log(choices / delta) / (horizon * squares / number)))
        total, weight = total + x, weight + h
        mean = total / weight
        squares += (x - mean) ** 2 if most_rows == 1 else (x - h * before) ** 2
        before = mean
    return stakes


def is_rejected(m, bets, stakes, most_rows, delta):
    """Return whether the capital of the bets against m ever reaches 1/δ."""
    capitals = [1.0] * len(bets)
    for number in range(len(bets[0])):
        for place, part in enumerate(bets):
            x, s, h = part[number]
            bet = stakes[place][number]
            if m + s > 0:
                bet = min(bet, 0.5 / (most_rows * (m + s)))
            capitals[place] *= 1 + bet * (x - m * h)
        if sum(capitals) / len(capitals) >= 1 / delta:
            return True
    return False


def fixed_order(n: int) -> np.ndarray:
    """Return the order of units for one look."""
    return np.random.default_rng(0).permutation(n)
