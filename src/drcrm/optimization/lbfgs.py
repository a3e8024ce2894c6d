"""L-BFGS for the objectives of a log, with results that do not depend on the units of costs and features."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, count, repeat

import numpy as np
import scipy  # loads scipy.optimize, which is slow, at its first use

from drcrm.arrays.numerics import cost_deviation, largest_entries
from drcrm.arrays.validation import check_choice
from drcrm.data.bandit_log import BanditLog
from drcrm.errors import InputError
from drcrm.optimization.objective import Objective

LARGEST_PLAUSIBLE = 1e6  # smaller features, costs and 1/p do not make an objective overflow
STOPPING = ("scaled", "public_code")
MIN_ITERATIONS = 200  # before a fit may be given up
LARGE_TOLERANCE = 2e-4  # of the decrease on a large log; smaller tolerances gave no better policies
SAMPLE_PAIRS = 200  # pairs of vectors on a sample; fits to samples rarely have more iterations
MAX_MATRIX_SIZE = 2000  # with more coefficients, the curvature is not kept as a matrix
PAIRS = 10  # pairs of vectors; 50 pairs reached nearly the same objectives at up to six times the cost

GiveUp = Callable[[np.ndarray], bool]


@dataclass(frozen=True)
class LbfgsSettings:
    """Settings of L-BFGS.

    Parameters
    ----------
    max_iter : int
        Largest number of iterations.
    tol : float
        L-BFGS stops when the decrease of the objective, relative or absolute, or the largest entry of the gradient is
        at most ``tol``. On a large log the tolerance of the decrease is at least 2 · 10⁻⁴.
    stopping : "scaled" or "public_code"
        Units of the tolerances: "scaled" divides the objective by the standard deviation of the costs and multiplies
        coefficients by the scale of their feature; "public_code" uses neither, like the public POEM code.
    pairs : int
        Number of pairs of vectors that approximate the curvature.
    """

    max_iter: int = 1000
    tol: float = 1e-6
    stopping: str = "scaled"
    pairs: int = PAIRS


@dataclass(frozen=True)
class Fit:
    """Result of an optimisation.

    Attributes
    ----------
    coef : array (d, …)
        Θ.
    objective : float
    iterations : int
    converged : bool
    """

    coef: np.ndarray
    objective: float
    iterations: int
    converged: bool


def minimize_objectives(
    objectives: Iterable[Objective],
    start: np.ndarray,
    settings: LbfgsSettings | None = None,
    ridges: Iterable[float] = repeat(0.0),
    give_up: GiveUp | None = None,
    begins: Iterable[np.ndarray | None] = repeat(None),
) -> Iterator[Fit]:
    """Minimise objectives of one log by L-BFGS-B, one after the other.

    Coefficients of a feature that is 0 in all contexts are not changed. If the log is so large that it has samples
    (``PreparedLog.samples``), its first objective is minimised on larger and larger samples, then on all rows. Each
    minimisation starts at the previous solution, unless ``start`` is better.

    Parameters
    ----------
    objectives : iterable of Objective
    start : array (d, …)
        Start of the fits, Θ.
    settings : LbfgsSettings, optional
    ridges : iterable of float
        λ of each objective: (λ/2) ‖Θ − start‖² is added, with Θ in units of the features.
    give_up : callable, optional
        Called with Θ after 200 iterations. If it returns True, the fit ends and does not count as converged.
    begins : iterable of array (d, …) or None, optional
        Where each minimisation begins, for example at the fit to fewer rows, unless ``start`` is better.
    """
    settings = settings or LbfgsSettings()
    problems = (
        _Problem.of(objective, start, ridge, settings.stopping)
        for objective, ridge in zip(objectives, ridges, strict=False)
    )
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        previous, level = None, None
        for problem, begin in zip(problems, begins, strict=False):
            known = None if begin is None else _Stage(problem.to_x(begin))
            if problem.objective.prepared.has_samples:
                fit, previous, level = _minimize_in_stages(problem, settings, give_up, previous or known, level)
            else:
                fit = _minimize_once(problem, settings, give_up, known)
            yield fit


@dataclass(frozen=True)
class _Problem:
    """An objective of the coefficients x that L-BFGS varies: Θ times the feature scales, without absent features."""

    objective: Objective
    ridge: float
    feature_scales: np.ndarray  # (d, 1) or (D,)
    cost_unit: float
    is_centred: bool  # whether the objective is relative to its value at the start
    is_varied: np.ndarray  # (d,), rows of Θ
    start: np.ndarray  # (d, …)

    @classmethod
    def of(cls, objective: Objective, start: np.ndarray, ridge: float, stopping: str) -> _Problem:
        is_present = objective.prepared.is_present
        is_varied = np.append(is_present, True) if objective.prepared.intercept else is_present
        objective = objective.of_present_features()
        prepared = objective.prepared
        if check_choice(STOPPING, stopping, "stopping") == "public_code":
            return cls(objective, ridge, np.ones_like(prepared.scales), 1.0, False, is_varied, start)
        unit = cost_deviation(objective.estimate.cost, prepared.log.count)
        return cls(objective, ridge, prepared.scales, unit, True, is_varied, start)

    @property
    def origin(self) -> np.ndarray:
        """x at the start."""
        return self.to_x(self.start)

    def to_x(self, coef: np.ndarray) -> np.ndarray:
        """Return x at Θ, (d, …)."""
        return np.ravel(coef[self.is_varied] * self.feature_scales)

    def to_coef(self, x: np.ndarray) -> np.ndarray:
        """Return Θ, (d, …)."""
        coef = self.start.copy()
        coef[self.is_varied] = x.reshape(-1, *self.start.shape[1:]) / self.feature_scales
        return coef

    def make_fit(self, end: scipy.optimize.OptimizeResult, value: float) -> Fit:
        """Return the fit; raise InputError unless it is finite."""
        _require_finite(self.objective.prepared.log, end.fun, end.x, f"after {end.nit} iterations")
        return Fit(self.to_coef(end.x), value, int(end.nit), bool(end.success))

    def make_callback(self, give_up: GiveUp | None) -> Callable[[np.ndarray], None] | None:
        """Return what L-BFGS calls after each iteration, to end a fit that may be given up."""
        iterations = count(1)

        def stop_if_hopeless(x: np.ndarray) -> None:
            if give_up and next(iterations) == MIN_ITERATIONS and give_up(self.to_coef(x)):
                raise StopIteration

        return stop_if_hopeless if give_up else None


class _ScaledFunction:
    """x ↦ ((R + ridge − level)/unit, gradient). Each evaluation gives a guess to the inner searches of the next.

    ``objective`` is the objective of the problem, or the same objective on a sample. ``level`` is by default the value
    at the origin.
    """

    def __init__(self, problem: _Problem, objective: Objective | None = None, level: float | None = None):
        self._objective, self._origin = objective or problem.objective, problem.origin
        self._ridge, self._unit = problem.ridge, problem.cost_unit
        self._scales = np.broadcast_to(problem.feature_scales, self._objective.prepared.shape).ravel()
        self._gradient_scales = self._scales * self._unit
        self._guess, self.level = None, 0.0
        if problem.is_centred:
            self.level = self(self._origin)[0] * self._unit if level is None else level

    def __call__(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        unit, ridge = self._unit, self._ridge
        value, gradient, self._guess = self._objective.evaluate(x / self._scales, self._guess)
        value, gradient = (self._defined(value, gradient) - self.level) / unit, gradient / self._gradient_scales
        if ridge:
            moved = x - self._origin
            value, gradient = value + ridge / unit / 2 * float(moved @ moved), gradient + ridge / unit * moved
        return value, gradient

    def unscaled_value(self, x: np.ndarray) -> float:
        """Return the objective with its ridge, evaluated once more without a guess."""
        moved = x - self._origin
        return self._defined(*self._objective(x / self._scales)) + self._ridge / 2 * float(moved @ moved)

    def _defined(self, value: float, gradient: np.ndarray) -> float:
        """Return the value, or the largest cost if the estimate is undefined because no row has a weight."""
        is_undefined = np.isnan(value) and not gradient.any()
        return float(self._objective.estimate.cost.max() if is_undefined else value)


def _minimize_once(
    problem: _Problem, settings: LbfgsSettings, give_up: GiveUp | None, known: _Stage | None = None
) -> Fit:
    """Minimise an objective from its start, or from a known stage if that is better."""
    function, origin = _ScaledFunction(problem), problem.origin
    _require_finite(problem.objective.prepared.log, *function(origin), "where the fit starts")
    origin = _choose_begin(function, known, origin).x
    options = _scipy_options(settings, problem.objective, settings.pairs)
    callback = problem.make_callback(give_up)
    end = scipy.optimize.minimize(function, origin, jac=True, method="L-BFGS-B", options=options, callback=callback)
    return problem.make_fit(end, function.unscaled_value(end.x))


@dataclass(frozen=True)
class _Stage:
    """End of a minimisation.

    Attributes
    ----------
    x : array (p,)
    root : array (p, p), optional
        R with R Rᵀ the inverse curvature at x.
    evaluation : tuple, optional
        Value and gradient of the next function at x.
    """

    x: np.ndarray
    root: np.ndarray | None = None
    evaluation: tuple[float, np.ndarray] | None = None


def _minimize_in_stages(
    problem: _Problem, settings: LbfgsSettings, give_up: GiveUp | None, previous: _Stage | None, level: float | None
) -> tuple[Fit, _Stage | None, float | None]:
    """Minimise on samples of the log if there is no previous solution, and then on all rows.

    Return the fit, its stage and the level. All stages and objectives have the same level.
    """
    samples, iterations = problem.objective.samples() if previous is None else (), 0
    callback = problem.make_callback(give_up)
    for objective in chain(samples, [problem.objective]):
        function = _ScaledFunction(problem, objective, level)
        begin, level = _choose_begin(function, previous, problem.origin), function.level
        pairs = SAMPLE_PAIRS if len(begin.x) <= MAX_MATRIX_SIZE else PAIRS
        end = _minimize_turned(function, begin, _scipy_options(settings, problem.objective, pairs), callback)
        previous, iterations = _Stage(end.x, _curvature_root(end.hess_inv, end.get("root"))), iterations + end.nit
    end.nit = iterations
    return problem.make_fit(end, float(end.fun * problem.cost_unit + level)), previous, level


def _scipy_options(settings: LbfgsSettings, objective: Objective, pairs: int) -> dict[str, float]:
    ftol = max(settings.tol, LARGE_TOLERANCE) if objective.prepared.is_large else settings.tol
    iterations = settings.max_iter
    return {"maxiter": iterations, "maxfun": 20 * iterations, "ftol": ftol, "gtol": settings.tol, "maxcor": pairs}


def _choose_begin(function: _ScaledFunction, previous: _Stage | None, origin: np.ndarray) -> _Stage:
    """Return where a minimisation begins: the previous end, unless the problem's start is better."""
    if previous is None:
        return _Stage(origin)
    at_origin, at_previous = function(origin), function(previous.x)
    return _Stage(origin) if at_origin[0] < at_previous[0] else replace(previous, evaluation=at_previous)


