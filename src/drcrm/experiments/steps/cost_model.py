"""Fit a model of the cost to the training part of a log.

Reads   --log: npz from replay.
Writes  --output: npz with coef (features + 1, labels + 1), the label columns and then that of no label, the
        intercept, which is 0 as one feature is constant, and the penalty chosen; where the actions have context
        effects also their covariance, (labels + 1, labels + 1), and noise.
"""

import argparse
from pathlib import Path

import numpy as np

from drcrm.arrays.validation import check_coefficients, check_vector
from drcrm.cost_models.context_effects import check_variances, context_effects
from drcrm.cost_models.ridge_model import CostModel
from drcrm.errors import prefix_errors
from drcrm.experiments.datasets.array_files import read_log
from drcrm.experiments.steps import add_shared
from drcrm.files import read_npz, write_npz


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_shared(parser, "log", "output")


def run(options: argparse.Namespace) -> None:
    train, _ = read_log(options.log)
    model = CostModel().fit_log(train)
    known = {"coef": model.coef_, "intercept": model.intercept_, "penalty": np.array(model.penalty_)}
    if train.actions.effect_space.has_context_effects:
        of_contexts = context_effects(train, model.action_effects(train.X, train.actions))
        if of_contexts.noise > 0:
            known |= {"covariance": of_contexts.covariance, "noise": np.array(of_contexts.noise)}
    write_npz(options.output, **known)


def read_cost_model(path: str | Path) -> CostModel:
    """Read a cost model's coefficients, its intercept, 0 where there is none, and the variances of context effects.

    Here, not in ``formats``: what is made without a cost model does not depend on its code.
    """
    model, arrays = CostModel(), read_npz(path, ["coef"], optional=["intercept", "covariance", "noise"])
    with prefix_errors(path):
        model.coef_ = check_coefficients(arrays["coef"])
        if "intercept" in arrays:
            model.intercept_ = check_vector(arrays["intercept"], model.coef_.shape[1], "intercept")
        if "covariance" in arrays:
            model.variances_ = check_variances(arrays["covariance"], arrays.get("noise"), model.coef_.shape[1])
    return model
