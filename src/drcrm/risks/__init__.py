"""Risks: each maps the weighted costs z of the rows to one number, and computes its gradient.

To define your own risk, write a subclass of :class:`Risk` and test it with :func:`check_risk`.
"""

from drcrm.divergences.dual_search import WorstCase
from drcrm.risks.balls import Chi2Ball, CVaRRisk, EnvironmentBall, KLBall, PhiBall
from drcrm.risks.base import Risk, check_risk
from drcrm.risks.closed_forms import (
    AdaptiveBoltzmannRisk,
    BoltzmannRisk,
    LogSmoothingRisk,
    LogSumExpRisk,
    MeanRisk,
    VariancePenalizedRisk,
)

__all__ = [
    "AdaptiveBoltzmannRisk",
    "BoltzmannRisk",
    "CVaRRisk",
    "Chi2Ball",
    "EnvironmentBall",
    "KLBall",
    "LogSmoothingRisk",
    "LogSumExpRisk",
    "MeanRisk",
    "PhiBall",
    "Risk",
    "VariancePenalizedRisk",
    "WorstCase",
    "check_risk",
]