def _minimize_turned(
    function: _ScaledFunction, begin: _Stage, options: dict[str, float], callback: Callable | None
) -> scipy.optimize.OptimizeResult:
    """Minimise over z with x = begin + R z, so that the curvature known so far is 1 in every direction of z.

    The first step of L-BFGS has length 1, and Newton's step has the length of the gradient. R is scaled so that the
    first step has the larger of the two lengths, because L-BFGS would stop after a short step in a flat region.
    """
    if begin.root is None:
        return scipy.optimize.minimize(
            function, begin.x, jac=True, method="L-BFGS-B", options=options, callback=callback
        )
    value, gradient = begin.evaluation or function(begin.x)
    root = begin.root * max(np.linalg.norm(gradient @ begin.root), 1.0)

    def to_x(z: np.ndarray) -> np.ndarray:
        return begin.x + root @ z

    def turned(z: np.ndarray) -> tuple[float, np.ndarray]:
        value_at, gradient_at = function(to_x(z)) if z.any() else (value, gradient)
        return value_at, gradient_at @ root

    turned_callback = callback and (lambda z: callback(to_x(z)))
    origin = np.zeros(len(begin.x))
    end = scipy.optimize.minimize(
        turned, origin, jac=True, method="L-BFGS-B", options=options, callback=turned_callback
    )
    end.x, end.root = to_x(end.x), root
    return end


