"""Fit an algorithm for every value of its grid, and score every fit on the held-out part.

Reads   --log: npz from replay; --logging: npz from log_crf, for starts at π0 and its support; --cost-model: npz from
        cost_model, for doubly robust estimates and scores, and starts tilted by it.
Writes  --output: npz with, for the k grid values: grid (k,), coef (k, features, labels), objective, iterations,
        converged (k,), scores (k, s) in the order of metrics, chosen (s,), the grid index that each score chooses, and
        tilt (1,), the κ of the start; ridge and step (k,) of candidates, see GridFit; and features, where there is a
        map, as JSON: it is fitted to the training contexts, here and wherever the policies are used.
"""

import argparse
import json
import sys
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path

import numpy as np

from drcrm.cost_models.ridge_model import CostModel
from drcrm.errors import prefix_errors
from drcrm.experiments.datasets.array_files import read_log, read_policy
from drcrm.experiments.feature_maps import feature_map
from drcrm.experiments.steps import add_shared, json_object, require
from drcrm.experiments.steps.cost_model import read_cost_model
from drcrm.files import write_npz
from drcrm.optimization.lbfgs import STOPPING, LbfgsSettings
from drcrm.selection.algorithms import ESTIMATORS, Algorithm, find_estimator
from drcrm.selection.grid_search import LearnSettings, learn


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_shared(parser, "log", "output")
    parser.add_argument("--logging", type=Path, help="npz from log_crf")
    parser.add_argument("--cost-model", type=Path, help="npz from cost_model")
    parser.add_argument("--estimator", required=True, help=f"{', '.join(ESTIMATORS)}, or module:Class of a risk")
    parser.add_argument("--parameter", default="", help="name of the hyper-parameter (none for CIPS)")
    parser.add_argument("--grid", nargs="*", type=float, default=[], metavar="VALUE", help="its values")
    parser.add_argument(
        "--options",
        type=json_object,
        default={},
        metavar="JSON",
        help="of the risk, estimate, weight, start, tilt, ridge, support, safe, context_effects, features",
    )
    parser.add_argument(
        "--variance-penalty-scale",
        choices=("calibrated", "unit"),
        help="for POEM alone: its grid in units of λ0 = −mean cost ÷ its standard error (the public code, the default),"
        " or as it is (the paper)",
    )
    parser.add_argument(
        "--stopping",
        choices=STOPPING,
        default=STOPPING[0],
        help="L-BFGS's tolerances in units of the logged costs' deviation and of each feature's scale (the default), or"
        " of the objective and the features as they are (the public code)",
    )


def run(options: argparse.Namespace) -> None:
    estimator, unit = find_estimator(options.estimator), options.variance_penalty_scale
    require(estimator.calibrated or unit is None, f"--variance-penalty-scale is POEM's, not {estimator.name}'s")
    algorithm = Algorithm(options.estimator, options.parameter or None, options.grid, options.options)
    algorithm.criteria()  # what is wrong with it is said before the log is read
    train, heldout = read_log(options.log)
    logging_policy = read_policy(options.logging, train.actions) if options.logging else None
    cost_model = read_cost_model(options.cost_model) if options.cost_model else None
    if features := options.options.get("features"):
        mapped = feature_map(features, train.X)
        train, heldout = (each.replace(X=mapped(each.X)) for each in (train, heldout))
        logging_policy, cost_model = mapped.pad_policy(logging_policy), CostModel().fit_log(train)
    calibrated = estimator.calibrated and unit != "unit"
    with prefix_errors(options.log) if calibrated else nullcontext():
        settings = LearnSettings(is_calibrated=calibrated, lbfgs=LbfgsSettings(stopping=options.stopping))
        fits = learn(train, algorithm, heldout, logging_policy, cost_model, settings).fits
    write_npz(options.output, **asdict(fits), **({"features": np.array(json.dumps(features))} if features else {}))
    for what, which in {
        "no convergence": ~fits.converged,
        "ends where it began": fits.converged & (fits.iterations == 0) & (fits.step == 1),
    }.items():
        values = [f"{algorithm.parameter} {value:g}" if algorithm.parameter else "all" for value in fits.grid[which]]
        if values:
            print(f"{estimator.name}: {what}: {', '.join(values)}", file=sys.stderr)
