"""Model of exponentiated costs by Duan's smearing estimator: f_γ(x, a) = e^{(ĉ(x, a) − C)/γ} · mean_j e^{ε_j/γ}.

ĉ is a cross-fitted cost model and ε = c − ĉ are its residuals. A context uses the residuals of the folds that do not
contain it. They are pooled over actions, unless one of K actions has at least 50. One cost model serves every γ. C is
the largest cost, so that no exponential of a cost exceeds 1. Source: Duan 1983.
"""

from __future__ import annotations

import numpy as np

from drcrm.cost_models.cross_fitting import FOLDS
from drcrm.data.bandit_log import BanditLog
from drcrm.data.chunked_log import Block, ChunkedLog

LEAST_RESIDUALS = 50  # an action with fewer residuals uses those of all actions
LARGEST_EXPONENT = 200.0  # limit of log f: a model that exceeds C by 200 γ is of no use, and e^710 would overflow


def smeared_moments(
    log: BanditLog, effects: np.ndarray, mean: np.ndarray, fold: np.ndarray, gamma: float, largest: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return f_γ(x_i, a_i) of the rows, (n,), and E_π f_γ(x, ·) of the contexts, (m,).

    Parameters
    ----------
    log : BanditLog
    effects : array
        Effects of the cross-fitted cost model on the contexts.
    mean : array
        μ of the policy π, in the shape of scores.
    fold : integer array (m,)
        Fold of each context.
    gamma, largest : float
        γ and C.
    """
    chunked = ChunkedLog(log, effects, mean)
    log_smear = smear_residuals(log, log.cost - chunked.map_rows(_modelled_cost), fold, gamma)
    of_rows, of_contexts = np.empty(len(log.Y)), np.empty(log.n_contexts)
    results = chunked.blocks.map(_moments_of_block, fold, log_smear, gamma, largest)
    for block, (rows, contexts) in zip(chunked.blocks, results, strict=True):
        of_rows[block.rows], of_contexts[block.contexts] = rows, contexts
    return of_rows, of_contexts


def smear_residuals(log: BanditLog, residual: np.ndarray, fold: np.ndarray, gamma: float) -> np.ndarray:
    """Return log mean_j e^{ε_j/γ} for the contexts of each fold, by action or pooled: (folds, K) or (folds, 1).

    A fold uses the residuals ε, (n,), of the other folds, or of all rows if these are empty.
    """
    cell, width = log.actions.residual_cells(log.Y)
    cell, top = fold[log.context] * width + cell, residual.max()
    weight = log.count * np.exp((residual - top) / gamma)
    sums = np.reshape([np.bincount(cell, values, FOLDS * width) for values in (log.count, weight)], (2, FOLDS, width))
    remaining = (1 - np.eye(FOLDS)) @ sums
    remaining = np.where(remaining[0].sum(axis=1, keepdims=True) > 0, remaining, sums.sum(axis=1, keepdims=True))
    pooled = remaining.sum(axis=2, keepdims=True)
    count, weight = np.where(remaining[0] >= LEAST_RESIDUALS, remaining, pooled)
    return top / gamma + np.log(np.maximum(weight, np.finfo(float).tiny) / count)


def _modelled_cost(block: Block) -> np.ndarray:
    effects, _ = block.context_arrays
    return block.log.actions.costs_of_rows(block.log.row_map, effects)


def _moments_of_block(
    block: Block, fold: np.ndarray, log_smear: np.ndarray, gamma: float, largest: float
) -> tuple[np.ndarray, np.ndarray]:
    log, (effects, mean) = block.log, block.context_arrays
    exponent, offsets = effects.copy(order="K"), np.take(log_smear.T, fold[block.contexts], axis=1).T  # in column order
    log.actions.add_constant(exponent, -largest)
    exponent *= 1 / gamma
    exponent = log.actions.add_offsets(exponent, offsets)
    exponents = log.actions.costs_of_rows(log.row_map, exponent), log.actions.log_moment(mean, exponent)
    of_rows, of_contexts = (np.exp(np.minimum(values, LARGEST_EXPONENT)) for values in exponents)
    return of_rows, of_contexts
