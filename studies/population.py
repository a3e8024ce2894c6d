"""Exact distribution of the loss of one logged action, by enumerating all contexts and actions."""

from dataclasses import dataclass

import numpy as np

from drcrm.errors import InputError
from drcrm.paper.reference_policies import fit_crf
from drcrm.paper.simulation import hamming_cost
from drcrm.policies.exponential import ExponentialPolicy

LIGHT_CLIP = 2.0  # largest importance weight for light tails
LOGGING_SHARE, LOGGING_C = 0.05, 0.1  # share of the contexts that train π0, and its C
TARGET_SHARE, TARGET_C = 0.25, 1.0  # share of the contexts that train the evaluated policy, and its C
MAX_PAIRS = 10_000_000


@dataclass(frozen=True)
class Population:
    """The distribution of a loss: values z and their probabilities, both (m,)."""

    z: np.ndarray
    probability: np.ndarray

    def __post_init__(self):
        object.__setattr__(self, "_cumulative", np.cumsum(self.probability))

    @property
    def mean(self) -> float:
        """The expected value of z."""
        return float(self.probability @ self.z)

    @property
    def deviation(self) -> float:
        """The standard deviation of z."""
        return float(np.sqrt(self.probability @ (self.z - self.mean) ** 2))

    def sample(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Draw n independent losses."""
        places = np.searchsorted(self._cumulative, rng.random(n) * self._cumulative[-1], side="right")
        return self.z[np.minimum(places, len(self.z) - 1)]


def draw_policies(X, labels: np.ndarray, rng: np.random.Generator) -> tuple[ExponentialPolicy, ExponentialPolicy]:
    """Fit two CRFs on different contexts: π0 on 5 % with C = 0.1, and the evaluated policy on 25 % with C = 1."""
    shuffled = rng.permutation(X.shape[0])
    n_logging, n_target = (int(np.ceil(share * len(shuffled))) for share in (LOGGING_SHARE, TARGET_SHARE))
    logging, target = np.sort(shuffled[:n_logging]), np.sort(shuffled[n_logging:][:n_target])
    if not len(target):
        raise InputError(f"the theory needs at least 2 contexts, one for each policy, got {len(shuffled)}")
    return fit_crf(X[logging], labels[logging], LOGGING_C), fit_crf(X[target], labels[target], TARGET_C)


def enumerate_losses(
    logging: ExponentialPolicy, policy: ExponentialPolicy, X, labels: np.ndarray
) -> dict[str, Population]:
    """Return exact distributions of the loss of one draw: a uniform context and one of 2^q actions from π0.

    There is one distribution for each way to define the loss. With w = π/π0 and the Hamming loss H, the keys are

    - ``light``: min(2, w) (H − q), bounded and nearly symmetric
    - ``left``: w (H − q), the IPS loss without clipping
    - ``right``: w H, the same without the translation

    Raise InputError for more than 10^7 pairs of a context and an action.
    """
    n, q = labels.shape
    if n * 2**q > MAX_PAIRS:
        raise InputError(f"at most {MAX_PAIRS} pairs of a context and an action can be enumerated, got {n} · 2^{q}")
    actions = (np.arange(2**q)[:, None] >> np.arange(q) & 1).astype(np.uint8)
    Y, context = np.tile(actions, (n, 1)), np.repeat(np.arange(n), len(actions))
    log_p = logging.log_prob(X, Y, context)
    probability = np.exp(log_p) / n
    possible = probability > 0
    weight = np.exp(policy.log_prob(X, Y, context)[possible] - log_p[possible])
    cost, probability = hamming_cost(Y, labels[context])[possible], probability[possible]
    losses = {"light": np.minimum(weight, LIGHT_CLIP) * cost, "left": weight * cost, "right": weight * (cost + q)}
    return {tail: Population(z, probability) for tail, z in losses.items()}
