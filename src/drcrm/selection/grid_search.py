"""Learning from a log: fits along an algorithm's grid, and the choice among them by held-out scores."""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from drcrm.cost_models.context_effects import context_effects
from drcrm.cost_models.ridge_model import CostModel, action_effects, tilt_coefficients
from drcrm.cost_models.support import SUPPORT, SupportedModel
from drcrm.data.bandit_log import BanditLog, as_clip
from drcrm.data.chunked_log import Block
from drcrm.data.listeners import report_progress
from drcrm.data.scaling import cost_deviation
from drcrm.errors import InputError
from drcrm.estimates import find_estimate
from drcrm.optimization.behaviour_cloning import clone_behaviour
from drcrm.optimization.lbfgs import MEMORY, Fit, minimize_objectives
from drcrm.optimization.objective import Objective
from drcrm.optimization.starts import policy_coef, start_coef
from drcrm.policies.exponential import LinearPolicy
from drcrm.policies.linear_predictor import LinearPredictor
from drcrm.risks import MeanRisk, VariancePenalizedRisk
from drcrm.selection.algorithms import RIDGES, Algorithm
from drcrm.selection.heldout_scores import HeldoutScores, choose, select_improvement
from drcrm.selection.score_names import SCORES, UNMODELLED

IMPROVEMENT = list(SCORES).index("improvement_bound")
ROUNDING = 1e-9  # of the costs' deviation
STEPS = 0.25, 0.5  # of the way from π0 to a fit
RIDGE_TOLERANCE = 100  # times a fit's: by measurement such candidates are as good, and take half the time
LOOSEST = 1e-4  # of those with a ridge: with more, a gradient over hundreds of actions is within it at π0


@dataclass(frozen=True)
class GridFit:
    """Fits along a grid of k values (one nameless value, NaN, where there is no hyper-parameter).

    ``scores`` has a column for each of the s ``drcrm.selection.heldout_scores.SCORES``, NaN without a held-out part;
    ``chosen`` the
    grid index each of them chooses, −1 where all its values are NaN; ``tilt`` is NaN where the start is not tilted.
    ``ridge`` is λ, in units of the deviation of the costs. Of a safe algorithm, more candidates follow those of the
    grid: with a ridge, fits that began at π0; ``step`` says how far of the way from π0 to a fit a candidate is: 1 for
    fits, 0 for π0 itself. Of those improvement_bound chooses the least that is shown to be better than π0, tested in a
    fixed sequence: see ``select_improvement``.
    """

    grid: np.ndarray  # (k,)
    ridge: np.ndarray  # (k,)
    step: np.ndarray  # (k,)
    coef: np.ndarray  # (k, d, …)
    objective: np.ndarray  # (k,)
    iterations: np.ndarray  # (k,)
    converged: np.ndarray  # (k,)
    scores: np.ndarray  # (k, s)
    chosen: np.ndarray  # (s,)
    tilt: np.ndarray  # (1,)


@dataclass(frozen=True)
class Candidate:
    """What may be chosen: a fit for a value of the grid, with a ridge, or a step of the way to it from π0."""

    value: float
    fit: Fit
    ridge: float = 0.0
    step: float = 1.0


@dataclass(frozen=True)
class Learned:
    """What was learned, and of what: the fits, their objectives, where they started, M, and the cost model if any."""

    fits: GridFit
    objectives: list[Objective]
    start: np.ndarray  # (d, …)
    clip: float | None
    cost_model: SupportedModel | None


