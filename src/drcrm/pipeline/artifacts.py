"""What steps hand to each other: labelled contexts, splits, policies, as npz."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy import sparse

from ..core.policies import ExponentialPolicy
from ..core.validation import check_actions, check_coefficients, check_context, check_features
from ..errors import InputError, located
from .files import read_npz, write_npz


def read_contexts(path: str | Path) -> tuple[np.ndarray | sparse.csr_array, np.ndarray]:
    """Read labelled contexts, with the constant feature 1 appended as the last; InputError for content out of range."""
    arrays = read_npz(path, ["X", "labels"])
    with located(path):
        X = check_features(arrays["X"])
        labels = check_actions(arrays["labels"], rows=X.shape[0], name="labels")
    constant = np.ones((X.shape[0], 1))
    if sparse.issparse(X):
        return sparse.csr_array(sparse.hstack([X, constant], format="csr")), labels
    return np.hstack([X, constant]), labels


def read_split(path: str | Path, n_contexts: int) -> dict[str, np.ndarray]:
    """Read the context numbers of a split: logging, train and heldout."""
    split = read_npz(path, ["logging", "train", "heldout"])
    with located(path):
        for name, numbers in split.items():
            if not np.size(numbers):
                raise InputError(f"no contexts in {name!r}, expected at least one")
        return {name: check_context(numbers, np.size(numbers), n_contexts) for name, numbers in split.items()}


def write_policy(path: str | Path, policy: ExponentialPolicy, **notes) -> None:
    """Write a policy's coefficients, with any arrays worth noting beside them."""
    write_npz(path, coef=policy.coef, **notes)


def read_policy(path: str | Path) -> ExponentialPolicy:
    """Read a policy's coefficients."""
    coef = read_npz(path, ["coef"])["coef"]
    with located(path):
        return ExponentialPolicy(check_coefficients(coef))
