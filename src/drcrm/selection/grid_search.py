"""Fit one algorithm to a log: fits along its grid, safer variants of them, and their held-out scores."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from drcrm.arrays.numerics import cost_deviation
from drcrm.cost_models.base import as_cost_model
from drcrm.cost_models.blended_model import MappedModel
from drcrm.cost_models.regressor_model import is_regressor
from drcrm.cost_models.ridge_model import CostModel, tilt_coefficients
from drcrm.data.bandit_log import BanditLog
from drcrm.errors import InputError
from drcrm.logging_policy import SUPPORT, LoggingPolicy
from drcrm.optimization.lbfgs import Fit, minimize_objectives
from drcrm.optimization.objective import Objective
from drcrm.optimization.starts import policy_coef, start_coef
from drcrm.policies.exponential import LinearPolicy, make_policy
from drcrm.policies.prepared_log import PreparedLog
from drcrm.progress import report_progress
from drcrm.risks import MeanRisk, VariancePenalizedRisk
from drcrm.selection.algorithms import Algorithm
from drcrm.selection.candidates import IMPROVEMENT, Candidate, Learned, PairedDifferences, choose
from drcrm.selection.heldout_scores import HeldoutScores, fit_cost_model
from drcrm.selection.score_names import SCORES, UNMODELLED
from drcrm.weights import as_clip

RIDGE_TOLERANCE = 100  # factor on the tolerance of fits with a ridge: they were as good, and took half the time
MAX_RIDGE_TOLERANCE = 1e-4  # with hundreds of actions, the gradient at π0 already meets a larger tolerance


@np.errstate(over="ignore", invalid="ignore", divide="ignore")  # results that are not finite are reported at the end
def learn(
    log: BanditLog,
    algorithm: Algorithm,
    heldout: BanditLog | None = None,
    logging: LoggingPolicy | None = None,
    cost_model: Any = None,
    fitted_costs: Any = None,
) -> Learned:
    """Fit an algorithm to a log for each value of its grid, and score the fits on held-out rows.

    Parameters
    ----------
    log : BanditLog
        Log without rows of count 0, and without contexts that have no rows.
    heldout : BanditLog, optional
        Held-out rows; those of count 0 are left out.
    algorithm : Algorithm
    logging : LoggingPolicy, optional
        π0, for the starts "logging" and "model" and for the support of a cost model; by default the policy is cloned
        from the log.
    cost_model : optional
        The cost model of estimates, starts and scores. If it is None and an estimate or a start needs a model, a ridge
        regression is fitted to the log. A regressor of scikit-learn is fitted to the log, too. A regressor in the
        algorithm's settings replaces this model.
    fitted_costs : CostModel, optional
        Another cost model for the estimates of the fit, which is trusted for all actions.

    Raises
    ------
    InputError
        If the algorithm does not fit the log.
    """
    if algorithm.is_tree:
        raise InputError("the estimator PolicyTree has no fits: use it in a mapping, or use drcrm.PolicyTree")
    settings = algorithm.settings
    clip, intercept = as_clip(settings.clip, log), settings.fit_intercept
    is_shifted = settings.lbfgs.stopping == "scaled" and algorithm.kind.is_translation_equivariant
    offset = float(log.cost.min()) if is_shifted else 0.0
    model: Any = None
    effects = slope = None
    if algorithm.uses_model or cost_model is not None or settings.cost_model is not None:
        model, effects = fit_cost_model(log, algorithm, cost_model, logging, offset)
    if fitted_costs is not None:
        trusting = algorithm.with_settings(support=0.0, cost_model=None)
        _, effects = fit_cost_model(log, trusting, fitted_costs, model.logging, offset)
    prepared = PreparedLog(log.replace(cost=log.cost - offset), effects, intercept)
    origin, tilt = settings.origin, None
    if origin is None:
        if settings.start == "model":
            logging, linear = model.logging, model.model
            if not hasattr(linear, "coef_"):
                linear = CostModel().fit(log, action_intercepts=intercept)
            slope = tilt_coefficients(linear, intercept)
        policy: Any = None if settings.start == "zero" or logging is None else logging.policy
        base = None if policy is None else policy_coef(policy, prepared)
        origin, tilt = start_coef(settings.start, prepared, base, slope, settings.tilt)
    search = _Search(prepared, algorithm, algorithm.make_objectives(prepared, clip), origin)
    scored = model and model.with_support(settings.support or SUPPORT)
    scorer = HeldoutScores.of(heldout, clip, scored, settings)
    candidates = search.fit_candidates(scorer, model)
    candidates = [replace(candidate, objective=candidate.objective + offset) for candidate in candidates]
    candidates, differences = _score(candidates, scorer)
    chosen = _choices(candidates, algorithm.robust_end)
    selected = 0
    if settings.safe:
        index = differences and differences.choose(differences.effective_choices())
        chosen[IMPROVEMENT] = selected = len(candidates) - 1 if index is None else index
    return Learned(candidates, chosen, selected, search.objectives, origin, clip, model, tilt, differences)


def learn_with_features(
    log: BanditLog,
    algorithm: Algorithm,
    heldout: BanditLog | None = None,
    logging: LoggingPolicy | None = None,
    cost_model: Any = None,
    names: list[str] | None = None,
) -> Learned:
    """Fit an algorithm to mapped features, to learned scores, or to the features of the log.

    Parameters
    ----------
    log, heldout, algorithm, logging, cost_model
        As in :func:`learn`, over the features of the log.
    names : list of str, optional
        Names of the features.
    """
    features: Any = algorithm.settings.features
    if features is None:
        return learn(log, algorithm, heldout, logging, cost_model)
    if algorithm.uses_scores:
        if cost_model is not None:
            raise InputError("learned scores have their own cost model; leave cost_model out")
        from drcrm.selection.learned_scores import learn_over_scores  # imports scikit-learn, which takes half a second

        return learn_over_scores(log, algorithm, heldout, logging)
    from drcrm.policies.feature_maps import FeatureMap, as_transformer

    mapped = FeatureMap(as_transformer(features), log.X, names)
    log, heldout = log.replace(X=mapped(log.X)), heldout and heldout.replace(X=mapped(heldout.X))
    if isinstance(cost_model, CostModel):
        cost_model = copy(cost_model)
        cost_model.coef_ = mapped.pad_coefficients(np.asarray(cost_model.coef_))
    elif not (cost_model is None or is_regressor(cost_model)):
        cost_model = MappedModel(mapped.unmap, as_cost_model(cost_model))
    padded = logging and replace(logging, policy=mapped.pad_policy(logging.policy))
    return learn(log, algorithm, heldout, padded, cost_model).with_features(mapped)


def score_policy(policy: LinearPolicy, log: BanditLog, heldout: BanditLog | None, algorithm: Algorithm) -> Learned:
    """Return the result for a single candidate, a policy that was learned in another way, with any held-out scores."""
    return score_candidates([Candidate(policy.with_exploration(algorithm.settings.explore))], log, heldout, algorithm)


def score_candidates(
    candidates: Sequence[Candidate], log: BanditLog, heldout: BanditLog | None, algorithm: Algorithm
) -> Learned:
    """Return the result for candidates that share a feature map or have none, with any held-out scores.

    The cost model is fitted to the log over the mapped features.
    """
    features, clip = candidates[0].policy.features, as_clip("auto", log)
    model, _ = fit_cost_model(log.replace(X=features(log.X)) if features else log, algorithm)
    model = model.with_features(features) if features else model
    scorer = HeldoutScores.of(heldout, clip, model, algorithm.settings)
    scored, differences = _score(candidates, scorer)
    start = candidates[0].policy.coef
    return Learned(scored, _choices(scored, "high"), 0, [], start, clip, model, None, differences)


def _score(candidates: Sequence[Candidate], scorer: HeldoutScores | None) -> tuple[list[Candidate], Any]:
    """Return the candidates with their scores and, with held-out rows and a cost model, their differences from π0.

    The improvement of π0 on itself is 0, whatever rounding gives.
    """
    report_progress(0, "candidates", len(candidates))
    scored, differences = [], []
    for candidate in candidates:
        report_progress(1, "candidates")
        scores, difference = scorer.evaluate(candidate.policy) if scorer else (dict.fromkeys(SCORES, np.nan), None)
        if scorer and candidate.is_logging:
            scores[IMPROVEMENT] = 0.0
        scored.append(replace(candidate, scores=scores))
        if difference is not None:
            zero = np.zeros(len(difference.count))
            is_logging = candidate.is_logging
            differences.append(PairedDifferences.of(zero, zero, 2, difference.count) if is_logging else difference)
    return scored, PairedDifferences.join(differences) if differences else None


def _choices(candidates: Sequence[Candidate], robust_end: str) -> dict[str, int]:
    """Return the index of the candidate that each score chooses; −1 if all values of the score are NaN."""
    grid = [candidate.value for candidate in candidates]
    chosen = {name: choose([candidate.scores[name] for candidate in candidates], grid, robust_end) for name in SCORES}
    return {name: -1 if index is None else index for name, index in chosen.items()}


@dataclass(frozen=True)
class _Search:
    """The fits of one algorithm to one log, from the same start."""

    prepared: PreparedLog
    algorithm: Algorithm
    objectives: list[Objective]
    start: np.ndarray

    def fit_candidates(self, scorer: HeldoutScores | None, cost_model: Any) -> list[Candidate]:
        """Return the fits along the grid and, if the algorithm is safe, the candidates that are closer to π0."""
        algorithm, values, safe = self.algorithm, self.algorithm.values, self.algorithm.settings.safe
        report_progress(0, "fits", len(values) + (len(self._safe_ridges()) if safe else 0))
        fits = self._fit_grid(algorithm.fit_ridges, None if safe else scorer)
        candidates = [
            self._candidate(fit, value, ridge=ridge)
            for fit, value, ridge in zip(fits, values, algorithm.fit_ridges, strict=True)
        ]
        if safe:
            candidates += self._fit_towards(policy_coef(cost_model.logging.policy, self.prepared), fits)
        return candidates

    def _candidate(self, fit: Fit, value: float = np.nan, **settings: Any) -> Candidate:
        return Candidate(self._policy(fit.coef), value, fit.objective, fit.iterations, fit.converged, **settings)

    def _policy(self, coef: np.ndarray) -> LinearPolicy:
        slopes, intercept = (coef[:-1], coef[-1]) if self.prepared.intercept else (coef, None)
        policy = make_policy(self.prepared.log.actions, slopes, intercept)
        return policy.with_exploration(self.algorithm.settings.explore)

    def _fit_grid(self, ridges: Sequence[float], scorer: Any) -> list[Fit]:
        """Return the fits along the grid, with ridges towards the start.

        With a scorer, hopeless fits end after 200 iterations. Such fits are at the far ends of a grid and would take
        most of the time. A fit is hopeless if every score that needs no cost model promises less than a quarter of the
        best improvement on the logged costs so far.
        """
        # Start at the least robust value, whose risk is close to the mean: its fit is a good one to compare with. With
        # samples, start at the most robust value, because each fit starts where the last one ended. The least robust
        # value gives a near-deterministic policy, at which the objective is flat.
        order = self._order()[:: -1 if self.prepared.has_samples else 1]
        fits: Any = [None] * len(order)
        scores = np.full((len(order), len(UNMODELLED)), np.nan)

        def is_hopeless(coef: np.ndarray) -> bool:
            gained = scorer.logged - np.fmin.reduce(scores)
            return bool(np.all((gained > 0) & (scorer.unmodelled(self._policy(coef)) > scorer.logged - gained / 4)))

        minimised = minimize_objectives(
            (self.objectives[index] for index in order),
            self.start,
            self.algorithm.settings.lbfgs,
            ridges=[ridges[index] * _ridge_unit(self.objectives[index]) for index in order],
            give_up=is_hopeless if scorer else None,
            begins=map(self._begin, order),
        )
        for index, fit in zip(order, minimised, strict=True):
            report_progress(1, "fits")
            fits[index] = fit
            if scorer:
                scores[index] = scorer.unmodelled(self._policy(fit.coef))
        return fits

    def _fit_towards(self, logging_coef: np.ndarray, fits: list[Fit]) -> list[Candidate]:
        """Return the other candidates of a safe algorithm; the last one is π0.

        They are fits with a ridge towards π0, policies part of the way from π0 to each fit, greedy versions of the
        fits, sharpened versions of π0, and π0. ``logging_coef`` is Θ of π0. The fits with a ridge use the least robust
        objective. On a large log the objective of a policy that is not a fit is NaN, because it would need all rows
        once more.
        """
        least_robust, algorithm, candidates = self._order()[0], self.algorithm, []
        objective, value = self.objectives[least_robust], algorithm.values[least_robust]
        lbfgs, around = algorithm.settings.lbfgs, algorithm.settings.around
        lbfgs = replace(lbfgs, tol=max(lbfgs.tol, min(RIDGE_TOLERANCE * lbfgs.tol, MAX_RIDGE_TOLERANCE)))
        for place, ridge in enumerate(self._safe_ridges(), len(fits)):
            settings: Any = {"ridges": [ridge * _ridge_unit(objective)], "begins": [self._begin(place)]}
            [fit] = minimize_objectives([objective], logging_coef, lbfgs, **settings)
            report_progress(1, "fits")
            candidates.append(self._candidate(fit, value, ridge=ridge))
        for fit_objective, fit, fit_value in zip(self.objectives, fits, algorithm.values, strict=True):
            evaluate = partial(self._evaluate, fit_objective, value=fit_value)
            candidates += [
                evaluate(logging_coef + step * (fit.coef - logging_coef), step=step) for step in around.steps
            ]
            if around.greedy:
                candidates.append(evaluate(around.greedy * fit.coef, sharpness=around.greedy))
        for factor in around.sharpened:
            candidates.append(self._evaluate(objective, factor * logging_coef, step=0.0, sharpness=factor))
        return [*candidates, self._candidate(Fit(logging_coef, objective(logging_coef)[0], 0, True), step=0.0)]

    def _evaluate(self, objective: Objective, coef: np.ndarray, value: float = np.nan, **settings: Any) -> Candidate:
        """Return Θ as a candidate, with its objective unless the log is large."""
        fit = Fit(coef, np.nan if self.prepared.is_large else objective(coef)[0], 0, True)
        return self._candidate(fit, value, **settings)

    def _order(self) -> list[int]:
        """Return indices of the grid, starting at the least robust value."""
        grid, is_reversed = self.algorithm.values, self.algorithm.robust_end == "low"
        return sorted(range(len(grid)), key=lambda index: grid[index], reverse=is_reversed)

    def _begin(self, place: int) -> np.ndarray | None:
        """Return Θ at which a fit begins; None for its start."""
        begins = self.algorithm.settings.begins
        return begins[place] if place < len(begins) else None

    def _safe_ridges(self) -> Sequence[float]:
        """Return λ of the fits with a ridge towards π0. A large log has none, because it has too little noise."""
        return () if self.prepared.is_large else self.algorithm.settings.around.ridges


def _ridge_unit(objective: Objective) -> float:
    """Return the unit of a ridge, the standard deviation of the objective's costs."""
    return cost_deviation(objective.estimate.cost, objective.prepared.log.count)


def calibrated_penalty(log: BanditLog) -> float:
    """Return λ0 = −c̄ / √(V_n(c)/n), the unit of POEM's grid in the public POEM code; V_n has the divisor n − 1.

    Raise InputError unless it is positive: costs must vary and have a negative mean.
    """
    mean, _ = MeanRisk()(log.cost, log.count)
    penalised, _ = VariancePenalizedRisk(1)(log.cost, log.count)
    deviation = penalised - mean
    if deviation <= 0 or mean >= 0:
        raise InputError(
            f"POEM's penalty cannot be calibrated on costs with mean {mean:.6g} and standard error {deviation:.6g}, "
            "expected a negative mean and costs that vary. Alternatively, set variance_penalty_scale to 'unit'"
        )
    return float(-mean / deviation)
