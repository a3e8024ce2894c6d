"""Risk functionals: a vector of counterfactual costs → a value and its gradient; see :mod:`drcrm.core.risks`."""

from .core.phi_ball import CVaRRisk, PhiBall, WorstCase
from .core.risks import AdaptiveBoltzmannRisk, BoltzmannRisk, Chi2Ball, KLBall, MeanRisk, Risk, VariancePenalizedRisk

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