@np.errstate(over="ignore", invalid="ignore", divide="ignore")  # what is not finite in the end is said
def learn(
    log: BanditLog,
    algorithm: Algorithm,
    heldout: BanditLog | None = None,
    logging_policy: LinearPolicy | None = None,
    cost_model=None,
    *,
    clip: float | str | None = "auto",
    intercept: bool = False,
    calibrated: bool = False,
    stopping: str = "scaled",
    max_iter: int = 1000,
    tol: float = 1e-6,
    ridges: Sequence[float] = RIDGES,
    pairs: int = MEMORY,
    fewer_rows: float = 1.0,
) -> Learned:
    """Fit an algorithm to a log for each value of its grid, and score the fits on a held-out part.

    A fit that has not converged after 200 iterations is given up if each of the four scores without a cost model then
    promises less than a quarter of what the best so far gains on the logged costs: far ends of a grid, which would
    take most of the time. None is of a safe algorithm, whose candidates the held-out rows only test.

    Parameters
    ----------
    log, heldout : BanditLog
        Both are clipped with the former's M. Rows that do not occur, and contexts without rows, are left out.
    algorithm : Algorithm
    logging_policy : ExponentialPolicy or SoftmaxPolicy, optional
        π0, for the starts "logging" and "model", and for where a cost model is believed; else an imitation takes its
        place there.
    cost_model : optional
        One of the log's costs, for estimates, starts and scores that use one. Where an estimate or a start needs one
        and there is none, it is fitted to the log.
    clip : "auto", float ≥ 1 or None
        M; see ``as_clip``.
    intercept : bool
        Whether the policy has one: it is the last row of Θ.
    calibrated : bool
        Whether the grid of POEM is in units of ``calibrated_penalty``.
    stopping : "scaled" or "public_code"
        When L-BFGS stops: see ``minimize_objectives``. Under "scaled" fits are of costs less the least where the
        estimate does not mind: far from 0 they would lose digits.
    max_iter, tol : int, float
    ridges : sequence of float
        λ of a safe algorithm's fits with a ridge towards π0, in units of the deviation of the costs.
    pairs : int
        Of vectors that L-BFGS keeps.
    fewer_rows : float
        If the log is a sample, how many times fewer rows it has: see ``Risk.for_fewer_rows``.

    Raises
    ------
    InputError
        What does not fit the algorithm or the log.
    """
    log = LinearPredictor(log).log
    clip, options = as_clip(clip, log), {"start": "zero", "support": SUPPORT, "safe": False, "context_effects": "auto"}
    options |= algorithm.options
    unit = cost_deviation(log.cost, log.count)  # here, where the fewest arrays of the rows are in memory
    criteria = algorithm.criteria(calibrated_penalty(log) if calibrated else 1)
    kind, start = find_estimate(criteria[0].estimate), options["start"]
    shift = log.cost.min() if stopping == "scaled" and kind.is_translation_equivariant else 0.0
    support, effects, model = options["support"], None, None
    if cost_model is not None or kind.uses_model or start == "model" or options["safe"]:
        asked = options["context_effects"]
        with_rows = kind.uses_model and (log.actions.effect_space.has_context_effects if asked == "auto" else asked)
        cost_model, effects = _cost_model(log, cost_model, logging_policy, support, shift, intercept, with_rows)
    if start == "model":
        logging_policy, model = cost_model.logging_policy, tilt_coefficients(cost_model.model, intercept)
    design = LinearPredictor(
        log.replace(cost=log.cost - shift), effects if kind.uses_model else None, intercept, trains=True
    )
    origin, tilt = start_coef(start, design, logging_policy, model, options.get("tilt", 1.0))
    risks = [each.risk.for_fewer_rows(fewer_rows) for each in criteria]
    objectives = [replace(each, risk=risk).objective(design, clip) for each, risk in zip(criteria, risks, strict=True)]
    scored = cost_model and cost_model.with_support(support or SUPPORT)
    scorer = None if heldout is None else _scorer(heldout, clip, intercept, scored)
    limits = {"max_iter": max_iter, "tol": tol, "stopping": stopping, "pairs": pairs}
    grid = np.array(algorithm.grid if algorithm.parameter else [np.nan], dtype=float)
    patience = None if options["safe"] else scorer
    report_progress(0, "fits", len(grid) + len(_safe_ridges(design, ridges) if options["safe"] else ()))
    fits = _fit_all(objectives, algorithm.ridges, origin, grid, algorithm.robust_end, patience, limits)
    candidates = [Candidate(value, fit, ridge) for value, fit, ridge in zip(grid, fits, algorithm.ridges, strict=True)]
    if options["safe"]:
        known = policy_coef(cost_model.logging_policy, design)
        candidates += _safer(objectives, candidates, algorithm.robust_end, known, ridges, limits)
    report_progress(0, "candidates", len(candidates))
    scores = np.array([_scores(scorer, each) for each in candidates])
    grid_fit = _grid_fit(candidates, scores, algorithm.robust_end, shift, tilt)
    if options["safe"]:
        grid_fit.chosen[IMPROVEMENT] = len(candidates) - 1
        if scorer:
            noise = _scorer(design.sample.log, clip, intercept, scored).noise
            grid_fit.chosen[IMPROVEMENT] = _safest(grid_fit, noise, unit)
    return Learned(grid_fit, objectives, origin, clip, cost_model)


def _scorer(part: BanditLog, clip: float | None, intercept: bool, model: SupportedModel | None) -> HeldoutScores:
    """The scores of policies on a part of the log."""
    if model is None:
        return HeldoutScores(part, clip, intercept=intercept)
    effects = model.action_effects(part.X, part.actions)
    return HeldoutScores(part, clip, effects, intercept, model.logging_policy, model.is_cloned)


