"""Estimators for further risks: divergence balls, CVaR, log smoothing, log-sum-exp, weighted likelihood."""

from dataclasses import dataclass
from typing import ClassVar

from drcrm.divergences import Divergence
from drcrm.estimators.base import CounterfactualEstimator


@dataclass(eq=False, repr=False)
class KLDRO(CounterfactualEstimator):
    """Minimises the worst case over {KL(Q‖P_n) ≤ ε}. Source: Lemma 4 of the paper.

    Parameters
    ----------
    radius : float ≥ 0 or "auto"
        ε, in nats. "auto", here and in the other balls, sets it by n, the number of rows: the risk of a fixed policy,
        not of the one learned, is then an upper bound of its cost with probability ``confidence``, as n → ∞.
    confidence : float in (½, 1)
        At which "auto" is calibrated: see :class:`drcrm.risks.balls.base.Ball`.
    """

    radius: float | str = 0.01
    confidence: float = 0.95


@dataclass(eq=False, repr=False)
class Chi2DRO(CounterfactualEstimator):
    """Minimises the worst case over {(1/n) Σ (n q_i − 1)² ≤ ε}. Source: Lemma 3 of the paper.

    Parameters
    ----------
    radius : float ≥ 0 or "auto"
        ε.
    confidence : float in (½, 1)
        At which "auto" is calibrated.
    """

    radius: float | str = 0.01
    confidence: float = 0.95


@dataclass(eq=False, repr=False)
class PhiDRO(CounterfactualEstimator):
    """Minimises the worst case over {D_φ(Q‖P_n) ≤ ε}. Source: section 3.2 of the paper.

    Parameters
    ----------
    divergence : Divergence, str or dict
        One of :mod:`drcrm.divergences`, or its name: "squared_hellinger", {"cressie_read": 3}.
    radius : float ≥ 0 or "auto"
        ε; total variation has no "auto".
    confidence : float in (½, 1)
        At which "auto" is calibrated.
    """

    divergence: str | dict | Divergence = "kl"
    radius: float | str | None = 0.01
    confidence: float = 0.95


@dataclass(eq=False, repr=False)
class CVaRDRO(CounterfactualEstimator):
    """Minimises the mean cost of the worst rows, a share α of them. Source: Rockafellar & Uryasev 2000.

    It has a kink wherever costs tie at the edge of that share, where L-BFGS can be stuck: least so under "dr".

    Parameters
    ----------
    alpha : float in (0, 1]
        α.
    """

    alpha: float = 0.9


@dataclass(eq=False, repr=False)
class LogSmoothing(CounterfactualEstimator):
    """Minimises −(1/λ) mean log(1 − λz). Source: Sakhi et al. 2024.

    It is of costs below 1/λ, and so not under the estimates "snips" and "dr". Its authors' code starts at the logging
    policy (``start="logging"`` here) and also penalises the KL divergence from it (which is not here).

    Parameters
    ----------
    smoothing : float > 0
        λ.
    """

    smoothing: float = 0.1


@dataclass(eq=False, repr=False)
class LogSumExp(CounterfactualEstimator):
    """Minimises γ log mean e^{z/γ}, the KL ball at a fixed multiplier. Source: Behnamnia et al. 2025.

    Parameters
    ----------
    temperature : float > 0
        γ, in the units of the cost.
    """

    temperature: float = 1.0


@dataclass(eq=False, repr=False)
class WeightedLikelihood(CounterfactualEstimator):
    """Minimises the mean of −e^{−βc} log π, which is convex in Θ. Source: Aouali & Sakhi 2025.

    It uses no propensities, and has neither an estimate nor a weight.

    Parameters
    ----------
    sharpness : float ≥ 0
        β.
    """

    sharpness: float = 1.0

    _is_likelihood: ClassVar = True
