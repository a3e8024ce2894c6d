"""The recommended estimator: doubly robust costs, a KL ball, and a test of every candidate on held-out rows."""

import math
from dataclasses import KW_ONLY, dataclass, replace
from typing import ClassVar

import numpy as np

from drcrm.arrays.validation import check_bool, check_open_fraction
from drcrm.data.bandit_log import BanditLog
from drcrm.errors import InputError, warn
from drcrm.estimators.dro import KLDRO
from drcrm.policies.feature_maps import FeatureMap
from drcrm.selection.algorithms import Algorithm
from drcrm.selection.grid_search import IMPROVEMENT, Learned

LEAST_CONTEXTS, LEAST_ROWS = 10, 30  # held out: with fewer, noise passed for an improvement more often than 0.05


def as_generator(random_state, name: str) -> np.random.Generator:
    """Return the generator of a seed; InputError for what is none."""
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError, OverflowError):
        expected = "a whole number ≥ 0, a numpy Generator or None"
        raise InputError(f"{name} is {random_state!r}, expected {expected}") from None


@dataclass(eq=False, repr=False)
class DoublyRobustDRO(KLDRO):
    """The recommended start for a log of one's own: KLDRO on doubly robust costs, from π0 tilted by the cost model.

    ``DoublyRobustDRO().fit(X, Y, propensity=p, cost=c, logging_policy=π0)``; without ``logging_policy`` an imitation of
    the log is tilted. X should have a constant feature, and features of like scale.

    It is safe by default: a share of the contexts is held out. The candidates are the fit to the rest, fits with a
    ridge towards π0 unless the log has 2¹⁶ contexts or more, steps of a part of the way from π0 to the fit, and π0
    itself, the given one or an imitation of the log. That one is kept whose cost less that of π0 has the least upper
    bound by the rows held out, the score "improvement_bound", of those that are shown to be better, tested in a fixed
    sequence: see :func:`drcrm.selection.heldout_scores.select_improvement`; π0, with a warning, where none
    is. Nothing is
    fitted again to
    all rows: what is returned is what was tested. The tests hold as the rows held out grow in number, for the contexts
    that were logged, and if a ``cost_model`` that is given was made from other rows. Where hardly any row held out has
    a weight they are the cost model's word. Without ``logging_policy`` candidates are compared with the logged costs,
    and what the rows show to be missing counts at the largest; but the π0 that is kept where none is better is the
    imitation.

    It is not to be trusted where overlap is poor (a propensity near 0 for actions that matter: look at the effective
    sample size of the learned policy on rows held out), and gains little where the cost is far from what its model
    presumes, additive over labels, or linear in x for each action: compare it there with ``KLDRO(estimate="ips")`` by a
    held-out score.

    Parameters
    ----------
    safe : bool
        Whether contexts are held out to choose by; without, the plain fit to all rows is returned, be it better or not.
    validation_fraction : float in (0, 1)
        Share of the contexts that are held out, each with all of its rows; rounded up. Where that is fewer than 10, or
        fewer than 30 rows, which could show nothing, none are held out and π0 is kept.
    random_state : int, Generator or None
        Which contexts are held out: by default the same in every fit to the same log; None draws anew each time.

    Attributes
    ----------
    improvement_bound_ : float or None
        Upper bound of the cost of what was kept less that of π0, one-sided at 0.95 for one policy. That what was kept
        is better errs in at most one log of twenty; by how much is optimistic, as the least of several bounds: take a
        certificate with ``choices=n_candidates_``. 0 where that is π0, None without ``safe``.
    step_ : float
        How far what was kept is on the way from π0 to a fit: 1 for a fit, 0 for π0. Below 1 ``n_iter_`` and
        ``converged_`` are those of the plain fit.
    ridge_ : float
        The ridge of the fit that was kept, in units of the costs' deviation, or 0; it is in ``objective_``.
    n_candidates_ : int
        How many there were, π0 among them; 1 where nothing was held out. A certificate by the rows held out has so many
        ``choices``.
    heldout_ : integer array
        Which rows of the given log were held out: a ``BanditLog`` with ``count`` 0 elsewhere is of them.
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

    def _held_out(self, log: BanditLog) -> np.ndarray:
        held = np.zeros(log.n_contexts, dtype=bool)
        if self.safe:
            contexts = np.flatnonzero(np.bincount(log.context, log.count))
            shuffled = as_generator(self.random_state, "random_state").permutation(contexts)
            n = min(math.ceil(self.validation_fraction * len(shuffled) - 1e-9), len(shuffled) - 1)
            held[shuffled[:n]] = True
        rows = held[log.context]
        return rows & (held.sum() >= LEAST_CONTEXTS) & (log.count[rows].sum() >= LEAST_ROWS)

    def _chosen(self, learned: Learned) -> int:
        """The candidate that is shown to be better, if one is; else π0."""
        return int(learned.fits.chosen[IMPROVEMENT]) if self.safe else 0

    def _keep(self, log: BanditLog, learned: Learned, features: FeatureMap | None, held: np.ndarray) -> None:
        super()._keep(log, learned, features, held)
        fits, chosen = learned.fits, self._chosen(learned)
        self.step_, self.ridge_ = float(fits.step[chosen]), float(fits.ridge[chosen])
        self.n_candidates_, self.heldout_ = len(fits.step) if held.any() else 1, np.flatnonzero(held)
        self.improvement_bound_ = None
        if self.safe:
            self.improvement_bound_ = float(fits.scores[chosen, IMPROVEMENT]) if self.step_ else 0.0

    def _warn_of_how_it_ended(self, log: BanditLog, heldout: BanditLog | None, learned: Learned) -> None:
        super()._warn_of_how_it_ended(log, heldout, learned)
        if not self.safe or self.step_:
            return
        if heldout is None:
            shown = (
                f"nothing is shown to be better by fewer than {LEAST_CONTEXTS} contexts or {LEAST_ROWS} rows held out"
            )
        else:
            shown = f"nothing is shown to be better by {heldout.size} rows held out"
        warn(f"{type(self).__name__} keeps π0: {shown}; give more rows, or take the fit as it is with safe=False")
