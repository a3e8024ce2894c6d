"""What several studies share: random contexts, coefficients and actions, and a command of drcrm."""

from __future__ import annotations

import contextlib
import io

import numpy as np

from drcrm.__main__ import main


def normal_contexts(rng: np.random.Generator, n: int, features: int) -> np.ndarray:
    """Return standard normal features and a constant, (n, features + 1)."""
    return np.column_stack([rng.normal(size=(n, features)), np.ones(n)])


def normal_coefficients(rng: np.random.Generator, features: int, actions: int, scale: float = 1) -> np.ndarray:
    """Return normal coefficients whose last row, for the constant, is 0, (features + 1, actions)."""
    return np.vstack([scale * rng.normal(size=(features, actions)), np.zeros(actions)])


def draw_actions(probabilities: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw one of K actions for each row of probabilities, (n, K) → (n,)."""
    return (probabilities.cumsum(axis=1) > rng.random(len(probabilities))[:, None]).argmax(axis=1)


def run_command(arguments: list[str]) -> None:
    """Run a command without its output, ``learn`` in one thread; raise RuntimeError if it fails."""
    errors, threads = io.StringIO(), ["--jobs", "1"] if arguments[0] == "learn" else []
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(errors):
        status = main([*arguments, *threads])
    if status:
        raise RuntimeError(errors.getvalue())
