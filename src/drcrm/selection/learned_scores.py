"""Policies over learned scores: π(a|x) ∝ exp(Σ_j θ_j s_j(x, a)).

The score s_0 is log π0(a|x), and s_1 is −ĉ(x, a)/σ, where σ is the standard deviation of the residuals. The cost model
ĉ blends boosted trees with a ridge regression over a Nyström map: see :mod:`drcrm.cost_models.blended_model`. For one
of K actions, two classifiers of the rewarded actions give two more scores, their log-probabilities: boosted trees with
importance weights; and, without weights, the average of boosted trees and a logistic regression over the map. The
family contains π0, at θ_0 = 1 and θ_j = 0, and sharper and tilted versions of π0. As θ_j grows, the policy takes the
best action by score j. θ is fitted to a log in which each context lists its actions, with the scores as features of an
action. Each context's s_1, s_2 … come from models that were fitted without it, or without its group. The score of a new
context averages two scores: that of a model fitted to all training rows, which knows more, and the mean over the fold
models, which has less noise. The result is a softmax policy over X' = [X, r φ(X)], where φ(X) has all scores of all
actions, or of a listed candidate, and the number r scales them.

The fit starts with a vote of the scores, θ_j = V v_j / b_j, with V = 10. The spread b_j is the mean over contexts of
max_a s_j − mean_a s_j, but at least 0.1. So with equal weights v_j all scores have the same influence. The models share
one weight, and π0 has its own. To find both, the logged costs are regressed on s_0/b_0 and on the sum of the other
s_j/b_j; the weights are max(0, −slope), scaled so that the larger one is 1. So π0 counts more if few rows make the
models poor. A ridge on θ_j b_j draws the fit to the vote.

The doubly robust costs of the fit have a cost model of their own, a regression of the logged costs on the sum of the
models' s_j/b_j. The fit uses this model without the support rule of :mod:`drcrm.logging_policy`, because the
classifiers know more of actions that π0 hardly takes. Estimates and bounds on held-out rows use ĉ = −σ s_1 with the
support rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any, Self, cast

import numpy as np
from sklearn.base import BaseEstimator, clone, is_classifier

from drcrm.actions.one_of_many import ActionLists
from drcrm.arrays.boosted_trees import BoostedClassifier, BoostedRegressor
from drcrm.cost_models.blended_model import BlendedModel, MappedModel, blend_weights
from drcrm.cost_models.missing_cells import mark_lists
from drcrm.cost_models.regressor_model import RegressorModel, is_regressor
from drcrm.cost_models.ridge_model import CostModel
from drcrm.data.bandit_log import BanditLog
from drcrm.data.chunked_log import limit_openmp
from drcrm.data.folds import context_folds, training_parts
from drcrm.errors import InputError
from drcrm.logging_policy import SUPPORT, LoggingPolicy, SupportedModel
from drcrm.optimization.starts import clone_behaviour
from drcrm.policies import CLASSIFIER_WEIGHTS, NYSTROEM
from drcrm.policies.action_scores import ActionScores
from drcrm.policies.base import check_compatible
from drcrm.policies.classifier_policy import MappedLogistic, fit_classifier
from drcrm.policies.exponential import LinearPolicy, SoftmaxPolicy
from drcrm.policies.feature_maps import FeatureMap, as_transformer
from drcrm.selection.algorithms import Algorithm
from drcrm.selection.candidates import Learned
from drcrm.selection.fit_settings import SafeCandidates
from drcrm.selection.grid_search import learn

FOLDS = 3
VOTE = 10.0  # V
LEAST_SPREAD = 0.1  # smaller spreads are raised to it, so that a model that tells no actions apart stays weak
RIDGE = 0.05  # n λ of a ridge towards the vote if the algorithm has none: see Algorithm. With few rows θ stays close
AROUND = SafeCandidates(ridges=(), steps=(0.25, 0.5, 0.75), sharpened=(1.5, 2, 4, 8), greedy=10.0)


def default_models() -> list[Any]:
    """Return a regressor by boosted trees, a Nyström map for a ridge regression, and a classifier by boosted trees."""
    size = {"max_iter": 50, "max_bins": 63, "random_state": 0}  # as good as 100 trees and 255 bins, in half the time
    return [BoostedRegressor(**size), {NYSTROEM: 300}, BoostedClassifier(**size)]


@dataclass(frozen=True)
class LearnedScores:
    """Scores of the actions of a log by cross-fitted models.

    Attributes
    ----------
    features : FeatureMap
        X ↦ X', whose φ is a :class:`drcrm.policies.action_scores.ActionScores`.
    training : array (m, J, K) or (N, J)
        Scores of the training contexts, by models that were fitted to other contexts.
    deviation : float
        σ.
    spreads : array (J,)
        b_j.
    """

    features: Any
    training: np.ndarray
    deviation: float
    spreads: np.ndarray

    def as_lists(self, log: BanditLog, scores: np.ndarray) -> BanditLog:
        """Return a log with the same rows, in which each context lists its available actions with s_j / b_j."""
        actions: Any = log.actions
        lists, place = actions.as_lists(scores, log)
        lists = ActionLists(lists.features / self.spreads, lists.starts)
        listed = BanditLog(lists, place, log.propensity, log.cost, context=log.context, count=log.count)
        listed.imitated_propensities, listed.is_weighted = log.imitated_propensities, log.is_weighted
        listed.rows = log.rows
        if (mean := log.actions.logging_mean) is not None:
            listed.actions = listed.actions.with_logging_mean(actions.as_lists(mean[:, None], log)[0].features[:, 0])
        return mark_lists(listed, log)

    def scores_of(self, X: Any) -> np.ndarray:
        """Return the scores of other contexts, in the shape of ``training``."""
        return self.features.transformer.transform(X).reshape(X.shape[0], *self.training.shape[1:])

    def expand(self, theta: np.ndarray) -> np.ndarray:
        """Return coefficients of X', (d', K) or (d',), for coefficients θ_j b_j of the scores, (J,)."""
        shape = self.training.shape[2:]
        identity = np.eye(int(np.prod(shape))).reshape(shape + shape)
        of_scores = np.multiply.outer(theta / (self.spreads * self.features.scale), identity).reshape(-1, *shape)
        return np.concatenate([np.zeros((self.features.n_features, *shape)), of_scores])

    def expand_policy(self, policy: LinearPolicy) -> LinearPolicy:
        """Return a policy over the log of ``as_lists`` as a policy over the features X of the contexts."""
        return SoftmaxPolicy(self.expand(policy.coef), features=self.features).with_exploration(policy.explore)


def fit_scores(
    log: BanditLog,
    logging: LoggingPolicy | None,
    models: Sequence[Any] | None = None,
    folds: int | np.ndarray = FOLDS,
) -> LearnedScores:
    """Fit the models of the scores to all contexts, and again without each fold.

    Parameters
    ----------
    log : BanditLog
        Training rows, with one of K actions or a listed action. Folds keep groups together.
    logging : LoggingPolicy, optional
        π0, a SoftmaxPolicy; by default it is cloned from the log.
    models : sequence of models, optional
        Regressors of scikit-learn model the costs. So do feature maps (``{"nystroem": 300}`` or a transformer): each
        adds a ridge regression over its features. At least one of these is required; they are blended into one cost
        model ĉ. Classifiers model the actions, and only for one of K actions. Each is fitted twice, with the weights
        "none" and "inverse_propensity" of :func:`drcrm.policies.classifier_policy.row_weights`, and gives two scores.
        The default is boosted trees for both, and the Nyström map.
    folds : int or int array (n,)
        Largest number of folds, or the fold of each row.

    Raises
    ------
    InputError
        If the actions are label vectors, or a model cannot be fitted.
    """
    if not log.actions.are_choices:
        raise InputError(f"learned scores need one action of K or of a list per row, got {log.actions}")
    if models is None:
        models = [model for model in default_models() if log.actions.n_classes or not _is_classifier(model)]
    policy: Any = clone_behaviour(log) if logging is None else logging.policy
    check_compatible(policy, log.X.shape[1], log.actions, "the logging policy")
    if policy.features:
        raise InputError("the logging policy has its own feature map, which learned scores cannot use; omit the policy")
    of_context = context_folds(log, folds)
    fits, residuals = _fit_models(log, of_context, models)
    deviation = float(np.sqrt(log.count @ residuals**2 / log.size)) or 1.0
    limits = log.actions.cost_limits(log.cost, residuals)
    is_supported = None
    if log.actions.are_shared and logging is None and not log.imitated_propensities:
        is_supported = log.actions.find_supported(log, policy.marginals(log.actions.unbind(log.X)), SUPPORT)
    n_folds = len(fits) - 1  # fewer than FOLDS if there are fewer units
    fit_weights = [*[1.0] * n_folds, n_folds]  # of the fits to all rows but a fold, and to all rows
    transformer = ActionScores(fits, policy, deviation, SUPPORT, limits, is_supported, fit_weights)
    training = np.empty((log.X.shape[0], len(fits[0]) + 1, *log.actions.shape))
    for number in range(n_folds):
        inside = log.actions.repeat(of_context == number)
        if inside.any():
            training[inside] = transformer.scores(log.X[inside], fits[number : number + 1])
    actions: Any = log.actions
    spreads = _spreads(actions.as_lists(training, log)[0])
    return LearnedScores(FeatureMap(transformer, log.X), training, deviation, spreads)


def _fit_models(log: BanditLog, fold: np.ndarray, models: Sequence[Any]) -> tuple[list[list[Any]], np.ndarray]:
    """Fit all models without each fold in turn, and then to all rows.

    Return the models of each of these fits, ĉ first and then each classifier with both weights, and each row's cost
    minus ĉ of the fit without its fold. The weights of ĉ are the same in all fits. ``fold``, (m,), is the fold of each
    context.
    """
    cost_models, classifiers = _cost_models(models, log), [model for model in models if _is_classifier(model)]
    maps = [model.features for model in cost_models if isinstance(model, MappedModel)]
    parts = [*training_parts(log, fold), log]
    with limit_openmp():
        costs = [[copy(model).fit(part) for model in cost_models] for part in parts]
        predicted = np.zeros((len(log.Y), len(cost_models)))
        for number in range(len(parts) - 1):
            rows = fold[log.context] == number
            for place, model in enumerate(costs[number]):
                modelled = log.actions.costs_of_rows(log.row_map, model.effects(log.X, log.actions))
                predicted[rows, place] = modelled[rows]
        blend, constant = blend_weights(log, predicted)
        fits = []
        for part, members in zip(parts, costs, strict=True):
            pairs = product(classifiers, CLASSIFIER_WEIGHTS)
            of_actions = [_fit_classifier(part, clone(model), kind, maps) for model, kind in pairs]
            fits.append([BlendedModel(members, blend, constant), *of_actions])
    return fits, log.cost - constant - predicted @ blend


def _fit_classifier(log: BanditLog, classifier: Any, weights: str, maps: Sequence[FeatureMap]) -> Any:
    """Return a fitted classifier. If the rewards are the weights, logistic regressions over the maps join it."""
    fitted = fit_classifier(log, classifier, weights)
    if weights != "none" or not maps:
        return fitted
    return fitted, *(MappedLogistic.fit(log, features, weights) for features in maps)


def _spreads(lists: ActionLists) -> np.ndarray:
    """Return b_j for the scores (J,) of listed actions: the mean over lists of the largest score minus the mean."""
    first, sizes = lists.starts[:-1], np.diff(lists.starts)[:, None]
    means = np.add.reduceat(lists.features, first) / sizes
    return np.maximum((np.maximum.reduceat(lists.features, first) - means).mean(axis=0), LEAST_SPREAD)


def _cost_models(models: Sequence[Any], log: BanditLog) -> list[Any]:
    """Return the cost models of a list of models, before they are fitted; their feature maps are fitted to the log."""
    chosen = [
        RegressorModel(model)
        if is_regressor(model)
        else MappedModel(FeatureMap(as_transformer(model), log.X), CostModel())
        for model in models
        if not _is_classifier(model)
    ]
    if not chosen:
        raise InputError(
            f"features is {models!r}, expected a regressor of scikit-learn, which models the costs, and then any "
            "regressors, feature maps and classifiers"
        )
    return chosen


def _is_classifier(model: Any) -> bool:
    return isinstance(model, BaseEstimator) and is_classifier(model)


def _vote(listed: BanditLog) -> tuple[np.ndarray, CostModel]:
    """Return v, (J,), and the cost model, from a log whose contexts list their actions with s_j / b_j."""
    is_model = np.arange(listed.X.shape[1]) > 0
    total = listed.X[:, is_model].sum(axis=1, keepdims=True)
    slopes = np.maximum(-CostModel().fit(listed.replace(X=np.hstack([listed.X[:, :1], total]))).coef_, 0)
    weight, of_models = slopes / slopes.max() if slopes.max() > 0 else (1, 0)
    model = CostModel().fit(listed.replace(X=total))
    model.coef_ = model.coef_ * is_model
    return np.where(is_model, of_models, weight), model


def learn_over_scores(
    log: BanditLog,
    algorithm: Algorithm,
    heldout: BanditLog | None = None,
    logging: LoggingPolicy | None = None,
) -> Learned:
    """Fit an algorithm to learned scores, like :func:`drcrm.selection.grid_search.learn`.

    The policies and the cost model of the result take X; the start takes X'.
    """
    scored = ScoredLog.of(log, algorithm, logging)
    if heldout is not None:
        heldout = scored.scores.as_lists(heldout, scored.scores.scores_of(heldout.X))
    return scored.learn(algorithm, heldout)


@dataclass(frozen=True)
class ScoredLog:
    """A log, its learned scores, and the log whose contexts list their actions with these scores.

    Parts of the rows keep the scores, so that cross-fitting in the same folds fits the models once. A held-out fold
    then has the scores of the models without it. Source: van der Laan, Polley & Hubbard 2007, Super learner.

    Attributes
    ----------
    log, listed : BanditLog
        The same rows, over X and over s_j / b_j.
    scores : LearnedScores
    is_approximate : bool
        Whether π0 is only an estimate or an approximation: see :class:`drcrm.logging_policy.LoggingPolicy`.
    """

    log: BanditLog
    listed: BanditLog
    scores: LearnedScores
    is_approximate: bool

    @classmethod
    def of(
        cls,
        log: BanditLog,
        algorithm: Algorithm,
        logging: LoggingPolicy | None = None,
        folds: int | np.ndarray = FOLDS,
    ) -> Self:
        """Return a log with the scores of an algorithm. The other parameters are those of :func:`fit_scores`."""
        features: Any = algorithm.settings.features
        scores = fit_scores(log, logging, None if isinstance(features, str) else features, folds)
        return cls(log, scores.as_lists(log, scores.training), scores, logging is None or logging.is_approximate)

    def take(self, rows: np.ndarray) -> ScoredLog:
        """Return some of the rows, a mask (n,), with the same scores, for ``fit``."""
        log, listed = (part.recount(part.count * rows) for part in (self.log, self.listed))
        return replace(self, log=log, listed=listed)

    @cached_property
    def cost_model(self) -> SupportedModel:
        """ĉ with π0, over ``listed``."""
        scores, place = self.scores, np.arange(len(self.scores.spreads))
        model = CostModel()
        model.coef_ = -scores.deviation * scores.spreads * (place == 1)
        logging = LoggingPolicy(
            SoftmaxPolicy(scores.spreads * (place == 0)), SUPPORT, is_approximate=self.is_approximate
        )
        return SupportedModel(model, logging, scores.features.transformer.limits)

    def fit(self, algorithm: Algorithm, heldout: BanditLog | None = None) -> Learned:
        """Fit an algorithm; the policies take s_j / b_j. ``heldout`` has rows of a log like ``listed``."""
        vote, voted_costs = _vote(self.listed)
        lbfgs = replace(algorithm.settings.lbfgs, stopping="scaled")  # the ridge is in units of the scores
        ridge = algorithm.settings.ridge or RIDGE / self.log.size
        algorithm = algorithm.with_settings(ridge=ridge, around=AROUND, origin=VOTE * vote, lbfgs=lbfgs)
        return learn(self.listed, algorithm, heldout, None, self.cost_model, voted_costs)

    def learn(self, algorithm: Algorithm, heldout: BanditLog | None = None) -> Learned:
        """Fit an algorithm like ``fit``; the policies and the cost model of the result take X."""
        log, scores, model = self.log, self.scores, self.cost_model
        learned, expanded, policy = self.fit(algorithm, heldout), CostModel(), cast(SoftmaxPolicy, model.logging.policy)
        expanded.coef_, expanded.intercept_ = scores.expand(model.model.coef_), np.zeros(log.actions.shape)
        logging = replace(model.logging, policy=scores.expand_policy(policy))
        if self.is_approximate:
            logging = logging.with_logged_support(log, log.actions.log_partition(scores.training[:, 0])[1])
        model = replace(model, model=MappedModel(scores.features, expanded), logging=logging)
        candidates = [replace(fit, policy=scores.expand_policy(fit.policy)) for fit in learned.candidates]
        start = scores.expand(learned.start)
        return replace(learned, candidates=candidates, start=start, cost_model=model, objectives=[])