def _curvature_root(inverse: scipy.optimize.LbfgsInvHessProduct, coordinates: np.ndarray | None) -> np.ndarray | None:
    """Return R with R Rᵀ = the inverse Hessian, from the BFGS updates of an optimisation in these coordinates.

    ``coordinates`` is the R of that optimisation. It is returned unchanged if there was no update, or if there are too
    many coefficients for a matrix. Source: Nocedal & Wright 2006, chapter 6.
    """
    steps, changes, p = inverse.sk, inverse.yk, inverse.shape[0]
    if not len(steps) or p > MAX_MATRIX_SIZE:
        return coordinates
    unit = 1.0 if coordinates is not None else (steps[-1] @ changes[-1]) / (changes[-1] @ changes[-1])
    matrix = unit * np.eye(p)
    for step, change in zip(steps, changes, strict=True):
        product, along = matrix @ change, step @ change
        matrix += np.outer(step, step) * ((along + change @ product) / along**2)
        matrix -= (np.outer(product, step) + np.outer(step, product)) / along
    try:
        root = np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return coordinates
    return root if coordinates is None else coordinates @ root


def _require_finite(log: BanditLog, value: float, array: np.ndarray, where: str) -> None:
    """Raise InputError unless the objective, and its gradient or the coefficients, are finite."""
    if not (np.isfinite(value) and np.isfinite(array).all()):
        raise InputError(f"the risk is not finite {where}: {describe_extreme_values(log)}")


def describe_extreme_values(log: BanditLog) -> str:
    """Describe the most extreme of a log's features, costs and propensities, and how to fix it."""
    feature, cost, propensity = largest_entries(log.X).max(), abs(log.cost).max(), log.propensity.min()
    with np.errstate(over="ignore"):
        sizes = {
            f"features reach {feature:.3g}; scale the features": feature,
            f"costs reach {cost:.3g}; give them in another unit": cost,
            f"the smallest propensity is {propensity:.3g}; clip the weights": 1 / propensity,
        }
    message, size = max(sizes.items(), key=lambda item: item[1])
    return message if size > LARGEST_PLAUSIBLE else "the hyper-parameters or the start of the fit are too extreme"
