"""What steps hand to each other as npz: labelled contexts, splits, policies, logs and fits."""

import json
from pathlib import Path

import numpy as np
from scipy import sparse

from drcrm.actions.base import Actions
from drcrm.arrays.validation import (
    as_float_array,
    check_actions,
    check_coefficients,
    check_context,
    check_features,
    check_integers,
    reject_rows,
)
from drcrm.data.bandit_log import BanditLog
from drcrm.errors import InputError, prefix_errors
from drcrm.files import read_npz, write_npz
from drcrm.policies.exponential import ExponentialPolicy, SoftmaxPolicy, make_policy


def read_contexts(path: str | Path) -> tuple[np.ndarray | sparse.csr_array, np.ndarray]:
    """Read labelled contexts, with the constant feature 1 appended as the last, and their labels as they are stored.

    InputError for content out of range.
    """
    X, labels, _ = read_labelled(path)
    return X, labels


def read_labelled(path: str | Path) -> tuple[np.ndarray | sparse.csr_array, np.ndarray, int | None]:
    """Read labelled contexts, their labels (n, q), or classes (n,), and of the latter how many there are, else None."""
    arrays = read_npz(path, ["X", "labels"], optional=["n_actions"])
    n_actions = None
    with prefix_errors(path):
        X = check_features(arrays["X"])
        if "n_actions" in arrays:
            n_actions = int(check_integers(np.atleast_1d(arrays["n_actions"]), 1, "n_actions")[0])
            labels = check_integers(arrays["labels"], X.shape[0], "labels")
            reject_rows((labels < 0) | (labels >= n_actions), labels, "labels", f"0 to {n_actions - 1}")
        else:
            labels = check_actions(arrays["labels"], rows=X.shape[0], name="labels")
    constant = np.ones((X.shape[0], 1))
    if sparse.issparse(X):
        return sparse.csr_array(sparse.hstack([X, constant], format="csr")), labels, n_actions
    return np.hstack([X, constant]), labels, n_actions


def read_split(path: str | Path, n_contexts: int) -> dict[str, np.ndarray]:
    """Read the context numbers of a split: logging, train and heldout."""
    split = read_npz(path, ["logging", "train", "heldout"])
    with prefix_errors(path):
        for name, numbers in split.items():
            if not np.size(numbers):
                raise InputError(f"no contexts in {name!r}, expected at least one")
        return {name: check_context(numbers, np.size(numbers), n_contexts) for name, numbers in split.items()}


def write_policy(path: str | Path, policy: ExponentialPolicy | SoftmaxPolicy, **notes) -> None:
    """Write a policy's coefficients, with any arrays worth noting beside them."""
    write_npz(path, coef=policy.coef, **notes)


def read_policy(path: str | Path, actions: Actions | None = None) -> ExponentialPolicy | SoftmaxPolicy:
    """Read a policy's coefficients; the actions say which kind of policy it is, by default of label vectors."""
    coef = read_npz(path, ["coef"])["coef"]
    with prefix_errors(path):
        coef = check_coefficients(coef)
        return make_policy(actions, coef) if actions else ExponentialPolicy(coef)


def write_log(path: str | Path, log: BanditLog, train: np.ndarray, heldout: np.ndarray) -> None:
    """Write a log, and how often each of its rows occurs in the training and in the held-out part."""
    rows = {"Y": log.Y, "propensity": log.propensity, "cost": log.cost, "context": log.context}
    known = {name: np.array(value) for name, value in log.actions.log_options.items()}
    write_npz(path, X=log.X, **rows, **known, train=train, heldout=heldout)


def read_log(path: str | Path) -> tuple[BanditLog, BanditLog]:
    """Read the training and the held-out part of a log; what is wrong in it is said with the file's name."""
    arrays = read_npz(path, ["X", "Y", "propensity", "cost", "context", "train", "heldout"], optional=["n_actions"])
    train, heldout = arrays.pop("train"), arrays.pop("heldout")
    with prefix_errors(path):
        if "n_actions" in arrays:
            arrays["n_actions"] = int(check_integers(np.atleast_1d(arrays["n_actions"]), 1, "n_actions")[0])
        log = BanditLog(**arrays)
        return log.recount(train), log.recount(heldout)


def _named(features: np.ndarray) -> dict:
    """A feature map by its name and size, from JSON."""
    try:
        named = json.loads(str(features))
    except json.JSONDecodeError:
        named = None
    if not isinstance(named, dict):
        raise InputError(f"features is {str(features)!r}, expected a feature map as JSON")
    return named


def read_fits(path: str | Path, n_scores: int) -> dict[str, np.ndarray]:
    """Read k fits: coef (k, d, q), scores (k, s), chosen (s,), tilt (1,), and by its name what each fit has, (k,).

    InputError for another shape or a value out of range; grid, scores and tilt may have NaN.
    """
    names = ["grid", "ridge", "step", "coef", "iterations", "converged", "scores", "chosen", "tilt"]
    fits = read_npz(path, names, optional=["features"])
    with prefix_errors(path):
        if "features" in fits:
            fits["features"] = _named(fits["features"])
        for name in ("grid", "ridge", "step", "coef", "scores", "tilt"):
            fits[name] = as_float_array(fits[name], name)
        k = fits["grid"].size
        expected = {"grid": (k,), "ridge": (k,), "step": (k,), "scores": (k, n_scores), "tilt": (1,)}
        if not k or fits["coef"].shape[:1] != (k,) or fits["coef"].ndim != 3:
            raise InputError(f"grid has {k} values, coef has shape {fits['coef'].shape}, expected one (d, q) for each")
        for name, shape in expected.items():
            if fits[name].shape != shape:
                raise InputError(f"{name} has shape {fits[name].shape}, expected {shape}")
        check_coefficients(fits["coef"].reshape(k, -1))
        fits["iterations"] = check_integers(fits["iterations"], k, "iterations")
        fits["converged"] = check_actions(np.asarray(fits["converged"])[None], name="converged")[0]
        fits["chosen"] = check_integers(fits["chosen"], n_scores, "chosen")
        reject_rows((fits["chosen"] < -1) | (fits["chosen"] >= k), fits["chosen"], "chosen", f"-1 to {k - 1}")
        if fits["converged"].shape != (k,):
            raise InputError(f"converged has shape {fits['converged'].shape}, expected ({k},)")
    return fits
