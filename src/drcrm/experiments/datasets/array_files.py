"""Files that the pipeline's steps exchange as npz: labelled contexts, splits, policies, logs, cost models and fits."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from drcrm.actions.base import Actions
from drcrm.arrays.validation import (
    Features,
    as_float_array,
    check_actions,
    check_coefficients,
    check_context,
    check_features,
    check_integers,
    check_vector,
    reject_rows,
)
from drcrm.cost_models.context_effects import check_variances
from drcrm.cost_models.ridge_model import CostModel
from drcrm.data.bandit_log import BanditLog
from drcrm.errors import InputError, prefix_errors
from drcrm.experiments.simulation.truth import Truth, as_truth
from drcrm.files import read_npz, write_npz
from drcrm.policies.exponential import ExponentialPolicy, SoftmaxPolicy, make_policy


def read_contexts(path: str | Path) -> tuple[Features, np.ndarray]:
    """Read labelled contexts like :func:`read_truth`, and return labels (n, q) or classes (n,)."""
    X, truth = read_truth(path)
    return X, truth.labels


def read_truth(path: str | Path) -> tuple[Features, Truth]:
    """Read labelled contexts and append a constant feature 1. Raise InputError for content out of range."""
    arrays = read_npz(path, ["X", "labels"], optional=["n_actions"])
    with prefix_errors(path):
        X = check_features(arrays["X"])
        n = X.shape[0]
        if "n_actions" in arrays:
            labels = check_integers(arrays["labels"], n, "labels")
            truth = as_truth(labels, _read_n_actions(arrays))
        else:
            truth = as_truth(check_actions(arrays["labels"], rows=n, name="labels"))
    constant = np.ones((n, 1))
    if sparse.issparse(X):
        return sparse.csr_array(sparse.hstack([X, constant], format="csr")), truth
    return np.hstack([X, constant]), truth


def _read_n_actions(arrays: Mapping[str, np.ndarray]) -> int:
    return int(check_integers(np.atleast_1d(arrays["n_actions"]), 1, "n_actions")[0])


def read_split(path: str | Path, n_contexts: int) -> dict[str, np.ndarray]:
    """Read the context numbers of a split, by the names logging, train and heldout."""
    split = read_npz(path, ["logging", "train", "heldout"])
    with prefix_errors(path):
        for name, numbers in split.items():
            if not np.size(numbers):
                raise InputError(f"{name!r} must have at least one context, got none")
        return {name: check_context(numbers, np.size(numbers), n_contexts) for name, numbers in split.items()}


def write_policy(path: str | Path, policy: ExponentialPolicy | SoftmaxPolicy, **arrays: np.ndarray) -> None:
    """Write a policy's coefficients and further arrays."""
    write_npz(path, coef=policy.coef, **arrays)


def read_policy(path: str | Path, actions: Actions | None = None) -> ExponentialPolicy | SoftmaxPolicy:
    """Read a policy's coefficients. The actions, by default label vectors, determine the kind of policy."""
    coef = read_npz(path, ["coef"])["coef"]
    with prefix_errors(path):
        coef = check_coefficients(coef)
        return make_policy(actions, coef) if actions else ExponentialPolicy(coef)


def write_log(path: str | Path, log: BanditLog, train: np.ndarray, heldout: np.ndarray) -> None:
    """Write a log, and how often each row occurs in the training part and in the held-out part."""
    rows = {"Y": log.Y, "propensity": log.propensity, "cost": log.cost, "context": log.context}
    options = {name: np.array(value) for name, value in log.actions.log_options.items()}
    write_npz(path, X=log.X, **rows, **options, train=train, heldout=heldout)


def read_log(path: str | Path) -> tuple[BanditLog, BanditLog]:
    """Read the training part and the held-out part of a log."""
    arrays = read_npz(path, ["X", "Y", "propensity", "cost", "context", "train", "heldout"], optional=["n_actions"])
    train, heldout = arrays.pop("train"), arrays.pop("heldout")
    with prefix_errors(path):
        if "n_actions" in arrays:
            arrays["n_actions"] = _read_n_actions(arrays)
        log = BanditLog(**arrays)
        return log.recount(train), log.recount(heldout)


def read_cost_model(path: str | Path) -> CostModel:
    """Read a cost model: coefficients, intercept (0 if missing), and the variances of context effects if it has any."""
    model, arrays = CostModel(), read_npz(path, ["coef"], optional=["intercept", "covariance", "noise"])
    with prefix_errors(path):
        model.coef_ = check_coefficients(arrays["coef"])
        if "intercept" in arrays:
            model.intercept_ = check_vector(arrays["intercept"], model.coef_.shape[1], "intercept")
        if "covariance" in arrays:
            model.variances_ = check_variances(arrays["covariance"], arrays.get("noise"), model.coef_.shape[1])
    return model


def read_fits(path: str | Path, n_scores: int) -> dict[str, Any]:
    """Read the arrays of k fits, see :func:`drcrm.experiments.steps.learning.fit`.

    Raise InputError for a wrong shape or a value out of range. The arrays grid, scores and tilt may contain NaN.
    """
    names = ["grid", "ridge", "step", "coef", "iterations", "converged", "scores", "chosen", "tilt"]
    fits = read_npz(path, names, optional=["features", "feature_map"])
    with prefix_errors(path):
        if "features" in fits:
            fits["features"] = _parse_feature_map(fits["features"])
        for name in ("grid", "ridge", "step", "coef", "scores", "tilt"):
            fits[name] = as_float_array(fits[name], name)
        k = fits["grid"].size
        if not k or fits["coef"].shape[:1] != (k,) or fits["coef"].ndim != 3:
            raise InputError(f"coef must have shape (k, d, q) for k = {k} > 0 grid values, got {fits['coef'].shape}")
        check_coefficients(fits["coef"].reshape(k, -1))
        fits["iterations"] = check_integers(fits["iterations"], k, "iterations")
        fits["converged"] = check_actions(np.asarray(fits["converged"])[None], name="converged")[0]
        fits["chosen"] = check_integers(fits["chosen"], n_scores, "chosen")
        reject_rows((fits["chosen"] < -1) | (fits["chosen"] >= k), fits["chosen"], "chosen", f"-1 to {k - 1}")
        shapes = {**dict.fromkeys(("grid", "ridge", "step", "converged"), (k,)), "scores": (k, n_scores), "tilt": (1,)}
        for name, shape in shapes.items():
            if fits[name].shape != shape:
                raise InputError(f"{name} must have shape {shape}, got {fits[name].shape}")
    return fits


def _parse_feature_map(features: np.ndarray) -> dict:
    """Return name and size of a feature map from its JSON."""
    try:
        parsed = json.loads(str(features))
    except json.JSONDecodeError:
        parsed = None
    if not isinstance(parsed, dict):
        raise InputError(f"features must be a feature map as JSON, got {str(features)!r}")
    return parsed
