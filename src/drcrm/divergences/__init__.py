"""φ-divergences and their worst-case distributions."""

from drcrm.divergences.base import Divergence, SmoothDivergence
from drcrm.divergences.families import (
    DIVERGENCES,
    KL,
    Chi2,
    CVaR,
    ReverseKL,
    SquaredHellinger,
    as_divergence,
)

__all__ = [
    "DIVERGENCES",
    "KL",
    "CVaR",
    "Chi2",
    "Divergence",
    "ReverseKL",
    "SmoothDivergence",
    "SquaredHellinger",
    "as_divergence",
]
