"""Learn from a log: fit the cost model, fit an algorithm for each value of its grid, or train a classifier."""

import json
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import asdict
from typing import Any

import numpy as np

from drcrm.arrays.stored_estimators import to_bytes
from drcrm.cost_models.context_effects import context_effects
from drcrm.cost_models.ridge_model import CostModel
from drcrm.errors import InputError, prefix_errors
from drcrm.experiments.datasets.array_files import read_contexts, read_cost_model, read_log, read_policy
from drcrm.experiments.simulation.random_generators import generator
from drcrm.files import write_npz
from drcrm.optimization.lbfgs import LbfgsSettings
from drcrm.policies.feature_map_names import LEARNED_SCORES
from drcrm.selection.grid_search import LearnSettings, learn
from drcrm.selection.learned_scores import learn_over_scores
from drcrm.selection.registry.algorithms import Algorithm, find_estimator


def cost_model(inputs: Mapping[str, str], outputs: Mapping[str, str], parameters: Mapping[str, Any]) -> None:
    """Fit the cost model to the training part of a log.

    Reads ``log``. Writes ``model``, an npz file. Its arrays are the intercept, the penalty, and coef
    (features + 1, labels + 1). The last column of coef belongs to no label. The intercept is 0, because one feature is
    constant. If the actions have context effects, the file also has their covariance, (labels + 1, labels + 1), and the
    noise.
    """
    train, _ = read_log(inputs["log"])
    model = CostModel().fit_log(train)
    arrays = {"coef": model.coef_, "intercept": model.intercept_, "penalty": np.array(model.penalty_)}
    if train.actions.has_context_effects:
        effects = context_effects(train, model.action_effects(train.X, train.actions))
        if effects.noise > 0:
            arrays |= {"covariance": effects.covariance, "noise": np.array(effects.noise)}
    write_npz(outputs["model"], **arrays)


def fit(inputs: Mapping[str, str], outputs: Mapping[str, str], parameters: Mapping[str, Any]) -> None:
    """Fit an algorithm for every value of its grid and score every fit on the held-out part of the log.

    Parameters
    ----------
    inputs
        ``log``. Optional are ``logging``, the policy π0 for starts and support, and ``cost_model``.
    outputs
        ``fits``: npz with arrays for k grid values and s held-out scores:

        - grid, ridge, step, objective, iterations, converged: (k,)
        - coef: (k, features, labels)
        - scores: (k, s)
        - chosen: (s,), the index of the grid value that each score chooses
        - tilt: (1,), the strength κ with which the cost model tilts the start
        - features: the feature map as JSON, if there is one
        - feature_map: the fitted map of learned scores as bytes, if there is one
    parameters
        ``estimator``, ``parameter``, ``grid`` and ``options`` of the algorithm, and ``stopping``. ``calibrated`` says
        whether POEM's grid is in units of λ0, which depends on the log.
    """
    estimator = find_estimator(parameters["estimator"])
    options, is_calibrated = parameters["options"], parameters["calibrated"]
    algorithm = Algorithm(parameters["estimator"], parameters["parameter"], parameters["grid"], options)
    algorithm.criteria()  # reports a wrong algorithm before the log is read
    train, heldout = read_log(inputs["log"])
    logging_policy = read_policy(inputs["logging"], train.actions) if "logging" in inputs else None
    model = read_cost_model(inputs["cost_model"]) if "cost_model" in inputs else None
    settings = LearnSettings(is_calibrated=is_calibrated, lbfgs=LbfgsSettings(stopping=parameters["stopping"]))
    features, stored = options.get("features"), {}
    if features == LEARNED_SCORES:
        learned, mapped = learn_over_scores(train, algorithm, heldout, logging_policy, settings)
        fits, stored = learned.fits, {"feature_map": to_bytes(mapped, "the map of learned scores")}
    else:
        if features:
            from drcrm.policies.feature_maps import FeatureMap, as_transformer

            mapped = FeatureMap(as_transformer(features), train.X)
            train, heldout = (part.replace(X=mapped(part.X)) for part in (train, heldout))
            logging_policy, model = mapped.pad_policy(logging_policy), CostModel().fit_log(train)
            stored = {"features": np.array(json.dumps(features))}
        with prefix_errors(inputs["log"]) if is_calibrated else nullcontext():
            fits = learn(train, algorithm, heldout, logging_policy, model, settings).fits
    write_npz(outputs["fits"], **asdict(fits), **stored)
    for problem, mask in {
        "no convergence": ~fits.converged,
        "stopped at the start": fits.converged & (fits.iterations == 0) & (fits.step == 1),
    }.items():
        values = [f"{algorithm.parameter} {value:g}" if algorithm.parameter else "all" for value in fits.grid[mask]]
        if values:
            print(f"{estimator.name}: {problem}: {', '.join(values)}", file=sys.stderr)


def classify(inputs: Mapping[str, str], outputs: Mapping[str, str], parameters: Mapping[str, Any]) -> None:
    """Train a reward-weighted classifier, or a user's competitor, on a log and predict the test contexts.

    Reads ``log`` and ``test``. Writes ``probabilities``: npz with probability (contexts, actions or labels).
    """
    from drcrm.experiments.classifiers import action_probabilities, competitor_probabilities

    train, _ = read_log(inputs["log"])
    X, _ = read_contexts(inputs["test"])
    with prefix_errors(inputs["log"]):
        if parameters["classifier"] and not train.actions.are_classes:
            raise InputError(f"a classifier needs one action of K per row, got {train.actions}")
        seed = int(generator(parameters["dataset"], parameters["seed"], "classify").integers(2**31))
        kind, weights = parameters["classifier"], parameters["weights"]
        if kind is None:
            probability = competitor_probabilities(train, X, parameters["competitor"], seed)
        else:
            probability = action_probabilities(train, X, kind, weights, seed)
    write_npz(outputs["probabilities"], probability=probability)
