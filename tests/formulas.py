"""φ-divergences with independent formulas and φ''(1), or None if φ has no second derivative at 1."""

import numpy as np

from drcrm.divergences import KL, Chi2, CVaR, ReverseKL, SquaredHellinger
from drcrm.policies.prepared_log import PreparedLog

FORMULAS = {
    "KL": (KL(), lambda t: t * np.log(t) - t + 1, 1),
    "χ²": (Chi2(), lambda t: (t - 1) ** 2, 2),
    "Hellinger": (SquaredHellinger(), lambda t: (np.sqrt(t) - 1) ** 2, 0.5),
    "reverse KL": (ReverseKL(), lambda t: -np.log(t) + t - 1, 1),
    "CVaR": (CVaR(0.4), lambda t: np.where(t <= 2.5, 0, np.inf), None),
}
CONJUGATES = {  # φ*(s) = sup s t − φ(t)
    "KL": np.expm1,
    "χ²": lambda s: np.maximum(s, -2) + np.maximum(s, -2) ** 2 / 4,
    "Hellinger": lambda s: np.where(s < 1, s / (1 - s), np.inf),
    "reverse KL": lambda s: np.where(s < 1, -np.log(1 - s), np.inf),
}
SMOOTH = [name for name, (_, _, curvature) in FORMULAS.items() if curvature]


def backward(prepared: PreparedLog, coef: np.ndarray, by_row, by_context) -> np.ndarray:
    """Return the gradient in Θ from gradients in log π and in expected costs, for a prepared log of one block."""
    [block] = prepared.chunked.blocks
    _, expected, mean = prepared.scores.forward(block, coef)
    return prepared.scores.backward(block, mean, by_row, by_context, expected).ravel()
