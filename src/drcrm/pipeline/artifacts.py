"""What steps hand to each other: labelled contexts, splits, policies and logs, as npz."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy import sparse

from ..core.log import BanditLog
from ..core.policies import ExponentialPolicy
from ..core.validation import check_actions, check_context, check_features
from ..errors import located
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
        return {name: check_context(numbers, len(numbers), n_contexts) for name, numbers in split.items()}


def write_policy(path: str | Path, policy: ExponentialPolicy, **notes) -> None:
    """Write a policy's coefficients, with any arrays worth noting beside them."""
    write_npz(path, coef=policy.coef, **notes)


def read_policy(path: str | Path) -> ExponentialPolicy:
    """Read a policy's coefficients."""
    coef = read_npz(path, ["coef"])["coef"]
    with located(path):
        return ExponentialPolicy(coef)


def write_log(path: str | Path, log: BanditLog, train: np.ndarray, heldout: np.ndarray) -> None:
    """Write a log, and how often each of its rows occurs in the training and in the held-out part."""
    rows = {"Y": log.Y, "propensity": log.propensity, "cost": log.cost, "context": log.context}
    write_npz(path, X=log.X, **rows, train=train, heldout=heldout)


def read_log(path: str | Path) -> tuple[BanditLog, BanditLog]:
    """Read the training and the held-out part of a log; what is wrong in it is said with the file's name."""
    arrays = read_npz(path, ["X", "Y", "propensity", "cost", "context", "train", "heldout"])
    train, heldout = arrays.pop("train"), arrays.pop("heldout")
    with located(path):
        log = BanditLog(**arrays)
        return log.recount(train), log.recount(heldout)
