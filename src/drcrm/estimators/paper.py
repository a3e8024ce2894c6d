"""The paper's algorithms: CIPS, POEM, KL-CRM and aKL-CRM. Its balls are in :mod:`drcrm.estimators.dro`."""

from dataclasses import dataclass

from drcrm.estimators.base import CounterfactualEstimator


@dataclass(eq=False, repr=False)
class CIPS(CounterfactualEstimator):
    """Clipped IPS: minimise (1/n) Σ c_i min(M, π(y_i|x_i)/p_i).

    Source: eq. 3 of the paper.
    """


@dataclass(eq=False, repr=False)
class POEM(CounterfactualEstimator):
    """Variance penalty: minimise the mean plus λ √(V_n/n).

    Source: Swaminathan & Joachims 2015; eq. 6 of the paper.

    Parameters
    ----------
    variance_penalty : float ≥ 0
        λ; see :func:`drcrm.selection.grid_search.calibrated_penalty` for its natural unit.
    """

    variance_penalty: float = 1.0


@dataclass(eq=False, repr=False)
class KLCRM(CounterfactualEstimator):
    """KL-CRM: minimise the Boltzmann-weighted cost at a fixed temperature γ.

    Source: eq. 13 of the paper.

    Parameters
    ----------
    temperature : float > 0
        γ, in the units of the cost.
    """

    temperature: float = 1.0


@dataclass(eq=False, repr=False)
class AdaptiveKLCRM(CounterfactualEstimator):
    """aKL-CRM: minimise the Boltzmann-weighted cost at the temperature √(V/(2ε)).

    Source: Algorithm 1 of the paper.

    Parameters
    ----------
    radius : float ≥ 0
        ε.
    variance : "mean" or "sum"
        V: the mean of squares (Lemma 5) or their sum (Algorithm 1 as printed).
    """

    radius: float = 0.01
    variance: str = "mean"
