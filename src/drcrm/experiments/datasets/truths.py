"""Labelled contexts with the truth that they hold.

Here, not in ``formats``: what is made of a log alone does not depend on how policies are fitted to labels.
"""

from pathlib import Path

import numpy as np
from scipy import sparse

from drcrm.experiments.datasets.array_files import read_labelled
from drcrm.experiments.simulation.truth import Truth, as_truth


def read_truth(path: str | Path) -> tuple[np.ndarray | sparse.csr_array, Truth]:
    """Read labelled contexts, with the constant feature 1 appended as the last; InputError for content out of range."""
    X, *labels = read_labelled(path)
    return X, as_truth(*labels)