def _safest(fits: GridFit, noise: Callable[[np.ndarray], float], unit: float) -> int:
    """The candidate that improvement_bound chooses: the last one, π0, where none is shown to be better.

    The order of the tests is that of the noise on the rows trained on, which the held-out ones do not know. What has
    none is π0 again, and is not tested: rounding would decide. ``unit`` is the deviation of the costs.
    """
    noises = np.array([noise(coef) for coef in fits.coef[:-1]])
    tested = np.flatnonzero(noises > ROUNDING * unit)
    found = select_improvement(fits.scores[tested, IMPROVEMENT], noises[tested])
    return len(fits.coef) - 1 if found is None else int(tested[found])


def _grid_fit(
    candidates: list[Candidate], scores: np.ndarray, robust_end: str, shift: float, tilt: float | None
) -> GridFit:
    """Candidates as arrays, their objectives moved by ``shift``, and which of them each score chooses."""
    values = np.array([each.value for each in candidates])
    chosen = [choose(column, values, robust_end) for column in scores.T]
    return GridFit(
        grid=values,
        ridge=np.array([each.ridge for each in candidates]),
        step=np.array([each.step for each in candidates]),
        coef=np.stack([each.fit.coef for each in candidates]),
        objective=np.array([each.fit.objective for each in candidates]) + shift,
        iterations=np.array([each.fit.iterations for each in candidates]),
        converged=np.array([each.fit.converged for each in candidates]),
        scores=scores,
        chosen=np.array([-1 if index is None else index for index in chosen]),
        tilt=np.array([np.nan if tilt is None else tilt]),
    )


def _cost_model(
    log: BanditLog,
    given,
    logging_policy: LinearPolicy | None,
    support: float,
    shift: float,
    intercept: bool,
    with_rows: bool,
) -> tuple[SupportedModel, np.ndarray]:
    """The cost model, fitted where none is given, and its effects on costs less ``shift``.

    ``with_rows`` says whether these have what the rows of each context say of it: see ``context_effects``.
    """
    known = logging_policy is not None or (isinstance(given, SupportedModel) and not given.is_cloned)
    if isinstance(given, SupportedModel):
        given, logging_policy = given.model, logging_policy or given.logging_policy
    design, own = LinearPredictor(log.replace(cost=log.cost - shift)), given is None
    shifted, sample = design.log, design.sample.log
    model = CostModel().fit_log(shifted, action_intercepts=intercept) if own else given
    of_shifted = deepcopy(model) if own else model

    if own:
        model.add_constant(shift, log)
    modelled = partial(_shifted_effects, of_shifted, 0.0 if own else shift)
    of_sample, variances = modelled(sample.X, sample.actions), getattr(given, "variances_", None)
    if with_rows and variances is None and design.samples:
        effects = context_effects(sample, of_sample)
        variances = effects.covariance, effects.noise
    limits = [log.actions.support_rule.cost_limits(each.cost, of_sample) for each in (log, shifted)]
    logging_policy = logging_policy or clone_behaviour(log, intercept)
    with_support = SupportedModel(model, logging_policy, support, limits[0], is_cloned=not known)
    of_costs = replace(with_support, limits=limits[1])
    believed = partial(_believed_effects, modelled=modelled, model=of_costs, with_rows=with_rows, variances=variances)
    if design.samples:
        return with_support, design.chunked.map_contexts(_of_block, believed)
    return with_support, believed(shifted)


def _shifted_effects(model, shift: float, X, actions) -> np.ndarray:
    """The effects of a model on costs less ``shift``."""
    effects = action_effects(model, X, actions)
    if shift:
        effects = effects.copy()
        actions.effect_space.add_constant(effects, -shift)
    return effects


def _believed_effects(
    log: BanditLog, modelled: Callable, model: SupportedModel, with_rows: bool, variances
) -> np.ndarray:
    """The effects of a log's contexts, with what their rows say of them, as a model with support is believed."""
    effects = modelled(log.X, log.actions)
    if with_rows:
        effects = effects + context_effects(log, effects, variances).delta
    return model.apply_support(effects, log.X, log.actions)


def _of_block(block: Block, function: Callable[[BanditLog], np.ndarray]) -> np.ndarray:
    return function(block.log)


