"""The recommended estimator: a KL ball on doubly robust costs, with a test of every candidate on held-out rows."""

import math
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar

import numpy as np

from drcrm.arrays.validation import check_bool, check_open_fraction
from drcrm.data.bandit_log import BanditLog
from drcrm.errors import InputError, warn
from drcrm.estimators.dro import KLDRO
from drcrm.policies.feature_maps import FeatureMap
from drcrm.selection.algorithms import Algorithm
from drcrm.selection.candidates import IMPROVEMENT
from drcrm.selection.grid_search import Learned

LEAST_CONTEXTS, LEAST_ROWS = 10, 30  # to hold out; with fewer, more than 5 % of logs of pure noise led to a claim


def as_generator(random_state: Any, name: str) -> np.random.Generator:
    """Return the generator of a seed; InputError for an invalid seed."""
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError, OverflowError):
        expected = "a whole number ≥ 0, a numpy Generator or None"
        raise InputError(f"{name} is {random_state!r}, expected {expected}") from None


@dataclass(eq=False, repr=False)
class DoublyRobustDRO(KLDRO):
    """KL-DRO on doubly robust costs, starting at the logging policy tilted by the cost model. The recommended choice.

    ``DoublyRobustDRO().fit(X, Y, propensity=p, cost=c, logging_policy=π0)``; without ``logging_policy`` it uses a
    policy cloned from the log. X should have a constant feature, and features of similar scale.

    By default it is safe: it holds out a share of the contexts, and compares candidates with the logging policy on
    these contexts. The candidates are:

    - the fit to the other rows;
    - fits with a ridge towards the logging policy, unless the log has 2¹⁶ contexts or more;
    - steps part of the way from the logging policy to the fit;
    - the logging policy itself.

    The score "improvement_bound" is an upper bound on a candidate's cost minus the logging policy's. Tests in a fixed
    sequence (:func:`drcrm.selection.heldout_scores.select_improvement`) find the candidates that are significantly
    better, and the candidate with the least bound is kept. If no candidate is better, the logging policy is kept, with
    a warning. The kept candidate is not fitted again to all rows: the tested policy is returned.

    The tests are asymptotic in the number of held-out rows, and conditional on the logged contexts. The argument
    ``cost_model`` must have been fitted to other rows. If few held-out rows have a weight, the tests rely on the cost
    model. Without ``logging_policy``, candidates are compared with the logged costs, and missing actions are charged
    the largest cost. If no candidate is better, the cloned policy is kept.

    Do not rely on the result if overlap is poor: check the effective sample size of the learned policy on held-out
    rows. The cost model is additive over labels, or linear in x for each action. If such a model fits badly, the
    estimator gains little. Then compare it with ``KLDRO(estimate="ips")`` by a held-out score.

    Parameters
    ----------
    safe : bool
        Whether to hold out contexts and choose on them. False returns the fit to all rows, even if it is worse than the
        logging policy.
    validation_fraction : float in (0, 1)
        Share of the contexts that are held out with all of their rows, rounded up. If this gives fewer than 10 contexts
        or 30 rows, nothing is held out and the logging policy is kept, because no test could show an improvement.
    random_state : int, Generator or None
        Seed of the split. With the default, all fits to one log have the same split. None draws a new split for each
        fit.

    Attributes
    ----------
    improvement_bound_ : float or None
        Upper bound on the kept policy's cost minus the logging policy's; 0 if the logging policy is kept, None without
        ``safe``. The claim that the kept policy is better is false with probability at most 0.05. The bound itself is
        optimistic, because it is the smallest of several bounds at level 0.95: compute a certificate with
        ``choices=n_candidates_``.
    step_ : float
        Position of the kept policy between the logging policy (0) and a fit (1). If it is below 1, ``n_iter_`` and
        ``converged_`` belong to the fit without a ridge.
    ridge_ : float
        Ridge of the kept fit, in units of the standard deviation of the costs, or 0. ``objective_`` includes the ridge
        penalty.
    n_candidates_ : int
        Number of candidates including the logging policy; 1 if nothing was held out. Pass it as ``choices`` to a
        certificate on the held-out rows.
    heldout_ : integer array
        Indices of the held-out rows. To get their ``BanditLog``, set ``count`` to 0 in all other rows.
    """

    _: KW_ONLY
    estimate: str = "dr"
    start: str = "model"
    tilt: float | str = "auto"
    safe: bool = True
    validation_fraction: float = 0.25
    random_state: object = 0

    _CHECKS: ClassVar = {
        **KLDRO._CHECKS,
        "safe": check_bool,
        "validation_fraction": check_open_fraction,
        "random_state": as_generator,
    }

    def _algorithm(self) -> Algorithm:
        algorithm = super()._algorithm()
        return replace(algorithm, options={**algorithm.options, "safe": bool(self.safe)})

    def _select_heldout(self, log: BanditLog) -> np.ndarray:
        is_heldout = np.zeros(log.n_contexts, dtype=bool)
        if self.safe:
            contexts = np.flatnonzero(np.bincount(log.context, log.count))
            shuffled = as_generator(self.random_state, "random_state").permutation(contexts)
            n = min(math.ceil(self.validation_fraction * len(shuffled) - 1e-9), len(shuffled) - 1)
            is_heldout[shuffled[:n]] = True
        rows = is_heldout[log.context]
        return rows & (is_heldout.sum() >= LEAST_CONTEXTS) & (log.count[rows].sum() >= LEAST_ROWS)

    def _choose(self, learned: Learned) -> int:
        """Return the index of the candidate that is shown to be better, or else of the logging policy."""
        return int(learned.fits.chosen[IMPROVEMENT]) if self.safe else 0

    def _set_fitted(
        self, log: BanditLog, learned: Learned, features: FeatureMap | None, is_heldout: np.ndarray
    ) -> None:
        super()._set_fitted(log, learned, features, is_heldout)
        fits, chosen = learned.fits, self._choose(learned)
        self.step_, self.ridge_ = float(fits.step[chosen]), float(fits.ridge[chosen])
        self.n_candidates_, self.heldout_ = len(fits.step) if is_heldout.any() else 1, np.flatnonzero(is_heldout)
        self.improvement_bound_ = None
        if self.safe:
            self.improvement_bound_ = float(fits.scores[chosen, IMPROVEMENT]) if self.step_ else 0.0

    def _warn_of_result(self, log: BanditLog, heldout: BanditLog | None, learned: Learned) -> None:
        super()._warn_of_result(log, heldout, learned)
        if self.safe and not self.step_:
            rows = f"fewer than {LEAST_CONTEXTS} contexts or {LEAST_ROWS}" if heldout is None else heldout.size
            warn(
                f"{type(self).__name__} keeps π0: no candidate is shown to be better on {rows} held-out rows; log more "
                "rows, or set safe=False to keep the fit"
            )
