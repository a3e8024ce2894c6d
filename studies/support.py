"""Where should a policy trust its cost model, and what do the support rule and other methods gain?

The logging policy π0 of a run, with its scores times η, draws a new log. KL-DRO with DR learns from it by each method:

    plain        trusts the model everywhere
    support      trusts the model if π0 takes the action with at least τ of the uniform probability
    pessimistic  adds β standard errors of the ridge regression to each modelled cost; only with one action of K
    eligible     allows only supported actions (τ = 0.05) and the most probable action under π0; only with one action
                 of K
    switch       sets weights above a threshold to 0, so that only the model counts in these rows. Source: Wang,
                 Agarwal & Dudík 2017
    normalised   adds λ (w̄ − 1)² to the objective. The mean weight w̄ has expectation 1 if π0 has support: this is the
                 normaliser of SNIPS as a constraint. λ is in units of the standard deviation of the costs

The bound on DR with the support rule selects the radius. There is a row per run, η, method and its value: the expected
loss on the test set of the selected policy, of the best policy along the grid of radii, and of π0. The summary has
means, and differences from the support rule at τ = 0.05 with standard errors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from cells import joined, table_of
from finished import Run
from scipy import linalg, sparse

from drcrm.arrays.numerics import cost_deviation
from drcrm.cost_models.ridge_model import CostModel
from drcrm.data.bandit_log import BanditLog
from drcrm.logging_policy import SUPPORT, LoggingPolicy
from drcrm.optimization.lbfgs import LbfgsSettings, minimize_objectives
from drcrm.optimization.objective import Objective
from drcrm.paper.array_files import read_truth
from drcrm.policies.exponential import SoftmaxPolicy, make_policy
from drcrm.policies.prepared_log import PreparedLog
from drcrm.risks import MeanRisk
from drcrm.selection.algorithms import Algorithm
from drcrm.selection.fit_settings import FitSettings
from drcrm.selection.grid_search import learn
from drcrm.selection.heldout_scores import HeldoutScores
from drcrm.weights import Weight

PUBLIC_CODE = LbfgsSettings(stopping="public_code")
HEADLINE = "dr_bound"
VALUES = {
    "plain": (np.nan,),
    "support": (0.002, 0.01, 0.05, 0.2, 0.5),
    "pessimistic": (1.0, 2.0, 4.0, 8.0, 16.0),
    "eligible": (SUPPORT,),
    "switch": (3.0, 10.0, 30.0, 100.0),
    "normalised": (1.0, 10.0, 100.0),
}
SINGLE_CHOICE_METHODS = ("pessimistic", "eligible")


class Switch(Weight):
    """π/p up to a threshold, else 0."""

    parameter, robust_end = "threshold", "low"

    def __init__(self, threshold: float):
        self.threshold = threshold

    def __call__(self, log_prob, log_propensity):
        log_weight = log_prob - log_propensity
        value = np.where(log_weight <= np.log(self.threshold), np.exp(np.minimum(log_weight, 700)), 0.0)
        return value, value


@dataclass
class Pessimistic:
    """A cost model with β standard errors added to the cost of each of K actions, as if each had its own regression.

    se(x, a)² = s² xᵀ (X_aᵀ X_a + n λ S²)⁻¹ x, with the mean squared residual s², the contexts X_a in which action a was
    logged, and the scales S of the features.
    """

    model: CostModel
    roots: list[np.ndarray]  # for each action R, such that Rᵀ R is the inverse
    factor: float

    @classmethod
    def of(cls, model: CostModel, log: BanditLog, factor: float) -> Pessimistic:
        X, roots = to_dense(log.X), []
        residual = log.cost - model.effects(log.X)[log.context, log.Y]
        deviation = np.sqrt(log.count @ residual**2 / log.size)
        ridge = log.size * model.penalty_ * np.diag(abs(X).max(axis=0) ** 2)
        for action in range(model.coef_.shape[1]):
            rows = np.flatnonzero(action == log.Y)
            weighted = X[log.context[rows]] * np.sqrt(log.count[rows])[:, None]
            cholesky = linalg.cholesky(weighted.T @ weighted + ridge, lower=True)
            roots.append(deviation * linalg.solve_triangular(cholesky, np.eye(X.shape[1]), lower=True))
        return cls(model, roots, factor)

    @property
    def coef_(self) -> np.ndarray:
        return self.model.coef_

    def effects(self, X, actions) -> np.ndarray:
        errors = [np.sqrt(((to_dense(X) @ root.T) ** 2).sum(axis=1)) for root in self.roots]
        return self.model.effects(X, actions) + self.factor * np.column_stack(errors)


class Bounded(Weight):
    """π/p up to 10⁶; larger weights have the slope 10⁶."""

    def __call__(self, log_prob, log_propensity):
        value = np.exp(np.minimum(np.minimum(log_prob, 0) - log_propensity, np.log(1e6)))
        return value, value


class Normalised:
    """An objective with λ (w̄ − 1)² added."""

    def __init__(self, objective: Objective, factor: float):
        self._objective, self._factor, prepared = objective, factor, objective.prepared
        prepared = PreparedLog(prepared.log, intercept=prepared.intercept)
        self._mean_weight = Objective(prepared, MeanRisk(), Bounded(), cost=np.ones(len(prepared.log.Y)))

    def __getattr__(self, name: str):
        return getattr(self._objective, name)

    def __call__(self, coef: np.ndarray) -> tuple[float, np.ndarray]:
        return self.evaluate(coef)[:2]

    def evaluate(self, coef: np.ndarray, guess=None):
        value, gradient, guess = self._objective.evaluate(coef, guess)
        mean_weight, slope = self._mean_weight(coef)
        missing = mean_weight - 1
        return value + self._factor * missing**2, gradient + 2 * self._factor * missing * slope, guess


def to_dense(X) -> np.ndarray:
    return X.toarray() if sparse.issparse(X) else X


def has_support(policy: SoftmaxPolicy, X) -> np.ndarray:
    """Return which actions have support, (n, K)."""
    probability = policy.marginals(X)
    return probability >= np.minimum(SUPPORT / probability.shape[1], probability.max(axis=1, keepdims=True))


def learn_by(
    method: str, value: float, algorithm: Mapping, log: tuple, model: CostModel
) -> tuple[Sequence[np.ndarray], int]:
    """Return the coefficients along the grid of radii by a method, and the number of the selected ones."""
    train, heldout, policy = log
    options = {**algorithm["options"], "context_effects": False, "support": value if method == "support" else 0}
    if method == "eligible":
        options["support"] = SUPPORT
        train, heldout = (restrict_to_supported(part, policy) for part in (train, heldout))
    if method == "switch":
        options["weight"] = Switch(value)
    if method == "pessimistic":
        model = Pessimistic.of(model, train, value)
    entry = Algorithm(**{**algorithm, "options": options}, settings=FitSettings(PUBLIC_CODE))
    learned = learn(train, entry, heldout, LoggingPolicy.of(policy, train), model)
    if method != "normalised":
        return [candidate.policy.coef for candidate in learned.candidates], learned.chosen[HEADLINE]
    unit = cost_deviation(train.cost, train.count)
    objectives = [Normalised(objective, value * unit) for objective in learned.objectives]
    coefs = [fit.coef for fit in minimize_objectives(objectives, learned.start, PUBLIC_CODE)]
    score = HeldoutScores(heldout, learned.clip, learned.cost_model.with_support(SUPPORT))
    return coefs, int(np.argmin([score(SoftmaxPolicy(coef))[HEADLINE] for coef in coefs]))


def restrict_to_supported(log: BanditLog, policy: SoftmaxPolicy) -> BanditLog:
    """Return the rows whose actions have support; only supported actions are eligible."""
    eligible = has_support(policy, log.X)
    rows = eligible[log.context, log.Y]
    columns = (getattr(log, name)[rows] for name in ("Y", "propensity", "cost", "context", "count"))
    restricted = BanditLog(log.X, *columns, n_actions=eligible.shape[1], eligible=eligible)
    return restricted.without_empty_rows()


def measure(run: Run, algorithms: Mapping, sharpness: Sequence[float], replays: int) -> Iterator[dict]:
    """Yield a row per η, method and value of the method."""
    X, truth = read_truth(run.resources / "test.npz")
    is_single = truth.labels.ndim == 1
    [(name, algorithm)] = algorithms.items()
    for eta in sharpness:
        log = run.draw_log(eta, replays)
        model = CostModel().fit(log[0])
        key = {"dataset": run.dataset, "seed": run.seed, "sharpness": eta, "algorithm": name}
        logging = truth.losses(log[2], X)["expected_loss"]
        eligible = has_support(log[2], X) if is_single else None

        def loss(coef: np.ndarray, eligible: np.ndarray | None) -> float:
            policy = make_policy(truth.actions, coef)
            if eligible is None:
                return truth.losses(policy, X)["expected_loss"]
            return truth.losses_of_probabilities(policy.marginals(X, eligible))["expected_loss"]

        for method, values in VALUES.items():
            for value in values if is_single or method not in SINGLE_CHOICE_METHODS else ():
                coefs, selected = learn_by(method, value, algorithm, log, model)
                losses = [loss(coef, eligible if method == "eligible" else None) for coef in coefs]
                results = {"expected_loss": losses[selected], "least": min(losses), "logging": logging}
                yield {**key, "method": method, "value": value, **results}


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """Return the losses at η = 4 and 16 of other thresholds and methods minus the losses of support with τ = 0.05."""
    rows = table.set_index(["dataset", "sharpness", "seed"]).sort_index()
    usual = rows[(rows["method"] == "support") & (rows["value"] == SUPPORT)]["expected_loss"]
    lines = {
        "no support": ("plain", np.nan),
        **{f"τ = {value:g}": ("support", value) for value in (0.002, 0.01, 0.2, 0.5)},
        "supported actions only": ("eligible", SUPPORT),
        **{f"{value} standard errors": ("pessimistic", value) for value in (4, 8, 16)},
        "switch at 30": ("switch", 30),
        **{f"normalised, λ = {value}": ("normalised", value) for value in (10, 100)},
    }

    def cell(method: str, value: float, data: str) -> str:
        is_value = rows["value"].isna() if np.isnan(value) else rows["value"] == value
        excess = (rows[(rows["method"] == method) & is_value]["expected_loss"] - usual).dropna()
        factor, digits = (1, 2) if data in ("scene", "yeast") else (100, 1)  # Hamming loss, or the error rate in %
        means = [factor * excess[data, eta].mean() for eta in (4, 16) if (data, eta) in excess.index]
        return joined(means, digits, sign="+") or "–"

    sets = {"scene": "Scene", "yeast": "Yeast", "satimage": "satimage, %", "pendigits": "pendigits, %"}
    cells = [(label, *(cell(*line, data) for data in sets)) for label, line in lines.items()]
    return table_of(("", *sets.values()), cells)
