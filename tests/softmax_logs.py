"""Random logs of one action of K, also as lists of actions, with estimates computed by independent formulas."""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import brentq
from scipy.special import softmax

from drcrm import ActionLists, BanditLog, CostModel
from drcrm.risks import (
    AdaptiveBoltzmannRisk,
    BoltzmannRisk,
    Chi2Ball,
    KLBall,
    LogSmoothingRisk,
    LogSumExpRisk,
    MeanRisk,
    Risk,
    VariancePenalizedRisk,
)
from drcrm.weights import Clipped, Implicit, Shrunk, Smoothed, Weight

RISKS = [
    MeanRisk(),
    VariancePenalizedRisk(0.8),
    BoltzmannRisk(3.0),
    AdaptiveBoltzmannRisk(0.1),
    KLBall(0.05),
    KLBall(0.6),
    Chi2Ball(0.2),
    Chi2Ball(2.0),
    LogSumExpRisk(2.0),
    LogSmoothingRisk(0.01),
]
WEIGHTS: list[tuple[Weight, object]] = [  # with their formulas
    (Clipped(2.0), lambda pi, p: np.minimum(pi / p, 2)),
    (Clipped(None), lambda pi, p: pi / p),
    (Implicit(0.3), lambda pi, p: pi / (p + 0.3)),
    (Smoothed(0.6), lambda pi, p: pi / p**0.6),
    (Shrunk(4.0), lambda pi, p: 4 * (pi / p) / ((pi / p) ** 2 + 4)),
]
every_form = pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "csr"])


def random_coef(seed: int = 0, shape=(4, 3), scale: float = 1.0) -> np.ndarray:
    """Draw normal coefficients."""
    return scale * np.random.default_rng([seed, 7]).normal(size=shape)


@dataclass
class Choices:
    """Dense arrays of n rows with one action of K, in m contexts."""

    X: np.ndarray
    A: np.ndarray
    propensity: np.ndarray
    cost: np.ndarray
    context: np.ndarray
    count: np.ndarray
    eligible: np.ndarray

    @classmethod
    def drawn(cls, seed: int = 0, rows=50, contexts=12, features=4, actions=3, restricted=True, passes=None):
        """Draw costs and contexts with a constant last feature; counts of rows are 0 to 3.

        If ``restricted``, some actions are not eligible. With ``passes``, every context has that many rows of count 1.
        """
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(contexts, features)) * (rng.random((contexts, features)) < 0.7)
        X[:, -1] = 1
        eligible = np.ones((contexts, actions), dtype=bool)
        if restricted:
            eligible = rng.random(eligible.shape) < 0.7
            eligible[np.arange(contexts), rng.integers(0, actions, contexts)] = True
        context = np.repeat(np.arange(contexts), passes) if passes else rng.integers(0, contexts, rows)
        n = len(context)
        A = np.array([rng.choice(np.flatnonzero(eligible[k])) for k in context])
        count = np.ones(n, dtype=int) if passes else rng.integers(0, 4, n)
        return cls(X, A, rng.uniform(0.05, 1, n), -rng.exponential(2, n), context, count, eligible)

    @property
    def rows(self) -> dict[str, np.ndarray]:
        return {name: getattr(self, name) for name in ("propensity", "cost", "context", "count")}

    @property
    def known(self) -> dict[str, object]:
        """Return the arguments of BanditLog that describe the actions."""
        K = self.eligible.shape[1]
        return {"n_actions": K} if self.eligible.all() else {"eligible": self.eligible}

    def repeated(self) -> "Choices":
        """Return the rows repeated by their counts."""
        rows = np.repeat(np.arange(len(self.A)), self.count)
        vectors = (vector[rows] for vector in (self.A, self.propensity, self.cost, self.context))
        return Choices(self.X, *vectors, np.ones(len(rows), dtype=int), self.eligible)

    def single(self, form=np.asarray) -> BanditLog:
        """Return the log of one action of K."""
        return BanditLog(form(self.X), self.A, **self.rows, **self.known)

    def lists(self, form=np.asarray) -> ActionLists:
        """Return the eligible actions with features ψ_a = x ⊗ e_a, so that ψ_a · θ = (xᵀΘ)_a for θ = Θ row by row."""
        m, K = self.eligible.shape
        features = np.einsum("kj,ab->kajb", self.X, np.eye(K)).reshape(m, K, -1)[self.eligible]
        return ActionLists(form(features), np.r_[0, np.cumsum(self.eligible.sum(axis=1))])

    @property
    def position(self) -> np.ndarray:
        """Return the position of the logged action among the eligible ones."""
        return (np.cumsum(self.eligible, axis=1) - 1)[self.context, self.A]

    def listed(self, form=np.asarray) -> BanditLog:
        """Return the log of action lists."""
        return BanditLog(self.lists(form), self.position, **self.rows)

    def probabilities(self, coef: np.ndarray, intercept=0.0) -> np.ndarray:
        """Return π(a|x), (m, K), for coefficients Θ (d, K)."""
        return softmax(np.where(self.eligible, self.X @ coef + intercept, -np.inf), axis=1)

    def of_rows(self, by_action: np.ndarray) -> np.ndarray:
        """Return the entries of an array (m, K) at the logged rows."""
        return by_action[self.context, self.A]

    def value(self, coef, B, risk: Risk, formula, estimate: str) -> float:
        """Return the risk of a policy by an estimate; B (d, K) are the coefficients of the cost model."""
        pi, modelled = self.probabilities(coef), self.X @ B
        weight = formula(self.of_rows(pi), self.propensity)
        expected = np.where(self.eligible, pi * modelled, 0).sum(axis=1)[self.context]
        if estimate == "snips":
            return ratio(weight, self.cost, self.count, risk)
        z = {
            "ips": weight * self.cost,
            "dr": expected + weight * (self.cost - self.of_rows(modelled)),
            "dm": expected,
        }[estimate]
        return risk(z, self.count)[0]


def ratio(weight, cost, count, risk: Risk) -> float:
    """Return the self-normalised estimate: the root of v ↦ R(w (c − v)), or its linear form if R is not monotone."""
    if risk.monotone:
        used = cost[(weight > 0) & (count > 0)]
        if used.min() == used.max():
            return used[0]
        return brentq(lambda v: risk(weight * (cost - v), count)[0], used.min() - 1, used.max() + 1, xtol=1e-13)
    mean = (count * weight) @ cost / (count @ weight)
    return risk(mean + weight * (cost - mean) / (count @ weight / count.sum()), count)[0]


def cost_model(B, intercept=0.0) -> CostModel:
    model = CostModel()
    model.coef_, model.intercept_ = np.array(B), intercept
    return model


def evaluation_of(entry: dict) -> tuple[str, float | None]:
    """Return the name of a reference entry's estimate in evaluation, and its clip."""
    is_plain = entry["clip"] is None or entry["estimate"] == "dm"
    return (entry["estimate"], None) if is_plain else (f"clipped_{entry['estimate']}", entry["clip"])
