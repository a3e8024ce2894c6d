"""Estimators with a class for each risk: the paper's algorithms, other worst cases, and competitors."""

from dataclasses import dataclass, field

from drcrm.divergences import Divergence
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


@dataclass(eq=False, repr=False)
class KLDRO(CounterfactualEstimator):
    """KL-DRO: minimise the largest mean of the weighted costs z over distributions Q of the rows with KL(Q‖P_n) ≤ ε.

    By default z_i = c_i min(M, π(y_i|x_i)/p_i). P_n gives each of the n rows the probability 1/n. The distributions Q
    are the KL ball, an ambiguity set around the log. Source: Faury et al. 2020, Lemma 4.

    Parameters
    ----------
    radius : float ≥ 0 or "auto"
        Radius ε of the ball, in nats; 0 gives the mean. "auto" computes it from n such that the risk of a fixed policy
        is an upper bound on its cost with probability ``confidence``, as n → ∞. For the learned policy it is not a
        bound.
    confidence : float in (½, 1)
        Confidence level of the radius "auto": see :class:`drcrm.risks.KLBall`.
    """

    radius: float | str = 0.01
    confidence: float = 0.95


@dataclass(eq=False, repr=False)
class Chi2DRO(CounterfactualEstimator):
    """Chi-squared DRO: minimise the largest Σ q_i z_i over weights q of the rows with (1/n) Σ (n q_i − 1)² ≤ ε.

    By default z_i = c_i min(M, π(y_i|x_i)/p_i) are weighted costs. The weights q_i ≥ 0 have sum 1; they form the χ²
    ball around equal weights 1/n. Source: Faury et al. 2020, Lemma 3.

    Parameters
    ----------
    radius : float ≥ 0 or "auto"
        Radius ε of the ball; 0 gives the mean. See :class:`KLDRO` for "auto".
    confidence : float in (½, 1)
        Confidence level of the radius "auto".
    """

    radius: float | str = 0.01
    confidence: float = 0.95


@dataclass(eq=False, repr=False)
class PhiDRO(CounterfactualEstimator):
    """Phi-DRO: minimise the largest mean of the weighted costs over distributions Q of the rows with D_φ(Q‖P_n) ≤ ε.

    It is :class:`KLDRO` with any divergence D_φ in place of KL. Source: Faury et al. 2020, section 3.2.

    Parameters
    ----------
    divergence : Divergence, str or dict
        A divergence of :mod:`drcrm.divergences`, or its name, such as "squared_hellinger" or {"cvar": 0.1}.
    radius : float ≥ 0, "auto" or None
        Radius ε of the ball; 0 gives the mean. See :class:`KLDRO` for "auto", which total variation does not have.
        {"cvar": α} needs None.
    confidence : float in (½, 1)
        Confidence level of the radius "auto".
    """

    divergence: str | dict | Divergence = "kl"
    radius: float | str | None = 0.01
    confidence: float = 0.95


@dataclass(eq=False, repr=False)
class CVaRDRO(CounterfactualEstimator):
    """CVaR: minimise the mean of the largest weighted costs, a share α of the rows.

    The risk has a kink if several costs are equal at the edge of this share. L-BFGS can stop at a kink; this is rarest
    with ``estimate="dr"``. Source: Rockafellar & Uryasev 2000.

    Parameters
    ----------
    alpha : float in (0, 1]
        Share α of the rows; 1 gives the mean.
    """

    alpha: float = 0.9


@dataclass(eq=False, repr=False)
class EnvironmentDRO(CounterfactualEstimator):
    """Environment DRO: minimise the largest mean cost over environments Q with D(Q‖P_π) ≤ κ.

    P_π is the law of context, action and cost under the policy. So the policy is robust to contexts and costs that
    change after deployment, while :class:`KLDRO` is robust to an unlucky sample of the log. With KL, the minimised risk
    bounds the mean cost on every subpopulation with a share of at least e^{−κ} of the traffic. Q may also tilt the
    policy's own draw of actions. Sources: Si, Zhang, Zhou & Blanchet 2020; Kallus, Mao, Wang & Zhou 2022.

    The estimate is "snips". It needs no limit of the weights, so ``clip="auto"`` limits only those of ``score``. The
    estimate "dr" is refused, because fits ended in poor local minima of its objective. Evaluate and certify the policy
    with "dr" and ``shift=κ`` in :func:`drcrm.off_policy_value` and :func:`drcrm.certificates`.

    Parameters
    ----------
    radius : float ≥ 0
        Radius κ, in nats for KL.
    divergence : Divergence, str or dict
        A divergence of :mod:`drcrm.divergences`, or its name.
    """

    radius: float | None = 0.1
    divergence: str | dict | Divergence = "kl"
    estimate: str = field(default="snips", kw_only=True)


@dataclass(eq=False, repr=False)
class LogSmoothing(CounterfactualEstimator):
    """Logarithmic smoothing: minimise −(1/λ) mean log(1 − λz) of the weighted costs z.

    By default z_i = c_i min(M, π(y_i|x_i)/p_i). Every z must be below 1/λ, which excludes the estimates "snips" and
    "dr". The authors' code also starts at the logging policy, like ``start="logging"``, and penalises the KL divergence
    from it. This class has no such penalty. Source: Sakhi et al. 2024.

    Parameters
    ----------
    smoothing : float > 0
        Strength λ of the smoothing, in the inverse unit of the cost. λ → 0 gives the mean.
    """

    smoothing: float = 0.1


@dataclass(eq=False, repr=False)
class LogSumExp(CounterfactualEstimator):
    """Log-sum-exp: minimise γ log mean e^{z/γ} of the weighted costs z.

    By default z_i = c_i min(M, π(y_i|x_i)/p_i). This is the risk of :class:`KLDRO` with a fixed multiplier γ of the
    radius in place of the radius. Source: Behnamnia et al. 2025.

    Parameters
    ----------
    temperature : float > 0
        Multiplier γ, in the units of the cost. γ → ∞ gives the mean, γ → 0 the largest z.
    """

    temperature: float = 1.0


@dataclass(eq=False, repr=False)
class WeightedLikelihood(CounterfactualEstimator):
    """Weighted likelihood: maximise the mean of e^{−βc} log π, so that cheap actions weigh more.

    The problem is convex in Θ. Propensities, ``estimate`` and ``weight`` have no role: the last two must keep their
    defaults. Source: Aouali & Sakhi 2025.

    Parameters
    ----------
    sharpness : float ≥ 0
        Sharpness β, in the inverse unit of the cost. 0 weighs all rows equally.
    """

    sharpness: float = 1.0
