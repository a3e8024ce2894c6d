"""Model of exponentiated costs by Duan's smearing estimator: f_γ(x, a) = e^{(ĉ(x, a) − C)/γ} · mean_j e^{ε_j/γ}.

ĉ is a cross-fitted cost model and ε = c − ĉ are its residuals. A context uses the residuals of the folds that do not
contain it. They are pooled over actions, unless one of K actions has at least 50. One cost model serves every γ. C is
the largest logged cost, so that no exponential of a logged cost exceeds 1. Source: Duan 1983.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from drcrm.cost_models.cross_fitting import FOLDS
from drcrm.data.bandit_log import BanditLog

LEAST_RESIDUALS = 50  # an action with fewer residuals uses those of all actions
LARGEST_EXPONENT = 200.0  # limit of log f: a model that exceeds C by 200 γ is of no use, and e^710 would overflow


class Smear(NamedTuple):
    """log mean_j e^{ε_j/γ} and its derivative in γ, of each fold and action, (folds, K) or (folds, 1)."""

    log_factor: np.ndarray
    derivative: np.ndarray


class Moments(NamedTuple):
    """Model f of the costs under a policy, on the rows and contexts of a block.

    Attributes
    ----------
    of_rows, rows_slope : array (n,)
        f_γ(x_i, a_i) and its derivative in γ.
    of_contexts, contexts_slope : array (m,)
        Σ_a π(a|x) f_γ(x, a) and its derivative in γ.
    tilted : array in the shape of scores
        μ of the policy ∝ π f.
    """

    of_rows: np.ndarray
    rows_slope: np.ndarray
    of_contexts: np.ndarray
    contexts_slope: np.ndarray
    tilted: np.ndarray


@dataclass(frozen=True, eq=False)
class SmearedModel:
    """Model f of exponentiated costs on some contexts and their rows.

    Parameters
    ----------
    log : BanditLog
    effects : array
        Effects of the cross-fitted cost model on the contexts.
    fold : integer array (m,)
        Fold of each context.
    largest : float
        C.
    """

    log: BanditLog
    effects: np.ndarray
    fold: np.ndarray
    largest: float

    @cached_property
    def residual(self) -> np.ndarray:
        """c − ĉ of each row, (n,)."""
        return self.log.cost - self.log.actions.costs_of_rows(self.log.row_map, self.effects)

    @cached_property
    def distance(self) -> np.ndarray:
        """Effects of ĉ − C."""
        distance = self.effects.copy(order="K")
        self.log.actions.add_constant(distance, -self.largest)
        return distance

    def sum_residuals(self, gamma: float, top: float) -> np.ndarray:
        """Return Σ 1, Σ e^{(ε − top)/γ} and Σ ε e^{(ε − top)/γ} of the rows of each fold and action, (3, folds, K)."""
        cell, width = self.log.actions.residual_cells(self.log.Y)
        cell = self.fold[self.log.context] * width + cell
        weight = self.log.count * np.exp((self.residual - top) / gamma)
        sums = (np.bincount(cell, values, FOLDS * width) for values in (self.log.count, weight, weight * self.residual))
        return np.reshape([*sums], (3, FOLDS, width))

    def moments(self, gamma: float, smear: Smear, mean: np.ndarray) -> Moments:
        """Return the model of e^{(c − C)/γ} under a policy with probabilities μ = ``mean``."""
        log, actions = self.log, self.log.actions
        exponent, slope = (
            actions.add_offsets(self.distance * factor, np.take(offsets.T, self.fold, axis=1).T)  # in column order
            for factor, offsets in zip((1 / gamma, -1 / gamma / gamma), smear, strict=True)
        )
        log_moment, tilted = actions.tilt(mean, exponent)
        of_contexts = np.exp(np.minimum(log_moment, LARGEST_EXPONENT))
        of_rows = np.exp(np.minimum(actions.costs_of_rows(log.row_map, exponent), LARGEST_EXPONENT))
        rows_slope = of_rows * actions.costs_of_rows(log.row_map, slope)
        return Moments(of_rows, rows_slope, of_contexts, of_contexts * actions.expected_cost(tilted, slope), tilted)


def smear_residuals(sums: np.ndarray, gamma: float, top: float) -> Smear:
    """Return the smearing factors of each fold and action, from the sums of :meth:`SmearedModel.sum_residuals`.

    A fold uses the sums of the other folds, or of all rows if these are empty.
    """
    remaining = (1 - np.eye(FOLDS)) @ sums
    remaining = np.where(remaining[0].sum(axis=1, keepdims=True) > 0, remaining, sums.sum(axis=1, keepdims=True))
    pooled = remaining.sum(axis=2, keepdims=True)
    count, weight, product = np.where(remaining[0] >= LEAST_RESIDUALS, remaining, pooled)
    weight = np.maximum(weight, np.finfo(float).tiny)
    return Smear(top / gamma + np.log(weight / count), -product / weight / gamma / gamma)
