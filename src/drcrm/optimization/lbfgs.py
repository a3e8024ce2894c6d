"""L-BFGS on the objectives of a log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from inspect import signature
from itertools import chain, count, repeat

import numpy as np
from scipy.optimize import LbfgsInvHessProduct, OptimizeResult, minimize

from drcrm.arrays.validation import check_choice
from drcrm.data.bandit_log import BanditLog
from drcrm.data.scaling import cost_deviation, describe_extreme_values, largest_entries
from drcrm.errors import InputError
from drcrm.optimization.objective import Objective
from drcrm.risks import KLBall
from drcrm.weights import Likelihood

PATIENCE = 200  # iterations after which a fit may be given up
STOPPING = ("scaled", "public_code")
ENOUGH = 2e-4  # tolerance of a large log: by measurement policies are as good as with less
PAIRS = 200  # of vectors, on a sample: all that most optimisations there have
MOST_TURNED = 2000  # coefficients whose curvature is kept as a matrix
MEMORY = 10  # pairs of vectors; 50 reach much the same objectives, and cost up to six times as much


@dataclass(frozen=True)
class Fit:
    """What an optimisation found: Θ (d, …), its objective, the iterations it took, and whether it converged."""

    coef: np.ndarray
    objective: float
    iterations: int
    converged: bool


@dataclass(frozen=True)
class Units:
    """What L-BFGS sees in place of an objective R of Θ: (R − R(start))/``cost`` of Θ · ``features``.

    So what it tolerates, and its first step, do not depend on the units of costs and features, nor, where R moves with
    the costs, on where their zero is.
    """

    features: np.ndarray  # (d, 1), or (D,)
    cost: float
    centred: bool = True

    @classmethod
    def of(cls, objective: Objective, stopping: str) -> Units:
        """Those of a log: the scale of each feature, and the deviation of the costs; or all 1."""
        if check_choice(STOPPING, stopping, "stopping") == "public_code":
            return cls(np.ones_like(objective.design.scales), 1.0, centred=False)
        return cls(objective.design.scales, cost_deviation(objective.estimate.cost, objective.design.log.count))


def minimize_objectives(
    objectives: Iterable[Objective],
    start: np.ndarray,
    max_iter: int = 1000,
    tol: float = 1e-6,
    ridges: Iterable[float] = repeat(0.0),
    hopeless: Callable[[np.ndarray], bool] | None = None,
    stopping: str = "scaled",
    pairs: int = MEMORY,
) -> Iterator[Fit]:
    """Minimise objectives of one log by L-BFGS-B from Θ = ``start``, (d, …), one after the other.

    Stops when the decrease of the objective, relative to what it has come to or absolute, or the largest gradient entry
    is at most ``tol``, or after ``max_iter`` iterations, or where ``hopeless``, asked of Θ after 200 iterations, says
    so; the latter two are said in the result. ``stopping`` says in which ``Units``: "scaled", those of the log, or as
    the "public_code" of POEM, none. L-BFGS keeps ``pairs`` of vectors. A feature that no context has gets no gradient:
    its coefficients stay, and are not carried along. With λ, an objective's own of ``ridges``, (λ/2) ‖Θ − start‖² is
    added, Θ in these units.

    On a large log ``tol`` is at least 2 · 10⁻⁴ for the decrease. If samples are drawn (``LinearPredictor.samples``),
    L-BFGS begins with some contexts, goes on with more, and begins the next objective where the last one ended, or at
    the start where that is better.
    """
    options = {"maxiter": max_iter, "maxfun": 20 * max_iter, "ftol": tol, "gtol": tol, "maxcor": pairs}
    problems = (
        Problem.of(objective, start, ridge, stopping) for objective, ridge in zip(objectives, ridges, strict=False)
    )
    first = next(problems)
    design = first.objective.design
    if design.is_large:
        options["ftol"] = max(tol, ENOUGH)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        ways = _by_stages if design.samples else _at_once
        yield from ways(chain([first], problems), options, hopeless)


@dataclass(frozen=True)
class Problem:
    """An objective of which L-BFGS sees x, Θ in units, of the features that occur, and how far it is from the start."""

    objective: Objective
    ridge: float
    units: Units
    rows: np.ndarray  # of Θ
    start: np.ndarray  # (d, …)

    @classmethod
    def of(cls, objective: Objective, start: np.ndarray, ridge: float, stopping: str) -> Problem:
        seen = _seen_features(objective.design.log)
        rows = np.append(seen, True) if objective.design.intercept else seen
        narrow = objective if seen.all() else objective.with_features(np.flatnonzero(seen))
        return cls(narrow, ridge, Units.of(narrow, stopping), rows, start)

    @property
    def origin(self) -> np.ndarray:
        """x of the start."""
        return (self.start[self.rows] * self.units.features).ravel()

    def widened(self, x: np.ndarray) -> np.ndarray:
        """Return Θ, (d, …)."""
        coef = self.start.copy()
        coef[self.rows] = x.reshape(-1, *self.start.shape[1:]) / self.units.features
        return coef

    def followed(self, level: float | None = None, objective: Objective | None = None) -> Followed:
        """Return the function of x; of the same objective on a sample, if it is given."""
        return Followed(objective or self.objective, self.origin, self.ridge, self.units, level)

    def fit(self, end: OptimizeResult, value: float) -> Fit:
        """Return what was found."""
        _require_finite(self.objective.design.log, end.fun, end.x, f"after {end.nit} iterations")
        return Fit(self.widened(end.x), value, int(end.nit), bool(end.success))


def _at_once(problems: Iterable[Problem], options: dict, hopeless: Callable | None) -> Iterator[Fit]:
    """Minimise each from the start."""
    for problem in problems:
        evaluate, origin = problem.followed(), problem.origin
        _require_finite(problem.objective.design.log, *evaluate(origin), "where the fit starts")
        callback = _giving_up(hopeless, problem.widened)
        end = minimize(evaluate, origin, jac=True, method="L-BFGS-B", options=options, callback=callback)
        yield problem.fit(end, evaluate.value_at(end.x))


@dataclass(frozen=True)
class Ended:
    """Where a minimisation ended, x, and R of the curvature there; and what the next function is there, if known."""

    x: np.ndarray
    root: np.ndarray | None = None
    known: tuple[float, np.ndarray] | None = None


def _by_stages(problems: Iterable[Problem], options: dict, hopeless: Callable | None) -> Iterator[Fit]:
    """Minimise the first on each sample of the log and then on all of it, and the others on all, each from the last.

    They go in coordinates z, x = where they begin + R z, in which the curvature that was found so far is 1.
    """
    last, level = None, None  # what is taken off values is the same for all
    for problem in problems:
        samples, iterations = problem.objective.samples() if last is None else (), 0
        callback = _giving_up(hopeless, problem.widened)
        for objective in [*samples, problem.objective]:
            evaluate = problem.followed(level, objective)
            last, level = _better(evaluate, last, problem.origin), evaluate.level
            pairs = PAIRS if len(last.x) <= MOST_TURNED else MEMORY
            end = _turned(evaluate, last, {**options, "maxcor": pairs}, callback)
            last, iterations = Ended(end.x, _root(end.hess_inv, end.get("root"))), iterations + end.nit
        end.nit = iterations
        yield problem.fit(end, evaluate.value_of(end))


def _better(evaluate: Followed, last: Ended | None, origin: np.ndarray) -> Ended:
    """Where a minimisation begins: where the last one ended, unless its start is better."""
    if last is None:
        return Ended(origin)
    at_start, at_last = evaluate(origin), evaluate(last.x)
    return Ended(origin) if at_start[0] < at_last[0] else replace(last, known=at_last)


def _turned(evaluate: Followed, begins: Ended, options: dict, callback: Callable | None) -> OptimizeResult:
    """The end of a minimisation over z, x = begins + R z: L-BFGS's first step has length 1 there, one of Newton's ‖∇‖.

    R is so long that it is the longer of the two: from flat places short steps would be the last.
    """
    minimized = partial(minimize, jac=True, method="L-BFGS-B", options=options)
    if begins.root is None:
        return minimized(evaluate, begins.x, callback=callback)
    value, gradient = begins.known or evaluate(begins.x)
    root = begins.root * max(np.linalg.norm(gradient @ begins.root), 1.0)

    def x_of(z: np.ndarray) -> np.ndarray:
        return begins.x + root @ z

    def of_z(z: np.ndarray) -> tuple[float, np.ndarray]:
        found, slope = evaluate(x_of(z)) if z.any() else (value, gradient)
        return found, slope @ root

    heard = callback and (lambda z: callback(x_of(z)))
    end = minimized(of_z, np.zeros(len(begins.x)), callback=heard)
    end.x, end.root = x_of(end.x), root
    return end


def _root(inverse: LbfgsInvHessProduct, last: np.ndarray | None) -> np.ndarray | None:
    """R, R Rᵀ the inverse Hessian by the pairs of an optimisation, whose coordinates were ``last``'s; None without one.

    Source: the update of Broyden, Fletcher, Goldfarb and Shanno.
    """
    steps, slopes, p = inverse.sk, inverse.yk, inverse.shape[0]
    if not len(steps) or p > MOST_TURNED:
        return last
    unit = 1.0 if last is not None else (steps[-1] @ slopes[-1]) / (slopes[-1] @ slopes[-1])
    found = unit * np.eye(p)
    for step, slope in zip(steps, slopes, strict=True):
        product, along = found @ slope, step @ slope
        found += np.outer(step, step) * ((along + slope @ product) / along**2)
        found -= (np.outer(product, step) + np.outer(step, product)) / along
    try:
        root = np.linalg.cholesky(found)
    except np.linalg.LinAlgError:
        return last
    return root if last is None else last @ root


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def explain_flat_start(objective: Objective, start: np.ndarray) -> str:
    """Say why L-BFGS has not moved from where it started, (d, …)."""
    log, risk, cost = objective.design.log, objective.risk, objective.estimate.cost
    largest = cost.max()
    value, gradient = objective(start)
    if gradient.any():
        return "its gradient there is within tol of 0"
    if isinstance(objective.weight, Likelihood) and not cost.any():
        return "e^(−βc) is 0 for each cost c; subtract a constant from all costs"
    if cost.min() == largest:
        return "all costs are equal"
    if objective.estimate.uses_model:
        return "its gradient there is 0"
    weight, slope = objective.weight(objective.design.forward(start)[0], log.log_propensity)
    if not slope.any():
        return "no row's weight changes there: all are clipped, or vanish"
    _, worst = risk(weight * (cost - value * objective.estimate.is_translation_equivariant), log.count)
    if worst[cost < largest].any():
        return "its gradient there is 0"
    share = log.count @ (cost == largest) / log.size
    parameter = "radius" if getattr(risk, "radius", None) is not None else next(iter(signature(type(risk)).parameters))
    least = f", less than {-np.log(share):.3g}" if isinstance(risk, KLBall) else ""
    return (
        f"the worst case of {risk!r} is the rows of the largest cost alone, {100 * share:.3g} % of all, and no policy "
        f"changes that; take a {'smaller' if risk.robust_end == 'high' else 'larger'} {parameter}{least}"
    )


class Followed:
    """An objective as L-BFGS calls it, in its units: searches inside begin where the last ones ended."""

    def __init__(
        self, objective: Objective, origin: np.ndarray, ridge: float, units: Units, level: float | None = None
    ):
        self._objective, self._origin, self._ridge, self._units = objective, origin, ridge, units
        self._scales = np.broadcast_to(units.features, objective.design.shape).ravel()
        self._slopes = self._scales * units.cost
        self._guess, self.level = None, 0.0
        if units.centred:
            self.level = self(origin)[0] * units.cost if level is None else level

    def __call__(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        cost, ridge = self._units.cost, self._ridge
        value, gradient, self._guess = self._objective.evaluate(x / self._scales, self._guess)
        value, gradient = (_defined(self._objective, value, gradient) - self.level) / cost, gradient / self._slopes
        if ridge:
            moved = x - self._origin
            value, gradient = value + ridge / cost / 2 * float(moved @ moved), gradient + ridge / cost * moved
        return value, gradient

    def value_at(self, x: np.ndarray) -> float:
        """Return the objective, with its ridge, evaluated once more without a guess."""
        moved = x - self._origin
        value, gradient = self._objective(x / self._scales)
        return _defined(self._objective, value, gradient) + self._ridge / 2 * float(moved @ moved)

    def value_of(self, end: OptimizeResult) -> float:
        """Return the objective, with its ridge, as it was where a minimisation ended."""
        return float(end.fun * self._units.cost + self.level)


def _defined(objective: Objective, value: float, gradient: np.ndarray) -> float:
    """A value; the largest cost where it is undefined for want of weights."""
    return float(objective.estimate.cost.max() if np.isnan(value) and not gradient.any() else value)


def _require_finite(log: BanditLog, value: float, array: np.ndarray, where: str) -> None:
    """Raise InputError unless the objective, and its gradient or the coefficients, are finite."""
    if not (np.isfinite(value) and np.isfinite(array).all()):
        raise InputError(f"the risk is not finite {where}: {describe_extreme_values(log)}")


def _giving_up(hopeless: Callable[[np.ndarray], bool] | None, widened: Callable) -> Callable[[np.ndarray], None] | None:
    """What L-BFGS calls after each iteration: it stops where, after ``PATIENCE`` of them, Θ is hopeless."""
    iterations = count(1)

    def stop_if_hopeless(x: np.ndarray) -> None:
        if next(iterations) == PATIENCE and hopeless(widened(x)):
            raise StopIteration

    return stop_if_hopeless if hopeless else None


def _seen_features(log: BanditLog) -> np.ndarray:
    """Which features any context has, a mask (d,); all, where none has any."""
    seen = largest_entries(log.X, log.feature_range) > 0
    return seen if seen.any() else np.ones_like(seen)
