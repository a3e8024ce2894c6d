"""The registry of algorithms: which risk each minimises, and its hyper-parameters by the names users give them.

Kept apart from the scikit-learn face so that a fit does not import scikit-learn.
"""

from __future__ import annotations

from dataclasses import dataclass

from .core.log import BanditLog
from .core.risks import AdaptiveBoltzmannRisk, BoltzmannRisk, Chi2Ball, KLBall, MeanRisk, Risk, VariancePenalizedRisk
from .errors import InputError


@dataclass(frozen=True)
class Algorithm:
    """A risk and the estimator's names of the risk's arguments, the hyper-parameter first."""

    risk: type[Risk]
    parameters: tuple[str, ...] = ()

    def make_risk(self, **values) -> Risk:
        """Build the risk from the estimator's parameters; InputError for a name it does not have."""
        unknown = [name for name in values if name not in self.parameters]
        if unknown:
            raise InputError(f"unknown parameter {unknown[0]!r}, expected one of {list(self.parameters)}")
        arguments = [values[name] for name in self.parameters if name in values]
        return self.risk(*arguments)


ALGORITHMS = {
    "CIPS": Algorithm(MeanRisk),
    "POEM": Algorithm(VariancePenalizedRisk, ("variance_penalty",)),
    "KLCRM": Algorithm(BoltzmannRisk, ("temperature",)),
    "AdaptiveKLCRM": Algorithm(AdaptiveBoltzmannRisk, ("radius", "variance")),
    "KLDRO": Algorithm(KLBall, ("radius",)),
    "Chi2DRO": Algorithm(Chi2Ball, ("radius",)),
}


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
