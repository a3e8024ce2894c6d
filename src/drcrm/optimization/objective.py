"""Training objective: policy × log → log π → weight → estimate → risk → value, and its gradient in Θ."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from functools import reduce

import numpy as np

from drcrm.data.executors import report_pass
from drcrm.errors import InputError
from drcrm.estimates import find_estimate
from drcrm.optimization.block_passes import BlockCosts, BlockPass, CostPass
from drcrm.policies.prepared_log import PreparedLog
from drcrm.risks import Risk
from drcrm.risks.base import Evaluation
from drcrm.weights import Clipped, Weight

MAX_KEPT_SCORES = 2**25  # up to this number of scores, probabilities (256 MB) are kept for the backward pass


class Objective:
    """The estimate of a policy's risk as a function of Θ, with its gradient.

    The chain rule is applied once for all risks, estimates and weights. The estimate gives the gradients in log π of
    the rows and in the expected modelled costs of the contexts; the prepared log maps them to Θ. Source: eq. 3 and
    Remark 1 of the paper.

    Parameters
    ----------
    prepared : PreparedLog
        The log, with the effects of a cost model for "dr" and "dm".
    risk : Risk
    weight : Weight, optional
        By default π/p without clipping.
    estimate : "ips", "snips", "dr" or "dm"
    cost : array (n,), optional
        Costs to use in place of the log's costs.

    Raises
    ------
    InputError
        If the estimate is unknown, or needs a cost model and has none.
    """

    def __init__(
        self,
        prepared: PreparedLog,
        risk: Risk,
        weight: Weight | None = None,
        estimate: str = "ips",
        cost: np.ndarray | None = None,
    ):
        kind = find_estimate(estimate)
        if kind.uses_model and prepared.effects is None:
            raise InputError(f"the estimate {estimate!r} needs a cost model")
        self.prepared, self.risk, self.weight = prepared, risk, weight or Clipped(None)
        self.estimate = prepared.make_estimate(kind, cost)

    def of_present_features(self) -> Objective:
        """Return the objective in the coefficients of the features that are not 0 in all contexts."""
        narrow = copy(self)
        narrow.prepared = self.prepared.of_present_features
        return narrow

    def samples(self) -> Iterator[Objective]:
        """Yield the objective on larger and larger samples of a large log: see ``PreparedLog.samples``.

        The risk of a sample is adapted to its noise: see ``Risk.for_fewer_rows``.
        """
        for prepared, rows in self.prepared.samples():
            sample = copy(self)
            sample.prepared = prepared
            has_log_costs = self.estimate.cost is self.prepared.log.cost
            sample.estimate = prepared.make_estimate(
                type(self.estimate), None if has_log_costs else self.estimate.cost[rows]
            )
            sample.risk = self.risk.for_fewer_rows(self.estimate.size / sample.estimate.size)
            yield sample

    def __call__(self, coef: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the value and the flat gradient at Θ, which is flat or has shape (d, …).

        A self-normalised estimate is NaN, with gradient 0, if no row has a weight.
        """
        value, gradient, _ = self.evaluate(coef)
        return value, gradient

    def evaluate(self, coef: np.ndarray, guess: object = None) -> Evaluation:
        """Return the value, the gradient, and a guess for the evaluation at the next Θ: see ``Risk.evaluate``."""
        prepared, coef = self.prepared, coef.reshape(self.prepared.shape)
        parts, estimate = prepared.parts_of(self.estimate), self.estimate
        keeps = bool(prepared.log.X.shape[0] * np.prod(prepared.log.actions.shape) <= MAX_KEPT_SCORES)
        report_pass(len(prepared.log.Y))
        if estimate.is_rowwise:
            costs = BlockCosts(parts.transform(CostPass, prepared.scores, coef, keeps, self.weight))
            value, in_z, guess = self.risk.evaluate_chunks(costs, estimate.size, guess)
            return value, costs.gradient(in_z).ravel(), guess
        passes = parts.transform(BlockPass, prepared.scores, coef, keeps)
        log_prob, expected = prepared.gather(passes.map(BlockPass.results))
        weight = slope = None
        if estimate.uses_weights:
            weight, slope = self.weight(log_prob, prepared.log.log_propensity)
        value, by_row, by_context, guess = estimate.evaluate(self.risk, weight, slope, expected, guess)
        gradients = [
            (None if by_row is None else by_row[block.rows], None if by_context is None else by_context[block.contexts])
            for block in prepared.chunked.blocks
        ]
        return value, reduce(np.add, passes.map(BlockPass.backward, by_chunk=gradients)).ravel(), guess
