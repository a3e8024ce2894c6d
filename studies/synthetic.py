"""Random contexts, coefficients and actions that several studies draw."""

from __future__ import annotations

import numpy as np


def normal_contexts(rng: np.random.Generator, n: int, features: int) -> np.ndarray:
    """Return standard normal features and a constant, (n, features + 1)."""
    return np.column_stack([rng.normal(size=(n, features)), np.ones(n)])


def normal_coefficients(rng: np.random.Generator, features: int, actions: int, scale: float = 1) -> np.ndarray:
    """Return normal coefficients whose last row, that of the constant, is 0, (features + 1, actions)."""
    return np.vstack([scale * rng.normal(size=(features, actions)), np.zeros(actions)])


def draw_actions(probabilities: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw one of K actions for each row of probabilities, (n, K) → (n,)."""
    return (probabilities.cumsum(axis=1) > rng.random(len(probabilities))[:, None]).argmax(axis=1)
