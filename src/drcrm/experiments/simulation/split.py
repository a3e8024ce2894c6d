"""What is drawn from a data set's contexts: those that train π0, and what is held out."""

import math

import numpy as np

from drcrm.errors import InputError


def split_contexts(
    n: int, unit: str, logging_fraction: float, heldout_fraction: float, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Draw from n contexts those that train π0 (``logging``) and those held out, as rising context numbers.

    With ``unit`` "context" π0's are a fraction of the training part, as the paper's text has it; with "row", where
    logged rows are held out after the replay, of all contexts, as the public POEM code does. Counts are rounded up.
    """
    shuffled = rng.permutation(n)
    n_heldout = _share(heldout_fraction, n)
    heldout, train = shuffled[:n_heldout], shuffled[n_heldout:]
    if not len(train):
        raise InputError(f"{n} contexts, all of them held out by a fraction of {heldout_fraction}")
    candidates = train if unit == "context" else np.arange(n)
    logging = rng.choice(candidates, _share(logging_fraction, len(candidates)), replace=False)
    return {"logging": np.sort(logging), "train": np.sort(train), "heldout": np.sort(heldout)}


def heldout_rows(n: int, fraction: float, rng: np.random.Generator) -> np.ndarray:
    """Draw which of n logged rows are held out, a mask (n,); their number is rounded up."""
    held = np.zeros(n, dtype=bool)
    held[rng.permutation(n)[: _share(fraction, n)]] = True
    return held


def _share(fraction: float, n: int) -> int:
    """A fraction of n, rounded up and at least 1; the guard keeps 0.07 · 100 from becoming 8."""
    return max(1, math.ceil(fraction * n - 1e-9))
