"""Rules that select one of several estimators on the log itself: SLOPE, and off-policy cross-validation (OCV).

The terms are those of the selected estimator. Their standard error does not include the selection.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from drcrm.arrays.formats import constructor_repr
from drcrm.arrays.validation import check_choice
from drcrm.bench.estimators import make_estimator
from drcrm.data.bandit_log import BanditLog
from drcrm.evaluation.bounds.independent_units import Interval

RULES = "lepski", "overlap"


@dataclass(frozen=True, eq=False)
class Inputs:
    """A log, a policy's probabilities of all actions, and the modelled costs of all actions, or None."""

    log: BanditLog
    policy: np.ndarray
    model: Any

    def estimate(self, estimator: Any) -> Interval:
        """Return an estimate with its standard error."""
        return Interval.of(estimator.terms(self.log, self.policy, self.model), self.log, 0.95)

    def part(self, rows: np.ndarray, fit: Callable[[BanditLog], Any] | None) -> Inputs:
        """Return the inputs in the rows of a mask; ``fit`` gives other modelled costs for them."""
        log, contexts, select = self.log.take(rows), np.unique(self.log.context[rows]), self.log.actions.select
        policy, model = select(contexts, self.policy)[1], self.model
        model = fit(log) if fit else None if model is None else select(contexts, model)[1]
        return Inputs(log, policy, model)


class Slope:
    """SLOPE: the last of the estimators, in the order of decreasing width, that agrees with all before it.

    With the width c_i of θ_i, twice its standard error, estimator i agrees with the estimators j before it if
    |θ_i − θ_j| ≤ c_i + (√6 − 1) c_j. The rule assumes that a smaller width means a larger bias. The bias of "dm" is
    not in its width. Source: Su, Srinath & Krishnamurthy 2020.

    Parameters
    ----------
    estimators : sequence
        Candidates, in the forms of :func:`drcrm.bench.estimators.make_estimator`.
    rule : "lepski" or "overlap"
        "overlap" keeps the given order, and stops at the first estimator whose interval θ_i ± c_i misses the interval
        of an estimator before it (Cief, Kveton & Kompan 2025).
    """

    __repr__ = constructor_repr

    def __init__(self, estimators: Sequence[Any], rule: str = "lepski"):
        self.estimators, self.rule = estimators, check_choice(RULES, rule, "rule")

    def terms(self, log: BanditLog, policy: np.ndarray, model: Any = None) -> np.ndarray:
        """Return the terms of the selected estimator, (n,)."""
        return self.select(log, policy, model).terms(log, policy, model)

    def select(self, log: BanditLog, policy: np.ndarray, model: Any = None) -> Any:
        """Return the selected estimator."""
        candidates, inputs = [make_estimator(value) for value in self.estimators], Inputs(log, policy, model)
        estimates = [inputs.estimate(candidate) for candidate in candidates]
        width = 2 * np.array([estimate.standard_error for estimate in estimates])
        is_lepski = self.rule == RULES[0]
        order = np.argsort(-width, kind="stable") if is_lepski else np.arange(len(width))
        value, width = np.array(estimates, dtype=float)[order], width[order]
        factor = np.sqrt(6) - 1 if is_lepski else 1
        gap = np.abs(value[:, None] - value) - width[:, None] - factor * width
        agrees = [(gap[i, :i] <= 0).all() for i in range(len(order))]
        last = max(np.flatnonzero(agrees)) if is_lepski else [*agrees, False].index(False) - 1
        return candidates[order[last]]


class CrossValidation:
    """OCV: the estimator whose values on random parts of the log are nearest to another estimate on the rest.

    For each estimator h and each split, the error is (V_h(part) − V_valid(rest))². The part has the share
    Var_h/(Var_h + Var_valid) of the units. The rule takes the least mean error plus one standard error.
    Source: Cief, Kveton & Kompan 2025.

    Parameters
    ----------
    estimators : sequence
        Candidates, in the forms of :func:`drcrm.bench.estimators.make_estimator`.
    validator : estimator
        Estimator on the rest, in the same forms. Without bias, the errors rank the candidates.
    splits : int
        Number of splits of each candidate.
    fit : callable, optional
        Function of a part of the log that returns the modelled costs in its contexts. By default, parts use those of
        the whole log.
    seed : int
        Seed of the splits.
    """

    __repr__ = constructor_repr

    def __init__(
        self,
        estimators: Sequence[Any],
        validator: Any = "dr",
        splits: int = 10,
        fit: Callable[[BanditLog], Any] | None = None,
        seed: int = 0,
    ):
        self.estimators, self.validator, self.splits, self.fit, self.seed = estimators, validator, splits, fit, seed

    def terms(self, log: BanditLog, policy: np.ndarray, model: Any = None) -> np.ndarray:
        """Return the terms of the selected estimator, (n,)."""
        return self.select(log, policy, model).terms(log, policy, model)

    def select(self, log: BanditLog, policy: np.ndarray, model: Any = None) -> Any:
        """Return the selected estimator."""
        candidates, validator = [make_estimator(value) for value in self.estimators], make_estimator(self.validator)
        rng, inputs = np.random.default_rng(self.seed), Inputs(log, policy, model)
        valid = inputs.estimate(validator).standard_error ** 2
        bounds = []
        for candidate in candidates:
            variance = inputs.estimate(candidate).standard_error ** 2
            share = variance / (variance + valid) if variance + valid else 0.5
            errors = [self._error(inputs, candidate, validator, share, rng) for _ in range(self.splits)]
            bounds.append(np.mean(errors) + np.std(errors, ddof=1) / np.sqrt(self.splits))
        return candidates[int(np.argmin(bounds))]

    def _error(self, inputs: Inputs, candidate: Any, validator: Any, share: float, rng: np.random.Generator) -> float:
        """Return the squared difference of two estimates on the parts of a random split."""
        unit = inputs.log.unit_numbers
        n = unit.max() + 1
        part = np.zeros(n, dtype=bool)
        part[rng.permutation(n)[: min(max(int(n * share), 1), n - 1)]] = True
        values = []
        for estimator, rows in ((candidate, part[unit]), (validator, ~part[unit])):
            fit = self.fit if getattr(estimator, "uses_model", True) else None
            values.append(float(inputs.part(rows, fit).estimate(estimator)))
        return (values[0] - values[1]) ** 2
