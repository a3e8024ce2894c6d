"""Numerical helpers that policies, risks, weights and the objective share."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from inspect import Parameter, signature
from typing import Any

import numpy as np

SMALLEST_EXPONENT = -200.0


def exp(x: np.ndarray, out: np.ndarray) -> np.ndarray:
    """Write e^x to ``out`` and return it, with 0 for every x below −200; ``out`` may be x.

    Terms this small do not change a sum with e^0. Products of two of them are denormal numbers, which slow matrix
    products down several times.
    """
    vanishing = x < SMALLEST_EXPONENT if x.min() < SMALLEST_EXPONENT else None
    np.exp(x, out=out)
    if vanishing is not None:
        out[vanishing] = 0
    return out


def group_rows(keys: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return the first row of each group of rows with equal keys, and the group of each row, (n,).

    ``keys`` are vectors (n,) without NaN. Groups are numbered in the order of the keys, the first of which counts most.
    """
    import pandas as pd  # imported here: it takes a third of a second

    group = pd.DataFrame(dict(enumerate(keys))).groupby([*range(len(keys))]).ngroup().to_numpy()
    return np.unique(group, return_index=True)[1], group


def weighted_quantiles(values: np.ndarray, count: np.ndarray, levels: Sequence[float]) -> np.ndarray:
    """Return the quantiles of values, (n,), that occur ``count`` times: those of np.repeat(values, count)."""
    order = np.argsort(values)
    ends = np.cumsum(count[order])
    position = np.asarray(levels) * (ends[-1] - 1)
    lower, upper = (
        values[order[np.searchsorted(ends, place, side="right")]] for place in (np.floor(position), np.ceil(position))
    )
    return lower + (position % 1) * (upper - lower)


def derivative_fault(
    function: Callable[[np.ndarray], Any],
    points: np.ndarray,
    slope: np.ndarray,
    step: float,
    tolerance: float,
    kinks: float = 0.0,
) -> str:
    """Return where a slope, (n,), differs from central differences of a function; "" if it is the derivative.

    A share ``kinks`` of the points may differ.
    """
    difference = (np.asarray(function(points + step)) - np.asarray(function(points - step))) / (2 * step)
    is_wrong = ~(np.abs(difference - slope) <= tolerance * (1 + np.abs(difference)))
    if is_wrong.mean() <= kinks:
        return ""
    point = np.argmax(is_wrong)
    return f"At {points[point]:.6g} it is {slope[point]:.6g}, but differences give {difference[point]:.6g}"


@cache
def constructor_parameters(kind: Any) -> Mapping[str, Parameter]:
    """Return the parameters of a class's constructor by name; cached, because a fit asks for them in every step."""
    return signature(kind).parameters


def constructor_repr(self: Any) -> str:
    """Return the class name with all constructor arguments that differ from their defaults: ``KLBall(radius=0.1)``."""
    parameters = constructor_parameters(self.__class__)
    arguments = {name: value for name, value in vars(self).items() if name in parameters}
    changed = (f"{name}={value!r}" for name, value in arguments.items() if value != parameters[name].default)
    return f"{type(self).__name__}({', '.join(changed)})"
