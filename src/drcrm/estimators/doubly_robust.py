"""The recommended estimator: a KL ball on doubly robust costs, with a test of every candidate on held-out rows."""

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from drcrm.arrays.validation import check_choice, check_open_fraction, check_positive_integer
from drcrm.data.bandit_log import BanditLog
from drcrm.data.folds import number_blocks
from drcrm.errors import InputError, warn
from drcrm.estimators.by_risk import KLDRO
from drcrm.selection.algorithms import Algorithm
from drcrm.selection.block_learning import Learner, learn_in_blocks
from drcrm.selection.candidates import IMPROVEMENT, Learned
from drcrm.selection.grid_search import learn_with_features

VALIDATIONS = HOLDOUT, BLOCKS = "holdout", "blocks"
LEAST_UNITS, LEAST_ROWS = 10, 30  # to hold out; with fewer, more than 5 % of logs of pure noise led to a claim


def as_generator(random_state: Any, name: str) -> np.random.Generator:
    """Return the generator of a seed; InputError for an invalid seed."""
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError, OverflowError):
        expected = "a whole number ≥ 0, a numpy Generator or None"
        raise InputError(f"{name} is {random_state!r}, expected {expected}") from None


@dataclass(eq=False, repr=False)
class DoublyRobustDRO(KLDRO):
    """Recommended estimator: KL-DRO on doubly robust costs, which tests its result against the logging policy π0.

    A doubly robust cost is the cost of a model, corrected by the weighted residuals of the log. The fit starts at π0,
    tilted towards actions with a small modelled cost. Call ``DoublyRobustDRO().fit(X, Y, propensity=p, cost=c,
    logging_policy=π0)``. Without ``logging_policy``, a policy cloned from the log replaces π0. X should have a constant
    feature.

    By default (``safe=True``), the fit holds out a share of the rows, and tests candidates on these rows. If one user
    has many rows, pass ``groups``: the fit then holds out groups, and a group is one observation of a test. If rows
    share contexts, pass ``groups=context``. The fit tests these candidates:

    - the fit to the other rows;
    - fits with a ridge towards π0, unless there are 2¹⁶ contexts or more;
    - policies a quarter and half of the way from π0 to the fit;
    - with ``features="scores"``, no fits with a ridge, but sharpened versions of π0, three steps from π0 to the fit,
      and a nearly greedy version of the fit;
    - π0 itself.

    A test computes an upper bound on the candidate's cost minus the cost of π0. If the bound is below 0, the candidate
    is better. The bounds on all candidates hold together, by the max-t method: see :mod:`drcrm.selection.candidates`.
    Of the candidates that are shown to be better, the one with the best estimate is kept: see
    :meth:`drcrm.selection.candidates.PairedDifferences.choose`. If no candidate is better, π0 is kept, with a
    warning. The kept policy is not fitted again to all rows, so it is the policy that was tested.

    With ``validation="blocks"``, more rows train and test. The first quarter of the rows (or groups), in a random
    order, is the first block, and ``n_blocks`` others share the rest. Before each of these blocks, all candidates but
    π0 are cross-fitted on the rows so far. The best one is fitted to these rows, and the block compares it with π0. If
    the weighted mean of the comparisons shows a gain, the candidate chosen before the last block is fitted again to all
    rows and returned. So the blocks test the way of learning, through the mean of their policies. They do not test the
    returned policy itself. See :mod:`drcrm.selection.block_learning`.

    The tests have limits:

    - They are asymptotic in the number of held-out rows or groups.
    - If you pass ``cost_model``, it must have been fitted to other rows.
    - If few held-out rows have a weight above 0, the tests rely on the cost model.
    - Without ``logging_policy``, candidates are compared with the logged costs, and missing actions are charged the
      largest cost. If no candidate is better, the cloned policy is kept.

    Do not rely on the result if the log has few of the actions that the learned policy takes: check the policy's
    effective sample size on held-out rows. The default cost model is additive over labels, or linear in x for each
    action. If it fits badly, the estimator gains little. Then compare it with ``KLDRO(estimate="ips")`` by a held-out
    score.

    Parameters
    ----------
    safe : bool
        Whether to hold out rows and test candidates on them. False returns the fit to all rows, even if it is worse
        than π0.
    validation : "holdout" or "blocks"
        Whether held-out rows test the candidates, or blocks of rows the policies that are learned before them.
    n_blocks : int
        Number of blocks that test policies.
    validation_fraction : float in (0, 1)
        Share of the groups, or without groups of the rows, that are held out; their number is rounded up. If it gives
        fewer than 10 groups or 30 rows, tests would be unreliable: nothing is held out, and π0 is kept.
    random_state : int, Generator or None
        Seed of the split, or of the order of the blocks. With the default, all fits to one log have the same split.
        None draws a new split for each fit.

    Attributes
    ----------
    improvement_bound_ : float or None
        With blocks, upper bound on the mean cost of ``mixture_`` minus the cost of π0. It is below 0 if and only if a
        gain is shown; it is infinite if there are too few rows for the test. Otherwise it is None without ``safe``, 0
        if π0 is kept, and else an upper bound on the kept policy's cost minus the cost of π0. The claim
        that the kept policy is better is false with probability at most 0.05. The bound itself is optimistic, because
        it is that of one of several candidates, at level 0.95. For a valid bound, compute a certificate with
        ``choices=n_candidates_``.
    step_ : float
        Position of the kept policy between π0 (0) and a fit (1). If it is below 1, ``n_iter_`` and ``converged_``
        belong to the fit without a ridge.
    sharpness_ : float
        Factor of Θ of the kept policy: above 1 for a sharpened π0 and for a greedy fit to learned scores, otherwise 1.
    ridge_ : float
        Ridge of the kept fit, in units of the standard deviation of the costs; 0 without a ridge. ``objective_``
        includes the ridge penalty.
    n_candidates_ : int
        Number of candidates, including π0; 1 if nothing was held out. Pass it as ``choices`` to a certificate on the
        held-out rows.
    heldout_ : int array
        Indices of the held-out rows. To get their ``BanditLog``, set ``count`` to 0 in all other rows.
    blocks_ : list of TestedBlock
        The test of each block, with ``first``, ``last``, ``rows``, ``change``, ``low``, ``high``, ``weight`` and
        ``policy``; empty without blocks. Changes are costs, so a negative one is a gain.
    mixture_ : MixturePolicy or None
        The policy that draws the policy of a block with the block's weight. It is the policy that the bound is about.
    """

    _: KW_ONLY
    estimate: str = "dr"
    start: str = "model"
    tilt: float | str = "auto"
    safe: bool = True
    validation: str = HOLDOUT
    n_blocks: int = 3
    validation_fraction: float = 0.25
    random_state: object = 0

    _CHECKS: ClassVar = {
        **KLDRO._CHECKS,
        "validation": partial(check_choice, VALIDATIONS),
        "n_blocks": check_positive_integer,
        "validation_fraction": check_open_fraction,
        "random_state": as_generator,
    }

    def _select_heldout(self, log: BanditLog) -> np.ndarray:
        unit = log.unit_numbers
        is_heldout = np.zeros(unit.max() + 1, dtype=bool)
        if self.safe and self.validation == HOLDOUT:
            occurring = np.flatnonzero(np.bincount(unit, log.count))
            shuffled = as_generator(self.random_state, "random_state").permutation(occurring)
            n = min(math.ceil(self.validation_fraction * len(shuffled) - 1e-9), len(shuffled) - 1)
            is_heldout[shuffled[:n]] = True
        rows = is_heldout[unit]
        return rows & (is_heldout.sum() >= LEAST_UNITS) & (log.count[rows].sum() >= LEAST_ROWS)

    def _learn(self, log: BanditLog, algorithm: Algorithm, heldout: BanditLog | None, known: Sequence[Any]) -> Learned:
        self._learned_blocks = None
        if not self.safe or self.validation == HOLDOUT:
            return super()._learn(log, algorithm, heldout, known)
        block = self._number_blocks(log)
        if block is None:
            return super()._learn(log, algorithm, None, known)
        learner = Learner(
            [algorithm], lambda train, tested, variant: learn_with_features(train, variant, tested, *known), known[0]
        )
        self._learned_blocks = blocks = learn_in_blocks(log, block, learner)
        learned = blocks.final.learned
        return learned if blocks.improvement_bound < 0 else replace(learned, selected=len(learned.candidates) - 1)

    def _number_blocks(self, log: BanditLog) -> np.ndarray | None:
        """Return the block of each row, (n,); None if a block would have too few rows or units for a test."""
        n_units = len(np.unique(log.unit_numbers))
        if n_units < LEAST_UNITS * (1 + self.n_blocks):
            return None
        block = number_blocks(log.unit_numbers, self.n_blocks, seed=as_generator(self.random_state, "random_state"))
        return block if np.bincount(block, log.count).min() >= LEAST_ROWS else None

    def _set_fitted(self, learned: Learned, is_heldout: np.ndarray) -> None:
        super()._set_fitted(learned, is_heldout)
        chosen = learned.candidates[learned.selected]
        self.step_, self.ridge_, self.sharpness_ = chosen.step, chosen.ridge, chosen.sharpness
        self.n_candidates_ = len(learned.candidates) if is_heldout.any() else 1
        self.heldout_, self.improvement_bound_ = np.flatnonzero(is_heldout), None
        blocks = self.__dict__.pop("_learned_blocks")
        self.blocks_ = [] if blocks is None else blocks.blocks
        self.mixture_ = None if blocks is None else blocks.mixture
        if self.safe and self.validation != HOLDOUT:
            self.improvement_bound_ = np.inf if blocks is None else blocks.improvement_bound
        elif self.safe:
            self.improvement_bound_ = 0.0 if chosen.is_logging else chosen.scores[IMPROVEMENT]

    def _warn_of_result(self, log: BanditLog, heldout: BanditLog | None, learned: Learned) -> None:
        super()._warn_of_result(log, heldout, learned)
        if self.safe and self.step_ == 0 and self.sharpness_ == 1:
            units = "units" if log.column("groups") is None else "groups"
            few = f"fewer than {LEAST_UNITS} {units} or {LEAST_ROWS}"
            if self.validation == HOLDOUT:
                tested = (
                    f"no candidate is shown to be better on {few if heldout is None else heldout.size} held-out rows"
                )
            elif self.blocks_:
                rows = sum(block.rows for block in self.blocks_)
                tested = f"the way of learning is not shown to be better on {rows} rows in {len(self.blocks_)} blocks"
            else:
                tested = f"no test is possible with {few} rows in a block"
            warn(f"{type(self).__name__} keeps π0: {tested}; log more rows, or set safe=False to keep the fit")
