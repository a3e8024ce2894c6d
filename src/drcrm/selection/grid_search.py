"""Learning from a log: fits along an algorithm's grid, safer variants of them, and their held-out scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from drcrm.cost_models.regressor_model import RegressorModel, is_regressor
from drcrm.cost_models.ridge_model import CostModel, tilt_coefficients
from drcrm.cost_models.support import SUPPORT, SupportedModel
from drcrm.data.bandit_log import BanditLog, as_clip
from drcrm.data.listeners import report_progress
from drcrm.data.scaling import cost_deviation
from drcrm.errors import InputError
from drcrm.estimates import find_estimate
from drcrm.optimization.lbfgs import Fit, LbfgsSettings, minimize_objectives
from drcrm.optimization.objective import Objective
from drcrm.optimization.starts import policy_coef, start_coef
from drcrm.policies.exponential import LinearPolicy
from drcrm.policies.linear_predictor import LinearPredictor
from drcrm.risks import MeanRisk, VariancePenalizedRisk
from drcrm.selection.candidates import IMPROVEMENT, Candidate, GridFit
from drcrm.selection.heldout_scores import HeldoutScores
from drcrm.selection.multiplicity import PairedDifferences
from drcrm.selection.registry.algorithms import RIDGES, Algorithm
from drcrm.selection.score_names import SCORES, UNMODELLED
from drcrm.selection.training_costs import model_training_costs

STEPS = 0.25, 0.5  # fractions of the way from π0 to a fit
RIDGE_TOLERANCE = 100  # factor on the tolerance of fits with a ridge: they were as good, and took half the time
MAX_RIDGE_TOLERANCE = 1e-4  # with hundreds of actions, the gradient at π0 already meets a larger tolerance


@dataclass(frozen=True)
class LearnSettings:
    """Settings of ``learn``.

    Parameters
    ----------
    clip : "auto", float ≥ 1 or None
        M, the upper limit of training and held-out weights: see ``as_clip``.
    intercept : bool
        Whether the policy has an intercept; it is the last row of Θ.
    is_calibrated : bool
        Whether the grid of POEM is in units of ``calibrated_penalty``.
    ridges : sequence of float
        λ of a safe algorithm's fits with a ridge towards π0, in units of the standard deviation of the costs.
    steps : sequence of float
        Fractions of the way from π0 to a fit at which a safe algorithm has candidates.
    sharpened : sequence of float
        Factors of Θ of π0 for further candidates of a safe algorithm.
    greedy : float, optional
        Factor of Θ of each fit for a further candidate of a safe algorithm, which is nearly greedy.
    fewer_rows : float
        If the log is a sample, the rows of the whole log divided by those of the sample: see ``Risk.for_fewer_rows``.
    start : array (d, …), optional
        Start of the fits, Θ, in place of the algorithm's start.
    explore : float
        Share ε of the uniform policy in the policies that are scored. Fits do not depend on it.
    shift : float, optional
        Radius κ, if ``improvement_bound`` compares worst cases around the environment.
    has_differences : bool
        Whether to keep the candidates' differences from π0 on all held-out rows. They need a cost model.
    lbfgs : LbfgsSettings
        Under the stopping rule "scaled", the smallest cost is subtracted from all costs if the estimate is
        translation-equivariant, because costs far from 0 lose digits.
    """

    clip: float | str | None = "auto"
    intercept: bool = False
    is_calibrated: bool = False
    ridges: Sequence[float] = RIDGES
    steps: Sequence[float] = STEPS
    sharpened: Sequence[float] = ()
    greedy: float | None = None
    fewer_rows: float = 1.0
    start: np.ndarray | None = None
    explore: float = 0.0
    shift: float | None = None
    has_differences: bool = False
    lbfgs: LbfgsSettings = field(default_factory=LbfgsSettings)


@dataclass(frozen=True)
class Learned:
    """Result of ``learn``.

    Attributes
    ----------
    fits : GridFit
    objectives : list of Objective
        One for each value of the grid.
    start : array (d, …)
        Start of the fits, Θ.
    clip : float or None
        M.
    cost_model : SupportedModel or None
    differences : PairedDifferences or None
        Differences of the candidates from π0 on the held-out rows, if the settings ask for them.
    """

    fits: GridFit
    objectives: list[Objective]
    start: np.ndarray
    clip: float | None
    cost_model: SupportedModel | None
    differences: PairedDifferences | None = None


@np.errstate(over="ignore", invalid="ignore", divide="ignore")  # results that are not finite are reported at the end
def learn(
    log: BanditLog,
    algorithm: Algorithm,
    heldout: BanditLog | None = None,
    logging_policy: LinearPolicy | None = None,
    cost_model: Any = None,
    settings: LearnSettings | None = None,
) -> Learned:
    """Fit an algorithm to a log for each value of its grid, and score the fits on held-out rows.

    Parameters
    ----------
    log, heldout : BanditLog
        Rows of count 0, and contexts without rows, are left out.
    algorithm : Algorithm
    logging_policy : ExponentialPolicy or SoftmaxPolicy, optional
        π0, for the starts "logging" and "model" and for the support of a cost model; by default the policy is cloned
        from the log.
    cost_model : optional
        The cost model of estimates, starts and scores. If it is None and an estimate or a start needs a model, a ridge
        regression is fitted to the log. A regressor of scikit-learn is fitted to the log, too.
    settings : LearnSettings, optional

    Raises
    ------
    InputError
        If the algorithm is invalid, or does not fit the log.
    """
    settings = settings or LearnSettings()
    log, options = LinearPredictor(log).log, algorithm.fit_options
    clip = as_clip(settings.clip, log)
    cost_unit = cost_deviation(log.cost, log.count)  # computed while few arrays of the rows are in memory
    criteria = algorithm.criteria(calibrated_penalty(log) if settings.is_calibrated else 1)
    estimate = find_estimate(criteria[0].estimate)
    is_shifted = settings.lbfgs.stopping == "scaled" and estimate.is_translation_equivariant
    shift = log.cost.min() if is_shifted else 0.0
    regressor, effects, coef = options.make_regressor(), None, None
    if regressor is None and is_regressor(cost_model):
        regressor = cost_model
    fit = _model_fitter(regressor, cost_model, settings.intercept)
    if regressor is not None:
        cost_model = fit(log)
    needs_model = estimate.uses_model or options.start == "model" or options.safe or settings.has_differences
    if cost_model is not None or needs_model:
        is_auto = options.context_effects == "auto"
        wanted = log.actions.has_context_effects if is_auto else options.context_effects
        cost_model, effects = model_training_costs(
            log,
            cost_model,
            logging_policy,
            options.support,
            shift,
            settings.intercept,
            estimate.uses_model and bool(wanted) and not criteria[0].is_cross_fitted,
            fit if criteria[0].is_cross_fitted else None,
        )
    if options.start == "model":
        logging_policy, coef = cost_model.logging_policy, _tilt(cost_model.model, log, settings.intercept)
    shifted = log.replace(cost=log.cost - shift)
    design = LinearPredictor(shifted, effects if estimate.uses_model else None, settings.intercept, trains=True)
    origin, tilt = settings.start, None
    if origin is None:
        origin, tilt = start_coef(options.start, design, logging_policy, coef, options.tilt)
    criteria = [replace(criterion, risk=criterion.risk.for_fewer_rows(settings.fewer_rows)) for criterion in criteria]
    objectives = [criterion.make_objective(design, clip) for criterion in criteria]
    search = _Search(design, algorithm, objectives, origin, settings)
    scored_model = cost_model and cost_model.with_support(options.support or SUPPORT)
    scorer = None if heldout is None else _make_scorer(heldout, clip, settings, scored_model)
    candidates = search.fit_candidates(scorer, cost_model)
    scores, differences = _score(candidates, scorer, settings.has_differences or bool(settings.sharpened))
    fits = GridFit.of(candidates, scores, algorithm.robust_end, shift, tilt)
    if options.safe:
        fits.chosen[IMPROVEMENT] = len(candidates) - 1
        if settings.sharpened and differences is not None:  # their noise is small, but they are seldom better than π0
            index = differences.choose(differences.effective_choices())
            fits.chosen[IMPROVEMENT] = len(candidates) - 1 if index is None else index
        elif scorer:
            noise = _make_scorer(design.sample.log, clip, settings, scored_model).noise
            fits.chosen[IMPROVEMENT] = fits.choose_safe(noise, cost_unit)
    return Learned(fits, search.objectives, origin, clip, cost_model, differences)


def score_policy(
    coef: np.ndarray, log: BanditLog, heldout: BanditLog, explore: float = 0.0, shift: float | None = None
) -> Learned:
    """Return a policy that was learned in another way, Θ, as the only candidate, with its held-out scores.

    ``explore`` and ``shift`` are those of ``LearnSettings``.
    """
    log, clip = LinearPredictor(log).log, as_clip("auto", log)
    cost_model, _ = model_training_costs(log, None, None, SUPPORT)
    candidates, settings = [Candidate(np.nan, Fit(coef, np.nan, 0, True))], LearnSettings(explore=explore, shift=shift)
    scores, differences = _score(candidates, _make_scorer(heldout, clip, settings, cost_model), True)
    return Learned(GridFit.of(candidates, scores, "high", 0.0, None), [], coef, clip, cost_model, differences)


def _model_fitter(regressor: Any, cost_model: Any, intercept: bool) -> Any:
    """Return the function that fits a cost model to a log; None if the cost model was fitted to other rows."""
    if regressor is not None:
        return lambda log: RegressorModel(regressor).fit_log(log)
    return (lambda log: CostModel().fit_log(log, action_intercepts=intercept)) if cost_model is None else None


def _tilt(model: Any, log: BanditLog, intercept: bool) -> np.ndarray | None:
    """Return the coefficients by which the start "model" tilts π0.

    They come from the cost model or, if it has no coefficients, from a ridge regression.
    """
    linear = model if hasattr(model, "coef_") else CostModel().fit_log(log, action_intercepts=intercept)
    return tilt_coefficients(linear, intercept)


def _make_scorer(
    log: BanditLog, clip: float | None, settings: LearnSettings, model: SupportedModel | None
) -> HeldoutScores:
    """Return the scores of policies on a part of the log."""
    intercept, explore = settings.intercept, settings.explore
    if model is None:
        return HeldoutScores(log, clip, intercept=intercept, explore=explore)
    effects = model.action_effects(log.X, log.actions)
    policies = model.logging_policy, model.is_cloned
    return HeldoutScores(log, clip, effects, intercept, *policies, explore, settings.shift)


def _score(
    candidates: list[Candidate], scorer: HeldoutScores | None, has_differences: bool
) -> tuple[np.ndarray, PairedDifferences | None]:
    """Return all scores of the candidates, (k, s), and their differences from π0, if they are known and wanted.

    The improvement of π0 on itself is 0, whatever rounding gives.
    """
    report_progress(0, "candidates", len(candidates))
    scores, differences = np.full((len(candidates), len(SCORES)), np.nan), []
    for row, candidate in zip(scores, candidates, strict=True):
        report_progress(1, "candidates")
        if scorer is None:
            continue
        is_logging = candidate.step == 0 and candidate.sharpness == 1
        values, difference = scorer.evaluate(candidate.fit.coef)
        row[:] = list((values | {"improvement_bound": 0.0} if is_logging else values).values())
        if has_differences and difference is not None:
            no_difference = np.zeros_like(difference[0])
            differences.append((no_difference, no_difference, True) if is_logging else difference)
    return scores, scorer.pair(differences) if scorer and differences else None


@dataclass(frozen=True)
class _Search:
    """The fits of one algorithm to one log, from the same start."""

    design: LinearPredictor
    algorithm: Algorithm
    objectives: list[Objective]
    start: np.ndarray
    settings: LearnSettings

    @property
    def grid(self) -> np.ndarray:
        """Values of the hyper-parameter; NaN if there is none."""
        return np.array(self.algorithm.grid if self.algorithm.parameter else [np.nan], dtype=float)

    def fit_candidates(self, scorer: HeldoutScores | None, cost_model: Any) -> list[Candidate]:
        """Return the fits along the grid and, if the algorithm is safe, the candidates that are closer to π0."""
        is_safe, ridges = self.algorithm.fit_options.safe, self.algorithm.ridges
        report_progress(0, "fits", len(self.grid) + (len(self._safe_ridges()) if is_safe else 0))
        fits = self._fit_grid(ridges, None if is_safe else scorer)
        candidates = [Candidate(*values) for values in zip(self.grid, fits, ridges, strict=True)]
        if is_safe:
            candidates += self._fit_towards(policy_coef(cost_model.logging_policy, self.design), candidates)
        return candidates

    def _fit_grid(self, ridges: Sequence[float], scorer: Any) -> list[Fit]:
        """Return the fits along the grid, with ridges towards the start.

        With a scorer, hopeless fits end after 200 iterations. Such fits are at the far ends of a grid and would take
        most of the time. A fit is hopeless if every score that needs no cost model promises less than a quarter of the
        best improvement on the logged costs so far.
        """
        # Start at the least robust value, whose risk is close to the mean: its fit is a good one to compare with. With
        # samples, start at the most robust value, because each fit starts where the last one ended. The least robust
        # value gives a near-deterministic policy, at which the objective is flat.
        order = self._order()[:: -1 if self.design.has_samples else 1]
        fits: Any = [None] * len(order)
        scores = np.full((len(order), len(UNMODELLED)), np.nan)

        def is_hopeless(coef: np.ndarray) -> bool:
            gained = scorer.logged - np.fmin.reduce(scores)
            return bool(np.all((gained > 0) & (scorer.unmodelled(coef) > scorer.logged - gained / 4)))

        minimised = minimize_objectives(
            (self.objectives[index] for index in order),
            self.start,
            self.settings.lbfgs,
            ridges=[ridges[index] * _ridge_unit(self.objectives[index]) for index in order],
            give_up=is_hopeless if scorer else None,
        )
        for index, fit in zip(order, minimised, strict=True):
            report_progress(1, "fits")
            fits[index] = fit
            if scorer:
                scores[index] = scorer.unmodelled(fit.coef)
        return fits

    def _fit_towards(self, known: np.ndarray, fitted: list[Candidate]) -> list[Candidate]:
        """Return the other candidates of a safe algorithm, the last of which is π0.

        They are fits with a ridge towards π0, policies part of the way from π0 to each fit, greedy versions of the
        fits, sharpened versions of π0, and π0. ``known`` is Θ of π0. The fits with a ridge use the least robust
        objective. On a large log the objective of a policy that is not a fit is NaN, because it would need all rows
        once more.
        """
        least_robust = self._order()[0]
        objective, value, settings = self.objectives[least_robust], self.grid[least_robust], self.settings
        lbfgs = settings.lbfgs
        tol = max(lbfgs.tol, min(RIDGE_TOLERANCE * lbfgs.tol, MAX_RIDGE_TOLERANCE))
        candidates = []
        for ridge in self._safe_ridges():
            [fit] = minimize_objectives(
                [objective], known, replace(lbfgs, tol=tol), ridges=[ridge * _ridge_unit(objective)]
            )
            report_progress(1, "fits")
            candidates.append(Candidate(value, fit, ridge=ridge))
        for fit_objective, candidate in zip(self.objectives, fitted, strict=True):
            coef = candidate.fit.coef
            for step in settings.steps:
                point = self._evaluate(fit_objective, known + step * (coef - known))
                candidates.append(Candidate(candidate.value, point, step=step))
            if settings.greedy:
                point = self._evaluate(fit_objective, settings.greedy * coef)
                candidates.append(Candidate(candidate.value, point, sharpness=settings.greedy))
        for factor in settings.sharpened:
            point = self._evaluate(objective, factor * known)
            candidates.append(Candidate(np.nan, point, step=0.0, sharpness=factor))
        return [*candidates, Candidate(np.nan, Fit(known, objective(known)[0], 0, True), step=0.0)]

    def _evaluate(self, objective: Objective, coef: np.ndarray) -> Fit:
        """Return Θ as if it were a fit, with its objective unless the log is large."""
        return Fit(coef, np.nan if self.design.is_large else objective(coef)[0], 0, True)

    def _order(self) -> list[int]:
        """Return indices of the grid, starting at the least robust value."""
        grid, is_reversed = self.grid, self.algorithm.robust_end == "low"
        return sorted(range(len(grid)), key=lambda index: grid[index], reverse=is_reversed)

    def _safe_ridges(self) -> Sequence[float]:
        """Return λ of the fits with a ridge towards π0. A large log has none, because it has too little noise."""
        return () if self.design.is_large else self.settings.ridges


def _ridge_unit(objective: Objective) -> float:
    """Return the unit of a ridge, the standard deviation of the objective's costs."""
    return cost_deviation(objective.estimate.cost, objective.design.log.count)


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
