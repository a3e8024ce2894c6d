"""φ-divergences: φ, φ*, φ''(1); see :mod:`drcrm.divergences.families`."""

from drcrm.divergences.families import (
    KL,
    Chi2,
    CressieRead,
    CVaR,
    Divergence,
    ReverseKL,
    SmoothDivergence,
    SquaredHellinger,
    TotalVariation,
)

__all__ = [
    "KL",
    "CVaR",
    "Chi2",
    "CressieRead",
    "Divergence",
    "ReverseKL",
    "SmoothDivergence",
    "SquaredHellinger",
    "TotalVariation",
]
