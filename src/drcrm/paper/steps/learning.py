"""Learn from a log: fit the cost model, fit an algorithm for each value of its grid, or train a classifier."""

import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from drcrm.cost_models.context_effects import context_effects
from drcrm.cost_models.ridge_model import CostModel
from drcrm.errors import prefix_errors
from drcrm.files import write_npz
from drcrm.optimization.lbfgs import LbfgsSettings
from drcrm.paper.array_files import read_contexts, read_cost_model, read_log, read_policy
from drcrm.paper.simulation.logging_policies import closest_policy, with_probabilities
from drcrm.paper.simulation.replay import generator
from drcrm.policies.prepared_log import PreparedLog
from drcrm.policies.stored_policies import arrays_of
from drcrm.risks import VariancePenalizedRisk
from drcrm.selection.grid_search import calibrated_penalty, learn_with_features
from drcrm.selection.registry.algorithms import Algorithm, find_risk
from drcrm.selection.registry.fit_settings import FitSettings


def cost_model(files: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Fit the cost model to the training part of a log.

    Reads ``log``. Writes ``model``, an npz file. Its arrays are the intercept, the penalty, and coef
    (features + 1, labels + 1). The last column of coef belongs to no label. The intercept is 0, because one feature is
    constant. If the actions have context effects, the file also has their covariance, (labels + 1, labels + 1), and the
    noise.
    """
    train, _ = read_log(files["log"])
    model = CostModel().fit(train)
    arrays = {"coef": model.coef_, "intercept": model.intercept_, "penalty": np.array(model.penalty_)}
    if train.actions.prefers_context_effects:
        sample = PreparedLog(train).sample.log  # the whole log unless it is large
        effects = context_effects(sample, model.effects(sample.X, sample.actions))
        if effects.noise > 0:
            arrays |= {"covariance": effects.covariance, "noise": np.array(effects.noise)}
    write_npz(files["model"], **arrays)


def fit(files: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Fit an algorithm for every value of its grid and score every fit on the held-out part of the log.

    Parameters
    ----------
    files
        ``log``. Optional are ``logging``, the policy π0 for starts and support, and ``cost_model``, which algorithms
        with a feature map do not use. If π0 has a feature map, support and scores use its probabilities, and fits start
        at the closest policy that is linear in the features. The step writes ``fits``, an npz file with arrays for k
        grid values and s held-out scores:

        - grid, ridge, step, objective, iterations, converged: (k,)
        - coef: (k, features, labels)
        - scores: (k, s)
        - chosen: (s,), the index of the grid value that each score chooses
        - tilt: (1,), the strength κ with which the cost model tilts the start
        - features: the fitted feature map as bytes, if there is one
    settings
        The algorithm's entry in the configuration, such as ``estimator``, ``parameter``, ``grid`` and ``options``, and
        ``stopping``. If the entry's ``variance_penalty_scale``, an option of the experiment, is "calibrated", POEM's
        grid is in units of λ0, which depends on the log. Wildcards of the rule are also there, unused.
    """
    # Errors of the algorithm are reported before the log is read.
    algorithm = Algorithm.of_entry(settings, settings=FitSettings(LbfgsSettings(stopping=settings["stopping"])))
    scale, risk = settings.get("variance_penalty_scale"), find_risk(settings["estimator"])
    is_calibrated = scale == "calibrated" and risk is VariancePenalizedRisk
    train, heldout = read_log(files["log"])
    logging_policy = read_policy(files["logging"], train.actions) if "logging" in files else None
    if logging_policy is not None and logging_policy.features:
        train, heldout = (with_probabilities(log, logging_policy) for log in (train, heldout))
        logging_policy = closest_policy(train)
    model = read_cost_model(files["cost_model"]) if "cost_model" in files and not algorithm.settings.features else None
    if is_calibrated:
        with prefix_errors(files["log"]):
            algorithm = replace(algorithm, grid=[*(calibrated_penalty(train) * algorithm.values)])
    learned = learn_with_features(train, algorithm, heldout, logging_policy, model)
    arrays = arrays_of(learned.candidates[0].policy) | learned.as_arrays()
    if is_calibrated:
        configured = dict(zip(algorithm.values, settings["grid"], strict=True))
        arrays["grid"] = np.array([configured.get(value, value) for value in arrays["grid"]], dtype=float)
    write_npz(files["fits"], **arrays)
    for problem, mask in {
        "no convergence": ~arrays["converged"],
        "stopped at the start": arrays["converged"] & (arrays["iterations"] == 0) & (arrays["step"] == 1),
    }.items():
        values = [f"{algorithm.parameter} {v:g}" if algorithm.parameter else "all" for v in arrays["grid"][mask]]
        if values:
            print(f"{algorithm.title}: {problem}: {', '.join(values)}", file=sys.stderr)


def classify(files: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Train a reward-weighted classifier, a model of the costs, or a user's competitor, and predict the test contexts.

    Reads ``log``, ``logging`` and ``test``. Writes ``probabilities``: npz with probability (contexts, actions or
    labels).
    """
    from drcrm.paper.classifiers import action_probabilities, cheapest_actions, competitor_probabilities

    train, _ = read_log(files["log"])
    X, _ = read_contexts(files["test"])
    with prefix_errors(files["log"]):
        if "classifier" in settings:
            train.actions.require_classes("a classifier")
        seed = int(generator(settings["dataset"], settings["seed"], "classify").integers(2**31))
        kind, weights = settings.get("classifier"), settings.get("weights") or "none"
        if kind is None:
            probability = competitor_probabilities(train, X, settings["competitor"], seed)
        elif kind == "cost_trees":
            probability = cheapest_actions(train, X, read_policy(files["logging"], train.actions), seed)
        else:
            probability = action_probabilities(train, X, kind, weights, seed)
    write_npz(files["probabilities"], probability=probability)
