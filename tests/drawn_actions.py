"""Actions drawn from given probabilities."""

import numpy as np


def draw_actions(probability: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw one action for each row of probabilities, (n, K)."""
    return (probability.cumsum(axis=1) > rng.random((len(probability), 1))).argmax(axis=1)
