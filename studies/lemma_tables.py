"""The paper's lemmas, and a bound at every look, in numbers: tables for losses with a known distribution.

Each table is a generator function that yields rows. Below, z are the losses of a sample of n draws, and V is their
variance with divisor n.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial

import numpy as np
from other_divergences import CressieRead3, TotalVariation
from population import Population
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri
from scipy.stats import binomtest

from drcrm.divergences import KL, Chi2, ReverseKL, SquaredHellinger
from drcrm.errors import InputError
from drcrm.evaluation.bounds.upper_bound import upper_bound
from drcrm.risks import AdaptiveBoltzmannRisk, BoltzmannRisk, Chi2Ball, CVaRRisk, KLBall, PhiBall, Risk
from drcrm.risks.balls import calibrated_radius

SMOOTH = {
    "kl": KL(),
    "chi2": Chi2(),
    "squared_hellinger": SquaredHellinger(),
    "reverse_kl": ReverseKL(),
    "cressie_read_3": CressieRead3(),
}
CONFIDENCE = 0.95
COVERED = (0.95, 0.8)  # confidence levels 1 − δ in Lemma 1
SIZES = (50, 200, 1000, 4000)  # sample sizes n in Lemma 1
RADIUS = ndtri(1 - (1 - CONFIDENCE) / 2) ** 2  # ε in Lemma 2, n times the radius printed in Lemma 1
EXPANDED = (100, 316, 1000, 3162, 10_000, 31_623, 100_000)  # sample sizes n in Lemma 2
MAX_SAMPLES = 50  # samples of each size in Lemma 2
SAMPLE = 500  # sample size n in Lemmas 3 to 5
LOOKS = np.unique(np.geomspace(20, SIZES[-1], 30).astype(int))  # sample sizes n of the bounds at every look
MAX_PATHS = 500  # growing samples of the bounds at every look
FEW = 60  # sample size n of the worst-case weights
GRID = np.geomspace(1e-5, 10, 121)  # radii ε in Lemmas 3 and 5
DEPTHS = np.array([1e-6, 1e6])  # search interval for the χ² ball: (largest z − threshold) ÷ range of z
TEMPERATURES = np.geomspace(0.1, 10, 41)  # temperatures in Lemma 4, divided by the optimal one

LEMMA_COLUMNS = {
    "lemma1": ["tail", "n", "method", "radius", "confidence", "coverage", "low", "high", "limit", "width"],
    "lemma2": ["tail", "divergence", "n", "printed", "rescaled", "limit"],
    "lemma3": ["tail", "radius", "ball", "primal", "dual", "penalised", "least_weight", "breaking", "calibrated"],
    "lemma4": ["tail", "radius", "temperature", "primal", "dual", "boltzmann", "divergence"],
    "lemma5": ["tail", "radius", "ratio", "premium", "premium_sum", "reached", "calibrated"],
    "anytime": ["tail", "n", "method", "bound", "false", "low", "high"],
    "weights": ["tail", "divergence", "z", "weight"],
}

Populations = Mapping[str, Population]
Rows = Iterator[dict[str, object]]


def coverage(populations: Populations, repetitions: int, rng: np.random.Generator) -> Rows:
    """Yield the coverage of upper bounds on E z (Lemma 1), from balls of three radii and from other methods.

    - ``radius``: "printed" is the radius printed in the lemma, χ²_{1,1−δ}/n; "rescaled" is the printed radius times
      φ''(1)/2; "one_sided" is φ''(1) q²/(2n) with the normal quantile q at 1 − δ
    - ``low``, ``high``: Wilson's 95 % interval for the coverage
    - ``limit``: the coverage as n → ∞
    - ``width``: mean difference between the bound and the sample mean, divided by that of Student's bound

    The method ``log_smoothing_best`` computes its smoothing from the true variance.
    """
    for tail, population in populations.items():
        for n in SIZES:
            bounds = _bounds(population, n)
            samples = (population.sample(n, rng) for _ in range(repetitions))
            values = np.array([[z.mean(), *(bound(z) for bound, _ in bounds.values())] for z in samples])
            covered = (values[:, 1:] >= population.mean).sum(axis=0)
            widths = dict(zip(bounds, (values[:, 1:] - values[:, :1]).mean(axis=0), strict=True))
            for (key, (_, limit)), times in zip(bounds.items(), covered, strict=True):
                student = widths["student", "", key[2]]
                yield {
                    "tail": tail,
                    "n": n,
                    **dict(zip(("method", "radius", "confidence"), key, strict=True)),
                    "coverage": times / repetitions,
                    **binomtest(int(times), repetitions).proportion_ci(method="wilson")._asdict(),
                    "limit": limit,
                    "width": widths[key] / student if student > 0 else None,
                }


def _bounds(population: Population, n: int) -> dict[tuple[str, str, float], tuple[Callable, float | None]]:
    """Return bounds by (method, radius, confidence): functions of the losses, with the limits of their coverage."""
    bounds = {}
    limits = {"low": population.z.min(), "high": population.z.max()}
    for confidence in COVERED:
        for name, divergence in SMOOTH.items():
            for kind, curvature, level in (
                ("printed", 2.0, (1 + confidence) / 2),
                ("rescaled", divergence.curvature, (1 + confidence) / 2),
                ("one_sided", divergence.curvature, confidence),
            ):
                ball = PhiBall(divergence, calibrated_radius(curvature, level, n))
                limit = ndtr(np.sqrt(2 * n * ball.radius / divergence.curvature))
                bounds[name, kind, confidence] = (lambda z, ball=ball: ball(z)[0]), limit
        bound = partial(upper_bound, confidence=confidence)
        baselines = {
            "mean": (np.mean, 0.5),
            "student": (partial(bound, method="student"), confidence),
            "empirical_bernstein": (partial(bound, method="empirical_bernstein", **limits), None),
            "betting": (partial(bound, method="betting", **limits), None),
        }
        if limits["high"] <= 0:
            smoothed = partial(bound, method="log_smoothing")
            smoothing = np.sqrt(-2 * np.log(1 - confidence) / n) / population.deviation
            baselines["log_smoothing"] = smoothed, None
            baselines["log_smoothing_best"] = partial(smoothed, smoothing=smoothing), None
        bounds |= {(name, "", confidence): baseline for name, baseline in baselines.items()}
    return bounds


def expansion(populations: Populations, repetitions: int, rng: np.random.Generator) -> Rows:
    """Yield the remainder of Lemma 2, √n |α_n| divided by the standard deviation of z, averaged over samples.

    α_n is the value of the ball of radius ε/n, minus the sample mean, minus √(ε V/n). The column ``printed`` has the
    remainder, and ``limit`` has its limit as n → ∞. In ``rescaled``, √(2ε V/(n φ''(1))) replaces √(ε V/n).
    """
    for tail, population in populations.items():
        for n in EXPANDED:
            samples = [population.sample(n, rng) for _ in range(min(repetitions, MAX_SAMPLES))]
            for name, divergence in SMOOTH.items():
                ball = PhiBall(divergence, RADIUS / n)
                stretch = np.sqrt(2 / ball.curvature)
                premium = np.array([ball(z)[0] - z.mean() for z in samples])
                penalty = np.array([np.sqrt(RADIUS / n) * z.std() for z in samples])
                unit = np.sqrt(n) / population.deviation
                yield {
                    "tail": tail,
                    "divergence": name,
                    "n": n,
                    "printed": unit * abs(premium - penalty).mean(),
                    "rescaled": unit * abs(premium - stretch * penalty).mean(),
                    "limit": abs(stretch - 1) * np.sqrt(RADIUS),
                }


def penalty(z: np.ndarray) -> Rows:
    """Yield the value of the χ² ball next to mean + √(ε V) (Lemma 3). The mean is subtracted, and √V is the unit.

    - ``ball``: the library's value
    - ``primal``, ``dual``: lower and upper bound on the value, which ``_chi2_bracket`` computes without the library
    - ``least_weight``: n times the smallest probability in the worst case
    - ``breaking``: V/(mean − min z)². At this radius the smallest loss gets probability 0
    - ``calibrated``: the radius that Lemma 1 prints for δ = 0.05
    """
    mean, deviation = z.mean(), z.std()
    breaking = (deviation / (mean - z.min())) ** 2
    for radius in GRID:
        value, weights = Chi2Ball(radius)(z)
        primal, dual = _chi2_bracket(z - mean, radius)
        yield {
            "radius": radius,
            "ball": (value - mean) / deviation,
            "primal": primal / deviation,
            "dual": dual / deviation,
            "penalised": np.sqrt(radius),
            "least_weight": len(z) * weights.min(),
            "breaking": breaking,
            "calibrated": RADIUS / len(z),
        }


def _chi2_bracket(z: np.ndarray, radius: float) -> tuple[float, float]:
    """Return a lower and an upper bound on the value of the χ² ball.

    The lower bound is E_Q z for Q ∝ (z − η)_+. Bisection finds the threshold η at which the divergence of Q equals ε.
    The upper bound is the dual γε + c + γ mean φ*((z − c)/γ), by weak duality. Here γ = mean (z − η)_+/2 and
    c = η + 2γ, and φ*(s) is s + s²/4 for s ≥ −2 and −1 otherwise. If the ball contains the distribution with all mass
    on the largest z, both bounds are the largest z.
    """
    if radius >= 1 / (z == z.max()).mean() - 1:
        return z.max(), z.max()

    def density(log_depth: float) -> np.ndarray:
        above = np.maximum(z - z.max() + np.exp(log_depth), 0)
        return above / above.mean()

    log_depth = brentq(lambda t: ((density(t) - 1) ** 2).mean() - radius, *np.log(np.ptp(z) * DEPTHS), xtol=1e-14)
    threshold = z.max() - np.exp(log_depth)
    gamma = np.maximum(z - threshold, 0).mean() / 2
    c = threshold + 2 * gamma
    level = np.maximum((z - c) / gamma, -2)
    return (density(log_depth) * z).mean(), gamma * radius + c + gamma * (level + level**2 / 4).mean()


def duality(z: np.ndarray) -> Rows:
    """Yield the primal and dual values of the KL ball and the Boltzmann mean at several temperatures γ (Lemma 4).

    - ``temperature``: γ divided by the optimal temperature
    - ``primal``: E_Q z for the worst-case distribution Q in the ball
    - ``dual``: γε + γ log mean e^{z/γ}. No distribution in the ball exceeds it, so equality proves both optimal
    - ``boltzmann``: the Boltzmann mean at γ
    - ``divergence``: KL(Q‖P_n)/ε

    The mean is subtracted from ``primal``, ``dual`` and ``boltzmann``, and √V is their unit.
    """
    mean, deviation = z.mean(), z.std()
    for radius in GRID[:-20:10]:
        best = PhiBall(KL(), radius).worst_case(z).gamma
        primal, weights = KLBall(radius)(z)
        for ratio in TEMPERATURES if best > 0 else ():
            gamma = ratio * best
            scaled = (z - z.max()) / gamma
            log_mass = np.log(np.exp(scaled).mean())
            yield {
                "radius": radius,
                "temperature": ratio,
                "primal": (primal - mean) / deviation,
                "dual": (gamma * (radius + log_mass) + z.max() - mean) / deviation,
                "boltzmann": (BoltzmannRisk(gamma)(z)[0] - mean) / deviation,
                "divergence": KL().phi(len(z) * weights).mean() / radius,
            }


def temperature(z: np.ndarray) -> Rows:
    """Yield the adaptive temperature √(V/2ε) and the value of aKL-CRM, both relative to the KL ball's (Lemma 5).

    - ``ratio``: the adaptive temperature divided by the optimal one
    - ``premium``: (aKL-CRM − mean) ÷ (KL ball − mean)
    - ``premium_sum``: the same with the sum of Algorithm 1 instead of V
    - ``reached``: KL(Q‖P_n)/ε for the weights Q of aKL-CRM
    """
    mean = z.mean()
    for radius in GRID:
        exact = PhiBall(KL(), radius).worst_case(z)
        gamma = np.sqrt(z.var() / (2 * radius))
        tilted = np.exp((z - z.max()) / gamma)
        yield {
            "radius": radius,
            "ratio": gamma / exact.gamma if exact.gamma > 0 else None,
            "premium": (AdaptiveBoltzmannRisk(radius)(z)[0] - mean) / (exact.value - mean),
            "premium_sum": (AdaptiveBoltzmannRisk(radius, "sum")(z)[0] - mean) / (exact.value - mean),
            "reached": KL().phi(len(z) * (tilted / tilted.sum())).mean() / radius,
            "calibrated": RADIUS / len(z),
        }


def every_look(populations: Populations, repetitions: int, rng: np.random.Generator) -> Rows:
    """Yield bounds with confidence 0.95 on a growing sample, and how often they were ever false.

    - ``method``: "anytime" holds at every n together; the others hold at one n
    - ``bound``: the bound on the first sample minus the true mean; √V of the population is the unit
    - ``false``: share of the samples in which the bound was below the true mean at this or an earlier n of ``LOOKS``
    - ``low``, ``high``: Wilson's 95 % interval for this share
    """
    for tail, population in populations.items():
        bound = partial(upper_bound, confidence=CONFIDENCE)
        least, most = float(population.z.min()), float(population.z.max())
        methods = {
            "anytime": partial(bound, method="anytime", high=most),
            "kl": bound,
            "student": partial(bound, method="student"),
            "empirical_bernstein": partial(bound, method="empirical_bernstein", low=least, high=most),
        }
        paths = [population.sample(int(LOOKS[-1]), rng) for _ in range(min(repetitions, MAX_PATHS))]
        for name, method in methods.items():
            bounds = np.array([[method(z[:n]) for n in LOOKS] for z in paths])
            ever = np.maximum.accumulate(bounds < population.mean, axis=1).sum(axis=0)
            for n, value, times in zip(LOOKS, bounds[0], ever, strict=True):
                yield {
                    "tail": tail,
                    "n": int(n),
                    "method": name,
                    "bound": (value - population.mean) / population.deviation,
                    "false": times / len(paths),
                    **binomtest(int(times), len(paths)).proportion_ci(method="wilson")._asdict(),
                }


def worst_weights(z: np.ndarray) -> Rows:
    """Yield the weight that each ball gives to each loss of a small sample: n times its worst-case probability.

    The size of each ball is chosen so that its value is mean + q √(V/n) with the normal quantile q at 0.95. For
    ``kl_crm`` the weights are n times the gradient of KL-CRM at that value.
    """
    risks: dict[str, Callable[[float], Risk]] = {
        **{name: partial(PhiBall, divergence) for name, divergence in SMOOTH.items()},
        "total_variation": partial(PhiBall, TotalVariation()),
        "cvar": lambda size: CVaRRisk(1 / (1 + size)),
        "kl_crm": lambda size: BoltzmannRisk(1 / size),
    }
    z = np.sort(z)
    target = min(z.mean() + ndtri(CONFIDENCE) * z.std() / np.sqrt(len(z)), (z.mean() + z.max()) / 2)
    for name, risk in risks.items():
        log_size = brentq(lambda t, risk=risk: risk(np.exp(t))(z)[0] - target, *np.log([1e-9, 1e3]), xtol=1e-12)
        for cost, weight in zip(z, len(z) * risk(np.exp(log_size))(z)[1], strict=True):
            yield {"divergence": name, "z": cost, "weight": weight}


def _of_samples(lemma: Callable[[np.ndarray], Rows], n: int) -> Callable[..., Rows]:
    """Return a table function that applies a lemma to one sample from each population.

    InputError if all losses of a sample are equal, because every ball then has the mean as its value.
    """

    def table(populations: Populations, repetitions: int, rng: np.random.Generator) -> Rows:
        samples = {tail: population.sample(n, rng) for tail, population in populations.items()}
        for tail, z in samples.items():
            if z.min() == z.max():
                raise InputError(f"losses must differ, but all {n} losses with {tail} tails are {z[0]:.6g}")
        return ({"tail": tail, **row} for tail, z in samples.items() for row in lemma(z))

    return table


TABLES: dict[str, Callable[..., Rows]] = {
    "lemma1": coverage,
    "lemma2": expansion,
    "lemma3": _of_samples(penalty, SAMPLE),
    "lemma4": _of_samples(duality, SAMPLE),
    "lemma5": _of_samples(temperature, SAMPLE),
    "anytime": every_look,
    "weights": _of_samples(worst_weights, FEW),
}
