"""How wrong the propensities, and how different the environment, may be until a policy is not shown to be better."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from drcrm.estimates import NORMALISED, RATIO
from drcrm.evaluation.sensitivity import Sensitivity
from drcrm.logs.diagnostics.comparison.policy_comparison import Comparison, certify

GAMMA = 1.5  # default factor of the sensitivity to wrong propensities
LARGEST = 3.0  # largest κ of the search: subpopulations with a share of at least 5 %
SCAN, HALVINGS = 12, 5
MOST_ROWS = 200_000  # on larger logs the search takes too long


def find_breakeven_shift(comparison: Comparison) -> float | None:
    """Return κ*, the largest radius at which the policy's worst case is shown to be better, or None.

    The certificate of the difference is the one of a comparison with this radius, at level δ/K. So it
    compares two worst cases, which can belong to different environments. The search doubles κ from 0.0015 to 3 while
    the policy is better, and then halves the last step 5 times. The bound on the difference is below 0 at κ* and at all
    smaller radii that the search tries.

    There is no κ* on logs with more than 200 000 rows, or if the estimate has no worst case.
    """
    evaluation, settings = comparison.evaluation, comparison.settings
    if len(evaluation.log.cost) > MOST_ROWS or settings.estimate not in NORMALISED:
        return None
    evaluation = evaluation.by(settings.estimate)
    low, high, radius = 0.0, np.inf, LARGEST / 2 ** (SCAN - 1)
    while radius <= LARGEST and not high - low <= low / 2**HALVINGS:
        certificate, _ = certify(replace(evaluation, radius=radius), settings)
        if certificate is not None and certificate.bound < 0:
            low = radius
        elif low == 0:
            return None
        else:
            high = radius
        radius = min(2 * low, (low + high) / 2)
    return low


def sensitivity_to_propensities(comparison: Comparison) -> Sensitivity:
    """Return the worst case of a policy's cost if propensities are wrong, with bounds at level δ/K."""
    settings = comparison.settings
    estimate = settings.estimate if settings.estimate in NORMALISED else RATIO
    confidence = 1 - (1 - settings.confidence) / settings.divisor
    return comparison.evaluation.by(estimate).sensitivity(settings.gamma or GAMMA, confidence)
