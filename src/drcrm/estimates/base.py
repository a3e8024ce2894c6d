"""Interface of the estimates: how importance weights and modelled costs of a log become the input of a risk.

An estimate maps the weights w_i of the rows, and the expected modelled costs m(x) of the contexts, to one number z_i
for each row. The value of the estimate is the risk R(z). The estimate also maps the gradient of R to gradients in log π
and in m(x). Each estimate is a module of this package.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import copy
from typing import Any, Self

import numpy as np

from drcrm.risks import Risk

Gradient = np.ndarray | None
Evaluation = tuple[float, Gradient, Gradient, Any]


class Estimate(ABC):
    """An estimate of a policy's risk from the costs of a log without rows of count 0.

    Parameters
    ----------
    cost : array (n,)
    count : array (n,)
        Multiplicity of each row.
    modelled : array (n,), optional
        ĉ(x_i, y_i) of each row, for estimates with ``uses_model``.
    context : integer array (n,), optional
        Context of each row, from 0 to m − 1, for estimates with ``uses_model``.

    Attributes
    ----------
    residual : array (n,) or None
        c − ĉ.
    uses_weights, uses_model : bool
        Whether the estimate needs importance weights, and a cost model.
    is_ratio : bool
        Whether the estimate divides by the mean weight.
    is_translation_equivariant : bool
        Whether a constant that is added to all costs and to the cost model is added to the value too, and leaves the
        gradients unchanged.
    is_rowwise : bool
        Whether z_i depends only on row i, so that the log can be evaluated in chunks. Only such estimates have ``z``,
        ``gradients`` and ``restrict_to_rows``.
    """

    uses_weights = True
    uses_model = False
    is_ratio = False
    is_translation_equivariant = False
    is_rowwise = False

    def __init__(
        self,
        cost: np.ndarray,
        count: np.ndarray,
        modelled: np.ndarray | None = None,
        context: np.ndarray | None = None,
    ):
        self.cost, self.context = cost, context
        self.residual: Any = None if modelled is None else cost - modelled
        self.size = float(count.sum())
        self.share: np.ndarray = count / self.size

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.cost)} rows)"

    @abstractmethod
    def evaluate(
        self,
        risk: Risk,
        weight: np.ndarray | None,
        slope: np.ndarray | None,
        expected: np.ndarray | None,
        guess: Any,
    ) -> Evaluation:
        """Return the risk, its gradient in each row's log π and in each context's expected modelled cost, and a guess.

        Parameters
        ----------
        risk : Risk
        weight, slope : array (n,)
            w and ∂w/∂log π of each row.
        expected : array (m,), optional
            m(x) of each context.
        guess : Any
            Start of inner searches: the guess that an evaluation at a nearby policy returned, or None.
        """

    @abstractmethod
    def model_and_residual(self, weight: Any, expected: Any) -> tuple[Any, Any]:
        """Return m and e of each row, (n,) or a number: the estimate is the mean of the terms z = m + w e."""

    @np.errstate(divide="ignore", invalid="ignore")
    def terms(self, weight: Any, expected: Any = None) -> np.ndarray:
        """Return one term for each row, (n,). Their mean is the estimate, and their variance gives its standard error.

        The terms of a ratio are linearised, m + w e/w̄ with the mean weight w̄; they are NaN if every weight is 0.
        """
        modelled, residual = self.model_and_residual(weight, expected)
        return modelled + (weight / (self.share @ weight) if self.is_ratio else weight) * residual

    def mean(self, weight: Any, expected: Any = None) -> float:
        """Return the estimate of the mean cost."""
        return self.share @ self.terms(weight, expected)


class RowwiseEstimate(Estimate):
    """Base of the estimates whose z_i = m(x_i) + w_i e_i depends only on row i: e is fixed, and m is 0 or modelled."""

    is_rowwise = True

    def evaluate(
        self,
        risk: Risk,
        weight: np.ndarray | None,
        slope: np.ndarray | None,
        expected: np.ndarray | None,
        guess: Any,
    ) -> Evaluation:
        value, in_z, guess = risk.evaluate(self.z(weight, expected), self.share, self.size, guess)
        return value, *self.gradients(in_z, slope, expected), guess

    def restrict_to_rows(self, rows: slice | np.ndarray, context: np.ndarray | None) -> Self:
        """Return the estimate on a subset of the rows, whose shares still refer to the whole log.

        ``context`` has the context of each remaining row, or is None if row i belongs to context i.
        """
        part = copy(self)
        part.cost, part.share, part.context = self.cost[rows], self.share[rows], context
        part.residual = None if self.residual is None else self.residual[rows]
        return part

    def z(self, weight: Any, expected: Any = None) -> np.ndarray:
        """Return z = m + w e of each row, (n,)."""
        modelled, residual = self.model_and_residual(weight, expected)
        z = weight * residual
        z += modelled
        return z

    def gradients(self, in_z: np.ndarray, slope: Any, expected: Any) -> tuple[Gradient, Gradient]:
        """Return the gradients in log π and in the expected modelled costs, from the gradient in z."""
        in_log_prob = in_z * (self.model_and_residual(slope, expected)[1] * slope)
        if not self.uses_model:
            return in_log_prob, None
        by_context = in_z if self.context is None else np.bincount(self.context, in_z, len(expected))
        return in_log_prob, by_context
