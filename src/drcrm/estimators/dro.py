"""Distributionally robust estimators, which minimise a worst case, and competitors with other risks."""

from dataclasses import dataclass

from drcrm.divergences import Divergence
from drcrm.estimators.base import CounterfactualEstimator


@dataclass(eq=False, repr=False)
class KLDRO(CounterfactualEstimator):
    """KL-DRO: minimise the worst case over the KL ball {KL(Q‖P_n) ≤ ε}.

    Source: Lemma 4 of the paper.

    Parameters
    ----------
    radius : float ≥ 0 or "auto"
        ε, in nats. "auto" computes it from the number of rows n. As n → ∞, the risk of a fixed policy is then an upper
        bound on its cost with probability ``confidence``. For the learned policy it is not a bound.
    confidence : float in (½, 1)
        Level of "auto": see :class:`drcrm.risks.balls.base.Ball`.
    """

    radius: float | str = 0.01
    confidence: float = 0.95


@dataclass(eq=False, repr=False)
class Chi2DRO(CounterfactualEstimator):
    """χ²-DRO: minimise the worst case over the ball {(1/n) Σ (n q_i − 1)² ≤ ε}.

    Source: Lemma 3 of the paper.

    Parameters
    ----------
    radius : float ≥ 0 or "auto"
        ε; see :class:`KLDRO` for "auto".
    confidence : float in (½, 1)
        Level of "auto".
    """

    radius: float | str = 0.01
    confidence: float = 0.95


@dataclass(eq=False, repr=False)
class PhiDRO(CounterfactualEstimator):
    """φ-DRO: minimise the worst case over the ball {D_φ(Q‖P_n) ≤ ε} of any divergence.

    Source: section 3.2 of the paper.

    Parameters
    ----------
    divergence : Divergence, str or dict
        A divergence of :mod:`drcrm.divergences`, or its name: "squared_hellinger", {"cressie_read": 3}.
    radius : float ≥ 0 or "auto"
        ε; see :class:`KLDRO` for "auto", which total variation does not have.
    confidence : float in (½, 1)
        Level of "auto".
    """

    divergence: str | dict | Divergence = "kl"
    radius: float | str | None = 0.01
    confidence: float = 0.95


@dataclass(eq=False, repr=False)
class CVaRDRO(CounterfactualEstimator):
    """CVaR: minimise the mean cost of the worst share α of the rows.

    The risk has a kink if several costs are equal at the edge of this share. L-BFGS can stop at a kink; this is rarest
    with ``estimate="dr"``.
    Source: Rockafellar & Uryasev 2000.

    Parameters
    ----------
    alpha : float in (0, 1]
        α.
    """

    alpha: float = 0.9


@dataclass(eq=False, repr=False)
class LogSmoothing(CounterfactualEstimator):
    """Logarithmic smoothing: minimise −(1/λ) mean log(1 − λz).

    It needs costs below 1/λ, which excludes the estimates "snips" and "dr". The authors' code also starts at the
    logging policy, like ``start="logging"``, and penalises the KL divergence from it. This class has no such penalty.
    Source: Sakhi et al. 2024.

    Parameters
    ----------
    smoothing : float > 0
        λ.
    """

    smoothing: float = 0.1


@dataclass(eq=False, repr=False)
class LogSumExp(CounterfactualEstimator):
    """Log-sum-exp: minimise γ log mean e^{z/γ}, the KL ball at a fixed multiplier.

    Source: Behnamnia et al. 2025.

    Parameters
    ----------
    temperature : float > 0
        γ, in the units of the cost.
    """

    temperature: float = 1.0


@dataclass(eq=False, repr=False)
class WeightedLikelihood(CounterfactualEstimator):
    """Weighted likelihood: minimise the mean of −e^{−βc} log π, which is convex in Θ.

    It uses no propensities, no estimate and no weight. Source: Aouali & Sakhi 2025.

    Parameters
    ----------
    sharpness : float ≥ 0
        β.
    """

    sharpness: float = 1.0