def _fit_all(
    objectives: list[Objective],
    ridges: Sequence[float],
    start: np.ndarray,
    grid: np.ndarray,
    robust_end: str,
    scorer: HeldoutScores | None,
    limits: Mapping[str, object],
) -> list[Fit]:
    """The fits of objectives along a grid, with ridges towards the start; with a scorer some are given up."""
    # From the least robust value on, which is nearest to the mean: there the first fits are good ones to compare with.
    # Where samples are drawn from the most robust one: each fit begins where the last one ended, and from policies that
    # are nearly certain, as those of the least robust value, no slope leads away.
    order = _order(grid, robust_end)[:: -1 if objectives[0].design.samples else 1]
    fits, scores = [None] * len(grid), np.full((len(grid), len(UNMODELLED)), np.nan)

    def hopeless(coef: np.ndarray) -> bool:
        gained = scorer.logged - np.fmin.reduce(scores)
        return bool(np.all((gained > 0) & (scorer.unmodelled(coef) > scorer.logged - gained / 4)))

    following = minimize_objectives(
        (objectives[index] for index in order),
        start,
        ridges=[ridges[index] * _unit(objectives[index]) for index in order],
        hopeless=hopeless if scorer else None,
        **limits,
    )
    for index, fit in zip(order, following, strict=True):
        report_progress(1, "fits")
        fits[index] = fit
        if scorer:
            scores[index] = scorer.unmodelled(fit.coef)
    return fits


def _unit(objective: Objective) -> float:
    """The unit of a ridge: the deviation of what an objective has for costs."""
    return cost_deviation(objective.estimate.cost, objective.design.log.count)


def _order(grid: np.ndarray, robust_end: str) -> list[int]:
    """Places in a grid, from the least robust value on."""
    return sorted(range(len(grid)), key=lambda index: grid[index], reverse=robust_end == "low")


def _safer(
    objectives: list[Objective],
    fitted: list[Candidate],
    robust_end: str,
    known: np.ndarray,
    ridges: Sequence[float],
    limits: Mapping[str, object],
) -> list[Candidate]:
    """Fits of the least robust objective with a ridge towards π0, steps back to it from all fits, and π0, Θ = known.

    On a large log none have a ridge: they are against noise, of which it has little. The objective of a step there is
    NaN: it would take a pass.
    """
    least = _order(np.array([each.value for each in fitted]), robust_end)[0]
    objective, value = objectives[least], fitted[least].value
    found, limits = [], {**limits, "tol": max(limits["tol"], min(RIDGE_TOLERANCE * limits["tol"], LOOSEST))}
    for ridge in _safe_ridges(objective.design, ridges):
        [fit] = minimize_objectives([objective], known, ridges=[ridge * _unit(objective)], **limits)
        report_progress(1, "fits")
        found.append(Candidate(value, fit, ridge=ridge))
    for own, each in zip(objectives, fitted, strict=True):
        for step in STEPS:
            coef = known + step * (each.fit.coef - known)
            reached = np.nan if own.design.is_large else own(coef)[0]
            found.append(Candidate(each.value, Fit(coef, reached, 0, True), step=step))
    return [*found, Candidate(np.nan, Fit(known, objective(known)[0], 0, True), step=0.0)]


def _safe_ridges(design: LinearPredictor, ridges: Sequence[float]) -> Sequence[float]:
    """Return the ridges towards π0 of a safe algorithm's additional fits; none on a large log."""
    return () if design.is_large else ridges


def _scores(scorer: HeldoutScores | None, candidate: Candidate) -> list[float]:
    """The held-out scores of a candidate; π0 is no improvement on itself, whatever rounding says."""
    report_progress(1, "candidates")
    if scorer is None:
        return [np.nan] * len(SCORES)
    scores = scorer(candidate.fit.coef)
    return list((scores | {"improvement_bound": 0.0} if candidate.step == 0 else scores).values())


def calibrated_penalty(log: BanditLog) -> float:
    """Return λ0 = −c̄ / √(V_n(c)/n), the unit of POEM's grid in the public POEM code; V_n with n − 1.

    Raises InputError where it is not a positive number: costs that are all equal, or positive on average.
    """
    mean, _ = MeanRisk()(log.cost, log.count)
    penalised, _ = VariancePenalizedRisk(1)(log.cost, log.count)
    deviation = penalised - mean
    if deviation <= 0 or mean >= 0:
        raise InputError(
            f"POEM's penalty cannot be calibrated on costs with mean {mean:.6g} and standard error {deviation:.6g}, "
            "expected a negative mean and costs that vary (or variance_penalty_scale: unit)"
        )
    return float(-mean / deviation)
