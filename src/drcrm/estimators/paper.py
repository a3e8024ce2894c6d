"""The paper's algorithms: CIPS, POEM, KL-CRM and aKL-CRM. Its balls are in :mod:`drcrm.estimators.dro`."""

from dataclasses import dataclass

from drcrm.estimators.base import CounterfactualEstimator


@dataclass(eq=False, repr=False)
class CIPS(CounterfactualEstimator):
    """Clipped IPS: minimise the importance-weighted mean cost, (1/n) Σ c_i min(M, π(y_i|x_i)/p_i).

    IPS is inverse propensity scoring. The weight corrects for how often the logging policy took the logged action.
    Clipping at M limits the variance. Other values of ``estimate`` and ``weight`` replace this mean. Source: Faury et
    al. 2020, eq. 3.
    """


@dataclass(eq=False, repr=False)
class POEM(CounterfactualEstimator):
    """POEM: minimise the mean of the weighted costs z plus λ standard errors, z̄ + λ √(V/n).

    By default z_i = c_i min(M, π(y_i|x_i)/p_i). V is the sample variance of z. Source: Swaminathan & Joachims 2015;
    Faury et al. 2020, eq. 6.

    Parameters
    ----------
    variance_penalty : float ≥ 0
        Number λ of standard errors. The public POEM code measures it in units of minus the mean logged cost divided by
        its standard error: see :func:`drcrm.selection.grid_search.calibrated_penalty`.
    """

    variance_penalty: float = 1.0


@dataclass(eq=False, repr=False)
class KLCRM(CounterfactualEstimator):
    """KL-CRM: minimise an average of the weighted costs z that favours large z, Σ z_i e^{z_i/γ} / Σ e^{z_i/γ}.

    By default z_i = c_i min(M, π(y_i|x_i)/p_i). The weights e^{z_i/γ} are Boltzmann weights at the temperature γ.
    Source: Faury et al. 2020, eq. 13.

    Parameters
    ----------
    temperature : float > 0
        Temperature γ, in the units of the cost. γ → ∞ gives the mean, γ → 0 the largest z.
    """

    temperature: float = 1.0


@dataclass(eq=False, repr=False)
class AdaptiveKLCRM(CounterfactualEstimator):
    """Adaptive KL-CRM (aKL-CRM): minimise the average of KL-CRM at the temperature γ = √(V/(2ε)).

    V is the variance of the weighted costs z. So γ changes with the policy, and approximates the exact temperature of
    the KL ball of radius ε. :class:`KLCRM` has the formula, :class:`KLDRO` the exact ball. Source: Faury et al. 2020,
    Algorithm 1.

    Parameters
    ----------
    radius : float ≥ 0
        Radius ε, in nats. 0 gives the mean; a larger radius is more pessimistic.
    variance : "mean" or "sum"
        Whether V is the mean of the squares (z_i − z̄)², as in Lemma 5, or their sum, as in the printed Algorithm 1.
    """

    radius: float = 0.01
    variance: str = "mean"
