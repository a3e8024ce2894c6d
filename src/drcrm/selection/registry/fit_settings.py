"""Settings of the fits of an algorithm that its entry in a configuration does not have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from drcrm.optimization.lbfgs import LbfgsSettings


@dataclass(frozen=True)
class FitSettings:
    """What an estimator, a command or a step of the pipeline sets for the fits of an algorithm.

    Parameters
    ----------
    lbfgs : LbfgsSettings
        Under the stopping rule "scaled", the smallest cost is subtracted from all costs if the estimate is
        translation-equivariant, because costs far from 0 lose digits.
    intercept : bool
        Whether the policy has an intercept; it is the last row of Θ.
    clip : "auto", float ≥ 1 or None
        M, the upper limit of training and held-out weights: see ``as_clip``.
    origin : array (d, …), optional
        Θ at which the fits start, in place of the algorithm's start.
    begins : sequence of array (d, …)
        Other starts Θ, one for each fit along the grid, and then for each fit with a ridge. The better start is used.
    explore : float
        Share ε of the uniform policy in the candidates. Fits do not depend on it.
    shift : float, optional
        Radius κ, if ``improvement_bound`` compares worst cases around the environment.
    compares : bool
        Whether candidates are compared with π0 on held-out rows, which needs a cost model, even if fits need none.
    fewer_rows : float
        If the log is a sample, the rows of the whole log divided by those of the sample: see ``Risk.for_fewer_rows``.
    """

    lbfgs: LbfgsSettings = field(default_factory=LbfgsSettings)
    intercept: bool = False
    clip: float | str | None = "auto"
    origin: np.ndarray | None = None
    begins: Sequence[np.ndarray] = ()
    explore: float = 0.0
    shift: float | None = None
    compares: bool = False
    fewer_rows: float = 1.0


@dataclass(frozen=True)
class SafeCandidates:
    """The candidates of a safe algorithm besides its fits and π0.

    Parameters
    ----------
    ridges : sequence of float
        λ of fits with a ridge towards π0, in units of the standard deviation of the costs.
    steps : sequence of float
        Fractions of the way from π0 to a fit.
    sharpened : sequence of float
        Factors of Θ of π0.
    greedy : float, optional
        Factor of Θ of each fit, for a nearly greedy candidate.
    """

    ridges: Sequence[float] = (1e-4, 1e-3, 1e-2)
    steps: Sequence[float] = (0.25, 0.5)
    sharpened: Sequence[float] = ()
    greedy: float | None = None
