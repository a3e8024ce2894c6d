"""Evaluation of exponentiated costs on blocks of a log, for the doubly robust objective around the environment."""

from __future__ import annotations

from typing import Any

import numpy as np

from drcrm.cost_models.smearing import Smear, SmearedModel, smear_residuals
from drcrm.data.chunked_log import Block
from drcrm.data.executors import Chunks
from drcrm.policies.prepared_log import PreparedLog, ScoreMap
from drcrm.weights import Weight


class EnvironmentBlock:
    """One block of a log, with a weight, and a model of exponentiated costs.

    Every method takes Θ, so that a block that was lost with its worker can be evaluated again.

    Parameters
    ----------
    block : Block
        Block whose context array has the effects of the cross-fitted cost model.
    fold : integer array (m,)
        Fold of each context of the block.
    scores : ScoreMap
    weight : Weight
    largest : float
        C, the largest cost of the log.
    size : float
        Number of rows of the log.
    keeps : bool
        Whether to keep the arrays of the last evaluation for its gradient.
    """

    def __init__(
        self,
        block: Block,
        fold: np.ndarray,
        scores: ScoreMap,
        weight: Weight,
        largest: float,
        size: float,
        keeps: bool,
    ):
        self._block, self._scores, self._weight, self._keeps = block, scores, weight, keeps
        self.rows, self.contexts = block.rows, block.contexts
        [effects] = block.context_arrays
        self._model = SmearedModel(block.log, effects, fold, largest)
        self._share = block.log.count / size
        self._kept: Any = (None,)

    def residual_range(self) -> tuple[float, float]:
        """Return the smallest and the largest residual."""
        return self._model.residual.min(), self._model.residual.max()

    def residual_sums(self, gamma: float, top: float) -> np.ndarray:
        """Return the sums of residuals by fold and action: see ``SmearedModel.sum_residuals``."""
        return self._model.sum_residuals(gamma, top)

    def terms(self, mean: np.ndarray, gamma: float, smear: Smear) -> tuple[np.ndarray, np.ndarray]:
        """Return f of the rows, and its mean under a policy with μ = ``mean``."""
        moments = self._model.moments(gamma, smear, mean)
        return moments.of_rows, moments.of_contexts

    def sums(self, coef: np.ndarray, gamma: float, smear: Smear) -> np.ndarray:
        """Return Σ s w, Σ s w E, Σ s w f(x, a) and Σ s E_π f(x, ·), each of the last three with its derivative in γ.

        The sums are over the rows, with shares s, weights w, E = e^{(c − C)/γ} and the model f.
        """
        weight, _, _, exponential, moments = self._forward(coef, gamma, smear)
        log, share = self._block.log, self._share
        weighted, context_share = share * weight, np.bincount(log.context, share, len(moments.of_contexts))
        slope = exponential * ((self._model.largest - log.cost) / gamma / gamma)
        of_rows = (exponential, slope, moments.of_rows, moments.rows_slope)
        of_contexts = (moments.of_contexts, moments.contexts_slope)
        return np.array(
            [
                weighted.sum(),
                *(weighted @ values for values in of_rows),
                *(context_share @ values for values in of_contexts),
            ]
        )

    def gradient(self, coef: np.ndarray, gamma: float, smear: Smear, factors: tuple) -> np.ndarray:
        """Return the gradient in Θ of Σ s w (a E − b f − c) + d Σ s E_π f, for ``factors`` (a, b, c, d)."""
        _, slope, mean, exponential, moments = self._forward(coef, gamma, smear)
        log, (of_logged, of_model, constant, of_expected) = self._block.log, factors
        by_row = self._share * slope * (of_logged * exponential - of_model * moments.of_rows - constant)
        by_context = of_expected * np.bincount(log.context, self._share, len(moments.of_contexts)) * moments.of_contexts
        in_scores = (moments.tilted - mean) * log.actions.broadcast(by_context)
        return self._scores.to_coef(self._block, mean, in_scores, by_row)

    def _forward(self, coef: np.ndarray, gamma: float, smear: Smear) -> tuple:
        """Return w, ∂w/∂log π, μ, E and the model; the arrays of the last call are kept."""
        key = coef.tobytes(), gamma
        if self._kept[0] == key:
            return self._kept[1]
        log = self._block.log
        log_prob, _, mean = self._scores.forward(self._block, coef)
        exponential = np.exp((log.cost - self._model.largest) / gamma)
        weight, slope = self._weight(log_prob, log.log_propensity)
        values = weight, slope, mean, exponential, self._model.moments(gamma, smear, mean)
        self._kept = (key, values) if self._keeps else (None,)
        return values


class EnvironmentBlocks:
    """The blocks of a log, and the residuals of its cost model.

    Parameters
    ----------
    prepared : PreparedLog
        The log with the effects of a cross-fitted cost model.
    fold : integer array (m,)
        Fold of each context.
    weight : Weight
    keeps : bool
        See ``EnvironmentBlock``.
    largest : float, optional
        C, by default the largest cost of the log.
    """

    def __init__(
        self,
        prepared: PreparedLog,
        fold: np.ndarray,
        weight: Weight,
        keeps: bool = False,
        largest: float | None = None,
    ):
        log = self._log = prepared.log
        largest = float(log.cost.max() if largest is None else largest)
        arguments = prepared.scores, weight, largest, float(log.size), keeps
        self._blocks = Chunks(
            [EnvironmentBlock(block, fold[block.contexts], *arguments) for block in prepared.chunked.blocks]
        )
        low, high = zip(*self._blocks.map(EnvironmentBlock.residual_range), strict=True)
        self._top, self.residual_span = max(high), max(high) - min(low)

    def smear(self, gamma: float) -> Smear:
        """Return the smearing factors at γ."""
        return smear_residuals(
            sum(self._blocks.map(EnvironmentBlock.residual_sums, gamma, self._top)), gamma, self._top
        )

    def sums(self, coef: np.ndarray, gamma: float, smear: Smear) -> np.ndarray:
        """Return the sums of ``EnvironmentBlock.sums`` over the whole log."""
        return sum(self._blocks.map(EnvironmentBlock.sums, coef, gamma, smear))

    def moments(self, gamma: float, mean: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return f(x_i, a_i) of the rows, (n,), and E_π f(x, ·) of the contexts, (m,), for μ of a policy."""
        log, items = self._log, [*self._blocks]
        is_whole = len(items) == 1
        means = [mean if is_whole else log.actions.select(block.contexts, mean)[1] for block in items]
        of_rows, of_contexts = np.empty(len(log.Y)), np.empty(log.n_contexts)
        results = self._blocks.map(EnvironmentBlock.terms, gamma, self.smear(gamma), by_chunk=means)
        for block, (rows, contexts) in zip(items, results, strict=True):
            of_rows[block.rows], of_contexts[block.contexts] = rows, contexts
        return of_rows, of_contexts

    def gradient(self, coef: np.ndarray, gamma: float, smear: Smear, factors: tuple) -> np.ndarray:
        """Return the gradient of ``EnvironmentBlock.gradient`` for the whole log."""
        return sum(self._blocks.map(EnvironmentBlock.gradient, coef, gamma, smear, factors))
