"""φ-divergences and their worst-case distributions."""

from drcrm.divergences.base import Divergence, SmoothDivergence
from drcrm.divergences.families import (
    DIVERGENCES,
    KL,
    Chi2,
    CressieRead,
    CVaR,
    ReverseKL,
    SquaredHellinger,
    TotalVariation,
    as_divergence,
)

__all__ = [
    "DIVERGENCES",
    "KL",
    "CVaR",
    "Chi2",
    "CressieRead",
    "Divergence",
    "ReverseKL",
    "SmoothDivergence",
    "SquaredHellinger",
    "TotalVariation",
    "as_divergence",
]
