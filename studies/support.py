"""Where a cost model is believed: what support brings and costs, and what others do instead.

The log of a run is drawn again, from π0 with its scores times η, and KL-DRO with DR is learned from it:

    plain        the model is believed everywhere
    support      it is believed where π0 takes an action with at least τ of the uniform probability
    pessimistic  β standard errors of the ridge regression are added to each modelled cost, with one action of K alone
    eligible     the policy may take supported actions alone (τ = 0.05), the most probable under π0 among them; with one
                 action of K alone
    switch       weights above a threshold are 0: there the model alone counts. Source: Wang, Agarwal & Dudík 2017
    normalised   λ (w̄ − 1)² is added to the objective, w̄ the mean weight, whose expectation is 1 where there is
                 support: the normaliser of SNIPS as a constraint. λ is in units of the deviation of the costs

Radii are chosen by the bound of DR with support. There is a row per run, η, method and its value: the expected loss of
what was chosen on the test set, and the least along the grid of radii, beside π0's. The summary has means, and
differences to support at τ = 0.05 with standard errors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from finished import Run
from scipy import linalg, sparse

from drcrm.cost_models.ridge_model import CostModel
from drcrm.cost_models.support import SUPPORT
from drcrm.data.bandit_log import BanditLog
from drcrm.data.scaling import cost_deviation
from drcrm.experiments.datasets.truths import read_truth
from drcrm.optimization.lbfgs import LbfgsSettings, minimize_objectives
from drcrm.optimization.objective import Objective
from drcrm.policies.exponential import SoftmaxPolicy, make_policy
from drcrm.policies.linear_predictor import LinearPredictor
from drcrm.reports.tables.comparisons import interval
from drcrm.risks import MeanRisk
from drcrm.selection.algorithms import Algorithm
from drcrm.selection.grid_search import LearnSettings, learn
from drcrm.selection.heldout_scores import HeldoutScores
from drcrm.selection.score_names import SCORES
from drcrm.weights import Weight

PUBLIC_CODE = LbfgsSettings(stopping="public_code")
HEADLINE = list(SCORES).index("dr_bound")
VALUES = {
    "plain": (np.nan,),
    "support": (0.002, 0.01, 0.05, 0.2, 0.5),
    "pessimistic": (1.0, 2.0, 4.0, 8.0, 16.0),
    "eligible": (SUPPORT,),
    "switch": (3.0, 10.0, 30.0, 100.0),
    "normalised": (1.0, 10.0, 100.0),
}
OF_ONE_ACTION = ("pessimistic", "eligible")


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
    """A cost model with β standard errors added to the cost of each of K actions.

    se(x, a)² = s² xᵀ (X_aᵀ X_a + n λ S²)⁻¹ x, s² the mean squared residual, X_a the contexts in which a was logged, S
    the scales of the features: as if each action had its own regression.
    """

    model: CostModel
    roots: list[np.ndarray]  # of each action, R with Rᵀ R the inverse
    factor: float

    @classmethod
    def of(cls, model: CostModel, log: BanditLog, factor: float) -> Pessimistic:
        X, roots = _dense(log.X), []
        residual = log.cost - model.effects(log.X)[log.context, log.Y]
        deviation = np.sqrt(log.count @ residual**2 / log.size)
        ridge = log.size * model.penalty_ * np.diag(abs(X).max(axis=0) ** 2)
        for action in range(model.coef_.shape[1]):
            rows = np.flatnonzero(action == log.Y)
            weighed = X[log.context[rows]] * np.sqrt(log.count[rows])[:, None]
            factored = linalg.cholesky(weighed.T @ weighed + ridge, lower=True)
            roots.append(deviation * linalg.solve_triangular(factored, np.eye(X.shape[1]), lower=True))
        return cls(model, roots, factor)

    @property
    def coef_(self) -> np.ndarray:
        return self.model.coef_

    def action_effects(self, X, actions) -> np.ndarray:
        errors = [np.sqrt(((_dense(X) @ root.T) ** 2).sum(axis=1)) for root in self.roots]
        return self.model.action_effects(X, actions) + self.factor * np.column_stack(errors)


class Bounded(Weight):
    """π/p up to 10⁶; the slope of a larger weight is 10⁶, too."""

    def __call__(self, log_prob, log_propensity):
        value = np.exp(np.minimum(np.minimum(log_prob, 0) - log_propensity, np.log(1e6)))
        return value, value


class Normalised:
    """An objective with λ (w̄ − 1)² added."""

    def __init__(self, objective: Objective, factor: float):
        self._objective, self._factor, design = objective, factor, objective.design
        design = LinearPredictor(design.log, intercept=design.intercept, trains=design.trains)
        self._mean_weight = Objective(design, MeanRisk(), Bounded(), cost=np.ones(len(design.log.Y)))

    def __getattr__(self, name: str):
        return getattr(self._objective, name)

    def with_features(self, features: np.ndarray) -> Normalised:
        return Normalised(self._objective.with_features(features), self._factor)

    def __call__(self, coef: np.ndarray) -> tuple[float, np.ndarray]:
        return self.evaluate(coef)[:2]

    def evaluate(self, coef: np.ndarray, guess=None):
        value, gradient, guess = self._objective.evaluate(coef, guess)
        mean_weight, slope = self._mean_weight(coef)
        missing = mean_weight - 1
        return value + self._factor * missing**2, gradient + 2 * self._factor * missing * slope, guess


def _dense(X) -> np.ndarray:
    return X.toarray() if sparse.issparse(X) else X


def supported(policy: SoftmaxPolicy, X) -> np.ndarray:
    """Which actions have support, (n, K)."""
    probability = policy.marginals(X)
    return probability >= np.minimum(SUPPORT / probability.shape[1], probability.max(axis=1, keepdims=True))


@dataclass(frozen=True)
class Learned:
    """The policies along the grid of radii, and which of them the held-out score chooses."""

    coef: np.ndarray
    chosen: int


def learned(method: str, value: float, algorithm: Mapping, log: tuple, model: CostModel) -> Learned:
    """Fit the algorithm as a method has it."""
    train, heldout, policy = log
    options = {**algorithm["options"], "context_effects": False, "support": value if method == "support" else 0}
    if method == "eligible":
        options["support"] = SUPPORT
        train, heldout = (restricted(each, policy) for each in (train, heldout))
    if method == "switch":
        options["weight"] = Switch(value)
    if method == "pessimistic":
        model = Pessimistic.of(model, train, value)
    entry = Algorithm(**{**algorithm, "options": options})
    found = learn(train, entry, heldout, policy, model, LearnSettings(lbfgs=PUBLIC_CODE))
    if method != "normalised":
        return Learned(found.fits.coef, int(found.fits.chosen[HEADLINE]))
    unit = cost_deviation(train.cost, train.count)
    objectives = [Normalised(each, value * unit) for each in found.objectives]
    coef = [fit.coef for fit in minimize_objectives(objectives, found.start, PUBLIC_CODE)]
    believed = found.cost_model.at(SUPPORT)
    score = HeldoutScores(heldout, found.clip, believed.action_effects(heldout.X, heldout.actions))
    return Learned(np.stack(coef), int(np.argmin([score(each)["dr_bound"] for each in coef])))


def restricted(log: BanditLog, policy: SoftmaxPolicy) -> BanditLog:
    """The rows of a log whose actions have support, and which actions those are."""
    offered = supported(policy, log.X)
    rows = offered[log.context, log.Y]
    kept = {name: getattr(log, name)[rows] for name in ("Y", "propensity", "cost", "context", "count")}
    K = offered.shape[1]
    made = BanditLog(
        log.X,
        kept["Y"],
        kept["propensity"],
        kept["cost"],
        kept["context"],
        kept["count"],
        n_actions=K,
        eligible=offered,
    )
    return made.recount(made.count)


def rows(run: Run, algorithms: Mapping, sharpness: Sequence[float], replays: int) -> Iterator[dict]:
    """What each method learns with each of its values."""
    X, truth = read_truth(run.resources / "test.npz")
    single = truth.labels.ndim == 1
    [(name, algorithm)] = algorithms.items()
    for eta in sharpness:
        log = run.logged_again(eta, replays)
        model = CostModel().fit_log(log[0])
        key = {"dataset": run.dataset, "seed": run.seed, "sharpness": eta, "algorithm": name}
        logging = truth.losses(log[2], X)["expected_loss"]
        offered = supported(log[2], X) if single else None

        def loss(coef: np.ndarray, offered: np.ndarray | None) -> float:
            policy = make_policy(truth.actions, coef)
            if offered is None:
                return truth.losses(policy, X)["expected_loss"]
            return truth.losses_of_probabilities(policy.marginals(X, offered))["expected_loss"]

        for method, values in VALUES.items():
            for value in values if single or method not in OF_ONE_ACTION else ():
                found = learned(method, value, algorithm, log, model)
                losses = [loss(coef, offered if method == "eligible" else None) for coef in found.coef]
                about = {"expected_loss": losses[found.chosen], "least": min(losses), "logging": logging}
                yield {**key, "method": method, "value": value, **about}


def summary(rows: pd.DataFrame) -> str:
    """Means by η, method and value, and the difference to support as it is by default, with its standard error."""
    lines = []
    for key, of in rows.groupby(["dataset", "sharpness", "method", "value"], dropna=False, sort=False):
        usual = rows[(rows["method"] == "support") & (rows["value"] == SUPPORT)]
        paired = of.merge(usual, on=["dataset", "sharpness", "seed"], suffixes=("", "_usual"))
        difference = interval(paired["expected_loss"] - paired["expected_loss_usual"])
        means = of[["logging", "expected_loss", "least"]].mean().to_dict()
        names = dict(zip(["dataset", "sharpness", "method", "value"], key, strict=True))
        lines.append({**names, **means, "difference": difference.mean, "±": difference.standard_error})
    return pd.DataFrame(lines).to_string(index=False, float_format="%.3f")
