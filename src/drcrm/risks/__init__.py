"""Risk functionals: a vector of counterfactual costs → a value and its gradient; see :mod:`drcrm.risks.base`."""

from drcrm.risks.balls.phi import CVaRRisk, PhiBall, WorstCase
from drcrm.risks.base import (
    AdaptiveBoltzmannRisk,
    BoltzmannRisk,
    Chi2Ball,
    KLBall,
    MeanRisk,
    Risk,
    VariancePenalizedRisk,
)

__all__ = [
    "AdaptiveBoltzmannRisk",
    "BoltzmannRisk",
    "CVaRRisk",
    "Chi2Ball",
    "KLBall",
    "MeanRisk",
    "PhiBall",
    "Risk",
    "VariancePenalizedRisk",
    "WorstCase",
]
