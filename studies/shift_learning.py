"""How robust are policies that ``EnvironmentDRO`` learns on the problem of Kallus, Mao, Wang & Zhou (2022)?

``shift_accuracy`` describes the problem, and has exact robust rewards −R_κ of known policies. Policies are softmax
policies with an intercept. The table has a row per number of rows n, κ and fit: the mean robust reward of the learned
policy (``value``) with its standard error, the smallest one (``least``), and the mean reward (``mean``) and the robust
reward at κ = 0.3 (``at_largest``). κ = 1e-6 is nearly no shift. Log number s has seed s. The fits are

zero         from Θ = 0, the default of ``EnvironmentDRO``
model        from π0 tilted by the cost model with the automatic tilt, like the algorithm ``shift_snips``
imitation    from the cloned π0
clipped      from Θ = 0, with weights clipped at the 90th over the 10th percentile of the propensities
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import pandas as pd
from cells import means
from shift_accuracy import NODE_WEIGHTS, NODES, RADII, ROOTS, add_constant, draw_log, robust_cost

from drcrm import EnvironmentDRO
from drcrm.weights import clipping_constant

NO_SHIFT = 1e-6
SIZES = (5000, 20_000)
STARTS: dict[str, dict[str, Any]] = {
    "zero": {},
    "model": {"start": "model", "tilt": "auto"},
    "imitation": {"start": "imitation"},
    "clipped": {},
}


def learned_rewards(fit: str, radius: float, rows: int, seed: int) -> list[float]:
    """Learn a policy; return its robust reward at the radius, its mean reward, and that at the largest radius."""
    log = draw_log(rows, seed)
    clip = clipping_constant(log) if fit == "clipped" else None
    estimator = EnvironmentDRO(radius, clip=clip, **STARTS[fit])
    estimator.fit(log.X, log.Y, propensity=log.propensity, cost=log.cost, n_actions=ROOTS.shape[1])
    policy = estimator.predict_proba(add_constant(NODES))
    mean = float(NODE_WEIGHTS @ (policy * (NODES @ ROOTS)).sum(axis=1))
    own, largest = (-robust_cost(policy, at) for at in (radius, RADII[-1]))
    return [mean if radius == NO_SHIFT else own, mean, largest]


def measure(
    repetition: int, sizes: Sequence[int] = SIZES, radii: Sequence[float] = (NO_SHIFT, *RADII)
) -> Iterator[dict[str, object]]:
    """Yield a row per n, κ and fit; ``sizes`` are the numbers of rows of the logs."""
    for n, radius, fit in product(sizes, radii, STARTS):
        rewards = learned_rewards(fit, radius, n, repetition)
        yield {"n": n, "radius": radius, "fit": fit} | dict(zip(("value", "mean", "at_largest"), rewards, strict=True))


def tabulate(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the means by n, κ and fit."""
    value = rows.groupby(["n", "radius", "fit"], sort=False)["value"]
    table = means(rows, ["n", "radius", "fit"])
    return table.assign(value_error=value.sem().to_numpy(), least=value.min().to_numpy())


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """Return the robust rewards by κ."""
    return table.pivot(index=["n", "fit"], columns="radius", values="value").reset_index()
