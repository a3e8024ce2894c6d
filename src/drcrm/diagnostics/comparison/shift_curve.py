"""Worst cases of a policy and of its reference around the environment, as functions of the radius κ."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from drcrm.certificates.off_policy_value import off_policy_value
from drcrm.certificates.terms.evaluation import LOGGING
from drcrm.data.bandit_log import BanditLog
from drcrm.diagnostics.comparison.policy_comparison import ComparisonSettings, certify_against, choose_estimate
from drcrm.diagnostics.diagnostic import to_json
from drcrm.errors import InputError
from drcrm.estimates import NORMALISED, RATIO
from drcrm.policies.tabular import policy_for_log

LARGEST = 3.0  # largest κ of the search: subpopulations with a share of at least 5 %
LEAST = 1e-8  # κ of the first point, at which worst cases are means up to 2e-4 standard deviations
POINTS, SCAN, HALVINGS = 12, 12, 5
MOST_ROWS = 200_000  # on larger logs the curve takes too long


@dataclass(frozen=True)
class ShiftCurve:
    """Worst cases R_κ of a policy and of its reference, which is the logging policy or a baseline.

    Attributes
    ----------
    breakeven : float
        κ*, the largest radius up to which the policy's worst case is shown to be better. The upper bound on the
        difference of the two worst cases is below 0 at κ* and at all smaller radii that the search tries. κ* is at most
        3, and NaN if there is none.
    refusal : str
        Why no bound can be computed just beyond κ*, for example because a worst case is the largest cost. Empty if the
        bound crosses 0 there.
    curve : array (12, 4)
        κ, R_κ of the policy, R_κ of the reference, and the bound on their difference, NaN if it cannot be computed. The
        first κ is nearly 0.
    """

    breakeven: float
    refusal: str
    curve: np.ndarray

    def as_dict(self) -> dict[str, Any]:
        """Return the attributes as JSON values."""
        return {"breakeven": to_json(self.breakeven), "refusal": self.refusal, "curve": to_json(self.curve)}


def shift_curve(
    policy: Any,
    log: BanditLog,
    settings: ComparisonSettings,
    *,
    cost_model: Any = None,
    groups: np.ndarray | None = None,
    baseline: Any = LOGGING,
) -> ShiftCurve | None:
    """Return the worst cases of a policy and of its reference for 12 radii, and κ*.

    The certificate of the difference is the one of a comparison with ``settings.shift`` = κ, at level δ/K. So it
    compares two worst cases, which can belong to different environments. A search doubles κ from 0.0015 to 3 while the
    policy is better, and then halves the last step 5 times. The 12 radii end at 1.5 times κ* or ``settings.shift``.

    Parameters
    ----------
    policy : any policy that :func:`drcrm.off_policy_value` accepts
    log : BanditLog
        Rows that trained neither the policy nor the cost model.
    settings : ComparisonSettings
    cost_model : optional
        See :func:`drcrm.certificates.policy_certificate`.
    groups : array (n,), optional
        Ids of independent groups of rows.
    baseline : any policy, or "logging"
        Policy to compare with in place of the logged costs.

    Returns
    -------
    ShiftCurve or None
        None if the log has more than 200 000 rows, the estimate has no worst case, or no radius is of interest: without
        κ* and ``settings.shift``. Also if all weights are 0.
    """
    policy = policy_for_log(policy, log)
    estimate = choose_estimate(policy, settings, cost_model)
    if len(log.cost) > MOST_ROWS or estimate not in NORMALISED:
        return None
    models = {"cost_model": cost_model, "groups": groups}

    def bound(radius: float) -> tuple[float, str]:
        at_radius = replace(settings, estimate=estimate, shift=radius)
        certificate, refusal = certify_against(policy, log, at_radius, baseline, models)
        return (np.nan if certificate is None else certificate.bound), refusal

    sides = (policy, estimate), ((log.propensity, RATIO) if isinstance(baseline, str) else (baseline, estimate))

    def values(radius: float) -> list[float]:
        return [float(off_policy_value(side, log, name, shift=radius, **models)) for side, name in sides]

    with warnings.catch_warnings(action="ignore"):  # the checks report the same problems
        breakeven, refusal = _find_breakeven(bound)
        end = 1.5 * np.fmax(breakeven, np.nan if settings.shift is None else settings.shift)
        if np.isnan(end):
            return None
        radii = np.maximum(end * np.linspace(0, 1, POINTS) ** 2, LEAST)
        try:
            curve = [(radius, *values(radius), bound(radius)[0]) for radius in radii]
        except InputError:
            return None
    return ShiftCurve(breakeven, refusal, np.array(curve))


def _find_breakeven(bound: Callable[[float], tuple[float, str]]) -> tuple[float, str]:
    """Return κ*, and why there is no bound beyond it."""
    low, high, refusal, radius = np.nan, np.inf, "", LARGEST / 2 ** (SCAN - 1)
    while radius <= LARGEST and not high - low <= low / 2**HALVINGS:
        upper, reason = bound(radius)
        if upper < 0:
            low = radius
        else:
            high, refusal = radius, reason
        if np.isnan(low):
            return low, ""
        radius = min(2 * low, (low + high) / 2)
    return low, refusal
