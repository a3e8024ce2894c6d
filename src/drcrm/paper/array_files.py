"""Files that the pipeline's steps exchange as npz: labelled contexts, splits, policies, logs, cost models and fits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from drcrm.actions.base import Actions
from drcrm.arrays.validation import (
    Features,
    append_constant,
    check_features,
)
from drcrm.data.bandit_log import BanditLog
from drcrm.errors import prefix_errors
from drcrm.files import read_npz, write_npz
from drcrm.paper.simulation import Truth, as_truth
from drcrm.policies.exponential import LinearPolicy, make_policy
from drcrm.policies.stored_policies import FEATURES, arrays_of, features_of

if TYPE_CHECKING:
    from drcrm.cost_models.ridge_model import CostModel


def read_truth(path: str | Path) -> tuple[Features, Truth]:
    """Read labelled contexts and append a constant feature 1. Raise InputError for content out of range."""
    arrays = read_npz(path, ["X", "labels"], optional=["n_actions"])
    with prefix_errors(path):
        X = check_features(arrays["X"])
        truth = as_truth(arrays["labels"], int(arrays["n_actions"]) if "n_actions" in arrays else None)
    return append_constant(X), truth


def read_split(path: str | Path) -> dict[str, np.ndarray]:
    """Read the context numbers of a split, by the names logging, train and heldout."""
    return read_npz(path, ["logging", "train", "heldout"])


def write_policy(path: str | Path, policy: LinearPolicy, **arrays: np.ndarray) -> None:
    """Write a policy's arrays and further arrays."""
    write_npz(path, **arrays_of(policy), **arrays)


def read_policy(path: str | Path, actions: Actions) -> LinearPolicy:
    """Read a policy over a kind of action, also a logging policy that is a function of a CRF's probabilities."""
    arrays = read_npz(path, ["coef"], optional=["logging", FEATURES])
    with prefix_errors(path):
        policy = make_policy(actions, arrays["coef"], features=features_of(arrays))
        if "logging" in arrays:
            from drcrm.paper.reference_policies import function_of_crf

            policy = function_of_crf(policy, json.loads(str(arrays["logging"])))
    return policy


def write_log(path: str | Path, log: BanditLog, train: np.ndarray, heldout: np.ndarray) -> None:
    """Write a log, and how often each row occurs in the training part and in the held-out part."""
    rows = {"Y": log.Y, "propensity": log.propensity, "cost": log.cost, "context": log.context}
    options = {name: np.array(value) for name, value in log.actions.log_options.items()}
    write_npz(path, X=log.X, **rows, **options, train=train, heldout=heldout)


def read_log(path: str | Path) -> tuple[BanditLog, BanditLog]:
    """Read the training part and the held-out part of a log.

    The contexts of the training part are its groups, because several replays share them. The held-out part has none:
    the paper's scores count rows.
    """
    arrays = read_npz(path, ["X", "Y", "propensity", "cost", "context", "train", "heldout"], optional=["n_actions"])
    train, heldout = arrays.pop("train"), arrays.pop("heldout")
    with prefix_errors(path):
        if "n_actions" in arrays:
            arrays["n_actions"] = int(arrays["n_actions"])
        log = BanditLog(**arrays)
        return log.with_groups(log.context).recount(train), log.recount(heldout)


def read_cost_model(path: str | Path) -> CostModel:
    """Read a cost model: coefficients, intercept (0 if missing), and the variances of context effects if it has any."""
    from drcrm.cost_models.context_effects import check_variances
    from drcrm.cost_models.ridge_model import CostModel

    model, arrays = CostModel(), read_npz(path, ["coef"], optional=["intercept", "covariance", "noise"])
    model.coef_ = arrays["coef"]
    model.intercept_ = arrays.get("intercept", model.intercept_)
    if "covariance" in arrays:
        model.variances_ = check_variances(arrays["covariance"], arrays.get("noise"), model.coef_.shape[1])
    return model


def read_fits(path: str | Path) -> dict[str, Any]:
    """Read the arrays of k fits, see :func:`drcrm.paper.steps.learn.fit`."""
    names = ["grid", "ridge", "step", "coef", "iterations", "converged", "scores", "chosen", "tilt"]
    return read_npz(path, names, optional=[FEATURES])
